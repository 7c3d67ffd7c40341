"""(b) The executive's own cost a frame: what is left when the model and the law cost nothing.

One plant with one state, one controller at the plant's own rate, so that each frame has a step, two
messages (the sampled inputs, the answer), a second microstep in which the answer arrives, and x-
and x+ recorded to a file by the writing process.  A frame is all there is between two calls of the
clock.  The bound holds for the code: at pace max, and in real time where each wait returns at once,
exactly on time.  After a real sleep the same code finds its caches cold; those rows show what that
adds (docs/decisions/024-cost-of-a-frame.md), *computing* as the pacer counts it, *all but the wait*
with the pacer's own bookkeeping.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rtsim.components.controller import PythonController
from rtsim.core.clock import VirtualClock, Wake, WallClock, stopwatch
from rtsim.core.signals import Signals, Vector
from rtsim.equations.model import Model
from rtsim.record.file import FileRecorder
from rtsim.record.memory_recorder import NullRecorder, Recorder
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.timing.certificate import Certificate
from rtsim.timing.policy import CatchUp
from tools.bench.results import Result, Row
from tools.bench.turns import spread

PERIOD_NS = 1_000_000
BOUND_NS = 30_000.0


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """An integrator."""
    dx[0] = u[0]


def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Another command each time, so that x+ differs from x- and is recorded."""
    y[0] = -u[0]


INTEGRATOR = Model(
    "integrator", Signals("x = 1"), derivative, inputs=Signals("rate [1/s]"), parameters=Signals()
)


def scenario() -> Scenario:
    """One plant, one controller, a tick of each in every frame."""
    out = Scenario("frame")
    out.plant("plant", INTEGRATOR, step="1/1000", inputs={"rate": "controller.rate"})
    out.controller(
        "controller",
        PythonController(law, inputs=Signals("x"), outputs=Signals("rate [1/s]")),
        period="1/1000",
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


class StampedWall(WallClock):
    """Real time; notes between which waits the loop was busy."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.waits: list[tuple[int, int, int]] = []

    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        came = stopwatch()
        reached = super().wait_until(ns, wake)
        self.waits.append((ns, came, stopwatch()))
        return reached

    def frames(self) -> list[int]:
        """ns of each frame outside its wait; those that began late are left out."""
        rows = np.array(self.waits, dtype=np.int64)
        busy = rows[1:, 1] - rows[:-1, 2]
        return busy[np.diff(rows[:, 0]) == PERIOD_NS].tolist()  # type: ignore[no-any-return]


class Punctual(StampedWall):
    """Real time without the waiting: each wait returns at once, and by its own time on time."""

    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:  # noqa: ARG002
        came = stopwatch()
        self.offset_ns += self.wall(ns) - self.now()
        self.waits.append((ns, came, stopwatch()))
        return True


@dataclass
class Samples:
    """Of one kind of run, over all rounds [ns]."""

    frames: list[int] = field(default_factory=list)
    certificates: list[Certificate] = field(default_factory=list)


@contextmanager
def recorder(recording: bool) -> Iterator[Recorder]:
    """A recorder to a file that is thrown away, or none."""
    if not recording:
        yield NullRecorder()
        return
    with tempfile.TemporaryDirectory() as folder, FileRecorder(Path(folder, "frame.mcap")) as file:
        yield file


def fly(clock: StampedVirtual | StampedWall, seconds: float, recording: bool, to: Samples) -> None:
    """One run; adds its frames to ``to``."""
    pace = Pace(1.0 if clock.paced else None, CatchUp(10**9))
    with recorder(recording) as file:
        outcome = simulate(scenario(), pace=pace, until=seconds, recorder=file, clock=clock)
    to.frames += clock.frames()
    to.certificates.append(outcome.certificate)


def run(quick: bool = False, seconds: float | None = None) -> Result:
    """Measure; ``seconds`` is the length of each paced run."""
    length = seconds if seconds is not None else (2.0 if quick else 10.0)
    paced, punctual, fast, silent = Samples(), Samples(), Samples(), Samples()
    for _ in range(1 if quick else 3):
        fly(StampedWall(), length, True, paced)
        fly(Punctual(), 2 * length, True, punctual)
        fly(StampedVirtual(), 2 * length, True, fast)
        fly(StampedVirtual(), 2 * length, False, silent)
    return Result("frame", f"the executive's own cost at {10**9 // PERIOD_NS} Hz", rows=(
        _bounded("pace max, recording", fast),
        Row("pace max, no recording", spread(silent.frames)),
        _bounded("paced, waits return at once, recording", punctual),
        Row("paced, after a sleep: all but the wait", spread(paced.frames)),
        _compute("paced, after a sleep: computing", paced),
    ))  # fmt: skip


def _bounded(what: str, samples: Samples) -> Row:
    figures = spread(samples.frames)
    median = figures["median [ns]"]
    assert median is not None
    return Row(what, figures, f"median <= {BOUND_NS / 1e3:g} us", median <= BOUND_NS)


def _compute(what: str, samples: Samples) -> Row:
    """The pacer's own figures: median over the runs of each, the greatest of the greatest."""
    computed = [c.compute for c in samples.certificates]
    figures: dict[str, float | None] = {}
    for column, name in (("median", "median"), ("p99", "p99"), ("p99.9", "p99_9")):
        known = [v for v in (getattr(s, name) for s in computed) if v is not None]
        figures[f"{column} [ns]"] = float(np.median(known)) if known else None
    figures["max [ns]"] = float(max(s.max or 0 for s in computed))
    return Row(what, figures)
