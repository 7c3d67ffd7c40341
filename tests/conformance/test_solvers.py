"""Every listed solver: its contract, its order of convergence, its tableau."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from rtsim.errors import ScenarioError
from rtsim.model import Model, bind
from rtsim.models.orbit import ORBIT
from rtsim.signals import Signal, Signals, Vector
from rtsim.solve import EULER, RK4, RKN4, SOLVERS, NystromTableau, Solver, Tableau
from rtsim.solve.rkn4 import RKN4_TABLEAU
from rtsim.testing.solvers import check_solver, convergence


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=lambda s: s.name)
@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_contract(solver: Solver, compile: bool) -> None:
    check_solver(solver, compile=compile)


@pytest.mark.parametrize(
    ("solver", "order", "steps"),
    [(EULER, 1, (8000, 16000)), (RK4, 4, (200, 400)), (RKN4, 4, (200, 400))],
    ids=["euler", "rk4", "rkn4"],
)
def test_order_on_a_forced_oscillator(solver: Solver, order: int, steps: tuple[int, int]) -> None:
    observed = convergence(solver, steps)
    assert abs(observed - order) < 0.1, observed


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
    with pytest.raises(ScenarioError, match="1 and 1/2"):
        NystromTableau(**{**values, "bbar": RKN4_TABLEAU.b})
    with pytest.raises(ScenarioError, match="row sum"):
        NystromTableau(**{**values, "abar": RKN4_TABLEAU.a})


def test_rkn4_says_which_states_are_not_paired() -> None:
    with pytest.raises(ScenarioError, match=r"does not pair x, v.*derivative_of"):
        RKN4.stepper(bind(Model("flat", Signals("x", "v"), _oscillator)))
