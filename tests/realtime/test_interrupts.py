"""Ctrl-C and SIGTERM at any moment: the run ends on a whole tag, and replays bit for bit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.name != "posix", reason="signals to a process are those of POSIX"),
]
RUN = """
import os, sys
from rtsim.core.clock import stopwatch
from rtsim.scenario.loading import load_scenario
from rtsim.record.file import FileRecorder
from rtsim.runs.simulation import simulate
said = False
def tell(progress):
    global said
    if not said and progress.ns > 50_000_000:
        said = True
        print("flying", flush=True)
out = simulate(load_scenario("unstable"), pace=sys.argv[2], until=100_000, engine=sys.argv[3],
               recorder=FileRecorder(sys.argv[1], stopwatch), observe=tell)
print(out.reason, out.ended.ns, flush=True)
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
@pytest.mark.parametrize("pace", ["max", "1.0"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_whole(number: int, pace: str, engine: str, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, str(path), pace, engine], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "flying\n"
    process.send_signal(number)
    reason, ended = process.communicate(timeout=60)[0].split()
    assert reason == "interrupted"
    recording = Recording.open(path)
    assert recording.truncated is None
    assert recording.footer is not None
    assert recording.footer["reason"] == "interrupted"
    assert recording.end_ns == int(ended) < 100_000 * 10**9
    assert compare_exact(recording, rerun(recording)) is None
