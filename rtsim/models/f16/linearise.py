"""Linearise a model about a point by central differences: dx/dt = A dx + B du, dy = C dx + D du."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.equations.model import BoundModel

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class LinearModel:
    """Matrices A (n, n), B (n, m), C (r, n), D (r, m); units and order of the model's signals."""

    a: Matrix
    b: Matrix
    c: Matrix
    d: Matrix


def linearise(
    bound: BoundModel, x: Vector, u: Vector, p: Vector, *, t: float = 0.0, step: float = 1e-6
) -> LinearModel:
    """Return the linear model about state ``x`` (n,), inputs ``u`` (m,) and parameters ``p``.

    Each element is varied by ``step * max(1, |value|)``.  The aerodynamic tables are piecewise
    linear: within a segment the only error is rounding (about 1e-9 relative), and at a breakpoint
    the result is the mean of the two slopes.
    """
    z = bound.model.discrete.initial()

    def evaluate(function: Callable[..., None], size: int) -> tuple[Matrix, Matrix]:
        def at(state: Vector, inputs: Vector) -> Vector:
            out = np.zeros(size)
            function(t, state, z, inputs, p, out)
            return out

        by_x = [_slope(lambda v: at(v, u), x, i, step) for i in range(x.size)]
        by_u = [_slope(lambda v: at(x, v), u, i, step) for i in range(u.size)]
        return _columns(by_x, size), _columns(by_u, size)

    a, b = evaluate(bound.derivative.call, bound.model.states.size)
    c, d = evaluate(bound.output.call, bound.model.outputs.size)
    return LinearModel(a, b, c, d)


def _slope(function: Callable[[Vector], Vector], at: Vector, i: int, step: float) -> Vector:
    high, low = at.copy(), at.copy()
    delta = step * max(1.0, abs(float(at[i])))
    high[i] += delta
    low[i] -= delta
    return (function(high) - function(low)) / (high[i] - low[i])  # type: ignore[no-any-return]


def _columns(vectors: list[Vector], size: int) -> Matrix:
    return np.array(vectors).reshape(len(vectors), size).T
