"""The first place at which two traces differ.

A message can differ at two tags: in its content and its completion at the tag at which it was
initiated, and in its loss and its arrival at the tag at which it was sent.  Differences within one
microstep are ordered as the executive computes them: x-, external inputs, changes, answers that are
due, reactions, x+.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from rtsim.components.bus import COPY, DELIVERED, LOST, LOST_ARRIVAL
from rtsim.core.tag import START, Tag
from rtsim.engine.commands.command_handler import AT_A_TAG
from rtsim.engine.trace import COMMAND, INSERTED, request_topic
from rtsim.record.events import FAULT, FAULT_ENDED, Event, died_of
from rtsim.record.events import in_words as in_words_of_end
from rtsim.record.reading import Recording, TrackData
from rtsim.record.replay_comparison import first_unequal
from rtsim.runs.diverging.values import Value, ValuePair
from rtsim.scenario.builder import predecessors

What: TypeAlias = Literal["plant", "input", "request", "message", "event", "memory", "layout"]

ABSENT = "absent"
_CHANGE = "Change"
_OF_CONTROLLERS = ("Late", "Discarded", "Missed", "Failed")
_TOLD = (INSERTED, _CHANGE, *_OF_CONTROLLERS, FAULT, FAULT_ENDED)
_DECIDED_WHEN_SENT = frozenset(("arrival", "arrival_step", "status"))
_STATUS: Mapping[Value, str] = {DELIVERED: "delivered", LOST: "lost", COPY: "a copy"}
_PLANT, _WAKE, _INPUT, _CHANGED, _DUE, _REACTION, _AFTER = range(7)


@dataclass(frozen=True)
class Place:
    """The place at which two runs differ: a component's row at a tag, and its differing columns."""

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
    """The order of reactions within a microstep, as the scenario declared it."""

    before: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, recording: Recording) -> Order:
        pairs = recording.header.get("scenario", {}).get("order", [])
        return cls(predecessors([(str(a), str(b)) for a, b in pairs]))

    def depth(self, name: str) -> int:
        return len(self.before.get(name, ()))


def differences(a: Recording, b: Recording) -> list[Place]:
    """Return the first difference in each track and in the events, the earliest first."""
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
    """Return the columns that ``others`` lacks, or all columns if only their order differs."""
    shown = columns if set(columns) == set(others) else [c for c in columns if c not in others]
    return ", ".join(shown) or ABSENT


@dataclass(frozen=True)
class _Row:
    """A row of a track; ``which`` identifies the row within the track."""

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
    """Return the pair with the status and the arrival of a message as words instead of numbers."""
    if pair.name == "status":
        return ValuePair(pair.name, _STATUS.get(pair.a, pair.a), _STATUS.get(pair.b, pair.b))
    if pair.name == "arrival":
        a, b = ("never" if value == LOST_ARRIVAL.ns else value for value in (pair.a, pair.b))
        return ValuePair("arrival (ns)", a, b)
    return pair


# -- events ---------------------------------------------------------------------------------------


def told(recording: Recording) -> list[Event]:
    """Return the events that a replay repeats, in a total order."""
    return sorted(
        (
            e
            for e in recording.events
            if e.kind in _TOLD or (e.kind == COMMAND and e.source in AT_A_TAG)
        ),
        key=_what_it_is,
    )


def _what_it_is(event: Event) -> tuple[Any, ...]:
    """Return the sort key of an event, without text and values that contain wall-clock time."""
    text = event.text if event.kind == COMMAND else ""
    values = sorted(event.values.items()) if event.kind == _CHANGE else []
    return event.tag, _CHANGED_FIRST.get(event.kind, 9), event.kind, event.source, text, str(values)


_CHANGED_FIRST = {INSERTED: 0, COMMAND: 1, _CHANGE: 2}


def in_words(event: Event) -> str:
    """Return an event as one line, with the values that it set."""
    values = ", ".join(f"{name} = {value!r}" for name, value in event.values.items())
    text = event.text if event.kind == COMMAND or not values else values
    return f"{event.kind} {event.source}" + (f": {text}" if text else "")


def _in_events(a: Recording, b: Recording) -> Iterator[Place]:
    mine, theirs = told(a), told(b)
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
        INSERTED: (_WAKE, 0, 0), COMMAND: (_CHANGED, 0, 0), _CHANGE: (_CHANGED, 0, 1),
        "Late": (_DUE, 0, 0), FAULT: (_WAKE, 0, 1), FAULT_ENDED: (_WAKE, 0, 1),
    }.get(event.kind, (_REACTION, 0, -1))  # fmt: skip
    texts = [ABSENT if e is None else in_words(e) for e in (one, other)]
    yield Place(
        event.tag, "event", event.source, event.kind, (ValuePair(event.kind, *texts),), rank
    )


def failure(a: Recording, b: Recording) -> Place | None:
    """Return the place where only one of two runs with equal rows failed; else ``None``.

    The tag of the place is the first tag that only the run without the error has.  An error of a
    run that fell behind the wall clock does not count.
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
    """Return the last tag before ``tag`` with a recorded row or event, or ``None``."""
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
