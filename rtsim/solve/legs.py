"""The internal steps of a solver between two tags, called legs in code.

The advance from one tag to the next consists of accepted steps, which are called internal steps.  A
fixed-step method takes one internal step; an adaptive method takes as many as its tolerance needs.
Three functions work on internal steps; each runs compiled or as plain Python:

``leg(words, t, rest)`` takes the next internal step, which begins at ``now`` at ``t`` s, lasts
``rest`` s at most, and leaves the state at its end in ``out``; ``retake(words, t, h)`` takes the
last internal step again with the length ``h`` s; ``between(look, part, taken)`` writes the state at
the fraction ``part`` (0 to 1) of the internal step to the array ``y`` of the guard table ``look``
(:mod:`rtsim.solve.look`).

An advance of many internal steps pauses after :data:`MOST_SPENT` evaluations of the derivative and
returns to Python, so that signals and other threads are handled.  The same call continues it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.equations.addresses import matrix_at, vector_at
from rtsim.equations.compiling import in_both
from rtsim.solve.base import PAUSED
from rtsim.solve.look import AT, DONE, NOTES, PHASE, SPENT, TRIED, WAITING

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
    """The elements are explained at :data:`rtsim.solve.look.PHASE`."""
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


def by_weights(look: Any, part: float, taken: float) -> int:
    """Write the dense output of an embedded pair at the fraction ``part`` of an internal step."""
    now, k, dense = vector_at(look, AT.now), matrix_at(look, AT.k), matrix_at(look, AT.dense)
    within(vector_at(look, AT.y), now, k, dense, part, taken)
    return -1


def by_slopes(look: Any, part: float, taken: float) -> int:
    """Write to ``y`` the cubic with the states and slopes at both ends of the internal step."""
    now, out, y = vector_at(look, AT.now), vector_at(look, AT.out), vector_at(look, AT.y)
    slopes = matrix_at(look, AT.slopes)
    rest = 1.0 - part
    for j in range(now.size):
        way = out[j] - now[j]
        bend = (rest - part) * way - rest * taken * slopes[0, j] + part * taken * slopes[1, j]
        y[j] = now[j] + part * (way - rest * bend)
    return -1
