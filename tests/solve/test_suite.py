"""The suite can fail: each of its checks, on a solver that is broken on purpose."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rtsim.core.signals import Vector
from rtsim.equations.model import BoundModel
from rtsim.solve import (
    BS32,
    DP54,
    EULER,
    RK4,
    Adaptive,
    EmbeddedTableau,
    ExplicitRungeKutta,
    Solver,
    Stepper,
)
from rtsim.solve.adaptive import StepTolerance
from rtsim.solve.internal_steps import STEP_LAYOUT, Method
from rtsim.solve.resident import stepper
from rtsim.testing.solvers import (
    FORCED,
    allocations,
    check_allocations,
    check_contract,
    check_order,
    check_solver,
    check_tolerance,
)


def _row(*terms: str) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, terms))


def _weighing(*terms: str) -> ExplicitRungeKutta:
    return ExplicitRungeKutta(replace(RK4.tableau, b=_row(*terms)))


def _said(order: int) -> ExplicitRungeKutta:
    return ExplicitRungeKutta(replace(RK4.tableau, order=order))


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("solver", "observed"),
    [
        (_weighing("1/6", "1/6", "1/2", "1/6"), 2),
        (_weighing("1/3", "1/3", "1/3", "0"), 1),
        (_said(3), 4),
        (_said(5), 4),
        (replace(DP54, tableau=replace(DP54.tableau, order=4)), 5),
    ],
)
def test_an_order_that_is_not_there(solver: Solver, observed: int) -> None:
    with pytest.raises(AssertionError, match="declared") as found:
        check_solver(solver)
    assert f"order {observed}" in str(found.value) or f"h^{observed + 1}" in str(found.value)


def _bent(
    dense: tuple[tuple[Fraction, ...], ...], by: Fraction
) -> tuple[tuple[Fraction, ...], ...]:
    """With other weights within a step, and the same at its ends."""
    (a, b, *rest), *others = dense
    return ((a + by, b - by, *rest), *others)


@pytest.mark.parametrize("solver", [DP54, BS32], ids=["dp54", "bs32"])
def test_a_tableau_that_is_not_what_it_says(solver: Adaptive) -> None:
    table = solver.tableau
    first = (Fraction(1), *(len(table.b) - 1) * (Fraction(0),))
    broken = {
        "the declared order . of the embedded": [
            replace(table, hat=first),
            replace(table, lower=table.lower - 1),
            replace(table, lower=table.lower + 1),
        ],
        "the order cannot be observed": [replace(table, hat=table.b)],
        "of a step the error of the dense output": [
            replace(table, dense=tuple((b,) for b in table.b)),
            replace(table, dense=_bent(table.dense, Fraction(1, 100))),
        ],
    }
    for text, tables in broken.items():
        for wrong in tables:
            with pytest.raises(AssertionError, match=text):
                check_solver(replace(solver, tableau=wrong))


@pytest.mark.sample(1)
@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_a_pair_of_ones_own(compile: bool) -> None:
    """The midpoint rule with Euler's method in it; within a step the parabola of both slopes."""
    table = EmbeddedTableau(
        name="midpoint 2(1)",
        order=2,
        a=((), _row("1/2"), _row("0", "1")),
        b=_row("0", "1", "0"),
        c=_row("0", "1/2", "1"),
        source="Runge, Mathematische Annalen 46, 1895, p. 167",
        hat=_row("1", "0", "0"),
        lower=1,
        dense=(_row("1", "-1"), _row("0", "1"), _row("0", "0")),
    )
    check_solver(Adaptive(tableau=table), compile=compile)


class _Around:
    """A stepper, and what is broken in it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@dataclass(frozen=True)
class _Broken(Adaptive):
    """The pair, in a stepper that is broken."""

    around: Callable[[Any], Any] = _Around

    def stepper(self, bound: BoundModel) -> Stepper:
        made: Stepper = self.around(super().stepper(bound))
        return made


class _Forgetful(_Around):
    def accept(self) -> None:
        self.inner.accept()
        self.inner.forget()


class _Remembering(_Around):
    """The slope at the end of a step, a little wrong."""

    def accept(self) -> None:
        self.inner.accept()
        memory = self.inner.save()["memory"]
        self.inner.restore({"memory": [*memory[:-1], memory[-1] + 1e-9]})


class _Stale(_Around):
    def forget(self) -> None:
        """Not at all."""


class _Amnesic(_Around):
    def restore(self, saved: dict[str, Any]) -> None:
        self.inner.restore({"memory": [0.0] * len(saved["memory"])})


class _Writing(_Around):
    def advance(self, *given: Any) -> int:
        answer: int = self.inner.advance(*given)
        given[2][0] += 1e-15
        return answer


class _Drifting(_Around):
    """Each advance leaves a trace, committed or not."""

    off = 0.0

    def advance(self, *given: Any) -> int:
        answer: int = self.inner.advance(*given)
        self.off += 1e-9
        given[-1][0] += self.off
        return answer


class _Backward(_Around):
    def advance(self, *given: Any) -> int:
        answer: int = self.inner.advance(*given)
        given[-1][:] = 2 * given[2] - given[-1]
        return answer


class _Careless(_Around):
    def advance(self, *given: Any) -> int:
        self.inner.advance(*given)
        return -1


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("around", "text"),
    [
        (_Forgetful, "where the last stage is reused"),
        (_Remembering, "the reused stage is not the derivative"),
        (_Stale, "must not depend on the steps before"),
        (_Amnesic, "a restored stepper must be equal"),
        (_Writing, "must not change x"),
        (_Drifting, "bit for bit"),
        (_Backward, "follow the derivative"),
        (_Careless, "the index of a state"),
    ],
)
def test_a_stepper_that_breaks_the_contract(around: Any, text: str) -> None:
    check_solver(_Broken(around=_Around), compile=False)
    with pytest.raises(AssertionError, match=text):
        check_solver(_Broken(around=around), compile=False)


@dataclass(frozen=True)
class _Deaf(StepTolerance):
    """Has a tolerance, and its own idea of it."""

    name: str = "deaf"
    order: int = 5
    kept: float = 1e-4

    def stepper(self, bound: BoundModel) -> Stepper:
        return Adaptive(rtol=self.kept, atol=self.kept).stepper(bound)


def test_a_tolerance_that_is_not_kept() -> None:
    with pytest.raises(AssertionError, match=r"deaf: the error is .* at a tolerance of 1e-06"):
        check_solver(_Deaf())
    with pytest.raises(AssertionError, match="at tolerances"):
        check_tolerance(_Deaf(kept=1e-10))
    with pytest.raises(AssertionError, match="euler has no tolerance"):
        check_tolerance(EULER)


_WASTEFUL = STEP_LAYOUT.extended("a wasteful step", slope=("states",))


def resident_wasteful(words: Any, t: float, h: float) -> int:
    """Euler's method for x'' = 0 with room of its own in each step."""
    x, out = words.x, words.out
    room = np.zeros(x.size)
    for j in range(x.size):
        room[j] = x[j] + h * words.slope[j] * t
    for j in range(x.size):
        out[j] = room[j]
    return -1


class _Wasteful:
    name, order = "wasteful", 1

    def stepper(self, bound: BoundModel) -> Stepper:
        return stepper(Method(resident_wasteful, _WASTEFUL, {"slope": np.zeros(2)}), bound)


def _roomy(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    room = np.zeros(2)
    room[0] = math.cos(t)
    for j in range(2):
        dx[j] = room[j] + x[j]


def test_memory_asked_for_in_a_step() -> None:
    with pytest.raises(AssertionError, match=r"wasteful: 1\.0 allocations per step"):
        check_allocations(_Wasteful())
    roomy = replace(FORCED, derivative=_roomy)
    assert allocations(RK4, roomy) == 4
    assert allocations(RK4, FORCED) == 0
    assert allocations(DP54, roomy) > 1  # type: ignore[operator]


def test_a_solver_that_is_too_exact_to_show_an_order() -> None:
    with pytest.raises(AssertionError, match="the order cannot be observed"):
        check_order(Adaptive(rtol=1e-13, atol=1e-13))
    check_contract(Adaptive(rtol=1e-13, atol=1e-13))
