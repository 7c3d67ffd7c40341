"""The values of delayed signals, from the past that the solver has kept.

The past is one row for each internal step of the solver: a polynomial for each delayed signal over
that step (:mod:`rtsim.solve.delayed` writes the rows).  The functions of a model with delays
are called through the functions at the end of this module: they append the delayed signals to
``u`` and call the function of the model.  The same source runs compiled and as plain Python.

A *break* is a time at which a derivative of the solution jumps: the start of the run, a write, and
each time at which an earlier break arrives through a lag.  Each internal step reads a delayed
signal on one side of a break only.
"""

from __future__ import annotations

import math
from typing import Any

from rtsim.equations.addresses import (
    call_equation,
    call_tick,
    call_update,
    matrix_at,
    table_at,
    vector_at,
)
from rtsim.equations.compiling import in_both
from rtsim.equations.delays import COMPUTED, CONSTANT, DISCRETE, GIVEN, INPUT, PARAMETER, SET, STATE
from rtsim.equations.layout import Layout

COUNT, TIME, BREAKS, HEAD = range(4)
"""Elements of the memory: the number of rows so far, the time at which the last row ends (s), and
the number of breaks so far.  Each delay has two more elements, :data:`NEXT` and :data:`SNAPPED`,
``HEAD + j`` and ``HEAD + delays + j``: the number of the next break that arrives through it, and
1 or -1 if the last internal step ended where that break arrives.  The memory of the solver itself
follows, and last a flag, which is 0 after a write.
"""
LEG, ORDER, TOP_ROW, TOP_BREAK, BUMP, BY, FAULTY, FAULT_TIME, FAULT_LAG = range(9)
"""Elements of the array ``live``:

- ``LEG``: 1 while an internal step is computed.
- ``ORDER``: the highest derivative whose breaks are kept.
- ``TOP_ROW``, ``TOP_BREAK``: one more than the highest number that was written to each ring, also
  by steps that were discarded; the ring has lost what was written as many places before.
- ``BUMP``, ``BY``: an element to change, plus 1, and the change, for a test of which signals depend
  on which.
- ``FAULTY``, ``FAULT_TIME``, ``FAULT_LAG``: the delay whose lag is not valid, plus 1, the time and
  the lag.
"""
LIVE = 9
BEGIN, END, LENGTH, FIRST_END = range(4)
"""Elements of a row: begin and end of the internal step (s), the time over which the argument of
the polynomial grows by 1 (s), then the values at the end, then the coefficients."""
KIND, VALUE, LEAST, MOST = range(4)
"""Columns of ``lags``."""
WHEN, OF_STATES, OF_LINES = range(3)
"""Columns of ``breaks``: the time (s), and the lowest derivative that jumps in a state, and in a
signal of ``lines``."""

LAYOUT = Layout(
    "the past of a plant",
    (
        *("derivative", "output", "guard", "line", "lag_function", "past_function"),
        *(
            "update",
            "tick",
            "slope",
            "lines_now",
            "whole_leg",
            "leg",
            "retake",
            "inner",
            "inner_words",
        ),
    ),
    {
        "elements": ("delayed", 3),
        "lags": ("delays", 4),
        "before": ("delayed", 2),
        "live": (LIVE,),
        "lag": ("delays",),
        "most": ("delays",),
        "fed": ("inputs + delayed",),
        "past": ("delayed",),
        "start": ("delayed",),
        "v": ("lines",),
        "rows": ("capacity", "width"),
        "breaks": ("places", 3),
        "memory": ("remembered",),
        "after": ("remembered",),
        "began": ("states",),
        "own": ("kept",),
        "own_after": ("kept",),
        "settings": (2,),
        "snaps": ("delays",),
        "inner_notes": ("noted",),
        "notes": ("noted",),
        "k": ("stages", "states"),
        "dense": ("stages", "degree"),
        "slopes": (2, "states"),
        "y": ("states",),
        "fit": ("nodes", "nodes"),
        "nodes_v": ("nodes", "lines"),
    },
)
"""The past of one plant.  The first functions are those of the model; the functions from ``slope``
on, and the arrays from ``began`` on, belong to :mod:`rtsim.solve.delayed`.

- ``elements``, ``lags``, ``before``: see :class:`rtsim.equations.delays.Resolved`.
- ``live``: see :data:`LEG`; ``lag``: the present lag of each delay; ``most``: the time for which
  each delay needs the past (s).
- ``fed``: u and the delayed signals; ``past``: work for ``past_function``; ``start``: each delayed
  signal at the start of the run; ``v``: the signals of ``lines``.
- ``rows``, ``breaks``: rings, in which number i is at i modulo the length.
- ``memory``, ``after``: the memory of the stepper.
"""
AT = LAYOUT.at


@in_both
def near(t: float) -> float:
    """Return the difference (s) below which two times near ``t`` s are the same time."""
    return 4e-15 * (abs(t) + 1.0)


@in_both
def find_lags(table: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    """Fill ``lag``; a lag that is not valid becomes nan and is noted in ``live``."""
    lag, most, live = vector_at(table, AT.lag), vector_at(table, AT.most), vector_at(table, AT.live)
    how = matrix_at(table, AT.lags)
    if table[AT.lag_function] != 0:
        call_equation(table[AT.lag_function], t, x, z, u, p, lag)
    for j in range(lag.size):
        kind = int(how[j, KIND])
        if kind == CONSTANT:
            lag[j] = how[j, VALUE]
            continue
        if kind == PARAMETER:
            lag[j] = p[int(how[j, VALUE])]
        value = lag[j]
        bound = most[j] * (1.0 + 1e-12)
        good = value >= how[j, LEAST] * (1.0 - 1e-12) and not value > bound and math.isfinite(value)
        if kind == PARAMETER and 0.0 < value < 1e-9:
            good = False
        if not good:
            if live[FAULTY] == 0.0:
                live[FAULTY], live[FAULT_TIME], live[FAULT_LAG] = j + 1.0, t, value
            lag[j] = math.nan


@in_both
def earlier(table: Any, m: Any, j: int) -> float:
    """Return the last break (s) that has arrived through delay ``j``; -inf if there is none."""
    breaks = matrix_at(table, AT.breaks)
    n, places = int(m[HEAD + j]), breaks.shape[0]
    if n < 1 or n - 1 < int(vector_at(table, AT.live)[TOP_BREAK]) - places:
        return -math.inf
    return breaks[(n - 1) % places, WHEN]  # type: ignore[no-any-return]


@in_both
def later(table: Any, m: Any, j: int) -> float:
    """Return the next break (s) that arrives through delay ``j``; inf if there is none."""
    breaks = matrix_at(table, AT.breaks)
    n, count, places = int(m[HEAD + j]), int(m[BREAKS]), breaks.shape[0]
    return breaks[n % places, WHEN] if n < count else math.inf


@in_both
def row_of(table: Any, count: int, key: float) -> int:
    """Return the place of the last of ``count`` rows that begins at ``key`` s or before."""
    rows = matrix_at(table, AT.rows)
    places = rows.shape[0]
    low, high = max(0, int(vector_at(table, AT.live)[TOP_ROW]) - places), count - 1
    while low < high:
        middle = (low + high + 1) // 2
        if rows[middle % places, BEGIN] <= key:
            low = middle
        else:
            high = middle - 1
    place: int = low % places
    return place


@in_both
def now_of(table: Any, e: int, x: Any, z: Any, u: Any) -> float:
    """Return the present value of delayed element ``e``; nan for a signal of ``lines``."""
    elements = matrix_at(table, AT.elements)
    kind, i = int(elements[e, 0]), int(elements[e, 1])
    if kind == STATE:
        return x[i]  # type: ignore[no-any-return]
    if kind == INPUT:
        return u[i]  # type: ignore[no-any-return]
    return z[i] if kind == DISCRETE else math.nan


@in_both
def before_of(table: Any, started: bool, e: int, s: float, x: Any, z: Any, u: Any, p: Any) -> float:
    """Return delayed element ``e`` at ``s`` < 0 s."""
    before = matrix_at(table, AT.before)
    how = int(before[e, 0])
    if how == GIVEN:
        return before[e, 1]  # type: ignore[no-any-return]
    if how == SET:
        return p[int(before[e, 1])]  # type: ignore[no-any-return]
    if how == COMPUTED:
        past = vector_at(table, AT.past)
        call_equation(table[AT.past_function], s, x, z, u, p, past)
        return past[e]  # type: ignore[no-any-return]
    return vector_at(table, AT.start)[e] if started else now_of(table, e, x, z, u)


@in_both
def value_of(
    table: Any, m: Any, leg: bool, e: int, j: int, t: float, x: Any, z: Any, u: Any, p: Any
) -> float:
    """Return element ``e`` of delay ``j`` at ``t`` s; ``m`` is the memory that counts now."""
    lag = vector_at(table, AT.lag)[j]
    if lag == 0.0:
        return now_of(table, e, x, z, u)
    if not math.isfinite(lag):
        return math.nan
    s = t - lag
    low, high = earlier(table, m, j) + near(t), later(table, m, j) - near(t)
    key = min(max(s, low), high)
    count = int(m[COUNT])
    if key < 0.0 or count == 0:
        return before_of(table, leg or count > 0, e, s, x, z, u, p)
    rows = matrix_at(table, AT.rows)
    q = matrix_at(table, AT.elements).shape[0]
    terms = (rows.shape[1] - FIRST_END - q) // q
    row = row_of(table, count, key)
    part = (s - rows[row, BEGIN]) / rows[row, LENGTH]
    first = FIRST_END + q + e * terms
    value = 0.0
    for d in range(terms - 1, -1, -1):
        value = value * part + rows[row, first + d]
    return value


@in_both
def feed(table: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> Any:
    """Return u and, after it, the delayed signals at ``t`` s."""
    fed, memory = vector_at(table, AT.fed), vector_at(table, AT.memory)
    elements = matrix_at(table, AT.elements)
    for i in range(u.size):
        fed[i] = u[i]
    find_lags(table, t, x, z, u, p)
    leg = vector_at(table, AT.live)[LEG] != 0.0
    m = vector_at(table, AT.after) if leg or t > memory[TIME] + near(t) else memory
    for e in range(elements.shape[0]):
        fed[u.size + e] = value_of(table, m, leg, e, int(elements[e, 2]), t, x, z, u, p)
    return fed


# -- the functions of a model with delays ----------------------------------------------------------


def delayed_derivative(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:
    """Call the model's derivative with the delayed signals; the last of ``p`` finds the past."""
    table, own = table_at(p[p.size - 1]), p[: p.size - 1]
    call_equation(table[AT.derivative], t, x, z, feed(table, t, x, z, u, own), own, dx)


def delayed_output(t: float, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:
    """Call the model's output with the delayed signals."""
    table, own = table_at(p[p.size - 1]), p[: p.size - 1]
    call_equation(table[AT.output], t, x, z, feed(table, t, x, z, u, own), own, y)


def delayed_guard(t: float, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:
    """Call the model's guards with the delayed signals."""
    table, own = table_at(p[p.size - 1]), p[: p.size - 1]
    call_equation(table[AT.guard], t, x, z, feed(table, t, x, z, u, own), own, g)


def delayed_line(t: float, x: Any, z: Any, u: Any, p: Any, v: Any) -> None:
    """Call the model's ``line`` with the delayed signals, one of which ``live`` may change."""
    table, own = table_at(p[p.size - 1]), p[: p.size - 1]
    fed, live = feed(table, t, x, z, u, own), vector_at(table, AT.live)
    if live[BUMP] != 0.0:
        fed[u.size + int(live[BUMP]) - 1] += live[BY]
    call_equation(table[AT.line], t, x, z, fed, own, v)


def delayed_update(t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    """Call the model's update with the delayed signals."""
    table, own = table_at(p[p.size - 1]), p[: p.size - 1]
    call_update(table[AT.update], t, x, z, feed(table, t, x, z, u, own), own)


def delayed_tick(due: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    """Call the model's timers with the delayed signals."""
    table, own = table_at(p[p.size - 1]), p[: p.size - 1]
    fed = feed(table, t, x, z, u, own)
    call_tick(table[AT.tick], due, t, x, z, fed, own)


def delayed_fed(t: float, x: Any, z: Any, u: Any, p: Any, fed: Any) -> None:
    """Write u and the delayed signals to ``fed``, for a function that Python calls."""
    table, own = table_at(p[p.size - 1]), p[: p.size - 1]
    found = feed(table, t, x, z, u, own)
    for i in range(fed.size):
        fed[i] = found[i]
