"""Solve equations within bounds, and describe how well they determine the solution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.linear.derivatives import jacobian
from rtsim.linear.state_space import Matrix

_RANK = 1e-7
"""Singular values below this share of the largest count as 0."""
_POLISHINGS = 6


class Equations(Protocol):
    """Equations ``f(v) = 0`` with a name for each."""

    @property
    def labels(self) -> Sequence[str]: ...

    @property
    def names(self) -> Sequence[str]: ...

    def __call__(self, values: Vector) -> Vector: ...


@dataclass(frozen=True)
class Solution:
    """Values (n,), residuals (k,), condition, and the directions (n,) that are undetermined."""

    at: Vector
    residuals: Vector
    condition: float
    free_directions: tuple[Vector, ...]

    @property
    def worst(self) -> float:
        """Return the largest absolute residual."""
        return float(np.max(np.abs(self.residuals), initial=0.0))


def solve(equations: Equations, first: Vector, low: Vector, high: Vector) -> Solution:
    """Return the solution that least squares and Newton's method find from ``first`` (n,).

    The result need not solve the equations: check ``worst``.  Raises :class:`ModelError` for an
    equation that is not finite, or that depends on no unknown.
    """
    from scipy.optimize import least_squares  # slow to load

    start = np.clip(first, low, high)
    scale = np.maximum(1.0, np.abs(start))
    room = np.where(np.isfinite(high - low), high - low, 1.0)
    inside = np.clip(start, low + 1e-9 * room, high - 1e-9 * room)
    _check(equations, equations(inside))
    found = least_squares(
        equations, inside, jac="3-point", bounds=(low, high), x_scale=scale,
        xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=400,
    ).x  # fmt: skip
    found = _polished(equations, np.asarray(found, float), low, high)
    residuals = equations(found).copy()
    slopes = jacobian(equations, found, residuals.size).matrix
    condition, directions = _quality(equations, slopes, found)
    return Solution(found, residuals, condition, directions)


def _check(equations: Equations, values: Vector) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ModelError(
            f"{equations.labels[int(bad[0])]} is {values[bad[0]]} at the start of the search; give "
            "another start: free={name: start}"
        )


def _polished(equations: Equations, at: Vector, low: Vector, high: Vector) -> Vector:
    """Return ``at`` after steps of Newton's method, as long as they reduce the residuals."""
    best, size = at, float(np.max(np.abs(equations(at)), initial=0.0))
    for _ in range(_POLISHINGS):
        if size == 0.0:
            break
        slopes = jacobian(equations, best, len(equations.labels)).matrix
        scale = np.maximum(1.0, np.abs(best))
        step = np.linalg.lstsq(slopes * scale, -equations(best), rcond=_RANK)[0] * scale
        moved = np.clip(best + step, low, high)
        reached = float(np.max(np.abs(equations(moved)), initial=0.0))
        if not reached < size:
            break
        best, size = moved, reached
    return best


def _depends(equations: Equations, at: Vector, row: int) -> bool:
    """Return whether equation ``row`` changes if all unknowns are moved far from ``at``."""
    size = np.maximum(1.0, np.abs(at))
    moved = (equations(at + share * size)[row] for share in (0.37, -0.61))
    return any(float(value) != float(equations(at)[row]) for value in moved)


def _quality(equations: Equations, slopes: Matrix, at: Vector) -> tuple[float, tuple[Vector, ...]]:
    """Return the condition number, and the undetermined directions of the unknowns."""
    scale = np.maximum(1.0, np.abs(at))
    scaled = slopes * scale
    lengths = np.linalg.norm(scaled, axis=1)
    empty = np.flatnonzero(lengths <= 0.0)
    if empty.size:
        label = equations.labels[int(empty[0])]
        value = equations(at)[empty[0]]
        if abs(value) > 1e-12 and _depends(equations, at, int(empty[0])):
            raise ModelError(
                f"no solution: {label} does not fall below {value:.6g} near "
                + ", ".join(f"{n} = {v:.6g}" for n, v in zip(equations.names, at, strict=True))
                + "; start the search elsewhere (free={name: start}), or free another value"
            )
        if abs(value) > 1e-12:
            raise ModelError(
                f"{label} is {value:.6g} whatever the free values ({', '.join(equations.names)}) "
                "are; leave it out of steady=, or free a value on which it depends"
            )
        scaled, lengths = np.delete(scaled, empty, 0), np.delete(lengths, empty)
    if not len(scaled):
        return np.inf, tuple(np.eye(at.size))
    _, sizes, rows = np.linalg.svd(scaled / lengths[:, None])
    full = np.concatenate((sizes, np.zeros(max(0, at.size - sizes.size))))
    directions = tuple(rows[i] * scale for i in range(at.size) if full[i] <= _RANK * sizes[0])
    if sizes[-1] == 0.0:
        return np.inf, directions
    return float(sizes[0] / sizes[-1]), directions
