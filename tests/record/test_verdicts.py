"""Which rows of two recordings belong together, at the edges of every rule.

The verdict on one signal: its distance, what is allowed, where it fails and what it says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rtsim.core.outcome import Outcome
from rtsim.core.signals import Kind, Signal, Signals
from rtsim.core.tag import Tag
from rtsim.record.events import RunEnding
from rtsim.record.reading import Recording, TrackData
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import (
    EXACT,
    ComparedSignal,
    ComparisonWindow,
    Paired,
    SignalResult,
    Tolerance,
    paired,
    short,
)

END, DIED = RunEnding(100, 100, "end"), RunEnding(100, 200, "error", "it fell")
Keys = Sequence[tuple[int, ...]]


def track(rows: Keys, integers: tuple[str, ...] = ("step",)) -> TrackData:
    """A row is ns and its integers."""
    recorder = MemoryRecorder()
    made = recorder.track("p", integers, Signals("x"))
    recorder.start({})
    for ns, *rest in rows:
        made.append(ns, tuple(rest), np.array([1.0]))
    return recorder.recording().tracks["p"]


def at(*times: int) -> TrackData:
    return track([(ns, 0) for ns in times])


def rows(found: Paired) -> tuple[list[int], list[int]]:
    return found.left.tolist(), found.right.tolist()


def equal(
    a: TrackData, b: TrackData, end: int = 100, ours: RunEnding = END, theirs: RunEnding = END
) -> Paired:
    return paired(a, b, ComparisonWindow(end, ours, theirs), "exact")


def common(a: TrackData, b: TrackData, end: int = 10_000) -> Paired:
    return paired(a, b, ComparisonWindow(end, END, END), "common")


# -- at equal tags


def test_rows_up_to_the_end_belong_together_and_none_behind_it() -> None:
    found = equal(at(0, 50, 100, 101), at(0, 50, 100, 102))
    assert rows(found) == ([0, 1, 2], [0, 1, 2])
    assert (found.problem, found.lacking) == ("", (False, False))


@pytest.mark.parametrize("key", ["step", "side"])
def test_another_microstep_or_side_is_another_tag(key: str) -> None:
    integers = ("step", "side")
    ours = [[0, 0, 0], [5, 0, 0], [5, 1, 1]]
    theirs = [list(row) for row in ours]
    theirs[1][1 + integers.index(key)] = 1
    found = equal(
        track([tuple(r) for r in ours], integers), track([tuple(r) for r in theirs], integers)
    )
    other = "0.000000005 s +1" if key == "step" else "0.000000005 s (x+)"
    assert found.problem == (
        f"other tags: row 1 is 0.000000005 s in the baseline, {other} in the candidate"
    )
    assert rows(found) == ([], [])


def test_an_integer_that_is_no_part_of_a_tag_may_differ() -> None:
    found = equal(track([(0, 1), (5, 2)], ("sequence",)), track([(0, 7), (5, 8)], ("sequence",)))
    assert rows(found) == ([0, 1], [0, 1])


def test_a_key_that_a_recording_lacks_counts_as_zero() -> None:
    assert rows(equal(track([(0, 0)]), track([(0,)], ()))) == ([0], [0])
    assert equal(track([(0, 1)]), track([(0,)], ())).problem


@pytest.mark.parametrize(
    ("ours", "theirs", "paired_up", "lacking"),
    [
        (DIED, END, True, (True, False)),
        (END, DIED, False, (False, False)),
        (END, END, False, (False, False)),
    ],
)
def test_rows_that_the_baseline_lacks_are_missing_where_it_did_not_end_early(
    ours: RunEnding, theirs: RunEnding, paired_up: bool, lacking: tuple[bool, bool]
) -> None:
    found = equal(at(0, 10), at(0, 10, 20), ours=ours, theirs=theirs)
    assert (not found.problem) is paired_up
    assert found.lacking == lacking
    assert rows(found) == (([0, 1], [0, 1]) if paired_up else ([], []))
    turned = equal(at(0, 10, 20), at(0, 10), ours=theirs, theirs=ours)
    assert (not turned.problem) is paired_up
    assert turned.lacking == lacking[::-1]
    if not paired_up:
        assert found.problem.endswith(
            "row 2 is missing in the baseline, 0.000000020 s in the candidate"
        )
        assert turned.problem.endswith(
            "row 2 is 0.000000020 s in the baseline, missing in the candidate"
        )


def test_a_tag_that_differs_is_told_whoever_ended_early() -> None:
    found = equal(at(0, 10), at(0, 11, 20), ours=DIED)
    told = "row 1 is 0.000000010 s in the baseline, 0.000000011 s in the candidate"
    assert told in found.problem


# -- at common times


def test_of_rows_at_one_time_the_last_belongs_to_the_last() -> None:
    assert rows(common(at(0, 0, 10, 20), at(0, 10, 10, 10, 20))) == ([1, 2, 3], [0, 3, 4])


def test_only_times_up_to_the_end_count() -> None:
    assert rows(common(at(0, 10, 20), at(0, 10, 20), end=10)) == ([0, 1], [0, 1])
    assert rows(common(at(0, 10, 20), at(0, 10, 21), end=19)) == ([0, 1], [0, 1])


def test_without_rows_in_the_baseline_those_of_the_candidate_are_a_problem() -> None:
    none = at()
    assert common(none, at(0, 10), end=9).problem == "the candidate has 1 rows, the baseline none"
    assert "has 2 rows" in common(none, at(0, 10), end=10).problem
    assert common(none, none).problem == ""
    assert common(at(50), at(50), end=10).problem == ""
    assert common(none, at(50), end=10).problem == ""


def test_two_times_have_to_be_common_where_there_are_two() -> None:
    assert common(at(0, 1), at(0)).problem == "1 of 2 times in common, over less than 0.000000001 s"
    assert rows(common(at(5), at(5))) == ([0], [0])
    assert common(at(5), at(6)).problem.startswith("0 of 1 times in common")


def test_a_tenth_of_the_span_may_be_left_out_at_its_ends() -> None:
    ours = at(*range(0, 1001, 50))
    assert common(ours, at(0, *range(50, 901, 50))).problem == ""
    assert common(ours, at(*range(100, 1001, 50))).problem == ""
    found = common(ours, at(*range(0, 851, 50)))
    assert found.problem == "18 of 21 times in common, over less than 0.000000900 s"


def test_a_gap_of_a_tenth_may_be_left_out_and_no_longer_one() -> None:
    times = list(range(0, 1001, 5))
    ours = at(*times)
    tenth = [ns for ns in times if not 300 < ns < 400]
    assert common(ours, at(*tenth)).problem == ""
    more = [ns for ns in times if not 300 < ns < 405 and not 600 < ns < 660]
    assert common(ours, at(*more)).problem == (
        "170 of 201 times in common, and none between 0.000000300 s and 0.000000405 s"
    )
    other = [ns for ns in times if not 300 < ns < 360 and not 600 < ns < 750]
    assert "between 0.000000600 s and 0.000000750 s" in common(ours, at(*other)).problem


def test_ten_rows_may_be_left_out_however_far_apart_they_are() -> None:
    ours = at(0, 1, *range(500, 510), 1000)
    assert common(ours, at(0, 1, 1000)).problem == ""
    ours = at(0, 1, *range(500, 511), 1000)
    assert "none between 0.000000001 s and 0.000001000 s" in common(ours, at(0, 1, 1000)).problem


PASSED, FAILED, UNDECIDED = Outcome.PASSED, Outcome.FAILED, Outcome.UNDECIDED


# -- outcomes


def test_the_outcome_is_the_exit_status() -> None:
    assert (PASSED.value, FAILED.value, UNDECIDED.value) == (0, 1, 2)


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ([], UNDECIDED),
        ([PASSED], PASSED),
        ([PASSED, PASSED], PASSED),
        ([PASSED, UNDECIDED], UNDECIDED),
        ([UNDECIDED], UNDECIDED),
        ([UNDECIDED, FAILED, PASSED], FAILED),
        ([FAILED], FAILED),
    ],
)
def test_the_whole_is_as_good_as_its_worst_part(parts: list[Outcome], whole: Outcome) -> None:
    assert Outcome.of_all(parts) == Outcome.of_all(iter(parts[::-1])) == whole


# -- one signal


def recording(signal: Signal, rows: int) -> Recording:
    recorder = MemoryRecorder()
    track = recorder.track("p", ("step",), Signals(signal))
    recorder.start({})
    for i in range(rows):
        track.append(i * 1_000_000, (i % 2,), np.zeros(signal.size))
    return recorder.recording()


def pair(
    signal: Signal | None, rows: int, tolerance: Tolerance = EXACT, left: list[int] | None = None
) -> ComparedSignal:
    track = recording(signal or Signal("n"), 20).tracks["p"]
    at = np.array(list(range(rows)) if left is None else left, np.intp)
    return ComparedSignal(track, at, "p.x", signal, tolerance)


def judged(
    a: Any, b: Any, *, kind: Kind = "scalar", unit: str = "1", tolerance: Tolerance = EXACT,
    left: list[int] | None = None,
) -> SignalResult:  # fmt: skip
    """Of rows, one element each or several."""
    x, y = (np.array(v, np.float64) for v in (a, b))
    x, y = (v[:, None] if v.ndim == 1 else v for v in (x, y))
    shape = () if x.shape[1] == 1 else (x.shape[1],)
    signal = Signal("x", unit, shape=shape, kind=kind)
    return pair(signal, len(x), tolerance, left).judge(x, y)


def test_figures_of_one_that_differs() -> None:
    found = judged([1.0, -2.0, 4.0, 8.0], [1.0, -2.5, 4.0, 9.0], tolerance=Tolerance(0.75))
    assert (found.rows, found.max_abs, found.max_rel) == (4, 1.0, 0.25)
    assert (found.first, found.worst, found.first_failed) == (
        Tag(1_000_000, 1), Tag(3_000_000, 1), Tag(3_000_000, 1),
    )  # fmt: skip
    assert not found.ok
    assert found.reason == "fails at 0.003 s +1, 1/4"
    assert (found.column, found.tolerance) == ("", (0.75, 0.0))


def test_figures_of_one_that_does_not() -> None:
    found = judged([1.0, math.nan, math.inf], [1.0, math.nan, math.inf])
    assert found.ok
    assert (found.max_abs, found.max_rel, found.rows) == (0.0, 0.0, 3)
    assert found.first is found.worst is found.first_failed is None
    assert (found.column, found.reason) == ("", "")


def test_nothing_to_compare_has_no_rows() -> None:
    found = judged(np.zeros((0, 1)), np.zeros((0, 1)))
    assert (found.rows, found.max_abs, found.max_rel, found.ok) == (0, 0.0, 0.0, False)
    assert found.outcome is Outcome.UNDECIDED


def test_tags_are_those_of_the_baselines_rows() -> None:
    found = judged([0.0, 0.0], [0.0, 1.0], left=[4, 7])
    assert found.first == found.worst == found.first_failed == Tag(7_000_000, 1)


def test_the_element_that_differs_most_is_named_and_only_where_there_are_several() -> None:
    a, b = [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], [[1.0, 2.0, 3.5], [1.0, 4.0, 3.0]]
    found = judged(a, b)
    assert (found.column, found.worst, found.first) == ("x_1", Tag(1_000_000, 1), Tag(0))
    assert (found.max_abs, found.max_rel) == (2.0, 1.0)
    assert found.reason == "fails at 0 s, 2/2"
    assert judged(a, a).column == ""


@pytest.mark.parametrize(
    ("tolerance", "ok"),
    [
        (Tolerance(0.5), True),
        (Tolerance(0.499), False),
        (Tolerance(0.0, 0.125), True),
        (Tolerance(0.0, 0.124), False),
        (Tolerance(0.25, 0.1), False),  # the larger one counts, not their sum
        (Tolerance(math.inf), True),
    ],
)
def test_at_its_tolerance_a_value_passes(tolerance: Tolerance, ok: bool) -> None:
    for sign in (1.0, -1.0):
        assert judged([sign * 4.0], [sign * 4.5], tolerance=tolerance).ok is ok


def test_relative_is_of_the_baseline() -> None:
    tolerance = Tolerance(0.0, 0.6)
    assert judged([2.0], [1.0], tolerance=tolerance).max_rel == 0.5
    assert judged([2.0], [1.0], tolerance=tolerance).ok
    assert judged([1.0], [2.0], tolerance=tolerance).max_rel == 1.0
    assert not judged([1.0], [2.0], tolerance=tolerance).ok
    assert judged([0.0], [1e-9]).max_rel == math.inf
    assert not judged([0.0], [1e-9], tolerance=Tolerance(0.0, 1e9)).ok


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_pass_no_tolerance(odd: float) -> None:
    everything = Tolerance(1e300, 1e300)
    for a, b in (([odd], [1.0]), ([1.0], [odd])):
        found = judged(a, b, tolerance=everything)
        assert not found.ok
        assert found.max_abs == math.inf
        assert math.isnan(odd) is ("NaN in the" in found.reason)
    assert judged([odd], [odd], tolerance=EXACT).ok
    assert judged([0.0, 1.0], [math.nan, 1.0]).reason == "NaN in the candidate only at 0 s"
    assert judged([1.0, math.nan], [1.0, 0.0]).reason == "NaN in the baseline only at 0.001 s +1"


def test_the_sign_of_zero_is_a_bit_that_any_tolerance_forgives() -> None:
    found = judged([0.0, 0.0], [0.0, -0.0])
    assert found.reason == "equal values with different bits at 0.001 s +1"
    assert (found.max_abs, found.first) == (0.0, Tag(1_000_000, 1))
    assert judged([0.0], [-0.0], tolerance=Tolerance(5e-324)).ok
    assert not judged([0.0], [-0.0], tolerance=Tolerance(0.0, 1.0)).ok, "of zero that is zero"


def test_the_largest_numbers_are_further_apart_than_a_double_can_say() -> None:
    found = judged([1.7e308], [-1.7e308], tolerance=Tolerance(1e308, 1.0))
    assert (found.ok, found.max_abs) == (False, math.inf)


# -- what a signal means


@pytest.mark.parametrize(
    ("unit", "turn"), [("deg", 360.0), ("rad", 2 * math.pi), ("1", 0.0), ("grad", 0.0)]
)
def test_an_angle_differs_the_short_way_round_in_a_unit_that_has_one(
    unit: str, turn: float
) -> None:
    apart = 0.25
    for a, b in ((0.0, turn - apart), (turn / 2 + apart / 2, -turn / 2 + apart * 1.5)):
        found = judged([a], [b], kind="angle", unit=unit)
        expected = apart if turn else abs(a - b)
        assert found.max_abs == pytest.approx(expected, abs=1e-12)
    if turn:
        assert judged([0.5], [0.5 + 3 * turn], kind="angle", unit=unit).max_abs < 1e-9
        assert judged([0.0], [turn / 2], kind="angle", unit=unit).max_abs == turn / 2
        huge = judged([1.7e308], [-1.6e308], kind="angle", unit=unit).max_abs
        short_way = math.fmod(abs(math.fmod(1.7e308, turn) - math.fmod(-1.6e308, turn)), turn)
        assert huge == pytest.approx(min(short_way, turn - short_way))
    assert judged([turn], [0.0]).max_abs == turn, "a scalar has no turn"


def test_a_quaternion_differs_up_to_its_sign_row_by_row() -> None:
    q, r = [0.5, -0.5, 0.1, 0.7], [0.5, -0.5, 0.1, 0.6]
    minus = [-v for v in r]
    for other in (r, minus):
        found = judged([q, q], [q, other], kind="quaternion")
        assert found.max_abs == pytest.approx(0.1)
        assert (found.column, found.first) == ("x_3", Tag(1_000_000, 1))
    assert judged([q], [[-v for v in q]], kind="quaternion").ok
    assert not judged([q], [[-v for v in q]]).ok, "four numbers have no common sign"
    assert not judged([q], [[math.nan] * 4], kind="quaternion").ok
    # As far from one sign as from the other: it is left as it is, and each element judged so.
    a, b = [[2.0, 1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0, 0.0]]
    assert judged(a, b, kind="quaternion", tolerance=Tolerance(0.0, 1.0)).ok


@pytest.mark.parametrize("kind", ["scalar", "angle", "quaternion"])
@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_equal_themselves_alone(kind: Kind, odd: float) -> None:
    row = [[odd, 0.0, 0.0, 0.0]]
    found = judged(row, row, kind=kind, unit="deg")
    assert (found.ok, found.max_abs, found.first) == (True, 0.0, None)


def test_integers_are_compared_without_rounding() -> None:
    a, b = np.array([[2**62 + 1], [5]]), np.array([[2**62], [5]])
    for x, y in ((a, b), (b, a)):
        found = pair(None, 2).judge(x, y)
        assert (found.max_abs, found.ok, found.rows, found.unit) == (1.0, False, 2, "")
        assert (found.first, found.first_failed) == (Tag(0), Tag(0))
    ends = np.array([[2**63 - 1]]), np.array([[-(2**63)]])
    assert pair(None, 1).judge(*ends).max_abs == 2.0**64
    assert pair(None, 2, Tolerance(1.0)).judge(a, b).ok
    assert pair(None, 2).judge(a, a).ok


# -- what it says


def test_a_result_by_itself_says_nothing_was_compared() -> None:
    bare = SignalResult("x")
    assert not bare.ok
    assert bare.outcome is Outcome.UNDECIDED
    assert (bare.unit, bare.rows, bare.max_abs, bare.max_rel) == ("", 0, 0.0, 0.0)
    assert bare.tolerance == EXACT == (0.0, 0.0)
    assert not SignalResult("x", reason="gone").ok


def test_cells_and_plain_data() -> None:
    found = judged([1.0, 3.0], [1.0, 4.0], unit="m", tolerance=Tolerance(0.5, 0.25))
    assert found.cells()[:6] == ("p.x", "m", "2 of 20", "1", "0.333333", "0.001 s +1")
    assert judged([1.0], [1.0]).cells()[-2:] == ("", "ok")
    data = found.to_json()
    expected = {
        "signal": "p.x", "unit": "m", "ok": False, "rows": 2, "max_abs": 1.0, "max_rel": 1 / 3,
        "worst_tag": [1_000_000, 1], "first_difference": [1_000_000, 1],
        "first_failure": [1_000_000, 1], "column": "", "tolerance": [0.5, 0.25],
    }  # fmt: skip
    assert {key: data[key] for key in expected} == expected
    assert judged([0.0], [math.nan]).to_json()["max_abs"] is None
    assert judged([1.0], [1.0]).to_json()["first_failure"] is None


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        (Tag(0), "0 s"), (Tag(5_000_000, 1), "0.005 s +1"), (Tag(10_000_000_000), "10 s"),
        (Tag(1), "0.000000001 s"), (Tag(100_000_000_000, 20), "100 s +20"),
    ],
)  # fmt: skip
def test_a_tag_in_words_has_no_trailing_zeros(tag: Tag, text: str) -> None:
    assert short(tag) == text
