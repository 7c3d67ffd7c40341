"""Checks that would compare nothing, or hold values against no number, say so and pass nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_verification import decaying

from rtsim.core.errors import ScenarioError, ShapeError
from rtsim.core.signals import Signals, Vector
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import check_determinism, trace_of
from rtsim.testing.verification import check_analytic, check_degenerate, check_limit, order_of

INF, NAN = math.inf, math.nan


@pytest.fixture(scope="module")
def decay() -> Recording:
    return trace_of(decaying(0.1))


@pytest.mark.parametrize("odd", [INF, -INF, NAN])
@pytest.mark.parametrize("rtol", [0.0, 1e-3])
def test_an_exact_solution_that_is_not_finite_passes_nothing(
    decay: Recording, odd: float, rtol: float
) -> None:
    def exact(t: Vector) -> Vector:
        out = 100.0 + t
        out[5] = odd
        return out

    with pytest.raises(ScenarioError, match=rf"the exact solution for d\.x is {odd} at 0\.5 s"):
        check_analytic(decay, "d.x", exact, atol=1e-6, rtol=rtol)


def test_an_exact_solution_of_another_shape_is_refused(decay: Recording) -> None:
    with pytest.raises(ShapeError, match=r"\(21, 1\), but d\.x has shape \(21,\)"):
        check_analytic(decay, "d.x", lambda t: np.exp(-t)[:, None], atol=9.0)
    assert check_analytic(decay, "d.x", lambda _: 0.5, atol=9.0) == 0.5


@pytest.mark.parametrize("given", [{"atol": INF}, {"atol": NAN}, {"rtol": -1.0}, {"rtol": INF}])
def test_a_tolerance_that_is_no_bound_is_refused(decay: Recording, given: dict[str, Any]) -> None:
    with pytest.raises(ScenarioError, match="give a finite number >= 0"):
        check_analytic(decay, "d.x", lambda t: 100.0 * t, **given)
    with pytest.raises(ScenarioError, match="give a finite number >= 0"):
        check_limit([1.0], [2.0], **given)
    if "atol" in given:
        with pytest.raises(ScenarioError, match="give a finite number >= 0"):
            check_degenerate(lambda: 1.0, [({}, 2.0)], **given)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: check_determinism(lambda: decaying(0.1), runs=1), "runs = 1 is too few"),
        (lambda: check_determinism(lambda: decaying(0.1), runs=0), "runs = 0 is too few"),
        (lambda: check_determinism(lambda: Scenario("empty", until=1)), "has no rows to compare"),
        (
            lambda: check_degenerate(lambda: 1.0, [], atol=0.0),
            "no cases are given; give at least one",
        ),
        (lambda: check_limit([], []), "no values to compare"),
        (lambda: order_of([1.0, 2.0], [0.1, 0.1]), "not all equal"),
        (lambda: order_of([1.0, 2.0], [0.0, 0.1]), "finite steps > 0"),
    ],
)
def test_what_compares_nothing_is_refused(act: Callable[[], object], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        act()


def test_a_signal_without_rows_is_held_against_nothing() -> None:
    recorder = MemoryRecorder()
    recorder.track("d", ("step", "side"), Signals("x"))
    with pytest.raises(ScenarioError, match=r"d\.x has no rows"):
        check_analytic(recorder.recording(), "d.x", lambda t: t, atol=1.0)


@pytest.mark.parametrize("odd", [INF, -INF])
def test_equal_infinities_are_equal_and_others_are_not(odd: float) -> None:
    assert check_limit([odd, 1.0], [odd, 1.0]) == 0.0
    check_degenerate(lambda: odd, [({}, odd)], atol=0.0)
    for other in (-odd, 1e300, NAN):
        for pair in (([odd], [other]), ([other], [odd])):
            with pytest.raises(AssertionError, match="the difference is"):
                check_limit(*pair, rtol=0.5)
        with pytest.raises(AssertionError, match="expected"):
            check_degenerate(lambda: odd, [({}, other)], atol=1.0)
    with pytest.raises(AssertionError, match="the difference is"):
        check_limit([NAN], [NAN])


@pytest.mark.parametrize("odd", [INF, NAN])
def test_errors_that_are_not_finite_ask_for_smaller_steps(odd: float) -> None:
    with pytest.raises(AssertionError, match="use smaller steps") as raised:
        order_of([odd, 1.0], [0.2, 0.1])
    assert f"0.2 s: {odd}" in str(raised.value)
    with pytest.raises(AssertionError, match="use larger steps"):
        order_of([0.0, 1.0], [0.1, 0.2])
