"""Evaluate requirements during a run.

:class:`Monitor` takes the rows of a run in the order of their arrival. At any time between two
tags, it gives the bounds of the robustness that the rows so far leave open: the bounds of
:func:`rtsim.requirements.check` on a recording that ends there. The cost of an evaluation does not
grow with the length of the run, except for formulas that need the whole run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import RtsimError
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Vector
from rtsim.record.component_values import PARAMETERS, SAMPLED
from rtsim.record.events import CHANGE, Event
from rtsim.record.reading import Recording, TrackData
from rtsim.record.schema import TrackSpec
from rtsim.record.table import Changes, signal_changes, signal_of
from rtsim.requirements.formula import checked
from rtsim.requirements.language import Node
from rtsim.requirements.requirement import Requirement, required_by
from rtsim.requirements.robustness import (
    FOREVER,
    FUNCTIONS,
    POSSIBLE,
    UNKNOWN,
    Evaluation,
    Lookup,
    Pieces,
)
from rtsim.requirements.verdict import closed, unknown

MOST_CHANGES = 4_000_000
"""Limit of the stored changes of all signals, which take 100 MB."""
_CONNECTIVES = ("and", "or", "not", "implies", "iff", "xor")
_PAST = ("once", "historically", "since")


@dataclass(frozen=True)
class Bounds:
    """Bounds of the robustness of a requirement during a run.

    ``outcome`` is FAILED or PASSED as soon as the rest of the run cannot change it. A requirement
    with a condition stays undecided until the end, because the condition may never become true.
    ``at_ns`` is the time of the violation [ns].
    """

    name: str
    low: float
    high: float
    outcome: Outcome
    at_ns: int | None = None

    def to_plain(self) -> dict[str, Any]:
        bounds = [b if math.isfinite(b) else None for b in (self.low, self.high)]
        return {"name": self.name, "robustness": bounds, "outcome": self.outcome.name.lower(),
                "at_ns": self.at_ns}  # fmt: skip


class Monitor:
    """Requirements of a run in progress.

    ``track`` and ``event`` add rows and events. ``look`` evaluates the requirements.
    ``unwatched`` contains the requirements that need a complete recording, with the reasons.
    """

    def __init__(self, header: Mapping[str, Any], specs: Sequence[TrackSpec]) -> None:
        self._header = header
        self._specs = specs
        self._rows: dict[str, list[NDArray[np.int64]]] = {}
        self._events: list[Event] = []
        self._histories: dict[str, _History] = {}
        self._watched: list[_Watched] = []
        self.unwatched: dict[str, str] = {}
        empty = self._recording(0)
        self._begin = empty.span_ns[0]
        for requirement in required_by(header):
            try:
                self._watch(requirement, empty)
            except RtsimError as error:
                self.unwatched[requirement.name] = str(error)
        needed = [history.track for history in self._histories.values()]
        self.tracks = frozenset(needed) & {spec.name for spec in specs}
        """Names of the tracks whose rows the requirements need."""

    def _watch(self, requirement: Requirement, empty: Recording) -> None:
        if requirement.chain is not None:
            raise RtsimError("the limit of a chain needs the whole run")
        node = checked(requirement.formula, lambda name: _History.of(empty, name).unit)
        if any(n.kind == "call" and n.name not in FUNCTIONS for n in node.walk()):
            raise RtsimError("a step measure, such as rise_time, needs the whole run")
        names = {one.name for one in node.walk() if one.kind == "signal"}
        self._histories |= {
            name: _History.of(empty, name) for name in names - self._histories.keys()
        }
        zero = 0 if empty.continues else self._begin
        self._watched.append(_Watched(requirement.name, node, names, zero, self._begin))

    def track(self, name: str, words: NDArray[np.int64]) -> None:
        """Add rows (n, width) of a track, which must not change later."""
        if name in self.tracks:
            self._rows.setdefault(name, []).append(words)

    def event(self, event: Event) -> None:
        """Add an event. Only changes of sources and parameters matter."""
        if event.kind == CHANGE:
            self._events.append(event)

    def look(self, end: int, complete: bool = False) -> list[Bounds]:
        """Return the bounds of each requirement.

        All rows up to the time ``end`` [ns] must have been added. ``complete`` is True at the end
        of the run.
        """
        recording = self._recording(end)
        for history in self._histories.values():
            history.add(recording, self._events)
        self._events.clear()

        def signals_from(since: int) -> tuple[Lookup, int]:
            whole = since <= self._begin
            begin = self._begin if whole else since
            start = begin if whole and recording.from_start else -FOREVER
            return lambda node: self._histories[node.name].pieces(start, begin, end, whole), start

        out = [one.bounds(signals_from, end, complete) for one in self._watched]
        if sum(len(history) for history in self._histories.values()) > MOST_CHANGES:
            whole = [one for one in self._watched if one.since <= self._begin]
            for one in whole:
                self.unwatched[one.name] = "it needs the whole run, which is too long"
            self._watched = [one for one in self._watched if one not in whole]
        for name, history in self._histories.items():
            needed = [one.since for one in self._watched if name in one.names]
            history.drop(min(needed, default=FOREVER))
        return out

    def _recording(self, end: int) -> Recording:
        tracks = {}
        for spec in self._specs:
            empty = np.empty((0, spec.width), np.int64)
            words = np.concatenate([empty, *self._rows.pop(spec.name, [])])
            if "arrival" in spec.integers and len(words):
                later = words[:, 1 + spec.integers.index("arrival")] > end
                if later.any():
                    self._rows[spec.name] = [words[later]]
                    words = words[~later]
            tracks[spec.name] = TrackData(spec, words)
        return Recording("this run", self._header, {"ended": end}, tracks)


def _join(one: Changes, other: Changes) -> Changes:
    ns, order, values = (np.concatenate([a, b]) for a, b in zip(one[:3], other[:3], strict=True))
    if len(one.ns) and len(other.ns) and other.ns[0] <= one.ns[-1]:
        by_time = np.lexsort((order, ns))
        ns, order, values = ns[by_time], order[by_time], values[by_time]
    last = np.append((np.diff(ns) > 0) | (np.diff(order) > 0), True)[: len(ns)]
    return Changes(ns[last], order[last], values[last], one.first)


@dataclass
class _History:
    name: str
    unit: str
    track: str
    sampled: bool
    from_start: bool
    set_by: tuple[str, int, int] | None
    """For a source or a parameter: the source of its events, its first value, and their number."""
    changes: Changes
    begun: bool = False

    @classmethod
    def of(cls, recording: Recording, name: str) -> _History:
        owner, column = signal_of(recording, name)
        rows, set_by = owner.rows, None
        if not owner.timed:
            signal = next(s for s in rows.signals if column in (s.name, *s.columns))
            at = signal.columns.index(column) if column in signal.columns else 0
            component = owner.name.removesuffix(PARAMETERS)
            set_by = f"{component}.{signal.name}", at, signal.size
        track = getattr(rows, "of", rows).spec.name
        sampled = rows.spec.name.endswith(SAMPLED) and recording.from_start
        return cls(
            name, rows.spec.units[column], track, sampled, recording.from_start, set_by,
            signal_changes(recording, name),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.changes.ns)

    def add(self, recording: Recording, events: Sequence[Event]) -> None:
        if self.set_by is None:
            new = signal_changes(recording, self.name)
            if "arrival" in signal_of(recording, self.name)[0].rows.integers:
                new = new if self.from_start else unknown(new)
            first = self.changes.first if self.begun else new.first
            self.changes = _join(self.changes._replace(first=first), new)
        else:
            source, at, size = self.set_by
            told = [e for e in events if e.source == source and len(e.values) == size]
            values = np.array([float(list(e.values.values())[at]) for e in told])
            ns = np.array([e.tag.ns for e in told], np.int64)
            by_tag = np.array(sorted(range(len(told)), key=lambda k: told[k].tag), np.intp)
            new = Changes(ns[by_tag], np.ones(len(ns), np.int64), values[by_tag], math.nan)
            self.changes = _join(self.changes, new)
        self.begun = True

    def pieces(self, start: int, begin: int, end: int, whole: bool) -> Pieces:
        return closed(self.changes, start, begin, end, self.sampled and whole)

    def drop(self, before: int) -> None:
        first = max(0, int(np.searchsorted(self.changes.ns, before)) - 1)
        ns, order, values, at_first = self.changes
        self.changes = Changes(ns[first:], order[first:], values[first:], at_first)


SignalsFrom = Callable[[int], tuple[Lookup, int]]
"""Function that returns the signals from a time on [ns], and the start of their pieces [ns]."""


@dataclass
class _Watched:
    name: str
    node: Node
    names: frozenset[str] | set[str]
    zero: int
    begin: int
    parts: list[_Part] = field(default_factory=list)
    at_ns: int | None = None

    def __post_init__(self) -> None:
        self.conditional = any(one.kind == "implies" for one in self.node.walk())
        self.node = self._divided(self.node, direct=True)

    def _divided(self, node: Node, direct: bool) -> Node:
        if node.kind == "eventually":
            never = Node("not", node.children)
            node = Node("not", (Node("always", (never,), window=node.window),))
        if node.kind in _CONNECTIVES:
            direct = direct and node.kind == "and"
            return replace(
                node, children=tuple(self._divided(one, direct) for one in node.children)
            )
        self.parts.append(_Part(node, self.zero, self.begin, direct))
        return Node("signal", name=f"#{len(self.parts) - 1}")

    @property
    def since(self) -> int:
        return min(part.since for part in self.parts)

    def bounds(self, signals_from: SignalsFrom, end: int, complete: bool) -> Bounds:
        values = [part.value(signals_from, end, complete) for part in self.parts]
        evaluation = Evaluation(
            lambda node: evaluation.constant(values[int(node.name[1:])]), self.zero, end
        )
        low, high, sure, possible = (evaluation(self.node)[self.node].at(self.zero) + 0.0).tolist()
        outcome = Outcome.UNDECIDED
        if possible < 0:
            outcome = Outcome.FAILED
            if self.at_ns is None:
                times = [p.violated_ns for p in self.parts if p.violated_ns is not None]
                self.at_ns = min(times, default=end)
        elif sure > 0 and low < math.inf and not self.conditional:
            outcome = Outcome.PASSED
        return Bounds(self.name, low, high, outcome, self.at_ns)


class _Part:
    """A part of a formula that is evaluated at one time ``zero`` [ns]."""

    def __init__(self, node: Node, zero: int, begin: int, direct: bool) -> None:
        self._node, self._zero, self._direct = node, zero, direct
        self._gathers = node.kind == "always" and max(_spans(node.children[0])) < math.inf
        self._inner = node.children[0] if self._gathers else node
        self._back, self._reach = _spans(self._inner)
        first, last = node.window if self._gathers and node.window is not None else (0, None)
        self._begin = begin
        self._first, self._last = zero + first, None if last is None else zero + last
        self._done = self._first
        self._value = _TRUE
        self._final = False
        self.violated_ns: int | None = None
        """The first time at which a condition that must always hold is false [ns]."""

    @property
    def since(self) -> int:
        if self._final:
            return FOREVER
        return max(self._begin, self._done - int(self._back)) if self._gathers else self._begin

    def value(self, signals_from: SignalsFrom, end: int, complete: bool) -> Vector:
        """Return the truth (4,) after all rows up to ``end`` [ns]."""
        if self._final:
            return self._value
        signals, start = signals_from(self.since)
        evaluation = Evaluation(signals, start, end, complete)
        pieces = evaluation(self._inner)[self._inner]
        if self._gathers:
            return self._gathered(pieces, end, complete)
        found = pieces.at(self._zero)
        if end > self._zero + self._reach:
            self._value, self._final = found, True
        return found

    def _gathered(self, pieces: Pieces, end: int, complete: bool) -> Vector:
        last = FOREVER if self._last is None else self._last
        if self._last is None:
            if self._first > end:  # the run may end before the window begins
                return UNKNOWN
            last = end if complete else last
        here = (pieces.last >= self._done) & (pieces.ns <= last)
        values = pieces.values[here]
        found: Vector = np.minimum(self._value, values.min(axis=0))
        if self._direct and self.violated_ns is None and found[POSSIBLE] < 0:
            row = int(np.argmax(values[:, POSSIBLE] < 0))
            self.violated_ns = max(int(pieces.ns[here][row]), self._first)
        # At ``end`` itself, a command to a paused run can still add values.
        done = min(end - int(self._reach) - 1, last)
        if done > self._done:
            values = pieces.values[here & (pieces.ns <= done)]
            self._value, self._done = np.minimum(self._value, values.min(axis=0)), done
            self._final = done == self._last
        return found


_TRUE = np.array([math.inf, math.inf, 1.0, 1.0])


def _spans(node: Node) -> tuple[float, float]:
    inner = [_spans(child) for child in node.children]
    before, after = (max(some, default=0) for some in zip(*inner, strict=True)) if inner else (0, 0)
    if node.window is None:
        return before, after
    last = math.inf if node.window[1] is None else node.window[1]
    return (before + last, after) if node.kind in _PAST else (before, after + last)
