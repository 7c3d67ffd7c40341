"""Recorders: the protocol, the memory recorder, and tracks that collect rows in the loop.

``Track.append`` writes one row; a full buffer is replaced with a spare one.  The recorder processes
full buffers in :meth:`Recorder.pump`, in the slack of a frame.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError, ShapeError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.record.event import Event, Value
from rtsim.record.schema import TrackSpec

if TYPE_CHECKING:
    from rtsim.record.reading import Recording

BLOCK_BYTES = 1 << 18
_SPARE_BLOCKS = 2


class _Block:
    """A buffer for rows of eight-byte words, which can also be accessed as doubles and as bytes."""

    def __init__(self, rows: int, width: int) -> None:
        # Filled, not only reserved: the first write to a fresh page would fault inside a frame.
        self.words: NDArray[np.int64] = np.full((rows, width), -1, np.int64)
        flat = self.words.reshape(-1)
        self.bytes = flat.view(np.uint8).data
        self.doubles = flat.view(np.float64).data


@dataclass(frozen=True)
class Lent:
    """Two buffers (capacity, width) of a track, which compiled code fills from ``row`` on.

    If the buffers have no rows, the track only counts the rows.
    """

    block: NDArray[np.int64]
    spare: NDArray[np.int64]
    row: int
    capacity: int
    width: int


class Track:
    """One topic of a recording: rows of a fixed layout.

    ``on_full`` is called when a buffer is full.
    """

    def __init__(self, spec: TrackSpec, on_full: Callable[[], None]) -> None:
        self.spec = spec
        self.name = spec.name
        self.integers = spec.integers
        self.signals = spec.signals
        self._on_full = on_full
        self._width = spec.width
        self._capacity = max(16, min(4096, BLOCK_BYTES // (8 * spec.width)))
        self._head = 1 + len(spec.integers)
        self._pack = struct.Struct(f"={self._head}q").pack_into
        self._spare = [_Block(self._capacity, self._width) for _ in range(_SPARE_BLOCKS)]
        self._full: list[_Block] = []
        self._block = self._spare.pop()
        self._lent: _Block | None = None
        """The spare buffer that compiled code writes to when the present one is full."""
        self._row = 0
        self._taken = 0
        self._rolled = 0

    def append(self, ns: int, integers: tuple[int, ...], *parts: Vector) -> None:
        """Append a row: its time in ns, its integers, and float64 vectors that fill the signals.

        It takes about 1 us.  Raises :class:`ShapeError` for a vector of another type or length;
        then no row is added.
        """
        block = self._block
        at = self._row * self._width
        try:
            self._pack(block.bytes, at * 8, ns, *integers)
            end = at + self._head
            doubles = block.doubles
            for part in parts:
                start = end
                end += part.size
                doubles[start:end] = part  # type: ignore[call-overload,unused-ignore]
        except (ValueError, TypeError, struct.error) as error:
            raise self._refused(integers, parts, error) from None
        if end != at + self._width:
            raise self._refused(integers, parts, None)
        self._row += 1
        if self._row == self._capacity:
            self._roll()

    def append_many(
        self,
        ns: NDArray[np.int64],
        integers: tuple[int, ...] | NDArray[np.int64],
        values: NDArray[np.float64],
    ) -> None:
        """Append rows at ``ns`` (k,) with the ``values`` (k, n).

        ``integers`` are the same for all rows (a tuple), or given for each row (k, m).
        """
        done = 0
        while done < len(ns):
            count = min(self._capacity - self._row, len(ns) - done)
            rows = self._block.words[self._row : self._row + count]
            rows[:, 0] = ns[done : done + count]
            rows[:, 1 : self._head] = (
                integers if isinstance(integers, tuple) else integers[done : done + count]
            )
            rows[:, self._head :] = values[done : done + count].view(np.int64)
            done += count
            self._row += count
            if self._row == self._capacity:
                self._roll()

    keeps = True
    """False if rows are only counted."""

    def lend(self) -> Lent:
        """Return the present buffer and a spare one, into which compiled code writes rows."""
        if self._lent is None:  # a lent buffer is no spare one of take()
            self._lent = self._spare.pop() if self._spare else _Block(self._capacity, self._width)
        return Lent(self._block.words, self._lent.words, self._row, self._capacity, self._width)

    def returned(self, row: int, rolled: bool) -> None:
        """Take over the rows up to ``row`` of the buffer, or if ``rolled`` of the spare buffer."""
        self._spare += [] if self._lent is None else [self._lent]
        self._lent = None
        if rolled:
            self._row = self._capacity
            self._roll()
        self._row = row
        if self._row == self._capacity:
            self._roll()

    def again(self, on_full: Callable[[], None]) -> None:
        """Begin another recording in the same memory; rows that were not taken are lost."""
        self.returned(0, rolled=False)
        self._spare += self._full[: max(0, _SPARE_BLOCKS - len(self._spare))]
        self._full.clear()
        self._row = self._taken = self._rolled = 0
        self._on_full = on_full

    def wrote(self, row: int) -> None:
        """Rows were written up to ``row`` of the lent block, which stays lent."""
        self._row = row

    def _roll(self) -> None:
        self._full.append(self._block)
        self._rolled += self._capacity
        self._block = self._spare.pop() if self._spare else _Block(self._capacity, self._width)
        self._row = 0
        self._on_full()

    @property
    def rows(self) -> int:
        """Number of rows appended so far."""
        return self._rolled + self._row

    def take(self) -> Iterator[NDArray[np.int64]]:
        """Give the new rows (n, width) in batches; each batch is valid until the next batch."""
        # Rows are marked as taken first: after an interrupt they must not be given twice.
        while self._full:
            block, start = self._full.pop(0), self._taken
            self._taken = 0
            yield block.words[start:]
            if len(self._spare) < _SPARE_BLOCKS:
                self._spare.append(block)
        if self._row > self._taken:
            start, self._taken = self._taken, self._row
            yield self._block.words[start : self._row]

    def _refused(
        self, integers: tuple[int, ...], parts: tuple[Vector, ...], error: Exception | None
    ) -> ShapeError:
        got = ", ".join(
            f"{p.dtype}{list(p.shape)}" if isinstance(p, np.ndarray) else type(p).__name__
            for p in parts
        )
        return ShapeError(
            f"track {self.name}: a row has {len(self.integers)} integers "
            f"({', '.join(self.integers)}) and {self.signals.size} float64 values, but got "
            f"{integers} and [{got}]" + (f": {error}" if error else "")
        )


class Recorder(Protocol):
    """The interface through which the executive writes a recording.

    A recorder that uses other processes may list their process numbers in an attribute ``beside``;
    the run keeps these processes off the CPU that is reserved for the loop.  A recorder that may
    fail during the run has an attribute ``on_failure``.  The run assigns a function to it, and the
    recorder calls this function with the cause of the failure.  A recorder may have a method
    ``caught_up``, which takes many overruns at once; otherwise each is an :meth:`event`.
    """

    def track(
        self,
        name: str,
        integers: tuple[str, ...],
        signals: Signals,
        about: Mapping[str, str] | None = None,
    ) -> Track:
        """Declare a topic and return the track for its rows; only possible before :meth:`start`."""

    def start(self, header: Mapping[str, object]) -> None:
        """Begin the recording with ``header``, plain JSON data; called before the first row."""

    def event(
        self,
        tag: Tag,
        kind: str,
        source: str,
        text: str = "",
        values: Mapping[str, Value] | None = None,
    ) -> None:
        """Record an event, such as an overrun, a late answer, a missed request or a command."""

    def pump(self, wait: bool = False) -> None:
        """Process the recorded data; with ``wait`` this may block until all data is processed."""

    def finish(self, footer: Mapping[str, object]) -> None:
        """Complete the recording with ``footer`` (the certificate), plain JSON data."""


class Tracks:
    """The tracks of a recorder; ``due`` is True if a buffer is full."""

    def __init__(self) -> None:
        self.by_name: dict[str, Track] = {}
        self.due = False
        self.started = False

    def reuse(self, track: Track) -> Track:
        """Add a track of an earlier recording; its memory is used again."""
        track.again(self._mark)
        self.by_name[track.name] = track
        return track

    def _mark(self) -> None:
        self.due = True

    def add(
        self,
        name: str,
        integers: tuple[str, ...],
        signals: Signals,
        about: Mapping[str, str] | None,
    ) -> Track:
        if self.started:
            raise ScenarioError(
                f"track {name} is declared after the start of the recording; declare the track "
                "before the start"
            )
        if name in self.by_name:
            raise ScenarioError(
                f"track {name} is declared twice; give one of the two tracks another name"
            )
        track = Track(TrackSpec(name, integers, signals, dict(about or {})), self._mark)
        self.by_name[name] = track
        return track

    @property
    def specs(self) -> list[TrackSpec]:
        return [t.spec for t in self.by_name.values()]


class NullTrack(Track):
    """Counts rows without keeping them."""

    keeps = False

    def lend(self) -> Lent:
        nothing = np.empty((0, self._width), np.int64)
        return Lent(nothing, nothing, 0, 0, self._width)

    def returned(self, row: int, rolled: bool) -> None:  # noqa: ARG002
        self._rolled += row

    def wrote(self, row: int) -> None:
        """Do nothing: :meth:`returned` counts the rows."""

    def append(self, ns: int, integers: tuple[int, ...], *parts: Vector) -> None:  # noqa: ARG002
        self._rolled += 1

    def append_many(
        self,
        ns: NDArray[np.int64],
        integers: tuple[int, ...] | NDArray[np.int64],  # noqa: ARG002
        values: NDArray[np.float64],  # noqa: ARG002
    ) -> None:
        self._rolled += len(ns)


class NullRecorder:
    """A recorder that records nothing."""

    def track(
        self,
        name: str,
        integers: tuple[str, ...],
        signals: Signals,
        about: Mapping[str, str] | None = None,
    ) -> Track:
        return NullTrack(TrackSpec(name, integers, signals, dict(about or {})), lambda: None)

    def start(self, header: Mapping[str, object]) -> None:
        pass

    def event(
        self,
        tag: Tag,
        kind: str,
        source: str,
        text: str = "",
        values: Mapping[str, Value] | None = None,
    ) -> None:
        pass

    def pump(self, wait: bool = False) -> None:
        pass

    def finish(self, footer: Mapping[str, object]) -> None:
        pass


class MemoryRecorder:
    """A recorder that keeps all rows in memory, for tests and studies.

    recorder = MemoryRecorder()
    simulate(scenario, recorder=recorder)
    altitude = recorder.recording()["f16.altitude"]
    """

    def __init__(self) -> None:
        self._tracks = Tracks()
        self._rows: dict[str, list[NDArray[np.int64]]] = {}
        self._events: list[Event] = []
        self._header: dict[str, object] = {}
        self._footer: dict[str, object] | None = None

    def track(
        self,
        name: str,
        integers: tuple[str, ...],
        signals: Signals,
        about: Mapping[str, str] | None = None,
    ) -> Track:
        self._rows[name] = []
        return self._tracks.add(name, integers, signals, about)

    def start(self, header: Mapping[str, object]) -> None:
        self._tracks.started = True
        self._header = dict(header)

    def event(
        self,
        tag: Tag,
        kind: str,
        source: str,
        text: str = "",
        values: Mapping[str, Value] | None = None,
    ) -> None:
        self._events.append(Event(tag, kind, source, text, dict(values or {})))

    def pump(self, wait: bool = False) -> None:  # noqa: ARG002
        if self._tracks.due:
            self._collect()

    def finish(self, footer: Mapping[str, object]) -> None:
        self._footer = dict(footer)

    def _collect(self) -> None:
        self._tracks.due = False
        for name, track in self._tracks.by_name.items():
            self._rows[name].extend(words.copy() for words in track.take())

    def recording(self) -> Recording:
        """Return a recording of the data so far, which reads like a file."""
        from rtsim.record.reading import Recording, TrackData

        self._collect()
        tracks = {}
        for name, track in self._tracks.by_name.items():
            empty = np.empty((0, track.spec.width), np.int64)
            tracks[name] = TrackData(track.spec, np.concatenate([empty, *self._rows[name]]))
        return Recording("memory", self._header, self._footer, tracks, list(self._events))
