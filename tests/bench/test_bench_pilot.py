"""The judgements of the pilot's bench, on figures that were made up."""

from __future__ import annotations

import math
import os
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from tools.bench import pilot
from tools.bench.pilot import Rounds, film_missed, intervals, moves
from tools.bench.pilot_bystander import bystander, measured_share
from tools.bench.pilot_witness import VARIABLE, environment, shown, witnessed
from tools.bench.results import Row

MS = 1_000_000
FRAME = 16_666_667


def rounds(
    late: float,
    overruns: float,
    p99: float = 17.0,
    more: float = 1.0,
    *,
    ours: float | None = None,
    computing: float = 0.0,
    behind: float | None = None,
) -> Rounds:
    """Three alike; of the overruns all are ours unless another number is given."""
    out = Rounds()
    for _ in range(3):
        out.late_ns.append(late)
        out.overruns.append(overruns)
        out.ours.append(overruns if ours is None else ours)
        out.computing.append(computing)
        out.behind.append(behind)
        out.step_ns.append(more * MS)
        out.picture_ns.append(more * MS)
        out.intervals.append(np.full(200, round(p99 * MS)))
    return out


def verdicts(rows: list[Row]) -> list[bool]:
    return [row.ok for row in rows if row.ok is not None]


@pytest.mark.parametrize(
    ("late", "overruns", "kept"),
    [
        (14.0, 14.0, [True, True]),
        (16.0, 14.0, [False, True]),
        (14.0, 16.0, [True, False]),
    ],
)
def test_at_1_khz_once_and_a_half(late: float, overruns: float, kept: list[bool]) -> None:
    """The lateness of the loop alone, and the overruns of the loop beside other work."""
    alone, seen, other = rounds(10.0, 1.0), rounds(late, overruns), rounds(99.0, 10.0)
    rows = pilot._simulation_rows(1000, alone, seen, other)
    assert verdicts(rows) == kept
    assert [row.figures["count"] for row in rows[4:6]] == [overruns - 10.0, overruns - 1.0]


@pytest.mark.parametrize(("share", "kept"), [(0.5, True), (0.6, False)])
def test_a_window_computes_at_most_half_of_the_time(share: float, kept: bool) -> None:
    seen = rounds(10.0, 1.0)
    seen.busy += [0.1, share, 0.9]
    rows = pilot._simulation_rows(1000, rounds(10.0, 1.0), seen, rounds(10.0, 1.0))
    assert verdicts(rows) == [True, True, kept]


def test_without_other_work_the_loop_alone_is_the_opponent() -> None:
    """One overrun more is none, and two are."""
    alone = rounds(10.0, 0.0)
    for overruns, kept in ((1.0, True), (2.0, False)):
        rows = pilot._simulation_rows(1000, alone, rounds(10.0, overruns), Rounds())
        assert verdicts(rows) == [True, kept]


@pytest.mark.live
@pytest.mark.skipif(not Path("/proc/self/stat").is_file(), reason="no /proc")
def test_other_work_computes_the_share_that_was_asked_for() -> None:
    found: list[float] = []
    for share in (0.1, 0.4):
        with bystander(share, 60.0) as process, measured_share(process, found):
            assert process != os.getpid()
            Event().wait(1.0)
    low, high = found
    assert 0.02 < low < 0.2  # less than asked for where others compute, too
    assert low < high < 0.5


def test_of_a_process_that_has_ended_no_share_is_known() -> None:
    found: list[float] = []
    with bystander(0.1, 60.0) as process:
        pass
    with measured_share(process, found):
        pass
    assert found == []


def test_other_work_that_ends_is_no_opponent() -> None:
    with pytest.raises(RuntimeError, match="the other work did not begin"):
        bystander(math.nan, 60.0).__enter__()


def test_at_100_hz_no_overrun_more_in_all_rounds() -> None:
    alone, seen = rounds(10.0, 1.0), rounds(99.0, 1.0)
    assert verdicts(pilot._simulation_rows(100, alone, seen, Rounds())) == [True]
    seen.overruns[1] = 2.0
    assert verdicts(pilot._simulation_rows(100, alone, seen, Rounds())) == [False]


@pytest.mark.parametrize(
    ("behind", "computing", "kept"),
    [(0.0, 2.0, True), (1.0, 2.0, False), (0.0, 3.0, False), (0.0, 1.0, True)],
)
def test_where_the_kernel_tells_whom_it_stood_behind_the_window_makes_none(
    behind: float, computing: float, kept: bool
) -> None:
    """Beside the bound on all of them, however they came about."""
    alone = rounds(10.0, 3.0, computing=2.0, behind=None)
    seen = rounds(10.0, 9.0, ours=4.0, computing=computing, behind=behind)
    rows = pilot._simulation_rows(100, alone, seen, Rounds())
    assert verdicts(rows) == [False, kept]
    assert [row.figures["count"] for row in rows[2:4]] == [18.0, 3.0]
    seen.behind[2] = None  # of one round it did not
    assert verdicts(pilot._simulation_rows(100, alone, seen, Rounds())) == [False]


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        ([FRAME] * 9, 0),
        ([FRAME, 41 * MS, FRAME], 0),
        ([FRAME, 42 * MS, FRAME, 42 * MS], 1),
        ([FRAME, 42 * MS, 42 * MS, FRAME], 2),
        ([FRAME, 84 * MS, FRAME], 2),
    ],
)
def test_pictures_of_a_film_that_were_missed(found: list[int], missed: int) -> None:
    assert film_missed(found) == missed


def test_frames_are_held_against_an_empty_loop() -> None:
    empty = rounds(0.0, 0.0, 17.0)
    assert verdicts(pilot._frame_rows(1000, rounds(0.0, 0.0, 25.0), empty)) == [True, True]
    assert verdicts(pilot._frame_rows(1000, rounds(0.0, 0.0, 26.0), empty)) == [False, True]
    assert verdicts(pilot._frame_rows(1000, rounds(0.0, 0.0, 45.0), empty)) == [False, False]


@pytest.mark.parametrize(
    ("hz", "ms", "kept"),
    [(1000, 3.9, [True, True]), (1000, 4.1, [False, True]), (100, 43.0, [False, True]),
     (100, 43.4, [False, False])],
)  # fmt: skip
def test_latencies_are_bounded_by_steps_and_frames(hz: int, ms: float, kept: list[bool]) -> None:
    assert verdicts(pilot._latency_rows(hz, rounds(0.0, 0.0, more=ms))) == kept


def test_the_first_second_is_left_out() -> None:
    times = np.arange(0, 3000, 500) * MS
    assert intervals(times).tolist() == [500 * MS] * 3


def test_a_stick_that_moves_all_the_time_and_not_far() -> None:
    script = moves(2.0)
    assert len(script) == 40
    assert np.abs([axes for _, axes in script]).max() <= 0.33
    assert len({axes for _, axes in script}) == 40


def test_a_witness_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("PYTHONPATH", "mine")
    with witnessed(tmp_path):
        assert os.environ["PYTHONPATH"].startswith(str(tmp_path))
        assert os.environ["PYTHONPATH"].endswith(f"{os.pathsep}mine")
    assert os.environ["PYTHONPATH"] == "mine"
    assert VARIABLE not in os.environ
    with environment({"PYTHONPATH": "other"}):
        assert os.environ["PYTHONPATH"] == "other"
    with pytest.raises(FileNotFoundError, match="killed, or never began"):
        shown(tmp_path)
