"""The pipe between the loop and its gateway: messages of bounded length, nobody ever blocks."""

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
    """The other end is gone, or sends what is none."""


class Pipe:
    """One end.  What does not fit into the system's buffer waits here, up to ``most_waiting``."""

    def __init__(self, end: socket.socket, most_waiting: int = 4 * MOST_BYTES) -> None:
        end.setblocking(False)
        self._end = end
        self._most = most_waiting
        self._out = bytearray()
        self._in = bytearray()
        self.gone = False
        self.more = False
        """Messages were left for later."""

    def fileno(self) -> int:
        return self._end.fileno()

    @property
    def busy(self) -> bool:
        """What was sent before has not left yet."""
        return bool(self._out)

    def send(self, message: Any) -> bool:
        """False where it cannot be taken: too much waits, or nobody is there."""
        data = pack(message)
        if self.gone or len(data) > MOST_BYTES or len(self._out) + len(data) > self._most:
            return False
        self._out += len(data).to_bytes(_HEAD, "little") + data
        self.flush()
        return not self.gone

    def fits(self, message: Any) -> bool:
        """The other end would take it for a message."""
        data = pack(message)
        try:
            check(data, _LIMITS)
        except EncodingError:
            return False
        return len(data) <= MOST_BYTES

    def flush(self) -> None:
        """Hand over what waits, as far as the other end takes it."""
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
        """The messages that are there; :class:`PipeError` for what is none.

        ``most``: no further one once so many bytes were read; :attr:`more` says that some are left.
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
                raise PipeError(f"a message of {size} bytes; at most {MOST_BYTES}")
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
        """Until something comes."""
        if self.gone or self.more:
            return True
        return bool(select.select([self._end], [self._end] if self._out else [], [], seconds)[0])

    def close(self) -> None:
        self._end.close()
