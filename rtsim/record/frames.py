"""The protocol between the loop and the writing process: protocol frames over a socket pair.

A frame consists of a kind, a track number, a length and that many bytes.  The writing process
answers with lines of JSON: ``{"ready": true}``, ``{"error": "..."}`` and, at the end,
``{"done": true}``.
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


class FrameKind(IntEnum):
    START = 1  # JSON: header and tracks
    ROWS = 2  # words of one track, as in memory
    EVENT = 3  # JSON: one event
    FLUSH = 4  # flush: write all received data to the disk
    FINISH = 5  # JSON: footer; nothing follows


class RecordFrame(NamedTuple):
    kind: FrameKind
    track: int
    data: bytes


def pack(kind: FrameKind, track: int, data: bytes | memoryview) -> bytes:
    """Return one frame; raises :class:`RecordingError` if the receiver would refuse its length."""
    if len(data) > LONGEST:
        raise RecordingError(
            f"the {kind.name.lower()} has {len(data)} bytes, which is too long to record; "
            f"at most {LONGEST} bytes are allowed"
        )
    return b"".join((HEAD.pack(kind, track, len(data)), data))


class FrameBuffer:
    """Collects received bytes and splits them into frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[RecordFrame]:
        """Give the frames that ``data`` completes; raises :class:`RecordingError` if malformed."""
        self._data += data
        at = 0
        while len(self._data) - at >= HEAD.size:
            kind, track, length = HEAD.unpack_from(self._data, at)
            if kind not in FrameKind.__members__.values() or length > LONGEST:
                raise RecordingError(f"malformed frame: kind {kind}, length {length}")
            end = at + HEAD.size + length
            if len(self._data) < end:
                break
            yield RecordFrame(
                FrameKind(kind), track, bytes(memoryview(self._data)[at + HEAD.size : end])
            )
            at = end
        del self._data[:at]

    @property
    def left(self) -> int:
        """Number of received bytes that belong to an incomplete frame."""
        return len(self._data)
