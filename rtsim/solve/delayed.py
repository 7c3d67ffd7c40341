"""Any method of rtsim's own solvers, extended to models with delays.

The past of each delayed signal is a row per internal step.  A break is a time at which a
derivative of the solution jumps; an internal step ends there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.equations.addresses import (
    call_equation,
    call_step,
    matrix_at,
    table_at,
    vector_at,
    words_at,
)
from rtsim.equations.compiling import in_both
from rtsim.equations.delayed_values import (
    AT,
    BEGIN,
    BREAKS,
    BUMP,
    BY,
    COUNT,
    END,
    FAULTY,
    FIRST_END,
    HEAD,
    KIND,
    LEAST,
    LEG,
    LENGTH,
    LIVE,
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
    earlier,
    find_lags,
    later,
    near,
    now_of,
)
from rtsim.equations.delays import FUNCTION, LINE, PARAMETER, STATE
from rtsim.equations.history import Function
from rtsim.equations.model import BoundModel
from rtsim.solve.base import GOOD, HISTORY_FULL, PAUSED
from rtsim.solve.legs import covered, pauses, within
from rtsim.solve.look import BEGAN, LAST, NOTES, PHASE, SPENT, TAKEN, TRIED
from rtsim.solve.method import AT as STEP_AT
from rtsim.solve.method import STEP_LAYOUT, Inner, Method, address_of, functions_of, model_sizes
from rtsim.solve.vectors import assign

# The rows of the past: each delayed signal over one internal step, as a polynomial.


@in_both
def between_ends(words: Any, table: Any, part: float, taken: float) -> None:
    """Write to ``y`` the state at the fraction ``part`` of the last internal step of the solver.

    ``slopes`` has the derivatives at both ends, unless the solver has a dense output of its own.
    """
    y, began = vector_at(table, AT.y), vector_at(table, AT.began)
    out = vector_at(words, STEP_AT.out)
    k, slopes = matrix_at(table, AT.k), matrix_at(table, AT.slopes)
    if k.shape[0] > 0:
        within(y, began, k, matrix_at(table, AT.dense), part, taken)
        return
    rest = 1.0 - part
    for i in range(y.size):
        way = out[i] - began[i]
        bend = (rest - part) * way - rest * taken * slopes[0, i] + part * taken * slopes[1, i]
        y[i] = began[i] + part * (way - rest * bend)


@in_both
def find_slopes(words: Any, table: Any, t: float, taken: float) -> None:
    """Fill ``slopes``, if the solver has no dense output of its own."""
    if matrix_at(table, AT.k).shape[0] > 0:
        return
    began, out, slopes = (
        vector_at(table, AT.began),
        vector_at(words, STEP_AT.out),
        matrix_at(table, AT.slopes),
    )
    z, u, p = vector_at(words, STEP_AT.z), vector_at(words, STEP_AT.u), vector_at(words, STEP_AT.p)
    call_equation(table[AT.slope], t, began, z, u, p, slopes[0])
    call_equation(table[AT.slope], t + taken, out, z, u, p, slopes[1])


@in_both
def write_row(words: Any, table: Any, n: int, t: float, taken: float, length: float) -> None:
    """Write row ``n``: the internal step from ``t`` s, ``taken`` s long.

    The solver's dense output belongs to a step of ``length`` s.
    """
    rows, elements = matrix_at(table, AT.rows), matrix_at(table, AT.elements)
    row = rows[n % rows.shape[0]]
    z, u = vector_at(words, STEP_AT.z), vector_at(words, STEP_AT.u)
    out, v = vector_at(words, STEP_AT.out), vector_at(table, AT.v)
    q = elements.shape[0]
    terms = (row.size - FIRST_END - q) // q
    if taken == length:
        find_slopes(words, table, t, taken)
        if v.size > 0:
            find_nodes(words, table, t, taken)
        for e in range(q):
            coefficients = row[FIRST_END + q + e * terms : FIRST_END + q + (e + 1) * terms]
            kind, i = int(elements[e, 0]), int(elements[e, 1])
            if kind == STATE:
                state_over(words, table, i, taken, coefficients)
            elif kind == LINE:
                line_over(table, i, coefficients)
            else:
                for d in range(terms):
                    coefficients[d] = 0.0
                coefficients[0] = now_of(table, e, out, z, u)
    row[BEGIN], row[END], row[LENGTH] = t, t + taken, length
    if v.size > 0:
        p = vector_at(words, STEP_AT.p)
        call_equation(table[AT.lines_now], t + taken, out, z, u, p, v)
    for e in range(q):
        if int(elements[e, 0]) == LINE:
            row[FIRST_END + e] = v[int(elements[e, 1])]
        else:
            row[FIRST_END + e] = now_of(table, e, out, z, u)


@in_both
def state_over(words: Any, table: Any, i: int, taken: float, coefficients: Any) -> None:
    """Write the polynomial of state ``i`` over the internal step."""
    began, out = vector_at(table, AT.began), vector_at(words, STEP_AT.out)
    k, dense = matrix_at(table, AT.k), matrix_at(table, AT.dense)
    coefficients[0] = began[i]
    if k.shape[0] > 0:
        for d in range(dense.shape[1]):
            total = 0.0
            for s in range(dense.shape[0]):
                total += dense[s, d] * k[s, i]
            coefficients[d + 1] = taken * total
        return
    slopes = matrix_at(table, AT.slopes)
    way, left, right = out[i] - began[i], taken * slopes[0, i], taken * slopes[1, i]
    coefficients[1] = left
    coefficients[2] = 3.0 * way - 2.0 * left - right
    coefficients[3] = left + right - 2.0 * way


@in_both
def find_nodes(words: Any, table: Any, t: float, taken: float) -> None:
    """Fill ``nodes_v``: the signals of ``lines`` at evenly spaced points of the internal step."""
    nodes, y = matrix_at(table, AT.nodes_v), vector_at(table, AT.y)
    began, out = vector_at(table, AT.began), vector_at(words, STEP_AT.out)
    z, u, p = vector_at(words, STEP_AT.z), vector_at(words, STEP_AT.u), vector_at(words, STEP_AT.p)
    degree = nodes.shape[0] - 1
    call_equation(table[AT.lines_now], t, began, z, u, p, nodes[0])
    for i in range(1, degree):
        between_ends(words, table, i / degree, taken)
        call_equation(table[AT.lines_now], t + i / degree * taken, y, z, u, p, nodes[i])
    call_equation(table[AT.lines_now], t + taken, out, z, u, p, nodes[degree])


@in_both
def line_over(table: Any, i: int, coefficients: Any) -> None:
    """Write the polynomial through the values of signal ``i`` of ``lines`` at the points."""
    fit, nodes = matrix_at(table, AT.fit), matrix_at(table, AT.nodes_v)
    for d in range(nodes.shape[0]):
        total = 0.0
        for m in range(nodes.shape[0]):
            total += fit[d, m] * nodes[m, i]
        coefficients[d] = total


# Breaks: the times at which a derivative of the solution of a model with delays jumps.

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


# The internal steps of any solver of rtsim on a model with delays.

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


CUBIC = 3
"""Degree of the dense output of a solver that has none of its own."""


def with_history(method: Method, bound: BoundModel) -> Method:
    """Return ``method`` with steps that end at breaks and keep the past of ``bound``.

    Raises :class:`ScenarioError` for a budget of evaluations with a lag that is a function.
    """
    history, model = bound.history, bound.model
    assert history is not None
    if history.variable and method.unbounded is not None:
        raise ScenarioError(
            f"model {model.name} has a variable lag, which a solver with a budget cannot "
            "integrate; leave the budget out"
        )
    sizes, n, delays = model_sizes(bound), model.states.size, len(model.delays)
    inner = method.inner
    leg, retake = (method.step, method.step) if inner is None else (inner.leg, inner.retake)
    steps = (leg, retake, delayed_leg)
    no_k, no_dense = np.zeros((0, n)), np.zeros((0, 0))
    k, dense = (None, None) if inner is None else (inner.k, inner.dense)
    degree = CUBIC if dense is None else dense.shape[1]
    own = method.layout.zeros("memory", sizes)
    remembered = HEAD + 2 * delays + own.size + 1
    settings, live = np.zeros(2), np.zeros(LIVE)
    settings[KEPT], settings[BUDGETED] = method.kept, method.unbounded is not None
    live[ORDER] = degree + 1
    began, own_after, inner_notes = np.zeros(n), np.zeros(own.size), np.zeros(NOTES)
    nodes = np.arange(degree + 1) / degree
    arrays = {
        "live": live,
        "began": began,
        "own": own,
        "own_after": own_after,
        "settings": settings,
        "inner_notes": inner_notes,
        "k": no_k if k is None else k,
        "dense": no_dense if dense is None else dense,
        "fit": np.linalg.inv(np.vander(nodes, increasing=True)),
        "nodes_v": np.zeros((degree + 1, model.lines.size)),
    }
    width = FIRST_END + history.elements * (degree + 2)

    def settle(given: Mapping[str, NDArray[np.float64]]) -> None:
        """Let the solver's own steps begin at ``began``, and the past know all functions."""
        vectors = {name: given[name] for name in ("z", "u", "p", "out")}
        memory = {"memory": own, "after": own_after, "notes": inner_notes}
        inside = {**vectors, "x": began, **memory, **method.own}
        functions = functions_of(bound)
        found: dict[str, Function]
        alive: Any = None
        if bound.compiled:
            alive = method.layout.block(functions, inside, sizes)
            words = alive.words
            places = (words.ctypes.data, words.size)
            found = {
                name: (address_of(step), step)
                for name, step in zip(("leg", "retake", "whole_leg"), steps, strict=True)
            }
            found |= {"inner": (places[0], 0), "inner_words": (places[1], 0)}
        else:
            plain = method.layout.plain(functions, inside, sizes)
            found = {"leg": (0, steps[0]), "retake": (0, steps[1]), "whole_leg": (0, steps[2])}
            found["inner"] = (0, plain)
        outer = {name: given[name] for name in ("memory", "after", "notes")}
        history.attach(found, {**arrays, **outer}, width, alive)

    first = HEAD + 2 * delays
    unbounded = None if method.unbounded is None else first + method.unbounded
    return Method(
        delayed_step,
        STEP_LAYOUT.extended("a step with delays", memory=(remembered,), after=(remembered,)),
        kept=remembered - 1,
        unbounded=unbounded,
        new_frame=_within(method.new_frame, first, own.size),
        inner=Inner(
            delayed_leg,
            delayed_retake,
            began,
            k,
            dense,
        ),
        settle=settle,
    )


def _within(
    new_frame: Callable[[NDArray[np.float64]], None] | None, first: int, size: int
) -> Callable[[NDArray[np.float64]], None] | None:
    """Return ``new_frame`` for a memory that has the solver's own memory from ``first`` on."""
    if new_frame is None:
        return None
    return lambda memory: new_frame(memory[first : first + size])
