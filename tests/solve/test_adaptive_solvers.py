"""Adaptive solvers: what a tolerance buys, what a budget costs, what a step remembers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model, bind
from rtsim.solve import BS32, DP54, GOOD, TOO_SMALL, Adaptive, Stepper
from rtsim.solve.adaptive import EVALUATIONS, REJECTED, STEP, STEPS
from rtsim.testing.solvers import END_NS, FORCED, NONE

PAIRS = pytest.mark.parametrize("solver", [BS32, DP54], ids=lambda s: s.name)
P0 = FORCED.parameters.initial()
EXACT = np.array([10 * math.sin(10), math.sin(10) + 10 * math.cos(10)])


def _memory(stepper: Stepper) -> list[float]:
    memory: list[float] = stepper.save()["memory"]
    return memory


def _forced(t: float, y: Any) -> list[Any]:
    pull = -y[0] + 2 * math.cos(t)
    return [y[1], pull - 0.3 * (y[1] - math.sin(t) - t * math.cos(t))]


@PAIRS
@pytest.mark.parametrize("tolerance", [1e-4, 1e-7, 1e-10])
@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_it_costs_what_scipys_pair_costs(solver: Adaptive, tolerance: float, compile: bool) -> None:
    """The same pair, the same rule: the same steps, evaluation for evaluation."""
    stepper = replace(solver, rtol=tolerance, atol=tolerance).stepper(bind(FORCED, compile=compile))
    x, out = FORCED.states.initial(), np.zeros(2)
    assert stepper.advance(0, END_NS, x, NONE, NONE, P0, out) == GOOD
    stepper.accept()
    method: Any = {"dp54": "RK45", "bs32": "RK23"}[solver.tableau.name]
    theirs = solve_ivp(_forced, (0, 10), [0, 0], method=method, rtol=tolerance, atol=tolerance)
    assert np.linalg.norm(out - EXACT) < 50 * tolerance
    assert out == pytest.approx(theirs.y[:, -1], abs=1e-3 * tolerance + 1e-12)
    assert _memory(stepper)[EVALUATIONS] == theirs.nfev


def test_how_long_a_step_may_be_outlives_a_change() -> None:
    stepper = replace(DP54, first=0.01).stepper(bind(FORCED))
    x, out = np.zeros(2), np.zeros(2)
    for k in range(2):
        stepper.advance(k * 10_000_000, (k + 1) * 10_000_000, x, NONE, NONE, P0, out)
        stepper.accept()
        x = out.copy()
    stepper.forget()
    assert _memory(stepper)[STEP] > 0.01


@PAIRS
def test_a_cut_step_does_not_make_the_next_ones_short(solver: Adaptive) -> None:
    stepper = solver.stepper(bind(FORCED))
    x, out, ns = np.zeros(2), np.zeros(2), 0
    for length in (500_000_000, 1, 500_000_000):
        stepper.advance(ns, ns + length, x, NONE, NONE, P0, out)
        stepper.accept()
        ns, x = ns + length, out.copy()
    assert _memory(stepper)[STEP] > 0.01


@PAIRS
@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_what_cannot_be_solved_is_said(solver: Adaptive, compile: bool) -> None:
    """x' = x^2 has a pole at 1 s; a least step ends the search before that."""

    def pole(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = x[0] * x[0]

    bound = bind(Model("pole", Signals(Signal("x", initial=1.0)), pole), compile=compile)
    x, out = np.ones(1), np.zeros(1)
    with np.errstate(over="ignore", invalid="ignore"):  # as in compiled code
        for tried in (solver, replace(solver, least=1e-6)):
            stepper = tried.stepper(bound)
            assert stepper.advance(0, 2_000_000_000, x, NONE, NONE, NONE, out) in (TOO_SMALL, 0)
    assert solver.stepper(bound).advance(0, 999_000_000, x, NONE, NONE, NONE, out) == GOOD
    assert out[0] == pytest.approx(1000, rel=3e-3)


def _solved(solver: Adaptive, model: Model, end_ns: int) -> tuple[int, Vector, float]:
    """The answer, the end (n,), and how many steps it took."""
    x = model.states.initial()
    stepper, out = solver.stepper(bind(model)), np.zeros(x.size)
    answer = stepper.advance(0, end_ns, x, NONE, NONE, model.parameters.initial(), out)
    stepper.accept()
    return answer, out, _memory(stepper)[STEPS]


def _rises(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0


@PAIRS
@pytest.mark.parametrize("most", [0.5, 0.1, 0.03])
def test_no_step_is_longer_than_the_longest(solver: Adaptive, most: float) -> None:
    """x' = 1, whose error is nought: as many steps as the longest one makes necessary."""
    model = Model("ramp", Signals("x"), _rises)
    loose = _solved(solver, model, END_NS)
    assert loose[2] < 20
    answer, out, steps = _solved(replace(solver, most=most, first=10.0), model, END_NS)
    assert answer == GOOD
    assert out[0] == pytest.approx(10)
    assert steps == math.ceil(10 / most - 0.01)


@PAIRS
def test_a_step_is_as_short_as_the_safety_factor_says(solver: Adaptive) -> None:
    """The step is the factor times one whose error would be the tolerance."""
    steps = [
        _solved(replace(solver, safety=safety, rtol=1e-8, atol=1e-8), FORCED, END_NS)[2]
        for safety in (0.9, 0.6, 0.3)
    ]
    assert steps[1] / steps[0] == pytest.approx(0.9 / 0.6, rel=0.1)
    assert steps[2] / steps[0] == pytest.approx(0.9 / 0.3, rel=0.1)


def _pole(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[0] * x[0]


@PAIRS
def test_the_shortest_step_is_kept_or_is_an_error(solver: Adaptive) -> None:
    """x' = x^2 from 1 is 1 / (1 - t): steps become shorter towards the pole at 1 s."""
    model = Model("pole", Signals(Signal("x", initial=1.0)), _pole)
    assert _solved(solver, model, 999_000_000)[0] == GOOD
    shortest = replace(solver, least=1e-3)
    assert _solved(shortest, model, 999_000_000)[0] == TOO_SMALL
    assert _solved(shortest, model, 500_000_000)[0] == GOOD
    # steps that become shorter without one being rejected stop at the shortest
    answer, _, steps = _solved(replace(solver, rtol=1e-10, atol=1.0, least=0.01), FORCED, END_NS)
    assert answer == GOOD
    assert steps <= 1000


def test_tolerances_by_state() -> None:
    bound = bind(FORCED)
    loose = Adaptive(rtol=1e-12, atol={"x": 1e-3, "v": 1e-3}).stepper(bound)
    tight = Adaptive(rtol=1e-12, atol={"x": 1e-3}).stepper(bound)
    steps = []
    for stepper in (loose, tight):
        stepper.advance(0, END_NS, np.zeros(2), NONE, NONE, P0, np.zeros(2))
        stepper.accept()
        steps.append(_memory(stepper)[STEPS] + _memory(stepper)[REJECTED])
    assert steps[1] > 5 * steps[0]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"rtol": 0}, "rtol = 0"),
        ({"atol": {"x": -1.0}}, "x = -1"),
        ({"rtol": math.nan}, "a finite number > 0"),
        ({"least": 1.0, "most": 0.5}, "give 0 <= least < most"),
        ({"first": -1.0}, "give a first step > 0 s"),
        ({"safety": 1.5}, "between 0 and 1"),
        ({"budget": 10}, "needs at least 15"),
    ],
)
def test_what_cannot_be_meant(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        replace(DP54, **wrong)


def test_a_tolerance_of_a_state_that_is_not_there() -> None:
    with pytest.raises(UnknownName, match="unknown state 'w'"):
        Adaptive(atol={"w": 1.0}).stepper(bind(FORCED))


def test_a_name_says_what_is_not_the_default() -> None:
    assert DP54.name == "dp54"
    assert Adaptive(rtol=1e-8, budget=50).name == "dp54(rtol=1e-08, budget=50)"
