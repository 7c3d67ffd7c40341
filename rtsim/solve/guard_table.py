"""Find the zero crossings of guards within an internal step.

Each guard is evaluated at several points of the internal step (``PARTS``). The dense output of the
solver gives the state at these points. A guard that approaches zero and moves away again may have
crossed zero twice between two points. The guard is therefore also evaluated at its turning point.
Two crossings between neighbouring points are missed if the values show no turning point.

A guard *flips* when its sign changes in the declared direction. A guard also flips when it reaches
zero in the declared direction and stays there. For example, a condition changes from 1.0 to 0.0.

The guard table is an argument table (``rtsim.equations.addresses``) with all data of the search.
:class:`rtsim.solve.guarded.Guarded` creates the table.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.equations.addresses import Layout, call_step
from rtsim.equations.calls import call_at
from rtsim.equations.compiling import in_both
from rtsim.solve.base import NO_NUMBER
from rtsim.solve.internal_steps import END, NOTES, dense_output

PARTS = (0.0, 1 / 1024, 1 / 4, 1 / 2, 3 / 4, 1023 / 1024, 1.0)
"""The points at which each guard is evaluated, as fractions of the internal step."""
POINTS = len(PARTS)

NOWHERE = -1.0
"""The value of ``flips[WHERE]`` for a guard that does not flip."""
WHERE, FROM, SIDE, RATE, LEVEL, STAYS = range(6)
"""Rows of the array ``flips``:

- ``WHERE``: fraction of the internal step at which the guard flips, or :data:`NOWHERE`.
- ``FROM``: last evaluated fraction before the flip.
- ``SIDE``: sign of the guard after the flip. If the guard does not flip, its sign at the beginning
  of the step.
- ``RATE``: slope of the guard at the flip (1/s).
- ``LEVEL``: value that the guard crosses. The value is 0, unless a reset left the guard beyond
  zero.
- ``STAYS``: 1 if the guard becomes exactly 0 at the flip and stays 0 for a while, else 0.
"""
SIGN, CAME_TO, LEFT_AT, SIDE_BEFORE, LATE = range(5)
"""Rows of the arrays ``here`` and ``there``, which describe each guard at a tag:

- ``SIGN``: sign of the guard. The sign is 0 if the guard is 0, or if the guard fired less than 1 ns
  before it reaches 0.
- ``CAME_TO``: sign that the guard is about to get, if ``SIGN`` is 0 and the guard fired; else 0.
- ``LEFT_AT``: value at which a reset turned the guard back, until the guard reaches 0 again; else
  0. An example is a ball that its reset left slightly under the floor.
- ``SIDE_BEFORE``: last nonzero sign of the guard; 0 without such a sign, or if the guard fired and
  is 0.
- ``LATE``: time from the crossing to the tag (s), at most 1 ns, equal for all guards; 0 at a tag
  without a crossing.
"""
ROWS = 5

GUARD_TABLE = Layout(
    "a guard table",
    ("guard", "slope", "internal_step", "retake", "between"),
    {
        "now": ("states",),
        "z": ("discrete",),
        "u": ("inputs",),
        "p": ("parameters",),
        "out": ("states",),
        "notes": (NOTES,),
        "k": ("stages", "states"),
        "dense": ("stages", "degree"),
        "y": ("states",),
        "slopes": (2, "states"),
        "directions": ("guards",),
        "at_start": ("guards",),
        "here": (ROWS, "guards"),
        "there": (ROWS, "guards"),
        "sides": ("guards",),
        "signed": ("guards",),
        "fired": ("guards",),
        "g": (f"{POINTS} + 1", "guards"),
        "visits": (2, 2 * POINTS),
        "flips": (6, "guards"),
        "tried": (2,),
        "reached": (2,),
    },
)
"""The layout of a guard table.

Its functions are the model's guards and derivative, and ``internal_step``, ``retake`` and
``between`` (:mod:`rtsim.solve.internal_steps`). Its arrays are:

- ``now``, ``out``: state at the beginning and at the end of the internal step.
- ``k``, ``dense``: stages and dense output of an embedded pair, else empty.
- ``y``: state at a fraction of the internal step.
- ``slopes``: derivative at both ends of the internal step, for solvers without dense output.
- ``directions``: -1, 0 or 1 for each guard.
- ``at_start``: the direction of a guard that fires at the start of the run if it begins beyond
  zero, else 0.
- ``here``, ``there``: signs and other data of the guards at the two ends of the advance.
- ``sides``: sign of each guard up to the present internal step.
- ``signed``: 1 if the guard has had this sign during the advance; 0 if it only came from this side
  before the advance, or has no sign.
- ``fired``: 1 for a guard that fires at the end of the advance.
- ``g``: guards at each of :data:`PARTS`, and one row for intermediate values.
- ``visits``: see :func:`visits`.
- ``tried``: while a crossing is located, the times (ns after the beginning of the advance) to which
  the first two rows of ``g`` belong; -1 for none.
- ``reached``: length of the advance (ns), and ``LATE`` at its end (s).
"""


def state_within(table: Any, part: float, taken: float) -> int:
    dense_output(table, table.now, table.out, part, taken)
    return -1


_TURNS, _TRIALS = 12, 100
_STRAIGHT = 2.0 * (PARTS[2] - PARTS[1]) / PARTS[1]
"""Ratio that the differences between the first points of :data:`PARTS` have for a linear guard."""
_CLOSER = 16.0
"""In each iteration, the search for a turning point gets closer to the end by this factor."""
_SHORTEST = 5e-10
"""Distance (s) from the end of the step at which the search for a turning point stops."""
_FINE = 1e-10
"""Length (s) of the bracket at which the search for a flip stops."""
_STANDS = 1 / 64
"""A guard stays at zero if it is zero during this last fraction of the interval."""
_BESIDE = 1e-8
"""Distance (s) from an interval at zero at which a guard is evaluated to detect a jump."""


@in_both
def sign(value: float) -> float:
    return 1.0 if value > 0.0 else -1.0 if value < 0.0 else 0.0


@in_both
def values_at(table: Any, t: float, part: float, taken: float, g: Any) -> None:
    """Evaluate all guards at a fraction of the internal step, and store them in ``g``.

    The internal step begins at time ``t`` (s) and is ``taken`` s long. ``g`` has the shape (m,).
    """
    if part <= 0.0:
        call_at(table, table.guard, t, table.now, g)
    elif part >= 1.0:
        call_at(table, table.guard, table.notes[END], table.out, g)
    else:
        call_step(table.between, table, part, taken)
        call_at(table, table.guard, t + part * taken, table.y, g)


@in_both
def bends(f: float, near: float, far: float) -> bool:
    """Return whether a guard may turn back close to the beginning or the end of the step.

    ``f`` is the guard's distance from zero at this end. ``near`` and ``far`` are the distances at
    the next two points. The guard may turn back if its distance grows faster and faster.
    """
    return 0.0 < f < near and (near - f) * _STRAIGHT < far - near


@in_both
def turn_beside(table: Any, t: float, taken: float, i: int, end: int, inner: int) -> Any:
    """Bracket a turning point of a guard beside an end of the internal step.

    ``end`` is the index of the first or last point, and ``inner`` that of its neighbour.

    Returns three fractions of the internal step, and the guard's distances from zero there. The
    second distance is the smallest. The second fraction is ``NOWHERE`` if the guard is nearest to
    zero at the end itself.
    """
    rows, g = table.g, table.g[POINTS]
    side = sign(rows[end, i])
    f, near, away = side * rows[end, i], side * rows[inner, i], PARTS[inner] - PARTS[end]
    while abs(away) * taken > _SHORTEST:
        before, wide = near, away
        away /= _CLOSER
        values_at(table, t, PARTS[end] + away, taken, g)
        near = side * g[i]
        if near < f:
            if end == 0:
                return 0.0, away, wide, f, near, before
            return 1.0 + wide, 1.0 + away, 1.0, before, near, f
    return 0.0, NOWHERE, 0.0, 0.0, 0.0, 0.0


@in_both
def turning_point(table: Any, t: float, taken: float, i: int, j: int) -> float:
    """Search near the point ``PARTS[j]`` for a time at which a guard has the opposite sign.

    Returns the time as a fraction of the internal step, or ``NOWHERE``. The guard must be nearer to
    zero at point ``j`` than at its neighbours, unless point ``j`` is an end of the step. The search
    fits parabolas through three points. The search uses parabolas or, where they fail, the golden
    section.
    """
    rows, g = table.g, table.g[POINTS]
    side = sign(rows[j, i])
    if 0 < j < POINTS - 1:
        a, b, c = PARTS[j - 1], PARTS[j], PARTS[j + 1]
        fa, fb, fc = side * rows[j - 1, i], side * rows[j, i], side * rows[j + 1, i]
    else:
        inner = 1 if j == 0 else j - 1
        a, b, c, fa, fb, fc = turn_beside(table, t, taken, i, j, inner)
    if b == NOWHERE or fb < 0.0:
        return b
    for _ in range(_TURNS):
        left, right = (b - a) * (fb - fc), (b - c) * (fb - fa)
        v = b
        if left != right:
            v = b - ((b - a) * left - (b - c) * right) / (2.0 * (left - right))
        if not (a < v < c and abs(v - b) > 1e-6 * (c - a)):
            v = b + 0.38 * (c - b if c - b > b - a else a - b)
        values_at(table, t, v, taken, g)
        f = side * g[i]
        if f < 0.0:
            return v
        if f < fb:
            if v > b:
                a, fa = b, fb
            else:
                c, fc = b, fb
            b, fb = v, f
        elif v > b:
            c, fc = v, f
        else:
            a, fa = v, f
        if (c - a) * taken < _FINE:
            break
    return NOWHERE


@in_both
def bracketed(
    table: Any, t: float, taken: float, i: int, low: float, high: float, behind: float
) -> float:
    """Return the fraction of the internal step at which a guard crosses zero.

    ``behind`` is the sign after the crossing. The slope of the guard is stored in ``flips``. The
    method is regula falsi with the Illinois modification.
    """
    g = table.g[POINTS]
    values_at(table, t, low, taken, g)
    a, fa = low, behind * g[i]
    values_at(table, t, high, taken, g)
    b, fb = high, behind * g[i]
    if fa == 0.0:
        a, b = stands_until(table, t, taken, i, low, high)
    stood = 0
    for trial in range(_TRIALS):
        if not (b - a) * taken > _FINE or fa >= 0.0:
            break
        v = b - fb * (b - a) / (fb - fa)
        if trial % 8 == 7 or not a < v < b:
            v = 0.5 * (a + b)
            if not a < v < b:
                break
        values_at(table, t, v, taken, g)
        f = behind * g[i]
        if f > 0.0:
            b, fb = v, f
            fa = 0.5 * fa if stood == 1 else fa
            stood = 1
        else:
            a, fa = v, f
            fb = 0.5 * fb if stood == -1 else fb
            stood = -1
            if f == 0.0:
                break
    flips = table.flips
    flips[RATE, i] = 0.0
    width = max(b - a, 1e-6)
    near, far = max(0.0, b - width), min(1.0, b + width)
    values_at(table, t, near, taken, g)
    before = g[i]
    values_at(table, t, far, taken, g)
    flips[RATE, i] = (g[i] - before) / ((far - near) * taken)
    return b if fa < 0.0 else a


@in_both
def stands_until(table: Any, t: float, taken: float, i: int, zero: float, other: float) -> Any:
    """Find by bisection the time at which a guard begins or ceases to be exactly zero.

    The guard is zero at the fraction ``zero`` of the internal step, and nonzero at the fraction
    ``other``. Returns two neighbouring fractions, the first with a guard of zero.
    """
    g = table.g[POINTS]
    for _ in range(_TRIALS):
        middle = 0.5 * (zero + other)
        if not abs(zero - other) * taken > _FINE or middle in (zero, other):
            break
        values_at(table, t, middle, taken, g)
        if g[i] == 0.0:
            zero = middle
        else:
            other = middle
    return zero, other


@in_both
def just_after(table: Any, t: float, part: float, taken: float, g: Any) -> None:
    """Evaluate all guards at a fraction of the step, which may exceed 1."""
    if part <= 1.0:
        values_at(table, t, part, taken, g)
        return
    out, y, slope = table.out, table.y, table.slopes[1]
    end: float = table.notes[END]
    call_at(table, table.slope, end, out, slope)
    ahead: float = (part - 1.0) * taken
    for j in range(out.size):
        y[j] = out[j] + ahead * slope[j]
    call_at(table, table.guard, end + ahead, y, g)


@in_both
def jumps(table: Any, t: float, taken: float, i: int, zero: float, other: float) -> bool:
    """Return whether a guard jumps to zero or from zero.

    The guard is zero at the fraction ``zero`` of the internal step, and nonzero at the fraction
    ``other``. A jump is assumed if the guard directly beside the zero exceeds half of its value
    1e-8 s farther away.
    """
    g = table.g[POINTS]
    _, edge = stands_until(table, t, taken, i, zero, other)
    away = _BESIDE / taken
    values_at(table, t, edge, taken, g)
    beside = abs(g[i])
    just_after(table, t, edge + (away if other > zero else -away), taken, g)
    return bool(beside > 0.5 * abs(g[i]))


@in_both
def turns_after(table: Any, t: float, taken: float, i: int, side: float) -> bool:
    g = table.g[POINTS]
    just_after(table, t, 1.0 + _BESIDE / taken, taken, g)
    return sign(g[i]) == side


@in_both
def stays_from(
    table: Any, t: float, taken: float, i: int, n: int, count: int, before: float
) -> float:  # fmt: skip
    """Return the fraction of the internal step from which on a guard is zero.

    The guard is zero at the fraction ``visits[0, n]``. ``before`` is the last fraction with a
    nonzero guard. Returns ``NOWHERE`` if the guard does not stay at zero.
    """
    seen = table.visits
    part: float = seen[0, n]
    if n + 1 < count and seen[1, n + 1] != 0.0:
        return NOWHERE
    since, _ = stands_until(table, t, taken, i, part, before)
    if n + 1 < count or part - since > _STANDS * (part - before):
        return since  # type: ignore[no-any-return]
    return since if jumps(table, t, taken, i, part, before) else NOWHERE


@in_both
def turns_at(rows: Any, i: int, j: int) -> bool:
    side = sign(rows[j, i])
    f: float = side * rows[j, i]
    if j == 0:
        return bends(f, side * rows[1, i], side * rows[2, i])
    if j == POINTS - 1:
        return bends(f, side * rows[j - 1, i], side * rows[j - 2, i])
    before: float = side * rows[j - 1, i]
    after: float = side * rows[j + 1, i]
    return 0.0 < f <= before and f <= after


@in_both
def visits(table: Any, t: float, taken: float, i: int) -> int:
    """Store the signs of a guard at all points of the step, and return the number of points.

    The points are ``PARTS`` and the turning points beyond zero, in order of time. The first row of
    ``visits`` contains the points as fractions of the internal step, and the second row the signs.
    """
    rows, out = table.g, table.visits
    count = 0
    for j in range(POINTS):
        here = sign(rows[j, i])
        turned = NOWHERE
        if turns_at(rows, i, j):
            turned = turning_point(table, t, taken, i, j)
        if NOWHERE < turned < PARTS[j]:
            out[0, count], out[1, count] = turned, -here
            count += 1
        if j > 0:
            out[0, count], out[1, count] = PARTS[j], here
            count += 1
        if turned > PARTS[j]:
            out[0, count], out[1, count] = turned, -here
            count += 1
    return count


@in_both
def find_flips(table: Any, t: float, taken: float, last: bool) -> int:
    """Find the guards that flip in an internal step, and return their number.

    The internal step begins at time ``t`` (s). The array ``flips`` receives the result. The signs
    of all other guards at the end of the step are stored in ``sides``. In the last internal step
    (``last``), a guard that has just reached zero also flips. Returns ``NO_NUMBER`` if a guard is
    NaN.
    """
    directions, sides = table.directions, table.sides
    signed, m = table.signed, directions.size
    rows, flips, known, seen = table.g, table.flips, table.here, table.visits
    for j in range(POINTS):
        values_at(table, t, PARTS[j], taken, rows[j])
        for i in range(m):
            if math.isnan(rows[j, i]):
                return NO_NUMBER
    found = 0
    for i in range(m):
        flips[WHERE, i], flips[LEVEL, i], flips[STAYS, i] = NOWHERE, 0.0, 0.0
        side, before, left_at = sides[i], 0.0, known[LEFT_AT, i]
        flips[SIDE, i] = side
        last_here = sign(rows[0, i])
        count, stood = visits(table, t, taken, i), rows[0, i] == 0.0
        for n in range(count):
            part, here = seen[0, n], seen[1, n]
            stood = stood and here == 0.0
            since = NOWHERE
            if here == 0.0 and signed[i] != 0.0:
                if n == 0 and last_here == 0.0:
                    since = 0.0
                elif last_here != 0.0:
                    since = stays_from(table, t, taken, i, n, count, before)
            # The guard fires when it leaves zero.
            if since != NOWHERE and directions[i] * side > 0.0:
                since, side, signed[i] = NOWHERE, -directions[i], 0.0
            ends = last and n == count - 1 and here == 0.0 and not stood and signed[i] != 0.0
            ends = ends and not turns_after(table, t, taken, i, side)
            if side == 0.0 and here != 0.0 and last_here == 0.0:
                side = -here if jumps(table, t, taken, i, before, part) else 0.0
            if since != NOWHERE:
                flips[SIDE, i], flips[FROM, i], flips[WHERE, i] = -side, before, since
                flips[STAYS, i] = 1.0
                found += 1
                break
            if side != 0.0 and (here == -side or ends) and directions[i] * side <= 0.0:
                flips[SIDE, i], flips[FROM, i], flips[WHERE, i] = -side, before, part
                found += 1
                break
            if here != 0.0:
                side, signed[i] = here, 1.0
            before, last_here = part, here
        if flips[WHERE, i] == NOWHERE and side * left_at > 0.0 and side == sides[i]:
            if side * rows[POINTS - 1, i] > side * left_at:  # the guard turned back before zero
                flips[SIDE, i], flips[FROM, i], flips[WHERE, i] = side, 0.0, 0.0
                flips[RATE, i], flips[LEVEL, i] = 0.0, left_at
                found += 1
        elif flips[WHERE, i] == NOWHERE:
            sides[i] = side
        elif flips[STAYS, i] != 0.0:
            flips[RATE, i] = 0.0
        elif sign(rows[POINTS - 1, i]) != 0.0 or flips[WHERE, i] < 1.0:
            low, high, behind = flips[FROM, i], flips[WHERE, i], flips[SIDE, i]
            flips[WHERE, i] = bracketed(table, t, taken, i, low, high, behind)
        else:
            flips[RATE, i] = 0.0
    return found
