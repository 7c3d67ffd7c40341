"""Errors of a plant's step: what happened, where, and what it looks like."""

from __future__ import annotations

import math

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.equations.model import BoundModel
from rtsim.solve.adaptive import StepTolerance
from rtsim.solve.base import (
    OUT_OF_BUDGET,
    TOO_MANY,
    TOO_SMALL,
    WRONG_JACOBIAN,
    Solver,
    Stall,
    Stepper,
)
from rtsim.solve.diagnosis import Trouble, what_it_looks_like
from rtsim.solve.exploring import slope_of
from rtsim.solve.jacobians import Jacobian

_SHOWN = 6
"""A message shows at most this many states."""


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
    """Return the error for a ``result`` of ``Stepper.advance`` that is not ``GOOD``.

    ``plant`` is the plant's name, ``vectors`` are x, z, u, p and out of the advance, and ``ends``
    the times (ns) between which it was to advance; ``step`` is the plant's step as a text.
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
        rest = (
            "no discontinuity, stiffness or pole was found in the next steps from there, which "
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
    """Return the error for a Jacobian that disagrees with the derivative at the failed step."""
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
    """The time, the state and the length of the internal step that failed."""
    columns = bound.model.states.columns
    shown = [f"{c} = {v:.9g}" for c, v in zip(columns[:_SHOWN], stall.x, strict=False)]
    more = ", ..." if len(columns) > _SHOWN else ""
    state = f"{', '.join(shown)}{more}"
    if result == TOO_MANY:
        return f"at {stall.t:.12g} s they are {stall.length:.3g} s long ({state})"
    length = f" of {stall.length:.3g} s" if stall.length else ""
    return f"its step{length} at {stall.t:.12g} s failed ({state})"
