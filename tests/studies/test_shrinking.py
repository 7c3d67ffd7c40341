"""Shrinking: the result violates the requirement, is not larger, and shrinks no further."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from falsified_parts import CART
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.requirements.requirement import Requirement
from rtsim.studies.counterexample import Counterexample, Waveform
from rtsim.studies.factors import Choice, Distributed, Range
from rtsim.studies.shrinking import (
    Factor,
    factors_of,
    least,
    rounder,
    shrink,
    size,
    tick_of,
    without,
)

S = 1_000_000_000
HIGH = 10.0


def wave(points: list[tuple[float, float]], kind: str = "pieces", name: str = "a.x") -> Waveform:
    ns = tuple((round(t * S), value) for t, value in points)
    return Waveform(name, kind, -HIGH, HIGH, ns, period=None if kind == "pieces" else 0.1)


def example(
    *waves: Waveform, until: float = 20.0, formula: str = "always a.x < 1"
) -> Counterexample:
    return Counterexample("ball", Requirement("R", formula), round(until * S), waves)


@st.composite
def examples(draw: st.DrawFn) -> Counterexample:
    value, waves = st.floats(-HIGH, HIGH, allow_nan=False, width=32), []
    for name in draw(st.sampled_from([["a.x"], ["a.x", "a.y"]])):
        count = draw(st.integers(1, 8))
        later = draw(st.lists(st.integers(1, 19_999), min_size=count - 1, max_size=count - 1,
                              unique=True))  # fmt: skip
        times = [0.0, *(ms / 1000 for ms in sorted(later))]
        kind = draw(st.sampled_from(["pieces", "linear"]))
        waves.append(wave([(t, draw(value)) for t in times], kind, name))
    one = example(*waves)
    numbers = {"gain": draw(value), "plant.mass": draw(st.integers(-5, 5))}
    return replace(one, values=numbers)


def at_least(level: float) -> Callable[[Counterexample], bool]:
    """The sum of all values is large."""
    return lambda one: sum(abs(v) for w in one.inputs for _, v in w.points) >= level


def rises(gap_s: float) -> Callable[[Counterexample], bool]:
    """A value above 3 comes at least ``gap_s`` after a value below -3, and 1 s before the end."""

    def violates(one: Counterexample) -> bool:
        for each in one.inputs:
            low = [ns for ns, v in each.points if v < -3.0]
            high = [ns for ns, v in each.points if v > 3.0 and ns <= one.until_ns - S]
            if low and high and max(high) - min(low) >= gap_s * S:
                return True
        return False

    return violates


def heavy(one: Counterexample) -> bool:
    """A factor is large, whatever the inputs are."""
    return float(one.values.get("gain", 1.0)) > 2.0


FACTORS = {"gain": Factor(-HIGH, HIGH, 1.0), "plant.mass": Factor(-5.0, 5.0, 2)}


@settings(max_examples=150, deadline=None)
@given(examples(), st.sampled_from([at_least(8.0), rises(0.0), rises(2.5), heavy]))
def test_the_result_violates_is_not_larger_and_shrinks_no_further(
    start: Counterexample, violates: Callable[[Counterexample], bool]
) -> None:
    if not violates(start):
        return
    accepted: list[Counterexample] = []

    def watched(one: Counterexample) -> bool:
        found = violates(one)
        if found:
            accepted.append(one)
        return found

    found = shrink(start, watched, FACTORS, budget=5000)
    small = found.counterexample
    assert found.complete
    assert violates(small)
    assert size(small, FACTORS) <= size(start, FACTORS)
    assert small == (accepted[-1] if accepted else start)
    again = shrink(small, violates, FACTORS, budget=5000)
    assert again.counterexample == small
    assert shrink(start, violates, FACTORS, budget=5000) == found
    for each in small.inputs:  # still a signal within its bounds that the run can have
        assert each.points[0][0] == 0
        assert all(a < b for (a, _), (b, _) in zip(each.points, each.points[1:], strict=False))
        assert all(-HIGH <= v <= HIGH for _, v in each.points)
        assert each.signal.points == len(each.points)


def test_two_pieces_of_eight_remain_with_round_numbers() -> None:
    points = [(0.0, 1.37), (1.1, -2.2), (2.3, -4.71), (4.9, 0.3), (6.1, -5.22), (9.3, 7.77),
              (12.1, -1.0), (15.0, 6.3)]  # fmt: skip
    found = shrink(example(wave(points), until=19.7), rises(2.0)).counterexample
    assert found.inputs[0].points == ((0, -5.0), (2 * S, 8.0))
    assert found.until_ns == 3 * S


def test_fewer_points_need_larger_values() -> None:
    """Two pieces of 6 do what three pieces of 4 do."""
    start = example(wave([(0.0, 4.0), (1.0, 4.0), (2.0, 4.0)]))
    found = shrink(start, at_least(12.0)).counterexample
    assert [value for _, value in found.inputs[0].points] == [10.0, 10.0]


def test_a_run_stays_long_enough_for_the_verdict_of_correct_code() -> None:
    """Without this limit the run would end at 3 s, and no code could meet the requirement."""
    start = example(wave([(0.0, -5.0), (9.0, 5.0)]), formula="always[0, 7] a.x < 1")
    assert shrink(start, rises(2.0)).counterexample.until_ns == 7 * S
    short = replace(start, until_ns=10 * S, requirement=Requirement("R", "always[0, 60] a.x < 1"))
    assert shrink(short, rises(2.0)).counterexample.until_ns == 10 * S


def test_an_input_that_does_not_matter_is_left_out_and_a_factor_gets_its_usual_value() -> None:
    start = replace(
        example(wave([(0.0, -5.0), (9.0, 5.0)]), wave([(0.0, 1.5)], name="a.y")),
        values={"gain": 3.217, "plant.mass": 4, "fixed": 7.77},
    )
    found = shrink(start, lambda one: rises(0.0)(one) and heavy(one), FACTORS).counterexample
    assert [each.target for each in found.inputs] == ["a.x"]
    assert found.values == {"gain": 3.0, "fixed": 7.77}


def test_whole_numbers_and_truth_values_keep_their_types() -> None:
    start = replace(example(), values={"count": 137, "on": True, "name": "left"})
    factors = dict.fromkeys(start.values, Factor())
    found = shrink(start, lambda one: float(one.values["count"]) > 90, factors).counterexample
    assert found.values == {"count": 100, "on": True, "name": "left"}
    assert isinstance(found.values["count"], int)


def test_the_budget_ends_the_search_with_a_violation() -> None:
    start = example(wave([(k, 5.0 * (-1) ** k + 0.123) for k in range(8)]))
    runs = 0

    def violates(one: Counterexample) -> bool:
        nonlocal runs
        runs += 1
        return rises(1.0)(one)

    found = shrink(start, violates, budget=5)
    assert (found.runs, runs, found.complete) == (5, 5, False)
    assert rises(1.0)(found.counterexample)
    assert size(found.counterexample) < size(start)


def test_searches_that_do_not_know_what_they_make_smaller() -> None:
    tried: list[list[int]] = []

    def first(one: list[int], fewer: Sequence[list[int]]) -> list[int] | None:  # noqa: ARG001
        tried.extend(fewer)
        return next((some for some in fewer if {3, 7} <= set(some)), None)

    def gone(one: list[int], part: slice) -> list[list[int]]:
        return [one[: part.start] + one[part.stop :]]

    assert without(list(range(12)), len, gone, first) == [3, 7]
    assert len(tried) < 40
    assert least(100, lambda k: k if k >= 37 else None) == 37
    assert least(100, lambda k: None) is None  # noqa: ARG005
    assert rounder(123.456) == [100.0, 120.0, 123.0, 123.5]
    assert rounder(-0.05) == [-0.05]
    assert rounder(float("inf")) == rounder(float("nan")) == []


def test_the_usual_values_are_those_of_the_scenario() -> None:
    start = replace(example(), values={"until": 3.0, "ball.speed": 0.5, "ball.height": 9.0})
    spreads = {
        "until": Range(1.0, 9.0),
        "ball.speed": Choice((0.5, 0.75)),
        "ball.height": Distributed("norm", (9.8, 1.0)),
        "other": Range(0.0, 1.0),
    }
    found = factors_of(start, spreads)
    assert found == {
        "until": (1.0, 9.0, 4),
        "ball.speed": (math.inf, -math.inf, 0.0),
        "ball.height": (-math.inf, math.inf, 1.0),
    }
    small = shrink(start, lambda one: "ball.speed" in one.values, found).counterexample
    assert small.values == {"ball.speed": 0.5}  # no number between the values of a list


@pytest.mark.parametrize("kind", ["pieces", "linear", "spline"])
def test_time_that_is_cut_out_moves_the_later_points(kind: str) -> None:
    start = example(wave([(0.0, -5.0), (8.0, 0.0), (16.0, 5.0)], kind))
    found = shrink(start, rises(1.0)).counterexample
    assert found.inputs[0].points == ((0, -5.0), (S, 5.0))


@pytest.mark.parametrize(("tick", "times"), [(1_000_000, [0, 1, 2]), (2_500_000, [0, 2.5, 5])])
def test_times_stay_on_the_grid(tick: int, times: list[float]) -> None:
    """Any positive pause would do, such as 1 ns."""
    start = example(wave([(0.0, -5.0), (8.1234567, 5.0), (9.7654321, -5.0)]))

    def violates(one: Counterexample) -> bool:
        return [len(each.points) for each in one.inputs] == [3]

    found = shrink(start, violates, tick=tick).counterexample
    assert [ns / 1e6 for ns, _ in found.inputs[0].points] == times
    assert found.until_ns % tick == 0


def test_the_grid_is_the_smallest_period_of_the_scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cart.py").write_text(CART)
    one = replace(example(), scenario="cart.py")
    assert tick_of(one) == 50_000_000
    Path("source.py").write_text(
        "import rtsim as rt\n\ndef scenario():\n    loop = rt.Scenario('s', until=1)\n"
        "    loop.source('a', rt.Signals('x'))\n    return loop\n"
    )
    assert tick_of(replace(one, scenario="source.py")) == 1_000_000


def test_rounded_numbers_stay_within_the_bounds_and_in_order() -> None:
    """9.57 would become 10, 1.74 s and 1.82 s would become 2 s, and 1.96 s the end of the run."""
    near = wave([(0.0, 9.57), (1.74, -9.57), (1.82, 9.57), (1.96, -9.57)])
    near = replace(near, low=-9.6, high=9.6)
    seen: list[Waveform] = []

    def violates(one: Counterexample) -> bool:
        seen.extend(one.inputs)
        return [abs(v) > 9.5 for each in one.inputs for _, v in each.points] == [True] * 4

    found = shrink(example(near, until=2.0), violates).counterexample
    assert len(found.inputs[0].points) == 4
    for each in seen:
        times = [ns for ns, _ in each.points]
        assert times == sorted(set(times))
        assert times[-1] < 2 * S
        assert all(-9.6 <= value <= 9.6 for _, value in each.points)
