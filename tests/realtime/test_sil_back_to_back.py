"""Back to back in real time: what is Late is told, and Ctrl-C leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from rtsim.cli import main
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="signals to a process are those of POSIX"
)
UNTIL_S = 1.0
LATENCY = ("--latency", "0.005")
SOON_S = 60.0


@pytest.fixture
def motor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example; we are in its folder."""
    folder = tmp_path / "motor"
    assert CliRunner().invoke(main, ["sil", "init", str(folder)]).exit_code == 0
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.realtime
def test_in_real_time_it_agrees_or_says_how_many_were_late(motor: Path) -> None:
    words = ["sil", "test", "scenario.py", "-c", "motor.toml", "--pace", "1.0", *LATENCY]
    result = CliRunner().invoke(main, [*words, "--until", str(UNTIL_S), "--json", "-o", "c.mcap"])
    told = json.loads(result.stdout)
    closed = told["closed"]
    assert told["open"]["controller"]["ok"]
    assert closed["error"] == ""
    recorded = Recording.open(motor / "c.mcap")
    late = [event for event in recorded.events if event.kind == "Late"]
    assert closed["late"] == len(late)
    failed = {s["signal"]: s["reason"] for s in closed["signals"] if s["reason"]}
    if not late:
        assert (result.exit_code, failed) == (0, {})
        assert len(recorded.track("messages/controller")) == 100, "the last is due after the end"
    else:
        assert result.exit_code == 2, "this host was late, which is no verdict on the C"
        assert set(failed) == {"overlap"}, "up to the first Late nothing differs"
        assert f"{len(late)} answer" in failed["overlap"]
    assert recorded.footer is not None
    assert recorded.footer["wall_ns"] >= UNTIL_S * 1e9, "never ahead of the wall"


# -- Ctrl-C


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """``rtsim sil test`` as the leader of a group, as a shell starts it."""
    words = ["-m", "rtsim", "sil", "test", "scenario.py", "-c", "motor.toml", *arguments]
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def group(leader: int) -> set[int]:
    """The processes of a session, also zombies, unless init has to reap them: those have ended.

    ziglang leaves such zombies of its own helper processes after each build.
    """
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == leader and (fields[0], fields[1]) != ("Z", "1"):
            found.add(int(stat.parent.name))
    return found


def soon(what: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until ``what()`` holds."""
    until = time.monotonic() + SOON_S
    while not what():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.live
@pytest.mark.parametrize(
    ("number", "send"),
    [
        (signal.SIGINT, os.killpg),
        pytest.param(signal.SIGTERM, os.kill, marks=pytest.mark.full),
    ],
)
def test_an_interrupt_ends_the_flight_on_a_whole_tag(
    number: int, send: Callable[[int, int], None], motor: Path
) -> None:
    """A terminal sends Ctrl-C to all processes of the group."""
    path = motor / "c.mcap"
    arguments = ("--pace", "1.0", *LATENCY, "--until", "30", "-o", str(path))
    with started(*arguments) as process:
        soon(lambda: path.exists() and path.stat().st_size > 4096, process)
        header = path.stat().st_size
        soon(lambda: path.stat().st_size > header, process)  # rows: the run has begun
        assert len(group(process.pid)) > 1, "the C runs in a process of its own"
        send(process.pid, number)
        said, complained = process.communicate(timeout=SOON_S)
        assert process.returncode == 130, (said, complained)
        assert "interrupted at " in complained
        assert "Traceback" not in complained
        assert "does what" not in said, "no verdict"
        assert group(process.pid) == set(), "no process is left"
    recording = Recording.open(path)
    assert recording.truncated is None
    assert recording.footer is not None
    assert recording.footer["reason"] == "interrupted"
    assert 0 < recording.end_ns < 30 * 10**9
    assert compare_exact(recording, rerun(recording)) is None
