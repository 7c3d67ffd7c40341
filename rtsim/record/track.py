"""Buffers in which a run collects the rows of a recording.

``Track.append`` writes one row. A second buffer replaces a full buffer. The recorder processes full
buffers in the slack time of a frame.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError, ShapeError
from rtsim.core.signals import Signals, Vector
from rtsim.record.schema import TrackSpec

BLOCK_BYTES = 1 << 18
_SPARE_BLOCKS = 2


class _Block:
    """Buffer of eight-byte words, which can be read as integers, doubles and bytes."""

    def __init__(self, rows: int, width: int) -> None:
        # The buffer is filled now, because the first write to a new page would cause a page fault
        # in the loop.
        self.words: NDArray[np.int64] = np.full((rows, width), -1, np.int64)
        flat = self.words.reshape(-1)
        self.address = self.words.ctypes.data
        self.bytes = flat.view(np.uint8).data
        self.doubles = flat.view(np.float64).data


class Batch(NamedTuple):
    """The rows of a buffer from ``start`` to ``end``."""

    block: _Block
    start: int
    end: int
    full: bool

    @property
    def bytes(self) -> memoryview:
        size = self.block.words.strides[0]
        return self.block.bytes[self.start * size : self.end * size]

    @property
    def last_ns(self) -> int:
        """Simulated time of the last row [ns]."""
        return int(self.block.words[self.end - 1, 0])


@dataclass(frozen=True)
class BorrowedBuffer:
    """Two buffers (capacity, width) into which compiled code writes rows.

    The first row has the index ``row``. With the capacity 0, compiled code only counts rows.
    ``addresses`` are the addresses of both buffers.
    """

    block: NDArray[np.int64]
    spare: NDArray[np.int64]
    row: int
    capacity: int
    width: int
    addresses: tuple[int, int]


class Track:
    """The rows of one topic.

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
        self.most_spares = _SPARE_BLOCKS
        """Maximum number of spare buffers."""
        self._full: list[_Block] = []
        self._block = self._spare.pop()
        self._lent: _Block | None = None
        """Spare buffer into which compiled code writes when the current buffer is full."""
        self._row = 0
        self._taken = 0
        self._rolled = 0

    def append(self, ns: int, integers: tuple[int, ...], *parts: Vector) -> None:
        """Append a row: time in ns, integers, and vectors of values.

        A call takes about 1 us. The vectors are float64. Raises ``ShapeError`` for a vector of
        wrong type or length.
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

        ``integers`` is a tuple for all rows, or an array (k, m).
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

    def lend(self) -> BorrowedBuffer:
        """Return the present and the second buffer, for compiled code."""
        if (
            self._lent is None
        ):  # take() must not reuse this buffer while compiled code writes into it
            self._lent = self._spare.pop() if self._spare else _Block(self._capacity, self._width)
        block, spare = self._block, self._lent
        at = (block.address, spare.address)
        return BorrowedBuffer(block.words, spare.words, self._row, self._capacity, self._width, at)

    def returned(self, row: int, rolled: bool) -> None:
        """Add the rows that compiled code has written, up to the index ``row``.

        With ``rolled``, the first buffer is full, and ``row`` is an index of the second buffer.
        """
        self._spare += [] if self._lent is None else [self._lent]
        self._lent = None
        if rolled:
            self._row = self._capacity
            self._roll()
        self._row = row
        if self._row == self._capacity:
            self._roll()

    def again(self, on_full: Callable[[], None]) -> None:
        """Begin another recording in the same memory. Rows that were not read are lost."""
        self.returned(0, rolled=False)
        self._spare += self._full[: max(0, _SPARE_BLOCKS - len(self._spare))]
        self._full.clear()
        self._row = self._taken = self._rolled = 0
        self._on_full = on_full

    def wrote(self, row: int) -> None:
        """Add the rows up to ``row``. Compiled code continues to write to the buffer."""
        self._row = row

    def _roll(self) -> None:
        self._full.append(self._block)
        self._rolled += self._capacity
        self._block = self._spare.pop() if self._spare else _Block(self._capacity, self._width)
        self._row = 0
        self._on_full()

    @property
    def rows(self) -> int:
        return self._rolled + self._row

    def take(self) -> Iterator[NDArray[np.int64]]:
        """Yield the new rows (n, width) in batches. Each batch is valid until the next one."""
        # Rows are marked as read before the yield, so that an interrupt cannot repeat them.
        while self._full:
            block, start = self._full.pop(0), self._taken
            self._taken = 0
            yield block.words[start:]
            if len(self._spare) < self.most_spares:
                self._spare.append(block)
        if self._row > self._taken:
            start, self._taken = self._taken, self._row
            yield self._block.words[start : self._row]

    def take_blocks(self) -> Iterator[Batch]:
        """Yield the new rows in batches.

        A batch is valid until its buffer is given back with ``give_back``.

        Batches must be given back in order.
        """
        while self._full:
            block, start = self._full.pop(0), self._taken
            self._taken = 0
            yield Batch(block, start, self._capacity, full=True)
        if self._row > self._taken:
            start, self._taken = self._taken, self._row
            yield Batch(self._block, start, self._row, full=False)

    @property
    def block_bytes(self) -> int:
        return 8 * self._capacity * self._width

    def give_back(self, batch: Batch) -> None:
        """Allow new rows in the buffer of ``batch``."""
        if batch.full and len(self._spare) < self.most_spares:
            self._spare.append(batch.block)

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


class Tracks:
    """The tracks of a recorder. ``due`` is True if a buffer is full."""

    def __init__(self) -> None:
        self.by_name: dict[str, Track] = {}
        self.due = False
        self.started = False

    def reuse(self, track: Track) -> Track:
        """Add a track that reuses the memory of an earlier recording."""
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
    """Track that counts rows without keeping them."""

    keeps = False

    def lend(self) -> BorrowedBuffer:
        nothing = np.empty((0, self._width), np.int64)
        return BorrowedBuffer(nothing, nothing, 0, 0, self._width, 2 * (nothing.ctypes.data,))

    def returned(self, row: int, rolled: bool) -> None:  # noqa: ARG002
        self._rolled += row

    def wrote(self, row: int) -> None: ...

    def append(self, ns: int, integers: tuple[int, ...], *parts: Vector) -> None:  # noqa: ARG002
        self._rolled += 1

    def append_many(
        self,
        ns: NDArray[np.int64],
        integers: tuple[int, ...] | NDArray[np.int64],  # noqa: ARG002
        values: NDArray[np.float64],  # noqa: ARG002
    ) -> None:
        self._rolled += len(ns)
