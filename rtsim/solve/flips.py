"""Where guards change their sign within a leg, on the solver's dense output.

A guard is looked at in :data:`PARTS` of the leg; where it comes nearer to zero and goes away again,
also at its turning point: it may have crossed there and back.  Within the first part and the last
one a turning point is looked for where the guard bends away from zero.  What stays unseen is a
guard that does so between two neighbouring parts and shows no turning point at either.
"""

from __future__ import annotations

from typing import Any

from rtsim.equations.addresses import call_equation, call_step, matrix_at, vector_at
from rtsim.equations.compiling import in_both
from rtsim.solve.legs import (
    DIRECTIONS,
    END,
    FLIPS,
    GUARD,
    HERE,
    LEG,
    NOW,
    OUT,
    SIDES,
    VISITS,
    G,
    P,
    U,
    Y,
    Z,
)

PARTS = (0.0, 1 / 1024, 1 / 4, 1 / 2, 3 / 4, 1023 / 1024, 1.0)
POINTS = len(PARTS)
NOWHERE = -1.0
WHERE, FROM, SIDE, RATE, LEVEL = range(5)
"""Rows of the flips (5, m): the part of the leg at which a guard flips (or NOWHERE), the last one
that was seen before, the side on which it is then, its slope there (1/s), the value that it passes:
zero, or where its reset left it."""
ROWS = 5
SIGN, CAME_TO, LEFT_AT = range(3)
"""Rows of what is known of the guards at a tag (3, m): on which side of zero each is; the side to
which one has crossed that fired where it stood at zero; the value at which its reset left one that
it turned back, and that has not been back at zero: under the floor by what it fell in a ns."""
KNOWN = 3
_TURNS, _TRIALS = 12, 100
_STRAIGHT = 2.0 * (PARTS[2] - PARTS[1]) / PARTS[1]
"""What a straight guard changes within the second part, to what it does within the first, twice."""
_CLOSER = 16.0
_SHORTEST = 5e-10
"""How near to an end of the leg a turning point is looked for (s)."""
_FINE = 1e-10
"""Brackets shorter than this (s) are not divided further."""


@in_both
def sign(value: float) -> float:
    """-1, 0 or 1; of nan 0."""
    return 1.0 if value > 0.0 else -1.0 if value < 0.0 else 0.0


@in_both
def values_at(between: Any, look: Any, t: float, part: float, taken: float, g: Any) -> None:
    """All guards (m,) at a ``part`` of the leg from ``t`` s, ``taken`` s long."""
    z, u, p = vector_at(look, Z), vector_at(look, U), vector_at(look, P)
    if part <= 0.0:
        call_equation(look[GUARD], t, vector_at(look, NOW), z, u, p, g)
    elif part >= 1.0:
        call_equation(look[GUARD], vector_at(look, LEG)[END], vector_at(look, OUT), z, u, p, g)
    else:
        call_step(between, look, part, taken)
        call_equation(look[GUARD], t + part * taken, vector_at(look, Y), z, u, p, g)


@in_both
def bends(f: float, near: float, far: float) -> bool:
    """Whether a guard may turn between an end of the leg and the point next to it.

    It is so far from zero at the end, at that point, and at the one behind: it goes away from zero,
    and slowly to what it does behind.  A straight one does not turn, and is not looked at.
    """
    return 0.0 < f < near and (near - f) * _STRAIGHT < far - near


@in_both
def turn_beside(
    between: Any, look: Any, t: float, taken: float, i: int, end: int, inner: int
) -> Any:  # fmt: skip
    """Three parts of the leg, and how far guard ``i`` is from zero there: least at the second.

    It goes away from zero from the ``end`` on, and may have come nearer first: so does a ball whose
    reset left it under the floor by what it fell in a ns.  It is looked at ever nearer to that end;
    ``NOWHERE`` where it is nearest to zero right there.
    """
    m = vector_at(look, DIRECTIONS).size
    rows, g = matrix_at(look, G, m), matrix_at(look, G, m)[POINTS]
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
    """Where guard ``i`` is beyond zero near point ``j``: an end, or nearer to zero than beside it.

    Parabolas through three points, the golden section where they lead nowhere; ``NOWHERE`` where
    it turns back before zero.
    """
    m = vector_at(look, DIRECTIONS).size
    rows, g = matrix_at(look, G, m), matrix_at(look, G, m)[POINTS]
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
    """The part of the leg in (low, high] at which guard ``i`` comes to the side ``behind``.

    The bracketing rule of false position, halved where it stands still (Illinois).
    """
    m = vector_at(look, DIRECTIONS).size
    g = matrix_at(look, G, m)[POINTS]
    values_at(between, look, t, low, taken, g)
    a, fa = low, behind * g[i]
    values_at(between, look, t, high, taken, g)
    b, fb = high, behind * g[i]
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
    flips = matrix_at(look, FLIPS, m)
    flips[RATE, i] = 0.0
    width = max(b - a, 1e-6)
    near, far = max(0.0, b - width), min(1.0, b + width)
    values_at(between, look, t, near, taken, g)
    before = g[i]
    values_at(between, look, t, far, taken, g)
    flips[RATE, i] = (g[i] - before) / ((far - near) * taken)
    return b if fa < 0.0 else a


@in_both
def turns_at(rows: Any, i: int, j: int) -> bool:
    """Whether guard ``i`` may have a turning point near point ``j`` that comes nearer to zero."""
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
    """Points at which guard ``i`` is to be looked at, in their order: (2, n) of parts and signs."""
    rows = matrix_at(look, G, vector_at(look, DIRECTIONS).size)
    out = matrix_at(look, VISITS, 2 * POINTS)
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
    """Fill the flips of all guards in the leg from ``t`` s; how many flip in their direction.

    Where none does, ``SIDES`` are those at its end.  At the ``last`` leg's end zero is a flip too,
    unless it was there all the time.
    """
    directions, sides = vector_at(look, DIRECTIONS), vector_at(look, SIDES)
    m = directions.size
    rows, flips, known = matrix_at(look, G, m), matrix_at(look, FLIPS, m), matrix_at(look, HERE, m)
    seen = matrix_at(look, VISITS, 2 * POINTS)
    for j in range(POINTS):
        values_at(between, look, t, PARTS[j], taken, rows[j])
    found = 0
    for i in range(m):
        flips[WHERE, i], flips[LEVEL, i] = NOWHERE, 0.0
        side, before, left_at = sides[i], 0.0, known[LEFT_AT, i]
        count, stood = visits(between, look, t, taken, i), rows[0, i] == 0.0
        for n in range(count):
            part, here = seen[0, n], seen[1, n]
            stood = stood and here == 0.0
            ends = last and n == count - 1 and here == 0.0 and not stood
            if side != 0.0 and (here == -side or ends) and directions[i] * side <= 0.0:
                flips[SIDE, i], flips[FROM, i], flips[WHERE, i] = -side, before, part
                found += 1
                break
            side = here if here != 0.0 else side
            before = part
        if flips[WHERE, i] == NOWHERE and side * left_at > 0.0 and side == sides[i]:
            if side * rows[POINTS - 1, i] > side * left_at:  # it turned again before zero
                flips[SIDE, i], flips[FROM, i], flips[WHERE, i] = side, 0.0, 0.0
                flips[RATE, i], flips[LEVEL, i] = 0.0, left_at
                found += 1
        elif flips[WHERE, i] == NOWHERE:
            sides[i] = side
        elif sign(rows[POINTS - 1, i]) != 0.0 or flips[WHERE, i] < 1.0:
            low, high, behind = flips[FROM, i], flips[WHERE, i], flips[SIDE, i]
            flips[WHERE, i] = bracketed(between, look, t, taken, i, low, high, behind)
        else:
            flips[RATE, i] = 0.0
    return found
