"""(b) The executive's own cost a frame: what is left when the model and the law cost nothing.

One plant with one state, one controller at the plant's own rate, so that each frame has a step, two
messages (the sampled inputs, the answer), a second microstep in which the answer arrives, and x-
and x+ recorded to a file by the writing process.

The compiled engine: as fast as possible, a figure is the mean frame of one call of compiled code
with all that Python does after it (up to 2048 frames; the backlog of the writing process is short
enough that the loop never waits for it).  *With the writer* is a whole run until its recording is
closed, by frame.  In real time it is the compute time of the certificate, after real sleeps.

The interpreter: a frame is all there is between two calls of the clock.  *Waits return at once*:
in real time, each exactly on time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from rtsim.components.controller import PythonController
from rtsim.core.clock import VirtualClock, Wake, WallClock, stopwatch
from rtsim.core.signals import Signals, Vector
from rtsim.equations.model import Model
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.timing.certificate import Certificate
from rtsim.timing.policy import CatchUp
from tools.bench.results import Figures, Result, Row
from tools.bench.timed import TimedFile, TimedNothing
from tools.bench.turns import spread

PERIOD_NS = 1_000_000
BOUND_NS, INTERPRETED_NS, SLEPT_NS = 3_000.0, 30_000.0, 20_000.0
PACED_HZ = (100, 1000)
_LEAST_BATCH = 200
"""Frames; a shorter batch is mostly what its first tag costs."""


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """An integrator."""
    dx[0] = u[0]


def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Another command each time, so that x+ differs from x- and is recorded."""
    y[0] = -u[0]


INTEGRATOR = Model(
    "integrator", Signals("x = 1"), derivative, inputs=Signals("rate [1/s]"), parameters=Signals()
)


def scenario(rate: int = 10**9 // PERIOD_NS) -> Scenario:
    """One plant, one controller, a tick of each in every frame; ``rate`` in Hz."""
    out, period = Scenario("frame"), f"1/{rate}"
    out.plant("plant", INTEGRATOR, step=period, inputs={"rate": "controller.rate"})
    out.controller(
        "controller",
        PythonController(law, Signals("x"), Signals("rate [1/s]"), compile=True),
        period=period,
        inputs={"x": "plant.x"},
    )
    return out


class StampedVirtual(VirtualClock):
    """Pace max; notes when each frame ended."""

    def __init__(self) -> None:
        super().__init__()
        self.stamps: list[int] = []

    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        self.stamps.append(stopwatch())
        return super().wait_until(ns, wake)

    def frames(self) -> list[int]:
        """ns of each whole frame."""
        return np.diff(self.stamps).tolist()


class Punctual(WallClock):
    """Real time without the waiting: each wait returns at once, and by its own time on time."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.waits: list[tuple[int, int, int]] = []

    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:  # noqa: ARG002
        came = stopwatch()
        self.offset_ns += self.wall(ns) - self.now()
        self.waits.append((ns, came, stopwatch()))
        return True

    def frames(self) -> list[int]:
        """ns of each frame outside its wait; those that began late are left out."""
        rows = np.array(self.waits, dtype=np.int64)
        busy = rows[1:, 1] - rows[:-1, 2]
        return busy[np.diff(rows[:, 0]) == PERIOD_NS].tolist()  # type: ignore[no-any-return]


@contextmanager
def recorder(recording: bool) -> Iterator[TimedFile | TimedNothing]:
    """A recorder to a file that is thrown away, or none."""
    if not recording:
        yield TimedNothing()
        return
    with tempfile.TemporaryDirectory() as folder, TimedFile(Path(folder, "frame.mcap")) as file:
        yield file


def interpret(clock: StampedVirtual | Punctual, seconds: float) -> list[int]:
    """One run on the interpreter, recorded; ns of each frame."""
    pace = Pace(1.0 if clock.paced else None, CatchUp(10**9))
    with recorder(True) as file:
        simulate(
            scenario(), pace=pace, until=seconds, recorder=file, clock=clock, engine="interpreted"
        )
    return clock.frames()


def compile_fast(seconds: float, recording: bool) -> tuple[list[float], float]:
    """One run on the compiled engine: ns a frame of each batch, and of the whole run."""
    stamps: list[tuple[int, int]] = []
    with recorder(recording) as file:
        outcome = simulate(
            scenario(), until=seconds, recorder=file, engine="compiled",
            observe=lambda progress: stamps.append((progress.ns, stopwatch())),
        )  # fmt: skip
        whole = (file.finished - file.ready) * PERIOD_NS / outcome.ended.ns
    rows = np.diff(np.array(stamps, dtype=np.int64), axis=0)
    frames = rows[:, 0] // PERIOD_NS
    long = frames >= _LEAST_BATCH
    return (rows[long, 1] / frames[long]).tolist(), whole


def compile_paced(rate: int, seconds: float) -> Certificate:
    """One run in real time on the compiled engine, recorded; ``rate`` in Hz."""
    with recorder(True) as file:
        outcome = simulate(
            scenario(rate), pace=Pace(1.0, CatchUp(10**9)), until=seconds, recorder=file,
            engine="compiled",
        )  # fmt: skip
    return outcome.certificate


def run(quick: bool = False, seconds: float | None = None) -> Result:
    """Measure; ``seconds`` is the length of each paced run."""
    length = seconds if seconds is not None else (2.0 if quick else 10.0)
    fast: dict[bool, list[float]] = {True: [], False: []}
    whole: list[float] = []
    slept: dict[int, list[Certificate]] = {rate: [] for rate in PACED_HZ}
    virtual: list[int] = []
    punctual: list[int] = []
    compile_fast(length, True)
    for _ in range(1 if quick else 3):
        for recording, batches in fast.items():
            found, took = compile_fast(2 * length, recording)
            batches += found
            whole += [took] if recording else []
        for rate, certificates in slept.items():
            certificates.append(compile_paced(rate, length))
        virtual += interpret(StampedVirtual(), 2 * length)
        punctual += interpret(Punctual(), 2 * length)
    return Result("frame", "the executive's own cost a frame", rows=(
        _bounded("compiled engine, as fast as possible, recording", spread(fast[True]), BOUND_NS),
        Row("... until the recording is closed, with the writer", spread(whole)),
        Row("... no recording", spread(fast[False])),
        *(
            _bounded(f"... paced at {r} Hz, after a sleep: computing", compute(c), SLEPT_NS)
            for r, c in slept.items()
        ),
        _bounded("interpreter, as fast as possible, recording", spread(virtual), INTERPRETED_NS),
        _bounded("... paced, waits return at once", spread(punctual), INTERPRETED_NS),
    ))  # fmt: skip


def _bounded(what: str, figures: Figures, most: float) -> Row:
    median = figures["median [ns]"]
    assert median is not None
    return Row(what, figures, f"median <= {most / 1e3:g} us", median <= most)


def compute(certificates: list[Certificate]) -> Figures:
    """The pacer's own figures: median over the runs of each, the greatest of the greatest."""
    computed = [c.compute for c in certificates]
    figures: dict[str, float | None] = {}
    for column, name in (("median", "median"), ("p99", "p99"), ("p99.9", "p99_9")):
        known = [v for v in (getattr(s, name) for s in computed) if v is not None]
        figures[f"{column} [ns]"] = float(np.median(known)) if known else None
    figures["max [ns]"] = float(max(s.max or 0 for s in computed))
    return figures
