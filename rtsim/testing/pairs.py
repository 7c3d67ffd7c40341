"""Checks of a method with an embedded method: both orders, dense output, first same as last."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.equations.model import Model, bind
from rtsim.solve import GOOD, Adaptive, Rosenbrock
from rtsim.solve.legs import within
from rtsim.testing.problems import FORCED, NONE, exact, forced

Pair = Adaptive | Rosenbrock
"""A solver with an embedded method and dense output."""
FROM_S, START = 1.0, np.array([0.5, -0.25])
PARTS = (0.1, 0.25, 0.5, 0.75, 0.9)
_FLOOR = 1e-11
"""Errors below this value are rounding errors."""
_OFF = 0.25
"""Allowed difference between an observed exponent and the expected one."""


def without_budget(pair: Pair) -> Pair:
    """Return ``pair`` without a budget of evaluations."""
    return replace(pair, budget=None) if isinstance(pair, Adaptive) else pair


def one_step(pair: Pair) -> Pair:
    """Return ``pair`` as a solver whose large tolerances make each advance one step."""
    limits: dict[str, float] = {"least": 0.0, "most": math.inf, "safety": 0.9}
    out: Pair = replace(without_budget(pair), rtol=1e9, atol=1e9, first=1e9, **limits)  # type: ignore[arg-type]
    return out


def check_pair(pair: Pair) -> None:
    """Assert the properties that ``pair`` and its tableau declare."""
    table = pair.tableau
    observed = exponent(lambda h: off(_step(pair, h)[1], h))
    assert abs(observed - table.order - 1) < _OFF, (
        f"{table.name}: the error of a step falls with h^{observed:.2f}; expected "
        f"h^{table.order + 1} for the declared order {table.order}"
    )
    observed = exponent(lambda h: float(np.linalg.norm(_estimate(pair, h))))
    assert abs(observed - table.lower - 1) < _OFF, (
        f"{table.name}: the error estimate falls with h^{observed:.2f}; expected "
        f"h^{table.lower + 1} for the declared order {table.lower} of the embedded method"
    )
    _check_dense(pair)
    if table.first_same_as_last:
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


def _step(pair: Pair, h: float) -> tuple[Vector, Vector, NDArray[np.float64]]:
    """Return the stages (s, n) of one step of ``h`` s, the state (n,) at its end, and the weights
    of its dense output (s, d).
    """
    stepper: Any = one_step(pair).stepper(bind(FORCED, compile=False))
    out, p = np.zeros(2), FORCED.parameters.initial()
    legs = stepper.legs(START, NONE, NONE, p, out)
    ends = round(FROM_S * NS_PER_S), round((FROM_S + h) * NS_PER_S)
    assert stepper.advance(*ends, START, NONE, NONE, p, out) == GOOD
    return legs.k, out, legs.dense


def _estimate(pair: Pair, h: float) -> Vector:
    weights: Vector = pair.tableau.error_weights
    return h * (weights @ _step(pair, h)[0])


def _check_dense(pair: Pair) -> None:
    """Check that the dense output is exact at both ends of a step and accurate within it."""
    table, y = pair.tableau, np.zeros(2)
    for h in (1.0, 0.1):
        k, end, dense = _step(pair, h)
        for part, there in ((0.0, START), (1.0, end)):
            within(y, START, k, dense, part, h)
            assert np.allclose(y, there, rtol=0, atol=1e-12), (
                f"{table.name}: the dense output differs from the states at the ends of a step"
            )
    for part in PARTS:

        def error(h: float, part: float = part) -> float:
            k, _, dense = _step(pair, h)
            within(y, START, k, dense, part, h)
            return off(y, part * h)

        observed = exponent(error)
        assert observed > table.order - _OFF, (
            f"{table.name}: at {part} of a step the error of the dense output falls with "
            f"h^{observed:.2f}; guards need h^{table.order}"
        )


def _check_same_as_last(pair: Pair) -> None:
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
