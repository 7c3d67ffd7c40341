"""Robustness of a formula over the values of a run.

A signal is a sequence of *pieces*, each with an integer time and a value. A piece is valid until
the time of the next piece. An instant with several microsteps has several pieces with the same
time; only the last one is valid after this instant.

The robustness of a formula is a margin: positive if the formula holds, and negative otherwise.
Unknown values, such as those after the end of the run, make the robustness an interval. The
rules are those of robust satisfaction by Donze and Maler (FORMATS 2010), with the interval
semantics of Deshmukh et al. (RV 2015), in integer ns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.requirements.language import Node

FOREVER = 1 << 62
"""Last time of the last piece [ns]."""
Times = NDArray[np.int64]
LOW, HIGH, SURE, POSSIBLE = range(4)
"""Columns of a truth value: bounds of the robustness, and bounds of the truth, which is -1 or 1."""
_SWAPPED = [HIGH, LOW, POSSIBLE, SURE]


@dataclass(frozen=True)
class Pieces:
    """A signal or the truth of a formula, as n pieces in order of time.

    ``ns`` (n,) is the first time of each piece, and ``last`` (n,) its last time, in ns. ``order``
    (n,) is twice the microstep, plus 1 for a piece after the microstep's changes. ``values`` is
    (n,) for a number, NaN where unknown, and (n, 4) for a truth value.
    """

    ns: Times
    order: Times
    last: Times
    values: Vector

    @classmethod
    def of(cls, ns: Times, order: Times, values: Vector) -> Pieces:
        """Return pieces that are each valid until the next piece."""
        last = np.append(np.where(order[1:] > 0, ns[1:], ns[1:] - 1), FOREVER)
        return cls(ns, order, last, values)

    def at(self, ns: int, order: int = 0) -> Vector:
        """Return the value at a time, a number or a truth value (4,).

        By default, the value is that before the changes at the time ``ns``.
        """
        out: Vector = self.values[self.row(ns, order)]
        return out

    def row(self, ns: int, order: int = 0) -> int:
        """Return the index of the piece that is valid at a time."""
        row = int(np.searchsorted(self.ns, ns, side="right")) - 1
        while self.ns[row] == ns and self.order[row] > order:
            row -= 1
        return row


def joined(parts: Sequence[Pieces]) -> tuple[Pieces, list[Vector]]:
    """Return pieces at all changes of ``parts``, and the values of each part there.

    The returned pieces have the values of the first part. Before its first piece, a part has its
    first value.
    """
    first = parts[0]
    if all(p.ns is first.ns or (np.array_equal(p.ns, first.ns) and
           np.array_equal(p.order, first.order)) for p in parts[1:]):  # fmt: skip
        return first, [p.values for p in parts]
    ns = np.concatenate([p.ns for p in parts])
    order = np.concatenate([p.order for p in parts])
    by_time = np.lexsort((order, ns))
    ns, order = ns[by_time], order[by_time]
    new = np.append(True, (np.diff(ns) > 0) | (np.diff(order) > 0))
    rank = np.empty(len(by_time), np.int64)
    rank[by_time] = np.cumsum(new) - 1
    ns, order = ns[new], order[new]
    out, start = [], 0
    for part in parts:
        own = rank[start : start + len(part.ns)]
        start += len(part.ns)
        row = np.searchsorted(own, np.arange(len(ns)), side="right") - 1
        out.append(part.values[np.maximum(row, 0)])
    return Pieces.of(ns, order, out[0]), out


# Numbers and comparisons.

_OPERATIONS: dict[str, Callable[..., Vector]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "power": np.power, "negative": np.negative,
}  # fmt: skip
FUNCTIONS: Mapping[str, tuple[Callable[..., Vector], int, str]] = {
    "abs": (np.abs, 1, "same"), "min": (np.minimum, 2, "same"), "max": (np.maximum, 2, "same"),
    "sqrt": (np.sqrt, 1, "root"), "hypot": (np.hypot, 2, "same"), "exp": (np.exp, 1, "number"),
    "log": (np.log, 1, "number"), "sin": (np.sin, 1, "of angle"), "cos": (np.cos, 1, "of angle"),
    "tan": (np.tan, 1, "of angle"), "atan2": (np.arctan2, 2, "angle"),
}  # fmt: skip
"""For each function: how to compute it, its number of arguments, and its rule for units."""


def computed(function: Callable[..., Vector], parts: Sequence[Pieces]) -> Pieces:
    frame, values = joined(parts)
    with np.errstate(all="ignore"):
        return replace(frame, values=np.asarray(function(*values), np.float64))


_HOLDS: dict[str, Callable[[Vector, Vector], NDArray[np.bool_]]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
    "!=": np.not_equal,
}  # fmt: skip


def compared(sign: str, left: Pieces, right: Pieces) -> Pieces:
    """Return the truth of a comparison, whose robustness is the distance to the limit."""
    frame, (a, b) = joined([left, right])
    with np.errstate(all="ignore"):
        distance = a - b
    equal = a == b  # infinities as well
    distance = np.where(equal, 0.0, distance)
    if sign in ("<", "<="):
        distance = -distance
    elif sign in ("==", "!="):
        distance = np.abs(distance) * (1.0 if sign == "!=" else -1.0)
    truth = np.where(_HOLDS[sign](a, b), 1.0, -1.0)
    known = ~np.isnan(distance)
    columns = [np.where(known, distance, -np.inf), np.where(known, distance, np.inf),
               np.where(known, truth, -1.0), np.where(known, truth, 1.0)]  # fmt: skip
    return replace(frame, values=np.stack(columns, axis=1))


# Logic.


def inverted(part: Pieces) -> Pieces:
    return replace(part, values=-part.values[:, _SWAPPED])


def combined(kind: str, parts: Sequence[Pieces]) -> Pieces:
    """Return the truth of ``and``, ``or``, ``implies``, ``iff`` or ``xor``."""
    if kind == "implies":
        return combined("or", [inverted(parts[0]), parts[1]])
    if kind in ("iff", "xor"):
        one, other = parts
        both = combined(
            "and", [combined("implies", [one, other]), combined("implies", [other, one])]
        )
        return both if kind == "iff" else inverted(both)
    frame, values = joined(parts)
    extreme = np.minimum if kind == "and" else np.maximum
    return replace(frame, values=extreme.reduce(values))


# Temporal operators. Windows are in ns, relative to the time of the operator, both ends included.


def always(part: Pieces, first: int, last: int, past: bool = False) -> Pieces:
    windows = _past_windows if past else _windows
    ns, order, low, high = windows(part, first, last)
    return Pieces.of(ns, order, _smallest(part.values, low, high))


def eventually(part: Pieces, first: int, last: int, past: bool = False) -> Pieces:
    return inverted(always(inverted(part), first, last, past))


def until(left: Pieces, right: Pieces, first: int, last: int) -> Pieces:
    """Return the truth of ``left until[first, last] right``.

    ``right`` must hold at a time in the window, and ``left`` until that time. The computation uses
    an identity of Donze, Ferrere and Maler (CAV 2013).
    """
    frame, (holds, reached) = joined([left, right])
    parts = [shifted(replace(frame, values=_chained(holds, reached)), first)]
    if first:
        parts.append(always(left, 0, first - 1))
    if last < FOREVER:
        parts.append(eventually(right, first, last))
    return combined("and", parts)


def since(left: Pieces, right: Pieces, first: int, last: int) -> Pieces:
    """Return the truth of ``left since[first, last] right``, which looks into the past."""
    frame, (holds, reached) = joined([left, right])
    chain = _chained(holds[::-1], reached[::-1])[::-1]
    parts = [delayed(replace(frame, values=chain), first)]
    if first:
        parts.append(always(left, 0, first - 1, past=True))
    if last < FOREVER:
        parts.append(eventually(right, first, last, past=True))
    return combined("and", parts)


def cut_off(part: Pieces, end: int) -> Pieces:
    """Return a truth that is false after the time ``end``."""
    start = part.ns[0], part.order[0]
    ns = np.array([start[0], end + 1], np.int64)
    values = np.array([_TRUE, _FALSE])
    within = Pieces.of(ns, np.array([start[1], 0], np.int64), values)
    return combined("and", [part, within])


UNKNOWN = np.array([-np.inf, np.inf, -1.0, 1.0])
_TRUE, _FALSE = (np.array([x, x, y, y]) for x, y in ((np.inf, 1.0), (-np.inf, -1.0)))


def shifted(part: Pieces, by: int) -> Pieces:
    """Return the truth at a time ``by`` ns later."""
    if not by:
        return part
    ns = _new_times(part, _added(part.last, 1 - by))
    rows = np.searchsorted(part.last, _added(ns, by), side="left")
    return Pieces.of(ns, np.zeros_like(ns), part.values[rows])


def delayed(part: Pieces, by: int) -> Pieces:
    """Return the truth at a time ``by`` ns earlier.

    Before the first piece, the result is false.
    """
    if not by:
        return part
    ns = _new_times(part, _added(part.ns, by))
    rows = np.searchsorted(part.ns, _added(ns, -by), side="right") - 1
    values = np.where((rows >= 0)[:, None], part.values[np.maximum(rows, 0)], _FALSE)
    return Pieces.of(ns, np.zeros_like(ns), values)


def _new_times(part: Pieces, *changes: Times) -> Times:
    ns = np.sort(np.concatenate([part.ns[:1], *changes]), kind="stable")  # faster than unique
    ns = ns[np.append(True, np.diff(ns) > 0)]
    out: Times = ns[(ns >= part.ns[0]) & (ns < FOREVER)]
    return out


Windows = tuple[Times, Times, NDArray[np.intp], NDArray[np.intp]]
"""Times and order of pieces, and the first and the last piece in the window of each."""


def _windows(part: Pieces, first: int, last: int) -> Windows:
    ns = _new_times(part, _added(part.last, 1 - first), _added(part.ns, -last))
    order = np.zeros_like(ns)
    if first:
        low = np.searchsorted(part.last, _added(ns, first), side="left")
    else:
        ns, order, low = _with_microsteps(part, ns)
    return ns, order, low, np.searchsorted(part.ns, _added(ns, last), side="right") - 1


def _past_windows(part: Pieces, first: int, last: int) -> Windows:
    ns = _new_times(part, _added(part.ns, first), _added(part.last, last + 1))
    order = np.zeros_like(ns)
    if first:
        high = np.searchsorted(part.ns, _added(ns, -first), side="right") - 1
    else:
        ns, order, high = _with_microsteps(part, ns)
    return ns, order, np.searchsorted(part.last, _added(ns, -last), side="left"), high


def _with_microsteps(part: Pieces, ns: Times) -> tuple[Times, Times, NDArray[np.intp]]:
    more = ns[~np.isin(ns, part.ns[part.order == 0])]
    rows = np.searchsorted(part.last, more, side="left")
    ns = np.concatenate((part.ns, more))
    order = np.concatenate((part.order, np.zeros_like(more)))
    rows = np.concatenate((np.arange(len(part.ns)), rows))
    by_time = np.lexsort((order, ns))
    return ns[by_time], order[by_time], rows[by_time]


def _added(ns: Times, offset: int) -> Times:
    infinite = np.abs(ns) >= FOREVER
    out: Times = np.where(infinite, ns, np.clip(ns + offset, -FOREVER, FOREVER))
    return out


def _smallest(values: Vector, low: NDArray[np.intp], high: NDArray[np.intp]) -> Vector:
    size = np.maximum(high - low + 1, 0)
    level = np.frexp(size)[1] - 1  # floor(log2(size)), -1 for an empty window
    out = np.empty((len(low), values.shape[1]))
    out[size == 0] = _TRUE
    table = values
    for power in range(int(level.max(initial=0)) + 1):
        here = np.flatnonzero(level == power)
        span = 1 << power
        out[here] = np.minimum(table[low[here]], table[high[here] - span + 1])
        if len(table) > span:
            table = np.minimum(table[:-span], table[span:])
    return out


def _chained(holds: Vector, reached: Vector) -> Vector:
    floor, ceiling = reached.copy(), holds.copy()
    span, count = 1, len(floor)
    while span < count:
        a, b, c, d = floor[:-span], ceiling[:-span], floor[span:], ceiling[span:]
        new = np.maximum(a, np.minimum(b, c)), np.minimum(b, d)
        floor[:-span], ceiling[:-span] = new
        span *= 2
    return floor


# Formulas.

Lookup = Callable[[Node], Pieces]
"""Function that returns the values of a signal."""


def _without_measures(_: Node) -> Vector | None:
    return None


@dataclass(frozen=True)
class Evaluation:
    """Evaluation of a formula for one run.

    All signals begin at the time ``start`` and end at the time ``end``, in ns. After the end, the
    values are unknown.
    """

    values: Lookup
    start: int
    end: int
    complete: bool = True
    """False if the run continued after ``end``. Windows that end with the run are then open."""
    measured: Callable[[Node], Vector | None] = _without_measures
    """Function that returns the truth value (4,) of a comparison of a step measure with its limit.

    For any other part, the function returns None.
    """

    def __call__(self, node: Node) -> dict[Node, Pieces]:
        out: dict[Node, Pieces] = {}
        self._evaluate(node, out)
        return out

    def _evaluate(self, node: Node, out: dict[Node, Pieces]) -> Pieces:
        if node not in out:
            truth = self.measured(node)
            if truth is not None:
                out[node] = self.constant(truth)
            elif node.kind == "signal":
                out[node] = self.values(node)
            else:
                out[node] = self._operated(node, [self._evaluate(c, out) for c in node.children])
        return out[node]

    def _operated(self, node: Node, parts: list[Pieces]) -> Pieces:
        kind = node.kind
        if kind == "number":
            return self.constant(np.array(node.value))
        if kind in ("true", "false"):
            return self.constant(_TRUE if kind == "true" else _FALSE)
        if kind == "call" or kind in _OPERATIONS:
            return computed(FUNCTIONS[node.name][0] if kind == "call" else _OPERATIONS[kind], parts)
        if kind in _HOLDS:
            return compared(kind, *parts)
        if kind == "not":
            return inverted(parts[0])
        return combined(kind, parts) if node.window is None else self._temporal(node, parts)

    def constant(self, value: Vector) -> Pieces:
        """Return a number or a truth (4,) that is constant over time."""
        start = np.array([self.start], np.int64)
        return Pieces(start, np.zeros(1, np.int64), np.array([FOREVER]), value[None])

    def _temporal(self, node: Node, parts: list[Pieces]) -> Pieces:
        assert node.window is not None
        kind, (first, given) = node.kind, node.window
        last = FOREVER if given is None else given
        if kind == "since":
            left, right = parts
            return since(left, right, first, last)
        if kind in ("once", "historically"):
            operator = eventually if kind == "once" else always
            return operator(parts[0], first, last, past=True)
        if given is None and self.complete:
            parts[-1] = self._to_the_end(kind, parts[-1])
        operators: dict[str, Callable[..., Pieces]] = {
            "always": always, "eventually": eventually, "until": until
        }  # fmt: skip
        found = operators[kind](*parts, first, last)
        return self._unknown_after(found, self.end - first) if given is None else found

    def _to_the_end(self, kind: str, part: Pieces) -> Pieces:
        if kind == "always":
            return inverted(cut_off(inverted(part), self.end))
        return cut_off(part, self.end)

    def _unknown_after(self, part: Pieces, ns: int) -> Pieces:
        known = part.ns <= ns
        times = np.append(part.ns[known], max(self.start, ns + 1))
        order = np.append(part.order[known], 0)
        return Pieces.of(times, order, np.concatenate((part.values[known], UNKNOWN[None])))
