"""What a page in the browser costs a paced loop: 1 kHz with ``--web`` and one browser, and without.

The same flight by turns alone, with a gateway, the process of a page and one browser, and beside
other work.  The browser is a process that reads all that the page sends, as a browser on another
machine does; it draws nothing.  The other work is a program that computes as long as these three
processes did in the turn before, and shares nothing with the loop (decision 174).  The bounds are
those of the window (:mod:`tools.bench.pilot`); latencies that differ by less than 3 us are not told
apart, as in the bench of the wake.  The beginning of each run, in which the page is built, is left
out of all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import numpy as np

from rtsim.cli.telemetry import told
from rtsim.core.errors import RtsimError
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.inbox import Inbox
from rtsim.engine.trace import TIMING
from rtsim.gateway.loop import Gateway
from rtsim.record.memory_recorder import MemoryRecorder
from rtsim.record.overrun_events import OVERRUN
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.timing.frames import NO_SAMPLE
from rtsim.timing.policy import CatchUp
from tools.bench.pilot import COST, SHARE
from tools.bench.pilot_bystander import bystander, measured_share
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns

STARTING_S = 4.0
ENOUGH_BYTES = 100_000
"""A browser that gets less in a second was not shown the run."""
WITHIN_NS = 3_000.0
"""The p99 of the lateness with a page: times that alone, or so much more."""
FPS = 30.0
"""Bursts a second of the other work."""
ALONE, SHOWN = "1 kHz, alone", "1 kHz, with a page and a browser"
OTHER = "1 kHz, beside other work"


def run(quick: bool = False) -> Result:
    """Measure; some minutes."""
    seconds, rounds = (2.0, 1) if quick else (10.0, 8)
    title = f"a page in the browser, {rounds} pairs of {seconds:g} s"
    if find_spec("viser") is None:
        return Result("web", title, skipped="no viser; type: pip install 'rtsim[web]'")
    overruns: dict[str, list[float]] = {ALONE: [], SHOWN: [], OTHER: []}
    shares: list[float] = []

    def turn(name: str) -> float:
        with tempfile.TemporaryDirectory(prefix="rtsim-bench-") as folder, ExitStack() as stack:
            stack.enter_context(patch.dict(os.environ, {"RTSIM_RUNTIME_DIR": folder}))
            scenario = load_scenario("f16-by-hand", {"step": "0.001"})
            watched = _shown(scenario, seconds, shares) if name == SHOWN else _alone()
            beside = bystander(shares[-1], FPS, "background") if name == OTHER else nullcontext()
            stack.enter_context(beside)
            late, count = _flown(scenario, seconds, stack.enter_context(watched))
        overruns[name].append(count)
        return late

    try:
        turns = {name: lambda name=name: turn(name) for name in (ALONE, SHOWN, OTHER)}
        p99 = in_turns(turns, rounds)
    except RtsimError as error:
        return Result("web", title, skipped=str(error))
    return Result(
        "web",
        title,
        rows(
            {n: v[-rounds:] for n, v in p99.items()},
            {n: v[-rounds:] for n, v in overruns.items()},
            shares,
        ),
    )


def rows(
    p99: dict[str, list[float]], overruns: dict[str, list[float]], shares: list[float]
) -> tuple[Row, ...]:
    """``p99`` is that of the wake lateness (ns) of each round, ``overruns`` their counts.

    ``shares``: of a processor's time, that of the gateway, the page and the browser.
    """
    found = [
        Row(name, {"p99 [ns]": float(np.median(p99[name])), "max [ns]": max(p99[name]),
                   "count": float(np.median(overruns[name]))})
        for name in (ALONE, OTHER, SHOWN)
    ]  # fmt: skip
    alone, shown = float(np.median(p99[ALONE])), float(np.median(p99[SHOWN]))
    bound = f"<= {COST} x, or {WITHIN_NS / 1e3:g} us more"
    kept = shown <= max(COST * alone, alone + WITHIN_NS)
    found.append(Row("  p99 against alone", {"ratio [x]": shown / alone}, bound, kept))
    base, count = float(np.median(overruns[OTHER])), float(np.median(overruns[SHOWN]))
    kept = count <= max(COST * base, base + 1.0)
    bound = f"<= {COST} x other work, or one more"
    found.append(Row("  overruns more", {"count": count - base}, bound, kept))
    more = count - float(np.median(overruns[ALONE]))
    found.append(Row("  more than alone", {"count": more}))
    share = float(np.median(shares))
    kept = share <= SHARE
    found.append(Row("  page and browser compute", {"ratio [x]": share}, f"<= {SHARE} x", kept))
    return tuple(found)


def _flown(scenario: Scenario, seconds: float, inbox: Inbox) -> tuple[float, float]:
    """Return p99 of the wake lateness, ns, and the number of overruns, behind the beginning."""
    recorder, pace = MemoryRecorder(), Pace(1.0, policy=CatchUp(10**9))
    simulate(scenario, until=STARTING_S + seconds, pace=pace, recorder=recorder, inbox=inbox)
    recording, begin = recorder.recording(), round(STARTING_S * NS_PER_S)
    track = recording.track(TIMING)
    late = track.integer("wake_lateness")
    late = late[(track.ns >= begin) & (late != NO_SAMPLE)]
    count = sum(e.kind == OVERRUN and e.tag.ns >= begin for e in recording.events)
    return float(np.percentile(late, 99.0, method="inverted_cdf")), float(count)


@contextmanager
def _alone() -> Iterator[Inbox]:
    yield Inbox()


@contextmanager
def _shown(scenario: Scenario, seconds: float, shares: list[float]) -> Iterator[Inbox]:
    """Give the inbox of a run with a page and a browser that reads it."""
    from rtsim.gateway.web.launching import Order, WebPage

    about = {"scenario": scenario.name, **told(scenario, ())}
    page = WebPage(Order(run=str(os.getpid()), wait_s=60.0))
    gateway = Gateway(about)
    with gateway as inbox, page:
        words = [sys.executable, "-m", "tools.bench.web_client", page.address.url]
        root = Path(__file__).resolve().parents[2]
        with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            client.stdout.readline()  # it is connected
            parts: list[float] = []
            try:
                with ExitStack() as measured:
                    for process in (gateway.pid, page.pid, client.pid):
                        measured.enter_context(measured_share(process, parts))
                    yield inbox
                shares.append(sum(parts))
            finally:
                client.terminate()
                said = client.stdout.read()
    got = int(said or 0)
    if got < ENOUGH_BYTES * seconds:
        raise RtsimError(f"the browser got only {got} bytes: nothing is shown")
