"""What the equations look like where a solver gave up: a jump, a pole, an edge, or stiffness.

Each finding rests on values of the derivative that were computed there: a jump, a pole or an edge
is found between two points that are next to each other, and stiffness by a stiff solver that is
much faster from the same state.  Without such a finding, nothing is said.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.core.signals import Vector
from rtsim.equations.consistency import trouble as no_solution
from rtsim.equations.model import BoundModel
from rtsim.solve.adaptive import StepTolerance
from rtsim.solve.base import Stall
from rtsim.solve.exploring import Change, Explored, Slope, explore, slope_of

_MUCH = 20.0
"""Equations are stiff if a stiff solver covers this multiple of the time with as many steps."""
_CHANGES = 3
"""Steps with a sudden change are the cause of the trouble if they are at least so many."""
_STIFF_STEPS = 60
_STIFF_STATES = 300
"""The stiff solver is tried on models with at most this number of states."""
_HUGE = 1e290
_RISEN = 1e4
"""Growth of a derivative since the beginning of the advance that can belong to a pole."""
_WITHIN_A_STEP = 0.01
"""Relative growth of a derivative within the shortest possible step that belongs to a pole."""


@dataclass(frozen=True)
class Trouble:
    """An advance that failed.

    ``vectors`` are z, u and p, ``begin`` the time (s) and the state (n,) at which the advance began
    and ``end`` its end (s).  ``tolerance`` is the adaptive solver, or ``None``.
    """

    bound: BoundModel
    vectors: tuple[Vector, ...]
    begin: tuple[float, Vector]
    stall: Stall
    end: float
    tolerance: StepTolerance | None


def what_it_looks_like(trouble: Trouble) -> str:
    """Return what the equations look like at the failed step and what helps, or an empty text."""
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
    """The first change of the kind that most examined steps have; None if few have one."""
    changes = found.changes
    if found.ended or len(changes) < _CHANGES or 4 * len(changes) < found.examined:
        return None
    (kind, state), _ = Counter((c.kind, c.state) for c in changes).most_common(1)[0]
    return next(c for c in changes if (c.kind, c.state) == (kind, state))


def _unsolved(trouble: Trouble, change: Change) -> str:
    """Why the algebraic equations have no solution beyond ``change``, or an empty text."""
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
    """A finding as a sentence; ``name`` is that of the state."""
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
    """Whether a stiff solver covers much more time than ``found`` with as many steps."""
    from scipy.integrate import Radau

    t, x = trouble.stall.t, trouble.stall.x
    if found.ended or x.size > _STIFF_STATES:
        return False
    steps, covered = 0, 0.0
    try:
        rtol = max(tolerance.rtol, 1e-12)
        allowed: Any = atol  # SciPy takes a vector, unlike its type stubs
        solver = Radau(slope, t, x, trouble.end, rtol=rtol, atol=allowed)
        while steps < _STIFF_STEPS and solver.status == "running":
            solver.step()
            steps += 1
        covered = solver.t - t if solver.status != "failed" else 0.0
    except (ValueError, ArithmeticError):  # its linear algebra met values that are not finite
        return False
    least = max(found.covered / found.tried, trouble.stall.length)
    return steps > 0 and covered / steps > _MUCH * least
