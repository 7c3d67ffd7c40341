"""Serves Foxglove's viewers by WebSocket at one port; counts the messages that slow viewers miss.

The protocol is ``foxglove.sdk.v1``: the server describes itself and its channels in JSON, a viewer
subscribes to channels, and each message is a binary frame.  foxglove-sdk has a server of its own,
which neither checks which page connects nor counts what it drops (docs/decisions/191).

Windows on other machines are served by :mod:`rtsim.pilot.relay`, which shares no code with this
module.  That relay sends only the latest state, from shared memory and by ZeroMQ.  This server
sends a stream, in which no message replaces another.
"""

from __future__ import annotations

import base64
import errno
import json
import selectors
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from rtsim.core.clock import civil, stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.origins import OriginCheck, refusal

PROTOCOL = "foxglove.sdk.v1"
MOST_WAITING = 1 << 18
"""Limit of the messages that wait for one viewer, bytes: some seconds at usual rates."""
MOST_VIEWERS = 16
MOST_FRAME = 1 << 24
_MOST_ASKED = 1 << 16
"""Limit of one message of a viewer, bytes."""
_CHUNK = 1 << 16
_SEND_BUFFER = 1 << 16
_TEXT, _BINARY = 0x81, 0x82
_GOING_AWAY = b"\x88\x02\x03\xe9"
_MESSAGE, _TIME = 1, 2
_MESSAGE_HEAD, _TIME_HEAD = struct.Struct("<BIQ"), struct.Struct("<BQ")
_ERROR = 2
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""Errors of ``accept`` after which the connection still waits, so that the next call fails too."""
_PAUSE_NS = NS_PER_S
"""Time without a call of ``accept`` after such an error, ns."""


def frame(payload: bytes, first: int = _BINARY) -> bytes:
    """Return one WebSocket frame of a server (RFC 6455, unmasked)."""
    size = len(payload)
    if size < 126:
        head = bytes((first, size))
    elif size < 1 << 16:
        head = bytes((first, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, 127)) + size.to_bytes(8, "big")
    return head + payload


def kind(frame: bytes) -> int:
    """Return the kind of a frame of the viewer's protocol: 1 message, 2 time, 0 other."""
    if not frame or frame[0] != _BINARY:
        return 0
    at = 2 + {126: 2, 127: 8}.get(frame[1] & 0x7F, 0)
    return frame[at] if len(frame) > at and frame[at] in (_MESSAGE, _TIME) else 0


@dataclass
class MessageCounts:
    """The number of messages that were sent and lost, for all viewers together."""

    sent: int = 0
    lost: int = 0


class OutgoingQueue:
    """The frames that wait for one viewer; beyond ``most`` bytes the oldest messages are dropped.

    Frames that are not messages (descriptions of channels, answers) are never dropped.
    """

    def __init__(self, counts: MessageCounts, most: int = MOST_WAITING) -> None:
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


@dataclass(frozen=True)
class Described:
    """A channel as viewers see it; ``schema`` is a descriptor of protobuf."""

    topic: str
    schema_name: str
    schema: bytes
    metadata: Mapping[str, str] = field(default_factory=dict)

    def to_plain(self, number: int) -> dict[str, Any]:
        return {
            "id": number, "topic": self.topic, "encoding": "protobuf",
            "schemaName": self.schema_name, "schemaEncoding": "protobuf",
            "schema": base64.b64encode(self.schema).decode(), "metadata": dict(self.metadata),
        }  # fmt: skip


class _Line:
    """The connection of one viewer."""

    def __init__(self, end: socket.socket, counts: MessageCounts) -> None:
        self.end = end
        self.waiting = OutgoingQueue(counts)
        self.subscribed: dict[int, int] = {}
        """The channel of each subscription, by the viewer's number of it."""
        self.asked = bytearray()
        """The head of the request that opens the connection; not used afterwards."""
        self.fragments = bytearray()
        """The message that is being read; ``protocol`` limits the sum of its fragments."""
        self.opcode = Opcode.TEXT
        """The kind of that message."""
        self.protocol = ServerProtocol(subprotocols=[Subprotocol(PROTOCOL)], max_size=_MOST_ASKED)
        self.ending = False
        """True if the connection ends when all frames are sent; nothing more is read from it."""

    @property
    def open(self) -> bool:
        """True after the request was accepted."""
        return self.protocol.state is State.OPEN


class ViewerServer(threading.Thread):
    """Serves the viewers of ``listener``; only requests that ``origin_check`` accepts are answered.

    Channels are added before the start.  :meth:`log` and :meth:`broadcast_time` never block.
    ``clock`` returns wall-clock time, ns.
    """

    def __init__(
        self, listener: socket.socket, name: str, origin_check: OriginCheck | None = None,
        clock: Callable[[], int] = stopwatch,
    ) -> None:  # fmt: skip
        super().__init__(name="viewers", daemon=True)
        self.failure = ""
        """Why no viewer is served any more; empty if the server works or was closed."""
        self._clock = clock
        self._paused_until_ns = 0
        """Time at which connections are accepted again; 0 if they are accepted."""
        self._told_no_room = False
        self._origin_check = origin_check or OriginCheck()
        self._listener, self._title = listener, name
        self._channels: list[Described] = []
        self._selector = selectors.DefaultSelector()
        self._waker, self._wake_end = socket.socketpair()
        self._lock = threading.Lock()
        """Held by whoever uses the lines: this thread, or the one that logs."""
        self._lines: list[_Line] = []
        self._session = civil()
        self._until_ns = 0
        self.counts = MessageCounts()
        for end in (listener, self._waker, self._wake_end):
            end.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._selector.register(self._wake_end, selectors.EVENT_READ, None)

    # -- what is sent; called by the thread that has the data

    def add(self, channel: Described) -> int:
        """Add a channel and return its number."""
        self._channels.append(channel)
        return len(self._channels)

    def wanted(self, channel: int) -> bool:
        """Return whether a viewer has subscribed to the channel."""
        with self._lock:
            return any(channel in line.subscribed.values() for line in self._lines)

    def log(self, channel: int, payload: bytes, log_ns: int) -> None:
        """Send a message to the viewers that have subscribed to the channel."""
        with self._lock:
            for line in self._lines:
                for number, subscribed in line.subscribed.items():
                    if subscribed == channel:
                        head = _MESSAGE_HEAD.pack(_MESSAGE, number, max(0, log_ns))
                        self._put(line, frame(head + payload))
        self._wake()

    def broadcast_time(self, ns: int) -> None:
        self._to_all(frame(_TIME_HEAD.pack(_TIME, max(0, ns))))

    def clear_session(self) -> None:
        """Begin a new session, so that viewers discard what they have."""
        self._session += 1
        self._to_all(self._hello())

    def _to_all(self, data: bytes) -> None:
        with self._lock:
            for line in self._lines:
                if line.open:
                    self._put(line, data)
        self._wake()

    def _put(self, line: _Line, data: bytes) -> None:
        try:
            line.waiting.add(data)
        except RtsimError:  # it reads too slowly
            line.ending = True
            line.waiting.discard()

    def _wake(self) -> None:
        with suppress(BlockingIOError, BrokenPipeError):  # enough bytes wait, or it has failed
            self._waker.send(b"x")

    def close(self, seconds: float = 0.5) -> None:
        """Send waiting frames for at most ``seconds``, then stop."""
        if self.is_alive():
            self._to_all(_GOING_AWAY)
            self._until_ns = self._clock() + round(seconds * NS_PER_S)
            self._wake()
            self.join()
        self._close_all()  # if the thread did not run
        self._waker.close()

    # -- the thread

    def run(self) -> None:
        """Serve until :meth:`close`; any error is reported, because the run goes on without it."""
        try:
            while not self._over():
                self.turn()
        except Exception as error:
            self.failure = f"no viewer is served any more: {type(error).__name__}: {error}"
            _report(self.failure)
        finally:
            self._close_all()

    def _close_all(self) -> None:
        with self._lock:
            for line in self._lines:
                line.waiting.discard()
                line.end.close()
            self._lines.clear()
        self._selector.close()
        self._listener.close()
        self._wake_end.close()

    def turn(self) -> None:
        """Wait until a viewer or the run has something to do, and do it."""
        if self._paused_until_ns and self._clock() >= self._paused_until_ns:
            self._paused_until_ns = 0
            self._selector.register(self._listener, selectors.EVENT_READ, None)
        for key, mask in self._selector.select(self._longest_wait()):
            with self._lock:
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._wake_end:
                    with suppress(BlockingIOError):
                        self._wake_end.recv(_CHUNK)
                    for line in list(self._lines):
                        self._pass(line, 0)
                elif isinstance(key.data, _Line) and key.data in self._lines:
                    self._pass(key.data, mask)

    def _longest_wait(self) -> float | None:
        """Return the time after which :meth:`turn` looks at the clock, s; ``None`` for no limit."""
        if self._until_ns:
            return 0.05
        if self._paused_until_ns:
            return max(0, self._paused_until_ns - self._clock()) / NS_PER_S
        return None

    def _over(self) -> bool:
        if not self._until_ns:
            return False
        return self._clock() > self._until_ns or not any(line.waiting for line in self._lines)

    def _accept(self) -> None:
        try:
            end, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _NO_ROOM:
                self._pause(error)
            return  # any other error is of a connection that its program gave up
        if len(self._lines) >= MOST_VIEWERS:
            idle = [line for line in self._lines if not line.open]
            if not idle:
                end.close()
                return
            self._end(idle[0])  # a program that only connects must not keep viewers out
        try:
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:  # its program has ended already
            end.close()
            return
        line = _Line(end, self.counts)
        self._selector.register(end, selectors.EVENT_READ, line)
        self._lines.append(line)

    def _pause(self, error: OSError) -> None:
        """Accept no connection for a while: the one that waits would wake the thread at once."""
        self._selector.unregister(self._listener)
        self._paused_until_ns = self._clock() + _PAUSE_NS
        if not self._told_no_room:
            self._told_no_room = True
            _report(
                f"no further viewer can connect: {error.strerror}; close viewers, or raise the "
                "limit of open files (ulimit -n); rtsim tries again each second"
            )

    def _pass(self, line: _Line, mask: int) -> None:
        """Read what the viewer of ``line`` says, and send what waits for it."""
        try:
            if mask & selectors.EVENT_READ:
                self._read(line)
            line.waiting.send(line.end)
        except (OSError, RtsimError):
            self._end(line)
            return
        if line.ending and not line.waiting:
            if line.open:  # it reads too slowly
                self._end(line)
                return
            with suppress(OSError):  # the next read tells that its program has closed it
                # Closed with unread bytes, the connection would be reset, and the viewer would not
                # read why it ended.
                line.end.shutdown(socket.SHUT_WR)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if line.waiting else 0)
        self._selector.modify(line.end, events, line)

    def _read(self, line: _Line) -> None:
        """Read from a viewer; raises :class:`RtsimError` or ``OSError`` if the connection ends."""
        try:
            data = line.end.recv(_CHUNK)
        except BlockingIOError:
            return
        if not data:
            raise RtsimError("the viewer has closed the connection")
        if line.ending:
            return
        if line.protocol.state is State.CONNECTING:
            line.asked += data
            if not self._origin_check.is_complete(line.asked):
                return
            if why := self._origin_check.objection(line.asked):
                line.waiting.add(refusal(why))
                line.ending = True
                return
            data = bytes(line.asked)
        line.protocol.receive_data(data)
        for event in line.protocol.events_received():
            if isinstance(event, Request):
                line.protocol.send_response(line.protocol.accept(event))
            elif isinstance(event, Frame):
                self._collect(line, event)
        for part in line.protocol.data_to_send():
            if part:
                line.waiting.add(part)
            else:
                line.ending = True
                line.subscribed.clear()
        if line.open and line.asked:
            line.asked.clear()
            plain = [channel.to_plain(k + 1) for k, channel in enumerate(self._channels)]
            line.waiting.add(self._hello())
            line.waiting.add(_said({"op": "advertise", "channels": plain}))

    def _collect(self, line: _Line, event: Frame) -> None:
        """Add a frame to the message that is being read, and obey the message if it is whole."""
        if event.opcode in (Opcode.TEXT, Opcode.BINARY):
            line.opcode = event.opcode
        elif event.opcode is not Opcode.CONT:
            return  # the protocol answers it itself, also between the fragments of a message
        line.fragments += event.data
        if event.fin:
            message = bytes(line.fragments)
            line.fragments.clear()
            self._obey(line, message)

    def _hello(self) -> bytes:
        return _said(
            {
                "op": "serverInfo", "name": self._title, "capabilities": ["time"],
                "metadata": {}, "sessionId": str(self._session),
            }
        )  # fmt: skip

    def _obey(self, line: _Line, text: bytes) -> None:
        """Subscribe or unsubscribe; tell the viewer if its message cannot be understood."""
        try:
            if line.opcode is Opcode.BINARY:
                raise ValueError("rtsim reads no binary messages")
            asked = json.loads(text)
            if asked["op"] == "subscribe":
                for one in asked["subscriptions"]:
                    number, channel = int(one["id"]), int(one["channelId"])
                    if not (0 <= number < 1 << 32 and 0 < channel <= len(self._channels)):
                        raise ValueError(f"unknown channel {channel}")
                    line.subscribed[number] = channel
                    if len(line.subscribed) > len(self._channels):
                        raise RtsimError("the viewer subscribes to a channel twice")
            elif asked["op"] == "unsubscribe":
                for number in asked["subscriptionIds"]:
                    line.subscribed.pop(int(number), None)
            else:
                raise ValueError(f"rtsim has no {str(asked['op'])[:40]}")
        except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
            said = f"this message is not understood: {error}"[:200]
            line.waiting.add(_said({"op": "status", "level": _ERROR, "message": said}))

    def _end(self, line: _Line) -> None:
        self._lines.remove(line)
        line.waiting.discard()
        self._selector.unregister(line.end)
        line.end.close()


def _said(what: Mapping[str, Any]) -> bytes:
    return frame(json.dumps(what).encode(), _TEXT)


def _report(what: str) -> None:
    """Print a line on the standard error of the run, which is also that of its gateway."""
    print(f"rtsim: --foxglove: {what}", file=sys.stderr, flush=True)
