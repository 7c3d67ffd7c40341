"""The first whole ns at which a guard has crossed zero, found by repeating the internal step.

The dense output (:mod:`rtsim.solve.flips`) gives a first estimate.  The solver then repeats its
internal step with other lengths, so that the state at an event is a state of the solver itself.

The tag of the event is that whole ns.  The state at the tag is the one at the crossing, less than
1 ns earlier (:data:`rtsim.solve.look.LATE`), and the next advance begins there.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.core.tag import NS_PER_S
from rtsim.equations.addresses import call_equation, call_step, matrix_at, vector_at
from rtsim.equations.compiling import in_both
from rtsim.solve.flips import sign
from rtsim.solve.look import (
    AT,
    FROM,
    LAST,
    LATE,
    LEVEL,
    NOWHERE,
    POINTS,
    RATE,
    SIDE,
    STAYS,
    TAKEN,
    WHERE,
    WHOLE,
)

_NEAR = 1 / 16
"""Fraction of an internal step within which the order of two flips on the dense output can be
wrong.
"""
_CORRECTIONS = 6
"""Number of corrections of the estimate by Newton's method before brackets are used."""
_BEFORE, _AFTER = 0, 1
"""Rows of ``g``: all guards just before the crossing, and just after it."""
_REFINEMENTS, _FIRST_MOVE = 8, 1e-7
"""Number of attempts to end the internal step just after the crossing, and how far after the
estimate the first attempt ends it, as a fraction of 1 ns.  Rounding errors of a guard need more.
"""


@in_both
def taken_to(
    retake: Any, words: Any, look: Any, from_ns: int, done: float, ns: int
) -> Any:  # fmt: skip
    """Repeat the internal step that began ``done`` s after the advance, but end it at ``ns``.

    Returns the values of all guards (m,) at ``ns``, each minus the level that the guard crosses.
    """
    return taken_until(retake, words, look, from_ns, done, ns, 0.0)


@in_both
def taken_until(
    retake: Any, words: Any, look: Any, from_ns: int, done: float, ns: int, late: float
) -> Any:  # fmt: skip
    """Do the same as :func:`taken_to`, but end the internal step ``late`` s before ``ns``."""
    g, level = matrix_at(look, AT.g)[POINTS], matrix_at(look, AT.flips)[LEVEL]
    began = matrix_at(look, AT.here)[LATE, 0]
    h = (ns - from_ns) / NS_PER_S + began - late - done
    call_step(retake, words, from_ns / NS_PER_S - began + done, h)
    z, u, p = vector_at(look, AT.z), vector_at(look, AT.u), vector_at(look, AT.p)
    call_equation(look[AT.guard], ns / NS_PER_S - late, vector_at(look, AT.out), z, u, p, g)
    for i in range(g.size):
        g[i] -= level[i]
    return g


@in_both
def note_guards(look: Any, row: int, ns: int, from_ns: int) -> None:
    """Keep the last values of :func:`taken_to`, which are those at ``ns``, in a row of ``g``."""
    rows = matrix_at(look, AT.g)
    for i in range(rows.shape[1]):
        rows[row, i] = rows[POINTS, i]
    vector_at(look, AT.tried)[row] = ns - from_ns


@in_both
def crossed(look: Any, i: int, value: float, ns: int, end_ns: int) -> bool:
    """Return whether guard ``i`` has crossed if it has this ``value`` at ``ns``.

    It then has the sign after its flip, or is 0 at the end of the advance or to stay there.
    """
    flips = matrix_at(look, AT.flips)
    ends: bool = value == 0.0 and (ns == end_ns or flips[STAYS, i] != 0.0)
    return ends or sign(value) == flips[SIDE, i]


@in_both
def first_ns(
    retake: Any, words: Any, look: Any, from_ns: int, done: float, i: int, low: int, high: int,
    guess: int, end_ns: int,
) -> int:  # fmt: skip
    """Return the first ns in (low, high] at which guard ``i`` has crossed, else ``low``."""
    flips = matrix_at(look, AT.flips)
    rate = flips[RATE, i] / NS_PER_S
    not_yet, already, n = low, high + 1, min(max(guess, low + 1), high)
    for _ in range(_CORRECTIONS):  # the internal step differs slightly from its dense output
        value = taken_to(retake, words, look, from_ns, done, n)[i]
        if crossed(look, i, value, n, end_ns):
            already = min(already, n)
            note_guards(look, _AFTER, n, from_ns)
        else:
            not_yet = max(not_yet, n)
            note_guards(look, _BEFORE, n, from_ns)
        move = -value / rate if rate != 0.0 else 0.0
        if not abs(move) > 1.0 or not abs(move) < 1e9:
            break
        n = min(max(n + math.ceil(move), not_yet + 1), already - 1, high)
        if n <= not_yet or n >= already:
            break
    step = 1
    while already > high and not_yet < high:
        n = min(not_yet + step, high)
        if crossed(look, i, taken_to(retake, words, look, from_ns, done, n)[i], n, end_ns):
            already = n
            note_guards(look, _AFTER, n, from_ns)
        else:
            not_yet = n
            note_guards(look, _BEFORE, n, from_ns)
        step *= 2
    if already > high:
        return low
    step = 1
    while already - not_yet > 1:
        n = max(already - step, not_yet + 1)
        if step > 1 << 20 or n == not_yet + 1:
            n = (not_yet + already) // 2
        if crossed(look, i, taken_to(retake, words, look, from_ns, done, n)[i], n, end_ns):
            already = n
            note_guards(look, _AFTER, n, from_ns)
            step *= 2
        else:
            not_yet = n
            note_guards(look, _BEFORE, n, from_ns)
            step = 1
    return already


@in_both
def seen_ns(look: Any, i: int, from_ns: int, done: float, begin: int, high: int) -> int:
    """Return the last ns before the flip at which guard ``i`` was evaluated."""
    flips = matrix_at(look, AT.flips)
    if flips[FROM, i] <= 0.0:
        return begin
    late = matrix_at(look, AT.here)[LATE, 0]
    at: float = (done + flips[FROM, i] * vector_at(look, AT.notes)[TAKEN] - late) * NS_PER_S
    return max(begin, min(from_ns + math.floor(at), high - 1))


@in_both
def flips_ns(look: Any, i: int, from_ns: int, done: float, high: int) -> int:
    """Return the first ns after the flip of guard ``i`` on the dense output."""
    flips = matrix_at(look, AT.flips)
    if flips[WHERE, i] >= 1.0:
        return high
    late = matrix_at(look, AT.here)[LATE, 0]
    at: float = (done + flips[WHERE, i] * vector_at(look, AT.notes)[TAKEN] - late) * NS_PER_S
    return min(from_ns + math.ceil(at), high)


@in_both
def first_flip(look: Any) -> int:
    """Return the guard that flips first on the dense output, or -1 if none flips."""
    flips = matrix_at(look, AT.flips)
    first = -1
    for i in range(flips.shape[1]):
        here = flips[WHERE, i]
        if here != NOWHERE and (first < 0 or here < flips[WHERE, first]):
            first = i
    return first


@in_both
def locate(
    retake: Any, words: Any, look: Any, from_ns: int, done: float, end_ns: int
) -> int:  # fmt: skip
    """Take the internal step up to the first ns at which a guard has crossed; return that ns.

    ``fired`` then marks the guards that crossed.  Returns ``from_ns`` if the internal step shows no
    crossing, although its dense output did; ``out`` then is the state at the end of the whole
    internal step.
    """
    notes, fired = vector_at(look, AT.notes), vector_at(look, AT.fired)
    m, taken = fired.size, notes[TAKEN]
    flips = matrix_at(look, AT.flips)
    late, tried = matrix_at(look, AT.here)[LATE, 0], vector_at(look, AT.tried)
    high = end_ns
    if notes[LAST] == 0.0:
        ends = from_ns + math.ceil((done + taken - late) * NS_PER_S)
        high = min(end_ns, max(ends, from_ns + 1))
    begin = max(from_ns, min(from_ns + math.floor((done - late) * NS_PER_S), high - 1))
    while True:
        first = first_flip(look)
        if first < 0:
            call_step(retake, words, from_ns / NS_PER_S - late + done, taken)
            return from_ns
        low = seen_ns(look, first, from_ns, done, begin, high)
        guess = flips_ns(look, first, from_ns, done, high)
        tried[_BEFORE] = tried[_AFTER] = -1.0
        ns = first_ns(retake, words, look, from_ns, done, first, low, high, guess, end_ns)
        if ns > low:
            break
        flips[WHERE, first], flips[SIDE, first] = NOWHERE, -flips[SIDE, first]
    margin = flips[WHERE, first] + _NEAR
    again = m > 1
    while again and ns - 1 > begin:  # the order of two guards on the dense output can be wrong
        again = False
        g = taken_to(retake, words, look, from_ns, done, ns - 1)
        note_guards(look, _BEFORE, ns - 1, from_ns)
        for i in range(m):
            if i == first or flips[WHERE, i] == NOWHERE or flips[WHERE, i] > margin:
                continue
            low = seen_ns(look, i, from_ns, done, begin, high)
            if low < ns - 1 and crossed(look, i, g[i], ns - 1, end_ns):
                guess = flips_ns(look, i, from_ns, done, high)
                ns = first_ns(retake, words, look, from_ns, done, i, low, ns - 1, guess, end_ns)
                again = True
                break
    if tried[_AFTER] != ns - from_ns:
        taken_to(retake, words, look, from_ns, done, ns)
        note_guards(look, _AFTER, ns, from_ns)
    g = matrix_at(look, AT.g)[_AFTER]
    for i in range(m):
        fired[i] = 0.0
        if flips[WHERE, i] != NOWHERE and crossed(look, i, g[i], ns, end_ns):
            fired[i] = 1.0 if seen_ns(look, i, from_ns, done, begin, high) < ns else 0.0
    vector_at(look, AT.reached)[1] = refined(retake, words, look, from_ns, done, ns)
    return ns


@in_both
def refined(retake: Any, words: Any, look: Any, from_ns: int, done: float, ns: int) -> float:
    """Take the internal step up to the crossing itself; return how long before ``ns`` it is (s).

    The crossing is the last one of the guards that fire at ``ns``.  Without a sign change within
    the last ns, the internal step ends at ``ns``, and the result is 0.
    """
    before, after = matrix_at(look, AT.g)[_BEFORE], matrix_at(look, AT.g)[_AFTER]
    fired, tried = vector_at(look, AT.fired), vector_at(look, AT.tried)
    flips = matrix_at(look, AT.flips)
    longest = min(
        1.0 / NS_PER_S, (ns - from_ns) / NS_PER_S + matrix_at(look, AT.here)[LATE, 0] - done
    )
    if tried[_BEFORE] != ns - 1 - from_ns:
        seen_at(retake, words, look, from_ns, done, ns, longest)
    late: float = longest if vector_at(look, AT.notes)[WHOLE] == 0.0 else 0.0
    for i in range(fired.size):
        if fired[i] != 0.0:
            changes = sign(before[i]) == -flips[SIDE, i] or (before[i] == 0.0 and ns - 1 > from_ns)
            changes = changes and sign(after[i]) == flips[SIDE, i] and flips[LEVEL, i] == 0.0
            part = after[i] / (after[i] - before[i]) if changes else 0.0
            late = min(late, part * longest)
    later = _FIRST_MOVE * longest
    for _ in range(_REFINEMENTS):
        late = max(0.0, late - later)
        g = taken_until(retake, words, look, from_ns, done, ns, late)
        again, missing = False, 0.0
        for i in range(fired.size):
            if fired[i] != 0.0 and sign(g[i]) != flips[SIDE, i]:
                again = True
                if after[i] != before[i]:
                    missing = max(missing, abs(g[i] / (after[i] - before[i])))
        if late == 0.0 or not again:
            return late
        later = max(4.0 * missing * longest, 16.0 * later)
    taken_to(retake, words, look, from_ns, done, ns)
    return 0.0


@in_both
def seen_at(
    retake: Any, words: Any, look: Any, from_ns: int, done: float, ns: int, late: float
) -> None:
    """Write the guards ``late`` s before ``ns``, or at the beginning of the internal step."""
    if late >= 1.0 / NS_PER_S:
        taken_to(retake, words, look, from_ns, done, ns - 1)
    else:
        g, z = matrix_at(look, AT.g)[POINTS], vector_at(look, AT.z)
        now, u, p = vector_at(look, AT.now), vector_at(look, AT.u), vector_at(look, AT.p)
        began = from_ns / NS_PER_S - matrix_at(look, AT.here)[LATE, 0] + done
        call_equation(look[AT.guard], began, now, z, u, p, g)
    note_guards(look, _BEFORE, ns - 1, from_ns)
