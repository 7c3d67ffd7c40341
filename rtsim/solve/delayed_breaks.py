"""Breaks: the times at which a derivative of the solution of a model with delays jumps.

A break begins with a jump: at the start of the run, where the past ends, or at a write.  It arrives
again through each lag, and in a state one derivative higher each time, because a state is an
integral.  A break counts as long as it is in a derivative that the order of the solver needs.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.equations.addresses import call_equation, matrix_at, vector_at
from rtsim.equations.compiling import in_both
from rtsim.equations.delayed_values import (
    AT,
    BREAKS,
    BUMP,
    BY,
    COUNT,
    FIRST_END,
    HEAD,
    KIND,
    MOST,
    OF_LINES,
    OF_STATES,
    ORDER,
    TIME,
    TOP_BREAK,
    TOP_ROW,
    VALUE,
    WHEN,
    before_of,
    find_lags,
    near,
    now_of,
)
from rtsim.equations.delays import LINE, PARAMETER, STATE
from rtsim.solve.base import HISTORY_FULL
from rtsim.solve.method import AT as STEP_AT

_NEVER = 1e9
"""The lowest derivative that jumps where none does."""
SAME = 8.0
"""A step ends at a break that is nearer to its end than this multiple of :func:`near`."""


@in_both
def snapped_at(table: Any) -> int:
    """Return the index of the first element of the memory that says which breaks a step reached."""
    return HEAD + vector_at(table, AT.lag).size  # type: ignore[no-any-return]


@in_both
def own_at(table: Any) -> int:
    """Return the index of the first element of the memory of the solver itself."""
    return HEAD + 2 * vector_at(table, AT.lag).size  # type: ignore[no-any-return]


@in_both
def start_run(words: Any, table: Any) -> float:
    """Note each delayed signal at the start of the run; return the derivative that jumps there."""
    began, start, most = (
        vector_at(table, AT.began),
        vector_at(table, AT.start),
        vector_at(table, AT.most),
    )
    z, u, p = vector_at(words, STEP_AT.z), vector_at(words, STEP_AT.u), vector_at(words, STEP_AT.p)
    how, elements = matrix_at(table, AT.lags), matrix_at(table, AT.elements)
    for j in range(most.size):
        most[j] = how[j, MOST]
        if int(how[j, KIND]) == PARAMETER and math.isnan(how[j, MOST]):
            most[j] = p[int(how[j, VALUE])]
    jumps = 1.0
    for e in range(start.size):
        start[e] = now_of(table, e, began, z, u)
        state = int(elements[e, 0]) == STATE
        if state and before_of(table, True, e, 0.0, began, z, u, p) != start[e]:
            jumps = 0.0
    return jumps


@in_both
def last_row(table: Any, count: int) -> Any:
    """Return the row before number ``count``."""
    rows = matrix_at(table, AT.rows)
    return rows[(count - 1) % rows.shape[0]]


@in_both
def jump_by_write(words: Any, table: Any, t: float, of: int) -> bool:
    """Return whether a write at ``t`` s made a delayed state jump, or else a signal of a line."""
    began, v, elements = (
        vector_at(table, AT.began),
        vector_at(table, AT.v),
        matrix_at(table, AT.elements),
    )
    z, u, p = vector_at(words, STEP_AT.z), vector_at(words, STEP_AT.u), vector_at(words, STEP_AT.p)
    row = last_row(table, int(vector_at(table, AT.after)[COUNT]))
    if of != STATE and v.size > 0:
        call_equation(table[AT.lines_now], t, began, z, u, p, v)
    for e in range(elements.shape[0]):
        kind = int(elements[e, 0])
        if (kind == STATE) != (of == STATE):
            continue
        value = v[int(elements[e, 1])] if kind == LINE else now_of(table, e, began, z, u)
        if value != row[FIRST_END + e]:
            return True
    return False


@in_both
def passes(words: Any, table: Any, t: float, j: int) -> bool:
    """Return whether a signal of ``lines`` depends at once on delay ``j``."""
    began, v, live = (
        vector_at(table, AT.began),
        vector_at(table, AT.v),
        vector_at(table, AT.live),
    )
    if v.size == 0:
        return False
    z, u, p = vector_at(words, STEP_AT.z), vector_at(words, STEP_AT.u), vector_at(words, STEP_AT.p)
    nodes, elements = matrix_at(table, AT.nodes_v), matrix_at(table, AT.elements)
    call_equation(table[AT.lines_now], t, began, z, u, p, nodes[0])
    found = False
    for e in range(elements.shape[0]):
        if int(elements[e, 2]) == j:
            live[BUMP], live[BY] = e + 1.0, 1e-3
            call_equation(table[AT.lines_now], t, began, z, u, p, v)
            live[BUMP] = 0.0
            for i in range(v.size):
                found = found or v[i] != nodes[0, i]
    return found


@in_both
def arrivals(table: Any, t: float, j: int, of: int) -> float:
    """Move to the next break of delay ``j``; return the lowest derivative that jumps on the way."""
    after, breaks = vector_at(table, AT.after), matrix_at(table, AT.breaks)
    lag, snapped = vector_at(table, AT.lag)[j], snapped_at(table) + j
    n, count, places = int(after[HEAD + j]), int(after[BREAKS]), breaks.shape[0]
    level, at, same, live = _NEVER, t - lag, SAME * near(t), vector_at(table, AT.live)
    if not lag > 0.0:
        return level
    if after[snapped] > 0.0 and n < count:
        level = breaks[n % places, of]
        n += 1
    elif after[snapped] < 0.0 and n > 0:
        n -= 1
        level = breaks[n % places, of]
    else:
        while n < count and breaks[n % places, WHEN] <= at + same:
            level = min(level, breaks[n % places, of])
            n += 1
        while (
            n > max(0, int(live[TOP_BREAK]) - places) and breaks[(n - 1) % places, WHEN] > at + same
        ):
            n -= 1
            level = min(level, breaks[n % places, of])
    after[snapped], after[HEAD + j] = 0.0, n
    return level


@in_both
def begin_leg(words: Any, table: Any, t: float) -> int:
    """Keep a break if one is at ``t`` s.

    Returns 1 for a break, else 0; or :data:`HISTORY_FULL` if there is no room.
    """
    after = vector_at(table, AT.after)
    breaks, elements = matrix_at(table, AT.breaks), matrix_at(table, AT.elements)
    z, u, p = vector_at(words, STEP_AT.z), vector_at(words, STEP_AT.u), vector_at(words, STEP_AT.p)
    of_states, of_lines, flag = _NEVER, _NEVER, after.size - 1
    if after[COUNT] == 0.0:
        vector_at(table, AT.live)[TOP_ROW] = vector_at(table, AT.live)[TOP_BREAK] = 0.0
        of_states, of_lines = start_run(words, table), 0.0
    elif after[flag] == 0.0:
        of_states = 0.0 if jump_by_write(words, table, t, STATE) else 1.0
        of_lines = 0.0 if jump_by_write(words, table, t, LINE) else 1.0
    find_lags(table, t, vector_at(table, AT.began), z, u, p)
    last = -1
    for e in range(elements.shape[0]):
        j = int(elements[e, 2])
        if j == last:
            continue
        last = j
        of = OF_STATES if int(elements[e, 0]) == STATE else OF_LINES
        level = arrivals(table, t, j, of)
        if level < _NEVER:
            of_states = min(of_states, level + 1.0)
            of_lines = min(of_lines, level if passes(words, table, t, j) else level + 1.0)
    if min(of_states, of_lines) > vector_at(table, AT.live)[ORDER]:
        return 0
    n, places, live = int(after[BREAKS]), breaks.shape[0], vector_at(table, AT.live)
    if n >= max(places, int(live[TOP_BREAK])) and breaks[n % places, WHEN] >= kept_since(table):
        return HISTORY_FULL
    live[TOP_BREAK] = max(live[TOP_BREAK], n + 1.0)
    breaks[n % places, WHEN] = t
    breaks[n % places, OF_STATES], breaks[n % places, OF_LINES] = of_states, of_lines
    after[BREAKS] = n + 1
    return 1


@in_both
def kept_since(table: Any) -> float:
    """Return the time (s) from which on the past is needed, seen from the last committed step."""
    most, longest = vector_at(table, AT.most), 0.0
    for j in range(most.size):
        if most[j] > longest:
            longest = most[j]
    t = vector_at(table, AT.memory)[TIME]
    return t - longest - 1e3 * near(t)  # type: ignore[no-any-return]
