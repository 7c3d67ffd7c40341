"""Start, serve and end processes beside a run, connected by pipes."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.net.messagepack import EncodingError, Limits, check, pack, unpack
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.addresses import PageAddress, open_port
from rtsim.timing.background import ONE_THREAD

# The pipe to such a process, which carries messages of limited length without blocking.

MOST_BYTES = 1 << 20
_HEAD = 4
_CHUNK = 1 << 16
_LIMITS = Limits(depth=8, values=100_000)


class PipeError(RtsimError):
    """The other end of the pipe sent data that are not a message."""


class Pipe:
    """One end of the pipe.

    While the pipe is full, up to ``most_waiting`` bytes wait in this object.
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
        """Send ``message``; return False if the message is too long or cannot be queued."""
        data = pack(message)
        if self.gone or len(data) > MOST_BYTES or len(self._out) + len(data) > self._most:
            return False
        self._out += len(data).to_bytes(_HEAD, "little") + data
        self.flush()
        return not self.gone

    def fits(self, message: Any) -> bool:
        """Return True if ``message`` is within the limits of size and nesting depth."""
        data = pack(message)
        try:
            check(data, _LIMITS)
        except EncodingError:
            return False
        return len(data) <= MOST_BYTES

    def flush(self) -> None:
        """Send waiting bytes until the pipe is full."""
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
        """Return the messages that have arrived; raise ``PipeError`` for invalid data.

        Reading stops after ``most`` bytes. If messages are left, :attr:`more` is True.
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
        """Wait at most ``seconds`` for data; return True if data arrived."""
        if self.gone or self.more:
            return True
        return bool(select.select([self._end], [self._end] if self._out else [], [], seconds)[0])

    def close(self) -> None:
        self._end.close()


_START_S, _END_S = 60.0, 5.0


class PipedProcess:
    """A process beside the run: ``python -m MODULE PIPE PASSED... ARGUMENTS...``.

    PIPE is the file descriptor of the pipe in the new process. PASSED are the file descriptors of
    the sockets ``passed``, which the starting process closes. The first message of the new process
    is ``{"ready": true}`` or ``{"failed": TEXT}``. With ``quiet``, its standard output is
    discarded.
    """

    def __init__(
        self, module: str, *arguments: str, passed: Sequence[socket.socket] = (),
        quiet: bool = False,
    ) -> None:  # fmt: skip
        ours, theirs = socket.socketpair()
        self.pipe = Pipe(ours)
        ends = [theirs, *passed]
        numbers = [end.fileno() for end in ends]
        command = [sys.executable, "-m", module, *map(str, numbers), *arguments]
        try:
            self._process = subprocess.Popen(
                command, pass_fds=numbers, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if quiet else None, start_new_session=True,
                env={**os.environ, **ONE_THREAD},
            )  # fmt: skip
        finally:
            for end in ends:
                end.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status of the process, negative after a signal; ``None`` while the process runs."""
        return self._process.poll()

    def first_message(self) -> dict[str, Any]:
        """Wait for the first message; return an empty dict if the process fails."""
        until = stopwatch() + round(_START_S * NS_PER_S)
        found: dict[str, Any] = {}
        while not found and not self.pipe.gone and stopwatch() < until:
            self.pipe.wait(0.1)
            for message in self.pipe.receive():
                found |= message
        return found

    def end(self) -> None:
        self.pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


# The page of a run or of a recording.


@dataclass(frozen=True)
class Order:
    """The content of a web page: a run in progress (``run``, ``keys``) or the file ``recording``.

    ``wait_s`` is the longest time (s) to wait for the start of the run. With ``control``, browsers
    can send commands to the run.
    """

    run: str = ""
    keys: str = ""
    recording: str = ""
    control: bool = False
    wait_s: float = 0.0


class WebPage:
    """Context manager that serves a web page in a separate process.

    Raises ``RtsimError`` if the page cannot be served or shown.
    """

    def __init__(self, order: Order, port: int | None = None) -> None:
        self._order = order
        listener = open_port(port)
        self.address = PageAddress.of(listener)
        self._said: dict[str, Any] = {}
        self._lost = ""
        self._process = PipedProcess("rtsim.gateway.web.process", passed=[listener], quiet=True)
        self._pipe = self._process.pipe

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        try:
            self._pipe.send({**asdict(self._order), "token": self.address.token})
            self._said = self._process.first_message()
            if "ready" not in self._said:
                raise RtsimError(
                    self._said.get("failed", f"the page's process {self._how_it_ended()}")
                )
        except BaseException:
            self._end()
            raise
        return self

    def wait(self) -> str:
        """Wait until the page ends; return the reason."""
        while self._read(0.5):
            pass
        self._end()
        return self._lost or str(self._said.get("ended", ""))

    def __exit__(self, *_: object) -> None:
        self._end()

    def over(self, why: str) -> None:
        self._pipe.send({"over": why})

    def _read(self, seconds: float) -> bool:
        self._pipe.wait(seconds)
        for message in self._pipe.receive():
            self._said |= message
        return not self._pipe.gone

    def _end(self) -> None:
        if self._pipe.fileno() < 0:
            return
        self.over("")
        until = stopwatch() + round(_END_S * NS_PER_S)
        while stopwatch() < until and self._read(0.1):
            pass
        self._process.end()
        if "ended" not in self._said:
            self._lost = self._how_it_ended()

    def _how_it_ended(self) -> str:
        code = self._process.status
        if code is None:
            return "did not answer"
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with status {code}"

    def figures(self) -> dict[str, Any]:
        return {
            "browsers": int(self._said.get("browsers", 0)),
            "refused": int(self._said.get("refused", 0)),
            "lost": self._lost,
        }


def page_line(figures: dict[str, Any]) -> str:
    if figures["lost"]:
        return (
            f"web page: its process {figures['lost']}; the run continued without it, and rtsim "
            "web opens another page"
        )
    refused = f", {figures['refused']} requests refused" if figures["refused"] else ""
    return f"web page: {figures['browsers']} browsers{refused}"
