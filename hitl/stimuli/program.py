"""Compile a controller with probes into a program that runs input sequences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hitl.building.build import Build
from hitl.building.coverage import user_files
from hitl.building.flags import ALWAYS, ENTRY_POINTS, EXACT, OWN, C, of_any_dialect
from hitl.building.toolchain import BuildError, Toolchain, find_toolchain
from hitl.building.unit import SUPPORT, unit_text
from hitl.building.width import MACHINE
from hitl.stimuli.errors import StimuliError
from hitl.stimuli.probes import Instrumenter, Probed

_HEADER = "rtsim_probes.h"
_OPTIMISED = "-O1"


@dataclass(frozen=True)
class Program:
    """A compiled controller with probes."""

    path: Path
    found: Probed
    """Its branches, in the order of the program's reports."""
    distances: bool
    """False if the compiler accepted only probes without distances."""
    hazards: bool
    """False if the compiler did not accept probes of divisors, indices, shifts and sums."""


@contextmanager
def program(build: Build, toolchain: Toolchain | None = None) -> Iterator[Program]:
    """Compile the sources of ``build`` with probes; the program is deleted after the block.

    Raises :class:`StimuliError` if the sources cannot be compiled with probes, and
    :class:`BuildError` if the compiler fails.
    """
    if build.interface.language.cpp:
        raise StimuliError(
            f"{build.interface.name} is not in C: conditions are read in C only, not in C++ or "
            "Arduino code; write the stimuli by hand"
        )
    toolchain = toolchain or find_toolchain()
    with TemporaryDirectory(prefix="rtsim-stimuli-") as name:
        job = _Job(build, toolchain, Path(name))
        yield job.best()


class _Job:
    def __init__(self, build: Build, toolchain: Toolchain, work: Path) -> None:
        self.interface, self.toolchain, self.work = build.interface, toolchain, work
        self.here = build.interface.path.parent
        self.files = [*build.interface.sources, *user_files(build)]
        folders = (f"-I{folder}" for folder in self.interface.include)
        self.users = [*folders, *self.interface.flags]
        self.header = (SUPPORT / _HEADER).read_bytes()

    def best(self) -> Program:
        """Return the program with the most probes that the compiler accepts."""
        problem = ""
        for distances, hazards in ((True, True), (True, False), (False, False)):
            try:
                return self.made(distances, hazards)
            except BuildError as error:
                problem = str(error)
        raise StimuliError(
            f"{self.interface.name} cannot be compiled with probes in its conditions, although it "
            f"compiles without them; write the stimuli by hand\n{problem}"
        )

    def made(self, distances: bool, hazards: bool) -> Program:
        instrumenter = Instrumenter(self.files, distances, hazards)
        objects = [
            self._object(instrumenter, source, number)
            for number, source in enumerate(self.interface.sources)
        ]
        (self.work / "unit.c").write_text(unit_text(self.interface), encoding="utf-8")
        table = f"const unsigned rtsim_branches = {len(instrumenter.found.branches)}u;\n"
        (self.work / "table.c").write_text(table, encoding="utf-8")
        machine = [flag for flag in self.interface.flags if flag.startswith(MACHINE)]
        flags = [*OWN, *C, f"-I{SUPPORT}", *of_any_dialect(self.users), *EXACT, *ENTRY_POINTS, "-w"]
        objects.append(self._compiled(flags, self.work / "unit.c"))
        objects.append(self._compiled([*OWN, *C, *machine], self.work / "table.c"))
        objects.append(self._compiled([*OWN, *C, *machine, f"-I{SUPPORT}"], SUPPORT / "stimuli.c"))
        path = self.work / "stimuli"
        libraries = [f"-l{name}" for name in (*self.interface.libraries, "m")]
        self._run(*objects, "-o", path, *self.interface.flags, *libraries)
        return Program(path, instrumenter.found, distances, hazards)

    def _object(self, instrumenter: Instrumenter, source: Path, number: int) -> Path:
        plain, probed = self.work / f"{number}.i", self.work / f"probed-{number}.c"
        flags = [_OPTIMISED, *self.users]
        self._run(*flags, "-E", source, "-o", plain)
        probed.write_bytes(self.header + instrumenter.instrument(plain.read_bytes(), self.here))
        return self._compiled([*ALWAYS, *of_any_dialect(flags), "-std=gnu11", "-w"], probed)

    def _compiled(self, flags: list[str], source: Path) -> Path:
        into = self.work / f"{source.stem}.o"
        self._run(*flags, "-c", source, "-o", into)
        return into

    def _run(self, *arguments: str | Path) -> None:
        self.toolchain.run(arguments, self.here)
