"""A controller on a board in lockstep: its time, what is late, what is lost, what goes wrong.

A controller on a board that runs by itself, or whose line is bad.

``rtsim board clock``: when Arduino code on an emulated board begins its first step.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from board_parts import HZ, MS, MS_CYCLES, Rig, answers, patch_clock, steps, ticks, told
from click.testing import CliRunner
from emulated_board_parts import need

from hitl.boards.contract import BoardLink
from hitl.controllers.board import measured_clock
from hitl.controllers.failure_log import Case
from hitl.controllers.retrying_session import WallLine
from hitl.interface import load_interface
from hitl.interface.file import AVR, EXACT
from hitl.protocol.line import Budget
from hitl.protocol.session import (
    BoardFailure,
    BoardReset,
    EventCounts,
    OldFirmware,
    SilentBoard,
    WrongController,
)
from rtsim.cli import main
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.testing import FakeClock

LATE, MISSED, DISCARDED, FAILED = "Late", "Missed", "Discarded", "Failed"
EXCHANGE = 1_222_500
"""ns: 32 bytes, 1000 cycles, 26 bytes at 500,000 baud."""


# -- its own time ---------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed_ms", [0, 5, 10, 25])
def test_two_runs_are_the_same_to_the_cycle(allowed_ms: int, tmp_path: Path) -> None:
    runs = []
    for _ in range(2):
        rig = Rig(tmp_path, takes=steps(1, 2, 0.5, 1), lost=[1], noise={2: b"xx\0\1\0"})
        recording, error = rig.fly(allowed_ms)
        assert error is None
        flown = rig.on_board
        seen = flown.cycles.tolist(), flown.exchange_ns.tolist(), rig.board.cycles, flown.counts
        runs.append((recording, seen))
    assert compare_exact(runs[0][0], runs[1][0]) is None
    assert runs[0][1] == runs[1][1]
    measured = [run[0].track("measured/c").rows.integers.tolist() for run in runs]
    assert measured[0] == measured[1]


@pytest.mark.parametrize(
    ("allowed_ms", "initiated"),
    [
        (0, (0, 10, 20, 30, 40, 50, 60)),
        (1.2225, (0, 10, 20, 30, 40, 50)),
        (5, (0, 10, 20, 30, 40, 50)),
        (10, (0, 10, 20, 30, 40, 50)),
    ],
)
def test_answers_in_time(allowed_ms: float, initiated: tuple[int, ...], tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    recording, error = rig.fly(allowed_ms)
    assert error is None
    assert told(recording) == []
    assert answers(recording) == ticks(*initiated)
    flown = rig.on_board
    assert set(flown.exchange_ns) == {EXCHANGE}
    assert set(flown.took_ns) == {62_500}
    assert (set(flown.cycles), flown.stack) == ({1000}, 200)
    assert flown.budget.exchange_ns == EXCHANGE
    assert flown.counts == EventCounts(frames=flown.counts.frames), "the end of a run loses nothing"
    sent, begun, ended, received = flown.stamps()
    assert (ended - begun, received - sent, received - ended) == (62_500, EXCHANGE, 520_000)
    assert sent == initiated[-1] * MS, "the run's time is the board's"


def test_one_cycle_too_late(tmp_path: Path) -> None:
    """Complete at the very cycle of g + L it is in time; one cycle more, and it is late."""
    for extra, wanted in ((0, []), (1, [(11, LATE)])):
        recording, _ = Rig(tmp_path, takes=[1000, 1000 + extra]).fly(EXCHANGE / MS)
        assert [one for one in told(recording) if one[1] == LATE] == wanted


RUNS: dict[str, tuple[list[float], float, list[tuple[int, str]], tuple[int, ...]]] = {
    "late": ([1, 5], 5, [(15, LATE), (20, DISCARDED)], (0, 20, 30, 40, 50)),
    "busy": (
        [1, 25], 5, [(15, LATE), (20, MISSED), (30, MISSED), (40, DISCARDED)], (0, 40, 50),
    ),
    "late at a tick": ([1, 10], 10, [(20, LATE), (20, MISSED), (30, DISCARDED)], (0, 30, 40, 50)),
    "allowed more than a period": (
        [1, 12], 15, [(10, MISSED), (30, MISSED), (50, MISSED)], (0, 20, 40),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_late_holds(name: str, tmp_path: Path) -> None:
    takes, allowed_ms, events, initiated = RUNS[name]
    rig = Rig(tmp_path, takes=steps(*takes))
    recording, error = rig.fly(allowed_ms, late="hold")
    assert error is None
    assert told(recording) == events
    assert answers(recording) == ticks(*initiated)
    asked = recording.track("messages/c.inputs").ns.tolist()
    assert rig.board.board.steps == len(asked), "one request at a time: a missed tick sends none"


def test_late_fails(tmp_path: Path) -> None:
    recording, error = Rig(tmp_path, takes=steps(1, 5)).fly(5, late="fail")
    assert "no answer after 5000000 ns, allowed 5000000 ns" in str(error)
    assert told(recording)[0] == (15, LATE)


def test_late_stretches(tmp_path: Path) -> None:
    """The board ran on while the simulation stood: from there its time is the tag's again."""
    rig = Rig(tmp_path, takes=steps(1, 25, 1, 25))
    recording, error = rig.fly(5, late="stretch")
    assert error is None
    assert told(recording) == [(15, LATE), (35, LATE)]
    assert answers(recording) == ticks(0, 10, 20, 30, 40, 50)
    exchange = rig.on_board.exchange_ns
    assert [round(ns / MS, 1) for ns in exchange] == [2.2, 26.2, 2.2, 26.2, 1.2, 1.2]


def test_with_no_latency_its_time_runs_ahead(tmp_path: Path) -> None:
    """25 ms of a step and 10 of a period: it is asked when it is done, and catches up."""
    rig = Rig(tmp_path, takes=steps(25, 1))
    recording, error = rig.fly(0)
    assert error is None
    assert told(recording) == []
    assert answers(recording) == ticks(0, 10, 20, 30, 40, 50, 60)
    begun = recording.track("measured/c").rows.integers[:, 1].tolist()
    assert begun[1] == begun[0] + 25 * MS + EXCHANGE - 62_500, "asked at once when it was done"
    assert begun[3:] == [30 * MS, 40 * MS, 50 * MS, 60 * MS]


# -- what is lost, and what is noise --------------------------------------------------------------


@pytest.mark.parametrize("allowed_ms", [0, 9])
def test_lost_replies_are_asked_for_again(allowed_ms: int, tmp_path: Path) -> None:
    rig = Rig(tmp_path, lost=[2, 4])
    recording, error = rig.fly(allowed_ms)
    assert error is None
    assert told(recording) == []
    ms = (0, 10, 20, 30, 40, 50, 60) if allowed_ms == 0 else (0, 10, 20, 30, 40, 50)
    assert answers(recording) == ticks(*ms)
    counts, exchange = rig.on_board.counts, rig.on_board.exchange_ns
    assert counts.repeated == 2
    assert rig.board.board.steps == 7, "no step is taken twice"
    assert exchange[2] > 2 * EXCHANGE
    assert exchange[1] == EXCHANGE


def test_the_first_reply_may_be_lost(tmp_path: Path) -> None:
    """Nobody knows how long a step takes: the repeat comes after a period."""
    rig = Rig(tmp_path, lost=[0])
    recording, error = rig.fly(0)
    assert error is None
    assert answers(recording) == ticks(0, 10, 20, 30, 40, 50, 60)
    assert 10 * MS < rig.on_board.exchange_ns[0] < 10 * MS + 2 * EXCHANGE
    recording, error = Rig(tmp_path, lost=[0]).fly(5)
    assert error is None
    assert told(recording) == [(5, LATE), (10, MISSED), (20, DISCARDED)]


def test_a_repeat_meets_a_board_that_computes(tmp_path: Path) -> None:
    """Its end finds the receiver full; what is left of it does not swallow the next request."""
    rig = Rig(tmp_path, takes=steps(0.1, 60), controller={"silence": 1.0})
    recording, error = rig.fly(0)
    assert error is None
    assert answers(recording) == ticks(0, 10, 20, 30, 40, 50, 60)
    assert rig.board.dropped > 0
    assert rig.on_board.counts.repeated == 7, "each wait is twice the one before, up to a period"
    assert rig.board.board.steps == 7


def test_nothing_is_repeated_while_the_board_speaks(tmp_path: Path) -> None:
    """At twice the longest exchange so far, 2.45 ms, this reply is under way."""
    for allowed_ms in (0, 9):
        rig = Rig(tmp_path, takes=steps(0.0625, 1.6))
        _, error = rig.fly(allowed_ms)
        assert error is None
        assert rig.on_board.counts.repeated == 0


def test_garbage_is_counted(tmp_path: Path) -> None:
    noise = {1: b"\1\2\3\0", 2: b"\5\5\0\7\0", 4: b"\xff" * 50 + b"\0"}
    rig = Rig(tmp_path, noise=noise)
    recording, error = rig.fly(5)
    assert error is None
    assert answers(recording) == ticks(0, 10, 20, 30, 40, 50)
    assert sum(rig.on_board.counts.garbage.values()) == 4


# -- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed_ms", [0, 5])
@pytest.mark.parametrize("notice", [True, False], ids=["noticed", "silent"])
def test_a_reset_ends_the_run(notice: bool, allowed_ms: int, tmp_path: Path) -> None:
    rig = Rig(tmp_path, resets_at=30 * MS_CYCLES, notice=notice)
    recording, error = rig.fly(allowed_ms)
    assert isinstance(error, BoardReset)
    lines = str(error).splitlines()
    assert lines[0].startswith("faulty failed at 0.0")
    assert "the board has reset after step" in lines[0]
    assert lines[1].startswith("inputs: fault=")
    once_more = "to repeat the steps on the host, without the reset: rtsim sil case "
    assert lines[2].startswith(f"{once_more}{tmp_path}/cases/faulty-")
    case = Case.load(Path(lines[2].rpartition(" ")[2]))
    assert (case.kind, case.names) == ("board", ("fault", "x"))
    assert case.last["fault"] == case.tag.ns / (10 * MS)
    assert recording.events[-1].text == str(error)


def test_a_reset_under_hold(tmp_path: Path) -> None:
    rig = Rig(tmp_path, resets_at=30 * MS_CYCLES)
    recording, error = rig.fly(5, failure="hold")
    assert error is None
    kinds = [kind for _, kind in told(recording)]
    assert kinds[0] == FAILED
    assert set(kinds[1:]) == {MISSED}
    assert len(answers(recording)) + len(kinds) - 1 == 6 + (kinds.count(MISSED) > 3)


@pytest.mark.parametrize("failure", ["end", "hold"])
@pytest.mark.parametrize("allowed_ms", [0, 5])
def test_silence(allowed_ms: int, failure: str, tmp_path: Path) -> None:
    """Its patience is of its own time, and ends the run, or the controller."""
    rig = Rig(tmp_path, silent_from=3, controller={"silence": 0.025})
    recording, error = rig.fly(allowed_ms, failure=failure)
    text = str(error) if failure == "end" else recording.events[-1].text
    if failure == "end":
        assert isinstance(error, SilentBoard)
        assert "the board did not answer" in text
        assert "inputs: fault=3, x=0.25" in text
    else:
        assert FAILED in {kind for _, kind in told(recording)}
    if allowed_ms:
        assert told(recording)[:3] == [(35, LATE), (40, MISSED), (50, MISSED)]


@pytest.mark.parametrize(
    ("hello", "kind", "text"),
    [
        ({"version": 2}, OldFirmware, "has version 2 of the protocol"),
        ({"name_hash": 7}, WrongController, "runs another controller than faulty"),
        ({"schema": 7}, WrongController, "has other signals"),
        (
            {"double_bytes": 4},
            WrongController,
            "is a float64, but a double of the board has only 4",
        ),
    ],
)
def test_what_is_found_at_connecting(
    hello: dict[str, int], kind: type[BoardFailure], text: str, tmp_path: Path
) -> None:
    rig = Rig(tmp_path, hello=hello)
    with pytest.raises(kind, match=rf"faulty on board:uno: .*{text}"):
        rig.controller.fresh()
    assert rig.board.closed


def test_nobody_answers_at_connecting(tmp_path: Path) -> None:
    rig = Rig(tmp_path, silent_from=0)
    with pytest.raises(SilentBoard, match=r"faulty on board:uno: no board answered within 0\.5"):
        rig.controller.fresh()
    assert rig.board.closed
    assert 0.5 <= rig.board.cycles / HZ <= 0.8, "not beyond its patience"


def test_a_line_that_breaks(tmp_path: Path) -> None:
    _, error = Rig(tmp_path, breaks_at=3).fly(5)
    assert isinstance(error, BoardFailure)
    assert "the line is gone" in str(error)
    with pytest.raises(BoardFailure, match="faulty on board:uno: the line is gone"):
        Rig(tmp_path, breaks_at=0).controller.fresh()


def test_a_board_that_refuses_an_input(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    controller = rig.controller.fresh()
    rig.board.board.status = 1
    inputs = np.array([7.0, 1.0])
    controller.send(Tag(0), inputs)
    inputs[:] = 99.0  # whoever asked goes on with them
    with pytest.raises(ControllerError, match=r"(?s)faulty failed at 0\.") as caught:
        controller.receive(Tag(0), 1.0)
    assert "fault = 7" in str(caught.value)
    assert "inputs: fault=7, x=1" in str(caught.value)
    controller.close()
    assert rig.board.closed


def test_a_parameter_that_does_not_fit(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.controller.values["start"] = 1e12
    with pytest.raises(ControllerError, match="start"):
        rig.controller.fresh()
    assert rig.board.closed


# -- the rest of the contract ---------------------------------------------------------------------


def test_the_end_is_told_to_the_board(tmp_path: Path) -> None:
    rig = Rig(tmp_path, stop_lost=1)
    rig.fly(5)
    assert rig.board.board.requests[-1] == ()
    assert rig.on_board.counts.repeated == 1
    rig = Rig(tmp_path, stop_lost=10**6)
    controller = rig.controller.fresh()
    with pytest.raises(SilentBoard, match=r"did not stop within 0\.5 s"):
        controller.close()
    assert rig.board.closed
    controller.close()


def test_the_rate_of_the_line_is_the_one_that_is_named(tmp_path: Path) -> None:
    """The board's own, where the URL names none, by the name under which it is known."""
    for url, rate in (("board:uno", 115_200), ("board:uno?baud=57600", 57_600)):
        rig = Rig(tmp_path, controller={"url": url})
        make = rig.controller.link
        assert make is not None

        def link(make: Callable[[], BoardLink] = make) -> BoardLink:
            out = make()
            out.baud = 117_647.06  # type: ignore[attr-defined]
            return out

        rig.controller.link = link
        controller = rig.controller.fresh()
        controller.close()
        assert controller.baud == rate
        assert controller.budget == Budget.of(rig.interface, rate)


def test_what_is_not_on_a_board_says_so(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    with pytest.raises(ControllerError, match="faulty is not connected to a board; use"):
        rig.controller.send(Tag(0), np.zeros(2))
    controller = rig.controller.fresh()
    with pytest.raises(ControllerError, match="was called for the request of"):
        controller.receive(Tag(0), 0.0)
    controller.close()


def test_what_a_recording_says_of_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    recording, _ = rig.fly(5)
    about = recording.header["scenario"]["parts"]["c"]
    assert (about["type"], about["url"], about["paced"]) == ("BoardController", "board:uno", False)
    assert "target's" in about["clocks"]


def test_its_time_is_the_tags_where_nobody_but_it_is_asked(tmp_path: Path) -> None:
    """A table of inputs without a run around it."""
    controller = Rig(tmp_path).controller.fresh()
    for k in (0, 1, 2):
        controller.send(Tag(k * 10 * MS), np.array([1.0, 0.0]))
        assert controller.receive(Tag(k * 10 * MS), 1.0) is not None
        assert controller.stamps()[0] == k * 10 * MS
    controller.close()


def test_an_answer_is_not_that_of_another_run(tmp_path: Path) -> None:
    """Each fresh one has a board of its own, and its measurements are its own."""
    rig = Rig(tmp_path)
    first = rig.controller.fresh()
    first.send(Tag(0), np.array([1.0, 0.0]))
    assert first.receive(Tag(0), 1.0) is not None
    second = rig.controller.fresh()
    assert (len(first.took_ns), len(second.took_ns), len(rig.controller.took_ns)) == (1, 0, 0)
    first.close()
    second.close()


def test_it_is_restored_by_being_asked_again(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    inputs = [np.array([float(k), 0.5]) for k in range(4)]

    def ask(controller: Any, k: int) -> Vector:
        controller.send(Tag(k * 10 * MS), inputs[k])
        answer: Vector = controller.receive(Tag(k * 10 * MS), 1.0)
        return answer

    first = rig.controller.fresh()
    for k in range(3):
        ask(first, k)
    kept = first.save()
    json.dumps({**kept, "tags": [], "inputs": []})
    first.close()
    second = rig.controller.fresh()
    second.restore(kept)
    assert rig.board.board.steps == 3
    assert ask(second, 3)[0] == 3.0
    assert len(second.took_ns) == 1
    second.close()


def wall_ticks(*ms: int) -> list[tuple[int, float]]:
    """The answers to requests of these ms: the tick's number."""
    return [(at, at / 10) for at in ms]


def wall_steps(*ms: float) -> list[int]:
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
    assert answers(recording) == wall_ticks(0, 10, 20, 30, 40, 50)
    assert rig.on_board.own_time is False
    assert rig.on_board.exchange_ns[0] >= 1_222_500
    sent, begun, ended, received = rig.on_board.stamps()
    assert (begun - sent, ended - begun) == (640_000, 62_500)
    assert received - sent == rig.on_board.exchange_ns[-1]


def test_late_in_real_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = rig_of(tmp_path, monkeypatch, paced=True, takes=wall_steps(1, 25))
    recording, error = rig.fly(5)
    assert error is None
    assert told(recording) == [(15, LATE), (20, MISSED), (30, MISSED), (40, DISCARDED)]
    assert answers(recording) == wall_ticks(0, 40, 50)


def test_a_lost_reply_in_real_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for again as soon as somebody looks; the deadline stands."""
    rig = rig_of(tmp_path, monkeypatch, paced=True, lost=[2])
    recording, error = rig.fly(5)
    assert error is None
    assert told(recording) == [(25, LATE), (30, MISSED), (40, DISCARDED)]
    assert answers(recording) == wall_ticks(0, 10, 40, 50)
    assert rig.on_board.counts.repeated == 1
    assert rig.board.board.steps == len(recording.track("messages/c.inputs").ns)


def test_a_repeat_in_real_time_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was repeated when it was late is there at the next tick."""
    monkeypatch.setattr(WallLine, "repeat_ns", 3 * MS)
    rig = rig_of(tmp_path, monkeypatch, paced=True, lost=[2])
    recording, error = rig.fly(5)
    assert error is None
    assert told(recording) == [(25, LATE), (30, DISCARDED)]
    assert answers(recording) == wall_ticks(0, 10, 30, 40, 50)


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
    assert answers(recording)[:6] == wall_ticks(0, 10, 20, 30, 40, 50)


def test_late_by_what_the_board_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the wall waits: execution, firmware and wire alone count."""
    rig = rig_of(tmp_path, monkeypatch, paced=False, takes=wall_steps(1, 5, 3.6))
    recording, error = rig.fly(5)
    assert error is None
    assert told(recording) == [(15, LATE), (20, DISCARDED)]
    assert answers(recording) == wall_ticks(0, 20, 30, 40, 50)


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
        assert rig.board.board.steps <= len(recording.track("messages/c.inputs").ns)
    (recording, counts), (again, counted) = runs
    assert compare_exact(recording, again) is None
    assert counts == counted
    assert counts.repeated > 100
    assert sum(counts.garbage.values()) > 30
    kinds = {kind for _, kind in told(recording)}
    wanted = {LATE} if late == "stretch" else {LATE, MISSED, DISCARDED}
    assert {LATE, MISSED, DISCARDED} & kinds == wanted
    assert all(value == min(at // 10, 6) for at, value in answers(recording))


ROOT = Path(__file__).resolve().parents[3]
REGULATOR = ROOT / "hitl/examples/arduino/regulator.toml"
MOVED_US = 100
"""By how much the measurement itself may move a time."""


@pytest.mark.system("avr-gcc")
def test_the_first_step_on_an_uno_is_that_of_the_interface_file() -> None:
    need("avr8js")
    interface = load_interface(REGULATOR)
    found = measured_clock(interface)
    assert found == measured_clock(interface)
    assert found.timer == AVR
    assert found.setup_us % 4 == found.first_step_us % 4 == 0  # the steps of micros() at 16 MHz
    assert 0 < found.setup_us < found.first_step_us
    assert interface.language.clock is not None
    assert abs(found.first_step_us - interface.language.clock.first_step_us) < MOVED_US


@pytest.mark.long
@pytest.mark.usefixtures("pico")
def test_the_clock_of_a_pico_has_no_steps_of_a_ms() -> None:
    done = CliRunner().invoke(
        main, ["board", "clock", str(REGULATOR), "--board", "board:pico", "--json"]
    )
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert (told["timer"], told["board"]) == (EXACT, "board:pico")
    assert 0.0 < told["setup_s"] < told["first_step_s"] < 0.01


def test_code_without_a_clock_is_refused() -> None:
    motor = ROOT / "firmware/core/pid.toml"
    done = CliRunner().invoke(main, ["board", "clock", f"{motor}:single"])
    assert done.exit_code == 2
    assert (
        "so it has no clock to measure; if it is Arduino code, write arduino = true" in done.output
    )
    done = CliRunner().invoke(
        main, ["board", "clock", str(REGULATOR), "--board", "serial:///dev/none"]
    )
    assert done.exit_code == 2
    assert "change from run to run; give an emulated board, such as" in done.output
