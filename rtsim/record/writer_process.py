"""Start and end the process that writes a recording.

The simulation sends frames through a socket pair. A frame contains its kind, the number of a track,
the length of the data, and the data. The writing process answers with lines of JSON: ``{"ready":
true}``, ``{"kept": ns}`` after each chunk, ``{"error": "..."}``, and ``{"done": true}`` at the end.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from rtsim.core.child_process import start_child
from rtsim.core.errors import RecordingError
from rtsim.timing.background import ONE_THREAD

# Frames between the loop and the writing process.

HEAD = struct.Struct("<BHI")
LONGEST = 1 << 26
_LEAST_ROOM = 1 << 20


class FrameKind(IntEnum):
    START = 1  # JSON: header and tracks
    ROWS = 2  # words of one track, as in memory
    EVENT = 3  # JSON: one event
    FLUSH = 4  # write all received data to the disk
    FINISH = 5  # JSON: footer; nothing follows
    HURRY = 6  # the run waits for the writing process (track 1), or does not (track 0)
    CAUGHT_UP = 7  # overruns of compiled code, rtsim.timing.policy.CaughtUp
    MARK = 8  # all rows and events so far, of all tracks, were sent


class RecordFrame(NamedTuple):
    kind: FrameKind
    track: int
    data: bytes | memoryview


def pack(kind: FrameKind, track: int, data: bytes | memoryview) -> bytes:
    return b"".join((head(kind, track, data), data))


def head(kind: FrameKind, track: int, data: bytes | memoryview) -> bytes:
    """Return the bytes of a frame before its data.

    Raises ``RecordingError`` if the data are too long.
    """
    if len(data) > LONGEST:
        raise RecordingError(
            f"the {kind.name.lower()} has {len(data)} bytes, which is too long to record; "
            f"at most {LONGEST} bytes are allowed"
        )
    return HEAD.pack(kind, track, len(data))


class FrameBuffer:
    """Buffer that splits received bytes into frames.

    Received bytes must be written to the memory that ``room`` returns. Then iterate over the frames
    of :meth:`received`.
    """

    def __init__(self) -> None:
        self._data = bytearray(2 * _LEAST_ROOM)
        self._first = self._end = 0
        """Start and end of the bytes that belong to an incomplete frame."""

    def room(self) -> memoryview:
        """Return free memory for received bytes. The data of earlier frames become invalid."""
        if len(self._data) - self._end < _LEAST_ROOM:
            rest = self._data[self._first : self._end]
            if len(rest) + _LEAST_ROOM > len(self._data):  # the frame is longer than the memory
                self._data = bytearray(2 * len(self._data))
            self._data[: len(rest)] = rest
            self._first, self._end = 0, len(rest)
        return memoryview(self._data)[self._end :]

    def received(self, count: int) -> Iterator[RecordFrame]:
        """Process ``count`` new bytes, and yield the complete frames.

        The data of a frame are valid until the next call of ``room``. Raises
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
        """Add bytes, and yield each complete frame with a copy of its data."""
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
        """Number of received bytes of an incomplete frame."""
        return self._end - self._first


_KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
}
"""Environment of the writing process, which makes glibc reuse the memory of a written chunk.

Without these variables, page faults take a third of the process's time.
"""


WRITER = "rtsim.record.writer"
"""Module of the writing process."""


def start_writer(
    path: Path,
    theirs: socket.socket,
    stderr: int,
    handles: tuple[int, ...],
    module: str = WRITER,
) -> subprocess.Popen[bytes]:
    """Start the writing process, which executes ``module``.

    The process inherits ``handles``, which keep the file locked.
    """
    environment = {**_KEEP_MEMORY, **os.environ, **ONE_THREAD}
    return start_child(module, os.path.abspath(path), theirs, stderr, environment, handles)
