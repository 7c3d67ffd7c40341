"""The past values of a model's signals, and the delayed signals that rtsim computes from them.

The history has one row for each step of the solver. A row contains, for each delayed signal, a
polynomial over the step. :mod:`rtsim.solve.delayed` writes the rows.

The functions ``delayed_...`` call a function of the model with the delayed signals appended to
``u``. The last element of ``p`` is the address of the history. The model's own functions receive
``p`` without this address.

A *break* is a time at which a derivative of the solution jumps. Breaks occur at the start of the
run and at each change of the plant's inputs or parameters. A further break occurs at each time t at
which a delayed time, t
- lag, equals an earlier break. Within one step of the solver, a delayed signal lies entirely before
  or entirely after a break.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.addresses import (
    EQUATION,
    INLINED,
    TICK,
    UPDATE,
    Layout,
    PlainTable,
    call_equation,
    call_tick,
    call_update,
)
from rtsim.equations.calls import check
from rtsim.equations.compiling import (
    ABSENT,
    Compilation,
    Native,
    in_both,
    plainly,
    prepared,
    when_compiling,
)
from rtsim.equations.delays import (
    COMPUTED,
    CONSTANT,
    DISCRETE,
    FUNCTION,
    GIVEN,
    INPUT,
    PARAMETER,
    SET,
    STATE,
    resolve,
)

COUNT, TIME, BREAKS, HEAD = range(4)
"""Elements of the solver's memory: the number of rows, the time (s) at which the last row ends, and
the number of breaks.

Each delay ``j`` has two more elements. Element ``HEAD + j`` is the number of the next break that
arrives through this delay. Element ``HEAD + delays + j`` is 1 or -1 if the last internal step ended
where that break arrives. The remaining elements belong to the solver; the last element is a flag
that is 0 after a write to the plant.
"""
IN_STEP, ORDER, TOP_ROW, TOP_BREAK, BUMP, BY, FAULTY, FAULT_TIME, FAULT_LAG = range(9)
"""Elements of the array ``live``:

- ``IN_STEP``: 1 during the computation of an internal step.
- ``ORDER``: the highest derivative whose breaks are stored.
- ``TOP_ROW``, ``TOP_BREAK``: the highest number written to each ring, plus 1. Discarded steps count
  too, because they overwrite the oldest entries of the ring.
- ``BUMP``, ``BY``: the number of an element to change, plus 1, and the change, for a test of which
  signals depend on which.
- ``FAULTY``, ``FAULT_TIME``, ``FAULT_LAG``: the number of the delay with an invalid lag, plus 1,
  the time, and the lag.
"""
LIVE = 9
BEGIN, END, LENGTH, FIRST_END = range(4)
"""First elements of a row: begin and end of the internal step (s), and the time (s) over which the
argument of the polynomial grows by 1. The values at the end follow, then the coefficients.
"""
KIND, VALUE, LEAST, MOST = range(4)
"""Columns of ``lags``."""
WHEN, OF_STATES, OF_LINES = range(3)
"""Columns of ``breaks``: the time (s), the lowest derivative of a state that jumps, and the lowest
derivative of a signal of ``lines`` that jumps.
"""

LAYOUT = Layout(
    "the past of a plant",
    (
        *("derivative", "output", "guard", "line", "lag_function", "past_function"),
        *(
            "update",
            "tick",
            "slope",
            "lines_now",
            "internal_step",
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
"""The history of one plant. The functions from ``slope`` on and the arrays from ``began`` on belong
to :mod:`rtsim.solve.delayed`.

- ``elements``, ``lags``, ``before``: see :class:`rtsim.equations.delays.Resolved`.
- ``live``: see :data:`IN_STEP`.
- ``lag``: the present lag (s) of each delay.
- ``most``: the time (s) for which the history of each delay is needed.
- ``fed``: u and the delayed signals.
- ``past``: work array for ``past_function``.
- ``start``: each delayed signal at the start of the run.
- ``v``: the signals of ``lines``.
- ``rows``, ``breaks``: ring buffers, in which entry i is at i modulo the length.
- ``memory``, ``after``: the memory of the stepper before and after an internal step.
"""
INNER = LAYOUT.at.inner
"""Index of the argument table of the solver's own steps."""


@cache
def plain_tables() -> dict[int, Any]:
    """Return the argument tables for plain Python, by the address of the history.

    The tables are not a global variable, because the source hash of a function covers its global
    variables.
    """
    return {}


def past_at(number: float) -> Any:
    """Return the history at the address ``number``. A float64 represents addresses exactly."""
    return plain_tables()[int(number)]


@when_compiling
def _past_at_compiled() -> None:
    from numba.extending import overload

    from rtsim.equations.lowering import table_from

    table = table_from(LAYOUT.kind)

    @overload(past_at, strict=False, jit_options=INLINED)
    def _(number: Any) -> Any:  # noqa: ARG001
        return lambda number: table(int(number))


@in_both
def near(t: float) -> float:
    """Return the difference (s) below which two times near ``t`` (s) are considered equal."""
    return 4e-15 * (abs(t) + 1.0)


@in_both
def find_lags(table: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    """Fill the array ``lag``.

    An invalid lag becomes nan. ``live`` receives the number of the delay, the time and the lag if a
    lag is invalid.
    """
    lag, most, live, how = table.lag, table.most, table.live, table.lags
    if table.lag_function != 0:
        call_equation(table.lag_function, t, x, z, u, p, lag)
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
    """Return the last break (s) at or before the delayed time of delay ``j``, or -inf."""
    breaks = table.breaks
    n, places = int(m[HEAD + j]), breaks.shape[0]
    if n < 1 or n - 1 < int(table.live[TOP_BREAK]) - places:
        return -math.inf
    return breaks[(n - 1) % places, WHEN]  # type: ignore[no-any-return]


@in_both
def later(table: Any, m: Any, j: int) -> float:
    """Return the first break (s) after the delayed time of delay ``j``, or inf."""
    breaks = table.breaks
    n, count, places = int(m[HEAD + j]), int(m[BREAKS]), breaks.shape[0]
    return breaks[n % places, WHEN] if n < count else math.inf


@in_both
def row_of(table: Any, count: int, key: float) -> int:
    """Return the index of the last row that begins at or before ``key`` (s)."""
    rows = table.rows
    places = rows.shape[0]
    low, high = max(0, int(table.live[TOP_ROW]) - places), count - 1
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
    """Return the present value of a delayed element, or nan for a signal of ``lines``."""
    elements = table.elements
    kind, i = int(elements[e, 0]), int(elements[e, 1])
    if kind == STATE:
        return x[i]  # type: ignore[no-any-return]
    if kind == INPUT:
        return u[i]  # type: ignore[no-any-return]
    return z[i] if kind == DISCRETE else math.nan


@in_both
def before_of(table: Any, started: bool, e: int, s: float, x: Any, z: Any, u: Any, p: Any) -> float:
    """Return delayed element ``e`` at a time ``s`` < 0 (s), before the run."""
    before = table.before
    how = int(before[e, 0])
    if how == GIVEN:
        return before[e, 1]  # type: ignore[no-any-return]
    if how == SET:
        return p[int(before[e, 1])]  # type: ignore[no-any-return]
    if how == COMPUTED:
        past = table.past
        call_equation(table.past_function, s, x, z, u, p, past)
        return past[e]  # type: ignore[no-any-return]
    return table.start[e] if started else now_of(table, e, x, z, u)


@in_both
def value_of(
    table: Any, m: Any, in_step: bool, e: int, j: int, t: float, x: Any, z: Any, u: Any, p: Any
) -> float:
    """Return element ``e`` of delay ``j`` at time ``t`` (s), with the valid memory ``m``."""
    lag = table.lag[j]
    if lag == 0.0:
        return now_of(table, e, x, z, u)
    if not math.isfinite(lag):
        return math.nan
    s = t - lag
    low, high = earlier(table, m, j) + near(t), later(table, m, j) - near(t)
    key = min(max(s, low), high)
    count = int(m[COUNT])
    if key < 0.0 or count == 0:
        return before_of(table, in_step or count > 0, e, s, x, z, u, p)
    rows, q = table.rows, table.elements.shape[0]
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
    """Return u followed by the delayed signals at time ``t`` (s)."""
    fed, memory, elements = table.fed, table.memory, table.elements
    for i in range(u.size):
        fed[i] = u[i]
    find_lags(table, t, x, z, u, p)
    in_step = table.live[IN_STEP] != 0.0
    m = table.after if in_step or t > memory[TIME] + near(t) else memory
    for e in range(elements.shape[0]):
        fed[u.size + e] = value_of(table, m, in_step, e, int(elements[e, 2]), t, x, z, u, p)
    return fed


# -- the functions of a model with delays ----------------------------------------------------------


def delayed_derivative(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:
    """Call the model's derivative with the delayed signals."""
    table, own = past_at(p[p.size - 1]), p[: p.size - 1]
    call_equation(table.derivative, t, x, z, feed(table, t, x, z, u, own), own, dx)


def delayed_output(t: float, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:
    table, own = past_at(p[p.size - 1]), p[: p.size - 1]
    call_equation(table.output, t, x, z, feed(table, t, x, z, u, own), own, y)


def delayed_guard(t: float, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:
    table, own = past_at(p[p.size - 1]), p[: p.size - 1]
    call_equation(table.guard, t, x, z, feed(table, t, x, z, u, own), own, g)


def delayed_line(t: float, x: Any, z: Any, u: Any, p: Any, v: Any) -> None:
    table, own = past_at(p[p.size - 1]), p[: p.size - 1]
    fed, live = feed(table, t, x, z, u, own), table.live
    if live[BUMP] != 0.0:
        fed[u.size + int(live[BUMP]) - 1] += live[BY]
    call_equation(table.line, t, x, z, fed, own, v)


def delayed_update(t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    table, own = past_at(p[p.size - 1]), p[: p.size - 1]
    call_update(table.update, t, x, z, feed(table, t, x, z, u, own), own)


def delayed_tick(due: Any, t: float, x: Any, z: Any, u: Any, p: Any) -> None:
    table, own = past_at(p[p.size - 1]), p[: p.size - 1]
    fed = feed(table, t, x, z, u, own)
    call_tick(table.tick, due, t, x, z, fed, own)


def delayed_fed(t: float, x: Any, z: Any, u: Any, p: Any, fed: Any) -> None:
    """Fill ``fed`` with the inputs and the delayed signals, for reset and stop functions."""
    table, own = past_at(p[p.size - 1]), p[: p.size - 1]
    found = feed(table, t, x, z, u, own)
    for i in range(fed.size):
        fed[i] = found[i]


BoundModel = Any
"""A :class:`rtsim.equations.model.BoundModel`, which cannot be imported here."""

ROWS = 64
"""Initial number of rows and of breaks in the ring buffers."""
_RINGS = (("rows", COUNT, TOP_ROW), ("breaks", BREAKS, TOP_BREAK))
"""The ring buffers, each with its elements in the memory and in ``live``."""
Function = tuple[Any, Any]
"""The address of a function and the same function as plain Python; each is 0 if there is none."""
_NONE: Function = (0, 0)


class History:
    """The past values of a plant's signals, in arrays that compiled code can use."""

    def __init__(self, bound: BoundModel, compile: Compilation) -> None:
        model = bound.model
        self._bound, self._compile = bound, compile
        self._resolved = found = resolve(model)
        self.line = _made(model.line, EQUATION, f"line of model {model.name}", compile)
        self._lag = _made(found.lag, EQUATION, f"lag of model {model.name}", compile)
        self._past = _made(found.at_first, EQUATION, f"before of model {model.name}", compile)
        self.attached = False
        """True once a solver that can store a history is attached."""
        self._functions: dict[str, Function] = {
            **dict.fromkeys(LAYOUT.functions, _NONE),
            "derivative": _both(bound.derivative),
            "output": _both(bound.output),
            "guard": _both(bound.guard),
            "update": _both(bound.update),
            "tick": _both(bound.tick),
            "line": _both(self.line),
            "lag_function": _both(self._lag),
            "past_function": _both(self._past),
        }
        self._sizes = {"inputs": model.inputs.size, "delayed": len(found.elements)}
        given = {
            "elements": found.elements,
            "lags": found.lags,
            "before": found.before,
            "most": found.lags[:, MOST].copy(),
        }
        first = {"capacity": 1, "width": 1, "places": ROWS, "nodes": 1}
        first["remembered"] = HEAD + 2 * len(found.lags)
        none = dict.fromkeys(("kept", "noted", "stages", "degree"), 0)
        model_sizes = {"states": model.states.size, "lines": model.lines.size}
        self._arrays = LAYOUT.filled(given, {**self._sizes, **model_sizes, **first, **none})
        self._plain = PlainTable()
        self._alive: Any = None
        self._words = np.zeros(len(LAYOUT.functions) + 3 * len(LAYOUT.arrays), dtype=np.int64)
        self._write()
        number = self._words.ctypes.data
        plain_tables()[number] = self._plain
        weakref.finalize(self, plain_tables().pop, number, None)

    def _write(self) -> None:
        arrays, sizes = self._arrays, self._sizes
        addresses = [int(self._functions[name][0]) for name in LAYOUT.functions]
        plain = [self._functions[name][1] for name in LAYOUT.functions]
        words = LAYOUT.block(addresses, arrays, sizes).words
        self._words[: words.size] = words
        table = LAYOUT.plain(plain, arrays, sizes)
        self._plain[:] = table
        vars(self._plain).update(vars(table))

    def parameters(self, p: Vector) -> Vector:
        """Return the parameters (k,) with the address of the history appended."""
        return np.append(p, float(self._words.ctypes.data))

    def attach(
        self,
        functions: Mapping[str, Function],
        arrays: Mapping[str, NDArray[np.float64]],
        width: int,
        alive: object,
    ) -> None:
        """Make this history available to a solver, with ``width`` elements per row.

        The history keeps ``alive`` in memory, so that the addresses in ``functions`` stay valid.
        """
        self._functions |= functions
        self._arrays |= arrays
        if self._arrays["rows"].shape[1] != width:
            self._arrays["rows"] = np.zeros((ROWS, width))
        self._alive = alive
        self.attached = True
        self._write()

    # -- the functions of the model

    def first(self, x: Vector, z: Vector, u: Vector, p: Vector) -> Vector:
        """Return the inputs and the delayed signals at the start of the run.

        Raises :class:`ModelError` if a lag or a value before the run is invalid.
        """
        with plainly():
            fed = np.array(feed(self._plain, 0.0, x, z, u, p))
        if fault := self.fault():
            raise ModelError(fault)
        lines = self._resolved.elements[:, 0] == 3
        late = fed[u.size :]
        if not np.isfinite(late[~lines]).all():
            i = int(np.flatnonzero(~np.isfinite(late) & ~lines)[0])
            raise ModelError(
                f"{self._called(int(self._resolved.elements[i, 2]))} is {late[i]} before the run; "
                "correct before="
            )
        return fed

    def wrapped(self) -> BoundModel:
        """Return the model with functions that read the delayed signals from this history."""
        bound = self._bound
        derivative = self._native(delayed_derivative, EQUATION, bound.derivative, "derivative")
        self._functions["slope"] = _both(derivative)
        line = self._native(delayed_line, EQUATION, self.line, "line")
        self._functions["lines_now"] = _both(line)
        self._kept = (derivative, line)
        self._write()
        fed = prepared(delayed_fed, EQUATION, "delayed signals", bool(self._compile)).call
        return replace(
            bound,
            derivative=derivative,
            output=self._native(delayed_output, EQUATION, bound.output, "output"),
            guard=self._native(delayed_guard, EQUATION, bound.guard, "guard"),
            update=self._native(delayed_update, UPDATE, bound.update, "update"),
            tick=self._native(delayed_tick, TICK, bound.tick, "tick"),
            reset=self._from_python(bound.reset, fed),
            stop=self._from_python(bound.stop, fed),
            history=self,
        )

    def _native(self, plain: Callable[..., None], kinds: Any, of: Native, what: str) -> Native:
        if of is ABSENT:
            return ABSENT
        native = prepared(plain, kinds, f"{what} with delays", bool(self._compile))
        return replace(native, unchecked=of.unchecked)

    def _from_python(self, of: Native, fed: Callable[..., None]) -> Native:
        if of is ABSENT:
            return ABSENT
        found, seen = np.zeros_like(self._arrays["fed"]), set()

        def call(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
            fed(t, x, z, u, p, found)
            if i not in seen:
                seen.add(i)
                check(of, i, t, x, z, found, p[:-1])
            of.call(i, t, x, z, found, p[:-1].copy())

        return replace(of, call=call, unchecked=False)

    # -- errors

    def _called(self, j: int) -> str:
        model = self._bound.model
        return f"delayed signal {model.delays[j].called} of model {model.name}"

    def fault(self) -> str:
        """Return a description of the first invalid lag in this step, or ""."""
        live, lags = self._arrays["live"], self._arrays["lags"]
        if live[FAULTY] == 0.0:
            return ""
        j = int(live[FAULTY]) - 1
        least, most = float(lags[j, LEAST]), float(self._arrays["most"][j])
        said = f"{self._called(j)} has the lag {live[FAULT_LAG]:.9g} s at {live[FAULT_TIME]:.9g} s"
        live[FAULTY] = 0.0
        if int(lags[j, KIND]) == PARAMETER:
            name = self._bound.model.parameters.columns[int(lags[j, VALUE])]
            if not math.isfinite(most):  # the lag at the start of the run is itself invalid
                return f"{said}, by the parameter {name}; it must be 0, or at least 1e-09 s"
            return (
                f"{said}, by the parameter {name}; it must be 0, or from 1e-09 s to {most:g} s: "
                "the past is kept for the lag with which the run begins. Declare most= in Delayed "
                "for a lag that grows"
            )
        return (
            f"{said}, outside its bounds, from {least:g} s to {most:g} s; correct the lag, or "
            "declare other bounds least= and most= in Delayed"
        )

    @property
    def elements(self) -> int:
        return len(self._arrays["elements"])

    @property
    def variable(self) -> bool:
        return bool((self._arrays["lags"][:, KIND] == FUNCTION).any())

    # -- room, and checkpoints

    def grow(self) -> None:
        """Double the size of the ring buffers."""
        memory, live = self._arrays["memory"], self._arrays["live"]
        for name, count, top in _RINGS:
            old = self._arrays[name]
            places, new = len(old), np.zeros((2 * len(old), old.shape[1]))
            for n in range(max(0, int(live[top]) - places), int(memory[count])):
                new[n % len(new)] = old[n % places]
            live[top] = memory[count]
            self._arrays[name] = new
        self._write()

    def save(self) -> dict[str, Any]:
        """Return the part of the history that the run still needs, as plain data."""
        arrays = self._arrays
        memory = arrays["memory"]
        since = memory[TIME] - np.nanmax(np.append(arrays["most"], 0.0)) - 1e3 * near(memory[TIME])
        most = [None if np.isnan(longest) else longest for longest in arrays["most"].tolist()]
        kept: dict[str, Any] = {"most": most, "start": arrays["start"].tolist()}
        for name, count, top in _RINGS:
            ring, n = arrays[name], int(memory[count])
            first = max(0, int(arrays["live"][top]) - len(ring))
            found = [ring[i % len(ring)].tolist() for i in range(first, n)]
            end = END if name == "rows" else WHEN
            kept[name] = [row for row in found if row[end] >= since]
        return kept

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Restore the history that :meth:`save` returned.

        Restore the solver's memory before this call.
        """
        arrays = self._arrays
        memory = arrays["memory"]
        arrays["most"][:] = [np.nan if m is None else m for m in saved["most"]]
        arrays["start"][:] = saved["start"]
        arrays["live"][FAULTY] = arrays["live"][IN_STEP] = arrays["live"][BUMP] = 0.0
        for name, count, top in _RINGS:
            while len(arrays[name]) < len(saved[name]) + 2:
                arrays[name] = np.zeros((2 * len(arrays[name]), arrays[name].shape[1]))
            ring, n = arrays[name], int(memory[count])
            ring[:] = 0.0 if name == "rows" else -np.inf
            for i, row in enumerate(reversed(saved[name])):
                ring[(n - 1 - i) % len(ring)] = row
            arrays["live"][top] = n
        self._write()


def _made(function: Any, kinds: Any, what: str, compile: Compilation) -> Native:
    return ABSENT if function is None else prepared(function, kinds, what, compile)


def _both(native: Native) -> Function:
    if native is ABSENT:
        return _NONE
    compiled = isinstance(native.handle, np.intp)
    return (native.handle if compiled else 0), native.py_func
