"""Who keeps checkpoints, which one is found again, and what is asked for by time."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from rtsim.core.errors import CheckpointError, ScenarioError
from rtsim.core.tag import NEVER
from rtsim.engine.checkpoint.file import (
    MOST_FILES,
    Checkpoint,
    CheckpointHistory,
    Files,
    Ring,
    beside,
    path_beside,
)
from rtsim.engine.checkpoint.schedule import CheckpointSchedule

MS = 1_000_000


def at(ms: int, seed: int = 0) -> Checkpoint:
    return Checkpoint(ms * MS, {"seed": seed}, {})


class Run:
    """Stands between two tags; saving takes no time, and there is no clock to wait for."""

    left: int | None = None

    def save(self) -> dict[str, Any]:
        return {}

    def position(self) -> tuple[dict[str, int], int]:
        return {"p": 3}, 2

    def in_hand(self) -> int | None:
        return self.left


def begun(taking: CheckpointSchedule, ns: int = 0, until_ns: int = 10**12) -> CheckpointSchedule:
    taking.begin(Run(), {"seed": 1}, ns, until_ns, lambda: 0)
    return taking


# -- a ring


def kept(ring: Ring) -> list[int]:
    return [c.ns // MS for c in ring._kept]


@pytest.mark.parametrize(
    ("back_to", "left"), [(35, [10, 20, 30]), (30, [10, 20, 30]), (29, [10, 20]), (0, [])]
)
def test_what_lies_ahead_is_forgotten(back_to: int, left: list[int]) -> None:
    ring = Ring(1)
    for ms in (10, 20, 30, 40):
        ring.keep(at(ms))
    ring.forget_after(back_to * MS)
    assert kept(ring) == left
    assert len(ring) == len(left)


def test_one_that_is_kept_at_the_same_time_takes_the_place_of_the_other() -> None:
    ring = Ring(1)
    for ms, seed in ((10, 0), (20, 0), (20, 1)):
        ring.keep(at(ms, seed))
    assert kept(ring) == [10, 20]
    assert ring.before(20 * MS) == at(20, 1)
    assert ring.before(19 * MS + 999_999) == at(10)
    assert ring.before(10 * MS - 1) is None


@pytest.mark.parametrize(("newest", "left"), [(29, [10, 20, 29]), (30, [20, 30]), (31, [20, 31])])
def test_the_oldest_goes_when_the_next_one_is_old_enough(newest: int, left: list[int]) -> None:
    ring = Ring("0.010")
    for ms in (10, 20, newest):
        ring.keep(at(ms))
    assert kept(ring) == left


# -- files


def test_the_latest_of_those_that_wait_and_those_on_the_disk(tmp_path: Path) -> None:
    files = Files(tmp_path / "run.mcap")
    for ms in (10, 20):
        files.keep(at(ms))
    files.finish()
    for ms in (20, 30, 40):
        files.keep(at(ms, seed=5))

    def found(after: int, ms: int) -> tuple[int, int] | None:
        one = files.between(after * MS, ms * MS)
        return None if one is None else (one.ns // MS, one.header["seed"])

    assert [found(-1, ms) for ms in (9, 10, 19, 20, 29, 30, 99)] == [
        None, (10, 0), (10, 0), (20, 5), (20, 5), (30, 5), (40, 5),
    ]  # fmt: skip
    assert [found(after, 19) for after in (9, 10, 11)] == [(10, 0), None, None]
    assert [found(after, 35) for after in (29, 30)] == [(30, 5), None]
    files.finish()
    assert found(-1, 99) == (40, 5)
    files.forget_after(30 * MS)
    assert found(-1, 99) == (30, 5)
    assert len(files.paths) == 5, "their files stay"
    assert len(beside(tmp_path / "run.mcap")) == 4


@pytest.mark.parametrize(
    ("ns", "name"),
    [
        (0, "run@0.000"), (1, "run@0.000000001"), (12_340_000_000, "run@12.340"),
        (1_000_000_010, "run@1.00000001"), (120_000_000_000, "run@120.000"),
    ],
)  # fmt: skip
def test_a_file_is_named_by_its_time(ns: int, name: str) -> None:
    assert path_beside(Path("run.mcap"), ns).name == f"{name}.checkpoint"


# -- taking


def test_the_earliest_time_that_makes_sense_is_a_nanosecond() -> None:
    assert begun(CheckpointSchedule(Ring(1), at=["1e-9"])).next_ns == 1
    assert begun(CheckpointSchedule(Ring(1), every="1e-9")).next_ns == 1
    for how in ({"at": ["0"]}, {"at": [1, -1]}, {"every": "-1e-9"}):
        with pytest.raises(ScenarioError, match="must be > 0"):
            CheckpointSchedule(Ring(1), **how)


def test_without_a_keeper_there_is_none_to_ask_and_none_to_finish() -> None:
    taking = begun(CheckpointSchedule(None))
    assert (taking.wanted, taking.next_ns, taking.taken, taking.postponed) == (
        False,
        NEVER.ns,
        0,
        0,
    )
    taking.finish()
    taking.write()
    taking.observe(5)
    with pytest.raises(CheckpointError, match="next to a recording, and this run writes no"):
        taking.ask(5)
    assert CheckpointSchedule(Ring(1), at=[1]).wanted
    assert CheckpointSchedule(Ring(1), every=1).wanted
    assert CheckpointSchedule(None, past=CheckpointHistory(1)).wanted
    assert not CheckpointSchedule(None, past=CheckpointHistory(1, if_savable=True)).wanted
    assert not CheckpointSchedule(None, past=CheckpointHistory()).wanted


def test_what_is_taken_has_the_runs_header_and_how_far_its_recording_was() -> None:
    ring = Ring(1)
    taking = begun(CheckpointSchedule(ring, at=["0.005"]))
    taking.observe(5 * MS - 1)
    assert (len(ring), taking.taken) == (0, 0)
    taking.observe(5 * MS)
    (one,) = ring._kept
    assert (one.ns, one.header, one.rows, one.events) == (5 * MS, {"seed": 1}, {"p": 3}, 2)
    assert (taking.taken, taking.next_ns) == (1, NEVER.ns)


def test_one_more_is_taken_when_it_is_asked_for() -> None:
    ring = Ring(1)
    taking = begun(CheckpointSchedule(ring, every=1))
    taking.ask(7 * MS)
    assert taking.next_ns == 7 * MS
    taking.observe(7 * MS)
    assert (kept(ring), taking.next_ns) == ([7], 1000 * MS)


def test_no_more_than_a_run_may_write() -> None:
    class Few(Ring):
        most = 2  # type: ignore[assignment]

    taking = begun(CheckpointSchedule(Few(1), every=1), until_ns=2 * 10**9 + 999_999_999)
    with pytest.raises(
        ScenarioError, match="1 s would make more than 2 checkpoints; give a longer"
    ):
        begun(CheckpointSchedule(Few(1), every=1), until_ns=3 * 10**9)
    begun(CheckpointSchedule(Few(1), every=1), ns=10**9, until_ns=3 * 10**9)
    for ns in (1, 2):
        taking.ask(ns)
        taking.observe(ns)
    with pytest.raises(CheckpointError, match="this run has already written 2 checkpoints"):
        taking.ask(3)
    assert (Files.most, MOST_FILES) == (100_000, 100_000)


def test_a_time_up_to_the_end_can_be_asked_for() -> None:
    begun(CheckpointSchedule(Ring(1), at=["1"]), until_ns=10**9)
    with pytest.raises(ScenarioError, match=r"checkpoint time 1 s is after the end of"):
        begun(CheckpointSchedule(Ring(1), at=["1"]), until_ns=10**9 - 1)


def test_times_before_a_run_that_goes_on_are_over() -> None:
    taking = begun(CheckpointSchedule(Ring(1), at=["0.001", "0.002", "0.003"]), ns=2 * MS)
    assert taking.next_ns == 3 * MS


@pytest.mark.parametrize(("left", "postponed"), [(19, 1), (20, 0), (21, 0)])
def test_a_regular_one_waits_where_there_is_less_than_twice_its_cost(
    left: int, postponed: int
) -> None:
    ring, run, ticks = Ring(1), Run(), itertools.count(0, 10)
    taking = CheckpointSchedule(ring, every="0.001")
    taking.begin(run, {}, 0, 10**12, lambda: next(ticks))
    run.left = 10**9
    taking.observe(MS)
    run.left = left
    taking.observe(2 * MS)
    assert taking.postponed == postponed
    assert kept(ring) == ([1] if postponed else [1, 2])


def test_a_file_is_written_at_once_only_where_nobody_waits_for_a_clock(tmp_path: Path) -> None:
    files, run = Files(tmp_path / "run.mcap"), Run()
    taking = CheckpointSchedule(files, at=["0.001", "0.002"])
    taking.begin(run, {}, 0, 10**12, lambda: 0)
    run.left = 10**9
    taking.observe(MS)
    assert files.paths == []
    run.left = None
    taking.observe(2 * MS)
    assert len(files.paths) == 2


# -- the past


def test_the_past_is_what_is_latest_of_all_that_was_kept(tmp_path: Path) -> None:
    past = CheckpointHistory(1, start=at(5))
    files = Files(tmp_path / "run.mcap")
    past.add(files)
    assert past.before(4 * MS) is None
    assert past.before(5 * MS) == at(5)
    past.keep(at(10))
    files.keep(at(12))
    assert [one and one.ns // MS for one in map(past.before, (9 * MS, 11 * MS, 99 * MS))] == [
        5, 10, 12,
    ]  # fmt: skip
    past.keep(at(20))
    assert past.before(99 * MS) == at(20)
    past.begin(10 * MS)
    assert past.before(99 * MS) == at(12), "what waits to be written is kept still"


@pytest.mark.parametrize(("seconds", "every_ms"), [(1, 100), (10, 100), (10.1, 101), (100, 1000)])
def test_a_ring_takes_a_hundred_and_none_closer_than_a_tenth_of_a_second(
    seconds: float, every_ms: int
) -> None:
    assert CheckpointHistory(seconds).every_ns == every_ms * MS
    assert CheckpointHistory().every_ns is None
    for wrong in (0, -1):
        with pytest.raises(ScenarioError, match=f"rewind span {wrong} s must be > 0"):
            CheckpointHistory(wrong)


def test_the_beginning_is_kept_where_it_is_asked_for() -> None:
    past = CheckpointHistory(first=True)
    lacking = [past.lacks_first]
    for ms in (3, 9):
        past.keep(at(ms))
        lacking.append(past.lacks_first)
    assert lacking == [True, False, False]
    assert past.before(99 * MS) == at(3)
    assert not CheckpointHistory(first=True, start=at(1)).lacks_first
    assert not CheckpointHistory().lacks_first
    ring = begun(CheckpointSchedule(None, past=CheckpointHistory(1, first=True)), ns=7)
    assert ring.next_ns == 7
    assert begun(CheckpointSchedule(None, past=CheckpointHistory(1)), ns=7).next_ns == 100 * MS
