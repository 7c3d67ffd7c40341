"""The protocol between the loop and the writing process: protocol frames over a socket pair.

A frame consists of a kind, a track number, a length and that many bytes.  The writing process
answers with lines of JSON: ``{"ready": true}``, after each chunk ``{"kept": ns}``,
``{"error": "..."}`` and, at the end, ``{"done": true}``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from rtsim.core.errors import RecordingError

HEAD = struct.Struct("<BHI")
LONGEST = 1 << 26
LONGEST_STATUS = 1 << 16
_LEAST_ROOM = 1 << 20
"""Bytes that can be received at once."""


class FrameKind(IntEnum):
    START = 1  # JSON: header and tracks
    ROWS = 2  # words of one track, as in memory
    EVENT = 3  # JSON: one event
    FLUSH = 4  # flush: write all received data to the disk
    FINISH = 5  # JSON: footer; nothing follows
    HURRY = 6  # the run waits for the writing process (track 1), or does not (track 0)
    CAUGHT_UP = 7  # overruns of compiled code, rtsim.timing.overrun.CaughtUp
    MARK = 8  # every row and event up to the latest one was sent, of all tracks


class RecordFrame(NamedTuple):
    kind: FrameKind
    track: int
    data: bytes | memoryview


def pack(kind: FrameKind, track: int, data: bytes | memoryview) -> bytes:
    """Return one frame; raises as :func:`head` does."""
    return b"".join((head(kind, track, data), data))


def head(kind: FrameKind, track: int, data: bytes | memoryview) -> bytes:
    """Return the head of a frame with ``data``.

    Raises :class:`RecordingError` if the receiver would refuse the length.
    """
    if len(data) > LONGEST:
        raise RecordingError(
            f"the {kind.name.lower()} has {len(data)} bytes, which is too long to record; "
            f"at most {LONGEST} bytes are allowed"
        )
    return HEAD.pack(kind, track, len(data))


class FrameBuffer:
    """Collects received bytes and splits them into frames.

    Call :meth:`room`, write received bytes into it, and iterate over :meth:`received`.
    """

    def __init__(self) -> None:
        self._data = bytearray(2 * _LEAST_ROOM)
        self._first = self._end = 0
        """The bytes between them belong to an incomplete frame."""

    def room(self) -> memoryview:
        """Return free memory for received bytes; the data of earlier frames is no longer valid."""
        if len(self._data) - self._end < _LEAST_ROOM:
            rest = self._data[self._first : self._end]
            if len(rest) + _LEAST_ROOM > len(self._data):  # the frame is longer than the memory
                self._data = bytearray(2 * len(self._data))
            self._data[: len(rest)] = rest
            self._first, self._end = 0, len(rest)
        return memoryview(self._data)[self._end :]

    def received(self, count: int) -> Iterator[RecordFrame]:
        """Give the frames that ``count`` new bytes in the room complete.

        The data of a frame is valid until the next call of :meth:`room`.  Raises
        :class:`RecordingError` for a malformed frame.
        """
        self._end += count
        view = memoryview(self._data)
        while self._end - self._first >= HEAD.size:
            kind, track, length = HEAD.unpack_from(view, self._first)
            if kind not in FrameKind.__members__.values() or length > LONGEST:
                raise RecordingError(f"malformed frame: kind {kind}, length {length}")
            begin = self._first + HEAD.size
            if self._end < begin + length:
                return
            self._first = begin + length
            yield RecordFrame(FrameKind(kind), track, view[begin : begin + length])

    def feed(self, data: bytes) -> Iterator[RecordFrame]:
        """Give the frames that ``data`` completes, each with a copy of its bytes."""
        at = 0
        while at < len(data):
            room = self.room()
            count = min(len(room), len(data) - at)
            room[:count] = data[at : at + count]
            at += count
            for frame in self.received(count):
                yield frame._replace(data=bytes(frame.data))

    @property
    def left(self) -> int:
        """Number of received bytes that belong to an incomplete frame."""
        return self._end - self._first
