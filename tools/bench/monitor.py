"""What requirements cost a paced loop: 1 kHz with 20 requirements evaluated in the run, and none.

The same flight by turns with and without requirements; both are recorded in a file.  The writing
process evaluates the requirements.  The bounds are those of the window (:mod:`tools.bench.pilot`).
The last rows show the work that another process does for the loop.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from rtsim.cli.running import WATCHING
from rtsim.core.clock import stopwatch
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.writer_process import WRITER
from rtsim.requirements.monitor import Monitor
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.timing.policy import CatchUp
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns, spread
from tools.bench.web import STARTING_S, rows, timed

ALONE, WATCHED = "1 kHz, without requirements", "1 kHz, with 20 requirements"
STEP_NS = 100_000_000
REQUIREMENTS = (
    *(f"always abs(f16.{name}) < 100 deg" for name in ("roll_deg", "pitch_deg", "alpha_deg")),
    *(f"always abs(f16.{name}) < 2 rad/s" for name in ("roll_rate", "pitch_rate", "yaw_rate")),
    *(f"always f16.load_factor < {limit}" for limit in (3, 6, 9)),
    *(
        f"always (abs(f16.roll_deg) > {deg} deg implies "
        f"eventually[0, {s}] abs(f16.roll_deg) < {deg} deg)"
        for deg, s in ((1, 1), (5, 2), (10, 5), (20, 1))
    ),
    *(f"always[1, 60] eventually[0, {s}] always[0, 1] f16.mach > 0.1" for s in (1, 2, 5)),
    *(f"always (once[0, {s}] f16.altitude_ft > 100 ft)" for s in (1, 5)),
    "always (f16.alpha_deg > 15 deg implies f16.load_factor > 0)",
    "always abs(f16.elevator_angle) < 60 deg or eventually f16.mach > 3",
)


def run(quick: bool = False) -> Result:
    """Measure; some minutes."""
    seconds, rounds = (2.0, 1) if quick else (10.0, 8)
    title = f"{len(REQUIREMENTS)} requirements during the run, {rounds} pairs of {seconds:g} s"
    overruns: dict[str, list[float]] = {ALONE: [], WATCHED: []}

    def turn(name: str) -> float:
        late, count, _ = _flown(seconds, name == WATCHED)
        overruns[name].append(count)
        return late

    p99 = in_turns({name: partial(turn, name) for name in overruns}, rounds)
    found = rows(p99, overruns, (ALONE, WATCHED))
    return Result("monitor", title, (*found, *evaluation(seconds)))


def _flown(seconds: float, watched: bool, paced: bool = True) -> tuple[float, float, Recording]:
    """Return p99 of the wake lateness, ns, the number of overruns, and the recording."""
    scenario = flight()
    if watched:
        scenario.require_all(*(f"R{k}: {one}" for k, one in enumerate(REQUIREMENTS)))
    until = STARTING_S + seconds
    with tempfile.TemporaryDirectory(prefix="rtsim-bench-") as folder:
        path = Path(folder, "run.mcap")
        with FileRecorder(path, writer=WATCHING if watched and paced else WRITER) as recorder:
            pace = Pace(1.0, policy=CatchUp(10**9)) if paced else "max"
            simulate(scenario, until=until, pace=pace, recorder=recorder)
        recording = Recording.open(path)
        return *(timed(recording) if paced else (0.0, 0.0)), recording


def flight() -> Scenario:
    return load_scenario("f16-by-hand", {"step": "0.001"})


def evaluation(seconds: float) -> tuple[Row, Row]:
    """Return the time of one evaluation of all requirements, after each 0.1 s of a flight."""
    _, _, recording = _flown(seconds, watched=True, paced=False)
    monitor = Monitor(recording.header, [track.spec for track in recording.tracks.values()])
    took, done = [], -1
    for now in range(0, recording.end_ns, STEP_NS):
        for track in recording.tracks.values():
            here = (track.ns > done) & (track.ns <= now)
            monitor.track(track.name, np.asarray(track.words)[here])
        begun = stopwatch()
        monitor.look(now)
        took.append(stopwatch() - begun)
        done = now
    share = sum(took) / (len(took) * STEP_NS)
    return (
        Row("in the writing process: an evaluation after 0.1 s", spread(took)),
        Row("  of the time of a CPU", {"share": share}),
    )
