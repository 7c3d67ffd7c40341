"""Zero crossings of a plant's guards: that a step has one, when it is, and when they accumulate.

Each step is looked at from outside, whatever the solver: a guard is seen as the cubic that has
its values and slopes at both ends, so that one that crosses zero twice within a step is seen too.
Where that may cross, the step is taken again up to other ends until the first ns is found at which
the guard has crossed: the state at an event is the solver's own, and nothing is interpolated.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from scipy.optimize import brentq

from rtsim.compiling import (
    WORDS,
    Block,
    call_equation,
    compile_function,
    in_both,
    vector_at,
)
from rtsim.errors import ModelError, ZenoError
from rtsim.model import BoundModel
from rtsim.signals import Vector
from rtsim.tag import NS_PER_S, Tag

ZENO_NS = 100
"""Crossings of one guard closer than this, and ever closer, are said to accumulate."""
ZENO_IN_A_ROW = 4
_PROBE = 1e-5
"""Part of a step over which a guard's slope is taken."""

Take = Callable[[int], Vector]
"""The state to which the step under way comes at a time (ns)."""


@in_both
def may_cross(
    f: Any, guard: Any, t: float, h: float, x: Any, z: Any, u: Any, p: Any, end: Any,
    directions: Any, g: Any, k: Any, y: Any,
) -> bool:  # fmt: skip
    """Whether a guard may cross zero on the way from ``x`` (n,) at ``t`` to ``end``, ``h`` s later.

    ``g`` (4, m): values at both ends, then slopes times ``h``; ``k``, ``y`` (n,) are work.
    """
    n, m = x.size, directions.size
    call_equation(guard, t, x, z, u, p, g[0])
    call_equation(guard, t + h, end, z, u, p, g[1])
    small = _PROBE * h
    call_equation(f, t, x, z, u, p, k)
    for j in range(n):
        y[j] = x[j] + small * k[j]
    call_equation(guard, t + small, y, z, u, p, g[2])
    call_equation(f, t + h, end, z, u, p, k)
    for j in range(n):
        y[j] = end[j] - small * k[j]
    call_equation(guard, t + h - small, y, z, u, p, g[3])
    for i in range(m):
        before, behind = g[0, i], g[1, i]
        first, last = (g[2, i] - before) / _PROBE, (behind - g[3, i]) / _PROBE
        side = before if before != 0.0 else first if first != 0.0 else behind
        if side == 0.0:
            continue
        if before == 0.0 and side * directions[i] > 0.0:
            return True
        if behind == 0.0 or (side > 0.0) != (behind > 0.0):
            return True
        # slope of the cubic: first + 2 b s + 3 a s^2
        a = first + last - 2.0 * (behind - before)
        b = 3.0 * (behind - before) - 2.0 * first - last
        root = b * b - 3.0 * a * first
        if root <= 0.0:
            continue
        for sign in (-1.0, 1.0):
            low = -b + sign * math.sqrt(root)
            if low == 0.0 or a == 0.0:
                s = -first / (2.0 * b) if b != 0.0 else -1.0
            else:
                s = low / (3.0 * a)
            if 0.0 < s < 1.0:
                value = before + s * (first + s * (b + s * a))
                if (value > 0.0) != (side > 0.0):
                    return True
    return False


def resident_may_cross(words: Any, t: float, h: float) -> bool:
    """:func:`may_cross` on a block: f, guard, then x, z, u, p, end, directions, g, k, y."""
    x, directions = vector_at(words, 2), vector_at(words, 12)
    g = vector_at(words, 14)
    return may_cross(
        words[0],
        words[1],
        t,
        h,
        x,
        vector_at(words, 4),
        vector_at(words, 6),
        vector_at(words, 8),
        vector_at(words, 10),
        directions,
        g.reshape((4, directions.size)),
        vector_at(words, 16),
        vector_at(words, 18),
    )


class Watch:
    """The guards of one plant: where the next one crosses, and what they did last."""

    def __init__(
        self, name: str, bound: BoundModel, vectors: tuple[Vector, ...], end: Vector
    ) -> None:
        """``vectors``: x, z, u, p of the plant; ``end``: where its provisional step comes out."""
        guards = bound.model.guards
        n, m = bound.model.states.size, len(guards)
        self._name, self._bound, self._guards = name, bound, guards
        self._vectors, self._end = vectors, end
        self._directions = np.array([float(g.direction) for g in guards])
        self._g, self._k, self._y = np.zeros((4, m)), np.zeros(n), np.zeros(n)
        self.fired: tuple[int, ...] = ()
        """Guards that cross zero at the end of the provisional step."""
        self._sides = np.zeros(m)
        """On which side of zero each is after what happened last."""
        self._times: list[deque[int]] = [deque(maxlen=ZENO_IN_A_ROW + 1) for _ in guards]
        """When each fired, the latest ones."""
        self.words = np.zeros(0, dtype=np.int64)
        if bound.compiled:
            handles = (bound.derivative.handle, bound.guard.handle)
            arrays = (*vectors, end, self._directions, self._g, self._k, self._y)
            self.words = Block.of(handles, arrays).words
            signature = (WORDS, types.float64, types.float64)
            self._look = compile_function(resident_may_cross, signature, "guards").call

    # -- within a step

    def may_cross(self, from_ns: int, to_ns: int) -> bool:
        """Whether a guard may cross on the provisional step."""
        t, h = from_ns / NS_PER_S, (to_ns - from_ns) / NS_PER_S
        if self._bound.compiled:
            return bool(self._look(self.words, t, h))
        f, guard = self._bound.derivative.handle, self._bound.guard.handle
        x, z, u, p = self._vectors
        g, k, y = self._g, self._k, self._y
        return may_cross(f, guard, t, h, x, z, u, p, self._end, self._directions, g, k, y)

    def first(self, from_ns: int, to_ns: int, take: Take) -> int | None:
        """The first ns in which a guard has crossed, and :attr:`fired` then; ``None``: in none.

        ``take`` makes the step end elsewhere; it is left where it last was.
        """
        found: dict[int, list[int]] = {}
        for i in range(len(self._guards)):
            ns = self._crossing(i, from_ns, to_ns, take)
            if ns is not None:
                found.setdefault(ns, []).append(i)
        if not found:
            self.fired = ()
            return None
        first = min(found)
        self.fired = tuple(found[first])
        return first

    def _value(self, i: int, ns: int, x: Vector) -> float:
        g = np.empty(len(self._guards))
        self._bound.guard.call(ns / NS_PER_S, x, *self._vectors[1:], g)
        return float(g[i])

    def _crossing(self, i: int, from_ns: int, to_ns: int, take: Take) -> int | None:
        direction = self._guards[i].direction

        def value(ns: int) -> float:
            return self._value(i, ns, self._vectors[0] if ns == from_ns else take(ns))

        side, last = _sign(value(from_ns)), from_ns
        if side == 0.0 and direction and _sign(value(from_ns + 1)) == direction:
            return from_ns + 1
        for ns in self._looked_at(i, from_ns, to_ns):
            here = _sign(value(ns))
            if side and here != side and direction in (0, -side):
                if here:
                    return _first_on(here, last, ns, value)
                if ns == to_ns:
                    return ns  # at zero, to the ns
                continue
            side, last = here or side, ns
        return None

    def _looked_at(self, i: int, from_ns: int, to_ns: int) -> list[int]:
        """The ends of the pieces in which the cubic of guard ``i`` rises or falls throughout."""
        before, behind = self._g[0, i], self._g[1, i]
        first, last = (self._g[2, i] - before) / _PROBE, (behind - self._g[3, i]) / _PROBE
        a = first + last - 2.0 * (behind - before)
        b = 3.0 * (behind - before) - 2.0 * first - last
        roots: Any = np.roots([3.0 * a, 2.0 * b, first]) if np.isfinite([a, b]).all() else []
        inside = {
            from_ns + round(float(r.real) * (to_ns - from_ns))
            for r in roots
            if abs(r.imag) < 1e-9 and 0.0 < r.real < 1.0
        }
        return sorted({ns for ns in inside if from_ns < ns < to_ns} | {to_ns})

    # -- when they fire

    def fire(self, ns: int, x: Vector, z: Vector, u: Vector, p: Vector) -> list[tuple[str, str]]:
        """Resets, in the guards' order, in place on ``x`` and ``z``; what happened, in words.

        Raises :class:`ZenoError` where crossings accumulate and the model has no stop mode.
        """
        happened = []
        for i in self.fired:
            self._times[i].append(ns)
            name = self._guards[i].name
            if self._accumulate(i):
                self._times[i].clear()
                self._stop(i, ns, x, z, u, p)
                happened.append(("Stopped", name))
            else:
                self._bound.reset.call(i, ns / NS_PER_S, x, z, u, p)
                happened.append(("Crossed", name))
            self._check(name, ns, x, z)
        self.fired = ()
        return happened

    @property
    def terminal(self) -> str:
        """Name of the guard that fires now and ends the run; empty where none does."""
        return next((self._guards[i].name for i in self.fired if self._guards[i].terminal), "")

    def begin(self) -> None:
        """Inputs are wired, and time begins: nothing has crossed yet."""
        self.note(0)
        self.fired = ()

    def note(self, ns: int) -> None:
        """After a commit: on which side of zero each guard is, for :meth:`changed`."""
        self._sides = self._sides_at(ns)

    def changed(self, ns: int) -> None:
        """After writes at ``ns``: guards that they took across zero fire in the next microstep."""
        now = self._sides_at(ns)
        before, self._sides = self._sides, now
        crossed = {
            i
            for i, guard in enumerate(self._guards)
            if before[i] * now[i] < 0 and guard.direction in (0, now[i])
        }
        self.fired = tuple(sorted(crossed.union(self.fired)))

    def _sides_at(self, ns: int) -> Vector:
        g = np.empty(len(self._guards))
        self._bound.guard.call(ns / NS_PER_S, *self._vectors, g)
        return np.sign(g)

    def _accumulate(self, i: int) -> bool:
        times = self._times[i]
        if len(times) <= ZENO_IN_A_ROW:
            return False
        gaps = np.diff(times)
        return bool(gaps[0] < ZENO_NS and (np.diff(gaps) <= 0).all())  # of whole ns

    def _stop(self, i: int, ns: int, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
        if self._bound.model.stop is None:
            raise ZenoError(
                f"guard {self._guards[i].name} of {self._name} (model {self._bound.model.name}) "
                f"crosses zero ever faster at {Tag(ns)} (Zeno): give the model a stop mode, "
                "stop(i, t, x, z, u, p), that says what it comes to"
            )
        self._bound.stop.call(i, ns / NS_PER_S, x, z, u, p)

    def _check(self, name: str, ns: int, x: Vector, z: Vector) -> None:
        model = self._bound.model
        for signals, vector in ((model.states, x), (model.discrete, z)):
            bad = np.flatnonzero(~np.isfinite(vector))
            if bad.size:
                raise ModelError(
                    f"reset of {self._name} (model {model.name}) made {signals.columns[bad[0]]} "
                    f"not finite at {Tag(ns)}, when {name} crossed zero; mend the reset"
                )

    def save(self) -> dict[str, Any]:
        return {"times": [list(times) for times in self._times]}

    def restore(self, saved: dict[str, Any], ns: int) -> None:
        """The plant's vectors are those of ``ns`` again."""
        for times, said in zip(self._times, saved["times"], strict=True):
            times.clear()
            times.extend(said)
        self.note(ns)
        self.fired = ()


def _sign(value: float) -> float:
    return float(np.sign(value))


def _first_on(side: float, low: int, high: int, value: Callable[[int], float]) -> int:
    """The first ns in (low, high] at which the guard is on ``side``, where it is at ``high``."""

    def at(offset: float) -> float:
        return value(low + round(offset))

    if high - low > 2:
        root = low + round(brentq(at, 0.0, float(high - low), xtol=0.5))
        for ns in (root - 1, root, root + 1):  # within half a ns of it
            if low < ns < high and _sign(value(ns)) == side and _sign(value(ns - 1)) != side:
                return ns
    while high - low > 1:
        middle = (low + high) // 2
        if _sign(value(middle)) == side:
            high = middle
        else:
            low = middle
    return high
