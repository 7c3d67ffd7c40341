"""The advance of a solver to the next tag, which ends early if a guard crosses zero.

Each internal step is examined on the solver's dense output (:mod:`rtsim.solve.flips`).  If a guard
changes its sign on the dense output, :mod:`rtsim.solve.locating` repeats the internal step and
finds the first ns at which the guard has crossed.  The same source runs compiled and as plain
Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
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
    call_equation,
    call_step,
    matrix_at,
    vector_at,
)
from rtsim.equations.compiling import Native, compile_function, compiled, in_both
from rtsim.equations.evaluation import evaluate, evaluation_block
from rtsim.equations.model import BoundModel
from rtsim.solve.base import GOOD, NO_NUMBER, PAUSED, Stepper
from rtsim.solve.flips import find_flips, sign
from rtsim.solve.legs import Legs, by_slopes, covered, nothing, pauses, to_its_end
from rtsim.solve.locating import locate
from rtsim.solve.look import (
    AT,
    CAME_TO,
    END,
    LAST,
    LATE,
    LAYOUT,
    LEFT_AT,
    LEVEL,
    NOWHERE,
    POINTS,
    SIDE,
    SIDE_BEFORE,
    SIGN,
    TAKEN,
    WHERE,
    WHOLE,
)
from rtsim.solve.resident import AT as STEP_AT
from rtsim.solve.resident import model_sizes, rows_of

_evaluate = compiled(evaluate)


@in_both
def conclude(look: Any, ns: int, offset: int, late: float) -> None:
    """Write the signs and other data of the guards at ``ns``, the end of the advance, to ``there``.

    The advance is ``offset`` ns long, and its state is the one ``late`` s before ``ns``.
    """
    g, there = matrix_at(look, AT.g)[POINTS], matrix_at(look, AT.there)
    here, sides = matrix_at(look, AT.here), vector_at(look, AT.sides)
    left_at = here[LEFT_AT]
    flips, fired = matrix_at(look, AT.flips), vector_at(look, AT.fired)
    z, u, p = vector_at(look, AT.z), vector_at(look, AT.u), vector_at(look, AT.p)
    call_equation(look[AT.guard], ns / NS_PER_S - late, vector_at(look, AT.out), z, u, p, g)
    directions = vector_at(look, AT.directions)
    for i in range(g.size):
        # A guard that crossed unseen between the points fires at this tag, not only when it ends.
        now, unseen = sign(g[i]), flips[WHERE, i] == NOWHERE and left_at[i] == 0.0
        if unseen and now * flips[SIDE, i] < 0.0 and directions[i] * now >= 0.0:
            fired[i], flips[SIDE, i] = 1.0, now
        there[SIGN, i], there[LATE, i] = now, late
        there[CAME_TO, i], there[SIDE_BEFORE, i] = 0.0, sign(g[i])
        if g[i] == 0.0 and fired[i] != 0.0:
            there[CAME_TO, i] = flips[SIDE, i]
        elif g[i] == 0.0:
            there[CAME_TO, i] = here[CAME_TO, i]
            there[SIDE_BEFORE, i] = sides[i] if here[CAME_TO, i] == 0.0 else here[SIDE_BEFORE, i]
        there[LEFT_AT, i] = left_at[i] if left_at[i] * g[i] > 0.0 else 0.0
        if fired[i] != 0.0:
            there[LEFT_AT, i] = flips[LEVEL, i]
    reached = vector_at(look, AT.reached)
    reached[0], reached[1] = offset, late


@in_both
def drive(
    leg: Any, retake: Any, between: Any, words: Any, look: Any, from_ns: int, to_ns: int
) -> int:  # fmt: skip
    """Take internal steps up to ``to_ns``, or up to the first ns at which a guard has crossed.

    Returns :data:`GOOD`, :data:`PAUSED` or the error code of an internal step; ``reached`` is the
    length of the advance (ns).
    """
    notes, directions = vector_at(look, AT.notes), vector_at(look, AT.directions)
    sides, fired, m = vector_at(look, AT.sides), vector_at(look, AT.fired), directions.size
    signed = vector_at(look, AT.signed)
    here, rows = matrix_at(look, AT.here), matrix_at(look, AT.g)
    now, out = vector_at(look, AT.now), vector_at(look, AT.out)
    z, u, p = vector_at(look, AT.z), vector_at(look, AT.u), vector_at(look, AT.p)
    slopes, cubic = matrix_at(look, AT.slopes), matrix_at(look, AT.k).size == 0
    late, done = here[LATE, 0], covered(notes)
    t, h = from_ns / NS_PER_S - late, (to_ns - from_ns) / NS_PER_S + late
    for i in range(m if done == 0.0 else 0):
        fired[i] = 0.0
        sides[i] = here[SIGN, i]
        signed[i] = 1.0 if sides[i] != 0.0 else 0.0
        if (
            sides[i] == 0.0
        ):  # the guard fires when it leaves zero in its direction, unless it already fired
            sides[i] = here[CAME_TO, i] if here[CAME_TO, i] != 0.0 else -directions[i]
            if sides[i] == 0.0:
                sides[i] = here[SIDE_BEFORE, i]
    while True:
        notes[TAKEN], notes[LAST] = h - done, 1.0
        answer = call_step(leg, words, t + done, h - done)
        if answer != GOOD:
            return answer
        taken, last = notes[TAKEN], notes[LAST] != 0.0
        notes[END] = to_ns / NS_PER_S if last else t + done + taken
        if cubic:
            call_equation(look[AT.slope], t + done, now, z, u, p, slopes[0])
            call_equation(look[AT.slope], notes[END], out, z, u, p, slopes[1])
        found = find_flips(between, look, t + done, taken, last)
        if found == NO_NUMBER:
            return NO_NUMBER
        if found > 0:
            ns = locate(retake, words, look, from_ns, done, to_ns)
            if ns > from_ns:
                conclude(look, ns, ns - from_ns, vector_at(look, AT.reached)[1])
                return GOOD
            for i in range(m):
                end = sign(rows[POINTS - 1, i])
                sides[i] = end if end != 0.0 else sides[i]
        if last:
            conclude(look, to_ns, to_ns - from_ns, 0.0)
            return GOOD
        done += taken
        if pauses(notes, done):
            return PAUSED


def resident_drive_on(
    leg: Any, retake: Any, between: Any, words: Any, look: Any, output: Any, times: Any,
    values: Any, rows: Any,
) -> int:  # fmt: skip
    """Take whole steps as :func:`rtsim.solve.resident.resident_run` does, and return their number.

    If a step ends early or fails, it is not committed.  Its result stays in ``out`` and ``there``;
    ``reached`` is its length (ns), or 0 if the step failed.
    """
    x, out = vector_at(words, STEP_AT.x), vector_at(words, STEP_AT.out)
    memory, after = vector_at(words, STEP_AT.memory), vector_at(words, STEP_AT.after)
    here, there = matrix_at(look, AT.here), matrix_at(look, AT.there)
    reached = vector_at(look, AT.reached)
    for i in range(times.size - 1):
        if drive(leg, retake, between, words, look, times[i], times[i + 1]) != GOOD:
            reached[0] = 0.0
            return i
        if reached[0] != times[i + 1] - times[i] or vector_at(look, AT.fired).any():
            return i
        for j in range(x.size):
            x[j] = out[j]
        if output.size and _evaluate(output, times[i + 1] / NS_PER_S) >= 0:
            reached[0] = 0.0
            return i
        for j in range(memory.size):
            memory[j] = after[j]
        for row in range(here.shape[0]):
            for j in range(here.shape[1]):
                here[row, j] = there[row, j]
        for j in range(values.size):
            rows[i, j] = values[j]
    return times.size - 1  # type: ignore[no-any-return]


@cache
def _native_drive() -> Native:
    signature = (INTEGER, INTEGER, INTEGER, WORDS, WORDS, INTEGER, INTEGER)
    return compile_function(drive, signature, "guards")


@cache
def _native_drive_on() -> Native:
    addresses = (INTEGER, INTEGER, INTEGER)
    signature = (*addresses, WORDS, WORDS, WORDS, WORDS, VECTOR, MATRIX)
    return compile_function(resident_drive_on, signature, "several steps under guards")


@dataclass(frozen=True)
class NativeDrive:
    """The arguments with which compiled code calls :func:`drive` for one plant."""

    handle: int
    functions: tuple[int, int, int]
    words: NDArray[np.int64]
    look: NDArray[np.int64]
    here: NDArray[np.float64]
    there: NDArray[np.float64]
    directions: Vector
    at_start: Vector
    fired: Vector
    reached: Vector


class Guarded:
    """Advances a plant's solver to the next tag, or to the first crossing of a guard before it.

    ``here`` (5, m) has the signs and other data of the guards at the present tag, and ``there`` (5,
    m) those at the end of the provisional advance; :data:`rtsim.solve.look.SIGN` explains the rows.
    """

    def __init__(
        self, bound: BoundModel, stepper: Stepper, vectors: tuple[Vector, ...], out: Vector
    ) -> None:
        """Make the guard table for ``vectors``, which are x, z, u and p of the plant.

        ``out`` (n,) receives the state at the end of a provisional advance.
        """
        make = getattr(stepper, "legs", None)
        legs: Legs = _outside(stepper, vectors, out) if make is None else make(*vectors, out)
        sizes, zeros = model_sizes(bound), LAYOUT.zeros
        given = {
            "now": legs.now,
            **dict(zip(("z", "u", "p"), vectors[1:], strict=True)),
            "out": out,
            "notes": legs.notes,
            "k": np.zeros((0, sizes["states"])) if legs.k is None else legs.k,
            "dense": np.zeros((0, 0)) if legs.dense is None else legs.dense,
            "directions": np.array([float(g.direction) for g in bound.model.guards]),
            "at_start": np.array([float(g.direction * g.at_start) for g in bound.model.guards]),
        }
        arrays = {
            name: given[name] if name in given else zeros(name, sizes) for name in LAYOUT.arrays
        }
        self.here, self.there = arrays["here"], arrays["there"]
        self._fired, self._reached = arrays["fired"], arrays["reached"]
        self._directions, self.at_start = arrays["directions"], arrays["at_start"]
        self._legs, self._stepper, self._g = legs, stepper, arrays["g"]
        self._bound = bound  # keeps the code of the model's functions alive
        self._look: Any
        if legs.compiled:
            functions = (bound.guard.handle, bound.derivative.handle)
            self._block = LAYOUT.block(functions, arrays, sizes)
            self._look = self._block.words
        else:
            self._look = LAYOUT.plain((bound.guard.call, bound.derivative.call), arrays, sizes)
        self._functions = (legs.leg, legs.retake, legs.between, legs.words, self._look)
        self._drive: Callable[[int, int], int] = partial(drive, *self._functions)
        if legs.compiled:
            on = _native_drive().on(legs.words, self._look)
            self._drive = partial(on, *map(int, self._functions[:3]))
        self._output_words = np.zeros(0, dtype=np.int64)
        self._y = np.zeros(0)

    def advance(self, from_ns: int, to_ns: int) -> int:
        """Advance provisionally to ``to_ns``, or to the first ns at which a guard has crossed.

        Returns :data:`GOOD` or an error code, as ``Stepper.advance`` does.
        """
        self._legs.begin(from_ns)
        answer = int(self._drive(from_ns, to_ns))
        if answer == PAUSED:
            drive = partial(self._drive, from_ns, to_ns)
            answer = int(to_its_end(drive, self._legs.notes, self._interrupt_check))
        return answer

    @property
    def _interrupt_check(self) -> Callable[[], object]:
        """What the stepper calls in a pause."""
        found: Callable[[], object] = getattr(self._stepper, "interrupt_check", nothing)
        return found

    def native(self) -> NativeDrive | None:
        """Return the arguments of :func:`drive` for compiled code, or None for plain Python."""
        legs = self._legs
        if not legs.compiled:
            return None
        functions = (int(legs.leg), int(legs.retake), int(legs.between))
        return NativeDrive(
            int(_native_drive().handle), functions, legs.words, self._look, self.here, self.there,
            self._directions, self.at_start, self._fired, self._reached,
        )  # fmt: skip

    @property
    def way_ns(self) -> int:
        """Length of the provisional advance (ns); 0 if the last step of :meth:`run` failed."""
        return int(self._reached[0])

    @property
    def fired(self) -> tuple[int, ...]:
        """The indices of the guards that cross zero at the end of the provisional advance."""
        return tuple(i for i, fired in enumerate(self._fired.tolist()) if fired)

    def no_numbers(self) -> NDArray[np.bool_]:
        """Return which guards (m,) were not numbers in the last internal step."""
        found: NDArray[np.bool_] = np.isnan(self._g).max(axis=0)
        return found

    def accept(self) -> None:
        """Copy ``there`` to ``here``, because the provisional advance was committed."""
        self.here[:] = self.there

    def run(
        self, times: NDArray[np.int64], vectors: tuple[Vector, ...], y: Vector, values: Vector
    ) -> NDArray[np.float64]:
        """Take and commit whole steps between ``times`` (k + 1,), in ns, in one call.

        ``vectors`` are x, z, u and p.  Returns one row of ``values`` for each committed step.
        :attr:`way_ns` is then the length of the first step that was not committed.
        """
        if y is not self._y and y.size:
            self._output = evaluation_block(self._bound.output, *vectors, y)
            self._output_words = self._output.words
        self._y = y
        rows = np.empty((times.size - 1, values.size))
        run, given = _native_drive_on().call, (*self._functions, self._output_words)
        return rows_of(
            lambda i: run(*given, times[i:], values, rows[i:]),
            rows,
            self._legs.notes,
            self._interrupt_check,
        )


def _outside(stepper: Stepper, vectors: tuple[Vector, ...], out: Vector) -> Legs:
    """Return the :class:`Legs` of a stepper that has no method ``legs``.

    Each advance counts as one internal step, with a cubic as its dense output.
    """
    x, z, u, p = vectors
    began = [0]

    def leg(_: Any, t: float, h: float) -> int:  # noqa: ARG001
        to_ns = began[0] + round(h * NS_PER_S)
        return stepper.advance(began[0], to_ns, x, z, u, p, out)

    def begin(ns: int) -> None:
        began[0] = ns

    legs = Legs(leg, leg, by_slopes, None, vectors[0], compiled=False, begin=begin)
    legs.notes[WHOLE] = 1.0
    return legs
