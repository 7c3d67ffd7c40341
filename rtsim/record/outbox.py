"""Frames that wait for the writing process, and the thread that sends them if many wait."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
from collections import deque

from rtsim.core.clock import stopwatch
from rtsim.timing.background import step_back

_MOST_FRAMES = 128
"""Parts of frames that one call of the system sends."""
_LOOK_NS = 1_000_000_000
_POLL_S = 0.05


class Outbox:
    """Frames for ``outlet``, a socket that does not block; the process ``reader`` reads them.

    The thread that records puts frames and sends them.  A paced loop in compiled code calls Python
    only four times per second, and a call sends no more than the socket takes; :meth:`start` hands
    the sending over to a thread of its own, until :meth:`stop`.
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
        """Number of bytes that were put and not sent."""
        return self.put_bytes - self.sent_bytes

    def put(self, *parts: bytes | memoryview) -> None:
        """Append one frame; its ``parts`` must not change before they are sent."""
        self._frames.extend([memoryview(part) for part in parts if part])
        self.put_bytes += sum(map(len, parts))
        if self._thread is not None:
            self._more.set()

    def send(self) -> bool:
        """Send what the socket takes, if no other thread sends; return True if all is sent.

        Raises :class:`OSError` if the other end is closed.
        """
        if self._thread is None:
            self._send()
        if self._error is not None:
            raise self._error
        return self.waiting == 0

    def _send(self) -> bool:
        """Send until the socket takes no more; return True if no frame is left."""
        while self._frames:
            # by index: while another thread puts frames, an iterator would raise an error
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
        """Wait up to ``patience`` s until the socket takes more, and return whether it does."""
        return bool(select.select([], [self._socket], [], patience)[1])

    def clear(self) -> None:
        """Drop all frames, because the recording failed."""
        self.stop()
        self._frames.clear()
        self.sent_bytes = self.put_bytes

    def start(self) -> None:
        """Send in a thread of its own from now on."""
        if self._thread is None and self._error is None:
            self._ending = False
            self._thread = threading.Thread(target=self._serve, name="rtsim outbox", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Send in the calling thread again."""
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
                if stopwatch() >= due:  # the reader follows the loop from CPU to CPU
                    due = stopwatch() + _LOOK_NS
                    _beside(self._reader)
                if not self._send():
                    self.room(_POLL_S)
                    continue
                self._more.clear()
                if not self._frames:
                    self._more.wait(_POLL_S)
        except OSError as error:
            self._error = error
        except BaseException as error:  # nothing else is expected; rows would be lost in silence
            self._error = OSError(0, f"the thread that sends has failed: {error!r}")


def _beside(reader: int) -> None:
    """Take no CPU from the loop: run where the process ``reader`` runs."""
    if hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, os.sched_getaffinity(reader))
