"""A controller on a board that runs by itself, or whose line is bad."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from board_parts import MS, MS_CYCLES, Rig, answers, patch_clock, told

from hitl.controllers.retrying_session import WallLine
from hitl.protocol.session import BoardReset, OldFirmware, SilentBoard
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.testing import FakeClock

LATE, MISSED, DISCARDED, FAILED = "Late", "Missed", "Discarded", "Failed"


def ticks(*ms: int) -> list[tuple[int, float]]:
    """The answers to requests of these ms: the tick's number."""
    return [(at, at / 10) for at in ms]


def steps(*ms: float) -> list[int]:
    """Cycles of steps that take so long."""
    return [round(one * MS_CYCLES) for one in ms]


def rig_of(folder: Path, patch: pytest.MonkeyPatch, paced: bool, **options: Any) -> Rig:
    """Its wall clock is a fake one, which only waiting for the board moves, and the run."""
    clock = FakeClock()
    patch_clock(patch, clock)
    return Rig(folder, clock, paced, **options)


# -- in real time ---------------------------------------------------------------------------------


def test_in_real_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_of(tmp_path, monkeypatch, paced=True)
    recording, error = rig.fly(5)
    assert error is None
    assert told(recording) == []
    assert answers(recording) == ticks(0, 10, 20, 30, 40, 50)
    assert rig.on_board.own_time is False
    assert rig.on_board.exchange_ns[0] >= 1_222_500
    sent, begun, ended, received = rig.on_board.stamps()
    assert (begun - sent, ended - begun) == (640_000, 62_500)
    assert received - sent == rig.on_board.exchange_ns[-1]


def test_late_in_real_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_of(tmp_path, monkeypatch, paced=True, takes=steps(1, 25))
    recording, error = rig.fly(5)
    assert error is None
    assert told(recording) == [(15, LATE), (20, MISSED), (30, MISSED), (40, DISCARDED)]
    assert answers(recording) == ticks(0, 40, 50)


def test_a_lost_reply_in_real_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for again as soon as somebody looks; the deadline stands."""
    rig = rig_of(tmp_path, monkeypatch, paced=True, lost=[2])
    recording, error = rig.fly(5)
    assert error is None
    assert told(recording) == [(25, LATE), (30, MISSED), (40, DISCARDED)]
    assert answers(recording) == ticks(0, 10, 40, 50)
    assert rig.on_board.counts.repeated == 1
    assert rig.board.board.steps == len(recording.time("messages/c.inputs"))


def test_a_repeat_in_real_time_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was repeated when it was late is there at the next tick."""
    monkeypatch.setattr(WallLine, "repeat_ns", 3 * MS)
    rig = rig_of(tmp_path, monkeypatch, paced=True, lost=[2])
    recording, error = rig.fly(5)
    assert error is None
    assert told(recording) == [(25, LATE), (30, DISCARDED)]
    assert answers(recording) == ticks(0, 10, 30, 40, 50)


@pytest.mark.parametrize("failure", ["end", "hold"])
def test_a_reset_in_real_time(
    failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = rig_of(tmp_path, monkeypatch, paced=True, resets_at=30 * MS_CYCLES)
    recording, error = rig.fly(5, failure=failure)
    assert isinstance(error, BoardReset) == (failure == "end")
    if failure == "hold":
        kinds = [kind for _, kind in told(recording)]
        assert (kinds[0], set(kinds[1:])) == (FAILED, {MISSED})


def test_silence_in_real_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Late first; when its patience is over it has failed."""
    options = {"silence": 0.02}
    rig = rig_of(tmp_path, monkeypatch, paced=True, silent_from=2, controller=options)
    recording, error = rig.fly(5)
    assert isinstance(error, SilentBoard)
    assert told(recording)[:2] == [(25, LATE), (30, MISSED)]


# -- in lockstep, at a port -----------------------------------------------------------------------


@pytest.mark.parametrize("allowed_ms", [0, 5])
def test_lockstep_at_a_port(
    allowed_ms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording, error = rig_of(tmp_path, monkeypatch, paced=False).fly(allowed_ms)
    assert error is None
    assert told(recording) == []
    assert answers(recording)[:6] == ticks(0, 10, 20, 30, 40, 50)


def test_late_by_what_the_board_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the wall waits: execution, firmware and wire alone count."""
    rig = rig_of(tmp_path, monkeypatch, paced=False, takes=steps(1, 5, 3.6))
    recording, error = rig.fly(5)
    assert error is None
    assert told(recording) == [(15, LATE), (20, DISCARDED)]
    assert answers(recording) == ticks(0, 20, 30, 40, 50)


def test_a_repeat_counts_as_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for allowed_ms, wanted in ((3, [(23, LATE), (30, DISCARDED)]), (9, [])):
        rig = rig_of(tmp_path, monkeypatch, paced=False, lost=[2])
        recording, error = rig.fly(allowed_ms)
        assert error is None
        assert told(recording) == wanted
        assert rig.on_board.counts.repeated == 1


def test_silence_at_a_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"silence": 0.1}
    rig = rig_of(tmp_path, monkeypatch, paced=False, silent_from=2, controller=options)
    before = rig.clock.now() if rig.clock else 0
    _, error = rig.fly(5)
    assert isinstance(error, SilentBoard)
    assert rig.clock is not None
    assert rig.clock.now() - before < 0.4e9, "not beyond its patience"


def test_a_board_with_an_old_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_of(tmp_path, monkeypatch, paced=False, controller={"build": 7})
    with pytest.raises(OldFirmware, match="runs build 00000001 of faulty, expected 00000007"):
        rig.controller.fresh()
    assert rig.board.closed


# -- a line with faults ---------------------------------------------------------------------------

FAULTS = [
    {"name": "a", "where": "c.from_board", "kind": "bit_flip", "probability": 0.01},
    {"name": "b", "where": "c.to_board", "kind": "bit_flip", "probability": 0.01},
    {"name": "d", "where": "c.from_board", "kind": "silence", "at": 1.0, "duration": 0.2},
]


@pytest.mark.parametrize("late", ["hold", "stretch"])
def test_a_bad_line_in_lockstep(late: str, tmp_path: Path) -> None:
    """Three seconds of it: no step twice, no answer but its own, the same again, and replayed."""
    runs = []
    for _ in range(2):
        rig = Rig(tmp_path)
        scenario = rig.scenario(9, late=late)
        scenario.faults(*FAULTS)
        recorder = MemoryRecorder()
        simulate(scenario, recorder=recorder, until=3, seed=3)
        recording = recorder.recording()
        assert compare_exact(recording, rerun(recording, scenario)) is None
        runs.append((recording, rig.on_board.counts))
        assert rig.board.board.steps <= len(recording.time("messages/c.inputs"))
    (recording, counts), (again, counted) = runs
    assert compare_exact(recording, again) is None
    assert counts == counted
    assert counts.repeated > 100
    assert sum(counts.garbage.values()) > 30
    kinds = {kind for _, kind in told(recording)}
    wanted = {LATE} if late == "stretch" else {LATE, MISSED, DISCARDED}
    assert {LATE, MISSED, DISCARDED} & kinds == wanted
    assert all(value == min(at // 10, 6) for at, value in answers(recording))
