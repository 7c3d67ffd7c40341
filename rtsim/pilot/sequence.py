"""A record that one process writes and others read, under a sequence lock.

Layout in memory, all fields 64 bits and aligned::

    latest | slot 0: sequence, checksum, integers, floats | slot 1: ...

The writer uses the slots in turn.  It marks a slot as unfinished, fills it, writes the record's
number into it, and finally sets ``latest``.  The previous record therefore stays intact while the
next one is written, also if the writer dies in the middle.  A reader copies the latest slot, and
accepts the copy if the number in the slot did not change meanwhile.  Neither side ever waits.

The checksum, seeded with the number, is for processors such as ARM, on which another core can see
stores in another order.  Python has no memory barrier.  On x86 the number alone would do.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector

WORD = 8
LINE = 64
"""Bytes of a cache line; each slot begins at a new cache line."""
SLOTS = 2
TRIES = 8
"""Limit of the attempts to read a record while the writer overwrites it."""
_UNFINISHED = 0

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Record:
    """A complete record; ``number`` is 1 for the first record and one more for each next record."""

    number: int
    integers: Integers
    floats: Vector


@dataclass(frozen=True)
class Shape:
    """The shape of a record: its number of integers and its number of floats."""

    integers: int
    floats: int

    @property
    def payload(self) -> int:
        """The size of a record's integers and floats, bytes."""
        return WORD * (self.integers + self.floats)

    @property
    def slot(self) -> int:
        """The distance from one slot to the next, bytes."""
        return _whole_lines(2 * WORD + self.payload)

    @property
    def size(self) -> int:
        """The size of all slots of a record, bytes."""
        return LINE + SLOTS * self.slot


class _Slots:
    """The memory of a record as arrays; each field is one aligned word, which is never torn."""

    def __init__(self, memory: memoryview, shape: Shape) -> None:
        if len(memory) < shape.size:
            raise ValueError(
                f"the memory has {len(memory)} bytes, but the record needs {shape.size} bytes"
            )
        self.shape = shape
        self.latest = np.frombuffer(memory, np.uint64, 1)
        self.heads: list[NDArray[np.uint64]] = []
        self.integers: list[Integers] = []
        self.floats: list[Vector] = []
        self.payloads: list[NDArray[np.uint8]] = []
        for k in range(SLOTS):
            at = LINE + k * shape.slot
            body = at + 2 * WORD
            self.heads.append(np.frombuffer(memory, np.uint64, 2, at))
            self.integers.append(np.frombuffer(memory, np.int64, shape.integers, body))
            floats = body + WORD * shape.integers
            self.floats.append(np.frombuffer(memory, np.float64, shape.floats, floats))
            self.payloads.append(np.frombuffer(memory, np.uint8, shape.payload, body))


class Writer:
    """The only writer of a record: fill :attr:`integers` and :attr:`floats`, then :meth:`publish`.

    The two arrays keep their values for the next record.
    """

    def __init__(self, memory: memoryview, shape: Shape) -> None:
        self._slots = _Slots(memory, shape)
        self._payload = np.zeros(shape.payload, np.uint8)
        words = self._payload.view(np.int64)
        self.integers: Integers = words[: shape.integers]
        self.floats: Vector = words[shape.integers :].view(np.float64)
        self.number = int(self._slots.latest[0])

    def publish(self) -> int:
        """Publish the values as the latest record; return the record's number."""
        slots = self._slots
        number = self.number + 1
        k = number % SLOTS
        head = slots.heads[k]
        head[0] = _UNFINISHED
        slots.payloads[k][:] = self._payload
        head[1] = zlib.crc32(self._payload.data, number & 0xFFFFFFFF)
        head[0] = number
        slots.latest[0] = number
        self.number = number
        return number


class Reader:
    """Reads the latest record as a whole; a partly written record is never returned."""

    def __init__(self, memory: memoryview, shape: Shape) -> None:
        self._slots = _Slots(memory, shape)
        self._split = shape.integers
        self.overtaken = 0
        """The number of copies discarded because the writer used the slot at the same time."""

    @property
    def number(self) -> int:
        """The number of the latest record, 0 if there is none; cheaper than :meth:`read`."""
        return int(self._slots.latest[0])

    def read(self) -> Record | None:
        """Return the latest record; ``None`` if there is none, or if no copy was complete."""
        for _ in range(TRIES):
            number = self.number
            if number == 0:
                return None
            payload = self._copy(number)
            if payload is not None:
                words = payload.view(np.int64)
                return Record(number, words[: self._split], words[self._split :].view(np.float64))
            self.overtaken += 1
        return None

    def _copy(self, number: int) -> NDArray[np.uint8] | None:
        """Return the bytes of record ``number``; ``None`` if it was overwritten meanwhile."""
        k = number % SLOTS
        head = self._slots.heads[k]
        if head[0] != number:
            return None
        payload = self._slots.payloads[k].copy()
        checksum = head[1]
        if head[0] != number or checksum != zlib.crc32(payload.data, number & 0xFFFFFFFF):
            return None
        return payload


def _whole_lines(size: int) -> int:
    return -(-size // LINE) * LINE
