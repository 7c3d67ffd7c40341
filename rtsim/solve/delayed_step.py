"""The internal steps of any solver of rtsim on a model with delays.

A step of the solver itself goes on from ``began``, with a memory of its own.  Around it,
:func:`delayed_leg` does three things.  It ends the step where a break arrives through a delay
(:mod:`rtsim.equations.delayed_values`), so that no step contains one: each method keeps its order.
It takes no step longer than the shortest lag, so that a delayed signal is known when a step needs
it.  And it keeps the signals over the step as polynomials, from the dense output of the solver.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.equations.addresses import call_step, matrix_at, table_at, vector_at, words_at
from rtsim.equations.compiling import in_both
from rtsim.equations.delayed_values import (
    AT,
    COUNT,
    END,
    FAULTY,
    KIND,
    LEAST,
    LEG,
    TIME,
    TOP_ROW,
    earlier,
    find_lags,
    later,
    near,
)
from rtsim.equations.delays import FUNCTION
from rtsim.solve.base import GOOD, HISTORY_FULL, PAUSED
from rtsim.solve.delayed_breaks import SAME, begin_leg, kept_since, own_at, snapped_at
from rtsim.solve.delayed_rows import between_ends, find_slopes, write_row
from rtsim.solve.legs import covered, pauses
from rtsim.solve.look import BEGAN, LAST, PHASE, SPENT, TAKEN, TRIED
from rtsim.solve.method import AT as STEP_AT
from rtsim.solve.vectors import assign

KEPT, BUDGETED = range(2)
"""Elements of ``settings``: the number of elements of the solver's memory that a break does not
clear; 1 if a repeated step takes its state from the dense output."""


@in_both
def longest_step(table: Any, t: float, rest: float) -> float:
    """Return the length (s) of the next internal step: to a break, and no longer than any lag."""
    after, lag = vector_at(table, AT.after), vector_at(table, AT.lag)
    how = matrix_at(table, AT.lags)
    span, limit = rest, math.inf
    for j in range(lag.size):
        if lag[j] == 0.0:
            continue
        if int(how[j, KIND]) == FUNCTION:
            limit = min(limit, how[j, LEAST])
            continue
        limit = min(limit, lag[j])
        way = later(table, after, j) + lag[j] - t
        if way < span - SAME * near(t):
            span = way
    if not span > limit * (1.0 + 1e-9):  # also if a lag is nan: the step then says so
        return span
    return span / math.ceil(span / limit * (1.0 - 1e-12))


@in_both
def crossing(words: Any, table: Any, t: float, taken: float) -> float:
    """Return the fraction of the internal step at which a variable lag first crosses a break.

    Returns 2 if no lag crosses one, else ``snaps`` marks the delay.
    """
    after, lag, y = vector_at(table, AT.after), vector_at(table, AT.lag), vector_at(table, AT.y)
    how, out = matrix_at(table, AT.lags), vector_at(words, STEP_AT.out)
    z, u, p = vector_at(words, STEP_AT.z), vector_at(words, STEP_AT.u), vector_at(words, STEP_AT.p)
    snaps = vector_at(table, AT.snaps)
    first, same = 2.0, SAME * near(t + taken)
    for j in range(lag.size):
        if int(how[j, KIND]) != FUNCTION:
            continue
        find_lags(table, t + taken, out, z, u, p)
        at, side = t + taken - lag[j], 0.0
        wall = later(table, after, j)
        if at > wall + same:
            side = 1.0
        elif at < earlier(table, after, j) - same:
            wall, side = earlier(table, after, j), -1.0
        if side == 0.0:
            continue
        if first == 2.0:
            find_slopes(words, table, t, taken)
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            between_ends(words, table, middle, taken)
            find_lags(table, t + middle * taken, y, z, u, p)
            if side * (t + middle * taken - lag[j] - wall) >= 0.0:
                high = middle
            else:
                low = middle
        if high < first:
            for i in range(lag.size):
                snaps[i] = 0.0
            first, snaps[j] = high, side
    return first


@in_both
def cut_at_break(words: Any, table: Any, t: float, taken: float) -> float:
    """Shorten the internal step until no variable lag crosses a break; return its length (s)."""
    for _ in range(8):
        part = crossing(words, table, t, taken)
        if part > 1.0 - 1e-12:
            break
        taken = max(part * taken, 4.0 * SAME * near(t))
        call_step(table[AT.retake], words_at(table, AT.inner), t, taken)
    return taken


@in_both
def inner_leg(words: Any, table: Any, t: float, rest: float) -> int:
    """Take one internal step, of at most ``rest`` s, and keep the signals over it."""
    after, own = vector_at(table, AT.after), vector_at(table, AT.own)
    settings, how = vector_at(table, AT.settings), matrix_at(table, AT.lags)
    inner_notes, notes = vector_at(table, AT.inner_notes), vector_at(table, AT.notes)
    rows = matrix_at(table, AT.rows)
    found = begin_leg(words, table, t)
    if found == HISTORY_FULL:
        return HISTORY_FULL
    if found == 1 or after[after.size - 1] == 0.0:
        for i in range(int(settings[KEPT]), own.size):
            own[i] = 0.0
    n, places, live = int(after[COUNT]), rows.shape[0], vector_at(table, AT.live)
    if n >= max(places, int(live[TOP_ROW])) and rows[n % places, END] >= kept_since(table):
        return HISTORY_FULL
    live[TOP_ROW] = max(live[TOP_ROW], n + 1.0)
    allowed = longest_step(table, t, rest)
    inner_notes[PHASE], inner_notes[TAKEN], inner_notes[LAST] = 0.0, allowed, 1.0
    inner_notes[TRIED], inner_notes[SPENT] = notes[TRIED], notes[SPENT]
    answer = call_step(table[AT.leg], words_at(table, AT.inner), t, allowed)
    notes[BEGAN], notes[TRIED] = t, inner_notes[TRIED]
    notes[SPENT] = max(inner_notes[SPENT], notes[SPENT] + 1.0)
    if answer != GOOD:
        return answer
    length = inner_notes[TAKEN]
    taken, snaps = length, vector_at(table, AT.snaps)
    for j in range(how.shape[0]):
        snaps[j] = 0.0
    for j in range(how.shape[0]):
        if int(how[j, KIND]) == FUNCTION:
            taken = length = cut_at_break(words, table, t, length)
            break
    whole = inner_notes[LAST] != 0.0 and allowed == rest and taken == allowed
    write_row(words, table, n, t, taken, length)
    after[COUNT] = n + 1
    notes[TAKEN], notes[LAST] = taken, 1.0 if whole else 0.0
    finish_leg(table, t + taken, True)
    return GOOD


@in_both
def finish_leg(table: Any, end: float, whole: bool) -> None:
    """Note that the internal step ends at ``end`` s; ``whole``: it was not shortened since."""
    snaps, snapped = vector_at(table, AT.snaps), snapped_at(table)
    for j in range(snaps.size):
        vector_at(table, AT.after)[snapped + j] = snaps[j] if whole else 0.0
    after, inner, first = (
        vector_at(table, AT.after),
        vector_at(table, AT.own_after),
        own_at(table),
    )
    after[TIME], after[after.size - 1] = end, 1.0
    for i in range(inner.size):
        after[first + i] = inner[i]


def delayed_leg(words: Any, t: float, rest: float) -> int:
    """Take the next internal step, which begins at ``t`` s and lasts at most ``rest`` s."""
    p = vector_at(words, STEP_AT.p)
    table = table_at(p[p.size - 1])
    notes, live, own = (
        vector_at(table, AT.notes),
        vector_at(table, AT.live),
        vector_at(table, AT.own),
    )
    after, began = vector_at(table, AT.after), vector_at(table, AT.began)
    if notes[PHASE] == 0.0:
        notes[PHASE] = 1.0
        assign(after, vector_at(table, AT.memory))
        assign(began, vector_at(words, STEP_AT.x))
        first = own_at(table)
        for i in range(own.size):
            own[i] = after[first + i]
    else:
        assign(began, vector_at(words, STEP_AT.out))
        assign(own, vector_at(table, AT.own_after))
    live[FAULTY], live[LEG] = 0.0, 1.0
    answer = inner_leg(words, table, t, rest)
    live[LEG] = 0.0
    return answer


def delayed_retake(words: Any, t: float, h: float) -> int:
    """Repeat the last internal step from ``t`` s with the length ``h`` s."""
    p = vector_at(words, STEP_AT.p)
    table = table_at(p[p.size - 1])
    live, after = vector_at(table, AT.live), vector_at(table, AT.after)
    notes, inner_notes = vector_at(table, AT.notes), vector_at(table, AT.inner_notes)
    live[LEG] = 1.0
    n = int(after[COUNT]) - 1
    after[COUNT] = n  # the repeated step does not read its own row
    answer = call_step(table[AT.retake], words_at(table, AT.inner), t, h)
    budgeted = vector_at(table, AT.settings)[BUDGETED] != 0.0
    write_row(words, table, n, t, h, inner_notes[TAKEN] if budgeted else h)
    after[COUNT] = n + 1
    finish_leg(table, t + h, h == notes[TAKEN])
    live[LEG] = 0.0
    return answer


def delayed_step(words: Any, t: float, h: float) -> int:
    """Take all internal steps from ``t`` s to ``h`` s later; the advance can pause between them."""
    p = vector_at(words, STEP_AT.p)
    table = table_at(p[p.size - 1])
    notes = vector_at(table, AT.notes)
    done = covered(notes)
    while True:
        answer = call_step(table[AT.whole_leg], words, t + done, h - done)
        if answer != GOOD or notes[LAST] != 0.0:
            return answer
        done += notes[TAKEN]
        if pauses(notes, done):
            return PAUSED
