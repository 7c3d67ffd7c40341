"""Error messages with a diagnosis for failed integrations."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.raised import from_outside
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.equations.constraints import trouble as no_solution
from rtsim.equations.model import BoundModel
from rtsim.solve.adaptive import DP54_TABLEAU, StepTolerance
from rtsim.solve.base import (
    OUT_OF_BUDGET,
    TOO_MANY,
    TOO_SMALL,
    WRONG_JACOBIAN,
    Solver,
    Stall,
    Stepper,
    lower_triangle,
    weights,
)
from rtsim.solve.jacobians import Jacobian

Slope = Callable[[float, Vector], Vector]
"""Function that returns the derivative, shape (n,), at a time (s) and a state of shape (n,)."""
TRIALS = 300
"""Limit on the internal steps of the search, including rejected ones."""
_EXAMINED = 40
"""Limit on the internal steps that are searched for a sudden change of the derivative."""
_NOTED = 0.05
"""A step is searched if its error exceeds this fraction of the tolerance."""
_BISECTIONS = 1100
_BESIDE = 16.0
"""Width of the neighbourhood with which a jump is compared, as a multiple of the jump's width."""
_UNBOUNDED = 1e3
"""A derivative that grows by this factor during the bisection is reported as unbounded."""
_GROWN = 4.0
"""A derivative that becomes infinite is reported as unbounded if it first grew by this factor."""
_LARGEST = 1e300
"""A derivative above this value is reported as an overflow."""


def slope_of(bound: BoundModel, vectors: tuple[Vector, ...]) -> Slope:
    """Return the derivative of a model as a function of time and state.

    ``vectors`` are z, u and p. A division by zero gives infinity, and any other error in the model
    gives nan.
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
    """A time (s), with the state and its derivative (n,) at this time."""

    t: float
    x: Vector
    f: Vector

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.f).all())


Kind = Literal["jump", "pole", "edge", "overflow"]


@dataclass(frozen=True)
class Change:
    """A sudden change of a state's derivative between two points.

    ``kind`` is ``"jump"``, ``"pole"`` for a derivative that grows without bound, or ``"overflow"``
    for one that exceeds the largest floating-point number. ``kind`` is ``"edge"`` for any other
    derivative that is not finite at the second point.
    """

    kind: Kind
    state: int
    before: Point
    behind: Point

    @property
    def size(self) -> float:
        return abs(float(self.behind.f[self.state] - self.before.f[self.state]))


def change_between(slope: Slope, a: Point, b: Point, scale: Vector) -> Change | None:
    """Return the sudden change of the derivative between two points, or ``None``.

    The search halves the line between the points repeatedly, and continues where the derivative
    changes more. A continuous derivative changes less in a shorter interval; a jump keeps its size.
    ``scale``, shape (n,), weights the states.
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
    t, x = 0.5 * (a.t + b.t), 0.5 * (a.x + b.x)
    if any(t == end.t and np.array_equal(x, end.x) for end in (a, b)):
        return None
    return Point(t, x, slope(t, x))


def _beside(slope: Slope, a: Point, b: Point, i: int) -> float:
    found = []
    for end, way in ((a, -_BESIDE), (b, _BESIDE)):
        t, x = end.t + way * (b.t - a.t), end.x + way * (b.x - a.x)
        change = abs(float(slope(t, x)[i] - end.f[i]))
        found.append(change if math.isfinite(change) else math.inf)
    return max(found)


def _edge(slope: Slope, first: Point, a: Point, b: Point) -> Change | None:
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
    """Sudden changes that were found after a failure of the solver."""

    tried: int = 0
    covered: float = 0.0
    stuck: bool = False
    """True if no step was small enough for the tolerance."""
    ended: bool = False
    examined: int = 0
    changes: list[Change] = field(default_factory=list)
    """Sudden changes that explain the error of their step."""
    last: Change | None = None
    """Sudden change in the last step, if no step was small enough."""
    relative: float = 0.0
    """Largest growth of a derivative over the last step, relative to its value."""
    state: int = 0


def explore(
    slope: Slope, begin: tuple[float, Vector], h: float, end: float, rtol: float, atol: Vector
) -> Explored:
    """Search for sudden changes of the derivative after a failure of the solver.

    The search integrates with the method ``dp54`` in at most ``TRIALS`` steps. ``begin`` contains
    the time (s) and the state at the beginning. ``h`` is the length of the first step (s). Only
    steps with an error of at least 5 % of the tolerance are examined.
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
    for point in points[1:]:
        if not np.isfinite(point.x).all():
            return None
        if not point.finite:  # the states of later stages depend on this derivative
            return change_between(slope, points[0], point, scale)
    f = np.array([p.f for p in points])
    i = int(np.argmax((f.max(axis=0) - f.min(axis=0)) / scale))
    ends = sorted((int(np.argmin(f[:, i])), int(np.argmax(f[:, i]))))
    if ends[0] == ends[1]:
        return None
    return change_between(slope, points[ends[0]], points[ends[1]], scale)


def _explains(change: Change, error: float, taken: float, scale: Vector) -> bool:
    if change.kind != "jump" or not math.isfinite(error):
        return True
    return bool(taken * change.size / scale[change.state] >= 2.0 * error * math.sqrt(scale.size))


def _growth(out: Explored, points: list[Point]) -> None:
    first, last = points[0].f, points[-1].f
    if not points[-1].finite:
        return
    relative = np.where(first * last > 0.0, np.abs(last) / np.abs(first) - 1.0, 0.0)
    out.state = int(np.argmax(relative))
    out.relative = float(relative[out.state])


_MUCH = 20.0
"""Equations are reported as stiff if a stiff solver gets this many times as far in as many steps.
"""
_CHANGES = 3
"""Number of sudden changes from which they are reported as the cause."""
_STIFF_STEPS = 60
_STIFF_STATES = 300
_HUGE = 1e290
_RISEN = 1e4
"""A derivative that grows by this factor during the advance indicates a pole."""
_WITHIN_A_STEP = 0.01
"""A derivative that grows by this fraction within the shortest step indicates a pole."""


@dataclass(frozen=True)
class Trouble:
    """A failed advance.

    The advance began at ``begin``, a time (s) and a state (n,), and should have reached ``end``
    (s). ``vectors`` are z, u and p. ``tolerance`` is the solver, or ``None`` if the solver has no
    tolerance.
    """

    bound: BoundModel
    vectors: tuple[Vector, ...]
    begin: tuple[float, Vector]
    stall: Stall
    end: float
    tolerance: StepTolerance | None


def what_it_looks_like(trouble: Trouble) -> str:
    """Return a text with the probable cause and a remedy, or ""."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return _looks(trouble)


def _looks(trouble: Trouble) -> str:
    slope, stall = slope_of(trouble.bound, trouble.vectors), trouble.stall
    t, x = stall.t, stall.x
    if not x.size or not np.isfinite(x).all():
        return ""
    f = slope(t, x)
    if f.tobytes() != slope(t, x).tobytes():
        return (
            "the derivative has other values when it is computed again; it must be a pure function "
            "of its arguments (docs/semantics.md)"
        )
    names = trouble.bound.model.states.columns
    if not np.isfinite(f).all():
        bad = int(np.argmin(np.isfinite(f)))
        return f"the derivative of {names[bad]} is {f[bad]} there; correct the equations"
    tolerance = trouble.tolerance or StepTolerance()
    atol = tolerance.of_states(trouble.bound)
    found = explore(slope, (t, x), stall.length, trouble.end, tolerance.rtol, atol)
    if trouble.tolerance is not None and np.abs(x).max() > _HUGE:
        most = int(np.argmax(np.abs(x)))
        return (
            f"{names[most]} is about to exceed the largest floating-point number, so the equations "
            "are unstable; correct them, or end the run before with a terminal guard"
        )
    if trouble.tolerance is None and found.ended:
        return f"dp54 covers this interval with {found.tried} steps, so the step is too long"
    change = found.last if found.stuck else _most_frequent(found)
    if change is not None:
        return _unsolved(trouble, change) or _told(change, names[change.state])
    grown = np.abs(f) > _RISEN * np.abs(slope(*trouble.begin))
    if found.stuck and found.relative > _WITHIN_A_STEP and grown[found.state]:
        return _pole(names[found.state], t)
    if not tolerance.implicit and _is_stiff(slope, trouble, tolerance, atol, found):
        return (
            "the equations are stiff: from there radau covers more than "
            f'{_MUCH:g} times the time with as many steps; use solver="rodas5p", or "bdf" '
            "for loose tolerances"
        )
    return ""


def _most_frequent(found: Explored) -> Change | None:
    changes = found.changes
    if found.ended or len(changes) < _CHANGES or 4 * len(changes) < found.examined:
        return None
    (kind, state), _ = Counter((c.kind, c.state) for c in changes).most_common(1)[0]
    return next(c for c in changes if (c.kind, c.state) == (kind, state))


def _unsolved(trouble: Trouble, change: Change) -> str:
    origin, behind = trouble.bound.model.origin, change.behind
    if origin is None or change.kind != "edge":
        return ""
    said = no_solution(origin, behind.t, behind.x, *trouble.vectors, started=True)
    return said and f"the algebraic equations have no solution there: {said}"


def _pole(name: str, t: float) -> str:
    return (
        f"the derivative of {name} grows without bound at {t:.9g} s: a pole; correct the "
        "equations, or end the run before it with a terminal guard"
    )


def _told(change: Change, name: str) -> str:
    before, behind = (float(point.f[change.state]) for point in (change.before, change.behind))
    if change.kind == "jump":
        return (
            f"the derivative of {name} jumps from {before:.6g} to {behind:.6g} at "
            f"{change.before.t:.9g} s, a discontinuity that is not a guard; declare it as a guard, "
            "with a mode for a state that stays there (docs/hybrid.md)"
        )
    if change.kind == "pole":
        return _pole(name, change.before.t)
    x = float(change.before.x[change.state])
    if change.kind == "overflow":
        return (
            f"the derivative of {name} exceeds the largest floating-point number beyond "
            f"{change.before.t:.9g} s ({name} = {x:.6g}): the equations are unstable, or their "
            "values need another unit"
        )
    return (
        f"the derivative of {name} is {behind} beyond {change.before.t:.9g} s ({name} = {x:.6g}), "
        "where the equations are not defined; define it there, or declare a guard before"
    )


def _is_stiff(
    slope: Slope, trouble: Trouble, tolerance: StepTolerance, atol: Vector, found: Explored
) -> bool:
    try:
        from scipy.integrate import Radau
    except ImportError:
        return False
    t, x = trouble.stall.t, trouble.stall.x
    if found.ended or x.size > _STIFF_STATES:
        return False
    steps, covered = 0, 0.0
    try:
        rtol = max(tolerance.rtol, 1e-12)
        allowed: Any = atol  # SciPy accepts a vector, unlike its type stubs
        solver = Radau(slope, t, x, trouble.end, rtol=rtol, atol=allowed)
        while steps < _STIFF_STEPS and solver.status == "running":
            solver.step()
            steps += 1
        covered = solver.t - t if solver.status != "failed" else 0.0
    except (ValueError, ArithmeticError):
        return False  # the solver met values that are not finite
    least = max(found.covered / found.tried, trouble.stall.length)
    return steps > 0 and covered / steps > _MUCH * least


_SHOWN = 6


def why_it_failed(
    plant: str,
    bound: BoundModel,
    solver: Solver,
    stepper: Stepper,
    vectors: tuple[Vector, ...],
    ends: tuple[int, int],
    step: object,
    result: int,
) -> ModelError:
    """Return the error for an integration with another result than ``GOOD``.

    Args:
        plant: Name of the plant.
        bound: The plant's model.
        solver: The plant's solver.
        stepper: The stepper that failed.
        vectors: x, z, u, p and out of the advance.
        ends: Times (ns) between which the stepper had to advance.
        step: The plant's step as a text.
        result: The result of ``Stepper.advance``.
    """
    x, out = vectors[0], vectors[-1]
    name, within = (
        f"{plant} (model {bound.model.name})",
        f"between {Tag(ends[0])} and {Tag(ends[1])}",
    )
    if result == OUT_OF_BUDGET:
        return ModelError(
            f"{solver.name} used up its budget of evaluations for {name} {within}; allow more "
            'evaluations, a larger tolerance, a shorter step, or fallback="step"'
        )
    stall: Stall | None = getattr(stepper, "stall", lambda: None)()
    t, end = (ns / NS_PER_S for ns in ends)
    tolerance = solver if isinstance(solver, StepTolerance) else None
    trouble = Trouble(bound, vectors[1:4], (t, x), stall or Stall(t, end - t, x, 1), end, tolerance)
    if result == WRONG_JACOBIAN and tolerance is not None:
        return _disagreement(trouble, tolerance, name)
    looks = what_it_looks_like(trouble)
    if result == TOO_SMALL:
        said = (
            f"{solver.name} found no step that is small enough for the tolerance of {name} {within}"
        )
        rest = "allow a larger tolerance, use a stiff solver, or correct the equations"
    elif result == TOO_MANY:
        most = "" if tolerance is None else f" (most_steps = {tolerance.most_steps})"
        said = f"{solver.name} took too many steps{most} for {name} {within}"
        kinds = "discontinuity, stiffness or pole"
        if find_spec("scipy") is None:  # _is_stiff needs SciPy
            kinds = "discontinuity or pole (pip install 'rtsim[scipy]' looks for stiffness too)"
        rest = (
            f"no {kinds} was found in the next steps from there, which "
            "does not exclude them; if the solution varies as fast "
        )
        rest += "as that, allow more steps (most_steps) or give the plant a shorter step"
    else:
        said = _not_finite(bound, result, name, within, x, out)
        smaller = "" if tolerance else f"use a smaller step than {step}, or "
        rest = f"{smaller}correct the equations"
    where = "" if stall is None else f"; {_place(bound, stall, result)}"
    return ModelError(f"{said}{where}; {looks or rest}")


def _disagreement(trouble: Trouble, tolerance: StepTolerance, name: str) -> ModelError:
    bound, (t, x) = trouble.bound, (trouble.stall.t, trouble.stall.x)
    matrix = Jacobian(bound, tolerance.of_states(bound) / tolerance.rtol)
    matrix.bind(*trouble.vectors)
    slope = slope_of(bound, trouble.vectors)
    try:
        if matrix.begin(slope, t, x):
            matrix.at(slope, t, x)
    except ModelError as error:
        return error
    if matrix.declared:
        return ModelError(
            f"the Jacobian that {name} declares disagrees with the difference quotients at "
            f"{t:.9g} s; correct its sparsity or its function jacobian"
        )
    return ModelError(
        f"derivatives of {name} depend at {t:.9g} s on states on which they did not depend at the "
        "initial values; declare the sparsity of the model (docs/sparse.md), or use radau or bdf, "
        "which add such elements"
    )


def _not_finite(bound: BoundModel, bad: int, name: str, within: str, x: Vector, out: Vector) -> str:
    column = bound.model.states.columns[bad]
    if math.isfinite(out[bad]):
        return f"the derivative of state {column} of {name} is not finite {within}"
    return f"state {column} of {name} became {out[bad]} {within}; the last good value is {x[bad]:g}"


def _place(bound: BoundModel, stall: Stall, result: int) -> str:
    columns = bound.model.states.columns
    shown = [f"{c} = {v:.9g}" for c, v in zip(columns[:_SHOWN], stall.x, strict=False)]
    more = ", ..." if len(columns) > _SHOWN else ""
    state = f"{', '.join(shown)}{more}"
    if result == TOO_MANY:
        return f"at {stall.t:.12g} s they are {stall.length:.3g} s long ({state})"
    length = f" of {stall.length:.3g} s" if stall.length else ""
    return f"its step{length} at {stall.t:.12g} s failed ({state})"
