"""The verdict on one signal in pieces of some rows, its ranges, and the remark on its tolerance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from test_verdicts import judged, pair

from rtsim.core.signals import Signal
from rtsim.core.tag import Tag
from rtsim.record import verdict
from rtsim.record.verdict import SignalResult, Tolerance, ranges

SCALAR = Signal("x", "1")


def tag(row: int) -> Tag:
    return Tag(row * 1_000_000, row % 2)


@pytest.fixture(autouse=True, params=[1, 2, 3, 100])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many rows are compared at once; it changes no result."""
    monkeypatch.setattr(verdict, "TOGETHER", request.param)


def test_the_largest_difference_is_found_in_whichever_piece() -> None:
    zeros = [0.0] * 7
    for at in range(7):
        other = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
        other[at] = -3.0
        found = judged(zeros, other, tolerance=Tolerance(2.0))
        assert (found.max_abs, found.worst, found.first_failed) == (3.0, tag(at), tag(at))
        assert found.first == tag(min(at, 1))
        assert found.reason == f"fails at {verdict.short(tag(at))}, 1/7"


def test_of_equal_differences_the_first_is_the_worst() -> None:
    found = judged([0.0] * 6, [0.0, 1.0, -1.0, 0.0, 1.0, 0.5])
    assert (found.worst, found.first, found.first_failed) == (tag(1), tag(1), tag(1))
    assert found.reason == "fails at 0.001 s +1, 4/6"


def test_the_element_with_the_largest_difference_is_that_of_its_row() -> None:
    a = np.zeros((5, 3))
    b = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 2], [1, 0, 0]], float)
    found = judged(a, b)
    assert (found.column, found.worst, found.max_abs) == ("x_2", tag(3), 2.0)
    assert found.first == tag(1)


def test_different_bits_of_equal_values_are_located_where_they_are() -> None:
    found = judged([0.0, 0.0, 0.0, 0.0], [0.0, -0.0, 0.0, -0.0])
    assert (found.worst, found.first, found.max_abs) == (tag(1), tag(1), 0.0)
    assert found.reason == "equal values with different bits at 0.001 s +1"
    a = np.zeros((3, 3))
    b = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -0.0], [0.0, -0.0, 0.0]])
    found = judged(a, b)
    assert (found.column, found.worst) == ("x_2", tag(1))
    b[2, 1] = 1e-9
    found = judged(a, b)
    assert (found.column, found.worst, found.first) == ("x_1", tag(2), tag(1))


def test_the_reason_is_of_the_first_failure() -> None:
    found = judged([0.0, 1.0, 2.0, 3.0], [0.0, math.nan, 5.0, 3.0])
    assert found.reason == "NaN in the candidate only at 0.001 s +1"
    assert (found.max_abs, found.first_failed) == (math.inf, tag(1))
    assert found.remark == ""


def test_relative_differences_of_zeros_are_zero_or_infinite() -> None:
    one = pair(SCALAR, 4)
    a, b = np.array([[0.0], [0.0], [2.0], [-4.0]]), np.array([[0.0], [1.0], [2.0], [-3.0]])
    measured = one.measure(a, b)
    assert measured.rel.tolist() == [[0.0], [math.inf], [0.0], [0.25]]
    assert measured.gap.tolist() == [[0.0], [1.0], [0.0], [1.0]]
    assert measured.same.tolist() == [[True], [False], [True], [False]]


# -- remarks on tolerances


@pytest.mark.parametrize(
    ("a", "b", "tolerance", "remark"),
    [
        ([0.0, 10.0, 5.0], [0.0, 10.0, 5.5], 1.0, ""),
        (
            [0.0, 10.0, 5.0], [0.0, 10.0, 5.5], 1.01,
            "tolerance 1.01 above a tenth of its range 10",
        ),
        (
            [0.0, 10.0, 5.0], [0.0, 10.0, 6.5], 2.0,
            "tolerance 2 above a tenth of its range 10, differs by 1.5",
        ),
        ([0.0, 10.0, 5.0], [0.0, 10.0, 6.0], 2.0, "tolerance 2 above a tenth of its range 10"),
        ([0.0, 10.0, 5.0], [0.0, 10.0, 5.0], 2.0, ""),
        ([0.0, 1.0, 0.5], [0.0, 1.0, 0.55], 0.5, "tolerance 0.5 above a tenth of its range 1"),
        (
            [-4.0, -4.0, -4.0], [-4.0, -4.0, -3.5], 1.0,
            "tolerance 1 above a tenth of its range 4, differs by 0.5",
        ),
        (
            [0.0, 0.0, 0.0], [0.0, 0.0, 0.5], 1.0,
            "tolerance 1 above a tenth of its range 0, differs by 0.5",
        ),
    ],
)  # fmt: skip
def test_a_tolerance_that_was_needed_and_exceeds_a_tenth_of_the_range_is_remarked(
    a: list[float], b: list[float], tolerance: float, remark: str
) -> None:
    found = judged(a, b, tolerance=Tolerance(tolerance))
    assert (found.ok, found.remark) == (True, remark)
    assert found.verdict == (f"ok, {remark}" if remark else "ok")


def test_a_signal_that_fails_has_no_remark() -> None:
    found = judged([0.0, 10.0, 5.0], [0.0, 10.0, 9.0], tolerance=Tolerance(3.0))
    assert (found.ok, found.remark) == (False, "")
    assert found.verdict == found.reason == "fails at 0.002 s, 1/3"


def test_the_remark_is_of_the_element_that_differs_most_for_its_range() -> None:
    """The first element needs no tolerance, the last one moves least."""
    a = [[0.0, 0.0, 0.0], [1.0, 8.0, 4.0]]
    b = [[0.0, 1.0, 1.0], [1.0, 8.0, 4.0]]
    found = judged(a, b, tolerance=Tolerance(1.0))
    assert found.remark == "tolerance 1 above a tenth of its range 4, differs by 1"


def test_a_relative_tolerance_counts_where_the_signal_is_largest() -> None:
    found = judged([0.0, -8.0, 4.0], [0.0, -8.0, 4.1], tolerance=Tolerance(0.0, 0.25))
    assert found.remark == "tolerance 2 above a tenth of its range 12"


# -- ranges and rows


def test_the_range_of_a_column_is_of_its_finite_values() -> None:
    odd = [math.nan, math.inf, -math.inf]
    x = np.array([[1.0, -3.0, odd[0], odd[1]], [4.0, -3.0, odd[1], -2.0], [2.0, -3.0, odd[2], 1.0]])
    assert ranges(x).tolist() == [3.0, 3.0, 0.0, 3.0]
    assert ranges(np.zeros((0, 2))).tolist() == [0.0, 0.0]
    assert ranges(np.array([[-1.7e308], [1.7e308]])).tolist() == [math.inf]


@pytest.mark.parametrize(
    ("how", "verdict", "rows"),
    [
        ({}, "nothing to compare", "0"),
        ({"rows": 3}, "ok", "3"),
        ({"rows": 3, "there": 3}, "ok", "3"),
        ({"rows": 3, "there": 4}, "ok", "3 of 4"),
        ({"rows": 3, "remark": "large"}, "ok, large", "3"),
        ({"reason": "gone", "remark": "large"}, "gone", "0"),
    ],
)
def test_a_result_in_words(how: dict[str, Any], verdict: str, rows: str) -> None:
    found = SignalResult("x", **how)
    assert (found.verdict, found.cells()[2]) == (verdict, rows)
    assert found.empty is (verdict == "nothing to compare")
    outcome = "undecided" if found.empty else "passed" if verdict.startswith("ok") else "failed"
    told = found.to_json()
    assert (told["ok"], told["outcome"]) == (outcome == "passed", outcome)
    assert found.to_json()["rows_there"] == how.get("there", 0)
