"""A free-running rig at a port: flown at rate 1, stamped, recorded, replayed; its watchdog."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hitl.boards.paced import PacedBoard
from hitl.cli.hitl import hitl
from hitl.firmware import firmware
from hitl.rigs.controller import RigController, node_interface
from hitl.rigs.file import load_rig
from rtsim.cli.main import main
from rtsim.core.tag import Period, Tag

pytestmark = [
    pytest.mark.realtime,
    pytest.mark.usefixtures("emulator"),
    pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are of POSIX"),
]
EXAMPLE = Path(__file__).resolve().parents[2] / "hitl" / "rigs" / "illumination"
PERIOD = Period.of(0.05)


@pytest.fixture
def port() -> Iterator[str]:
    """An I/O node that runs by the wall clock."""
    with PacedBoard("board:uno", firmware(node_interface()).path) as board:
        yield board.port


def test_silence_is_counted_by_the_node_itself(port: str) -> None:
    """A served board may fall behind the wall, so that silence is given time to be noticed."""
    rig = load_rig(EXAMPLE / "illumination.toml").on(f"serial://{port}")
    controller = RigController(rig, PERIOD, paced=True).fresh()
    try:
        for k in range(20):
            tag = Tag(PERIOD.tick(k))
            controller.send(tag, np.array([300.0]))
            assert controller.receive(tag, 5.0) is not None
            sent, begun, ended, received = controller.stamps()
            assert sent <= begun <= ended <= received, "the arrival is stamped by the host's clock"
            if controller.silences:
                break
            threading.Event().wait(0.5)
        assert k > 0, "waiting for the first step is no silence"
        assert controller.silences == 1, "half a second is longer than its watchdog"
    finally:
        controller.close()


def test_a_rig_at_a_port_flies_at_rate_one_and_replays(port: str, tmp_path: Path) -> None:
    recording = str(tmp_path / "live.mcap")
    done = CliRunner().invoke(
        hitl,
        [
            str(EXAMPLE / "illumination.py"), "--rig", str(EXAMPLE / "illumination.toml"),
            "--board", f"serial://{port}", "--until", "1", "--latency", "0.018", "-o", recording,
            "--json", "--overrun", "slip",
        ],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert told["certificate"]["rate"] == "1", "paced, though nobody said so"
    assert told["rig"]["steps"] + told["rig"]["missed"] == 51
    replayed = CliRunner().invoke(main, ["replay", recording])
    assert replayed.exit_code == 0, replayed.output
    assert "equal bit for bit" in replayed.output
    stamped = CliRunner().invoke(main, ["messages", recording])
    assert stamped.exit_code == 0, stamped.output
