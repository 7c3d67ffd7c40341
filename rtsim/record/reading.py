"""Read recordings as numpy arrays by signal name.

``rec["f16.altitude"]`` is a signal at the times ``rec.time``, and ``rec.track("f16")`` contains all
rows of a track. The readable part of a truncated recording is available, and ``truncated`` says
where it ends. Columns and rows of a large file are read only when they are used.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Duration, Tag, to_ns
from rtsim.record.chunks import (
    PIECE,
    SMALL,
    Messages,
    Salvaged,
    StoredWords,
    Table,
    pieces,
    salvage,
)
from rtsim.record.component_values import MESSAGES, Values, values_of
from rtsim.record.events import CHANGE, Event
from rtsim.record.named_signals import SignalsByName
from rtsim.record.output_files import begun
from rtsim.record.schema import EVENT_TOPIC, FOOTER, HEADER, MOST_COLUMNS, TrackSpec, unsealed
from rtsim.record.table import SignalTable, message_table
from rtsim.record.views import Viewed, viewed_in

# Tracks and events that a file declares.

_LEAST_EVENTS = 1 << 20
_EVENTS_DENSEST = 16
"""The events may take 1 MiB plus this factor times the size of the file."""
_MOST_COLUMNS = 2 * MOST_COLUMNS


def _declared_tracks(path: Path, header: Mapping[str, Any]) -> list[TrackSpec]:
    columns = sum(
        len(track["integers"]) + sum(math.prod(s.get("shape", ())) for s in track["signals"])
        for track in header["tracks"]
    )
    if columns > _MOST_COLUMNS:
        raise RecordingError(
            f"{path} is refused: it declares {columns} columns, but at most {_MOST_COLUMNS} "
            "are accepted, because the file could fill the memory of this machine"
        )
    return [TrackSpec.from_json(data) for data in header["tracks"]]


def _stored_events(path: Path, parts: Salvaged) -> tuple[list[Event], str | None]:
    messages = parts.topics.get(EVENT_TOPIC, Messages(parts.chunks))
    most = _LEAST_EVENTS + _EVENTS_DENSEST * path.stat().st_size
    if messages.total > most:
        raise RecordingError(
            f"{path} is refused: its events have {messages.total} bytes, but at most {most} "
            "are accepted, because the file could fill the memory of this machine"
        )
    out: list[Event] = []
    for ns, data in messages.each():
        try:
            out.append(Event.decode(ns, data))
        except DecodeError as error:
            return out, f"event {len(out)} is damaged ({error})"
    return out, None


class Rows(NamedTuple):
    """Rows of a track: times in ns (n,), integers (n, k) and floats (n, m)."""

    ns: NDArray[np.int64]
    integers: NDArray[np.int64]
    floats: NDArray[np.float64]


@dataclass(frozen=True)
class TrackData:
    """One track of a recording.

    :class:`TrackSpec` describes the columns of ``words`` (n, width). The words of a large file are
    not read at once: ``ns``, ``column``, ``values`` and ``pieces`` read only the data that they
    return, and ``rows`` reads all data.
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
        """Simulated time of each row [ns], shape (n,)."""
        out: NDArray[np.int64] = self.words[:, 0]
        return out

    def values(self, row: int) -> Vector:
        """Return the floating-point values of a row, shape (m,)."""
        out: Vector = self.words[row, self._head :].view(np.float64)
        return out

    def pieces(self, size: int = PIECE) -> Iterator[Rows]:
        """Yield all rows in pieces of at most ``size`` bytes."""
        for _, (words,) in pieces(self.words, size=size):
            yield replace(self, words=words).rows

    def column(self, name: str) -> Vector:
        """Return a signal or an integer column as an array of doubles.

        The shape is (n,), or (n, size) for an array.  Raises :class:`UnknownName` for an unknown
        name.
        """
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
        """Return an integer column as int64, shape (n,).

        Raises :class:`UnknownName` for an unknown name.
        """
        if name not in self.integers:
            raise UnknownName("integer column", name, self.integers, f"track {self.name}")
        out: NDArray[np.int64] = self.words[:, 1 + self.integers.index(name)]
        return out

    def tag(self, row: int) -> Tag:
        """Return the tag of a row. In a track without microsteps, the microstep is 0."""
        step = self.integers.index("step") + 1 if "step" in self.integers else None
        words = self.words[row]
        return Tag(int(words[0]), 0 if step is None else int(words[step]))


@dataclass(frozen=True, repr=False)
class Recording(SignalsByName):
    """The recording of one run.

    For a truncated recording, ``truncated`` states the reason, and ``footer`` may be ``None``.

        rec = Recording.open("runs/f16-001.mcap")
        altitude = rec["f16.altitude"]
        seconds = rec.time
        every_row = rec.track("f16").column("altitude")
    """

    source: str
    header: Mapping[str, Any]
    footer: Mapping[str, Any] | None
    tracks: Mapping[str, TrackData]
    events: list[Event] = field(default_factory=list)
    truncated: str | None = None
    changed_before: tuple[Event, ...] = ()
    """Changes of values before the first row, in a copy that begins after the start of the run."""
    _part: tuple[int, int | None] = (0, None)
    """Start and end of a copy [ns]. An end of None is the end of the copied recording."""
    _cut: bool = False
    """True for a copy without the first rows."""

    @classmethod
    def open(cls, path: str | Path) -> Recording:
        """Open a recording; raise :class:`RecordingError` if ``path`` is not a recording."""
        return _assembled(Path(path), salvage(Path(path)))

    def facts(self) -> Mapping[str, object]:
        rows = sum(map(len, self.tracks.values()))
        found = {"of": self.source, "ends at": f"{self.end_ns / NS_PER_S:g} s",
                 "tracks": len(self.tracks), "rows": rows, "events": len(self.events)}  # fmt: skip
        return found if self.truncated is None else {**found, "truncated": self.truncated}

    def track(self, name: str) -> TrackData:
        """Return the track ``name``; raise ``UnknownName`` for unknown names."""
        try:
            return self.tracks[name]
        except KeyError:
            raise UnknownName("track", name, self.tracks, self.source) from None

    def _signals_from(self) -> Recording:
        return self

    @property
    def changes(self) -> list[Event]:
        """All changes of values since the start of the run."""
        return [*self.changed_before, *(e for e in self.events if e.kind == CHANGE)]

    @cached_property
    def component_values(self) -> list[Values]:
        """The values of all components, even of components without a track."""
        return values_of(self)

    @property
    def messages(self) -> dict[str, SignalTable]:
        """Tables of all messages, by port.

        A table contains the three times of each message (ns).
        """
        ports = [n.removeprefix(MESSAGES) for n in self.tracks if n.startswith(MESSAGES)]
        return {port: message_table(self, port) for port in ports}

    def at(self, t: Duration, side: Literal["-", "+"] = "+") -> dict[str, float]:
        """Return the values of all plants at ``t`` s, by ``plant.column``.

        ``side`` is ``"-"`` for the values before the discrete changes at ``t``, and ``"+"`` for the
        values after these changes. Raises ``RecordingError`` if no plant has a row at ``t``.
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
            raise RecordingError(
                f"{self.source} has no tag at {ns / NS_PER_S:.9f} s; the nearest tags are at {tags}"
            )
        return out

    @property
    def names(self) -> list[str]:
        """Names ``component.signal`` of all signals and parameters."""
        return [f"{owner}.{one}" for owner, some in self._names().items() for one in some]

    @property
    def end_ns(self) -> int:
        """Time of the last row or event [ns]."""
        ends = [int(t.ns.max()) for t in self.tracks.values() if len(t)]
        return max([*ends, *(e.tag.ns for e in self.events)], default=0)

    @property
    def span_ns(self) -> tuple[int, int]:
        """The first and the last time of the recording [ns].

        The first time is 0, or the time of the checkpoint from which the run continued. For a part
        of another recording, the first time is the start of the part.
        """
        first, last = self._part
        ended = (self.footer or {}).get("ended")
        end = ended if isinstance(ended, int) else self.end_ns
        return max(first, int(self.continues.get("ns", 0))), end if last is None else min(end, last)

    @property
    def from_start(self) -> bool:
        """Return whether the recording contains the start of the run."""
        return not (self._cut or self.continues)

    @property
    def continues(self) -> Mapping[str, Any]:
        """The checkpoint from which the run continued; empty for other runs."""
        out: Mapping[str, Any] = self.header.get("continues") or {}
        return out

    def since(self, rows: Mapping[str, int], events: int = 0) -> Recording:
        """Return a copy without the first rows and events.

        ``rows`` (by track) and ``events`` are the numbers of omitted rows and events, counted from
        the start of the run.
        """
        gone, told = self.continues.get("rows", {}), int(self.continues.get("events", 0))

        def rest(track: TrackData) -> TrackData:
            skipped = rows.get(track.name, 0) - int(gone.get(track.name, 0))
            return replace(track, words=track.words[max(0, skipped) :])

        tracks = {name: rest(track) for name, track in self.tracks.items()}
        first = max(0, events - told)
        begin, end = self.span_ns
        cut = any(len(tracks[name]) < len(track) for name, track in self.tracks.items())
        if cut:
            begin = min((int(t.ns[0]) for t in tracks.values() if len(t)), default=end)
        return self._later(tracks, self.events[first:], self.events[:first], (begin, end), cut)

    def _later(
        self, tracks: Mapping[str, TrackData], events: list[Event], gone: list[Event],
        part: tuple[int, int], cut: bool,
    ) -> Recording:  # fmt: skip
        changes = (e for e in gone if e.kind == CHANGE)
        before = (*self.changed_before, *changes)
        part, cut = (max(part[0], self._part[0]), part[1]), cut or self._cut
        return replace(
            self, tracks=tracks, events=events, changed_before=before, _part=part, _cut=cut
        )

    def up_to(self, ns: int) -> Recording:
        """Return a copy without the rows and events after the time ``ns``.

        The time of a message is the time of its completion.
        """

        def first(track: TrackData) -> TrackData:
            complete = "completed" in track.integers
            at = track.integer("completed") if complete else track.ns
            return replace(track, words=track.words[at <= ns])

        tracks = {name: first(track) for name, track in self.tracks.items()}
        events = [e for e in self.events if e.tag.ns <= ns]
        part = self._part[0], min(ns, self.span_ns[1])
        return replace(self, tracks=tracks, events=events, _part=part)

    def between(self, first: Duration, last: Duration) -> Recording:
        """Return a copy with the rows and events from ``first`` to ``last`` s."""
        begin, end = to_ns(first, "first"), to_ns(last, "last")

        def some(track: TrackData) -> TrackData:
            return replace(track, words=track.words[(track.ns >= begin) & (track.ns <= end)])

        tracks = {name: some(track) for name, track in self.tracks.items()}
        events = [e for e in self.events if begin <= e.tag.ns <= end]
        gone = [e for e in self.events if e.tag.ns < begin]
        part = begin, min(end, self.span_ns[1])
        return self._later(tracks, events, gone, part, cut=begin > 0)

    @property
    def trace_rows(self) -> int:
        """Number of rows in the deterministic tracks, which a replay must reproduce."""
        return sum(len(t) for t in self.tracks.values() if t.spec.deterministic)

    @property
    def large(self) -> bool:
        """Return whether the recording is too large for the memory."""
        return sum(8 * len(t) * t.spec.width for t in self.tracks.values()) > SMALL

    def viewed(self) -> Viewed:
        return viewed_in(self.source, self.header, self.tracks)

    def digest(self) -> str:
        """Return the SHA-256 hash of the deterministic tracks, which is equal for equal runs."""
        out = hashlib.sha256()
        for name in sorted(self.tracks):
            track = self.tracks[name]
            if track.spec.deterministic:
                layout = [name, track.integers, track.signals.columns, len(track)]
                out.update(json.dumps(layout).encode())
                for _, (words,) in pieces(track.words):
                    out.update(np.ascontiguousarray(words, "<i8").data)
        return out.hexdigest()


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
            f"the header of {path} is not valid ({type(error).__name__}: {error}); "
            "the file was written by another version of rtsim, or is damaged"
        ) from error


def _assemble(path: Path, parts: Salvaged) -> Recording:
    broken = parts.broken
    if HEADER not in parts.metadata:
        foreign = "it is an MCAP file that rtsim did not write"
        why = broken or ("the run ended before its start was recorded" if begun(path) else foreign)
        raise RecordingError(f"{path} contains no recording of a run: {why}")
    header = unsealed(parts.metadata[HEADER])
    if header is None:
        raise RecordingError(f"{path} is damaged: the checksum of its header is wrong")
    footer = unsealed(parts.metadata.get(FOOTER, {}))
    tracks = {s.name: _track(s, parts) for s in _declared_tracks(path, header)}
    events, damage = _stored_events(path, parts)
    broken = broken or damage
    if broken is None and footer is None:
        broken = "the run was cut off before its end"
    recording = Recording(str(path), header, footer, tracks, events)
    if broken is None:
        return recording
    kept = (
        "all rows could be read"
        if parts.complete
        else f"rows up to {Tag(recording.end_ns)} could be read"
    )
    return replace(recording, truncated=f"{broken}; {kept}")


def _track(spec: TrackSpec, parts: Salvaged) -> TrackData:
    messages = parts.topics.get(spec.name, Messages(parts.chunks))
    size = spec.wire.itemsize
    if messages.count and (messages.uneven or messages.size != size):
        raise RecordingError(
            f"track {spec.name} has {messages.total} bytes instead of {messages.count} rows of "
            f"{size} bytes; the file was not written by this version of rtsim"
        )
    words = StoredWords(spec, messages)
    return TrackData(spec, np.asarray(words) if parts.chunks.small else words)
