"""Run input sequences in a program with probes (``hitl/building/c/stimuli.c``)."""

from __future__ import annotations

import signal
import struct
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from hitl.building.build import (
    ALWAYS,
    CPP,
    ENTRY_POINTS,
    EXACT,
    OWN,
    Build,
    C,
    Compilation,
    of_any_dialect,
)
from hitl.building.coverage import user_files
from hitl.building.toolchain import BuildError, Toolchain, find_toolchain
from hitl.building.unit import SUPPORT, unit_text
from hitl.stimuli.file import StimuliError
from hitl.stimuli.probes import Instrumenter, Probed, Probes
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Vector

Table = NDArray[np.float64]
_MAGIC = 0x52545354
_GREETING = struct.Struct("=4I")
_OK, _REFUSED, _INEXACT, _NOT_FINITE, _NO_START, _THREW = range(6)
_SIGNALLED, _EXITED = 1000, 2000
MOST_SEQUENCES = 10_000
"""Greatest number of sequences in one batch."""


@dataclass(frozen=True, eq=False)
class Reached(Judged):
    """The goals that one sequence reached.

    For n branches, the search has g = 2 n goals. The first n goals are the branches. The second n
    goals are to reach a branch with nearly equal compared values.
    """

    status: int
    steps: int
    """Number of answered steps."""
    tie: float
    """The least relative difference of two compared values that were not equal."""
    distance: Vector
    """The least distance to each goal, shape (g,); 0 if reached, inf if never evaluated."""
    sides: Table
    """Both sides of the comparison at the least distance, shape (g, 2)."""

    def _judge(self) -> Outcome:
        if self.refused:
            return Outcome.UNDECIDED
        return Outcome.PASSED if self.status == _OK else Outcome.FAILED

    @property
    def in_words(self) -> str:
        return self.failure or f"{self.steps} steps were answered"

    @property
    def refused(self) -> bool:
        """True if an input does not fit its C type."""
        return self.status == _REFUSED

    @property
    def failure(self) -> str:
        if self.ok or self.refused:
            return ""
        if self.status >= _EXITED:
            return f"it called exit({self.status - _EXITED})"
        if self.status >= _SIGNALLED:
            number = self.status - _SIGNALLED
            if number == signal.SIGXCPU:
                return "it did not end within 2 s"
            if number == signal.SIGALRM:
                return "it did not end within 30 s"
            known = {s.value: s.name for s in signal.Signals}
            return f"it was ended by {known.get(number, f'signal {number}')}"
        said = {
            _INEXACT: "an output does not fit a double",
            _NOT_FINITE: "an output is NaN or infinite",
            _NO_START: "it refused its parameters",
            _THREW: "it threw an exception that nothing caught",
        }
        return said.get(self.status, f"it ended with status {self.status}")

    @property
    def hits(self) -> NDArray[np.bool_]:
        """True for each reached goal, shape (g,); all False if the program failed."""
        return np.asarray(self.distance == 0.0) & self.ok


class Runner:
    """A program with probes, and the number of sequences that it has run."""

    def __init__(self, program: Path, parameters: Vector, inputs: int, branches: int) -> None:
        self.inputs, self.branches = inputs, branches
        self.runs = 0
        self.goals = 2 * branches
        self._size = 16 + 24 * self.goals
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._write(np.ascontiguousarray(parameters, np.float64).tobytes())
        greeting = _GREETING.unpack(self._read(_GREETING.size))
        if greeting != (_MAGIC, branches, inputs, len(parameters)):
            self.close()
            raise StimuliError(
                f"the program with branch probes began with {greeting}, but rtsim expected "
                f"{(_MAGIC, branches, inputs, len(parameters))}; report this error of rtsim"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._process.wait()

    def run(self, sequences: Sequence[Table]) -> list[Reached]:
        """Run each sequence (k, m) in a new process."""
        out: list[Reached] = []
        for at in range(0, len(sequences), MOST_SEQUENCES):
            out += self._batch(sequences[at : at + MOST_SEQUENCES])
        self.runs += len(sequences)
        return out

    def _batch(self, sequences: Sequence[Table]) -> list[Reached]:
        parts = [struct.pack("=I", len(sequences))]
        for one in sequences:
            if one.ndim != 2 or one.shape[1] != self.inputs:
                raise StimuliError(f"a sequence has shape {one.shape}; expected (k, {self.inputs})")
            parts += [struct.pack("=I", len(one)), np.ascontiguousarray(one).tobytes()]
        self._write(b"".join(parts))
        answer = self._read(len(sequences) * self._size)
        return [self._one(answer[k * self._size :][: self._size]) for k in range(len(sequences))]

    def _one(self, report: bytes) -> Reached:
        status, steps, tie = struct.unpack_from("=iid", report)
        probes = np.frombuffer(report, np.float64, offset=16).reshape(self.goals, 3)
        return Reached(status, steps, tie, probes[:, 0], probes[:, 1:])

    def _write(self, data: bytes) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        try:
            pipe.write(data)
            pipe.flush()
        except OSError:
            raise self._ended() from None

    def _read(self, size: int) -> bytes:
        pipe = self._process.stdout
        assert pipe is not None
        data = _all(pipe, size)
        if len(data) < size:
            raise self._ended()
        return data

    def _ended(self) -> StimuliError:
        pipe = self._process.stderr
        assert pipe is not None
        status = self._process.wait()
        said = pipe.read().decode(errors="replace").strip()
        return StimuliError(
            f"the program with probes ended with status {status}"
            + (f": {said}" if said else "; free memory, and try again")
        )


def _all(pipe: IO[bytes], size: int) -> bytes:
    parts, missing = [], size
    while missing and (part := pipe.read(missing)):
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)


# -- compilation of a controller with probes into a program that runs input sequences

_HEADER = "rtsim_probes.h"
_OPTIMISED = "-O1"


@dataclass(frozen=True)
class Program:
    """A compiled controller with probes."""

    path: Path
    found: Probed
    """The branches, in the order of the program's reports."""
    probes: Probes
    """The kinds of probes that the compiler accepted."""

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Descriptions of code that is not measured."""
        out = []
        if self.found.unread:
            out.append(f"the functions at {', '.join(self.found.unread)}")
        if not self.probes.calls:
            out.append("calls such as fmin, and comparisons whose value is used")
        elif not self.probes.apart:
            out.append("the calls of each function, one by one")
        if self.found.merged:
            out.append(f"the calls, one by one, of {', '.join(sorted(self.found.merged))}")
        if self.found.undefined:
            out.append(f"functions whose text is not there: {', '.join(self.found.undefined)}")
        return tuple(out)


@contextmanager
def program(build: Build, toolchain: Toolchain | None = None) -> Iterator[Program]:
    """Compile the sources of ``build`` with probes.

    The program is deleted at the end of the ``with`` block.

    Raises :class:`StimuliError` if the sources cannot be compiled with probes, and
    :class:`BuildError` if the compiler fails.
    """
    toolchain = toolchain or find_toolchain(build.interface.language.cpp)
    with TemporaryDirectory(prefix="rtsim-stimuli-") as name:
        job = _Job(build, toolchain, Path(name))
        yield job.best()


@dataclass(frozen=True)
class _Text:
    """A preprocessed source with its compiler flags."""

    name: str
    text: bytes
    cpp: bool
    flags: list[str]


_PROBES = (
    Probes(),
    Probes(apart=False),
    Probes(hazards=False),
    Probes(hazards=False, apart=False),
    Probes(hazards=False, calls=False, apart=False),
    Probes(hazards=False, calls=False, apart=False, distances=False),
)
"""Combinations of probes that are tried until the compiler accepts one."""


class _Job(Compilation):
    def __init__(self, build: Build, toolchain: Toolchain, work: Path) -> None:
        super().__init__(build.interface, toolchain)
        self.work = work
        self.files = [*build.interface.sources, *user_files(build)]
        self.header = (SUPPORT / _HEADER).read_bytes()

    def best(self) -> Program:
        problem = ""
        for probes in _PROBES:
            try:
                return self.made(probes)
            except BuildError as error:
                problem = str(error)
        raise StimuliError(
            f"{self.interface.name} compiles, but not with the branch probes that the search "
            f"needs; write the stimuli by hand. The compiler printed:\n{problem}"
        )

    def made(self, probes: Probes) -> Program:
        instrumenter = Instrumenter(self.files, probes)
        unit = self.work / ("unit.cpp" if self.cpp else "unit.c")
        unit.write_text(unit_text(self.interface), encoding="utf-8")
        own = [*OWN, f"-I{SUPPORT}", *of_any_dialect(self.users), *EXACT, "-w"]
        how = CPP if self.cpp else (*C, *ENTRY_POINTS)
        read = [self._read(source, number) for number, source in enumerate(self.interface.sources)]
        # The unit calls its own copies of inline functions and classes of the user's headers.
        read.append(self._preprocessed([*own, *how], unit, "unit", self.cpp))
        if probes.apart:
            for one in read:
                instrumenter.read(one.text, self.here, one.cpp)
            instrumenter.found.undefined = instrumenter.calls_of.undefined
        objects = [self._probed(instrumenter, one) for one in read]
        table = f"const unsigned rtsim_branches = {len(instrumenter.found.branches)}u;\n"
        period = round(self.interface.period.ns)
        table += f"const long long rtsim_period_ns = {period}LL;\n"
        (self.work / "table.c").write_text(table, encoding="utf-8")
        for source in self.arduino:
            objects.append(self._object_of([*own, *CPP], source, cpp=True))
        objects.append(self._object_of([*OWN, *C, *self.machine], self.work / "table.c"))
        objects.append(
            self._object_of([*OWN, *C, *self.machine, f"-I{SUPPORT}"], SUPPORT / "stimuli.c")
        )
        path = self.work / "stimuli"
        flags = [*self.interface.flags, *self.libraries]
        self.run(*objects, "-o", path, *flags, cpp=self.cpp)
        return Program(path, instrumenter.found, probes)

    def _read(self, source: Path, number: int) -> _Text:
        cpp, read = self.is_cpp(source), self.compiled(source, self.work)
        flags = [_OPTIMISED, *self.users]
        where = (f"-iquote{source.parent}", "-x", "c++") if cpp else ()
        how = flags if cpp else [*of_any_dialect(flags), "-std=gnu11"]
        how = [*ALWAYS, *how, "-w"]
        return self._preprocessed(how, read, str(number), cpp, [*flags, *where])

    def _preprocessed(
        self,
        flags: list[str],
        source: Path,
        name: str,
        cpp: bool,
        before: list[str] | None = None,
    ) -> _Text:
        plain = self.work / f"{name}.i"
        self.run(*(before or flags), "-E", source, "-o", plain, cpp=cpp)
        return _Text(name, plain.read_bytes(), cpp, flags)

    def _probed(self, instrumenter: Instrumenter, one: _Text) -> Path:
        probed = self.work / f"probed-{one.name}.{'cpp' if one.cpp else 'c'}"
        text = instrumenter.instrument(one.text, self.here, one.cpp)
        probed.write_bytes(self.header + text)
        return self._object_of(one.flags, probed, one.cpp)

    def _object_of(self, flags: list[str], source: Path, cpp: bool = False) -> Path:
        into = self.work / f"{source.stem}.o"
        self.run(*flags, "-c", source, "-o", into, cpp=cpp)
        return into
