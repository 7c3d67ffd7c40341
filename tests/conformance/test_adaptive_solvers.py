"""Adaptive solvers: what a tolerance buys, what a budget costs, what a step remembers."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from rtsim.errors import ScenarioError, UnknownName
from rtsim.model import Model, bind
from rtsim.signals import Signal, Signals, Vector
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


@PAIRS
def test_the_order_shows_in_the_dense_output(solver: Adaptive) -> None:
    """At half a step: one order less than the ends have, from the same stages."""
    table, rows = solver.tableau, []
    weights = [sum(w * Fraction(1, 2) ** (j + 1) for j, w in enumerate(r)) for r in table.dense]
    for h in (0.1, 0.05):
        k: list[Any] = []
        for i, row in enumerate(table.a):
            y = sum((h * float(a) * k[m] for m, a in enumerate(row)), np.array([0.5, -0.25]))
            k.append(np.array(_forced(float(table.c[i]) * h, y)))
        half = sum((h * float(w) * k[i] for i, w in enumerate(weights)), np.array([0.5, -0.25]))
        exact = solve_ivp(_forced, (0, h / 2), [0.5, -0.25], rtol=1e-13, atol=1e-15).y[:, -1]
        rows.append(float(np.linalg.norm(half - exact)))
    local = {"dp54": 5, "bs32": 4}[table.name]
    assert abs(math.log2(rows[0] / rows[1]) - local) < 0.25


def test_a_step_goes_on_where_the_last_one_ended() -> None:
    """The derivative at the end is that at the next start; a change from outside drops it."""
    calls = 0

    def counted(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
        nonlocal calls
        calls += 1
        FORCED.derivative(t, x, z, u, p, dx)

    model = Model("counted", FORCED.states, counted, parameters=FORCED.parameters)
    stepper = replace(DP54, first=0.01).stepper(bind(model, compile=False))
    x, seen = np.zeros(2), []
    for k in range(4):
        calls, out = 0, x.copy()
        if k == 2:
            stepper.forget()
        stepper.advance(k * 10_000_000, (k + 1) * 10_000_000, x, NONE, NONE, P0, out)
        stepper.accept()
        x = out
        seen.append(calls)
    assert seen == [7, 6, 7, 6]
    assert _memory(stepper)[STEP] > 0.01, "how long a step may be outlives a change"


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
        ({"rtol": math.nan}, "a number above 0"),
        ({"least": 1.0, "most": 0.5}, "give 0 <= least < most"),
        ({"first": -1.0}, "give a step in s"),
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
