"""What a solver is made of: the functions and arrays of its step and of its internal steps.

The advance from one tag to the next consists of accepted steps, which are called internal steps,
and legs in code.  A fixed-step method takes one internal step; an adaptive method takes as many as
its tolerance needs.  Three functions work on internal steps; each runs compiled or as plain Python:

``leg(words, t, rest)`` takes the next internal step, which begins at ``now`` at ``t`` s, lasts
``rest`` s at most, and leaves the state at its end in ``out``; ``retake(words, t, h)`` takes the
last internal step again with the length ``h`` s; ``between(table, part, taken)`` writes the state
at the fraction ``part`` (0 to 1) of the internal step to the array ``y`` of the guard table
(:mod:`rtsim.solve.guard_table`).

An advance of many internal steps pauses after :data:`MOST_SPENT` evaluations of the derivative and
returns to Python, so that signals and other threads are handled.  The same call continues it.
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
"""Elements of the array ``notes``:

- ``PHASE``: 0 before the first internal step of an advance, 1 after it, :data:`WAITING` while the
  advance is paused.
- ``TAKEN``: length of the internal step (s).
- ``LAST``: 1 if the internal step reaches the end of the advance, else 0.
- ``END``: the time at which the internal step ends (s).
- ``BEGAN``: the time at which the internal step begins (s).
- ``DONE``: length of the complete internal steps of a paused advance (s).
- ``TRIED``: number of internal steps of this advance so far, accepted or rejected.
- ``SPENT``: evaluations of the derivative since the advance began or continued.
- ``WHOLE``: 1 if the solver can repeat an internal step only up to a whole ns, else 0.
"""
NOTES = 9
WAITING = 2.0
"""The value of ``PHASE`` while an advance is paused between two internal steps."""

MOST_SPENT = 2000
"""Evaluations of the derivative after which an advance pauses, at the end of an internal step."""


@dataclass(frozen=True)
class Legs:
    """The functions and arrays for the internal steps of one solver on one plant.

    The functions are all compiled or all plain Python.
    """

    leg: Any
    retake: Any
    between: Any
    words: Any
    """The argument table of ``leg`` and ``retake``."""
    now: Vector
    """The state at which the last internal step began (n,)."""
    compiled: bool
    notes: Vector = field(default_factory=lambda: np.zeros(NOTES))
    """The elements are explained at :data:`PHASE`."""
    k: NDArray[np.float64] | None = None
    """Stages of an embedded pair (s, n); ``None``: ``between`` needs the slopes at both ends."""
    dense: NDArray[np.float64] | None = None
    """Weights of the dense output of an embedded pair (s, d)."""
    begin: Callable[[int], None] = field(default=lambda _: None)
    """A function that is called with the time (ns) at which an advance begins."""


@in_both
def covered(notes: Any) -> float:
    """Begin an advance, or continue a paused one; return the length (s) that it has covered."""
    notes[SPENT] = 0.0
    if notes[PHASE] == WAITING:
        notes[PHASE] = 1.0
        return notes[DONE]  # type: ignore[no-any-return]
    notes[PHASE] = notes[TRIED] = 0.0
    return 0.0


@in_both
def pauses(notes: Any, done: float) -> bool:
    """Return whether the advance, which has covered ``done`` s, pauses now."""
    if notes[SPENT] < MOST_SPENT:
        return False
    notes[PHASE], notes[DONE] = WAITING, done
    return True


def all_steps(words: Any, t: float, h: float) -> int:
    """Take all internal steps from ``t`` s to ``h`` s later; the advance can pause between them."""
    notes = words.notes
    done = covered(notes)
    while True:
        answer = call_step(words.leg, words, t + done, h - done)
        if answer != GOOD or notes[LAST] != 0.0:
            return answer
        done += notes[TAKEN]
        if pauses(notes, done):
            return PAUSED


def nothing() -> None:
    """Do nothing in a pause."""


def to_its_end(
    advance: Callable[[], int],
    notes: Vector,
    interrupt_check: Callable[[], object],
    answer: int = PAUSED,
) -> int:
    """Call ``advance`` until it does not pause, and ``interrupt_check`` in each pause.

    ``answer`` is the result of a call before.  If ``interrupt_check`` raises an error, the advance
    is given up.
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
    """Write to ``y`` (n,) the dense output of an embedded pair.

    The output is the state at the fraction ``part`` (0 to 1) of an internal step.

    ``now`` (n,) is the state at which the internal step of ``taken`` s began; ``k`` (s, n) are its
    stages and ``dense`` (s, d) the weights of :class:`rtsim.solve.base.EmbeddedTableau`.
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
    """Write to ``y`` of a table the state at the fraction ``part`` of an internal step.

    The step leads from ``now`` (n,) to ``out`` (n,).  The state is that of :func:`within`, or for a
    solver without stages ``k`` that of the cubic with the derivatives ``slopes`` at both ends.
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
    ("f", "project", "jacobian", "leg", "retake"),
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
"""The first functions and arrays of every method's argument table, which adds arrays of its own.

- ``f``, ``project``, ``jacobian``: derivative, projection and Jacobian of the model; the last two
  are 0 if the model has none.
- ``leg``, ``retake``: the method's own functions for internal steps, or 0 if it has none.
- ``x``: state at the beginning of the step; ``out``: state at its end.
- ``memory``: the solver memory after the last committed step; ``after``: the solver memory that
  becomes valid once the step is committed.  Zeros mean that nothing is known of earlier steps.
- ``notes``: the present advance of a method with internal steps
  (:data:`PHASE`).
"""


@dataclass(frozen=True)
class Inner:
    """The internal steps of a method that takes several steps to reach a tag.

    ``leg``, ``retake`` and the arrays are those of :class:`Legs`.
    """

    leg: Callable[..., int]
    retake: Callable[..., int]
    now: Vector
    k: NDArray[np.float64] | None = None
    dense: NDArray[np.float64] | None = None


@dataclass(frozen=True)
class Method:
    """The functions and arrays from which :func:`stepper` makes a stepper for one model."""

    step: Callable[..., int]
    layout: Layout
    """:data:`STEP_LAYOUT`, extended by the arrays of ``own``."""
    own: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    """The method's own arrays that are not zeros at first, such as coefficients.  Each of the
    others has the declared shape, by the lengths of these.
    """
    kept: int = 0
    """The number of first elements of the memory that ``Stepper.forget`` does not clear."""
    unbounded: int | None = None
    """Index of the element of the memory that counts steps without an error bound; ``None``: they
    are not counted.
    """
    new_frame: Callable[[Vector], None] | None = None
    """A function that is called with the memory when a solver frame begins."""
    inner: Inner | None = None
    """The method's internal steps; ``None`` if the method reaches each tag in a single step."""
    settle: Callable[[Mapping[str, NDArray[np.float64]]], None] | None = None
    """A function that is called with the arrays of the argument table before it is made."""


def functions_of(bound: BoundModel, leg: Any = 0, retake: Any = 0) -> tuple[Any, ...]:
    """Return the functions of :data:`STEP_LAYOUT` as their addresses, or as plain Python."""
    return bound.derivative.handle, bound.project.handle, bound.jacobian.handle, leg, retake


def model_sizes(bound: BoundModel) -> dict[str, int]:
    """Return the lengths of x, z, u and p and the number of guards, by their names in layouts."""
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
    """Return a step function, compiled for argument tables of one kind."""
    return compile_function(step, (kind, NUMBER, NUMBER), f"solver {step.__module__}")


@in_both
def projected(words: Any, out: Any) -> int:
    """Project the state ``out`` at the end of a step, if the model has a projection.

    Returns :data:`GOOD`, or the index of the first element of ``out`` that is not finite.
    """
    if words.project != 0:
        call_project(words.project, out)
    return first_not_finite(out)
