"""Compile a controller with probes into a program that runs input sequences."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hitl.building.build import Build
from hitl.building.coverage import user_files
from hitl.building.flags import ALWAYS, CPP, ENTRY_POINTS, EXACT, OWN, C, of_any_dialect
from hitl.building.sketch_text import cpp_text
from hitl.building.toolchain import BuildError, Toolchain, find_toolchain
from hitl.building.unit import ARDUINO, ARDUINO_HOST, SUPPORT, unit_text
from hitl.building.width import MACHINE
from hitl.interface.language import is_cpp, is_sketch
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
    toolchain = toolchain or find_toolchain(build.interface.language.cpp)
    with TemporaryDirectory(prefix="rtsim-stimuli-") as name:
        job = _Job(build, toolchain, Path(name))
        yield job.best()


class _Job:
    def __init__(self, build: Build, toolchain: Toolchain, work: Path) -> None:
        self.interface, self.toolchain, self.work = build.interface, toolchain, work
        self.cpp = build.interface.language.cpp
        self.linker = toolchain.cpp() if self.cpp else toolchain
        self.here = build.interface.path.parent
        self.files = [*build.interface.sources, *user_files(build)]
        folders = (f"-I{folder}" for folder in self.interface.include)
        arduino = [f"-I{ARDUINO}"] if self.interface.language.clock else []
        self.users = [*folders, *arduino, *self.interface.flags]
        self.arduino = ARDUINO_HOST if arduino else ()
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
        unit = self.work / ("unit.cpp" if self.cpp else "unit.c")
        unit.write_text(unit_text(self.interface), encoding="utf-8")
        table = f"const unsigned rtsim_branches = {len(instrumenter.found.branches)}u;\n"
        period = round(self.interface.period.ns)
        table += f"const long long rtsim_period_ns = {period}LL;\n"
        (self.work / "table.c").write_text(table, encoding="utf-8")
        machine = [flag for flag in self.interface.flags if flag.startswith(MACHINE)]
        own = [*OWN, f"-I{SUPPORT}", *of_any_dialect(self.users), *EXACT, "-w"]
        how = CPP if self.cpp else (*C, *ENTRY_POINTS)
        # The unit calls its own copies of inline functions and classes of the user's headers.
        objects.append(self._probed(instrumenter, [*own, *how], unit, "unit", self.cpp))
        for source in self.arduino:
            objects.append(self._compiled([*own, *CPP], source, cpp=True))
        objects.append(self._compiled([*OWN, *C, *machine], self.work / "table.c"))
        objects.append(self._compiled([*OWN, *C, *machine, f"-I{SUPPORT}"], SUPPORT / "stimuli.c"))
        path = self.work / "stimuli"
        libraries = [f"-l{name}" for name in (*self.interface.libraries, "m")]
        self._run(*objects, "-o", path, *self.interface.flags, *libraries, cpp=self.cpp)
        return Program(path, instrumenter.found, distances, hazards)

    def _object(self, instrumenter: Instrumenter, source: Path, number: int) -> Path:
        cpp = self.cpp and is_cpp(source)
        flags = [_OPTIMISED, *self.users]
        read = source
        if is_sketch(source):
            read = self.work / f"{source.name}.cpp"
            text = source.read_text(encoding="utf-8", errors="surrogateescape")
            read.write_text(cpp_text(text, str(source)), "utf-8", "surrogateescape")
        where = (f"-iquote{source.parent}", "-x", "c++") if cpp else ()
        how = flags if cpp else [*of_any_dialect(flags), "-std=gnu11"]
        how = [*ALWAYS, *how, "-w"]
        return self._probed(instrumenter, how, read, str(number), cpp, [*flags, *where])

    def _probed(
        self,
        instrumenter: Instrumenter,
        flags: list[str],
        source: Path,
        name: str,
        cpp: bool,
        before: list[str] | None = None,
    ) -> Path:
        """Compile ``source`` with probes; ``before`` are the preprocessor's flags, if others."""
        plain = self.work / f"{name}.i"
        probed = self.work / f"probed-{name}.{'cpp' if cpp else 'c'}"
        self._run(*(before or flags), "-E", source, "-o", plain, cpp=cpp)
        text = instrumenter.instrument(plain.read_bytes(), self.here, cpp)
        probed.write_bytes(self.header + text)
        return self._compiled(flags, probed, cpp)

    def _compiled(self, flags: list[str], source: Path, cpp: bool = False) -> Path:
        into = self.work / f"{source.stem}.o"
        self._run(*flags, "-c", source, "-o", into, cpp=cpp)
        return into

    def _run(self, *arguments: str | Path, cpp: bool = False) -> None:
        (self.linker if cpp else self.toolchain).run(arguments, self.here)
