"""How the guards of a plant move at a tag: their values and their changes over a short interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.equations.addresses import NUMBER, WORDS, call_equation, matrix_at, vector_at
from rtsim.equations.compiling import Native, compile_function
from rtsim.equations.layout import Layout
from rtsim.equations.model import BoundModel
from rtsim.solve.resident import model_sizes

_SHORT = 1e-6
"""Interval (s) over which the slope of a guard is computed."""


_LAYOUT = Layout(
    "slopes of guards",
    ("derivative", "guard"),
    {
        "x": ("states",),
        "z": ("discrete",),
        "u": ("inputs",),
        "p": ("parameters",),
        "slope": ("states",),
        "ahead": ("states",),
        "found": (2, "guards"),
    },
)
_AT = _LAYOUT.at


def resident_moving(words: Any, t: float) -> int:
    """Fill ``found`` with all guards at ``t`` s, and with their change over the next 1e-6 s."""
    x, z = vector_at(words, _AT.x), vector_at(words, _AT.z)
    u, p = vector_at(words, _AT.u), vector_at(words, _AT.p)
    slope, ahead = vector_at(words, _AT.slope), vector_at(words, _AT.ahead)
    found = matrix_at(words, _AT.found)
    call_equation(words[_AT.derivative], t, x, z, u, p, slope)
    call_equation(words[_AT.guard], t, x, z, u, p, found[0])
    for j in range(x.size):
        ahead[j] = x[j] + _SHORT * slope[j]
    call_equation(words[_AT.guard], t + _SHORT, ahead, z, u, p, found[1])
    for i in range(found.shape[1]):
        found[1, i] -= found[0, i]
    return 0


@cache
def _native_moving() -> Native:
    return compile_function(resident_moving, (WORDS, NUMBER), "slopes of guards")


def moving(
    bound: BoundModel, of: tuple[Vector, ...], into: NDArray[np.float64]
) -> Callable[[float], object]:
    """Return a function of t (s) that calls :func:`resident_moving`.

    ``of`` are the vectors x, z, u and p; the function fills the array ``into`` (2, m).
    """
    work = {"slope": np.zeros_like(of[0]), "ahead": np.zeros_like(of[0]), "found": into}
    arrays, sizes = {**dict(zip("xzup", of, strict=True)), **work}, model_sizes(bound)
    if bound.compiled:
        handles = (bound.derivative.handle, bound.guard.handle)
        return _native_moving().on(_LAYOUT.block(handles, arrays, sizes, bound))
    functions = (bound.derivative.call, bound.guard.call)
    return partial(resident_moving, _LAYOUT.plain(functions, arrays, sizes))


class Motion(NamedTuple):
    """The value of one guard, and its change over :data:`_SHORT`, before resets and after them."""

    came: float
    before: float
    at: float
    after: float

    def near(self, level: float) -> bool:
        """Return whether the guard is nearer to ``level`` than its motion within 1 ns."""
        return abs(self.at - level) <= abs(self.after) * (1 / NS_PER_S / _SHORT)

    def goes_on(self, side: float) -> bool:
        """Return whether the guard still moves through zero towards ``side`` after the writes.

        Writes that only change its speed let it complete the crossing for which it fired.
        """
        onward = self.before * side > 0.0 and self.after * side > 0.0
        return (onward or self.before == self.after) and self.near(0.0)


class OwnResets:
    """How guards that fire in one microstep move directly after their own resets.

    The reset of one guard may turn another one back that its own reset had turned away before.
    """

    def __init__(self, bound: BoundModel, vectors: tuple[Vector, ...]) -> None:
        """Look at the guards on copies of ``vectors``, which are x, z, u and p of the plant."""
        self._vectors = tuple(vector.copy() for vector in vectors)
        self._found = np.zeros((2, len(bound.model.guards)))
        self._move = moving(bound, self._vectors, self._found)
        self._known: dict[int, tuple[float, float]] = {}

    def clear(self) -> None:
        """Begin a microstep: no reset has run."""
        self._known.clear()

    def note(self, i: int, t: float, vectors: tuple[Vector, ...], last: bool) -> None:
        """Note how guard ``i`` moves at ``t`` s, after its reset; no reset follows the ``last``."""
        self._known[i] = (math.inf, 0.0)
        if last:
            return
        for kept, vector in zip(self._vectors, vectors, strict=True):
            kept[:] = vector
        self._move(t)
        self._known[i] = (float(self._found[0, i]), float(self._found[1, i]))

    def __contains__(self, i: int) -> bool:
        """Return whether the reset of guard ``i`` ran in this microstep."""
        return i in self._known

    def undone(self, i: int, side: float, motion: Motion) -> bool:
        """Return whether later resets made guard ``i`` move towards ``side`` again."""
        level, change = self._known[i]
        return side != 0.0 and change * side <= 0.0 and motion.near(level)
