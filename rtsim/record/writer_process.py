"""Start and end of the process that writes a recording, and the format of the data sent to it.

The data are frames, which a socket pair transmits. A frame contains its kind, the number of a
track, the length of the data, and the data. The writing process answers with lines of JSON:
``{"ready": true}``, ``{"kept": ns}`` after each chunk, ``{"error": "..."}``, and ``{"done": true}``
at the end.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import IO, NamedTuple

from rtsim.core.errors import RecordingError
from rtsim.timing.background import ONE_THREAD

# Frames between the loop and the writing process.

HEAD = struct.Struct("<BHI")
LONGEST = 1 << 26
LONGEST_STATUS = 1 << 16
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
    """Return one frame as bytes; raise the same errors as :func:`head`."""
    return b"".join((head(kind, track, data), data))


def head(kind: FrameKind, track: int, data: bytes | memoryview) -> bytes:
    """Return the head that precedes ``data`` in a frame.

    Raises :class:`RecordingError` if the data are longer than the receiver accepts.
    """
    if len(data) > LONGEST:
        raise RecordingError(
            f"the {kind.name.lower()} has {len(data)} bytes, which is too long to record; "
            f"at most {LONGEST} bytes are allowed"
        )
    return HEAD.pack(kind, track, len(data))


class FrameBuffer:
    """Buffer that splits received bytes into frames.

    Write received bytes into the memory that :meth:`room` returns. Then iterate over the frames of
    :meth:`received`.
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
        """Process ``count`` new bytes, and yield the frames that are now complete.

        The data of a frame are valid until the next call of :meth:`room`. Raises
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
        """Add the bytes ``data``, and yield each complete frame with a copy of its bytes."""
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
    """Start the writing process in its own session, so that the process does not receive Ctrl-C.

    ``module`` is the module that the process executes. The process inherits ``handles``, which keep
    the file locked until the process ends.
    """
    # -P: a file in the working folder must not replace a module of the standard library.
    command = [sys.executable, "-P", "-m", module, os.path.abspath(path)]
    environment = {**_KEEP_MEMORY, **os.environ, **ONE_THREAD}
    root = Path(__file__).resolve().parents[2]
    if not {"site-packages", "dist-packages"} & set(root.parts):
        known = filter(None, [str(root), os.environ.get("PYTHONPATH")])
        environment["PYTHONPATH"] = os.pathsep.join(known)
    if sys.platform == "win32":
        process = subprocess.Popen(
            [*command, "share", str(os.getpid())],
            stdin=subprocess.PIPE,
            stderr=stderr,
            env=environment,
            creationflags=subprocess.CREATE_NEW_PROCESS_GROUP,
        )
        assert process.stdin is not None
        process.stdin.write(theirs.share(process.pid))
        process.stdin.close()
        return process
    return subprocess.Popen(
        [*command, str(theirs.fileno()), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stderr=stderr,
        env=environment,
        pass_fds=[theirs.fileno(), *handles],
        start_new_session=True,
    )


def await_end(process: subprocess.Popen[bytes], patience: float) -> None:
    """Wait up to ``patience`` s until ``process`` has ended.

    Raises :class:`subprocess.TimeoutExpired` after this time. On systems with process descriptors,
    the function returns as soon as the process ends. ``Popen.wait`` would check only after 0.5,
    1.5, 3.5, 7.5 ms and so on.
    """
    if hasattr(os, "pidfd_open"):
        with contextlib.suppress(OSError):  # the Linux kernel is too old, or the process has ended
            handle = os.pidfd_open(process.pid)
            try:
                select.select([handle], [], [], patience)
            finally:
                os.close(handle)
            patience = 0.0
    process.wait(patience)


def how_it_ended(status: int, stderr: IO[bytes]) -> str:
    """Return a text with the signal and the last error line of the writing process, or ""."""
    stderr.seek(0)
    lines = stderr.read(LONGEST_STATUS).decode(errors="replace").split("\n")
    said = next((f"; it printed: {line.strip()}" for line in reversed(lines) if line.strip()), "")
    return f" (killed by signal {-status}){said}" if status < 0 else said
