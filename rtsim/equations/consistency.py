"""Why the algebraic equations of a model have no solution at given values.

The search for the reason runs as plain Python, after a solution was not found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rtsim.core.extras import needs
from rtsim.core.signals import Vector
from rtsim.equations.compiling import plainly
from rtsim.equations.constraints import typical
from rtsim.equations.newton import GOOD, solver
from rtsim.equations.structure import by_structure, singular_matrix

Model = Any
"""A model, whose module imports this one."""

_SHIFTS = (0.0, 0.37, -0.61)
"""Shares of the typical values by which the unknowns are moved in the search for zeros of the
Jacobian that are zero everywhere."""
_PARTS = 16
"""The number of points of a failed step at which the equations are examined."""
_NEARLY = 1e-6
"""The share of its size at the beginning of a search below which a Jacobian counts as singular at
the end of a solution: there the unknowns themselves are only known to the root of the rounding."""
_AT_START = (
    "declare these values as initial values",
    "declare other initial values, or correct the residuals",
)
_IN_STEP = (
    "give the plant a shorter step: the search begins at the values of the last tag",
    "end the run before it with a terminal guard, give the plant a shorter step, or correct the "
    "residuals",
)
"""Remedies if a solution exists that the search did not find, and if there is none."""


def trouble(
    origin: Model, t: float, x: Vector, z: Vector, u: Vector, p: Vector, *, started: bool = False
) -> str:
    """Return why the algebraic equations of ``origin`` have no solution, or an empty text.

    ``z`` (d,) are the discrete signals of the ordinary model, which end with the values at which
    the search begins.  Once the run has ``started``, other initial values are no remedy.
    """
    if origin.residual is None:
        return ""
    with plainly(), np.errstate(all="ignore"):
        said = _Search(origin, t, x, z, u, p, _IN_STEP if started else _AT_START).reason()
    return f"at {t:.9g} s {said}" if said and started else said


def trouble_in_step(
    model: Model, times: tuple[float, float], x: Vector, z: Vector, u: Vector, p: Vector
) -> str:
    """Return why the equations of ``model`` cannot be solved in a step from ``x``, or "".

    The step lies between ``times`` (s).  The states within the step are approximated by their
    derivative at its beginning.
    """
    origin, (t, end) = model.origin, times
    if origin is None:
        return ""
    slope = np.zeros_like(x)
    if model.derivative is not None:
        with plainly(), np.errstate(all="ignore"):
            getattr(model.derivative, "py_func", model.derivative)(t, x, z, u, p, slope)
    if not np.isfinite(slope).all():
        slope[:] = 0.0
    for k in range(_PARTS + 1):
        ahead = (end - t) * k / _PARTS
        here = t + ahead, x + ahead * slope, z, u, p
        said = trouble(origin, *here, started=True) or _singular_mass(origin, *here)
        if said:
            return said
    return ""


def _singular_mass(origin: Model, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> str:
    """Return which rows and states make the mass matrix singular, or an empty text."""
    if not callable(origin.mass):
        return ""
    n, d = x.size, origin.discrete.size
    m = np.zeros((n, n))
    vectors = (x, z[d:], z[:d]) if origin.algebraic.size else (x, z)
    with plainly(), np.errstate(all="ignore"):
        getattr(origin.mass, "py_func", origin.mass)(t, *vectors, u, p, m)
    said = singular_matrix(m, origin.states.columns)
    return f"the mass matrix is singular: {said}" if said else ""


class _Search:
    """The algebraic equations at fixed t, x, z, u and p."""

    def __init__(
        self,
        origin: Model,
        t: float,
        x: Vector,
        z: Vector,
        u: Vector,
        p: Vector,
        remedies: tuple[str, str],
    ) -> None:
        self._origin, self._t, self._remedies = origin, t, remedies
        d = origin.discrete.size
        self._x, self._z, self._u, self._p = x, z[:d].copy(), u, p
        begin = z[d:]  # a search that failed at a tag has left values that are not finite
        self._begin: Vector = np.where(np.isfinite(begin), begin, origin.algebraic.initial())
        self._names = origin.algebraic.columns
        self._scale = typical(origin)

    def residual(self, y: Vector) -> Vector:
        out = np.full(y.size, np.nan)
        residual: Any = self._origin.residual
        try:
            getattr(residual, "py_func", residual)(
                self._t, self._x, y.copy(), self._z, self._u, self._p, out
            )
        except (ArithmeticError, ValueError):
            out[:] = np.nan
        return out

    def reason(self) -> str:
        begin = self._begin

        def at(
            t: float, x: Vector, y: Vector, z: Vector, u: Vector, p: Vector, r: Vector  # noqa: ARG001
        ) -> None:  # fmt: skip
            r[:] = self.residual(y)

        solve = solver(at, self._scale)
        y = begin.copy()
        if solve(self._t, self._x, y, self._z, self._u, self._p, False) == GOOD:
            return ""
        first = self.residual(begin)
        bad = [i for i in range(first.size) if not np.isfinite(first[i])]
        if bad:
            named = ", ".join(f"residual[{i}] is {first[i]}" for i in bad)
            return f"{named} at {self._said(begin)}; {self._remedies[1]}"
        places = [begin + shift * np.maximum(np.abs(begin), self._scale) for shift in _SHIFTS]
        jacobians = [j for j in map(self._jacobian, places) if np.isfinite(j).all()]
        pattern = np.any([j != 0.0 for j in jacobians], axis=0)
        said = by_structure(pattern, self._names, "residual[{0}]") if jacobians else ""
        if said:
            return f"{said}; correct the residuals"
        near = self._nearest()
        left = self.residual(near)
        singular = self._singular(near)
        where = f", where {singular}" if singular else ""
        if np.abs(left).max() <= 1e-9 * max(1.0, float(np.abs(first).max())):
            return (
                f"Newton's method found no solution from {self._said(begin)}; a solution is "
                f"{self._said(near)}{where}; {self._remedies[1 if singular else 0]}"
            )
        worst = int(np.abs(left).argmax())
        dependent = [singular_matrix(j, self._names, "residual[{0}]") for j in jacobians]
        where = f", where {dependent[0]}" if all(dependent) and dependent else ""
        return (
            f"residual[{worst}] stays at {left[worst]:g}; the nearest values found are "
            f"{self._said(near)}{where}. The search began at {self._said(begin)}; "
            f"{self._remedies[1]}"
        )

    def _singular(self, near: Vector) -> str:
        """Return which residuals and unknowns make the Jacobian singular at ``near``, or ""."""
        there = self._jacobian(near)
        said = singular_matrix(there, self._names, "residual[{0}]")
        if said:
            return said
        sizes = np.abs(self._jacobian(self._begin)).max(axis=1)
        small = np.abs(there).max(axis=1) <= _NEARLY * np.where(np.isfinite(sizes), sizes, 0.0)
        rows = " and ".join(f"residual[{i}]" for i in np.flatnonzero(small))
        return f"{rows} no longer depends on the unknowns" if rows else ""

    def _jacobian(self, y: Vector) -> Vector:
        out = np.zeros((y.size, y.size))
        for j in range(y.size):
            above, below = y.copy(), y.copy()
            above[j] += 1e-7 * max(abs(y[j]), self._scale[j])
            below[j] -= above[j] - y[j]
            change = self.residual(above) - self.residual(below)
            out[:, j] = change / (above[j] - below[j])
        return out

    def _nearest(self) -> Vector:
        """Return the unknowns with the smallest sum of squared residuals, near the first values."""
        with needs("scipy", "a model with constraints"):
            from scipy.optimize import least_squares

        try:
            found = least_squares(
                self.residual, self._begin, x_scale=self._scale, method="lm", xtol=1e-15, ftol=1e-15
            )
        except ValueError:  # a residual that is not finite
            return self._begin
        out: Vector = found.x
        return out

    def _said(self, y: Vector) -> str:
        return ", ".join(f"{n} = {v:g}" for n, v in zip(self._names, y, strict=True))
