"""Every listed solver: the suite, its tableau, its memory.

Adaptive solvers: what a tolerance buys, what a budget costs, what a step remembers.

The API reference reads the source of rtsim.solve: each public constant has its own docstring.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
from collections.abc import Container, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import rtsim.solve
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model, bind
from rtsim.models.orbit import ORBIT
from rtsim.solve import (
    ABM4,
    BS32,
    DP54,
    EULER,
    GOOD,
    RK4,
    RKN4,
    SEMI_IMPLICIT_EULER,
    SOLVERS,
    TOO_SMALL,
    Adaptive,
    NystromTableau,
    Solver,
    Stepper,
    Tableau,
)
from rtsim.solve.adaptive import EVALUATIONS, REJECTED, STEP, STEPS
from rtsim.solve.fixed_step import RKN4_TABLEAU
from rtsim.testing.solvers import END_NS, FORCED, NONE, allocations, check_solver

BUDGETED = (Adaptive(budget=40), Adaptive(budget=40, fallback="stop"))


@pytest.mark.parametrize("solver", [*SOLVERS.values(), *BUDGETED], ids=lambda s: s.name)
@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_it_passes_the_suite(solver: Solver, compile: bool) -> None:
    check_solver(solver, compile=compile)


def test_all_of_our_own_take_several_steps_in_compiled_code() -> None:
    """Only there can it be seen that they ask for no memory."""
    unseen = [s.name for s in SOLVERS.values() if allocations(s, FORCED) is None]
    assert unseen == ["dop853", "radau", "bdf", "lsoda", "cvode", "ida"]


@pytest.mark.parametrize("solver", [RK4, RKN4], ids=["rk4", "rkn4"])
def test_order_on_the_orbit(solver: Solver) -> None:
    """A revolution of the seed document's orbit closes; half the step, a 16th of the gap."""
    gaps = []
    bound = bind(ORBIT)
    stepper = solver.stepper(bound)
    start, p, none = ORBIT.states.initial(), ORBIT.parameters.initial(), np.zeros(0)
    for n in (800, 1600):
        x, out = start.copy(), start.copy()
        for k in range(n):
            stepper.advance(
                30_000_000_000 * k // n, 30_000_000_000 * (k + 1) // n, x, none, none, p, out
            )
            x, out = out, x
        gaps.append(float(np.linalg.norm(x - start)))
    assert abs(math.log2(gaps[0] / gaps[1]) - 4) < 0.1


def _oscillator(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -x[0]


OSCILLATOR = Model(
    name="oscillator",
    states=Signals(Signal("x", initial=1.0), Signal("v", derivative_of="x")),
    derivative=_oscillator,
)


def _after(seconds: int, step_ns: int) -> float:
    stepper = RK4.stepper(bind(OSCILLATOR))
    x, none = OSCILLATOR.states.initial(), np.zeros(0)
    out = x.copy()
    for k in range(seconds * 1_000_000_000 // step_ns):
        stepper.advance(k * step_ns, (k + 1) * step_ns, x, none, none, none, out)
        x, out = out, x
    return float(np.hypot(*x))


def test_rk4_is_stable_at_a_tenth_and_unstable_at_three_seconds() -> None:
    """x'' = -x; RK4 is stable up to h = 2 sqrt(2) on the imaginary axis."""
    assert _after(300, 100_000_000) == pytest.approx(1.0, abs=1e-2)
    assert _after(300, 3_000_000_000) > 1e10
    assert _after(300, 2_800_000_000) < 1.0


def _fake(a: tuple[tuple[Fraction, ...], ...], b: tuple[int, ...], c: tuple[int, ...]) -> Tableau:
    return Tableau("fake", 2, a, tuple(map(Fraction, b)), tuple(map(Fraction, c)), "none")


def test_a_wrong_tableau_is_refused() -> None:
    with pytest.raises(ScenarioError, match="does not sum to its node"):
        _fake(((), (Fraction(1, 3),)), (0, 1), (0, 1))
    with pytest.raises(ScenarioError, match="do not sum to 1"):
        _fake(((), (Fraction(1),)), (1, 1), (0, 1))
    with pytest.raises(ScenarioError, match="row i of a"):
        _fake(((Fraction(1),), ()), (0, 1), (0, 1))
    values = {f: getattr(RKN4_TABLEAU, f) for f in RKN4_TABLEAU.__dataclass_fields__}
    with pytest.raises(ScenarioError, match="bbar must sum to 1/2"):
        NystromTableau(**{**values, "bbar": RKN4_TABLEAU.b})
    with pytest.raises(ScenarioError, match="row of a must sum to c"):
        NystromTableau(**{**values, "abar": RKN4_TABLEAU.a})


def test_rkn4_says_which_states_are_not_paired() -> None:
    with pytest.raises(ScenarioError, match=r"does not pair x, v.*derivative_of"):
        RKN4.stepper(bind(Model("flat", Signals("x", "v"), _oscillator)))


# -- a history of several steps --------------------------------------------------------------------


def _oscillations(
    lengths: Sequence[int], forgets: Container[int] = ()
) -> tuple[float, list[Vector]]:
    """Steps of so many ns, and how far x = cos t is missed at the end."""
    stepper = ABM4.stepper(bind(OSCILLATOR, compile=False))
    x, none = OSCILLATOR.states.initial(), np.zeros(0)
    out, ns, rows = x.copy(), 0, []
    for k, length in enumerate(lengths):
        if k in forgets:
            stepper.forget()
        stepper.advance(ns, ns + length, x, none, none, none, out)
        stepper.accept()
        ns += length
        x, out = out, x
        rows.append(x.copy())
    return abs(x[0] - math.cos(ns / 1e9)), rows


def test_adams_evaluates_twice_a_step_once_it_is_started() -> None:
    calls = 0

    def counted(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
        nonlocal calls
        calls += 1
        _oscillator(t, x, z, u, p, dx)

    bound = bind(Model("counted", OSCILLATOR.states, counted), compile=False)
    stepper = ABM4.stepper(bound)
    x, none = OSCILLATOR.states.initial(), np.zeros(0)
    seen = []
    for k in range(8):
        calls = 0
        if k == 5:
            stepper.forget()
        stepper.advance(k * 10_000_000, (k + 1) * 10_000_000, x, none, none, none, x.copy())
        stepper.accept()
        seen.append(calls)
    assert seen == [4, 4, 4, 2, 2, 4, 4, 4]


def test_adams_starts_again_after_a_cut_step() -> None:
    """A history of another spacing would be of first order; a third of a ns is no other spacing."""
    even = [50_000_000] * 200
    cut = [*even[:100], 20_000_000, 30_000_000, *even[:99]]
    ragged = [16_666_667, 16_666_666, 16_666_667] * 200
    assert _oscillations(even)[0] < 2e-6
    assert _oscillations(cut)[0] < 2e-6
    assert _oscillations(ragged)[0] < 1e-7


def test_adams_forgets_what_was_before_a_discontinuity() -> None:
    _, plain = _oscillations([50_000_000] * 10)
    _, again = _oscillations([50_000_000] * 10, forgets={6})
    assert np.array_equal(plain[:6], again[:6])
    assert not np.array_equal(plain[6], again[6])


@pytest.mark.long
def test_a_symplectic_method_keeps_the_energy_of_an_oscillator() -> None:
    """50 periods at 63 steps each: Euler's grows by e^30, this one wavers by h/2."""
    energies = []
    for solver in (EULER, SEMI_IMPLICIT_EULER):
        stepper = solver.stepper(bind(OSCILLATOR))
        x, none = OSCILLATOR.states.initial(), np.zeros(0)
        out, most = x.copy(), 0.0
        for k in range(3150):
            stepper.advance(k * 100_000_000, (k + 1) * 100_000_000, x, none, none, none, out)
            x, out = out, x
            most = max(most, abs(x[0] ** 2 + x[1] ** 2 - 1))
        energies.append(most)
    assert energies[0] > 1e12
    assert energies[1] < 0.053


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


FACE = Path(inspect.getfile(rtsim.solve))
MODULE_OF = {
    alias.name: statement.module
    for statement in ast.walk(ast.parse(FACE.read_text(encoding="utf-8")))
    if isinstance(statement, ast.ImportFrom) and statement.module
    for alias in statement.names
}
CONSTANTS = [
    name
    for name in rtsim.solve.__all__
    if not inspect.isclass(getattr(rtsim.solve, name))
    and not inspect.isfunction(getattr(rtsim.solve, name))
]


def docstrings(source: str) -> dict[str, str]:
    """The text below each plain assignment ``NAME = ...``, by name."""
    found: dict[str, str] = {}
    body = ast.parse(source).body
    for statement, below in pairwise(body):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found |= {t.id: str(below.value.value) for t in targets if isinstance(t, ast.Name)}
    return found


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_public_constant_has_a_docstring_of_its_own(name: str) -> None:
    module = importlib.import_module(MODULE_OF.get(name, "rtsim.solve"))
    assert docstrings(Path(inspect.getfile(module)).read_text(encoding="utf-8")).get(name)


def test_a_constant_without_one_is_found() -> None:
    """As four solvers were: one statement for all of them, and no text below it."""
    assert docstrings('A, B = 1, 2\n"""Both."""\nC = 3\nD: int = 4\n"""Four."""\n') == {
        "D": "Four."
    }
