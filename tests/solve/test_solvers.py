"""Every listed solver: the suite, its tableau, its memory."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from fractions import Fraction

import numpy as np
import pytest

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model, bind
from rtsim.models.orbit import ORBIT
from rtsim.solve import (
    ABM4,
    EULER,
    RK4,
    RKN4,
    SEMI_IMPLICIT_EULER,
    SOLVERS,
    Adaptive,
    NystromTableau,
    Solver,
    Tableau,
)
from rtsim.solve.fixed_step import RKN4_TABLEAU
from rtsim.testing.solvers import FORCED, allocations, check_solver

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
    with pytest.raises(ScenarioError, match="bbar to 1/2"):
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
