"""Newton's method for the algebraic equations of a model, compiled or as plain Python.

The method is damped by the natural monotonicity test: a step is accepted if the simplified
correction that follows it is shorter than the step.  The test does not depend on the units of the
residuals.  While the method converges fast, the Jacobian of the first iteration is used again.
Source: Deuflhard, Newton Methods for Nonlinear Problems, 2004, sections 2.1.2 and 3.3.

The result is a pure function of the arguments and of the values at which the search begins, so that
a repeated step gives equal bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rtsim.core.signals import Vector
from rtsim.equations.compiling import in_both
from rtsim.equations.scratch import scratch

GOOD, NOT_FINITE, SINGULAR, NO_CONVERGENCE = -1, 1, 2, 3
"""Results of a search: a solution; a residual that is not finite at the first values; a singular
Jacobian; no solution after the greatest number of iterations."""
TOLERANCE = 1e-10
"""The search ends if no unknown changes by more than this share of its value."""
SMALL = 1e-3
"""The share of an unknown's typical value below which its tolerance does not decrease further."""
_ITERATIONS = 50
_LEAST_DAMPING = 1.0 / 4096.0
_ROUNDING = 1e3
"""A correction of at most so many tolerances that no longer decreases is due to rounding."""
_FAST = 0.25
"""The Jacobian is used again while each correction is at most this share of the one before it."""
_APART = 1.5e-8
"""Relative distance of the points of a difference quotient: the square root of the rounding error.
"""

Solve = Callable[[float, Vector, Vector, Vector, Vector, Vector, bool], int]
"""``solve(t, x, y, z, u, p, keep)`` replaces the values in ``y`` by the solution near them."""


@in_both
def factor(a: Any, order: Any, n: int) -> int:
    """Replace the matrix ``a`` (n * n, row by row) by its factors L and U, with row exchanges.

    ``order`` (n,) receives the rows.  Returns -1, or the first column without a pivot.
    """
    for k in range(n):
        best, size = k, abs(a[k * n + k])
        for i in range(k + 1, n):
            if abs(a[i * n + k]) > size:
                best, size = i, abs(a[i * n + k])
        order[k] = best
        if not size > 0.0 or not math.isfinite(size):
            return k
        if best != k:
            for j in range(n):
                a[k * n + j], a[best * n + j] = a[best * n + j], a[k * n + j]
        for i in range(k + 1, n):
            a[i * n + k] /= a[k * n + k]
            share = a[i * n + k]
            if share != 0.0:
                for j in range(k + 1, n):
                    a[i * n + j] -= share * a[k * n + j]
    return -1


@in_both
def substitute(a: Any, order: Any, b: Any, n: int) -> None:
    """Replace ``b`` (n,) by the solution of the system that :func:`factor` factored."""
    for k in range(n):
        other = int(order[k])
        b[k], b[other] = b[other], b[k]
        for i in range(k + 1, n):
            b[i] -= a[i * n + k] * b[k]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            b[k] -= a[k * n + j] * b[j]
        b[k] /= a[k * n + k]


@in_both
def length(d: Any, y: Any, typical: Any) -> float:
    """Return the greatest element of ``d`` (n,), each divided by its tolerance at ``y`` (n,)."""
    out = 0.0
    for i in range(y.size):
        part = abs(d[i]) / (TOLERANCE * max(abs(y[i]), SMALL * typical[i]))
        if not part <= out:  # true for NaN too
            out = part
    return out


@in_both
def finite(vector: Any) -> bool:
    """Return whether all elements are finite."""
    total = 0.0
    for i in range(vector.size):
        total += vector[i] - vector[i]  # 0, or nan
    return total == 0.0


def solver(residual: Any, typical: Vector) -> Solve:
    """Return a function that solves ``residual(t, x, y, z, u, p, r)`` for ``y``.

    ``typical`` (n,) are the magnitudes of the unknowns.  The function returns :data:`GOOD` or the
    reason why it found no solution; ``y`` is then unchanged.  With ``keep``, values that are a
    solution within the tolerance are not changed either.
    """
    n = typical.size
    elements = n * n

    def jacobian(
        t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any, a: Any, beside: Any
    ) -> None:
        """Fill ``a`` with difference quotients at ``y``, where the residual is ``r``."""
        for j in range(n):
            value = y[j]
            y[j] = value + _APART * max(abs(value), typical[j])
            apart = y[j] - value
            residual(t, x, y, z, u, p, beside)
            y[j] = value
            for i in range(n):
                a[i * n + j] = (beside[i] - r[i]) / apart

    jacobian = in_both(jacobian, inlined=False)

    def solve(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, keep: bool) -> int:
        now, trial, r, d = scratch(n), scratch(n), scratch(n), scratch(n)
        order, a = scratch(n), scratch(elements)
        for i in range(n):
            now[i] = y[i]
        residual(t, x, now, z, u, p, r)
        if not finite(r):
            return NOT_FINITE
        for iteration in range(_ITERATIONS):
            jacobian(t, x, now, z, u, p, r, a, d)
            if factor(a, order, n) >= 0:
                return SINGULAR
            for i in range(n):
                d[i] = -r[i]
            substitute(a, order, d, n)
            size = length(d, now, typical)
            if not math.isfinite(size):
                return SINGULAR
            if keep and iteration == 0 and size <= 1.0:
                return GOOD
            damping, after = 1.0, math.inf
            while True:
                for i in range(n):
                    trial[i] = now[i] + damping * d[i]
                residual(t, x, trial, z, u, p, r)
                if finite(r):
                    for i in range(n):
                        r[i] = -r[i]
                    substitute(a, order, r, n)
                    after = length(r, now, typical)
                    if after <= 1.0 or after <= (1.0 - 0.25 * damping) * size:
                        break
                if size <= _ROUNDING:
                    after = 0.0
                    for i in range(n):
                        r[i] = 0.0
                    break
                damping *= 0.5
                if damping < _LEAST_DAMPING:
                    return NO_CONVERGENCE
            for i in range(n):
                now[i] = trial[i]
            while damping == 1.0 and 1.0 < after <= _FAST * size:  # the same Jacobian again
                size = after
                for i in range(n):
                    now[i] += r[i]
                residual(t, x, now, z, u, p, r)
                for i in range(n):
                    r[i] = -r[i]
                substitute(a, order, r, n)
                after = length(r, now, typical)
            if after <= 1.0:
                for i in range(n):
                    y[i] = now[i] + r[i]
                return GOOD
            residual(t, x, now, z, u, p, r)
            if not finite(r):
                return NO_CONVERGENCE
        return NO_CONVERGENCE

    return in_both(solve, inlined=False)
