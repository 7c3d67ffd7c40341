"""Data and functions that all solvers use for their steps.

A solver advances a plant from one tag to the next. A fixed-step method takes one internal step
between two tags, and an adaptive method several. Each solver has three functions for internal
steps, compiled or as plain Python:

- ``internal_step(words, t, rest)`` takes the next internal step. The step begins at time ``t`` (s)
  and is at most ``rest`` s long. ``now`` is the state before the step, and ``out`` the state after
  it.
- ``retake(words, t, h)`` repeats the last internal step with the length ``h`` s.
- ``between(table, part, taken)`` computes the state at the fraction ``part`` (0 to 1) of the
  internal step. The result is stored in the array ``y`` of the guard table
  (``rtsim.solve.guard_table``).

After ``MOST_SPENT`` evaluations of the derivative, ``advance`` returns to Python for a moment.
Python can then run other threads and handle signals. Repeating the same call continues the advance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.equations.addresses import NUMBER, Layout, call_project, call_step
from rtsim.equations.calls import first_not_finite
from rtsim.equations.compiling import Native, compile_function, in_both
from rtsim.equations.model import BoundModel
from rtsim.solve.base import GOOD, PAUSED

PHASE, TAKEN, LAST, END, BEGAN, DONE, TRIED, SPENT, WHOLE = range(9)
"""Elements of the array ``notes``, which describes the present advance:

- ``PHASE``: 0 before the first internal step, 1 after it, :data:`WAITING` during a pause.
- ``TAKEN``: length of the internal step (s).
- ``LAST``: 1 if the internal step reaches the end of the advance, else 0.
- ``END``: time at which the internal step ends (s).
- ``BEGAN``: time at which the internal step begins (s).
- ``DONE``: length of the internal steps completed before a pause (s).
- ``TRIED``: number of internal steps so far, accepted or rejected.
- ``SPENT``: evaluations of the derivative since the advance began or continued.
- ``WHOLE``: 1 if the solver can repeat an internal step only up to a whole ns, else 0.
"""
NOTES = 9
WAITING = 2.0
"""The value of ``PHASE`` while an advance is paused between two internal steps."""

MOST_SPENT = 2000
"""An advance pauses after the internal step in which it reaches this number of evaluations."""


@dataclass(frozen=True)
class InternalSteps:
    """Functions and arrays for the internal steps of one solver on one plant."""

    internal_step: Any
    retake: Any
    between: Any
    words: Any
    """The argument table of ``internal_step`` and ``retake``."""
    now: Vector
    """The state at the beginning of the last internal step, shape (n,)."""
    compiled: bool
    notes: Vector = field(default_factory=lambda: np.zeros(NOTES))
    """:data:`PHASE` explains the elements."""
    k: NDArray[np.float64] | None = None
    """The stages of an embedded pair, shape (s, n), or ``None`` for a cubic as dense output."""
    dense: NDArray[np.float64] | None = None
    begin: Callable[[int], None] = field(default=lambda _: None)
    """Function that is called with the start time (ns) of each advance."""


@in_both
def covered(notes: Any) -> float:
    """Begin or continue an advance; return the completed length (s)."""
    notes[SPENT] = 0.0
    if notes[PHASE] == WAITING:
        notes[PHASE] = 1.0
        return notes[DONE]  # type: ignore[no-any-return]
    notes[PHASE] = notes[TRIED] = 0.0
    return 0.0


@in_both
def pauses(notes: Any, done: float) -> bool:
    """Return whether to pause the advance after ``done`` s."""
    if notes[SPENT] < MOST_SPENT:
        return False
    notes[PHASE], notes[DONE] = WAITING, done
    return True


def all_steps(words: Any, t: float, h: float) -> int:
    """Take all internal steps from ``t`` (s) to ``t + h``, with pauses."""
    notes = words.notes
    done = covered(notes)
    while True:
        answer = call_step(words.internal_step, words, t + done, h - done)
        if answer != GOOD or notes[LAST] != 0.0:
            return answer
        done += notes[TAKEN]
        if pauses(notes, done):
            return PAUSED


def nothing() -> None:
    pass


def to_its_end(
    advance: Callable[[], int],
    notes: Vector,
    interrupt_check: Callable[[], object],
    answer: int = PAUSED,
) -> int:
    """Repeat ``advance`` until it is complete, and return its result.

    The function calls ``interrupt_check`` in each pause. An exception in ``interrupt_check``
    abandons the advance. ``answer`` is the result of an earlier call.
    """
    try:
        while answer == PAUSED:
            interrupt_check()
            answer = advance()
    finally:
        notes[PHASE] = 0.0
    return answer


@in_both
def within(y: Any, now: Any, k: Any, dense: Any, part: float, taken: float) -> None:
    """Store the dense output at a fraction of the step in ``y``.

    The internal step begins at the state ``now`` (n,) and is ``taken`` s long. ``k``, shape (s, n),
    contains its stages, and ``dense``, shape (s, d), the weights of
    :class:`rtsim.solve.base.EmbeddedTableau`.
    """
    stages, degree = dense.shape
    for j in range(now.size):
        y[j] = 0.0
    for i in range(stages):
        weight = 0.0
        for d in range(degree - 1, -1, -1):
            weight = (weight + dense[i, d]) * part
        if weight != 0.0:
            for j in range(now.size):
                y[j] += weight * k[i, j]
    for j in range(now.size):
        y[j] = now[j] + taken * y[j]


@in_both
def dense_output(table: Any, now: Any, out: Any, part: float, taken: float) -> None:
    """Store the state at a fraction (0 to 1) of the internal step in ``table.y``.

    A solver with stages ``k`` uses :func:`within`. Solvers without dense output use a cubic
    polynomial through states and derivatives at both ends.
    """
    y, k, slopes = table.y, table.k, table.slopes
    if k.shape[0] > 0:
        within(y, now, k, table.dense, part, taken)
        return
    rest = 1.0 - part
    for j in range(now.size):
        way = out[j] - now[j]
        bend = (rest - part) * way - rest * taken * slopes[0, j] + part * taken * slopes[1, j]
        y[j] = now[j] + part * (way - rest * bend)


STEP_LAYOUT = Layout(
    "a step",
    ("f", "project", "jacobian", "internal_step", "retake"),
    {
        "x": ("states",),
        "z": ("discrete",),
        "u": ("inputs",),
        "p": ("parameters",),
        "out": ("states",),
        "memory": (0,),
        "after": (0,),
        "notes": (NOTES,),
    },
)
"""Common part of the argument table of every method: its functions and arrays.

- ``f``, ``project``, ``jacobian``: derivative, projection and Jacobian of the model. The last two
  are 0 if the model does not define them.
- ``internal_step``, ``retake``: functions of the method, or 0 for a method without internal steps.
- ``x``, ``out``: state at the beginning and at the end of the step.
- ``memory``: solver memory after the last committed step. Zeros mean that no earlier step is known.
- ``after``: solver memory that replaces ``memory`` when the step is committed.
- ``notes``: data about the present advance (:data:`PHASE`).
"""


@dataclass(frozen=True)
class Inner:
    """Functions and arrays of a method for its internal steps."""

    internal_step: Callable[..., int]
    retake: Callable[..., int]
    now: Vector
    k: NDArray[np.float64] | None = None
    dense: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Method:
    """Functions and arrays from which ``rtsim.solve.resident.stepper`` makes a stepper."""

    step: Callable[..., int]
    layout: Layout
    """:data:`STEP_LAYOUT`, extended by the method's own arrays."""
    own: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """Arrays with initial values other than zero, such as coefficients.  Their lengths determine
    the shapes of the remaining arrays.
    """
    kept: int = 0
    """Number of leading elements of the memory that ``Stepper.forget`` does not clear."""
    unbounded: int | None = None
    """Index of the memory element that counts the steps that ignored the tolerance, or ``None``."""
    new_frame: Callable[[Vector], None] | None = None
    """Function that is called with the memory when a solver frame begins."""
    inner: Inner | None = None
    """The method's internal steps; ``None`` if the method reaches each tag in a single step."""
    settle: Callable[[Mapping[str, NDArray[np.float64]]], None] | None = None
    """Function that receives all arrays before the argument table is created."""


def functions_of(bound: BoundModel, internal_step: Any = 0, retake: Any = 0) -> tuple[Any, ...]:
    """Return the functions in ``STEP_LAYOUT``, or their addresses for a compiled model."""
    return (
        bound.derivative.handle,
        bound.project.handle,
        bound.jacobian.handle,
        internal_step,
        retake,
    )


def model_sizes(bound: BoundModel) -> dict[str, int]:
    """Return the lengths of the model's vectors and the number of guards."""
    model = bound.model
    return {
        "states": model.states.size,
        "discrete": model.discrete.size,
        "inputs": model.inputs.size,
        "parameters": model.parameters.size + (bound.history is not None),
        "guards": len(model.guards),
    }


@cache
def native_step(step: Callable[..., int], kind: str) -> Native:
    return compile_function(step, (kind, NUMBER, NUMBER), f"solver {step.__module__}")


@in_both
def projected(words: Any, out: Any) -> int:
    """Apply the model's projection to the state ``out``.

    Returns :data:`GOOD`, or the index of the first element of ``out`` that is not finite.
    """
    if words.project != 0:
        call_project(words.project, out)
    return first_not_finite(out)
