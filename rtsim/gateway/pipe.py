"""The pipe between the loop and its gateway: messages of limited length, without blocking."""

from __future__ import annotations

import select
import socket
from typing import Any

from rtsim.core.errors import RtsimError
from rtsim.core.net.messagepack import EncodingError, Limits, check, pack, unpack

MOST_BYTES = 1 << 20
_HEAD = 4
_CHUNK = 1 << 16
_LIMITS = Limits(depth=8, values=100_000)


class PipeError(RtsimError):
    """The other end of the pipe sent something that is not a message."""


class Pipe:
    """One end of the pipe.

    Up to ``most_waiting`` bytes wait in this object if the operating system's buffer is full.
    """

    def __init__(self, end: socket.socket, most_waiting: int = 4 * MOST_BYTES) -> None:
        end.setblocking(False)
        self._end = end
        self._most = most_waiting
        self._out = bytearray()
        self._in = bytearray()
        self.gone = False
        self.more = False
        """True if the last call of :meth:`receive` left messages unread."""

    def fileno(self) -> int:
        return self._end.fileno()

    @property
    def busy(self) -> bool:
        """True if earlier messages still wait to be sent."""
        return bool(self._out)

    def send(self, message: Any) -> bool:
        """Send ``message``; return False if too many bytes wait or the other end is closed."""
        data = pack(message)
        if self.gone or len(data) > MOST_BYTES or len(self._out) + len(data) > self._most:
            return False
        self._out += len(data).to_bytes(_HEAD, "little") + data
        self.flush()
        return not self.gone

    def fits(self, message: Any) -> bool:
        """Return whether the other end accepts the size and nesting depth of ``message``."""
        data = pack(message)
        try:
            check(data, _LIMITS)
        except EncodingError:
            return False
        return len(data) <= MOST_BYTES

    def flush(self) -> None:
        """Send as many of the waiting bytes as the operating system accepts."""
        try:
            while self._out:
                sent = self._end.send(self._out)
                del self._out[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self.gone = True
            self._out.clear()

    def receive(self, most: int | None = None) -> list[Any]:
        """Return the messages that have arrived; raises :class:`PipeError` for a malformed one.

        Reading stops after ``most`` bytes; :attr:`more` is then true if messages are left.
        """
        if self.gone:
            return []
        if self.more:
            return self._whole(most)
        try:
            while True:
                data = self._end.recv(_CHUNK)
                if not data:
                    self.gone = True
                    break
                self._in += data
                if len(data) < _CHUNK:
                    break
        except BlockingIOError:
            if not self._in:
                return []
        except OSError:
            self.gone = True
        return self._whole(most)

    def _whole(self, most: int | None) -> list[Any]:
        found: list[Any] = []
        self.more, whole = False, len(self._in)
        while len(self._in) >= _HEAD:
            if most is not None and found and whole - len(self._in) >= most:
                self.more = True
                break
            size = int.from_bytes(self._in[:_HEAD], "little")
            if size > MOST_BYTES:
                raise PipeError(
                    f"a message in the pipe has {size} bytes; at most {MOST_BYTES} are allowed"
                )
            if len(self._in) < _HEAD + size:
                break
            data = bytes(self._in[_HEAD : _HEAD + size])
            del self._in[: _HEAD + size]
            try:
                found.append(unpack(data, _LIMITS))
            except EncodingError as error:
                raise PipeError(str(error)) from None
        return found

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for data; return whether data arrived."""
        if self.gone or self.more:
            return True
        return bool(select.select([self._end], [self._end] if self._out else [], [], seconds)[0])

    def close(self) -> None:
        self._end.close()
