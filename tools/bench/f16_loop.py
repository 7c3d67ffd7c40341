"""NASA's case 13.1 as one C program: compiled on the spot, run, and compared with rtsim's rows."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_int64
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.models.f16.controller import COURSE_PARAMETERS, LAW_INPUTS, LAW_PARAMETERS
from rtsim.models.f16.plant import F16
from rtsim.models.f16.scenario import case, scenario
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from tools.bench.f16_c import FLAGS, compile_library

CASE = "13.1"
GUST = slice(12, 14)
"""Of the parameters of the F-16: the two components of the gust.  The first 12 are those of C."""
AGREE = 1e-9
SOURCE = Path(__file__).with_name("f16_loop.c")
_ROOT = Path(__file__).resolve().parents[2]
_STEP_NS, _PERIOD_NS = 5_000_000, 20_000_000
_PILOT = LAW_INPUTS.names[:10]

TRACKS = {
    "f16": 3,
    "messages/autopilot": 9,
    "messages/guidance": 9,
    "messages/autopilot.inputs": 9,
    "messages/guidance.inputs": 9,
}
"""The tracks that the C program writes, and how many words of a row are integers."""


class Void(RtsimError):
    """The C program computes something else; nothing is compared."""


class _Run(ctypes.Structure):
    """``struct run`` of f16_loop.c."""

    _fields_ = (
        ("plant", c_double * 12),
        ("law", c_double * 24),
        ("track", c_double * 3),
        ("pilot", c_double * 10),
        ("course", c_double * 2),
        ("x", c_double * 13),
        ("altitude_command", c_double),
        ("command_ns", c_int64),
        ("step_ns", c_int64),
        ("period_ns", c_int64),
        ("until_ns", c_int64),
    )


class CLoop:
    """The compiled program; a run of ``until`` s, 0 for the duration of the case."""

    def __init__(self, folder: Path, until: float = 0.0, flags: tuple[str, ...] = FLAGS) -> None:
        found = compile_library(folder, SOURCE, flags, (SOURCE.parent, _ROOT / "firmware" / "core"))
        self._call = found.f16_run
        self._folder = folder
        self.until_ns = round((until or case(CASE).duration) * 1e9)
        self.bytes = 0
        """Length of the rows of the latest recorded run."""

    def _run(self) -> _Run:
        chosen = case(CASE)
        ((seconds, name, value),) = chosen.commands
        if name != "altitude_command":
            raise Void(f"case {CASE} commands {name}; tools/bench/f16_loop.c knows the altitude")
        given = chosen.law_inputs
        law = LAW_PARAMETERS.initial(chosen.law_parameters)
        track = COURSE_PARAMETERS.initial(chosen.guidance_parameters)
        plant = F16.parameters.initial(chosen.parameters)
        if any(plant[GUST]):
            raise Void(f"case {CASE} has a gust, which tools/bench/f16_loop.c does not know")
        return _Run(
            (c_double * 12)(*plant[:12]),
            (c_double * 24)(*law),
            (c_double * 3)(*track),
            (c_double * 10)(*(given.get(n, 0.0) for n in _PILOT)),
            (c_double * 2)(given["course_command"], given["offset_command"]),
            (c_double * 13)(*chosen.state),
            value, round(seconds * 1e9), _STEP_NS, _PERIOD_NS, self.until_ns,
        )  # fmt: skip

    def fly(self, recording: bool) -> float:
        """One run; returns simulated over wall time."""
        run, paths = self._run(), None
        if recording:
            names = [str(self._folder / f"{i}.rows").encode() for i in range(len(TRACKS))]
            paths = (ctypes.c_char_p * len(TRACKS))(*names)
        began = stopwatch()
        failed = self._call(ctypes.byref(run), paths)
        took = stopwatch() - began
        if failed:
            raise OSError(f"the C program could not write to {self._folder}")
        if recording:
            self.bytes = sum(Path(self._folder, f"{i}.rows").stat().st_size for i in range(5))
        return self.until_ns / took

    def rows(self, track: str) -> NDArray[np.int64]:
        """The words that the latest recorded run wrote, without their shape."""
        return np.fromfile(self._folder / f"{list(TRACKS).index(track)}.rows", np.int64)


def check(c: CLoop) -> tuple[float, float]:
    """The greatest difference of a recorded double, relative to the range of its column.

    Returns the difference at the end of the run, and that anywhere in it.  A column that is
    constant is compared relative to its magnitude.  Raises :class:`Void` for a difference above
    :data:`AGREE` in any row, and for rows with other times, stamps or numbers.
    """
    recorder = MemoryRecorder()
    simulate(scenario(CASE, until=c.until_ns / 1e9), recorder=recorder)
    c.fly(recording=True)
    found, last, worst = recorder.recording(), 0.0, 0.0
    for name, integers in TRACKS.items():
        ours, theirs = np.asarray(found.track(name).words), c.rows(name)
        if ours.size != theirs.size:
            raise Void(f"{name}: rtsim records {ours.size} words, the C program {theirs.size}")
        theirs = theirs.reshape(ours.shape)
        if not np.array_equal(ours[:, :integers], theirs[:, :integers]):
            raise Void(f"{name}: the C program writes other times or stamps than rtsim")
        a, b = (np.ascontiguousarray(w[:, integers:]).view(np.float64) for w in (ours, theirs))
        span, size = np.ptp(a, axis=0), np.abs(a).max(axis=0)
        scale = np.where(span > AGREE * size, span, size)
        relative = np.abs(a - b) / np.where(scale > 0.0, scale, 1.0)
        last, worst = max(last, float(relative[-1].max())), max(worst, float(relative.max()))
    if not worst <= AGREE:
        raise Void(
            f"tools/bench/f16_loop.c differs from rtsim by {worst:.3g} of a column's range, "
            f"allowed {AGREE:g}: it is not the same program; mend f16_loop.c"
        )
    return last, worst
