"""Find the first place at which two recordings differ in any bit.

A difference in the content of a message is reported at the tag at which the message was initiated.
A difference in the arrival of a message is reported at the tag at which the message was sent.
Within one microstep, differences are reported in the order of computation.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np

from rtsim.components.bus import COPY, DELIVERED, LOST, LOST_ARRIVAL
from rtsim.core.tag import START, Tag
from rtsim.engine.commands.command_handler import AT_A_TAG
from rtsim.engine.trace import COMMAND, INSERTED, request_topic
from rtsim.record.events import CHANGE, FAULT, FAULT_ENDED, Event, died_of
from rtsim.record.events import in_words as in_words_of_end
from rtsim.record.reading import Recording, TrackData
from rtsim.record.replay_comparison import first_unequal
from rtsim.scenario.builder import predecessors

Value: TypeAlias = float | int | str | None
"""``None``: the value does not exist or is not known."""


def bits(value: float) -> int:
    word: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return word


def same(a: Value, b: Value) -> bool:
    """Return True if two values are equal bit for bit; NaN equals NaN, 0.0 is not -0.0."""
    if isinstance(a, float) and isinstance(b, float):
        return bits(a) == bits(b)
    return type(a) is type(b) and a == b


def in_full(value: Value) -> str:
    if isinstance(value, float):
        return f"{value!r} (0x{bits(value):016x})"
    return "not known" if value is None else str(value)


@dataclass(frozen=True)
class ValuePair:
    """A value in both runs, with its name and the signal that supplied it."""

    name: str
    a: Value
    b: Value
    source: str = ""

    @property
    def equal(self) -> bool:
        return same(self.a, self.b)

    @property
    def apart(self) -> str:
        """Return the distance between two doubles in units of the last place, as text."""
        a, b = self.a, self.b
        if not (isinstance(a, float) and isinstance(b, float)) or self.equal:
            return ""
        if not (math.isfinite(a) and math.isfinite(b)):
            return ""
        steps = abs(_rank(a) - _rank(b))
        if not steps:
            return "0.0 and -0.0"
        return f"{steps} ulp apart" if steps < 10**6 else f"{b - a:.3g} apart"

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"name": self.name, "equal": self.equal}
        for key, value in (("a", self.a), ("b", self.b)):
            out[key] = value
            if isinstance(value, float):
                out[f"{key}_bits"] = f"0x{bits(value):016x}"
        if self.source:
            out["source"] = self.source
        return out


def _rank(value: float) -> int:
    word = bits(value)
    return -(word & (1 << 63) - 1) if word >> 63 else word


def columns(name: str, size: int) -> Sequence[str]:
    """Return the names of the elements of a value, as ``Signals`` names them."""
    return [name] if size == 1 else [f"{name}_{i}" for i in range(size)]


# Two saved states, including data that no trace contains: memories, random streams.

_NOT_COMPARED = frozenset(("inserted", "streams"))
"""Keys that the general comparison leaves out.  ``inserted``: a replay knows all tags to insert,
but the original run only the next.  ``streams``: random streams are compared one by one."""
_STREAM = "streams."
_MOST = 1000


def parting(
    a: Mapping[str, Any], b: Mapping[str, Any], ignoring: Sequence[str] = ()
) -> list[ValuePair]:
    """Return all values that differ between two states, by their paths.

    ``ignoring`` contains paths to omit.
    """
    known = tuple(ignoring)

    def ignored(path: str) -> bool:
        return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in known)

    pairs = (p for p in (*_in_streams(a, b), *walk("", _rest(a), _rest(b))) if not ignored(p.name))
    return list(islice(pairs, _MOST))


def part_of(path: str) -> tuple[str, str]:
    """Return the kind (``plants``, ``tasks``, ``bus``, ...) and the name in a path of a state."""
    kind, _, rest = path.partition(".")
    if kind == "streams":
        return kind, rest
    name = rest.removesuffix(".update") if kind == "tasks" else rest
    return kind, name.partition(".")[0].partition("[")[0]


def drawn(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the random streams that were used between two states."""
    return [pair.name.removeprefix(_STREAM) for pair in _in_streams(before, after)]


def first_apart(times: Sequence[int], agree: Callable[[int], bool]) -> int:
    """Return the index of the first time at which two runs differ, or ``len(times)``.

    The bisection assumes that runs stay different after their first difference.
    """
    low, high = 0, len(times)
    while low < high:
        middle = (low + high) // 2
        if agree(times[middle]):
            low = middle + 1
        else:
            high = middle
    return low


def _in_streams(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[ValuePair]:
    one, other = a["streams"], b["streams"]
    seeds = one["seed"], other["seed"]
    if seeds[0] != seeds[1]:
        yield ValuePair("streams", f"seed {seeds[0]}", f"seed {seeds[1]}")
        return
    for name in sorted(one["streams"].keys() | other["streams"].keys()):
        states = one["streams"].get(name), other["streams"].get(name)
        if next(walk("", *states), None) is not None:
            yield ValuePair(f"{_STREAM}{name}", *(_how_far(state) for state in states))


def _how_far(state: Mapping[str, Any] | None) -> str:
    if state is None:
        return "absent"
    words = 4 * int(state["state"]["counter"][0]) + int(state["buffer_pos"]) - 4
    return f"{words} words drawn" + (" and a half" if state["has_uint32"] else "")


def _rest(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key not in _NOT_COMPARED}


def walk(path: str, a: Any, b: Any) -> Iterator[ValuePair]:
    """Yield all different values of two nested data structures, with their paths."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        if a.get("known") is False or b.get("known") is False:
            return  # the memory of a controller whose answers were replayed is not known
        replayed = ("replayed" in a) != ("replayed" in b)  # the keys of one are known
        for key in sorted(a.keys() & b.keys() if replayed else a.keys() | b.keys(), key=str):
            yield from walk(f"{path}.{key}" if path else str(key), a.get(key), b.get(key))
        return
    a, b = _plain(a), _plain(b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b):
            yield ValuePair(path, f"{len(a)} elements", f"{len(b)} elements")
        for i, (one, other) in enumerate(zip(a, b, strict=False)):
            yield from walk(f"{path}[{i}]", one, other)
        return
    if type(a) in (float, int, str) and type(b) in (float, int, str):
        if not same(a, b):
            yield ValuePair(path, a, b)
    elif a is not b and a != b:
        yield ValuePair(path, _text(a), _text(b))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _text(value: Any) -> str:
    return "absent" if value is None else f"{value!r:.80}"


# The places at which two traces differ, in their order.

What: TypeAlias = Literal["plant", "input", "request", "message", "event", "memory", "layout"]

ABSENT = "absent"
_OF_CONTROLLERS = ("Late", "Discarded", "Missed", "Failed", "Restarted")
_TOLD = (INSERTED, CHANGE, *_OF_CONTROLLERS, FAULT, FAULT_ENDED)
_DECIDED_WHEN_SENT = frozenset(("arrival", "arrival_step", "status"))
_STATUS: Mapping[Value, str] = {DELIVERED: "delivered", LOST: "lost", COPY: "a copy"}
_PLANT, _WAKE, _INPUT, _CHANGED, _DUE, _REACTION, _AFTER = range(7)


@dataclass(frozen=True)
class Place:
    """The place at which two runs differ: component, tag and columns."""

    tag: Tag
    what: What
    name: str
    """Name of the component, or of the event's source."""
    moment: str
    """The moment within the tag: ``x-``, ``x+``, ``content``, ``on its way``, ..."""
    pairs: tuple[ValuePair, ...]
    rank: tuple[int, int, int] = (0, 0, 0)
    """Sort key within the tag."""
    initiated: Tag | None = None
    """For a message, the tag at which its sender sampled."""

    @property
    def order(self) -> tuple[Tag, tuple[int, int, int], str]:
        return self.tag, self.rank, self.name


@dataclass(frozen=True)
class Order:
    """The declared order of reactions within a microstep."""

    before: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, recording: Recording) -> Order:
        pairs = recording.header.get("scenario", {}).get("order", [])
        return cls(predecessors([(str(a), str(b)) for a, b in pairs]))

    def depth(self, name: str) -> int:
        return len(self.before.get(name, ()))


def differences(a: Recording, b: Recording) -> list[Place]:
    """Return the first difference in each track and in the events, in order of time."""
    order = Order.of(a)
    found = [*_in_events(a, b)]
    for name in sorted(a.tracks.keys() | b.tracks.keys()):
        one, other = a.tracks.get(name), b.tracks.get(name)
        if not any(track and track.spec.deterministic for track in (one, other)):
            continue
        if one is None or other is None:
            there = [ABSENT if track is None else "there" for track in (one, other)]
            found.append(Place(START, "layout", name, "track", (ValuePair(name, *there),)))
        elif (place := _in_track(one, other, order, (a, b))) is not None:
            found.append(place)
    return sorted(found, key=lambda place: place.order)


def _in_track(
    a: TrackData, b: TrackData, order: Order, whole: tuple[Recording, Recording]
) -> Place | None:
    mine, theirs = (("ns", *t.integers, *t.signals.columns) for t in (a, b))
    if mine != theirs:
        pair = ValuePair("columns", _but(mine, theirs), _but(theirs, mine))
        return Place(START, "layout", a.name, "columns", (pair,))
    n = min(len(a), len(b))
    unequal = first_unequal(a, b)
    row = n if unequal is None else unequal[0]
    if row == n and len(a) == len(b):
        return None
    if row == n and whole[int(len(b) < len(a))].truncated:
        return None  # the shorter recording was cut off
    one = _Row.of(a, row)
    other = _Row.of(b, row)
    if one is not None and other is not None and one.which != other.which:
        if one.which < other.which:
            other = None
        else:
            one = None
    return _place(mine, one, other, order)


def _but(columns: Sequence[str], others: Sequence[str]) -> str:
    shown = columns if set(columns) == set(others) else [c for c in columns if c not in others]
    return ", ".join(shown) or ABSENT


@dataclass(frozen=True)
class _Row:
    """A recorded row.  ``which`` identifies the row within its track."""

    track: TrackData
    values: tuple[Value, ...]
    which: tuple[int, ...]

    @classmethod
    def of(cls, track: TrackData, row: int) -> _Row | None:
        if row >= len(track):
            return None
        head = 1 + len(track.integers)
        floats = track.values(row)
        integers = tuple(int(v) for v in track.words[row, :head])
        named = dict(zip(("ns", *track.integers), integers, strict=True))
        if "sequence" in named:
            which: tuple[int, ...] = (named["sequence"], int(named["status"] == COPY))
        else:
            which = (named["ns"], named.get("step", 0), named.get("side", 0))
        return cls(track, (*integers, *(float(v) for v in floats)), which)

    def tag(self, stamp: str) -> Tag:
        names = ("ns", *self.track.integers)
        ns = self.values[names.index(stamp)]
        step = self.values[names.index(f"{stamp}_step" if stamp != "ns" else "step")]
        assert isinstance(ns, int)
        assert isinstance(step, int)
        return Tag(ns, step)


def _place(names: Sequence[str], a: _Row | None, b: _Row | None, order: Order) -> Place:
    there = [row for row in (a, b) if row is not None]
    if a is not None and b is not None:
        pairs = tuple(
            pair
            for pair in (
                ValuePair(n, x, y) for n, x, y in zip(names, a.values, b.values, strict=True)
            )
            if not pair.equal
        )
    else:
        pairs = (ValuePair("row", *("there" if row else ABSENT for row in (a, b))),)
    track = there[0].track.name
    kind, _, name = track.rpartition("/")
    if kind == "messages":
        return _message(name, pairs, there, order)
    tag = min(row.tag("ns") for row in there)
    if kind == "inputs":
        return Place(tag, "input", name, "latched", pairs, (_INPUT, 0, 0))
    side = min(row.which for row in there)[2]
    return Place(
        tag, "plant", track, "x+" if side else "x-", pairs, (_AFTER if side else _PLANT, 0, 0)
    )


def _message(name: str, pairs: tuple[ValuePair, ...], there: list[_Row], order: Order) -> Place:
    initiated = min(row.tag("initiated") for row in there)
    sender = name.partition(".")[0]
    if name == request_topic(sender):
        rank = (_REACTION, order.depth(sender), 0)
        return Place(initiated, "request", sender, "sampled", pairs, rank, initiated)
    sent = len(there) < 2 or all(pair.name in _DECIDED_WHEN_SENT for pair in pairs)
    if not sent:
        rank = (_REACTION, order.depth(sender), 1)
        return Place(initiated, "message", name, "content", pairs, rank, initiated)
    completed = min(row.tag("completed") for row in there)
    rank = (_DUE, 0, 0) if completed > initiated else (_REACTION, order.depth(sender), 2)
    told = tuple(_in_words(pair) for pair in pairs)
    return Place(completed, "message", name, "on its way", told, rank, initiated)


def _in_words(pair: ValuePair) -> ValuePair:
    if pair.name == "status":
        return ValuePair(pair.name, _STATUS.get(pair.a, pair.a), _STATUS.get(pair.b, pair.b))
    if pair.name == "arrival":
        a, b = ("never" if value == LOST_ARRIVAL.ns else value for value in (pair.a, pair.b))
        return ValuePair("arrival (ns)", a, b)
    return pair


# -- events ---------------------------------------------------------------------------------------


def compared_events(recording: Recording) -> list[Event]:
    """Return the events that a replay must repeat, in a defined order."""
    return sorted(
        (
            e
            for e in recording.events
            if e.kind in _TOLD or (e.kind == COMMAND and e.source in AT_A_TAG)
        ),
        key=_what_it_is,
    )


def _what_it_is(event: Event) -> tuple[Any, ...]:
    text = event.text if event.kind == COMMAND else ""
    values = sorted(event.values.items()) if event.kind == CHANGE else []
    return event.tag, _CHANGED_FIRST.get(event.kind, 9), event.kind, event.source, text, str(values)


_CHANGED_FIRST = {INSERTED: 0, COMMAND: 1, CHANGE: 2}


def in_words(event: Event) -> str:
    """Return an event as one line of text."""
    values = ", ".join(f"{name} = {value!r}" for name, value in event.values.items())
    text = event.text if event.kind == COMMAND or not values else values
    return f"{event.kind} {event.source}" + (f": {text}" if text else "")


def _in_events(a: Recording, b: Recording) -> Iterator[Place]:
    mine, theirs = compared_events(a), compared_events(b)
    n = min(len(mine), len(theirs))
    row = next((i for i in range(n) if _what_it_is(mine[i]) != _what_it_is(theirs[i])), n)
    one = mine[row] if row < len(mine) else None
    other = theirs[row] if row < len(theirs) else None
    if one is not None and other is not None and one.tag != other.tag:
        one, other = (one, None) if one.tag < other.tag else (None, other)
    there = [e for e in (one, other) if e is not None]
    if not there or (len(there) == 1 and (b if other is None else a).truncated):
        return
    event = there[0]
    rank = {
        INSERTED: (_WAKE, 0, 0), COMMAND: (_CHANGED, 0, 0), CHANGE: (_CHANGED, 0, 1),
        "Late": (_DUE, 0, 0), FAULT: (_WAKE, 0, 1), FAULT_ENDED: (_WAKE, 0, 1),
    }.get(event.kind, (_REACTION, 0, -1))  # fmt: skip
    texts = [ABSENT if e is None else in_words(e) for e in (one, other)]
    yield Place(
        event.tag, "event", event.source, event.kind, (ValuePair(event.kind, *texts),), rank
    )


def failure(a: Recording, b: Recording) -> Place | None:
    """Return the place at which the errors of two runs differ, or ``None``.

    Overruns and missing devices or files do not count as errors.
    """
    ends = [died_of(recording) for recording in (a, b)]
    if in_words_of_end(ends[0]) == in_words_of_end(ends[1]):
        return None
    texts = [ABSENT if e is None else f"{e.source}: {e.text}" for e in ends]
    last = min(e.tag for e in ends if e is not None)
    later = [
        Tag(int(ns))
        for recording in (a, b)
        for track in recording.tracks.values()
        if track.spec.deterministic
        for ns in track.ns[track.ns > last.ns][:1]
    ]
    event = next(e for e in ends if e is not None and e.tag == last)
    pair = ValuePair("error", *texts)
    return Place(min(later, default=last), "event", event.source, "error", (pair,))


def last_before(recordings: Sequence[Recording], tag: Tag) -> Tag | None:
    best: Tag | None = None
    for recording in recordings:
        for track in recording.tracks.values():
            if not track.spec.deterministic or not len(track):
                continue
            step = "step" if "step" in track.integers else "initiated_step"
            ns, steps = track.ns, track.integer(step)
            inside = np.flatnonzero((ns < tag.ns) | ((ns == tag.ns) & (steps < tag.step)))
            if len(inside):
                row = inside[np.lexsort((steps[inside], ns[inside]))[-1]]
                found = Tag(int(ns[row]), int(steps[row]))
                best = found if best is None else max(best, found)
    return best
