"""Where guards change their sign within a leg, on the solver's dense output.

A guard is looked at in :data:`PARTS` of the leg; where it comes nearer to zero and goes away again,
also at its turning point: it may have crossed there and back.  What stays unseen is a guard that
does so between two neighbouring parts and shows no turning point at either.
"""

from __future__ import annotations

from typing import Any

from rtsim.addresses import call_equation, call_step, matrix_at, vector_at
from rtsim.compiling import in_both
from rtsim.solve.legs import (
    DIRECTIONS,
    END,
    FLIPS,
    GUARD,
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
WHERE, FROM, SIDE, RATE = range(4)
"""Rows of the flips (4, m): the part of the leg at which a guard flips (or NOWHERE), the last one
that was seen before, the side on which it is then, its slope there (1/s)."""
ROWS = 4
_TURNS, _TRIALS = 12, 100
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
def turning_point(between: Any, look: Any, t: float, taken: float, i: int, j: int) -> float:
    """Where guard ``i``, at point ``j`` nearer to zero than beside it, is beyond zero.

    Parabolas through three points, the golden section where they lead nowhere; ``NOWHERE`` where
    it turns back before zero.
    """
    m = vector_at(look, DIRECTIONS).size
    rows, g = matrix_at(look, G, m), matrix_at(look, G, m)[POINTS]
    side = sign(rows[j, i])
    a, b, c = PARTS[j - 1], PARTS[j], PARTS[j + 1]
    fa, fb, fc = side * rows[j - 1, i], side * rows[j, i], side * rows[j + 1, i]
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
def visits(between: Any, look: Any, t: float, taken: float, i: int) -> int:
    """Points at which guard ``i`` is to be looked at, in their order: (2, n) of parts and signs."""
    rows = matrix_at(look, G, vector_at(look, DIRECTIONS).size)
    out = matrix_at(look, VISITS, 2 * POINTS)
    count = 0
    turned = NOWHERE
    for j in range(1, POINTS):
        here = sign(rows[j, i])
        if turned > PARTS[j - 1]:  # found from the point before, and lies behind it
            out[0, count], out[1, count] = turned, -here
            count += 1
        turned = NOWHERE
        alike = here == sign(rows[j - 1, i]) and j + 1 < POINTS
        if alike and here != 0.0 and here == sign(rows[j + 1, i]):
            f = here * rows[j, i]
            if f <= here * rows[j - 1, i] and f <= here * rows[j + 1, i]:
                turned = turning_point(between, look, t, taken, i, j)
                if NOWHERE < turned < PARTS[j]:
                    out[0, count], out[1, count] = turned, -here
                    count += 1
        out[0, count], out[1, count] = PARTS[j], here
        count += 1
    return count


@in_both
def find_flips(between: Any, look: Any, t: float, taken: float, last: bool) -> int:
    """Fill the flips of all guards in the leg from ``t`` s; how many flip in their direction.

    Where none does, ``SIDES`` are those at its end.  At the ``last`` leg's end zero is a flip too.
    """
    directions, sides = vector_at(look, DIRECTIONS), vector_at(look, SIDES)
    m = directions.size
    rows, flips = matrix_at(look, G, m), matrix_at(look, FLIPS, m)
    seen = matrix_at(look, VISITS, 2 * POINTS)
    for j in range(POINTS):
        values_at(between, look, t, PARTS[j], taken, rows[j])
    found = 0
    for i in range(m):
        flips[WHERE, i] = NOWHERE
        side, before = sides[i], 0.0
        count = visits(between, look, t, taken, i)
        for n in range(count):
            part, here = seen[0, n], seen[1, n]
            ends = last and n == count - 1 and here == 0.0
            if side != 0.0 and (here == -side or ends) and directions[i] * side <= 0.0:
                flips[SIDE, i], flips[FROM, i], flips[WHERE, i] = -side, before, part
                found += 1
                break
            side = here if here != 0.0 else side
            before = part
        if flips[WHERE, i] == NOWHERE:
            sides[i] = side
        elif sign(rows[POINTS - 1, i]) != 0.0 or flips[WHERE, i] < 1.0:
            low, high, behind = flips[FROM, i], flips[WHERE, i], flips[SIDE, i]
            flips[WHERE, i] = bracketed(between, look, t, taken, i, low, high, behind)
        else:
            flips[RATE, i] = 0.0
    return found
