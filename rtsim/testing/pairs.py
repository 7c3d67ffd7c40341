"""Checks of an embedded Runge-Kutta pair: both orders, dense output, first same as last."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.equations.model import Model, bind
from rtsim.solve import GOOD, Adaptive, EmbeddedTableau
from rtsim.solve.base import lower_triangle, weights
from rtsim.solve.legs import within
from rtsim.testing.problems import FORCED, NONE, exact, forced

FROM_S, START = 1.0, np.array([0.5, -0.25])
PARTS = (0.1, 0.25, 0.5, 0.75, 0.9)
_FLOOR = 1e-11
"""Errors below this value are rounding errors."""
_OFF = 0.25
"""Allowed difference between an observed exponent and the expected one."""


def one_step(pair: Adaptive) -> Adaptive:
    """Return ``pair`` as a solver whose large tolerances make each advance one step."""
    return replace(
        pair, rtol=1e9, atol=1e9, first=1e9, least=0.0, most=math.inf, budget=None, safety=0.9
    )


def check_pair(pair: Adaptive) -> None:
    """Assert the properties that ``pair`` and its tableau declare."""
    table = pair.tableau
    observed = exponent(lambda h: off(_step(table, h)[1], h))
    assert abs(observed - table.order - 1) < _OFF, (
        f"{table.name}: the error of a step falls with h^{observed:.2f}; expected "
        f"h^{table.order + 1} for the declared order {table.order}"
    )
    observed = exponent(lambda h: float(np.linalg.norm(_estimate(table, h))))
    assert abs(observed - table.lower - 1) < _OFF, (
        f"{table.name}: the error estimate falls with h^{observed:.2f}; expected "
        f"h^{table.lower + 1} for the declared order {table.lower} of the embedded method"
    )
    _check_dense(table)
    _check_same_as_last(pair)


def exponent(error: Callable[[float], float]) -> float:
    """Return the exponent p of ``error(h)`` ~ h**p, from the shortest h above rounding errors."""
    found: list[float] = []
    for k in range(8):
        value = error(0.5**k)
        if not value > _FLOOR:
            break
        found.append(value)
    assert len(found) > 1, (
        f"the order cannot be observed, because the errors {found} from h = 1 s on are too small"
    )
    return math.log2(found[-2] / found[-1])


def off(y: Vector, h: float) -> float:
    """Return the distance of ``y`` (2,) from the exact solution ``h`` s after the start."""
    return float(np.linalg.norm(y - exact(FROM_S + h, FROM_S, START)))


def _step(table: EmbeddedTableau, h: float) -> tuple[NDArray[np.float64], Vector]:
    """Return the stages (s, n) of one step of ``h`` s, and the state (n,) at its end."""
    a, p = lower_triangle(table.a), FORCED.parameters.initial()
    k, y = np.zeros((len(table.b), 2)), START
    for i, c in enumerate(table.c):
        y = START + h * (a[i, :i] @ k[:i])
        forced(FROM_S + float(c) * h, y, NONE, NONE, p, k[i])
    return k, START + h * (weights(table.b) @ k)


def _estimate(table: EmbeddedTableau, h: float) -> Vector:
    return h * ((weights(table.b) - weights(table.hat)) @ _step(table, h)[0])


def _check_dense(table: EmbeddedTableau) -> None:
    """Check that the dense output is exact at both ends of a step and accurate within it."""
    dense, y = np.array([[float(w) for w in row] for row in table.dense]), np.zeros(2)
    for h in (1.0, 0.1):
        k, end = _step(table, h)
        for part, there in ((0.0, START), (1.0, end)):
            within(y, START, k, dense, part, h)
            assert np.allclose(y, there, rtol=0, atol=1e-12), (
                f"{table.name}: the dense output differs from the states at the ends of a step"
            )
    for part in PARTS:

        def error(h: float, part: float = part) -> float:
            within(y, START, _step(table, h)[0], dense, part, h)
            return off(y, part * h)

        observed = exponent(error)
        assert observed > table.order - _OFF, (
            f"{table.name}: at {part} of a step the error of the dense output falls with "
            f"h^{observed:.2f}; guards need h^{table.order}"
        )


def _check_same_as_last(pair: Adaptive) -> None:
    """Check that the last stage of a step is reused as the first stage of the next step."""
    calls, stages = 0, len(pair.tableau.b)

    def counted(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
        nonlocal calls
        calls += 1
        forced(t, x, z, u, p, dx)

    model = Model("counted", FORCED.states, counted, parameters=FORCED.parameters)
    p, step_ns = FORCED.parameters.initial(), 125_000_000
    ends, seen = [], []
    for forgetful in (False, True):
        stepper = one_step(pair).stepper(bind(model, compile=False))
        x, out = START.copy(), np.zeros(2)
        for k in range(3):
            if forgetful:
                stepper.forget()
            calls = 0
            ends_ns = k * step_ns, (k + 1) * step_ns
            assert stepper.advance(*ends_ns, x, NONE, NONE, p, out) == GOOD
            stepper.accept()
            seen.append(calls)
            x[:] = out
        ends.append(x)
    assert seen == [stages, stages - 1, stages - 1, *(3 * [stages])], (
        f"{pair.name}: {seen} evaluations in three steps and in three steps after forget(); "
        f"expected {stages - 1} where the last stage is reused, {stages} in all other steps"
    )
    assert np.allclose(ends[0], ends[1], rtol=0, atol=1e-13), (
        f"{pair.name}: the reused stage is not the derivative at the end of the last step"
    )
