"""What a page in the browser costs a paced loop: 1 kHz with ``--web`` and one browser, and without.

The same flight by turns alone, and with a gateway, the process of a page, and one browser.  The
browser is a process that reads all that the page sends, as a browser on another machine does; it
draws nothing.  The bounds are those of the window (:mod:`tools.bench.pilot`).  The beginning of
each run, in which the page is built, is left out of both.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import numpy as np

from rtsim.cli.telemetry import header_for_viewers
from rtsim.core.errors import RtsimError
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.trace import TIMING
from rtsim.gateway.loop import Gateway
from rtsim.record.events import OVERRUN
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.timing.frames import NO_SAMPLE
from rtsim.timing.policy import CatchUp
from tools.bench.pilot import COST
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns, median_ratio

STARTING_S = 4.0
ENOUGH_BYTES = 100_000
"""A browser that gets less in a second was not shown the run."""
ALONE, SHOWN = "1 kHz, alone", "1 kHz, with a page and a browser"


def run(quick: bool = False) -> Result:
    """Measure; some minutes."""
    seconds, rounds = (2.0, 1) if quick else (10.0, 8)
    title = f"a page in the browser, {rounds} pairs of {seconds:g} s"
    if find_spec("viser") is None:
        return Result("web", title, skipped="no viser; type: pip install 'rtsim[web]'")
    overruns: dict[str, list[float]] = {ALONE: [], SHOWN: []}

    def turn(name: str) -> float:
        with tempfile.TemporaryDirectory(prefix="rtsim-bench-") as folder, ExitStack() as stack:
            stack.enter_context(patch.dict(os.environ, {"RTSIM_RUNTIME_DIR": folder}))
            scenario = load_scenario("f16-by-hand", {"step": "0.001"})
            watched = _shown(scenario, seconds) if name == SHOWN else _alone()
            late, count = _flown(scenario, seconds, stack.enter_context(watched))
        overruns[name].append(count)
        return late

    try:
        turns = {name: lambda name=name: turn(name) for name in (ALONE, SHOWN)}
        p99 = in_turns(turns, rounds)
    except RtsimError as error:
        return Result("web", title, skipped=str(error))
    return Result("web", title, rows(p99, overruns))


def rows(
    p99: dict[str, list[float]],
    overruns: dict[str, list[float]],
    names: tuple[str, str] = (ALONE, SHOWN),
) -> tuple[Row, ...]:
    """``p99`` is that of the wake lateness (ns) of each round, ``overruns`` their counts.

    ``names`` are those of the loop alone and of the loop with more.
    """
    alone, more = names
    found = [
        Row(name, {"p99 [ns]": float(np.median(p99[name])), "max [ns]": max(p99[name]),
                   "count": float(np.median(overruns[name]))})
        for name in names
    ]  # fmt: skip
    ratio = median_ratio(p99[more], p99[alone])
    found.append(Row("  p99 against alone", {"ratio [x]": ratio}, f"<= {COST} x", ratio <= COST))
    base, count = float(np.median(overruns[alone])), float(np.median(overruns[more]))
    kept = count <= max(COST * base, base + 1.0)
    bound = f"<= {COST} x, or one more"
    return (*found, Row("  overruns more", {"count": count - base}, bound, kept))


def _flown(scenario: Scenario, seconds: float, inbox: Inbox) -> tuple[float, float]:
    """Return p99 of the wake lateness, ns, and the number of overruns, behind the beginning."""
    recorder, pace = MemoryRecorder(), Pace(1.0, policy=CatchUp(10**9))
    simulate(scenario, until=STARTING_S + seconds, pace=pace, recorder=recorder, inbox=inbox)
    return timed(recorder.recording())


def timed(recording: Recording) -> tuple[float, float]:
    """Return p99 of the wake lateness, ns, and the number of overruns, behind the beginning."""
    begin, track = round(STARTING_S * NS_PER_S), recording.track(TIMING)
    late = track.integer("wake_lateness")
    late = late[(track.ns >= begin) & (late != NO_SAMPLE)]
    count = sum(e.kind == OVERRUN and e.tag.ns >= begin for e in recording.events)
    return float(np.percentile(late, 99.0, method="inverted_cdf")), float(count)


@contextmanager
def _alone() -> Iterator[Inbox]:
    yield Inbox()


@contextmanager
def _shown(scenario: Scenario, seconds: float) -> Iterator[Inbox]:
    """Give the inbox of a run with a page and a browser that reads it."""
    from rtsim.gateway.pipe import Order, WebPage

    about = {"scenario": scenario.name, **header_for_viewers(scenario, ())}
    page = WebPage(Order(run=str(os.getpid()), wait_s=60.0))
    with Gateway(about) as inbox, page:
        words = [sys.executable, "-m", "tools.bench.web_client", page.address.url]
        root = Path(__file__).resolve().parents[2]
        with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True) as client:
            assert client.stdout is not None
            client.stdout.readline()  # it is connected
            try:
                yield inbox
            finally:
                client.terminate()
                said = client.stdout.read()
    got = int(said or 0)
    if got < ENOUGH_BYTES * seconds:
        raise RtsimError(f"the browser got only {got} bytes: nothing is shown")
