"""Recordings as numpy arrays by signal name.

``rec["f16.altitude"]`` is one column, ``rec.rows("f16")`` everything of a track.  A recording that
was cut off opens up to there, and says so in ``truncated``.  The rows of a large file stay in it:
columns, single rows and ranges of time are read when they are asked for.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Duration, Tag, to_ns
from rtsim.record.chunks import SMALL, Messages
from rtsim.record.event import Event
from rtsim.record.salvage import Salvaged, salvage
from rtsim.record.schema import EVENT_TOPIC, FOOTER, HEADER, MOST_COLUMNS, TrackSpec, unsealed
from rtsim.record.stored import PIECE, StoredWords, Table, pieces

_LEAST_EVENTS = 1 << 20
_EVENTS_DENSEST = 16
"""So many times the size of its file what the events of a recording say may be, beyond a MiB."""
_MOST_COLUMNS = 2 * MOST_COLUMNS
"""Of all tracks together."""


class Rows(NamedTuple):
    """All rows of a track: ns (n,), integers (n, k), floats (n, m)."""

    ns: NDArray[np.int64]
    integers: NDArray[np.int64]
    floats: NDArray[np.float64]


@dataclass(frozen=True)
class TrackData:
    """One track of a recording; ``words`` is (n, width), as :class:`TrackSpec` lays it out.

    Where the file is large, they are in it still: ``ns``, ``column``, ``values`` and ``pieces``
    read as much as they give, ``rows`` reads everything.
    """

    spec: TrackSpec
    words: Table

    def __len__(self) -> int:
        return len(self.words)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def integers(self) -> tuple[str, ...]:
        return self.spec.integers

    @property
    def signals(self) -> Signals:
        return self.spec.signals

    @property
    def about(self) -> Mapping[str, str]:
        return self.spec.about

    @property
    def _head(self) -> int:
        return 1 + len(self.spec.integers)

    @property
    def rows(self) -> Rows:
        words, head = np.asarray(self.words), self._head
        return Rows(words[:, 0], words[:, 1:head], words[:, head:].view(np.float64))

    @property
    def ns(self) -> NDArray[np.int64]:
        """Of each row, its simulated time."""
        out: NDArray[np.int64] = self.words[:, 0]
        return out

    def values(self, row: int) -> Vector:
        """The doubles of one row."""
        out: Vector = self.words[row, self._head :].view(np.float64)
        return out

    def pieces(self, size: int = PIECE) -> Iterator[Rows]:
        """All rows in their order, ``size`` bytes or a row at a time."""
        for _, (words,) in pieces(self.words, size=size):
            yield replace(self, words=words).rows

    def column(self, name: str) -> Vector:
        """One column by name as doubles (n,), or (n, size) for a signal that is an array."""
        if name in self.signals:
            where, head = self.signals.slice(name), self._head
            found: Vector = self.words[:, head + where.start : head + where.stop].view(np.float64)
            return found if self.signals[name].shape else found[:, 0]
        if name in self.signals.columns:
            at = self._head + self.signals.columns.index(name)
            one: Vector = self.words[:, at].view(np.float64)
            return one
        if name in self.integers:
            return self.integer(name).astype(np.float64)
        known = (*self.signals.names, *self.signals.columns, *self.integers)
        raise UnknownName("signal", name, dict.fromkeys(known), f"track {self.name}")

    def integer(self, name: str) -> NDArray[np.int64]:
        """One integer column, exactly."""
        if name not in self.integers:
            raise UnknownName("integer column", name, self.integers, f"track {self.name}")
        out: NDArray[np.int64] = self.words[:, 1 + self.integers.index(name)]
        return out

    def tag(self, row: int) -> Tag:
        """The tag of a row; microstep 0 where the track has none."""
        step = self.integers.index("step") + 1 if "step" in self.integers else None
        words = self.words[row]
        return Tag(int(words[0]), 0 if step is None else int(words[step]))


@dataclass(frozen=True)
class Recording:
    """One run.  ``footer`` is None, and ``truncated`` says why, when it was cut off."""

    source: str
    header: Mapping[str, Any]
    footer: Mapping[str, Any] | None
    tracks: Mapping[str, TrackData]
    events: list[Event] = field(default_factory=list)
    truncated: str | None = None

    @classmethod
    def open(cls, path: str | Path) -> Recording:
        """Read a file; :class:`RecordingError` if there is nothing of a recording in it."""
        return _assembled(Path(path), salvage(Path(path)))

    def track(self, name: str) -> TrackData:
        try:
            return self.tracks[name]
        except KeyError:
            raise UnknownName("track", name, self.tracks, self.source) from None

    def __getitem__(self, name: str) -> Vector:
        """``"track.signal"`` as an array (n,), or (n, size) for a signal that is an array."""
        track, dot, signal = name.rpartition(".")
        if not dot:
            raise UnknownName("signal", name, self.names, self.source)
        return self.track(track).column(signal)

    def at(self, t: Duration, side: Literal["-", "+"] = "+") -> dict[str, float]:
        """What each plant that stands at ``t`` s was there, by ``plant.column``.

        ``"-"``: before the discrete changes of that instant; ``"+"``: after them.  Raises
        :class:`RecordingError` where no plant has a tag at ``t``.
        """
        if side not in ("-", "+"):
            raise UnknownName("side of an instant", side, ("-", "+"))
        ns = to_ns(t, "time")
        out: dict[str, float] = {}
        near: set[int] = set()
        for track in self.tracks.values():
            if "side" not in track.integers:
                continue
            times = track.ns
            first, behind = np.searchsorted(times, [ns, ns + 1])
            near.update(times[max(0, first - 1) : first + 1].tolist())
            if first < behind:
                row = track.values(int(first if side == "-" else behind - 1))
                names = [f"{track.name}.{column}" for column in track.signals.columns]
                out.update(zip(names, row.tolist(), strict=True))
        if not out:
            tags = " and ".join(f"{one / NS_PER_S:.9f}" for one in sorted(near))
            raise RecordingError(f"{self.source} has no tag at {ns / NS_PER_S:.9f} s; near: {tags}")
        return out

    @property
    def names(self) -> list[str]:
        """Every ``track.column`` of doubles."""
        return [f"{t.name}.{c}" for t in self.tracks.values() for c in t.signals.columns]

    def time(self, track: str) -> NDArray[np.int64]:
        """The rows' simulated times in ns (n,)."""
        return self.track(track).ns

    def rows(self, track: str) -> Rows:
        return self.track(track).rows

    @property
    def end_ns(self) -> int:
        """The last time that any row or event holds."""
        ends = [int(t.ns.max()) for t in self.tracks.values() if len(t)]
        return max([*ends, *(e.tag.ns for e in self.events)], default=0)

    @property
    def continues(self) -> Mapping[str, Any]:
        """The checkpoint that it goes on from; empty for the recording of a whole run."""
        out: Mapping[str, Any] = self.header.get("continues") or {}
        return out

    def since(self, rows: Mapping[str, int], events: int = 0) -> Recording:
        """Without the first ``rows`` of each track and the first ``events``.

        Counted from the start of the flight, which of one that continues lies before its own.
        """
        gone, told = self.continues.get("rows", {}), int(self.continues.get("events", 0))

        def rest(track: TrackData) -> TrackData:
            skipped = rows.get(track.name, 0) - int(gone.get(track.name, 0))
            return replace(track, words=track.words[max(0, skipped) :])

        tracks = {name: rest(track) for name, track in self.tracks.items()}
        return replace(self, tracks=tracks, events=self.events[max(0, events - told) :])

    def up_to(self, ns: int) -> Recording:
        """Without what was recorded at later tags; a message is recorded when it is complete."""

        def first(track: TrackData) -> TrackData:
            complete = "completed" in track.integers
            at = track.integer("completed") if complete else track.ns
            return replace(track, words=track.words[at <= ns])

        tracks = {name: first(track) for name, track in self.tracks.items()}
        return replace(self, tracks=tracks, events=[e for e in self.events if e.tag.ns <= ns])

    def between(self, first: Duration, last: Duration) -> Recording:
        """The rows and events from ``first`` to ``last`` s, both included; the rest is not read."""
        begin, end = to_ns(first, "first"), to_ns(last, "last")

        def some(track: TrackData) -> TrackData:
            return replace(track, words=track.words[(track.ns >= begin) & (track.ns <= end)])

        tracks = {name: some(track) for name, track in self.tracks.items()}
        return replace(
            self, tracks=tracks, events=[e for e in self.events if begin <= e.tag.ns <= end]
        )

    @property
    def trace_rows(self) -> int:
        """Rows of the deterministic tracks: what a replay makes again."""
        return sum(len(t) for t in self.tracks.values() if t.spec.deterministic)

    @property
    def large(self) -> bool:
        """More than is kept in memory at once."""
        return sum(8 * len(t) * t.spec.width for t in self.tracks.values()) > SMALL

    def digest(self) -> str:
        """SHA-256 over every bit of every deterministic track: equal traces, equal digests."""
        out = hashlib.sha256()
        for name in sorted(self.tracks):
            track = self.tracks[name]
            if track.spec.deterministic:
                layout = [name, track.integers, track.signals.columns, len(track)]
                out.update(json.dumps(layout).encode())
                for _, (words,) in pieces(track.words):
                    out.update(np.ascontiguousarray(words, "<i8").data)
        return out.hexdigest()


def what_both_have(a: Recording, b: Recording) -> tuple[Recording, Recording, Tag | None]:
    """Both from where the later of them goes on from a checkpoint, and when that is."""
    later = max((a, b), key=lambda one: int(one.continues.get("ns", -1))).continues
    if not later:
        return a, b, None
    rows, events = later["rows"], int(later["events"])
    return a.since(rows, events), b.since(rows, events), Tag(int(later["ns"]))


def _assembled(path: Path, parts: Salvaged) -> Recording:
    try:
        return _assemble(path, parts)
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        ScenarioError,
    ) as error:
        raise RecordingError(
            f"{path} does not say what it holds: {type(error).__name__}: {error}; "
            "it was written by another version of rtsim, or damaged"
        ) from error


def _assemble(path: Path, parts: Salvaged) -> Recording:
    broken = parts.broken
    if HEADER not in parts.metadata:
        why = broken or "an MCAP file, but none that rtsim wrote"
        raise RecordingError(f"{path} holds no recording of a run: {why}")
    header = unsealed(parts.metadata[HEADER])
    if header is None:
        raise RecordingError(f"{path} is damaged: the checksum of its header does not fit")
    footer = unsealed(parts.metadata.get(FOOTER, {}))
    tracks = {s.name: _track(s, parts) for s in _specs(path, header)}
    events, damage = _events(path, parts)
    broken = broken or damage
    if broken is None and footer is None:
        broken = "the run was cut off before its end"
    recording = Recording(str(path), header, footer, tracks, events)
    if broken is None:
        return recording
    kept = "every row was kept" if parts.complete else f"kept up to {Tag(recording.end_ns)}"
    return replace(recording, truncated=f"{broken}; {kept}")


def _specs(path: Path, header: Mapping[str, Any]) -> list[TrackSpec]:
    """The tracks; few bytes can declare arrays of any size, so they are counted first."""
    columns = sum(
        len(track["integers"]) + sum(math.prod(s.get("shape", ())) for s in track["signals"])
        for track in header["tracks"]
    )
    if columns > _MOST_COLUMNS:
        raise RecordingError(
            f"{path} is refused: it declares {columns} columns, at most {_MOST_COLUMNS} are "
            "accepted; it was made to fill memory"
        )
    return [TrackSpec.from_json(data) for data in header["tracks"]]


def _track(spec: TrackSpec, parts: Salvaged) -> TrackData:
    messages = parts.topics.get(spec.name, Messages(parts.chunks))
    size = spec.wire.itemsize
    if messages.count and (messages.uneven or messages.size != size):
        raise RecordingError(
            f"track {spec.name}: {messages.count} rows of {size} bytes expected, got "
            f"{messages.total} bytes; the file was not written by this version of rtsim"
        )
    words = StoredWords(spec, messages)
    return TrackData(spec, np.asarray(words) if parts.chunks.small else words)


def _events(path: Path, parts: Salvaged) -> tuple[list[Event], str | None]:
    messages = parts.topics.get(EVENT_TOPIC, Messages(parts.chunks))
    most = _LEAST_EVENTS + _EVENTS_DENSEST * path.stat().st_size
    if messages.total > most:
        raise RecordingError(
            f"{path} is refused: its events are {messages.total} bytes, at most {most} are "
            "accepted; it was made to fill memory"
        )
    out: list[Event] = []
    for ns, data in messages.each():
        try:
            out.append(Event.decode(ns, data))
        except DecodeError as error:
            return out, f"event {len(out)} is damaged ({error})"
    return out, None
