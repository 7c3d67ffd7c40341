"""A watch as its client sees it: slow ones, and why one ended.  No process, and no time passes."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rtsim.cli.main import main
from rtsim.core.net.messagepack import pack, unpack
from rtsim.core.tag import NS_PER_S
from rtsim.gateway import client
from rtsim.gateway.client import ControlError, Run
from rtsim.gateway.publishing import StateTable
from rtsim.gateway.registry import RegisteredRun

NAMES = [{"name": "plant.x", "unit": "m"}]


class Far:
    """The other end: as many looks a second as were asked for, until ``ends_s`` of its own time."""

    def __init__(self, path: Path, ends_s: float = 1e9, silent: bool = False) -> None:
        self.endpoint = f"ipc://{path}"
        self.ns = 0
        self._path, self._ends_ns, self._silent = path, ends_s * NS_PER_S, silent
        self._queue: deque[bytes] = deque()
        self._period_ns = self._next_ns = 0
        path.touch()

    def send(self, data: bytes) -> bool:
        asked: Any = unpack(data)
        run = {"leg": 1, "pid": 1, "signals": NAMES}
        self._queue.append(pack({"id": asked["id"], "ok": True, "run": run}))
        if asked["do"] == "watch":
            self._period_ns = round(NS_PER_S / asked["rate"]) if asked["rate"] > 0 else 0
        return True

    def receive(self, milliseconds: int) -> bytes | None:
        if not self._queue:
            self.ns += milliseconds * 1_000_000
            if self.ns >= self._ends_ns:
                self._path.unlink(missing_ok=True)
            elif self._period_ns and self.ns >= self._next_ns and not self._silent:
                self._next_ns = self.ns + self._period_ns
                state = asdict(StateTable(ns=self.ns)) | {"leg": 1}
                self._queue.append(pack({"sample": {"state": state, "values": [1.0], "lost": 0}}))
        return self._queue.popleft() if self._queue else None

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def reach(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def reach(**how: Any) -> Far:
        far = Far(tmp_path / "far", **how)
        monkeypatch.setattr(client, "Caller", lambda *_: far)
        monkeypatch.setattr(client, "stopwatch", lambda: far.ns)
        monkeypatch.setattr(client, "find", lambda _: RegisteredRun(1, 1, "far", far.endpoint))
        return far

    return reach


def watched(*more: str, status: int = 0) -> tuple[list[str], str]:
    result = CliRunner().invoke(main, ["ctl", "watch", "plant.x", *more])
    assert result.exit_code == status, result.output
    return result.stdout.splitlines(), result.stderr


@pytest.mark.parametrize("rate", ["0.1", "0.01", "10"])
def test_a_watch_waits_as_long_as_its_rate_is_slow(reach: Any, rate: str) -> None:
    far = reach()
    lines, says = watched("--rate", rate, "--count", "3")
    assert len(lines) == 3
    assert says == ""
    assert far.ns / NS_PER_S >= 2 / float(rate)


@pytest.mark.parametrize("rate", ["0", "-1", "nan"])
def test_a_watch_that_never_looks_is_refused(reach: Any, rate: str) -> None:
    reach()
    lines, says = watched("--rate", rate, status=2)
    assert lines == []
    assert "samples per second > 0" in says


def test_a_watch_says_that_the_run_has_ended(reach: Any) -> None:
    reach(ends_s=1.0)
    lines, says = watched("--rate", "10")
    assert 5 <= len(lines) <= 10
    assert "the run has ended" in says


def test_a_watch_that_hears_nothing_says_so(reach: Any) -> None:
    far = reach(silent=True)
    run = Run(far.endpoint)
    with pytest.raises(ControlError, match=r"no sample from ipc://.*within 5\.2 s"):
        next(run.watch("plant.x", rate=10))
    lines, says = watched(status=2)
    assert lines == []
    assert "rtsim ctl runs" in says


@pytest.mark.parametrize(
    "command", [["status"], ["pause"], ["set", "plant.x", "1"], ["watch", "x"]]
)
def test_a_client_says_which_process_of_the_run_is_stopped(
    reach: Any, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    far = reach()
    monkeypatch.setattr(far, "send", lambda _: True)
    stopped = "the gateway of the run (process 7) is stopped; type: kill -CONT 7"
    monkeypatch.setattr(RegisteredRun, "stopped", stopped)
    result = CliRunner().invoke(main, ["ctl", *command])
    assert result.exit_code == 2
    assert f"no answer from {far.endpoint} within 5 s; {stopped}" in result.stderr
    assert far.ns <= 5 * NS_PER_S
