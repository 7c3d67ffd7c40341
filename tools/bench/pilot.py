"""(g) A pilot at the stick: cost of the window, its frames, and the latency of the stick.

All in turns in one run.  The window is a real one, on an X server without a screen (Xvfb) and
without a GPU; where there is no Xvfb, SDL's hidden one, and the pixel is not looked at.  The
simulation is the F-16 by hand, recorded, its stick moved 20 times a second by a virtual joystick.

*Simulation*: with and without the window, 1 kHz and 100 Hz.  A figure is the median over the
rounds, ``count`` that of the overruns.  At 100 Hz no overrun may be added in all rounds together.
At 1 kHz the overruns are held against those of a loop beside other work: a program that computes
as long as the window, as often and on the same processor, and shares nothing with the loop
(decision 058).  Counts that differ by one a round are not told apart.  Two rows more say what a
difference is made of: how much of it something on this system made, by computing or by standing in
line for a processor (:mod:`rtsim.timing.pacing`), and not the machine, which as a virtual one wakes
a loop late whenever its host is busy, with a window and without; and, where the kernel tells whom
the loop stood behind (:mod:`tools.bench.pilot_trace`, to root), how often that was a thread of the
window or the X server.  Of these there may be none.

*Frames*: intervals between two pictures handed to the screen, without the first second.  The loop
that they are held against draws nothing, has the same window, driver, absolute deadlines and quiet
collector, and the machine to itself: the viewer has the simulation beside it.  A film has 24
pictures a second: an interval of more than two of them, or two in a row of more than one, fails.

*Latency*: the viewer's own figures, from the reading of the device; and, by a process that shares
nothing with it (:mod:`tools.bench.pilot_probe`), from moving the mouse to another colour of one
pixel, the way through the X server and the wait for the reading included.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import Inbox
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.processes import ViewerProcess, Window
from rtsim.pilot.views import default_scene
from rtsim.record.file import FileRecorder
from rtsim.runs.simulation import Pace, RunResult, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.timing.policy import CatchUp
from rtsim.timing.scheduling import SchedulingRequest
from tools.bench.pilot_bystander import bystander, measured_share
from tools.bench.pilot_pixel import probed
from tools.bench.pilot_trace import MarkingRecorder, Traced, traced
from tools.bench.pilot_witness import ROOT, Script, Times, environment, shown, witnessed
from tools.bench.results import Result, Row
from tools.bench.turns import median_ratio
from tools.x11 import missing, xvfb

FPS, SIZE = 60.0, (1280, 720)
COST, INTERVAL = 1.5, 1.5
SHARE = 0.5
"""Of a processor's time, that of the window: other work computes as long as the window does."""
STEP_MORE_NS, FRAMES_MORE = 3e6, 2.0
FILM_NS = NS_PER_S / 24.0
FAST_HZ = 1000
_PATIENT = Pace(1.0, policy=CatchUp(10**9))
_WATCHED = replace(_PATIENT, scheduling=SchedulingRequest.watched())
_MOVES_HZ = 20.0
_PIXEL_HZ = 1000
_SERVERS = ("Xvfb",)
_LONGEST_START_S = 30
"""From the viewer's start to the run's: the stick is moved meanwhile, and to the end."""
_COLUMNS = ("median [ns]", "p95 [ns]", "p99 [ns]", "max [ns]", "count", "ratio [x]")


@dataclass(frozen=True)
class Size:
    """How long and how often."""

    seconds: float
    rounds: dict[int, int]
    """By rate of the simulation."""
    moves: int


FULL, QUICK = Size(4.0, {1000: 20, 100: 12}, 150), Size(2.0, {1000: 1, 100: 1}, 5)


@dataclass
class Rounds:
    """What came of one kind of run, round by round."""

    late_ns: list[float] = field(default_factory=list)
    """p99 of the wakes."""
    overruns: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    """Of these, what computing and other threads made; all where the system does not say."""
    computing: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    """The window's share of a processor's time; empty where the system does not say."""
    behind: list[float | None] = field(default_factory=list)
    """At how many the loop stood behind the window or the X server; None: the kernel does not say.
    """
    step_ns: list[float] = field(default_factory=list)
    """p95, from reading the stick to the tag; and to the picture."""
    picture_ns: list[float] = field(default_factory=list)
    intervals: list[Times] = field(default_factory=list)

    def note(self, outcome: RunResult, behind: float | None = None) -> None:
        late = outcome.certificate.lateness
        self.late_ns.append(float(late.p99 or late.max or 0))
        self.overruns.append(float(outcome.overruns))
        in_line, by = outcome.certificate.in_line, outcome.certificate.overruns
        self.ours.append(float(by["compute"] + (by["wake"] if in_line is None else in_line)))
        self.computing.append(float(by["compute"]))
        self.behind.append(behind)


def run(quick: bool = False) -> Result:
    """Measure; the window's driver stands in the title."""
    title = "a pilot in the loop"
    if find_spec("pygame") is None:
        return Result("pilot", title, skipped="no pygame; type: pip install 'rtsim[pilot]'")
    size, lacking = QUICK if quick else FULL, missing()
    rows: list[Row] = []
    with ExitStack() as undo:
        undo.enter_context(_hidden() if lacking else _screen())
        for hz, rounds in size.rounds.items():
            rows += _beside(hz, rounds, size.seconds)
        if lacking:
            rows.append(Row(f"stick to pixel: {lacking}", {}))
        else:
            rows.append(_pixel(size.moves))
    driver = "SDL's hidden driver" if lacking else "Xvfb, no GPU"
    return Result("pilot", f"{title}; {FPS:g} frames a second of {SIZE[0]}x{SIZE[1]}, {driver}",
                  tuple(rows))  # fmt: skip


@contextmanager
def _screen() -> Iterator[None]:
    with xvfb(*SIZE) as name, environment({"DISPLAY": name, "SDL_VIDEODRIVER": "x11"}):
        yield


@contextmanager
def _hidden() -> Iterator[None]:
    with environment({"SDL_VIDEODRIVER": "dummy"}):
        yield


# -- runs


def _beside(hz: int, rounds: int, seconds: float) -> list[Row]:
    """With the window, without, beside other work, and the empty loop, in turns."""
    alone, seen, other, empty = Rounds(), Rounds(), Rounds(), Rounds()
    turns: list[Callable[[], None]] = [
        lambda: _alone(hz, seconds, alone),
        lambda: _seen(hz, seconds, seen),
        lambda: _beside_other_work(hz, seconds, seen.busy, other),
        lambda: _empty(seconds, empty),
    ]
    _alone(hz, 0.2, Rounds())  # the compiler's turn
    for _ in range(rounds):
        for turn in turns:
            turn()
        turns.reverse()
    return [*_simulation_rows(hz, alone, seen, other), *_frame_rows(hz, seen, empty),
            *_latency_rows(hz, seen)]  # fmt: skip


def _flown(hz: int) -> Scenario:
    return load_scenario("f16-by-hand", {"step": str(1.0 / hz)})


def _alone(hz: int, seconds: float, to: Rounds, pace: Pace = _PATIENT) -> None:
    with tempfile.TemporaryDirectory() as folder:
        recorder = FileRecorder(Path(folder, "run.mcap"), stopwatch)
        outcome = simulate(_flown(hz), until=seconds, pace=pace, recorder=recorder, inbox=Inbox())
    to.note(outcome)


def _beside_other_work(hz: int, seconds: float, busy: Sequence[float], to: Rounds) -> None:
    """The scheduling of a run with a window, and other work for as long as the last window."""
    if hz >= FAST_HZ and busy:
        with bystander(busy[-1], FPS):
            _alone(hz, seconds, to, _WATCHED)


def _seen(hz: int, seconds: float, to: Rounds) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (
            witnessed(folder, moves(seconds + _LONGEST_START_S)),
            traced() if hz < FAST_HZ else nullcontext() as trace,
        ):
            outcome, latencies, behind = _watched(_flown(hz), seconds, folder, trace, to.busy)
        times = shown(folder)
    to.note(outcome, behind)
    to.step_ns.append(float(latencies["input_to_step"]["p95_ns"]))
    to.picture_ns.append(float(latencies["input_to_picture"]["p95_ns"]))
    to.intervals.append(intervals(times))


def _watched(
    scenario: Scenario, seconds: float, folder: Path, trace: Traced | None, busy: list[float]
) -> tuple[RunResult, dict[str, Any], float | None]:
    with Cockpit(scenario, "stick", default_scene("f16-by-hand")) as cockpit:
        with ViewerProcess(cockpit.shared.path, _window()) as viewer:
            recorder = MarkingRecorder(folder / "run.mcap", stopwatch)
            recorder.marks = trace
            with measured_share(viewer.pid, busy):
                outcome = simulate(
                    scenario, until=seconds, pace=_WATCHED, recorder=recorder,
                    publisher=cockpit.pictures, inbox=cockpit.inbox,
                )  # fmt: skip
            window = [int(task.name) for task in Path(f"/proc/{viewer.pid}/task").glob("*")]
        behind = None if trace is None else trace.behind(window, _SERVERS)
        return outcome, cockpit.latencies(), behind  # the viewer's last word is among them


def _window() -> Window:
    hidden = os.environ.get("SDL_VIDEODRIVER") == "dummy"
    return Window(headless=hidden, rate=FPS, size=f"{SIZE[0]}x{SIZE[1]}")


def moves(seconds: float) -> Script:
    """Pitch and roll anywhere within a third of their way; the lever stays where it was."""
    rng, count = np.random.default_rng(1), int(seconds * _MOVES_HZ)
    at = np.arange(count) / _MOVES_HZ
    to = rng.uniform(-0.33, 0.33, (count, 2))
    return [(float(t), (float(x), float(y), 0.0, 0.0)) for t, (x, y) in zip(at, to, strict=True)]


def _empty(seconds: float, to: Rounds) -> None:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "shown.npy")
        size = f"{SIZE[0]}x{SIZE[1]}"
        subprocess.run(
            [sys.executable, "-m", "tools.bench.pilot_empty", str(out), str(seconds), str(FPS),
             size],
            cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=60.0 + 2.0 * seconds,
        )  # fmt: skip
        to.intervals.append(intervals(np.load(out)))


def intervals(times: Times) -> Times:
    """Between pictures; those of the first second are left out."""
    return np.asarray(np.diff(times[times >= times[0] + NS_PER_S]))


# -- verdicts


def _simulation_rows(hz: int, alone: Rounds, seen: Rounds, other: Rounds) -> list[Row]:
    rows = []
    kinds = [("alone", alone), ("with a window", seen)]
    if other.late_ns:
        kinds.insert(1, ("beside other work", other))
    for what, of in kinds:
        late, count = float(np.median(of.late_ns)), float(np.median(of.overruns))
        found = {"p99 [ns]": late, "max [ns]": max(of.late_ns), "count": count}
        rows.append(Row(f"{_told(hz)}, {what}", {**dict.fromkeys(_COLUMNS), **found}))
    if hz < FAST_HZ:
        more = sum(seen.overruns) - sum(alone.overruns)
        ours = sum(seen.ours) - sum(alone.ours)
        rows.append(Row("  overruns more, of all", {"count": more}, "<= 0", more <= 0))
        rows.append(Row("  without the machine's own", {"count": ours}))
        behind = [count for count in seen.behind if count is not None]
        if len(behind) < len(seen.behind):
            return rows
        made = sum(behind) + max(0.0, sum(seen.computing) - sum(alone.computing))
        return [*rows, Row("  that the window made", {"count": made}, "none", made == 0)]
    ratio = median_ratio(seen.late_ns, alone.late_ns)
    rows.append(Row("  p99 against alone", {"ratio [x]": ratio}, f"<= {COST} x", ratio <= COST))
    against, held = ("other work", other) if other.late_ns else ("alone", alone)
    base, count = float(np.median(held.overruns)), float(np.median(seen.overruns))
    kept = count <= max(COST * base, base + 1.0)
    bound = f"<= {COST} x {against}, or one more"
    rows.append(Row("  overruns more", {"count": count - base}, bound, kept))
    more = count - float(np.median(alone.overruns))
    rows.append(Row("  more than alone", {"count": more}))
    if seen.busy:
        share = float(np.median(seen.busy))
        rows.append(Row("  the window computes", {"ratio [x]": share}, f"<= {SHARE} x",
                        share <= SHARE))  # fmt: skip
    own = float(np.median(seen.ours)) - float(np.median(alone.ours))
    rows.append(Row("  without the machine's own", {"count": own}))
    return rows


def _told(hz: int) -> str:
    return f"{hz // 1000} kHz" if hz % 1000 == 0 else f"{hz} Hz"


def _frame_rows(hz: int, seen: Rounds, empty: Rounds) -> list[Row]:
    rows, tails = [], []
    for what, of in ((f"frames at {_told(hz)}", seen), ("frames, empty loop", empty)):
        tails.append([float(np.percentile(i, 99)) for i in of.intervals])
        every = np.concatenate(of.intervals)
        rows.append(Row(what, {
            "median [ns]": float(np.median(every)), "p95 [ns]": float(np.percentile(every, 95)),
            "p99 [ns]": float(np.median(tails[-1])), "max [ns]": float(every.max()),
        }))  # fmt: skip
    ratio = median_ratio(*tails)
    rows.append(
        Row("  p99 against empty", {"ratio [x]": ratio}, f"<= {INTERVAL} x",
            ratio <= INTERVAL)
    )  # fmt: skip
    missed = max(film_missed(i) for i in seen.intervals)
    worst = float(max(i.max() for i in seen.intervals))
    rows.append(Row("  24 a second missed", {"max [ns]": worst, "count": float(missed)},
                    "<= 1 frame", missed <= 1))  # fmt: skip
    return rows


def film_missed(found: Sequence[int] | Times) -> int:
    """The most pictures of a film of 24 a second that were missed one after another."""
    most = row = 0
    for interval in np.asarray(found).tolist():
        late = int((interval - 1) // FILM_NS)
        row = row + late if late else 0
        most = max(most, row)
    return most


def _latency_rows(hz: int, seen: Rounds) -> list[Row]:
    step = NS_PER_S / hz
    out = []
    for what, found, most, bound in (
        ("step", seen.step_ns, step + STEP_MORE_NS, "step + 3 ms"),
        ("picture", seen.picture_ns, step + FRAMES_MORE * NS_PER_S / FPS, "step + 2 frames"),
    ):
        p95 = float(np.median(found))
        figures = {"p95 [ns]": p95, "max [ns]": max(found)}
        out.append(
            Row(f"{_told(hz)}, stick to {what}", figures, f"p95 <= {bound}", 0.0 < p95 <= most)
        )
    return out


def _pixel(count: int) -> Row:
    found = np.array(probed(count, _PIXEL_HZ, FPS))
    p95 = float(np.percentile(found, 95))
    most = NS_PER_S / _PIXEL_HZ + FRAMES_MORE * NS_PER_S / FPS
    figures = {
        "median [ns]": float(np.median(found)), "p95 [ns]": p95,
        "p99 [ns]": float(np.percentile(found, 99)), "max [ns]": float(found.max()),
    }  # fmt: skip
    return Row(f"{_told(_PIXEL_HZ)}, stick to pixel", figures, "p95 <= step + 2 frames",
               p95 <= most)  # fmt: skip
