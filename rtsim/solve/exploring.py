"""A look at the derivative around an internal step that a solver could not take.

The functions run once, after a solver gave up, as plain Python.  They do not change the plant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from rtsim.core.raised import from_outside
from rtsim.core.signals import Vector
from rtsim.equations.model import BoundModel
from rtsim.solve.base import lower_triangle, weights
from rtsim.solve.embedded import DP54_TABLEAU

Slope = Callable[[float, Vector], Vector]
"""The derivative (n,) at a time (s) and a state (n,), with the plant's inputs and parameters."""
TRIALS = 300
"""Internal steps that are tried, rejected ones included."""
_EXAMINED = 40
"""Internal steps that are searched for a change of the derivative."""
_NOTED = 0.05
"""A step is searched if its error is at least this part of the tolerance."""
_BISECTIONS = 1100
_BESIDE = 16.0
"""A jump is compared with the change of the derivative over this multiple of its width beside it.
"""
_UNBOUNDED = 1e3
"""The derivative is unbounded if it grows by this factor while its points are bisected."""
_GROWN = 4.0
"""A derivative that is infinite at a point is unbounded if it has grown by this factor before."""
_LARGEST = 1e300
"""A larger derivative is about to exceed the largest floating-point number."""


def slope_of(bound: BoundModel, vectors: tuple[Vector, ...]) -> Slope:
    """Return the derivative of a model with the discrete signals, inputs and parameters z, u, p.

    If the model divides by zero, the derivative is infinite; if it raises another error, nan.
    """
    at, out = np.zeros(bound.model.states.size), np.zeros(bound.model.states.size)
    derivative = bound.derivative.on(at, *(v.copy() for v in vectors), out)

    def slope(t: float, x: Vector) -> Vector:
        at[:] = x
        try:
            derivative(float(t))
        except ZeroDivisionError:
            out.fill(np.inf)
        except BaseException as error:
            if from_outside(error):
                raise
            out.fill(np.nan)
        return out.copy()

    return slope


@dataclass(frozen=True)
class Point:
    """A time (s), a state (n,) and the derivative there (n,)."""

    t: float
    x: Vector
    f: Vector

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.f).all())


Kind = Literal["jump", "pole", "edge", "overflow"]


@dataclass(frozen=True)
class Change:
    """A change of the derivative of one state between two points that are next to each other.

    ``kind``: the derivative jumps, grows without bound, is nan beyond the first point, or exceeds
    the largest floating-point number there.
    """

    kind: Kind
    state: int
    before: Point
    behind: Point

    @property
    def size(self) -> float:
        return abs(float(self.behind.f[self.state] - self.before.f[self.state]))


def change_between(slope: Slope, a: Point, b: Point, scale: Vector) -> Change | None:
    """Return the sudden change of the derivative on the line from ``a`` to ``b``, if there is one.

    The search halves the line again and again, and keeps the half with the larger change of the
    derivative of one state.  ``scale`` (n,) weights the states.  A continuous derivative changes
    less on each half, until rounding hides it; it is no sudden change, however steep it is.
    """
    first = a
    if not b.finite:
        return _edge(slope, first, a, b)
    i = int(np.argmax(np.abs(b.f - a.f) / scale))
    before = max(abs(float(a.f[i])), abs(float(b.f[i])))
    for _ in range(_BISECTIONS):
        m = _middle(slope, a, b)
        if m is None:
            break
        if not m.finite:
            return _edge(slope, first, a, m)
        if abs(m.f[i] - a.f[i]) >= abs(b.f[i] - m.f[i]):
            b = m
        else:
            a = m
    gap = abs(float(b.f[i] - a.f[i]))
    if max(abs(float(a.f[i])), abs(float(b.f[i]))) > _UNBOUNDED * before:
        return Change("pole", i, a, b)
    return Change("jump", i, a, b) if _beside(slope, a, b, i) <= gap / 4 and gap > 0 else None


def _middle(slope: Slope, a: Point, b: Point) -> Point | None:
    """The point between ``a`` and ``b``; None if no number lies between them."""
    t, x = 0.5 * (a.t + b.t), 0.5 * (a.x + b.x)
    if any(t == end.t and np.array_equal(x, end.x) for end in (a, b)):
        return None
    return Point(t, x, slope(t, x))


def _beside(slope: Slope, a: Point, b: Point, i: int) -> float:
    """The largest change of derivative ``i`` on the line on both sides of ``a`` and ``b``."""
    found = []
    for end, way in ((a, -_BESIDE), (b, _BESIDE)):
        t, x = end.t + way * (b.t - a.t), end.x + way * (b.x - a.x)
        change = abs(float(slope(t, x)[i] - end.f[i]))
        found.append(change if math.isfinite(change) else math.inf)
    return max(found)


def _edge(slope: Slope, first: Point, a: Point, b: Point) -> Change | None:
    """The place at which the derivative stops to be finite between ``a`` and ``b``.

    ``first`` is the point at which the search began.
    """
    if not a.finite:
        return None
    for _ in range(_BISECTIONS):
        m = _middle(slope, a, b)
        if m is None:
            break
        a, b = (m, b) if m.finite else (a, m)
    i = int(np.argmin(np.isfinite(b.f)))
    begin, end = abs(float(first.f[i])), abs(float(a.f[i]))
    kind: Kind = "edge"
    if end > _UNBOUNDED * max(begin, 1e-300):
        kind = "pole"
    elif end > _LARGEST:
        kind = "overflow"
    elif np.isinf(b.f[i]) and end > _GROWN * begin:
        kind = "pole"
    return Change(kind, i, a, b)


@dataclass
class Explored:
    """The steps of a Runge-Kutta pair from the point at which a solver gave up."""

    tried: int = 0
    covered: float = 0.0
    """Length of the accepted steps (s)."""
    stuck: bool = False
    """True if no step was small enough for the tolerance."""
    ended: bool = False
    """True if the end of the interval was reached."""
    examined: int = 0
    changes: list[Change] = field(default_factory=list)
    """The sudden changes in the examined steps that explain the error of their step."""
    last: Change | None = None
    """The sudden change in the last step, if no step was small enough."""
    relative: float = 0.0
    """Largest relative growth of a derivative over the last step that was tried."""
    state: int = 0
    """The state of that derivative."""


def explore(
    slope: Slope, begin: tuple[float, Vector], h: float, end: float, rtol: float, atol: Vector
) -> Explored:
    """Take up to :data:`TRIALS` steps of ``dp54`` from ``begin``, a time and a state.

    ``h`` is the length of the first step (s).  The steps that the tolerance limits are searched for
    sudden changes of the derivative.
    """
    table, out = DP54_TABLEAU, Explored()
    a, c = lower_triangle(table.a), weights(table.c)
    off = weights(tuple(b - hat for b, hat in zip(table.b, table.hat, strict=True)))
    t, x = begin
    f = slope(t, x)
    while out.tried < TRIALS and not (out.stuck or out.ended):
        out.tried += 1
        smallest = 16 * 2.3e-16 * max(abs(t), abs(end))
        h = max(h, smallest)
        last = 1.01 * h >= end - t
        taken = end - t if last else h
        points = [Point(t, x, f)]
        for i in range(1, len(c)):
            y = x + (taken * a[i, :i]) @ np.array([p.f for p in points])
            at = t + c[i] * taken
            points.append(Point(at, y, slope(at, y)))
        size = np.maximum(np.abs(x), np.abs(points[-1].x))
        scale = atol + rtol * np.where(np.isfinite(size), size, np.abs(x))
        wrong = (taken * off) @ np.array([p.f for p in points]) / scale
        error = math.sqrt(float(np.mean(wrong**2)))
        _growth(out, points)
        if not error < _NOTED and out.examined < _EXAMINED:
            out.examined += 1
            change = _sudden(slope, points, scale)
            if change is not None and _explains(change, error, taken, scale):
                out.changes.append(change)
        factor = 10.0 if error == 0.0 else 0.2 if not math.isfinite(error) else 0.9 * error**-0.2
        factor = min(10.0, max(0.2, factor))
        if error <= 1.0:
            t, x, f = t + taken, points[-1].x, points[-1].f
            out.covered += taken
            out.ended = last
        else:
            factor = min(1.0, factor)
            out.stuck = taken * factor < smallest
            out.last = _sudden(slope, points, scale) if out.stuck else None
        h = taken * factor
    return out


def _sudden(slope: Slope, points: list[Point], scale: Vector) -> Change | None:
    """The sudden change between the two stages whose derivatives differ most."""
    for point in points[1:]:
        if not np.isfinite(point.x).all():
            return None
        if not point.finite:  # the states of later stages follow from this one
            return change_between(slope, points[0], point, scale)
    f = np.array([p.f for p in points])
    i = int(np.argmax((f.max(axis=0) - f.min(axis=0)) / scale))
    ends = sorted((int(np.argmin(f[:, i])), int(np.argmax(f[:, i]))))
    if ends[0] == ends[1]:
        return None
    return change_between(slope, points[ends[0]], points[ends[1]], scale)


def _explains(change: Change, error: float, taken: float, scale: Vector) -> bool:
    """Whether a change is large enough to be the cause of the error of its step.

    The weights of the error estimate add up to less than 1/2.
    """
    if change.kind != "jump" or not math.isfinite(error):
        return True
    return bool(taken * change.size / scale[change.state] >= 2.0 * error * math.sqrt(scale.size))


def _growth(out: Explored, points: list[Point]) -> None:
    """Note the derivative that grows most over the step, relative to its size."""
    first, last = points[0].f, points[-1].f
    if not points[-1].finite:
        return
    relative = np.where(first * last > 0.0, np.abs(last) / np.abs(first) - 1.0, 0.0)
    out.state = int(np.argmax(relative))
    out.relative = float(relative[out.state])
