"""Integrate a plant to the next tag or to the first zero crossing of a guard.

The dense output gives a first estimate of the crossing (``rtsim.solve.guard_table``). The solver
then repeats the internal step until its end is at the crossing.

The tag of the event is the first whole ns after the crossing. The state at this tag is the state at
the crossing, less than 1 ns earlier. The next advance begins with this state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.equations.addresses import INTEGER, MATRIX, VECTOR, WORDS, call_drive, call_step
from rtsim.equations.calls import call_at, evaluate, evaluation_block
from rtsim.equations.compiling import Native, compile_function, compiled, in_both, kept
from rtsim.equations.model import BoundModel
from rtsim.solve.base import GOOD, NO_NUMBER, PAUSED, Stepper
from rtsim.solve.guard_table import (
    CAME_TO,
    FROM,
    GUARD_TABLE,
    LATE,
    LEFT_AT,
    LEVEL,
    NOWHERE,
    POINTS,
    RATE,
    SIDE,
    SIDE_BEFORE,
    SIGN,
    STAYS,
    WHERE,
    find_flips,
    sign,
    state_within,
)
from rtsim.solve.internal_steps import (
    END,
    LAST,
    STEP_LAYOUT,
    TAKEN,
    WHOLE,
    InternalSteps,
    covered,
    model_sizes,
    nothing,
    pauses,
    to_its_end,
)
from rtsim.solve.resident import rows_of

_NEAR = 1 / 16
"""Within this fraction of an internal step, the dense output can show two flips in the wrong order.
"""
_CORRECTIONS = 6
"""Number of Newton corrections before the search for the crossing uses a bracket."""
_BEFORE, _AFTER = 0, 1
_REFINEMENTS, _FIRST_MOVE = 8, 1e-7
"""Number of attempts to end the internal step just after the crossing, and the distance of the
first attempt from the estimated crossing (ns). Later attempts allow for larger rounding errors.
"""


@in_both
def taken_to(words: Any, table: Any, from_ns: int, done: float, ns: int) -> Any:
    """Repeat the internal step so that it ends at the time ``ns``, and return the guards (m,).

    The internal step begins ``done`` s after the beginning of the advance. A guard is returned as
    its distance from the level that it crosses.
    """
    return taken_until(words, table, from_ns, done, ns, 0.0)


@in_both
def taken_until(words: Any, table: Any, from_ns: int, done: float, ns: int, late: float) -> Any:
    """Repeat the internal step so that it ends ``late`` s before ``ns``."""
    g, level, began = table.g[POINTS], table.flips[LEVEL], table.here[LATE, 0]
    h = (ns - from_ns) / NS_PER_S + began - late - done
    call_step(table.retake, words, from_ns / NS_PER_S - began + done, h)
    call_at(table, table.guard, ns / NS_PER_S - late, table.out, g)
    for i in range(g.size):
        g[i] -= level[i]
    return g


@in_both
def note_guards(table: Any, row: int, ns: int, from_ns: int) -> None:
    rows = table.g
    for i in range(rows.shape[1]):
        rows[row, i] = rows[POINTS, i]
    table.tried[row] = ns - from_ns


@in_both
def crossed(table: Any, i: int, value: float, ns: int, end_ns: int) -> bool:
    """Return whether a guard with the given value at ``ns`` has crossed zero.

    A guard has crossed zero if it has the sign after the crossing. A guard of exactly 0 has crossed
    zero if it stays at 0.
    """
    flips = table.flips
    ends: bool = value == 0.0 and (ns == end_ns or flips[STAYS, i] != 0.0)
    return ends or sign(value) == flips[SIDE, i]


@in_both
def first_ns(
    words: Any, table: Any, from_ns: int, done: float, i: int, low: int, high: int,
    guess: int, end_ns: int,
) -> int:  # fmt: skip
    """Return the first ns between ``low`` and ``high`` at which a guard has crossed zero.

    Returns ``low`` if the guard does not cross zero.
    """
    flips = table.flips
    rate = flips[RATE, i] / NS_PER_S
    not_yet, already, n = low, high + 1, min(max(guess, low + 1), high)
    for _ in range(_CORRECTIONS):  # the internal step differs slightly from its dense output
        value = taken_to(words, table, from_ns, done, n)[i]
        if crossed(table, i, value, n, end_ns):
            already = min(already, n)
            note_guards(table, _AFTER, n, from_ns)
        else:
            not_yet = max(not_yet, n)
            note_guards(table, _BEFORE, n, from_ns)
        move = -value / rate if rate != 0.0 else 0.0
        if not abs(move) > 1.0 or not abs(move) < 1e9:
            break
        n = min(max(n + math.ceil(move), not_yet + 1), already - 1, high)
        if n <= not_yet or n >= already:
            break
    step = 1
    while already > high and not_yet < high:
        n = min(not_yet + step, high)
        if crossed(table, i, taken_to(words, table, from_ns, done, n)[i], n, end_ns):
            already = n
            note_guards(table, _AFTER, n, from_ns)
        else:
            not_yet = n
            note_guards(table, _BEFORE, n, from_ns)
        step *= 2
    if already > high:
        return low
    step = 1
    while already - not_yet > 1:
        n = max(already - step, not_yet + 1)
        if step > 1 << 20 or n == not_yet + 1:
            n = (not_yet + already) // 2
        if crossed(table, i, taken_to(words, table, from_ns, done, n)[i], n, end_ns):
            already = n
            note_guards(table, _AFTER, n, from_ns)
            step *= 2
        else:
            not_yet = n
            note_guards(table, _BEFORE, n, from_ns)
            step = 1
    return already


@in_both
def seen_ns(table: Any, i: int, from_ns: int, done: float, begin: int, high: int) -> int:
    """Return the time (ns) of a guard's last evaluation before its sign change."""
    flips = table.flips
    if flips[FROM, i] <= 0.0:
        return begin
    late = table.here[LATE, 0]
    at: float = (done + flips[FROM, i] * table.notes[TAKEN] - late) * NS_PER_S
    return max(begin, min(from_ns + math.floor(at), high - 1))


@in_both
def flips_ns(table: Any, i: int, from_ns: int, done: float, high: int) -> int:
    flips = table.flips
    if flips[WHERE, i] >= 1.0:
        return high
    late = table.here[LATE, 0]
    at: float = (done + flips[WHERE, i] * table.notes[TAKEN] - late) * NS_PER_S
    return min(from_ns + math.ceil(at), high)


@in_both
def first_flip(table: Any) -> int:
    flips = table.flips
    first = -1
    for i in range(flips.shape[1]):
        here = flips[WHERE, i]
        if here != NOWHERE and (first < 0 or here < flips[WHERE, first]):
            first = i
    return first


@in_both
def locate(words: Any, table: Any, from_ns: int, done: float, end_ns: int) -> int:
    """End the internal step at the first ns at which a guard has crossed zero.

    ``fired`` marks the guards that have crossed. Without a crossing, the function returns
    ``from_ns``, and ``out`` is the state at the end of the whole step.
    """
    notes, fired = table.notes, table.fired
    m, taken = fired.size, notes[TAKEN]
    flips, late, tried = table.flips, table.here[LATE, 0], table.tried
    high = end_ns
    if notes[LAST] == 0.0:
        ends = from_ns + math.ceil((done + taken - late) * NS_PER_S)
        high = min(end_ns, max(ends, from_ns + 1))
    begin = max(from_ns, min(from_ns + math.floor((done - late) * NS_PER_S), high - 1))
    while True:
        first = first_flip(table)
        if first < 0:
            call_step(table.retake, words, from_ns / NS_PER_S - late + done, taken)
            return from_ns
        low = seen_ns(table, first, from_ns, done, begin, high)
        guess = flips_ns(table, first, from_ns, done, high)
        tried[_BEFORE] = tried[_AFTER] = -1.0
        ns = first_ns(words, table, from_ns, done, first, low, high, guess, end_ns)
        if ns > low:
            break
        flips[WHERE, first], flips[SIDE, first] = NOWHERE, -flips[SIDE, first]
    margin = flips[WHERE, first] + _NEAR
    again = m > 1
    while again and ns - 1 > begin:  # the dense output can show two guards in the wrong order
        again = False
        g = taken_to(words, table, from_ns, done, ns - 1)
        note_guards(table, _BEFORE, ns - 1, from_ns)
        for i in range(m):
            if i == first or flips[WHERE, i] == NOWHERE or flips[WHERE, i] > margin:
                continue
            low = seen_ns(table, i, from_ns, done, begin, high)
            if low < ns - 1 and crossed(table, i, g[i], ns - 1, end_ns):
                guess = flips_ns(table, i, from_ns, done, high)
                ns = first_ns(words, table, from_ns, done, i, low, ns - 1, guess, end_ns)
                again = True
                break
    if tried[_AFTER] != ns - from_ns:
        taken_to(words, table, from_ns, done, ns)
        note_guards(table, _AFTER, ns, from_ns)
    g = table.g[_AFTER]
    for i in range(m):
        fired[i] = 0.0
        if flips[WHERE, i] != NOWHERE and crossed(table, i, g[i], ns, end_ns):
            fired[i] = 1.0 if seen_ns(table, i, from_ns, done, begin, high) < ns else 0.0
    table.reached[1] = refined(words, table, from_ns, done, ns)
    return ns


@in_both
def refined(words: Any, table: Any, from_ns: int, done: float, ns: int) -> float:
    """End the internal step at the crossing; return the time (s) from the crossing to ``ns``.

    If several guards fire at ``ns``, the step ends at the last crossing.
    """
    before, after, fired, tried = table.g[_BEFORE], table.g[_AFTER], table.fired, table.tried
    flips = table.flips
    longest = min(1.0 / NS_PER_S, (ns - from_ns) / NS_PER_S + table.here[LATE, 0] - done)
    if tried[_BEFORE] != ns - 1 - from_ns:
        seen_at(words, table, from_ns, done, ns, longest)
    late: float = longest if table.notes[WHOLE] == 0.0 else 0.0
    for i in range(fired.size):
        if fired[i] != 0.0:
            changes = sign(before[i]) == -flips[SIDE, i] or (before[i] == 0.0 and ns - 1 > from_ns)
            changes = changes and sign(after[i]) == flips[SIDE, i] and flips[LEVEL, i] == 0.0
            part = after[i] / (after[i] - before[i]) if changes else 0.0
            late = min(late, part * longest)
    later = _FIRST_MOVE * longest
    for _ in range(_REFINEMENTS):
        late = max(0.0, late - later)
        g = taken_until(words, table, from_ns, done, ns, late)
        again, missing = False, 0.0
        for i in range(fired.size):
            if fired[i] != 0.0 and sign(g[i]) != flips[SIDE, i]:
                again = True
                if after[i] != before[i]:
                    missing = max(missing, abs(g[i] / (after[i] - before[i])))
        if late == 0.0 or not again:
            return late
        later = max(4.0 * missing * longest, 16.0 * later)
    taken_to(words, table, from_ns, done, ns)
    return 0.0


@in_both
def seen_at(words: Any, table: Any, from_ns: int, done: float, ns: int, late: float) -> None:
    if late >= 1.0 / NS_PER_S:
        taken_to(words, table, from_ns, done, ns - 1)
    else:
        g, now = table.g[POINTS], table.now
        began = from_ns / NS_PER_S - table.here[LATE, 0] + done
        call_at(table, table.guard, began, now, g)
    note_guards(table, _BEFORE, ns - 1, from_ns)


_evaluate = compiled(evaluate)


@in_both
def conclude(table: Any, ns: int, offset: int, late: float) -> None:
    """Store the data of the guards at the end of the advance in ``there``.

    The advance is ``offset`` ns long. The final state is the state at the time ``late`` s before
    ``ns``.
    """
    g, there, here, sides = table.g[POINTS], table.there, table.here, table.sides
    left_at = here[LEFT_AT]
    flips, fired = table.flips, table.fired
    call_at(table, table.guard, ns / NS_PER_S - late, table.out, g)
    directions = table.directions
    for i in range(g.size):
        # A crossing between the points can remain undetected; the guard then fires at this tag.
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
    reached = table.reached
    reached[0], reached[1] = offset, late


@in_both
def drive(words: Any, table: Any, from_ns: int, to_ns: int) -> int:
    """Take internal steps to ``to_ns``, or to the first ns at which a guard has crossed zero.

    ``reached`` receives the length of the advance (ns). Returns :data:`GOOD`, :data:`PAUSED` or the
    error code of an internal step.
    """
    notes, directions = table.notes, table.directions
    sides, fired, m = table.sides, table.fired, directions.size
    signed, here, rows, now, out = table.signed, table.here, table.g, table.now, table.out
    slopes, cubic = table.slopes, table.k.size == 0
    late, done = here[LATE, 0], covered(notes)
    t, h = from_ns / NS_PER_S - late, (to_ns - from_ns) / NS_PER_S + late
    for i in range(m if done == 0.0 else 0):
        fired[i] = 0.0
        sides[i] = here[SIGN, i]
        signed[i] = 1.0 if sides[i] != 0.0 else 0.0
        # A guard at zero fires when it leaves zero in its direction, unless it already fired.
        if sides[i] == 0.0:
            sides[i] = here[CAME_TO, i] if here[CAME_TO, i] != 0.0 else -directions[i]
            if sides[i] == 0.0:
                sides[i] = here[SIDE_BEFORE, i]
    while True:
        notes[TAKEN], notes[LAST] = h - done, 1.0
        answer = call_step(table.internal_step, words, t + done, h - done)
        if answer != GOOD:
            return answer
        taken, last = notes[TAKEN], notes[LAST] != 0.0
        notes[END] = to_ns / NS_PER_S if last else t + done + taken
        if cubic:
            call_at(table, table.slope, t + done, now, slopes[0])
            call_at(table, table.slope, notes[END], out, slopes[1])
        found = find_flips(table, t + done, taken, last)
        if found == NO_NUMBER:
            return NO_NUMBER
        if found > 0:
            ns = locate(words, table, from_ns, done, to_ns)
            if ns > from_ns:
                conclude(table, ns, ns - from_ns, table.reached[1])
                return GOOD
            for i in range(m):
                end = sign(rows[POINTS - 1, i])
                sides[i] = end if end != 0.0 else sides[i]
        if last:
            conclude(table, to_ns, to_ns - from_ns, 0.0)
            return GOOD
        done += taken
        if pauses(notes, done):
            return PAUSED


def resident_drive_on(
    advance: Any, words: Any, table: Any, output: Any, times: Any,
    values: Any, rows: Any,
) -> int:  # fmt: skip
    """Take and commit steps between consecutive ``times`` (ns), until a guard fires.

    Returns the number of committed steps. The step in which a guard fires is not committed; ``out``
    and ``there`` contain its result. ``reached`` receives the length of this step (ns), or 0 after
    a failure. ``advance`` is the address of the compiled function :func:`drive`.
    """
    x, out, memory, after, here = words.x, words.out, words.memory, words.after, table.here
    there, reached = table.there, table.reached
    for i in range(times.size - 1):
        if call_drive(advance, words, table, times[i], times[i + 1]) != GOOD:
            reached[0] = 0.0
            return i
        if reached[0] != times[i + 1] - times[i] or table.fired.any():
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


_DRIVE = WORDS, GUARD_TABLE.kind, INTEGER, INTEGER


@cache
def _native_drive() -> Native:
    return compile_function(drive, _DRIVE, "guards")


@cache
def guards_kept() -> bool:
    """Return whether the compiled code of ``drive`` was already in the cache."""
    return kept(drive, _DRIVE)


@cache
def _native_drive_on() -> Native:
    signature = (INTEGER, STEP_LAYOUT.kind, GUARD_TABLE.kind, WORDS, WORDS, VECTOR, MATRIX)
    return compile_function(resident_drive_on, signature, "several steps under guards")


class Guarded:
    """Integrate a plant with guards to the next tag or to the first crossing.

    ``here`` and ``there`` (5, m) describe the guards before and after a provisional advance.
    :data:`rtsim.solve.guard_table.SIGN` explains the rows.
    """

    def __init__(
        self, bound: BoundModel, stepper: Stepper, vectors: tuple[Vector, ...], out: Vector
    ) -> None:
        """Create the guard table for the vectors x, z, u and p of a plant.

        ``out`` (n,) receives the state at the end of a provisional advance.
        """
        make = getattr(stepper, "internal_steps", None)
        inner: InternalSteps = (
            _outside(stepper, vectors, out) if make is None else make(*vectors, out)
        )
        sizes = model_sizes(bound)
        given = {
            "now": inner.now,
            **dict(zip(("z", "u", "p"), vectors[1:], strict=True)),
            "out": out,
            "notes": inner.notes,
            "k": np.zeros((0, sizes["states"])) if inner.k is None else inner.k,
            "dense": np.zeros((0, 0)) if inner.dense is None else inner.dense,
            "directions": np.array([float(g.direction) for g in bound.model.guards]),
            "at_start": np.array([float(g.direction * g.at_start) for g in bound.model.guards]),
        }
        arrays = GUARD_TABLE.filled(given, sizes)
        self.here, self.there = arrays["here"], arrays["there"]
        self._fired, self._reached = arrays["fired"], arrays["reached"]
        self.at_start = arrays["at_start"]
        self.internal_steps, self._stepper, self._g = inner, stepper, arrays["g"]
        self._bound = bound  # keeps the machine code of the model's functions alive
        steps = (inner.internal_step, inner.retake, inner.between)
        self.table: Any
        self._drive: Callable[[int, int], int]
        if inner.compiled:
            functions = (bound.guard.handle, bound.derivative.handle, *steps)
            self.block = GUARD_TABLE.block(functions, arrays, sizes)
            self.table = self.block.words
            self._drive = _native_drive().on(inner.words, self.table)
        else:
            functions = (bound.guard.call, bound.derivative.call, *steps)
            self.table = GUARD_TABLE.plain(functions, arrays, sizes)
            self._drive = partial(drive, inner.words, self.table)
        self._output_words = np.zeros(0, dtype=np.int64)
        self._y = np.zeros(0)

    @staticmethod
    def handle() -> int:
        return int(_native_drive().handle)

    def advance(self, from_ns: int, to_ns: int) -> int:
        """Advance provisionally to ``to_ns``, or to the first ns at which a guard has crossed zero.

        Returns ``GOOD`` or an error code, as ``Stepper.advance`` does.
        """
        self.internal_steps.begin(from_ns)
        answer = int(self._drive(from_ns, to_ns))
        if answer == PAUSED:
            drive = partial(self._drive, from_ns, to_ns)
            answer = int(to_its_end(drive, self.internal_steps.notes, self._interrupt_check))
        return answer

    @property
    def _interrupt_check(self) -> Callable[[], object]:
        found: Callable[[], object] = getattr(self._stepper, "interrupt_check", nothing)
        return found

    @property
    def way_ns(self) -> int:
        """Length (ns) of the provisional advance; 0 after a failure."""
        return int(self._reached[0])

    @property
    def fired(self) -> tuple[int, ...]:
        return tuple(i for i, fired in enumerate(self._fired.tolist()) if fired)

    def no_numbers(self) -> NDArray[np.bool_]:
        """Return an array (m,) that marks the guards that were NaN in the last step."""
        found: NDArray[np.bool_] = np.isnan(self._g).max(axis=0)
        return found

    def accept(self) -> None:
        self.here[:] = self.there

    def run(
        self, times: NDArray[np.int64], vectors: tuple[Vector, ...], y: Vector, values: Vector
    ) -> NDArray[np.float64]:
        """Take and commit steps between consecutive ``times`` (ns).

        ``times`` has the shape (k + 1,), and ``vectors`` are x, z, u and p. Returns a row of
        ``values`` for each committed step. If a guard fires or a step fails, ``way_ns`` describes
        the first step that was not committed.
        """
        if y is not self._y and y.size:
            self._output = evaluation_block(self._bound.output, *vectors, y)
            self._output_words = self._output.words
        self._y = y
        rows = np.empty((times.size - 1, values.size))
        run, given = (
            _native_drive_on().call,
            (self.internal_steps.words, self.table, self._output_words),
        )
        advance = _native_drive().handle
        return rows_of(
            lambda i: run(advance, *given, times[i:], values, rows[i:]),
            rows,
            self.internal_steps.notes,
            self._interrupt_check,
        )


def _outside(stepper: Stepper, vectors: tuple[Vector, ...], out: Vector) -> InternalSteps:
    x, z, u, p = vectors
    began = [0]

    def internal_step(_: Any, t: float, h: float) -> int:  # noqa: ARG001
        to_ns = began[0] + round(h * NS_PER_S)
        return stepper.advance(began[0], to_ns, x, z, u, p, out)

    def begin(ns: int) -> None:
        began[0] = ns

    inner = InternalSteps(
        internal_step, internal_step, state_within, None, vectors[0], compiled=False, begin=begin
    )
    inner.notes[WHOLE] = 1.0
    return inner
