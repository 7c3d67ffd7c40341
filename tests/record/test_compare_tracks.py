"""Runs of several tracks held against each other: which are compared, and up to where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import START, Tag
from rtsim.record.comparison import Comparison, SignalResult, compare, compare_exact
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import Tolerance

Rows = Sequence[tuple[int, float]]
WALL = {"deterministic": "no"}


def recorded(wall: Sequence[str] = (), **tracks: Rows) -> Recording:
    """Each track has one signal ``x``; a row is (ns, value)."""
    recorder = MemoryRecorder()
    made = {
        name: recorder.track(name, ("step",), Signals("x"), WALL if name in wall else None)
        for name in tracks
    }
    recorder.start({})
    for name, rows in tracks.items():
        for ns, value in rows:
            made[name].append(ns, (0,), np.array([value], np.float64))
    return recorder.recording()


def values(*given: float, step: int = 10) -> Rows:
    return [(k * step, v) for k, v in enumerate(given)]


def failed(result: Comparison) -> dict[str, str]:
    return {r.name: r.reason for r in result.failures}


def test_a_track_of_the_wall_is_left_out_and_those_behind_it_are_not() -> None:
    ours = recorded(("b",), a=values(1), b=values(1), c=values(1))
    theirs = recorded(("b",), a=values(1), b=values(9), c=values(2))
    result = compare(ours, theirs)
    assert [r.name for r in result.results] == ["a.x", "c.x"]
    assert list(failed(result)) == ["c.x"]
    found = compare_exact(ours, theirs)
    assert found is not None
    assert found.track == "c"


def test_a_track_that_is_missing_fails_and_those_behind_it_are_compared() -> None:
    ours = recorded(a=values(1), b=values(1), c=values(1))
    result = compare(ours, recorded(b=values(1), c=values(2), d=values(0)))
    assert failed(result) == {
        "a.x": "the candidate has no such track", "c.x": "fails at 0 s, 1/1",
    }  # fmt: skip
    assert result.extra == ["d"]


def test_what_is_nothing_is_no_agreement() -> None:
    empty = MemoryRecorder().recording()
    assert not compare(empty, empty).ok
    assert not Comparison([]).ok
    assert compare(recorded(a=values(1)), recorded(a=values(1))).ok


@pytest.mark.parametrize(("last", "ok"), [(29, False), (30, True), (31, True), (40, True)])
def test_the_candidate_has_to_reach_the_end(last: int, ok: bool) -> None:
    """Of all tracks together, those of the wall left out."""
    ours = recorded(("w",), a=[(0, 1.0)], b=[(0, 1.0), (30, 1.0)], w=[(99, 0.0)])
    theirs = recorded(a=[(0, 1.0)], b=[(0, 1.0), (30, 1.0)] if last >= 30 else [(0, 1.0)])
    more = recorded(a=[(0, 1.0)], b=[(0, 1.0), (30, 1.0)], z=[(last, 1.0)])
    assert compare(ours, more if last >= 30 else theirs).ok is ok
    assert ("overlap" in failed(compare(ours, theirs))) is not ok


def test_rows_behind_the_baselines_end_do_not_count_and_one_at_it_does() -> None:
    ours = recorded(a=values(1, 1, 1), b=values(1))
    assert compare(ours, recorded(a=values(1, 1, 1, 5), b=values(1))).ok
    assert compare(ours, recorded(a=values(1, 1, 1), b=[(0, 1.0), (21, 1.0)])).ok
    assert not compare(ours, recorded(a=values(1, 1, 1), b=[(0, 1.0), (20, 1.0)])).ok


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(0, 1.0), (11, 1.0), (20, 1.0)], "row 1 is 0.000000010 s in the baseline, 0.000000011 s"),
        ([(0, 1.0), (20, 1.0)], "row 1 is 0.000000010 s in the baseline, 0.000000020 s"),
        ([(0, 1.0), (10, 1.0), (10, 1.0), (20, 1.0)], "row 2 is 0.000000020 s in the baseline"),
        ([(0, 1.0), (10, 1.0), (20, 1.0), (20, 1.0)], "row 3 is missing in the baseline, 0.00000"),
    ],
)
def test_the_first_tag_that_is_another_one_is_named(rows: Rows, said: str) -> None:
    reason = failed(compare(recorded(a=values(1, 1, 1)), recorded(a=rows)))["a.x"]
    assert reason.startswith("other tags: ")
    assert said in reason


def test_a_track_without_columns_fails_by_its_rows() -> None:
    def bare(*ns: int) -> Recording:
        recorder = MemoryRecorder()
        track = recorder.track("ticks", ("step",), Signals())
        recorder.start({})
        for one in ns:
            track.append(one, (0,))
        return recorder.recording()

    assert list(failed(compare(bare(0, 10), bare(0, 9, 10)))) == ["ticks"]
    same = compare(bare(0, 10), bare(0, 10))
    assert (same.results, same.ok) == ([], False), "nothing was compared"


# -- common times


def common(a: Rows, b: Rows) -> SignalResult:
    result = compare(recorded(a=a), recorded(a=b, z=[(10_000, 0.0)]), tags="common")
    (found,) = result.results
    return found


def test_common_times_have_to_span_nine_tenths() -> None:
    ours = values(*[1.0] * 11)  # 0 to 100
    for first, last, ok in (
        (0, 100, True),
        (0, 90, True),
        (0, 80, False),
        (10, 100, True),
        (20, 100, False),
    ):
        theirs = [(ns, 1.0) for ns in range(first, last + 1, 10)]
        found = common(ours, theirs)
        assert found.ok is ok, (first, last)
        assert found.rows == (len(theirs) if ok else 0)
    said = common(ours, [(5, 1.0), (100, 1.0)]).reason
    assert said == "1 of 11 times in common, over less than 0.000000090 s"


def test_common_times_may_leave_out_every_other_row_but_no_long_gap() -> None:
    """Two rows of 1001, the first and the last, agreed."""
    ours = values(*[1.0] * 1001)  # 0 to 10000
    said = common(ours, [(0, 1.0), (10_000, 1.0)]).reason
    assert said == "2 of 1001 times in common, and none between 0.000000000 s and 0.000010000 s"
    for gap, ok in ((1000, True), (1010, False)):
        theirs = [(ns, 1.0) for ns in range(0, 10_001, 10) if not 2000 < ns < 2000 + gap]
        assert common(ours, theirs).ok is ok, gap
    assert common(values(1.0, 1.0, 1.0, 1.0, 1.0), [(0, 1.0), (20, 1.0), (40, 1.0)]).ok


def test_one_time_in_common_is_enough_only_where_there_is_but_one() -> None:
    assert common([(7, 1.0)], [(0, 3.0), (7, 1.0)]).ok
    assert not common([(7, 1.0)], [(0, 3.0), (8, 1.0)]).ok
    assert not common([(7, 1.0), (8, 1.0)], [(7, 1.0)]).ok


def test_of_rows_at_one_time_the_last_one_of_each_counts() -> None:
    ours = [(0, 1.0), (10, 5.0), (10, 2.0), (20, 3.0)]
    assert common(ours, [(0, 9.0), (0, 1.0), (10, 2.0), (20, 7.0), (20, 3.0)]).ok
    assert not common(ours, [(0, 1.0), (10, 5.0), (20, 3.0)]).ok


# -- what it says


def test_the_worst_is_told_first_and_what_fails_before_what_does_not() -> None:
    results = [
        SignalResult("ok small", max_rel=0.1), SignalResult("ok large", max_rel=0.9),
        SignalResult("bad small", max_rel=0.2, reason="x"),
        SignalResult("bad large", max_rel=0.2, max_abs=1.0, reason="x"),
        SignalResult("bad largest", max_rel=math.inf, reason="x"),
    ]  # fmt: skip
    order = ["bad largest", "bad large", "bad small", "ok large", "ok small"]
    comparison = Comparison(results)
    assert [r.name for r in comparison.worst_first()] == order
    assert [r.name for r in comparison.failures] == ["bad small", "bad large", "bad largest"]
    assert not comparison.ok
    data: Any = comparison.to_json()
    assert (data["ok"], len(data["signals"]), data["extra"]) == (False, 5, [])


def test_a_signal_that_has_the_name_of_a_stamp_is_told_apart() -> None:
    def of(stamp: int, value: float) -> Recording:
        recorder = MemoryRecorder()
        track = recorder.track("m", ("sequence",), Signals("sequence"))
        recorder.start({})
        track.append(0, (stamp,), np.array([value]))
        return recorder.recording()

    result = compare(of(1, 2.0), of(1, 2.5), {"m.sequence": (1.0, 0.0)})
    assert {r.name: r.tolerance for r in result.results} == {
        "m.sequence": Tolerance(1.0, 0.0), "m.sequence (stamp)": Tolerance(0.0, 0.0),
    }  # fmt: skip
    assert result.ok
    assert list(failed(compare(of(1, 2.0), of(2, 2.0)))) == ["m.sequence (stamp)"]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Signal("x", "ft"), "its unit is 1 in the baseline, ft in the candidate"),
        (Signal("x", shape=(2,)), r"its shape is () in the baseline, (2,) in the candidate"),
        (Signal("x", kind="angle"), "its kind is scalar in the baseline, angle in the candidate"),
        (Signal("y"), "the candidate has no such signal"),
    ],
)
def test_a_signal_of_another_meaning_is_no_other_value_of_it(other: Signal, said: str) -> None:
    recorder = MemoryRecorder()
    track = recorder.track("a", ("step",), Signals(other))
    recorder.start({})
    track.append(0, (0,), np.ones(other.size))
    result = compare(recorded(a=values(1)), recorder.recording(), {"a.x": (9.0, 9.0)})
    assert failed(result) == {"a.x": said}
    assert result.results[0].tolerance == (9.0, 9.0)


# -- bit for bit


def test_the_first_difference_is_that_of_the_earliest_tag_then_of_the_first_track() -> None:
    ours = recorded(a=values(1, 1, 1), b=values(1, 1, 1), c=values(1, 1, 1))
    theirs = recorded(a=values(1, 1, 2), b=values(1, 3, 1), c=values(1, 4, 1))
    found = compare_exact(ours, theirs)
    assert found is not None
    assert (found.tag, found.track, found.column) == (Tag(10), "b", "x")
    assert (found.baseline, found.candidate) == ("1.0", "3.0")


def test_a_track_that_only_one_has_is_a_difference_from_the_start() -> None:
    one, two = recorded(a=values(1)), recorded(a=values(1), b=values(1))
    for ours, theirs, said in (
        (one, two, ("no such track", "present")), (two, one, ("present", "no such track")),
    ):  # fmt: skip
        found = compare_exact(ours, theirs)
        assert found is not None
        assert (found.tag, found.track, found.column) == (START, "b", "*")
        assert (found.baseline, found.candidate) == said
    wall = recorded(("b",), a=values(1), b=values(1))
    assert compare_exact(one, wall) is None


def test_rows_that_one_has_more_are_told_at_their_tag() -> None:
    short, long = recorded(a=values(1)), recorded(a=values(1, 1))
    found = compare_exact(short, long)
    assert found is not None
    assert (found.tag, found.baseline, found.candidate) == (Tag(10), "1 rows", "2 rows")
    found = compare_exact(long, short)
    assert found is not None
    assert (found.tag, found.baseline, found.candidate) == (Tag(10), "2 rows", "1 rows")


def test_a_nan_is_told_with_its_bits_and_an_integer_as_itself() -> None:
    quiet, other = math.nan, float(np.array([0x7FF8000000000001]).view(np.float64)[0])
    found = compare_exact(recorded(a=values(quiet)), recorded(a=values(other)))
    assert found is not None
    assert (found.baseline, found.candidate) == (
        "nan (0x7ff8000000000000)", "nan (0x7ff8000000000001)",
    )  # fmt: skip
    late = compare_exact(recorded(a=[(5, 1.0)]), recorded(a=[(7, 1.0)]))
    assert late is not None
    assert (late.tag, late.column, late.baseline, late.candidate) == (Tag(5), "ns", "5", "7")
    minus = compare_exact(recorded(a=values(-math.nan)), recorded(a=values(1)))
    assert minus is not None
    assert minus.baseline == "nan (0xfff8000000000000)"
