"""(d) NASA's F-16 check cases at pace max: simulated over wall time.

Step 5 ms, law and guidance at 50 Hz over the bus, everything recorded.  The wall time runs from
when all is ready and the writing process is there to when the recording is finished and closed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from rtsim.core.clock import stopwatch
from rtsim.models.f16.scenario import scenario
from rtsim.record.file import FileRecorder
from rtsim.record.memory_recorder import NullRecorder
from rtsim.runs.simulation import simulate
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns

CASES = ("13.1", "15")
BOUND = 300.0


class _TimedFile(FileRecorder):
    """Notes when the recording was ready to begin, and when it was finished."""

    ready = finished = 0

    def start(self, header: Mapping[str, object]) -> None:
        super().start(header)
        self.ready = stopwatch()

    def finish(self, footer: Mapping[str, object]) -> None:
        super().finish(footer)
        self.finished = stopwatch()


class _TimedNothing(NullRecorder):
    ready = finished = 0

    def start(self, header: Mapping[str, object]) -> None:  # noqa: ARG002
        self.ready = stopwatch()

    def finish(self, footer: Mapping[str, object]) -> None:  # noqa: ARG002
        self.finished = stopwatch()


def fly(case: str, recording: bool, until: float = 0.0) -> float:
    """Simulated over wall time of one flight; ``until`` 0 is the case's own duration."""
    flown = scenario(case, until=until)
    with tempfile.TemporaryDirectory() as folder:
        file = _TimedFile(Path(folder, "f16.mcap")) if recording else _TimedNothing()
        outcome = simulate(flown, recorder=file)
        return outcome.ended.ns / (file.finished - file.ready)


def run(quick: bool = False, until: float = 0.0, rounds: int | None = None) -> Result:
    """Measure: whole flights in turns."""
    flights: dict[tuple[str, bool], Callable[[], float]] = {
        (case, recording): _flight(case, recording, until or (60.0 if quick else 0.0))
        for case in CASES
        for recording in (True, False)
    }
    speeds = in_turns(
        {f"{c} {r}": f for (c, r), f in flights.items()}, rounds or (2 if quick else 7)
    )
    rows = []
    for case, recording in flights:
        seen = np.array(speeds[f"{case} {recording}"])
        figures = {
            "median": float(np.median(seen)), "slowest": float(seen.min()),
            "fastest": float(seen.max()),
        }  # fmt: skip
        what = f"case {case}, {'recording' if recording else 'no recording'}"
        bound = (f">= {BOUND:g}", figures["median"] >= BOUND) if recording else ()
        rows.append(Row(what, figures, *bound))
    return Result("speed", "F-16 closed loop, times faster than real time", tuple(rows))


def _flight(case: str, recording: bool, until: float) -> Callable[[], float]:
    return lambda: fly(case, recording, until)
