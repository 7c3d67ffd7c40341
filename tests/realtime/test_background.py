"""What runs beside the loop, recorder and gateway, is nicer and leaves its CPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.realtime,
    pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="no /proc to look into"),
]
TRIES = 300


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed]


def test_recorder_and_gateway_are_nicer_and_keep_off_the_loops_processor(tmp_path: Path) -> None:
    mine = max(os.sched_getaffinity(0))
    command = [sys.executable, "-m", "rtsim", "run", "unstable", "--plain", "--control"]
    command += ["--pace", "1", "--until", "100", "-o", str(tmp_path / "run.mcap")]
    environment = {**os.environ, "RTSIM_RUNTIME_DIR": str(tmp_path)}
    ours = os.getpriority(os.PRIO_PROCESS, 0)
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    os.sched_setaffinity(run.pid, {mine})  # as a loop is that has a processor of its own
    try:
        nice: dict[int, int] = {}
        for _ in range(TRIES):
            beside = children(run.pid)
            nice = {pid: os.getpriority(os.PRIO_PROCESS, pid) for pid in beside}
            there = [pid for pid in beside if mine in os.sched_getaffinity(pid)]
            off = not there or os.cpu_count() == 1
            if len(nice) == 2 and min(nice.values()) > ours and off:
                break
            time.sleep(0.05)
        assert len(nice) == 2, "a recorder and a gateway"
        assert min(nice.values()) >= min(ours + 5, 19)
        assert os.sched_getaffinity(run.pid) == {mine}
        for pid in nice:
            everywhere = set(range(os.cpu_count() or 1))
            assert os.sched_getaffinity(pid) == (everywhere - {mine} or everywhere)
    finally:
        run.send_signal(signal.SIGINT)
        run.wait(30)
