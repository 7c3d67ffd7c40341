"""What a client is shown, in a terminal and in a notebook; and how a value with a unit is read.

A watch as its client sees it: slow ones, and why one ended.  No process, and no time passes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rtsim.cli import ctl
from rtsim.cli.main import main
from rtsim.core.net.messagepack import pack, unpack
from rtsim.core.tag import NS_PER_S
from rtsim.gateway import client
from rtsim.gateway.client import (
    NEXT_TAG,
    At,
    ControlError,
    Glance,
    ParameterTable,
    Run,
    Sample,
    Units,
)
from rtsim.gateway.publishing import StateTable
from rtsim.gateway.registry import RegisteredRun

STATE = StateTable(
    ns=1_500_000_000, wall_ns=5, rate=0.5, standing=False, late=1, missed=2, overruns_compute=3,
    overruns_wake=4, margin_ns=1_250_000, frames=77, leg=1,
)  # fmt: skip


class Told:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.last: tuple[Any, ...] = ()

    def set(self, *given: Any) -> At:
        self.last = given
        return At(310_000_000, 7_400_000_000)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    found = Told()

    @contextmanager
    def connected(*_: Any) -> Iterator[Told]:
        yield found

    monkeypatch.setattr(ctl, "connected", connected)
    return found


@pytest.mark.parametrize(
    ("typed", "value", "unit"),
    [
        ("5000", 5000.0, None), ("5000 kg", 5000.0, "kg"), ("5000 [kg]", 5000.0, "kg"),
        ("1,2,3 m/s", [1.0, 2.0, 3.0], "m/s"), ("1 2 3", [1.0, 2.0, 3.0], None),
        ("0.3 [1]", 0.3, "1"), ("-2 1/s^2", -2.0, "1/s^2"), ("12 kg m^2", 12.0, "kg m^2"),
    ],
)  # fmt: skip
def test_a_typed_value_is_read_with_its_unit(
    told: Told, typed: str, value: object, unit: str | None
) -> None:
    result = CliRunner().invoke(main, ["ctl", "set", "a.b", "--", *typed.split()])
    assert told.last == ("a.b", value, unit)
    assert result.output == "at 0.310000000 s, in 7.4 s\n"


@pytest.mark.parametrize("typed", ["fast", "kg 3"])
def test_a_value_without_a_number_is_refused(told: Told, typed: str) -> None:
    result = CliRunner().invoke(main, ["ctl", "set", "a.b", *typed.split()])
    assert result.exit_code == 2
    assert "is not a number" in result.output
    assert told.last == ()


@pytest.mark.parametrize(
    ("at", "says"),
    [(At(NEXT_TAG), "at the next tag"), (At(2_000_000_000), "at 2.000000000 s"),
     (At(10_000_000, 90_000_000), "at 0.010000000 s")],
)  # fmt: skip
def test_the_answer_to_a_command_is_the_time_at_which_it_acts(at: At, says: str) -> None:
    assert (str(at), repr(at)) == (says, f"<{says}>")
    assert at == int(at)


PARAMETERS: list[Mapping[str, Any]] = [
    {"name": "a.<b>", "value": [1.0, 2.5], "unit": "kg", "low": None, "high": 3.0,
     "description": "<script>"},
]  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "cells"),
    [
        (STATE, ["1.500 s", "rate 0.5", "7 (compute 3, wake 4)", "1.250 ms", "77"]),
        (Units({"a.b": "m/s", "<i>": "1"}), ["a.b", "m/s", "&lt;i&gt;"]),
        (ParameterTable(dict(p) for p in PARAMETERS),
         ["a.&lt;b&gt;", "1, 2.5", "kg", "[-inf, 3.0]", "&lt;script&gt;"]),
        (Sample(STATE, {"a.b": 0.25}, 0), ["a.b", "0.25"]),
        (Glance(STATE, {"a.b": 0.25}, {}), ["a.b", "0.25"]),
    ],
)  # fmt: skip
def test_a_notebook_shows_tables_in_which_nothing_is_markup(shown: Any, cells: list[str]) -> None:
    page = shown._repr_html_()
    for cell in cells:
        assert f"<td>{cell}</td>" in page
    assert page.count("<table>") == page.count("</table>") == 1
    assert "<script>" not in page
    assert len(repr(shown)) < 500


def test_a_state_in_words_has_time_rate_and_overruns() -> None:
    assert str(STATE) == "1.500 s, rate 0.5, 7 overruns, 1 late, 2 missed"


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


def test_a_watch_ends_with_the_end_of_the_run(reach: Any) -> None:
    reach(ends_s=1.0)
    lines, says = watched("--rate", "10")
    assert 5 <= len(lines) <= 10
    assert "the run has ended" in says


def test_a_watch_without_samples_is_an_error(reach: Any) -> None:
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
def test_a_client_names_the_stopped_process_of_a_run(
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
