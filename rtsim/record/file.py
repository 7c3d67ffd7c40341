"""Recorder whose file is written by another process, so that the run never waits for the disk.

A socket pair connects the two processes. ``pump`` sends without blocking. Data that the socket does
not accept stay in memory. A thread sends large amounts (:class:`_Outbox`). If the simulation is
killed, the writing process completes the file. If the writing process dies,
:attr:`FileRecorder.on_failure` is called at once, and :meth:`FileRecorder.finish` raises an error.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rtsim.core.child_process import LONGEST_STATUS, await_end, how_it_ended
from rtsim.core.clock import stopwatch
from rtsim.core.errors import RecordingError
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.record.events import Value
from rtsim.record.output_files import claim
from rtsim.record.track import Batch, Track, Tracks
from rtsim.record.writer_process import (
    WRITER,
    FrameKind,
    head,
    pack,
    start_writer,
)
from rtsim.timing.background import allow_all, keep_off, step_back
from rtsim.timing.policy import CaughtUp

# Queue of the frames for the writing process. If many frames wait, a thread sends them.

_MOST_FRAMES = 128
_LOOK_NS = 1_000_000_000
_SEND_POLL_S = 0.05


class _Outbox:
    """Queue of data for the writing process ``reader`` at the socket ``outlet``.

    In most runs, the thread of the simulation sends the data. Compiled code calls Python only four
    times per second, which is too slow for the socket. Between ``start`` and ``stop``, a separate
    thread sends the data.
    """

    def __init__(self, outlet: socket.socket, reader: int) -> None:
        self._socket, self._reader = outlet, reader
        self._frames: deque[memoryview] = deque()
        self.put_bytes = self.sent_bytes = 0
        self._thread: threading.Thread | None = None
        self._more = threading.Event()
        self._ending = False
        self._error: OSError | None = None

    @property
    def waiting(self) -> int:
        return self.put_bytes - self.sent_bytes

    def put(self, *parts: bytes | memoryview) -> None:
        self._frames.extend([memoryview(part) for part in parts if part])
        self.put_bytes += sum(map(len, parts))
        if self._thread is not None:
            self._more.set()

    def send(self) -> bool:
        if self._thread is None:
            self._send()
        if self._error is not None:
            raise self._error
        return self.waiting == 0

    def _send(self) -> bool:
        while self._frames:
            # Access by index, because an iterator raises an error if another thread appends frames.
            many = 1 if sys.platform == "win32" else min(len(self._frames), _MOST_FRAMES)
            frames = [self._frames[i] for i in range(many)]
            try:
                if sys.platform == "win32":
                    sent = self._socket.send(frames[0])
                else:
                    sent = self._socket.sendmsg(frames)
            except (BlockingIOError, InterruptedError):
                return False
            self.sent_bytes += sent
            while sent:
                first = self._frames.popleft()
                if sent < len(first):
                    self._frames.appendleft(first[sent:])
                    break
                sent -= len(first)
        return True

    def room(self, patience: float) -> bool:
        return bool(select.select([], [self._socket], [], patience)[1])

    def clear(self) -> None:
        self.stop()
        self._frames.clear()
        self.sent_bytes = self.put_bytes

    def start(self) -> None:
        if self._thread is None and self._error is None:
            self._ending = False
            self._thread = threading.Thread(target=self._serve, name="rtsim outbox", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the separate thread. The calling thread sends from then on."""
        if self._thread is not None:
            self._ending = True
            self._more.set()
            self._thread.join()
            self._thread = None

    def _serve(self) -> None:
        step_back()
        due = 0
        try:
            while not self._ending:
                if (
                    stopwatch() >= due
                ):  # if the loop moves to another CPU, the CPUs of the reader change too
                    due = stopwatch() + _LOOK_NS
                    _beside(self._reader)
                if not self._send():
                    self.room(_SEND_POLL_S)
                    continue
                self._more.clear()
                if not self._frames:
                    self._more.wait(_SEND_POLL_S)
        except OSError as error:
            self._error = error
        except BaseException as error:  # without this, rows would be lost silently
            self._error = OSError(0, f"the thread that sends has failed: {error!r}")


def _beside(reader: int) -> None:
    if hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, os.sched_getaffinity(reader))


HAND_OVER_NS = 20_000_000
"""Interval between two transfers to the writing process.

In a loop with a clock, the data of one interval can be sent in the slack of one frame.
"""
FLUSH_NS = 200_000_000
FLUSH_SIMULATED_NS = 10_000_000_000
"""Simulated time after which a run as fast as possible also flushes its rows.

At least ``HAND_OVER_NS`` of wall-clock time passes between two flushes, because the writing process
needs about 0.2 ms for each chunk.
"""
_POLL_S = 0.5
_MUCH_BYTES = 1 << 20
"""If more bytes are waiting, a thread sends them. The socket accepts about 0.2 MB at once."""
_AHEAD_BYTES = 8 << 20
"""Number of unwritten bytes at which a run as fast as possible waits for the writing process.

The amount corresponds to about 60 simulated seconds of the F-16. If the run waited after every
buffer, the two processes would not work at the same time.
"""

_SPARE_BYTES = 16 << 20
"""Total size of the free buffers that all tracks keep while other buffers contain unsent rows."""
_BRIEF_BYTES = 1 << 12
"""Data up to this length are copied into one buffer with the head of their frame."""


@dataclass
class Handed:
    """Amounts of data sent to the writing process, and number of dropped rows."""

    rows: int = 0
    events: int = 0
    most_aside_bytes: int = 0
    dropped_rows: int = 0


class FileRecorder:
    """Recorder that writes an MCAP file through another process.

    The file is opened at once.

    Args:
        path: The file to write.
        now: Function that returns a monotonic time in ns.
        overwrite: True to overwrite an existing recording. Files that are no recordings are never
            overwritten.
        patience: Time (s) after which a writing process without progress counts as failed.
        keep_aside: Maximum number of bytes that wait in memory. Above this maximum, the recording
            fails, and rtsim drops and counts further rows.
        writer: Module of the writing process.

    Raises:
        RecordingError: The path cannot be written.
        PathTaken: The file exists.

    Example:
        with FileRecorder("run.mcap") as recorder:
            simulate(scenario, recorder=recorder)
    """

    def __init__(
        self,
        path: str | Path,
        now: Callable[[], int] = stopwatch,
        *,
        overwrite: bool = False,
        patience: float = 60.0,
        keep_aside: int = 1 << 30,
        writer: str = WRITER,
    ) -> None:
        self.path = Path(path)
        self.handed = Handed()
        self.failed: str | None = None
        self.kept_ns: int | None = None
        """Simulated time up to which every row is in the file [ns].

        The writing process reports this time after each chunk. The value is ``None`` before the
        first report.
        """
        self.on_failure: Callable[[str], object] | None = None
        """Function that is called once with the cause if the recording fails during the run."""
        self.on_watched: Callable[[list[dict[str, Any]]], object] | None = None
        """Function that receives the requirements that the writing process has evaluated."""
        self.on_unwatched: Callable[[dict[str, str]], object] | None = None
        """Function that receives the reasons why requirements are not evaluated, by name."""
        self.writer = writer
        self._now = now
        self._patience = patience
        self._keep_aside = keep_aside
        self._tracks = Tracks()
        self._events: list[tuple[FrameKind, int, bytes]] = []
        self._lent: deque[tuple[int, Track, Batch]] = deque()
        """Batches whose rows may still be in the queue. A batch has been sent when the number of
        sent bytes reaches the number in its tuple.
        """
        self._ahead = 0
        """Maximum number of unwritten bytes with which a run as fast as possible continues."""
        self._waits = False
        """True if the writing process has been informed that the run waits for it."""
        self._heard = bytearray()
        self._last_words = ""
        self._ready = self._done = self._ending = self._closed = False
        self._handed_at = self._flushed_at = 0
        self._latest_ns = self._flushed_ns = 0
        """Simulated times of the latest row that was handed over, and of the last flush."""
        self._claim = claim(self.path, overwrite)
        with ExitStack() as undo:
            undo.callback(self._claim.give_back, nothing_there=True)
            self._stderr = undo.enter_context(tempfile.TemporaryFile())
            self._socket, theirs = socket.socketpair()
            undo.callback(self._socket.close)
            with theirs:
                self._process = start_writer(
                    self.path, theirs, self._stderr.fileno(), self._claim.handles, writer
                )
            undo.pop_all()
        self._socket.setblocking(False)
        self._outbox = _Outbox(self._socket, self._process.pid)

    def track(
        self,
        name: str,
        integers: tuple[str, ...],
        signals: Signals,
        about: Mapping[str, str] | None = None,
    ) -> Track:
        return self._tracks.add(name, integers, signals, about)

    @property
    def beside(self) -> tuple[int, ...]:
        """Process number of the writing process."""
        return (self._process.pid,)

    @property
    def started(self) -> bool:
        return self._tracks.started

    def start(self, header: Mapping[str, object]) -> None:
        """Send the header and the tracks, and wait until the writing process is ready.

        Raises :class:`RecordingError` if the file cannot be written.
        """
        self._tracks.started = True
        for track in self._tracks.by_name.values():
            share = _SPARE_BYTES // len(self._tracks.by_name) // track.block_bytes
            track.most_spares = max(track.most_spares, share)
        tracks = [spec.to_json() for spec in self._tracks.specs]
        start = {"header": dict(header), "tracks": tracks, "thread": threading.get_native_id()}
        self._send(FrameKind.START, 0, _json(start), wait=True)
        while not self._ready and not self.failed:
            self._listen(self._patience)
        self._raise_if_failed()
        self._ahead = _AHEAD_BYTES
        self._handed_at = self._flushed_at = self._now()

    def event(
        self,
        tag: Tag,
        kind: str,
        source: str,
        text: str = "",
        values: Mapping[str, Value] | None = None,
    ) -> None:
        data = _json([tag.ns, tag.step, kind, source, text, dict(values or {})])
        self._events.append((FrameKind.EVENT, 1, data))

    def caught_up(self, overruns: CaughtUp) -> None:
        self._events.append((FrameKind.CAUGHT_UP, len(overruns), overruns.pack()))

    def pump(self, wait: bool = False) -> None:
        """Send all data if a buffer is full or 20 ms have passed.

        With ``wait``, the call may block.
        """
        now = self._now()
        if wait != self._waits:
            self._waits = wait
            self._put(FrameKind.HURRY, int(wait), b"")
            (keep_off if wait else allow_all)(self._process.pid)
        if self._outbox.waiting:
            self._send_waiting(wait)
        if self._tracks.due or now - self._handed_at >= HAND_OVER_NS:
            self._handed_at = now
            self._hand_over(wait)
            since, span = now - self._flushed_at, self._latest_ns - self._flushed_ns
            if since >= (HAND_OVER_NS if span >= FLUSH_SIMULATED_NS else FLUSH_NS):
                self._flushed_at, self._flushed_ns = now, self._latest_ns
                self._send(FrameKind.FLUSH, 0, b"", wait)
                self._listen(0.0)

    def finish(self, footer: Mapping[str, object]) -> None:
        """Send all data, and wait until the file is closed.

        Raises ``RecordingError`` if the recording is incomplete.
        """
        if self._closed:
            return
        self._ending = True
        try:
            self._ahead = 0
            self._hand_over(wait=True)
            self._send(FrameKind.FINISH, 0, _json(dict(footer)), wait=True)
            while not self._done and not self.failed:
                self._listen(self._patience)
        finally:
            self.close()
        self._raise_if_failed()

    def close(self) -> None:
        """Close the file without a footer. The recording then counts as truncated.

        A new file without data is removed.
        """
        if self._closed:
            return
        self._ending = self._closed = True
        self._ahead = 0
        if self._tracks.started and not self.failed and not self._done:
            self._hand_over(wait=True)
        self._outbox.stop()
        self._socket.close()
        try:
            await_end(self._process, self._patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            self._fail(f"the writing process did not end within {self._patience:g} s")
        self._last_words = how_it_ended(self._process.returncode, self._stderr)
        self._stderr.close()
        self._claim.give_back(
            nothing_there=not (self.handed.rows or self.handed.events or self._done)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _hand_over(self, wait: bool) -> None:
        self._tracks.due, rows = False, 0
        for number, track in enumerate(self._tracks.by_name.values()):
            for batch in track.take_blocks():
                rows += batch.end - batch.start
                self._latest_ns = max(self._latest_ns, batch.last_ns)
                self._put(FrameKind.ROWS, number, batch.bytes)
                self._lent.append((self._outbox.put_bytes, track, batch))
        for kind, events, data in self._events:
            self._put(kind, 0, data)
            self.handed.events += events
        self._events.clear()
        self._put(FrameKind.MARK, 0, b"")
        self._send_waiting(wait)
        while self._lent and self._lent[0][0] <= self._outbox.sent_bytes:
            _, track, batch = self._lent.popleft()
            track.give_back(batch)
        if self.failed:
            self.handed.dropped_rows += rows
        else:
            self.handed.rows += rows
        self.handed.most_aside_bytes = max(self.handed.most_aside_bytes, self._outbox.waiting)

    def _send(self, kind: FrameKind, track: int, data: bytes | memoryview, wait: bool) -> None:
        self._put(kind, track, data)
        self._send_waiting(wait)

    def _put(self, kind: FrameKind, track: int, data: bytes | memoryview) -> None:
        if self.failed:
            return
        waiting = self._outbox.waiting
        if waiting + len(data) > self._keep_aside:
            self._fail(
                f"the writing process is too slow: {waiting} bytes wait in memory, "
                f"but at most {self._keep_aside} may wait; record to a faster disk"
            )
            return
        if len(data) <= _BRIEF_BYTES:
            self._outbox.put(pack(kind, track, data))
        else:
            self._outbox.put(head(kind, track, data), data)

    def _send_waiting(self, wait: bool) -> None:
        if wait:
            self._outbox.stop()
        try:
            while not self.failed and not self._outbox.send():
                if not wait or self._outbox.waiting < self._ahead:
                    break
                self._await_room()
        except OSError as error:
            self._listen(0.0)
            self._fail(f"the writing process ended during the run ({error.strerror})")
        if not wait and self._outbox.waiting > _MUCH_BYTES:
            self._outbox.start()

    def _await_room(self) -> None:
        waited = 0.0
        while waited < self._patience and not self.failed:
            if self._outbox.room(_POLL_S):
                return
            waited += _POLL_S
            self._listen(0.0)
        self._fail(f"the writing process read no data for {self._patience:g} s")

    def _listen(self, patience: float) -> None:
        if self.failed:
            return
        if patience and not select.select([self._socket], [], [], patience)[0]:
            self._fail(f"the writing process did not answer for {patience:g} s")
            return
        try:
            data = self._socket.recv(LONGEST_STATUS)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._fail(f"the writing process ended during the run ({error.strerror})")
            return
        if not data and not self._done:
            self._fail("the writing process ended during the run")
        self._heard += data
        while b"\n" in self._heard:
            line, _, self._heard = self._heard.partition(b"\n")
            status = json.loads(line)
            self._ready |= "ready" in status
            self._done |= "done" in status
            self.kept_ns = status.get("kept", self.kept_ns)
            if "watched" in status and self.on_watched is not None and not self._ending:
                self.on_watched(status["watched"])
            if "unwatched" in status and self.on_unwatched is not None:
                self.on_unwatched(status["unwatched"])
            if "error" in status:
                self._fail(str(status["error"]))

    def _fail(self, cause: str) -> None:
        if self.failed is None:
            self.failed = cause
            self._outbox.clear()
            if self.on_failure is not None and not self._ending:
                self.on_failure(cause + self._how_it_died())

    def _how_it_died(self) -> str:
        status = self._process.poll()
        return f" (killed by signal {-status})" if status is not None and status < 0 else ""

    def _raise_if_failed(self) -> None:
        if self.failed is None:
            return
        self.close()
        kept = (
            "it is not known whether the file has rows of the run: the writing process told of none"
            if self.kept_ns is None
            else "the file can be opened as an incomplete recording, which has every row up to "
            f"{Tag(self.kept_ns)}"
        )
        raise RecordingError(
            f"cannot record to {self.path}: {self.failed}{self._last_words}; {kept}"
        )


def _json(value: object) -> bytes:
    try:
        return json.dumps(value).encode()
    except (TypeError, ValueError) as error:
        raise RecordingError(
            f"a header, a footer or an event contains data that is not plain JSON: {error}"
        ) from error
