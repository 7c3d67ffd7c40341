"""A solver's way to a tag, leg by leg, and what is known of the state within a leg.

A leg is a step that a solver has accepted: a fixed-step method takes one up to its end, an adaptive
one as many as its tolerance asks for.  Each is a function of a block, compiled or plain:

``leg(words, t, rest)``
    takes the next one from ``now`` at ``t`` s, ``rest`` s at most, to ``out``;
``retake(words, t, h)``
    takes the last one again, over ``h`` s instead;
``between(look, part, taken)``
    leaves the state at that part of it in the look's ``Y``.
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

PHASE, TAKEN, LAST, END = range(4)
"""In a leg's notes: 0 where the way begins; its length (s); whether it reaches the end of the way;
when it ends (s)."""
NOTES = 4

GUARD, SLOPE, NOW, Z, U, P, OUT, LEG = 0, 1, 2, 4, 6, 8, 10, 12
K, DENSE, Y, SLOPES, DIRECTIONS, HERE, THERE = 14, 16, 18, 20, 22, 24, 26
SIDES, FIRED, G, VISITS, FLIPS, REACHED = 28, 30, 32, 34, 36, 38
"""Places in the block of a look: two functions, then vectors (:mod:`rtsim.solve.guarded`)."""


@dataclass(frozen=True)
class Legs:
    """A solver's legs on the vectors of one plant; all functions compiled, or all plain."""

    leg: Any
    retake: Any
    between: Any
    words: Any
    now: Vector
    """Where the last leg began (n,)."""
    compiled: bool
    notes: Vector = field(default_factory=lambda: np.zeros(NOTES))
    k: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    dense: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    begin: Callable[[int], None] = field(default=lambda _: None)
    """Told where a way begins (ns)."""


@in_both
def within(y: Any, now: Any, k: Any, dense: Any, part: float, taken: float) -> None:
    """``y`` (n,) becomes the dense output of an embedded pair, from the stages ``k`` (s, n)."""
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
    """The dense output of the leg's pair."""
    now, k = vector_at(look, NOW), matrix_at(look, K, vector_at(look, NOW).size)
    dense = matrix_at(look, DENSE, vector_at(look, DENSE).size // k.shape[0])
    within(vector_at(look, Y), now, k, dense, part, taken)
    return -1


def by_slopes(look: Any, part: float, taken: float) -> int:
    """The cubic through both ends of the leg and their slopes (2, n)."""
    now, out, y = vector_at(look, NOW), vector_at(look, OUT), vector_at(look, Y)
    slopes = matrix_at(look, SLOPES, now.size)
    rest = 1.0 - part
    for j in range(now.size):
        way = out[j] - now[j]
        bend = (rest - part) * way - rest * taken * slopes[0, j] + part * taken * slopes[1, j]
        y[j] = now[j] + part * (way - rest * bend)
    return -1
