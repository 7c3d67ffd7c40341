"""A record that one process writes and others read, under a sequence lock.

In memory, all 64-bit and aligned::

    latest | slot 0: sequence, checksum, integers, floats | slot 1: ...

The writer takes the slots in turn: it marks one as unfinished, fills it, signs it with the record's
number, and only then says that it is the latest.  So the record before stays whole while the next
is written, also where the writer stops in the middle for good.  A reader copies the latest one and
believes the copy if slot and number did not change meanwhile.  Neither side ever waits.

The checksum, seeded with the number, is for processors that let another core see stores out of
their order (ARM): Python has no memory barrier, and on x86 the sequence alone would do.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector

WORD = 8
LINE = 64
"""Bytes of a cache line: records do not share one."""
SLOTS = 2
TRIES = 8
"""A reader that was overtaken looks again so often, then makes do with what it has."""
_UNFINISHED = 0

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Record:
    """One that was read whole; ``number`` counts from 1 and grows by one with each write."""

    number: int
    integers: Integers
    floats: Vector


@dataclass(frozen=True)
class Shape:
    """What a record holds: so many integers, then so many floats."""

    integers: int
    floats: int

    @property
    def payload(self) -> int:
        """In bytes."""
        return WORD * (self.integers + self.floats)

    @property
    def slot(self) -> int:
        """Bytes from one slot to the next."""
        return _whole_lines(2 * WORD + self.payload)

    @property
    def size(self) -> int:
        """Bytes in all."""
        return LINE + SLOTS * self.slot


class _Slots:
    """The same memory as arrays; every field is one aligned word, so none is seen in half."""

    def __init__(self, memory: memoryview, shape: Shape) -> None:
        if len(memory) < shape.size:
            raise ValueError(f"{len(memory)} bytes for a record that takes {shape.size}")
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

    What was filled in stays there for the next record.
    """

    def __init__(self, memory: memoryview, shape: Shape) -> None:
        self._slots = _Slots(memory, shape)
        self._payload = np.zeros(shape.payload, np.uint8)
        words = self._payload.view(np.int64)
        self.integers: Integers = words[: shape.integers]
        self.floats: Vector = words[shape.integers :].view(np.float64)
        self.number = int(self._slots.latest[0])

    def publish(self) -> int:
        """Make it the latest; its number."""
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
    """Reads the latest record, whole or not at all."""

    def __init__(self, memory: memoryview, shape: Shape) -> None:
        self._slots = _Slots(memory, shape)
        self._split = shape.integers
        self.overtaken = 0
        """Copies that were thrown away because the writer was at the same slot."""

    @property
    def number(self) -> int:
        """Of the latest record; 0 where there is none yet.  Cheap: for "is there a new one?"."""
        return int(self._slots.latest[0])

    def read(self) -> Record | None:
        """The latest record; ``None`` where there is none, or none could be had whole."""
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
        """The payload of record ``number`` if it was there from the first byte to the last."""
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
