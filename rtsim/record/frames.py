"""What the loop says to the process that writes, and what it hears back: frames over a socket pair.

A frame is a kind, a track number, a length and that many bytes.  The writer answers in lines of
JSON: ``{"ready": true}``, ``{"error": "..."}`` and, at the end, ``{"done": true}``.
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
    FLUSH = 4  # what came so far belongs on the disk
    FINISH = 5  # JSON: footer; nothing follows


class RecordFrame(NamedTuple):
    kind: FrameKind
    track: int
    data: bytes


def pack(kind: FrameKind, track: int, data: bytes | memoryview) -> bytes:
    """One frame; :class:`RecordingError` where it is longer than the other end accepts."""
    if len(data) > LONGEST:
        raise RecordingError(
            f"{kind.name.lower()} of {len(data)} bytes is too long to record; "
            f"at most {LONGEST} are allowed"
        )
    return b"".join((HEAD.pack(kind, track, len(data)), data))


class FrameBuffer:
    """Bytes in, frames out."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[RecordFrame]:
        """The frames that ``data`` completes; :class:`RecordingError` for a malformed one."""
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
        """Bytes of a frame that is not complete."""
        return len(self._data)
