"""Extend rtsim's solvers to models with delayed signals.

Each internal step adds a row to the history of the signals. A break is a time at which a derivative
of the solution jumps because of a delay. Internal steps end at breaks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.equations.addresses import call_step, words_at
from rtsim.equations.calls import call_at
from rtsim.equations.compiling import in_both
from rtsim.equations.delays import FUNCTION, LINE, PARAMETER, STATE
from rtsim.equations.history import (
    BEGIN,
    BREAKS,
    BUMP,
    BY,
    COUNT,
    END,
    FAULTY,
    FIRST_END,
    HEAD,
    IN_STEP,
    INNER,
    KIND,
    LEAST,
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
    Function,
    before_of,
    earlier,
    find_lags,
    later,
    near,
    now_of,
    past_at,
)
from rtsim.equations.model import BoundModel
from rtsim.solve.base import GOOD, HISTORY_FULL
from rtsim.solve.internal_steps import (
    BEGAN,
    LAST,
    NOTES,
    PHASE,
    SPENT,
    STEP_LAYOUT,
    TAKEN,
    TRIED,
    Inner,
    Method,
    all_steps,
    dense_output,
    functions_of,
    model_sizes,
    native_step,
)
from rtsim.solve.linear_algebra import assign

# Rows of the history. A row stores each delayed signal over one internal step, as a polynomial.


@in_both
def find_slopes(words: Any, table: Any, t: float, taken: float) -> None:
    if table.k.shape[0] > 0:
        return
    began, out, slopes = table.began, words.out, table.slopes
    call_at(words, table.slope, t, began, slopes[0])
    call_at(words, table.slope, t + taken, out, slopes[1])


@in_both
def write_row(words: Any, table: Any, n: int, t: float, taken: float, length: float) -> None:
    """Store an internal step in row ``n`` of the history.

    The step begins at time ``t`` (s) and is ``taken`` s long. The dense output of the step covers
    ``length`` s. After a shortening of the step, ``length`` exceeds ``taken``.
    """
    rows, elements = table.rows, table.elements
    row = rows[n % rows.shape[0]]
    z, u, out, v = words.z, words.u, words.out, table.v
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
        call_at(words, table.lines_now, t + taken, out, v)
    for e in range(q):
        if int(elements[e, 0]) == LINE:
            row[FIRST_END + e] = v[int(elements[e, 1])]
        else:
            row[FIRST_END + e] = now_of(table, e, out, z, u)


@in_both
def state_over(words: Any, table: Any, i: int, taken: float, coefficients: Any) -> None:
    began, out, k, dense = table.began, words.out, table.k, table.dense
    coefficients[0] = began[i]
    if k.shape[0] > 0:
        for d in range(dense.shape[1]):
            total = 0.0
            for s in range(dense.shape[0]):
                total += dense[s, d] * k[s, i]
            coefficients[d + 1] = taken * total
        return
    slopes = table.slopes
    way, left, right = out[i] - began[i], taken * slopes[0, i], taken * slopes[1, i]
    coefficients[1] = left
    coefficients[2] = 3.0 * way - 2.0 * left - right
    coefficients[3] = left + right - 2.0 * way


@in_both
def find_nodes(words: Any, table: Any, t: float, taken: float) -> None:
    """Evaluate the signals in ``model.lines`` at evenly spaced times of the internal step."""
    nodes, y, began, out = table.nodes_v, table.y, table.began, words.out
    degree = nodes.shape[0] - 1
    call_at(words, table.lines_now, t, began, nodes[0])
    for i in range(1, degree):
        dense_output(table, table.began, words.out, i / degree, taken)
        call_at(words, table.lines_now, t + i / degree * taken, y, nodes[i])
    call_at(words, table.lines_now, t + taken, out, nodes[degree])


@in_both
def line_over(table: Any, i: int, coefficients: Any) -> None:
    """Compute the polynomial of signal ``i`` from the stored values."""
    fit, nodes = table.fit, table.nodes_v
    first = nodes[0, i]
    coefficients[0] = first
    for d in range(1, nodes.shape[0]):
        total = 0.0
        for m in range(1, nodes.shape[0]):
            total += fit[d, m] * (nodes[m, i] - first)  # exactly 0 for a constant signal
        coefficients[d] = total


# Breaks: times at which a derivative of the solution jumps because of a delay.

_NEVER = 1e9
"""Order of the derivative that jumps; this value means that no derivative jumps."""
SAME = 8.0
"""A step ends at a break if their distance is less than ``SAME * near(t)``."""


@in_both
def snapped_at(table: Any) -> int:
    return HEAD + table.lag.size  # type: ignore[no-any-return]


@in_both
def own_at(table: Any) -> int:
    return HEAD + 2 * table.lag.size  # type: ignore[no-any-return]


@in_both
def start_run(words: Any, table: Any) -> float:
    """Store the delayed signals at the start of the run.

    Returns 0 if a delayed state jumps at the start, or 1 if only its derivative jumps.
    """
    began, start, most, z, u, p = table.began, table.start, table.most, words.z, words.u, words.p
    how, elements = table.lags, table.elements
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
    rows = table.rows
    return rows[(count - 1) % rows.shape[0]]


@in_both
def jump_by_write(words: Any, table: Any, t: float, of: int) -> bool:
    """Return whether a delayed signal jumps at ``t`` (s) because a component changed a value.

    With ``of=STATE``, only delayed states are tested. Otherwise, only the other signals are tested.
    """
    began, v, elements, z, u = table.began, table.v, table.elements, words.z, words.u
    row = last_row(table, int(table.after[COUNT]))
    if of != STATE and v.size > 0:
        call_at(words, table.lines_now, t, began, v)
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
    """Return whether the output of delay ``j`` is itself delayed."""
    began, v, live = table.began, table.v, table.live
    if v.size == 0:
        return False
    nodes, elements = table.nodes_v, table.elements
    call_at(words, table.lines_now, t, began, nodes[0])
    found = False
    for e in range(elements.shape[0]):
        if int(elements[e, 2]) == j:
            live[BUMP], live[BY] = e + 1.0, 1e-3
            call_at(words, table.lines_now, t, began, v)
            live[BUMP] = 0.0
            for i in range(v.size):
                found = found or v[i] != nodes[0, i]
    return found


@in_both
def arrivals(table: Any, t: float, j: int, of: int) -> float:
    """Find the breaks that the delayed time of delay ``j`` has reached since the last step.

    Returns the lowest order of a derivative that jumps, or ``_NEVER``.
    """
    after, breaks = table.after, table.breaks
    lag, snapped = table.lag[j], snapped_at(table) + j
    n, count, places = int(after[HEAD + j]), int(after[BREAKS]), breaks.shape[0]
    level, at, same, live = _NEVER, t - lag, SAME * near(t), table.live
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
def begin_internal_step(words: Any, table: Any, t: float) -> int:
    """Store the time ``t`` (s) as a break if a derivative jumps there.

    Returns 1 for a break, 0 for none, or :data:`HISTORY_FULL`.
    """
    after, breaks, elements, z, u = table.after, table.breaks, table.elements, words.z, words.u
    p = words.p
    of_states, of_lines, flag = _NEVER, _NEVER, after.size - 1
    if after[COUNT] == 0.0:
        table.live[TOP_ROW] = table.live[TOP_BREAK] = 0.0
        of_states, of_lines = start_run(words, table), 0.0
    elif after[flag] == 0.0:
        of_states = 0.0 if jump_by_write(words, table, t, STATE) else 1.0
        of_lines = 0.0 if jump_by_write(words, table, t, LINE) else 1.0
    find_lags(table, t, table.began, z, u, p)
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
    if min(of_states, of_lines) > table.live[ORDER]:
        return 0
    n, places, live = int(after[BREAKS]), breaks.shape[0], table.live
    if n >= max(places, int(live[TOP_BREAK])) and breaks[n % places, WHEN] >= kept_since(table):
        return HISTORY_FULL
    live[TOP_BREAK] = max(live[TOP_BREAK], n + 1.0)
    breaks[n % places, WHEN] = t
    breaks[n % places, OF_STATES], breaks[n % places, OF_LINES] = of_states, of_lines
    after[BREAKS] = n + 1
    return 1


@in_both
def kept_since(table: Any) -> float:
    """Return the oldest time (s) for which the history is still necessary."""
    most, longest = table.most, 0.0
    for j in range(most.size):
        if most[j] > longest:
            longest = most[j]
    t = table.memory[TIME]
    return t - longest - 1e3 * near(t)  # type: ignore[no-any-return]


# Internal steps of any of rtsim's solvers on a model with delays.

KEPT, BUDGETED = range(2)
"""Indices of the array ``settings``. The element ``KEPT`` is the number of elements of the solver
memory that a break does not clear. The element ``BUDGETED`` is 1 if a repeated step is interpolated
from the dense output.
"""


@in_both
def longest_step(table: Any, t: float, rest: float) -> float:
    """Return the length (s) of the next step, which must not go beyond a break.

    The shortest nonzero lag limits the step. A variable lag limits the step by its least value, and
    :func:`cut_at_break` finds its breaks.
    """
    after, lag, how = table.after, table.lag, table.lags
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
    if not span > limit * (1.0 + 1e-9):  # also true if a lag is nan, which the step then reports
        return span
    return span / math.ceil(span / limit * (1.0 - 1e-12))


@in_both
def crossing(words: Any, table: Any, t: float, taken: float) -> float:
    """Return the fraction of the internal step at which a delayed time first reaches a break.

    For the delay ``j`` that reaches a break first, ``snaps[j]`` becomes 1 or -1. The result is 2 if
    no delayed time reaches a break.
    """
    after, lag, y, how, out, z = table.after, table.lag, table.y, table.lags, words.out, words.z
    u, p, snaps = words.u, words.p, table.snaps
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
            dense_output(table, table.began, words.out, middle, taken)
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
    """Shorten the step to the first break that a delayed time reaches; return its length."""
    for _ in range(8):
        part = crossing(words, table, t, taken)
        if part > 1.0 - 1e-12:
            break
        taken = max(part * taken, 4.0 * SAME * near(t))
        call_step(table.retake, words_at(table, INNER), t, taken)
    return taken


@in_both
def inner_internal_step(words: Any, table: Any, t: float, rest: float) -> int:
    """Take one internal step of at most ``rest`` s, and add the step to the history."""
    after, own, settings, how = table.after, table.own, table.settings, table.lags
    inner_notes, notes, rows = table.inner_notes, table.notes, table.rows
    found = begin_internal_step(words, table, t)
    if found == HISTORY_FULL:
        return HISTORY_FULL
    if found == 1 or after[after.size - 1] == 0.0:
        for i in range(int(settings[KEPT]), own.size):
            own[i] = 0.0
    n, places, live = int(after[COUNT]), rows.shape[0], table.live
    if n >= max(places, int(live[TOP_ROW])) and rows[n % places, END] >= kept_since(table):
        return HISTORY_FULL
    live[TOP_ROW] = max(live[TOP_ROW], n + 1.0)
    allowed = longest_step(table, t, rest)
    inner_notes[PHASE], inner_notes[TAKEN], inner_notes[LAST] = 0.0, allowed, 1.0
    inner_notes[TRIED], inner_notes[SPENT] = notes[TRIED], notes[SPENT]
    answer = call_step(table.internal_step, words_at(table, INNER), t, allowed)
    notes[BEGAN], notes[TRIED] = t, inner_notes[TRIED]
    notes[SPENT] = max(inner_notes[SPENT], notes[SPENT] + 1.0)
    if answer != GOOD:
        return answer
    length = inner_notes[TAKEN]
    taken, snaps = length, table.snaps
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
    finish_internal_step(table, t + taken, True)
    return GOOD


@in_both
def finish_internal_step(table: Any, end: float, whole: bool) -> None:
    """Update the memory at the end of an internal step.

    ``whole`` is False after a shortening of the step.
    """
    snaps, snapped = table.snaps, snapped_at(table)
    for j in range(snaps.size):
        table.after[snapped + j] = snaps[j] if whole else 0.0
    after, inner, first = (
        table.after,
        table.own_after,
        own_at(table),
    )
    after[TIME], after[after.size - 1] = end, 1.0
    for i in range(inner.size):
        after[first + i] = inner[i]


def delayed_internal_step(words: Any, t: float, rest: float) -> int:
    """Take the next internal step from time ``t`` (s), at most ``rest`` s long."""
    p = words.p
    table = past_at(p[p.size - 1])
    notes, live, own, after, began = table.notes, table.live, table.own, table.after, table.began
    if notes[PHASE] == 0.0:
        notes[PHASE] = 1.0
        assign(after, table.memory)
        assign(began, words.x)
        first = own_at(table)
        for i in range(own.size):
            own[i] = after[first + i]
    else:
        assign(began, words.out)
        assign(own, table.own_after)
    live[FAULTY], live[IN_STEP] = 0.0, 1.0
    answer = inner_internal_step(words, table, t, rest)
    live[IN_STEP] = 0.0
    return answer


def delayed_retake(words: Any, t: float, h: float) -> int:
    """Repeat the last internal step from ``t`` s with the length ``h`` s."""
    p = words.p
    table = past_at(p[p.size - 1])
    live, after, notes, inner_notes = table.live, table.after, table.notes, table.inner_notes
    live[IN_STEP] = 1.0
    n = int(after[COUNT]) - 1
    after[COUNT] = n  # the repeated step must not read its own row
    answer = call_step(table.retake, words_at(table, INNER), t, h)
    budgeted = table.settings[BUDGETED] != 0.0
    write_row(words, table, n, t, h, inner_notes[TAKEN] if budgeted else h)
    after[COUNT] = n + 1
    finish_internal_step(table, t + h, h == notes[TAKEN])
    live[IN_STEP] = 0.0
    return answer


CUBIC = 3


def _fit(degree: int) -> NDArray[np.float64]:
    columns = []
    for m in range(degree + 1):
        column = [Fraction(1)]
        for j in range(degree + 1):
            if j == m:
                continue
            shifted, scaled = [Fraction(0), *column], [*column, Fraction(0)]
            column = [(degree * a - j * b) / (m - j) for a, b in zip(shifted, scaled, strict=True)]
        columns.append([float(value) for value in column])
    return np.ascontiguousarray(np.array(columns).T)


def with_history(method: Method, bound: BoundModel) -> Method:
    """Return ``method``, extended to models with delays.

    Its steps end at breaks. Raises :class:`ScenarioError` if a lag is a function and the solver has
    a budget of evaluations.
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
    internal_step, retake = (
        (method.step, method.step) if inner is None else (inner.internal_step, inner.retake)
    )
    steps = {"internal_step": internal_step, "retake": retake}
    no_k, no_dense = np.zeros((0, n)), np.zeros((0, 0))
    k, dense = (None, None) if inner is None else (inner.k, inner.dense)
    degree = CUBIC if dense is None else dense.shape[1]
    own = method.layout.zeros("memory", sizes)
    remembered = HEAD + 2 * delays + own.size + 1
    settings, live = np.zeros(2), np.zeros(LIVE)
    settings[KEPT], settings[BUDGETED] = method.kept, method.unbounded is not None
    live[ORDER] = degree + 1
    began, own_after, inner_notes = np.zeros(n), np.zeros(own.size), np.zeros(NOTES)
    arrays = {
        "live": live,
        "began": began,
        "own": own,
        "own_after": own_after,
        "settings": settings,
        "inner_notes": inner_notes,
        "k": no_k if k is None else k,
        "dense": no_dense if dense is None else dense,
        "fit": _fit(degree),
        "nodes_v": np.zeros((degree + 1, model.lines.size)),
    }
    width = FIRST_END + history.elements * (degree + 2)

    def settle(given: Mapping[str, NDArray[np.float64]]) -> None:
        vectors = {name: given[name] for name in ("z", "u", "p", "out")}
        memory = {"memory": own, "after": own_after, "notes": inner_notes}
        inside = method.layout.filled({**vectors, "x": began, **memory, **method.own}, sizes)
        functions = functions_of(bound)
        found: dict[str, Function] = {name: (0, step) for name, step in steps.items()}
        alive: Any = None
        if bound.compiled:
            alive = method.layout.block(functions, inside, sizes)
            words, kind = alive.words, method.layout.kind
            found = {name: (native_step(step, kind).handle, 0) for name, step in steps.items()}
            found |= {"inner": (words.ctypes.data, 0), "inner_words": (words.size, 0)}
        else:
            found["inner"] = (0, method.layout.plain(functions, inside, sizes))
        outer = {name: given[name] for name in ("memory", "after", "notes")}
        history.attach(found, {**arrays, **outer}, width, alive)

    first = HEAD + 2 * delays
    unbounded = None if method.unbounded is None else first + method.unbounded
    return Method(
        all_steps,
        STEP_LAYOUT.extended("a step with delays", memory=(remembered,), after=(remembered,)),
        kept=remembered - 1,
        unbounded=unbounded,
        new_frame=_within(method.new_frame, first, own.size),
        inner=Inner(delayed_internal_step, delayed_retake, began, k, dense),
        settle=settle,
    )


def _within(
    new_frame: Callable[[NDArray[np.float64]], None] | None, first: int, size: int
) -> Callable[[NDArray[np.float64]], None] | None:
    if new_frame is None:
        return None
    return lambda memory: new_frame(memory[first : first + size])
