"""What telemetry and a client cost a paced loop: wake lateness at 1 kHz with them against without.

The same run by turns alone, and with a gateway, a plotting tool that subscribes and a client that
watches everything; those two are one process beside the gateway's.  The beginning of each run, in
which processes start, is left out of both.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import RtsimError
from rtsim.core.tag import NS_PER_S
from rtsim.engine.trace import TIMING
from rtsim.gateway.loop import Gateway
from rtsim.models import unstable
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.timing.frames import NO_SAMPLE
from rtsim.timing.policy import CatchUp
from tools.bench.gateway_client import WATCH_HZ
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns, median_ratio, spread

WITHIN = 1.5
STARTING_S = 3.0
ENOUGH = 0.5
"""Of the samples and messages that a client should get: with fewer nothing was measured."""
ALONE, REACHED = "alone", "with telemetry and a client"
Late = NDArray[np.int64]


def run(quick: bool = False) -> Result:
    """Measure; some minutes."""
    return measure(2.0 if quick else 20.0, 2 if quick else 5)


def measure(seconds: float, rounds: int) -> Result:
    """``rounds`` pairs of runs, of which ``seconds`` each are counted."""
    title = f"wake lateness at 1 kHz, {rounds} pairs of {seconds:g} s"
    runs: dict[str, list[Late]] = {ALONE: [], REACHED: []}

    def alone() -> float:
        runs[ALONE].append(_lateness(seconds, None))
        return _p99(runs[ALONE][-1])

    def reached() -> float:
        runs[REACHED].append(_reached(seconds))
        return _p99(runs[REACHED][-1])

    try:
        p99 = in_turns({ALONE: alone, REACHED: reached}, rounds)
    except RtsimError as error:
        return Result("gateway", title, skipped=str(error))
    measured = {name: np.concatenate(found[1:]) for name, found in runs.items()}
    return Result("gateway", title, rows(measured, p99))


def rows(measured: dict[str, Late], p99: dict[str, list[float]]) -> tuple[Row, ...]:
    """``measured`` is wake lateness (ns) of all rounds, ``p99`` that of each round."""
    ratio = median_ratio(p99[REACHED], p99[ALONE])
    return (
        *(Row(name, spread(late)) for name, late in measured.items()),
        Row("p99, median over the pairs", {"ratio [x]": ratio}, f"<= {WITHIN} x", ratio <= WITHIN),
    )


def _p99(late: Late) -> float:
    return float(np.percentile(late, 99.0, method="inverted_cdf"))


def _scenario(seconds: float) -> Scenario:
    return unstable.scenario(step=0.001, until=STARTING_S + seconds)


def _lateness(seconds: float, gateway: Gateway | None) -> Late:
    """Of every wake behind the beginning, ns."""
    recorder = MemoryRecorder()
    pace = Pace(1.0, CatchUp(10**9))
    with ExitStack() as stack:
        inbox = None if gateway is None else stack.enter_context(gateway)
        simulate(_scenario(seconds), pace=pace, recorder=recorder, inbox=inbox)
    track = recorder.recording().track(TIMING)
    late: Late = track.integer("wake_lateness")
    counted: Late = late[(track.rows.ns >= STARTING_S * NS_PER_S) & (late != NO_SAMPLE)]
    return counted


def _reached(seconds: float) -> Late:
    with tempfile.TemporaryDirectory(prefix="rtsim-bench-") as folder, ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, {"RTSIM_RUNTIME_DIR": folder}))
        endpoint = _free_endpoint()
        client_of = [endpoint, str(os.getpid()), str(STARTING_S + seconds)]
        words = [sys.executable, "-m", "tools.bench.gateway_client", *client_of]
        root = Path(__file__).resolve().parents[2]
        client = stack.enter_context(
            subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(client.kill)
        assert client.stdout is not None
        client.stdout.readline()  # its imports are done
        late = _lateness(seconds, Gateway({"scenario": "unstable"}, plotjuggler=endpoint))
        told = client.stdout.read()
    got = [int(word) for word in told.split()] or [0, 0]
    if min(got) < ENOUGH * WATCH_HZ * seconds:
        raise RtsimError(f"the client got {got[0]} samples and {got[1]} messages: nothing is shown")
    return late


def _free_endpoint() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"
