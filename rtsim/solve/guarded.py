"""A way to a tag that ends where a guard crosses zero: one source for compiled and plain solvers.

Each leg is looked at on the solver's dense output; where a guard flips there, the first ns is found
at which the guard has crossed on the leg itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.equations.addresses import (
    INTEGER,
    MATRIX,
    VECTOR,
    WORDS,
    AddressBlock,
    call_equation,
    call_step,
    matrix_at,
    plain_block,
    vector_at,
)
from rtsim.equations.compiling import Native, compile_function, compiled, evaluate, in_both
from rtsim.equations.model import BoundModel
from rtsim.solve.base import GOOD, Stepper
from rtsim.solve.flips import (
    CAME_TO,
    KNOWN,
    LEFT_AT,
    LEVEL,
    POINTS,
    ROWS,
    SIDE,
    SIGN,
    find_flips,
    sign,
)
from rtsim.solve.legs import (
    DIRECTIONS,
    END,
    FIRED,
    FLIPS,
    GUARD,
    HERE,
    LAST,
    LEG,
    NOW,
    OUT,
    PHASE,
    REACHED,
    SIDES,
    SLOPE,
    SLOPES,
    TAKEN,
    THERE,
    G,
    K,
    Legs,
    P,
    U,
    Z,
    by_slopes,
)
from rtsim.solve.locating import locate
from rtsim.solve.resident import AFTER, MEMORY, X

_evaluate = compiled(evaluate)


@in_both
def conclude(look: Any, ns: int, offset: int) -> None:
    """What the guards are at the end of the way, ``offset`` ns from where it began."""
    m = vector_at(look, DIRECTIONS).size
    g, there = matrix_at(look, G, m)[POINTS], matrix_at(look, THERE, m)
    left_at = matrix_at(look, HERE, m)[LEFT_AT]
    flips, fired = matrix_at(look, FLIPS, m), vector_at(look, FIRED)
    z, u, p = vector_at(look, Z), vector_at(look, U), vector_at(look, P)
    call_equation(look[GUARD], ns / NS_PER_S, vector_at(look, OUT), z, u, p, g)
    for i in range(m):
        there[SIGN, i] = sign(g[i])
        there[CAME_TO, i] = flips[SIDE, i] if fired[i] != 0.0 and g[i] == 0.0 else 0.0
        there[LEFT_AT, i] = left_at[i] if left_at[i] * g[i] > 0.0 else 0.0
        if fired[i] != 0.0:
            there[LEFT_AT, i] = flips[LEVEL, i]
    vector_at(look, REACHED)[0] = offset


@in_both
def drive(
    leg: Any, retake: Any, between: Any, words: Any, look: Any, from_ns: int, to_ns: int
) -> int:  # fmt: skip
    """Legs up to ``to_ns``, or to where a guard crosses: how a step answers."""
    notes, directions = vector_at(look, LEG), vector_at(look, DIRECTIONS)
    sides, fired, m = vector_at(look, SIDES), vector_at(look, FIRED), directions.size
    here, rows = matrix_at(look, HERE, m), matrix_at(look, G, m)
    now, out = vector_at(look, NOW), vector_at(look, OUT)
    z, u, p = vector_at(look, Z), vector_at(look, U), vector_at(look, P)
    slopes, cubic = matrix_at(look, SLOPES, now.size), vector_at(look, K).size == 0
    for i in range(m):
        fired[i] = 0.0
        sides[i] = here[SIGN, i]
        if sides[i] == 0.0:  # it fires where it leaves zero in its direction, unless it has
            sides[i] = here[CAME_TO, i] if here[CAME_TO, i] != 0.0 else -directions[i]
    t, h, done = from_ns / NS_PER_S, (to_ns - from_ns) / NS_PER_S, 0.0
    notes[PHASE] = 0.0
    while True:
        notes[TAKEN], notes[LAST] = h - done, 1.0
        answer = call_step(leg, words, t + done, h - done)
        if answer != GOOD:
            return answer
        taken, last = notes[TAKEN], notes[LAST] != 0.0
        notes[END] = to_ns / NS_PER_S if last else t + done + taken
        if cubic:
            call_equation(look[SLOPE], t + done, now, z, u, p, slopes[0])
            call_equation(look[SLOPE], notes[END], out, z, u, p, slopes[1])
        if find_flips(between, look, t + done, taken, last) > 0:
            ns = locate(retake, words, look, from_ns, done, to_ns)
            if ns > from_ns:
                conclude(look, ns, ns - from_ns)
                return GOOD
            for i in range(m):
                end = sign(rows[POINTS - 1, i])
                sides[i] = end if end != 0.0 else sides[i]
        if last:
            conclude(look, to_ns, to_ns - from_ns)
            return GOOD
        done += taken


def resident_drive(
    leg: Any, retake: Any, between: Any, words: Any, look: Any, from_ns: int, to_ns: int
) -> int:  # fmt: skip
    """:func:`drive`, to be called from Python."""
    return drive(leg, retake, between, words, look, from_ns, to_ns)


def resident_drive_on(
    leg: Any, retake: Any, between: Any, words: Any, look: Any, output: Any, times: Any,
    values: Any, rows: Any,
) -> int:  # fmt: skip
    """As :func:`rtsim.solve.resident.resident_run`, up to the first way that is not a whole one.

    That one is left as it is, to be committed or told of.
    """
    x, out, reached = vector_at(words, X), vector_at(words, OUT), vector_at(look, REACHED)
    memory, after = vector_at(words, MEMORY), vector_at(words, AFTER)
    here, there = vector_at(look, HERE), vector_at(look, THERE)
    for i in range(times.size - 1):
        if drive(leg, retake, between, words, look, times[i], times[i + 1]) != GOOD:
            reached[0] = 0.0
            return i
        if reached[0] != times[i + 1] - times[i] or vector_at(look, FIRED).any():
            return i
        for j in range(x.size):
            x[j] = out[j]
        if output.size and _evaluate(output, times[i + 1] / NS_PER_S) >= 0:
            reached[0] = 0.0
            return i
        for j in range(memory.size):
            memory[j] = after[j]
        for j in range(here.size):
            here[j] = there[j]
        for j in range(values.size):
            rows[i, j] = values[j]
    return times.size - 1  # type: ignore[no-any-return]


@cache
def _native_drive() -> Native:
    signature = (INTEGER, INTEGER, INTEGER, WORDS, WORDS, INTEGER, INTEGER)
    return compile_function(resident_drive, signature, "guards")


@cache
def _native_drive_on() -> Native:
    addresses = (INTEGER, INTEGER, INTEGER)
    signature = (*addresses, WORDS, WORDS, WORDS, WORDS, VECTOR, MATRIX)
    return compile_function(resident_drive_on, signature, "several steps under guards")


@dataclass(frozen=True)
class NativeDrive:
    """The way of a plant under guards, as compiled code calls it (:func:`drive`)."""

    handle: int
    functions: tuple[int, int, int]
    words: NDArray[np.int64]
    look: NDArray[np.int64]
    here: NDArray[np.float64]
    there: NDArray[np.float64]
    directions: Vector
    fired: Vector
    reached: Vector


class Guarded:
    """The guards of one plant, and its solver's way under them.

    ``here`` (3, m) is what is known of the guards at the present tag, ``there`` the same at the end
    of the provisional way.
    """

    def __init__(
        self, bound: BoundModel, stepper: Stepper, vectors: tuple[Vector, ...], out: Vector
    ) -> None:
        """``vectors``: x, z, u, p of the plant; ``out``: where a provisional way comes out."""
        guards = bound.model.guards
        n, m = bound.model.states.size, len(guards)
        make = getattr(stepper, "legs", None)
        legs: Legs = _outside(stepper, vectors, out) if make is None else make(*vectors, out)
        self.here, self.there, self._fired = np.zeros((KNOWN, m)), np.zeros((KNOWN, m)), np.zeros(m)
        self._reached = np.zeros(1)
        self._directions = np.array([float(g.direction) for g in guards])
        self._legs = legs
        self._bound = bound  # while its functions are called by their addresses
        arrays: tuple[NDArray[np.float64], ...] = (
            *(legs.now, *vectors[1:], out, legs.notes, legs.k, legs.dense),
            *(np.zeros(n), np.zeros((2, n))),
            self._directions,
            *(self.here, self.there, np.zeros(m), self._fired, np.zeros((POINTS + 1, m))),
            *(np.zeros((2, 2 * POINTS)), np.zeros((ROWS, m)), self._reached),
        )
        self._look: Any
        if legs.compiled:
            self._block = AddressBlock.of((bound.guard.handle, bound.derivative.handle), arrays)
            self._look, self._drive = self._block.words, _native_drive().call
        else:
            self._look = plain_block((bound.guard.call, bound.derivative.call), arrays)
            self._drive = drive
        self._functions = (legs.leg, legs.retake, legs.between, legs.words, self._look)
        self._output = bound.output.handle
        self._output_words = np.zeros(0, dtype=np.int64)
        self._y = np.zeros(0)

    def advance(self, from_ns: int, to_ns: int) -> int:
        """To ``to_ns`` or to where a guard crosses, provisionally; answers as a step does."""
        self._legs.begin(from_ns)
        return int(self._drive(*self._functions, from_ns, to_ns))

    def native(self) -> NativeDrive | None:
        """The way for code that calls it by its address; None: it is not compiled."""
        legs = self._legs
        if not legs.compiled:
            return None
        functions = (int(legs.leg), int(legs.retake), int(legs.between))
        return NativeDrive(
            int(_native_drive().handle), functions, legs.words, self._look, self.here, self.there,
            self._directions, self._fired, self._reached,
        )  # fmt: skip

    @property
    def way_ns(self) -> int:
        """How long the provisional way is; 0 where the last step of :meth:`run` was no good."""
        return int(self._reached[0])

    @property
    def fired(self) -> tuple[int, ...]:
        """Guards that cross at its end."""
        return tuple(i for i, fired in enumerate(self._fired.tolist()) if fired)

    def accept(self) -> None:
        """The provisional way was committed."""
        self.here[:] = self.there

    def run(
        self, times: NDArray[np.int64], vectors: tuple[Vector, ...], y: Vector, values: Vector
    ) -> NDArray[np.float64]:
        """Several whole steps at once, committed; :attr:`way_ns` is of the one behind them.

        Rows (k, n) of ``values``, one for each; ``vectors``: x, z, u, p.
        """
        if y is not self._y and y.size:
            self._output_words = AddressBlock.of((self._output,), (*vectors, y)).words
        self._y = y
        rows = np.empty((times.size - 1, values.size))
        run = _native_drive_on().call
        good = run(*self._functions, self._output_words, times, values, rows)
        return rows[:good]


def _outside(stepper: Stepper, vectors: tuple[Vector, ...], out: Vector) -> Legs:
    """A stepper that has no legs of its own: each way is one, looked at as a cubic."""
    x, z, u, p = vectors
    began = [0]

    def leg(_: Any, t: float, h: float) -> int:  # noqa: ARG001
        to_ns = began[0] + round(h * NS_PER_S)
        return stepper.advance(began[0], to_ns, x, z, u, p, out)

    def begin(ns: int) -> None:
        began[0] = ns

    return Legs(leg, leg, by_slopes, None, vectors[0], compiled=False, begin=begin)
