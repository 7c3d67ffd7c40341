"""DETEST A to F by Dormand-Prince: what a tolerance buys at the end, and what it costs.

A tolerance bounds the error of each step, and a problem may carry that on to a larger one at the
end.  Where it is over 20 times the tolerance, ``CARRIED`` has the worst figure measured over the
decades 1e-3 to 1e-10, and why; SciPy's RK45 ends as far off.  With the tolerance that
``sufficient_tolerance`` finds, every problem ends within 20 times the one asked (17.6 at worst),
for 1.29 times RK45's evaluations at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pytest
from detest import PROBLEMS, intervals
from published import figures
from scipy.integrate import solve_ivp

from rtsim.core.signals import Vector
from rtsim.equations.model import BoundModel, bind
from rtsim.solve import DP54, GOOD
from rtsim.solve.adaptive import EVALUATIONS
from rtsim.testing.tolerances import Sufficient, sufficient_tolerance

WITHIN = 20


def decades(*sample: int) -> pytest.MarkDecorator:
    """1e-3 to 1e-10; those that are not in the sample with full counts alone."""
    marks = {k: () if k in sample else pytest.mark.full for k in range(3, 11)}
    return pytest.mark.parametrize(
        "decade", [pytest.param(k, marks=marks[k], id=f"1e-{k}") for k in marks]
    )


PHASE = "a periodic motion: nothing brings an error of phase back"
ORBIT = "an orbit: an error of energy changes the period, and that of phase grows with t^2"
CARRIED = {
    "B1": (90, PHASE),
    "B4": (23.4, PHASE),
    "B5": (68.2, PHASE),
    "C5": (142, ORBIT),
    "D1": (3209, ORBIT),
    "D2": (1604, ORBIT),
    "D3": (933, ORBIT),
    "D4": (372, ORBIT),
    "D5": (674, ORBIT),
    "E2": (57.5, PHASE),
    "E3": (110, PHASE),
    "F1": (635, "its free motion grows by e^2 over the 20 s"),
    "F5": (517, "its slope has an infinite derivative at 19 whole seconds; a pair assumes five"),
}
ALIKE = {("F5", 3)}
"""Three tolerances step over the same infinite slopes: off by 2.8e-4 to 2.9e-4 of ``1 + abs(y)``,
and 7e-6 by estimate.  What was asked is kept all the same."""
NONE = np.zeros(0)


@dataclass
class Case:
    """A problem, compiled once for all tolerances, and the ends that were found."""

    name: str
    start: Vector
    end: Vector
    t_end: float
    found: dict[float, tuple[Vector, float]] = field(default_factory=dict)

    @cached_property
    def bound(self) -> BoundModel:
        return bind(PROBLEMS[self.name].model, x=self.start)

    def off(self, x: Vector) -> float:
        """In units of ``1 + abs(y)``."""
        return float(np.max(np.abs(x - self.end) / (1 + np.abs(self.end))))

    def ours(self, tolerance: float) -> tuple[Vector, float]:
        """The end (n,), and the evaluations."""
        if tolerance not in self.found:
            self.found[tolerance] = self._ours(tolerance)
        return self.found[tolerance]

    def _ours(self, tolerance: float) -> tuple[Vector, float]:
        stepper = replace(DP54, rtol=tolerance, atol=tolerance).stepper(self.bound)
        x = self.start
        for a, b, z in intervals(PROBLEMS[self.name], self.t_end):
            out = x.copy()
            stepper.forget()
            assert stepper.advance(a, b, x, z, NONE, NONE, out) == GOOD
            stepper.accept()
            x = out
        return x, stepper.save()["memory"][EVALUATIONS]

    def sufficient(self, asked: float) -> Sufficient:
        """For an end within ``WITHIN`` times what is asked."""
        allowed = WITHIN * asked
        return sufficient_tolerance(
            lambda tolerance: self.ours(tolerance)[0], atol=allowed, rtol=allowed, start=asked
        )

    def scipys(self, tolerance: float) -> tuple[Vector, float]:
        evaluate, dx = self.bound.derivative.call, np.zeros(self.start.size)
        y, evaluations = self.start, 0
        for a, b, z in intervals(PROBLEMS[self.name], self.t_end):

            def slope(t: float, y: Vector, z: Vector = z) -> Vector:
                evaluate(float(t), y, z, NONE, NONE, dx)
                return dx.copy()

            done = solve_ivp(slope, (a / 1e9, b / 1e9), y, rtol=tolerance, atol=tolerance)
            y, evaluations = done.y[:, -1].copy(), evaluations + done.nfev
        return y, evaluations

    def evaluations_over_scipys(self, tolerance: float) -> float:
        """At equal accuracy: order 5 buys a factor f of accuracy with f^(1/5) evaluations.

        How far class F is off is partly chance, in both: SciPy's figure is the middle one of
        three tolerances.
        """
        x, evaluations = self.ours(tolerance)
        ratios = []
        for factor in (4, 1, 1 / 4) if self.name[0] == "F" else (1,):
            y, theirs = self.scipys(factor * tolerance)
            ratios.append(evaluations / theirs * (self.off(x) / self.off(y)) ** (1 / 5))
        return float(np.median(ratios))


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {
        name: Case(name, np.array(given["y0"]), np.array(given["y_end"]), given["t_end"])
        for name, given in figures("detest")["problems"].items()
    }


def test_all_thirty_are_here(cases: dict[str, Case]) -> None:
    assert list(PROBLEMS) == list(cases)
    assert len(PROBLEMS) == 30


@pytest.mark.sample(30)
@decades(3, 6, 10)
@pytest.mark.parametrize("name", PROBLEMS)
def test_what_was_asked_of_the_end_is_kept(name: str, decade: int, cases: dict[str, Case]) -> None:
    """With the tolerance found from solutions alone: no published value helps to find it."""
    case, asked = cases[name], 10.0**-decade
    found = case.sufficient(asked)
    assert case.off(found.end) <= WITHIN * asked
    estimate = float(np.max(found.off / (1 + np.abs(found.end))))
    assert (name, decade) in ALIKE or case.off(found.end) <= 1.5 * estimate


@decades(3, 6)
@pytest.mark.parametrize("name", PROBLEMS)
def test_what_it_cost(name: str, decade: int, cases: dict[str, Case]) -> None:
    """At most 1.3 times SciPy's evaluations at equal accuracy."""
    case = cases[name]
    found = case.sufficient(10.0**-decade)
    assert case.evaluations_over_scipys(found.tolerance) <= 1.3


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_a_plain_tolerance_buys(name: str, cases: dict[str, Case]) -> None:
    """A problem is excused as far as it needs to be, and not further."""
    case = cases[name]
    worst = max(case.off(case.ours(e)[0]) / e for e in (10.0**-k for k in range(3, 11)))
    carried, _ = CARRIED.get(name, (0.0, ""))
    assert worst <= max(WITHIN, carried)
    assert name not in CARRIED or max(WITHIN, 0.9 * carried) < worst


@pytest.mark.sample(40)
@decades(3, 5, 7, 10)
@pytest.mark.parametrize("name", PROBLEMS)
def test_what_a_plain_tolerance_costs(name: str, decade: int, cases: dict[str, Case]) -> None:
    """At most 1.3 times SciPy's evaluations, with no credit where ours ends nearer.

    F5 ends where it began and what is off cancels by chance: at equal tolerance.
    """
    case, tolerance = cases[name], 10.0**-decade
    (x, evaluations), (y, theirs) = case.ours(tolerance), case.scipys(tolerance)
    worse = 1.0 if name == "F5" else max(1.0, case.off(x) / case.off(y)) ** (1 / 5)
    assert evaluations * worse <= 1.3 * theirs


@decades(3)
@pytest.mark.parametrize("name", [name for name in CARRIED if name != "F5"])
def test_scipy_ends_as_far_off(name: str, decade: int, cases: dict[str, Case]) -> None:
    """1.65 times at most, F1 at 1e-3; it is the same pair.  F5 is off by chance, in both."""
    case, tolerance = cases[name], 10.0**-decade
    (x, _), (y, _) = case.ours(tolerance), case.scipys(tolerance)
    assert 0.95 < case.off(x) / case.off(y) < (1.7 if name == "F1" else 1.05)
