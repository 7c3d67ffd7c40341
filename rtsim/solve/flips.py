"""The search for sign changes of guards within an internal step of a solver.

The search evaluates the guards on the solver's dense output.

Each guard is evaluated at the points :data:`rtsim.solve.look.PARTS` of the internal step.  If a
guard comes nearer to zero and then goes away again, it may have crossed zero twice in between.  The
guard is then also evaluated at its turning point.  In the first and the last interval, the search
for a turning point begins if the guard's curve bends away from zero.  One case is not detected: a
guard crosses zero and returns between two neighbouring points, and its values at the points do not
indicate a turning point.

A guard *flips* at the point at which it changes its sign in its declared direction.  A guard that
reaches exactly zero and stays there for a while flips at the point at which it reaches zero.  An
example is a condition that is 1.0 or 0.0.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.equations.addresses import call_equation, call_step, matrix_at, vector_at
from rtsim.equations.compiling import in_both
from rtsim.solve.base import NO_NUMBER
from rtsim.solve.look import (
    AT,
    END,
    FROM,
    LEFT_AT,
    LEVEL,
    NOWHERE,
    PARTS,
    POINTS,
    RATE,
    SIDE,
    STAYS,
    WHERE,
)

_TURNS, _TRIALS = 12, 100
"""Maximum numbers of iterations of the searches for a turning point and for a flip."""
_STRAIGHT = 2.0 * (PARTS[2] - PARTS[1]) / PARTS[1]
"""For a linear guard: twice its change between the second and the third of :data:`PARTS`, divided
by its change between the first and the second.
"""
_CLOSER = 16.0
"""Factor by which each iteration reduces the distance to the end of an internal step, in the search
for a turning point.
"""
_SHORTEST = 5e-10
"""The search for a turning point stops at this distance (s) from the end of an internal step."""
_FINE = 1e-10
"""The search for a flip stops when its bracket is no longer than this (s)."""
_STANDS = 1 / 64
"""A guard that is zero at the end of an internal step, and in this part of the last interval before
it, stays at zero.
"""
_BESIDE = 1e-8
"""How far (s) from the end of a time at zero a guard is evaluated, to tell a jump from a change."""


@in_both
def sign(value: float) -> float:
    """Return -1, 0 or 1; 0 for nan."""
    return 1.0 if value > 0.0 else -1.0 if value < 0.0 else 0.0


@in_both
def values_at(between: Any, look: Any, t: float, part: float, taken: float, g: Any) -> None:
    """Write to ``g`` (m,) all guards at the fraction ``part`` (0 to 1) of an internal step.

    The internal step begins at ``t`` s and is ``taken`` s long.
    """
    z, u, p = vector_at(look, AT.z), vector_at(look, AT.u), vector_at(look, AT.p)
    if part <= 0.0:
        call_equation(look[AT.guard], t, vector_at(look, AT.now), z, u, p, g)
    elif part >= 1.0:
        call_equation(
            look[AT.guard], vector_at(look, AT.notes)[END], vector_at(look, AT.out), z, u, p, g
        )
    else:
        call_step(between, look, part, taken)
        call_equation(look[AT.guard], t + part * taken, vector_at(look, AT.y), z, u, p, g)


@in_both
def bends(f: float, near: float, far: float) -> bool:
    """Return whether a guard may have a turning point near an end of an internal step.

    ``f``, ``near`` and ``far`` are the guard's distances from zero at that end of the step, at the
    next point and at the point after it.  A turning point between the end and the next point is
    possible if the guard goes away from zero, and more slowly at first than afterwards.  A linear
    guard has no turning point.
    """
    return 0.0 < f < near and (near - f) * _STRAIGHT < far - near


@in_both
def turn_beside(
    between: Any, look: Any, t: float, taken: float, i: int, end: int, inner: int
) -> Any:  # fmt: skip
    """Bracket a turning point of guard ``i`` near an end of the internal step.

    Returns three fractions of the internal step, and the distances of the guard from zero at these
    three points: the second distance is the least.  The second fraction is ``NOWHERE`` if the guard
    is nearest to zero at the end itself.

    ``end`` is the point at that end of the step, and ``inner`` the point next to it.  The guard is
    farther from zero at ``inner`` than at ``end``, but it may be nearer in between.  An example is
    a ball that its reset left slightly under the floor, by the distance that it falls in 1 ns.
    """
    rows, g = matrix_at(look, AT.g), matrix_at(look, AT.g)[POINTS]
    side = sign(rows[end, i])
    f, near, away = side * rows[end, i], side * rows[inner, i], PARTS[inner] - PARTS[end]
    while abs(away) * taken > _SHORTEST:
        before, wide = near, away
        away /= _CLOSER
        values_at(between, look, t, PARTS[end] + away, taken, g)
        near = side * g[i]
        if near < f:
            if end == 0:
                return 0.0, away, wide, f, near, before
            return 1.0 + wide, 1.0 + away, 1.0, before, near, f
    return 0.0, NOWHERE, 0.0, 0.0, 0.0, 0.0


@in_both
def turning_point(between: Any, look: Any, t: float, taken: float, i: int, j: int) -> float:
    """Return a fraction of the internal step near point ``j`` at which guard ``i`` is beyond zero.

    Returns ``NOWHERE`` if the guard turns back before zero.  Point ``j`` is an end of the internal
    step, or a point at which the guard is nearer to zero than at both neighbours.  The search uses
    parabolas through three points, and the golden section if a parabola does not help.
    """
    rows, g = matrix_at(look, AT.g), matrix_at(look, AT.g)[POINTS]
    side = sign(rows[j, i])
    if 0 < j < POINTS - 1:
        a, b, c = PARTS[j - 1], PARTS[j], PARTS[j + 1]
        fa, fb, fc = side * rows[j - 1, i], side * rows[j, i], side * rows[j + 1, i]
    else:
        inner = 1 if j == 0 else j - 1
        a, b, c, fa, fb, fc = turn_beside(between, look, t, taken, i, j, inner)
    if b == NOWHERE or fb < 0.0:
        return b
    for _ in range(_TURNS):
        left, right = (b - a) * (fb - fc), (b - c) * (fb - fa)
        v = b
        if left != right:
            v = b - ((b - a) * left - (b - c) * right) / (2.0 * (left - right))
        if not (a < v < c and abs(v - b) > 1e-6 * (c - a)):
            v = b + 0.38 * (c - b if c - b > b - a else a - b)
        values_at(between, look, t, v, taken, g)
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
    between: Any, look: Any, t: float, taken: float, i: int, low: float, high: float, behind: float
) -> float:
    """Return the fraction in (low, high] of the step at which guard ``i`` gets the sign ``behind``.

    The slope of the guard there is written to ``flips``.  The method is false position with the
    Illinois modification: if one end of the bracket does not move twice in a row, the guard's value
    at this end is halved.
    """
    g = matrix_at(look, AT.g)[POINTS]
    values_at(between, look, t, low, taken, g)
    a, fa = low, behind * g[i]
    values_at(between, look, t, high, taken, g)
    b, fb = high, behind * g[i]
    if fa == 0.0:
        a, b = stands_until(between, look, t, taken, i, low, high)
    stood = 0
    for trial in range(_TRIALS):
        if not (b - a) * taken > _FINE or fa >= 0.0:
            break
        v = b - fb * (b - a) / (fb - fa)
        if trial % 8 == 7 or not a < v < b:
            v = 0.5 * (a + b)
            if not a < v < b:
                break
        values_at(between, look, t, v, taken, g)
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
    flips = matrix_at(look, AT.flips)
    flips[RATE, i] = 0.0
    width = max(b - a, 1e-6)
    near, far = max(0.0, b - width), min(1.0, b + width)
    values_at(between, look, t, near, taken, g)
    before = g[i]
    values_at(between, look, t, far, taken, g)
    flips[RATE, i] = (g[i] - before) / ((far - near) * taken)
    return b if fa < 0.0 else a


@in_both
def stands_until(
    between: Any, look: Any, t: float, taken: float, i: int, zero: float, other: float
) -> Any:  # fmt: skip
    """Bracket the end of the time at which guard ``i`` is exactly zero, by bisection.

    The guard is zero at the fraction ``zero`` of the internal step, but not at ``other``, before or
    after it.  Returns the fractions nearest to each other at which it still is zero, and is not.
    """
    g = matrix_at(look, AT.g)[POINTS]
    for _ in range(_TRIALS):
        middle = 0.5 * (zero + other)
        if not abs(zero - other) * taken > _FINE or middle in (zero, other):
            break
        values_at(between, look, t, middle, taken, g)
        if g[i] == 0.0:
            zero = middle
        else:
            other = middle
    return zero, other


@in_both
def just_after(between: Any, look: Any, t: float, part: float, taken: float, g: Any) -> None:
    """Write to ``g`` (m,) all guards at a fraction that can be slightly after the internal step."""
    if part <= 1.0:
        values_at(between, look, t, part, taken, g)
        return
    out, y, slope = vector_at(look, AT.out), vector_at(look, AT.y), matrix_at(look, AT.slopes)[1]
    z, u, p = vector_at(look, AT.z), vector_at(look, AT.u), vector_at(look, AT.p)
    end: float = vector_at(look, AT.notes)[END]
    call_equation(look[AT.slope], end, out, z, u, p, slope)
    ahead: float = (part - 1.0) * taken
    for j in range(out.size):
        y[j] = out[j] + ahead * slope[j]
    call_equation(look[AT.guard], end + ahead, y, z, u, p, g)


@in_both
def jumps(
    between: Any, look: Any, t: float, taken: float, i: int, zero: float, other: float
) -> bool:  # fmt: skip
    """Return whether guard ``i`` jumps between zero and the value that it has at ``other``.

    It is zero at the fraction ``zero`` of the internal step.  A guard that comes to zero
    continuously, or leaves it, is nearest to zero beside the time at which it is zero.
    """
    g = matrix_at(look, AT.g)[POINTS]
    _, edge = stands_until(between, look, t, taken, i, zero, other)
    away = _BESIDE / taken
    values_at(between, look, t, edge, taken, g)
    beside = abs(g[i])
    just_after(between, look, t, edge + (away if other > zero else -away), taken, g)
    return bool(beside > 0.5 * abs(g[i]))


@in_both
def turns_after(between: Any, look: Any, t: float, taken: float, i: int, side: float) -> bool:
    """Return whether guard ``i``, which is zero at the end of the step, goes back to ``side``."""
    g = matrix_at(look, AT.g)[POINTS]
    just_after(between, look, t, 1.0 + _BESIDE / taken, taken, g)
    return sign(g[i]) == side


@in_both
def stays_from(
    between: Any, look: Any, t: float, taken: float, i: int, n: int, count: int, before: float
) -> float:  # fmt: skip
    """Return where guard ``i``, which is zero at the visit ``n``, reached zero to stay there.

    ``before`` is the last fraction of the internal step at which it was not zero.  Returns
    ``NOWHERE`` if it is zero only at this point, as a guard that touches or crosses zero can be.
    """
    seen = matrix_at(look, AT.visits)
    part: float = seen[0, n]
    if n + 1 < count and seen[1, n + 1] != 0.0:
        return NOWHERE
    since, _ = stands_until(between, look, t, taken, i, part, before)
    if n + 1 < count or part - since > _STANDS * (part - before):
        return since  # type: ignore[no-any-return]
    return since if jumps(between, look, t, taken, i, part, before) else NOWHERE


@in_both
def turns_at(rows: Any, i: int, j: int) -> bool:
    """Return whether guard ``i`` may be nearest to zero at a turning point near point ``j``."""
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
def visits(between: Any, look: Any, t: float, taken: float, i: int) -> int:
    """Fill ``visits`` with the points of guard ``i`` in order of time; return their number.

    The first row has the points as fractions of the internal step, the second row the signs of the
    guard.  The points are all :data:`PARTS` except the first, and the turning points beyond zero.
    """
    rows = matrix_at(look, AT.g)
    out = matrix_at(look, AT.visits)
    count = 0
    for j in range(POINTS):
        here = sign(rows[j, i])
        turned = NOWHERE
        if turns_at(rows, i, j):
            turned = turning_point(between, look, t, taken, i, j)
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
def find_flips(between: Any, look: Any, t: float, taken: float, last: bool) -> int:
    """Fill ``flips`` for the internal step that begins at ``t`` s; return how many guards flip.

    If a guard does not flip, its ``sides`` becomes its sign at the end of the internal step.  At
    the end of the ``last`` internal step a guard that is exactly zero flips too, unless it was zero
    all the time or turns back there.  Returns :data:`NO_NUMBER` if a guard is not a number.
    """
    directions, sides = vector_at(look, AT.directions), vector_at(look, AT.sides)
    signed, m = vector_at(look, AT.signed), directions.size
    rows, flips, known = matrix_at(look, AT.g), matrix_at(look, AT.flips), matrix_at(look, AT.here)
    seen = matrix_at(look, AT.visits)
    for j in range(POINTS):
        values_at(between, look, t, PARTS[j], taken, rows[j])
        for i in range(m):
            if math.isnan(rows[j, i]):
                return NO_NUMBER
    found = 0
    for i in range(m):
        flips[WHERE, i], flips[LEVEL, i], flips[STAYS, i] = NOWHERE, 0.0, 0.0
        side, before, left_at = sides[i], 0.0, known[LEFT_AT, i]
        flips[SIDE, i] = side
        last_here = sign(rows[0, i])
        count, stood = visits(between, look, t, taken, i), rows[0, i] == 0.0
        for n in range(count):
            part, here = seen[0, n], seen[1, n]
            stood = stood and here == 0.0
            since = NOWHERE
            if here == 0.0 and signed[i] != 0.0:
                if n == 0 and last_here == 0.0:
                    since = 0.0
                elif last_here != 0.0:
                    since = stays_from(between, look, t, taken, i, n, count, before)
            if since != NOWHERE and directions[i] * side > 0.0:  # it fires when it leaves zero
                since, side, signed[i] = NOWHERE, -directions[i], 0.0
            ends = last and n == count - 1 and here == 0.0 and not stood and signed[i] != 0.0
            ends = ends and not turns_after(between, look, t, taken, i, side)
            if side == 0.0 and here != 0.0 and last_here == 0.0:
                side = -here if jumps(between, look, t, taken, i, before, part) else 0.0
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
            flips[WHERE, i] = bracketed(between, look, t, taken, i, low, high, behind)
        else:
            flips[RATE, i] = 0.0
    return found
