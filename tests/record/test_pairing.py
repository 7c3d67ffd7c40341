"""Which rows of two recordings belong together, at the edges of every rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rtsim.core.signals import Signals
from rtsim.record.events import RunEnding
from rtsim.record.reading import TrackData
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.verdict import ComparisonWindow, Paired, paired

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


def test_a_key_that_only_one_of_them_has_is_zero_in_the_other() -> None:
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
