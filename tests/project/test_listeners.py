"""Nothing of ours listens beyond this machine by itself: each command, while it runs."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from emulated_board_parts import need
from socket_parts import LOOPBACK, reached

from rtsim.cli.main import main
from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S

RTSIM = [sys.executable, "-m", "rtsim"]
FLY = ["fly", "f16", "--headless", "--size", "160x120", "--no-record", "--until", "1"]
SIL = ["sil", "run", "scenario.py", "-c", "motor.toml", "--no-record", "--until", "0.5"]
PITL = ["pitl", "scenario.py", "-c", "motor.toml:float", "--latency", "0.009", "--pace", "1.0"]
BOARD = ["board", "serve", "-c", "motor.toml:float"]
OPEN = ["-c", "import select, socket; s = socket.socket(); s.bind(('0.0.0.0', 0)); s.listen(); "
        "select.select([], [], [], 1)"]  # fmt: skip
MOST_S = 20.0
PATIENCE_S = 300.0
"""Longest wait for the end of a terminated command; no assertion depends on it."""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc lists sockets on Linux")


def listened(command: list[str], folder: Path, seconds: float) -> set[tuple[str, str, int]]:
    """Everything that it and its processes listened at, until it ends or for so long."""
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
        found, until = set(), stopwatch() + round(seconds * NS_PER_S)
        try:
            while process.poll() is None and stopwatch() < until:
                found |= set(reached(process.pid))
                select.select([], [], [], 0.02)
            said.seek(0)
            assert process.poll() in (None, 0), said.read()
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
    return found


def beyond(found: set[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    return [row for row in found if row[1] not in LOOPBACK]


def test_one_that_is_open_would_be_seen(tmp_path: Path) -> None:
    assert len(beyond(listened([sys.executable, *OPEN], tmp_path, MOST_S))) == 1


@pytest.fixture
def motor(tmp_path: Path) -> Path:
    """The example of ``rtsim sil init``."""
    folder = tmp_path / "motor"
    assert CliRunner().invoke(main, ["sil", "init", str(folder)]).exit_code == 0
    return folder


@pytest.mark.full
def test_a_flight_by_hand_listens_nowhere(tmp_path: Path) -> None:
    assert listened([*RTSIM, *FLY], tmp_path, MOST_S) == set()


@pytest.mark.live
def test_a_worker_listens_nowhere(motor: Path) -> None:
    assert listened([*RTSIM, *SIL], motor, MOST_S) == set()


@pytest.mark.full
@pytest.mark.parametrize("typed", [PITL, BOARD], ids=["pitl", "board"])
def test_a_board_listens_nowhere(typed: list[str], motor: Path) -> None:
    need("avr8js")
    assert listened([*RTSIM, *typed], motor, 8.0) == set()


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["run", "unstable", "--no-record", "--control-at", "tcp://0.0.0.0:5999"], "rtsim keys "),
        (["run", "unstable", "--no-record", "--control-at", "tcp://127.0.0.1:5999"], "rtsim keys "),
        (["ctl", "--run", "tcp://192.0.2.7:5999", "status"], "rtsim keys "),
        (["top", "tcp://192.0.2.7:5999", "--once"], "rtsim keys "),
        (["sil", "serve", "motor.toml", "--bind", "tcp://0.0.0.0:5999"], "rtsim keys "),
        (["sil", "run", "scenario.py", "-c", "motor.toml@tcp://192.0.2.7:5999",
          "--no-record"], "rtsim keys "),
    ],
    ids=["run", "run here", "ctl", "top", "sil serve", "sil run"],
)  # fmt: skip
def test_an_address_without_keys_is_refused_with_the_command_that_makes_them(
    typed: list[str], says: str, motor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(motor)
    told = CliRunner().invoke(main, typed)
    assert told.exit_code == 2
    assert says in told.stderr
