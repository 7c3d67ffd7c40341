"""Forwards bytes between viewers and a WebSocket server of this process; counts dropped messages.

The server of foxglove-sdk drops messages for a slow viewer and does not count them. That server
therefore listens on a port of its own, and this relay reads everything that the server sends at
once. If a viewer is too slow, the relay drops its oldest messages and counts them.

Windows on other machines are served by :mod:`rtsim.pilot.relay`, which shares no code with this
module. That relay sends only the latest state, from shared memory and by ZeroMQ. This relay sends a
stream of bytes, in which no message replaces another.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.origins import OriginCheck, refusal

MOST_WAITING = 1 << 18
"""Limit of the messages that wait for one viewer, bytes: some seconds at usual rates."""
MOST_VIEWERS = 16
MOST_FRAME = 1 << 24
_MOST_ASKED = 1 << 16
_CHUNK = 1 << 16
_SEND_BUFFER = 1 << 16
_BINARY = 0x82
_MESSAGE, _TIME = 1, 2


class FrameSplitter:
    """Splits a server's bytes into the HTTP answer and WebSocket frames (RFC 6455, unmasked)."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._upgraded = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield complete frames with their heads; raises :class:`RtsimError` if one is too long."""
        self._bytes += data
        while (size := self._next()) and size <= len(self._bytes):
            frame = bytes(self._bytes[:size])
            del self._bytes[:size]
            yield frame

    def _next(self) -> int:
        """Return the size of the next frame, bytes; 0 if the size is not known yet."""
        held = self._bytes
        if not self._upgraded:
            end = held.find(b"\r\n\r\n") + 4
            self._upgraded = end > 3
            return max(end, 0) if self._upgraded else 0
        if len(held) < 2:
            return 0
        short = held[1] & 0x7F
        wide = {126: 2, 127: 8}.get(short, 0)
        if len(held) < 2 + wide:
            return 0
        size = int.from_bytes(held[2 : 2 + wide], "big") if wide else short
        if size > MOST_FRAME:
            raise RtsimError(f"a frame has {size} bytes; at most {MOST_FRAME} are allowed")
        return 2 + wide + size + (4 if held[1] & 0x80 else 0)


def kind(frame: bytes) -> int:
    """Return the kind of a frame of the viewer's protocol: 1 message, 2 time, 0 other."""
    if not frame or frame[0] != _BINARY:
        return 0
    at = 2 + {126: 2, 127: 8}.get(frame[1] & 0x7F, 0)
    return frame[at] if len(frame) > at and frame[at] in (_MESSAGE, _TIME) else 0


@dataclass
class RelayCounts:
    """The number of messages that were sent and lost, for all viewers together."""

    sent: int = 0
    lost: int = 0


class OutgoingQueue:
    """The frames that wait for one viewer; beyond ``most`` bytes the oldest messages are dropped.

    Frames that are not messages (descriptions of channels, answers) are never dropped.
    """

    def __init__(self, counts: RelayCounts, most: int = MOST_WAITING) -> None:
        self._counts, self._most = counts, most
        self._frames: deque[bytes] = deque()
        self._size = self._held = 0
        self._begun = 0
        """Number of bytes of the first frame that have been sent."""

    def __bool__(self) -> bool:
        return bool(self._frames)

    def add(self, frame: bytes) -> None:
        """Add a frame; raises :class:`RtsimError` if too many frames wait that are not messages."""
        self._frames.append(frame)
        if kind(frame):
            self._size += len(frame)
        else:
            self._held += len(frame)
        while self._size - self._begun > self._most and self._drop():
            pass
        if self._held > MOST_FRAME:
            raise RtsimError("the viewer reads its data too slowly")

    def _drop(self) -> bool:
        """Drop the oldest message; never drop a partly sent frame or the newest frame."""
        for k in range(1 if self._begun else 0, len(self._frames) - 1):
            if what := kind(self._frames[k]):
                self._size -= len(self._frames[k])
                del self._frames[k]
                self._counts.lost += what == _MESSAGE
                return True
        return False

    def send(self, end: socket.socket) -> None:
        """Send as much as the socket accepts."""
        while self._frames:
            frame = self._frames[0]
            try:
                self._begun += end.send(memoryview(frame)[self._begun :])
            except BlockingIOError:
                return
            if self._begun < len(frame):
                return
            self._frames.popleft()
            if kind(frame):
                self._size -= len(frame)
            else:
                self._held -= len(frame)
            self._begun = 0
            self._counts.sent += kind(frame) == _MESSAGE

    def discard(self) -> None:
        """Discard the remaining frames, and count their messages as lost."""
        self._counts.lost += sum(kind(frame) == _MESSAGE for frame in self._frames)
        self._frames.clear()


class _Connection:
    """The connections for one viewer: to the viewer, and to the server."""

    def __init__(
        self,
        viewer: socket.socket,
        server: socket.socket,
        counts: RelayCounts,
        origin_check: OriginCheck,
    ) -> None:
        self.viewer, self.server = viewer, server
        self.asked = bytearray()
        self._origin_check: OriginCheck | None = origin_check
        """Checks the viewer's request; ``None`` once the request has been accepted."""
        self.frames, self.waiting = FrameSplitter(), OutgoingQueue(counts)
        self.ending = False
        """True if the server closed the connection."""

    def from_viewer(self) -> bool:
        data = self.viewer.recv(_CHUNK)
        self.asked += data
        return bool(data)

    def to_server(self) -> None:
        """Forward the viewer's bytes; raises :class:`RtsimError` if the viewer is refused."""
        if self._origin_check is not None:
            if not self._origin_check.is_complete(self.asked):
                return
            if why := self._origin_check.objection(self.asked):
                with suppress(OSError):
                    self.viewer.send(refusal(why))
                raise RtsimError(why)
            self._origin_check = None
        with suppress(BlockingIOError):
            while self.asked:
                del self.asked[: self.server.send(self.asked)]

    def from_server(self) -> None:
        data = self.server.recv(_CHUNK)
        self.ending = not data
        for frame in self.frames.feed(data):
            self.waiting.add(frame)


class TelemetryRelay(threading.Thread):
    """Connects the viewers of ``listener`` to ``target``, a port of this machine, until closed."""

    def __init__(
        self, listener: socket.socket, target: int, origin_check: OriginCheck | None = None
    ) -> None:
        super().__init__(name="relay", daemon=True)
        self._origin_check = origin_check or OriginCheck()
        self._listener, self._target = listener, target
        self._selector = selectors.DefaultSelector()
        self._waker, self._wake_end = socket.socketpair()
        self._lines: list[_Connection] = []
        self._until_ns = 0
        self.counts = RelayCounts()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._selector.register(self._wake_end, selectors.EVENT_READ, None)

    def close(self, seconds: float = 0.5) -> None:
        """Send waiting frames for at most ``seconds``, then stop; first stop the server."""
        self._until_ns = stopwatch() + round(seconds * NS_PER_S)
        self._waker.send(b"x")
        self.join()
        self._waker.close()

    def run(self) -> None:
        while not self._over():
            for key, mask in self._selector.select(0.05 if self._until_ns else None):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._wake_end:
                    self._selector.unregister(self._wake_end)
                elif isinstance(key.data, _Connection) and key.data in self._lines:
                    self._pass(key.data, key.fileobj is key.data.viewer, mask)
        for line in list(self._lines):
            line.waiting.discard()
            self._end(line)
        self._selector.close()
        self._listener.close()
        self._wake_end.close()

    def _over(self) -> bool:
        if not self._until_ns:
            return False
        return stopwatch() > self._until_ns or not self._lines

    def _accept(self) -> None:
        with suppress(OSError):
            viewer, _ = self._listener.accept()
            if len(self._lines) >= MOST_VIEWERS:
                viewer.close()
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target), 1.0)
            except OSError:
                viewer.close()
                return
            viewer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            line = _Connection(viewer, server, self.counts, self._origin_check)
            for end in (viewer, server):
                end.setblocking(False)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._selector.register(end, selectors.EVENT_READ, line)
            self._lines.append(line)

    def _pass(self, line: _Connection, viewers: bool, mask: int) -> None:
        try:
            if mask & selectors.EVENT_READ:
                if not viewers:
                    line.from_server()
                elif not line.from_viewer():
                    self._end(line)
                    return
            line.to_server()
            line.waiting.send(line.viewer)
        except BlockingIOError:
            pass
        except (OSError, RtsimError):
            self._end(line)
            return
        if line.ending and not line.waiting:
            self._end(line)
            return
        self._watch(line)

    def _watch(self, line: _Connection) -> None:
        """Select the events to wait for; do not read while earlier bytes wait to be forwarded."""
        full = len(line.asked) >= _MOST_ASKED
        self._select(line, line.viewer, not full, bool(line.waiting))
        self._select(line, line.server, not line.ending, bool(line.asked))

    def _select(self, line: _Connection, end: socket.socket, read: bool, write: bool) -> None:
        wanted = selectors.EVENT_READ * read | selectors.EVENT_WRITE * write
        known = end in self._selector.get_map()
        if not wanted:
            if known:
                self._selector.unregister(end)
        elif known:
            self._selector.modify(end, wanted, line)
        else:
            self._selector.register(end, wanted, line)

    def _end(self, line: _Connection) -> None:
        self._lines.remove(line)
        for end in (line.viewer, line.server):
            if end in self._selector.get_map():
                self._selector.unregister(end)
            end.close()
