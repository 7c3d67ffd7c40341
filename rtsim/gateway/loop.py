"""The gateway in the loop: reads commands at tags, sends samples, and never waits."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rtsim.core.clock import civil, stopwatch
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.net.keys import CLIENT
from rtsim.core.net.messagepack import EncodingError, Limits, check, pack, unpack
from rtsim.core.net.sockets import check_served
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import Inbox, PendingCommand, read_command
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.gateway.addresses import check_free
from rtsim.gateway.publishing import (
    Sampler,
    ViewerCounts,
    catalogue,
    check_rates,
    without_signals,
)
from rtsim.gateway.shapes import placed_bodies
from rtsim.scenario.body import Body
from rtsim.timing.background import ONE_THREAD
from rtsim.timing.frames import Tally
from rtsim.timing.pacing import Pacer

# The pipe to the process of the gateway: messages of limited length, without blocking.

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


_NOT_READY = (
    "the gateway process, through which clients reach the run, ended before it was ready; its own "
    "message is above, or it was killed"
)
MOST_RATE_HZ = 200.0
MOST_AT_ONCE = 16_384
"""Number of bytes after which the loop stops reading commands until the next tag."""
_START_S, _END_S = 60.0, 5.0


class PipedInbox(Inbox):
    """The inbox for commands from a gateway; it also sends the run's state to the gateway."""

    def __init__(self, pipe: Pipe, about: dict[str, Any]) -> None:
        super().__init__()
        self.lost = 0
        """Number of samples that were dropped because the pipe was full."""
        self.telemetry: dict[str, ViewerCounts] = {}
        """What became of the messages, by plotting tool, known after the run."""
        self.page: dict[str, Any] = {}
        """The figures of the page in the browser, known after the run; empty without a page."""
        self._pipe, self._about, self._leg = pipe, about, 0
        self.period_ns = self._next_ns = 0

    def attach(self, system: System, pacer: Pacer, trace: Trace) -> None:
        super().attach(system, pacer, trace)
        trace.tally = Tally(trace.links())
        self._leg += 1
        self._look = Sampler(system, trace.tally)
        more = {
            "links": trace.tally.links, "leg": self._leg, "thread": threading.get_native_id(),
        }  # fmt: skip
        run = {**self._about, **catalogue(system), **more}
        placed_bodies([Body.from_plain(body) for body in run.get("scene", ())], run["signals"])
        check_rates(run.get("telemetry", {}), run["signals"])
        if not self._pipe.fits({"run": run}):
            run = without_signals(run)
        if not self._pipe.send({"run": run}) and not self._pipe.gone:
            self.trouble = "the description of the run is too large for the pipe to its gateway"

    def _wait_ns(self, ns: int) -> int:
        """Return the wall-clock time until the tag at simulated time ``ns``, in ns."""
        if ns < 0 or not self._pacer.clock.paced:
            return 0
        return max(0, self._pacer.clock.wall(ns) - self._pacer.clock.now())

    def goes_on(self, **about: object) -> None:
        self._about = {**self._about, **about}

    def lose_recording(self, since: str) -> None:
        super().lose_recording(since)
        self._pipe.send({"unrecorded": since})

    def fileno(self) -> int:
        return -1 if self._pipe.gone else self._pipe.fileno()

    def poll(self) -> None:
        pipe = self._pipe
        if pipe.gone:
            self.trouble = self.trouble or "the gateway process has ended"
            return
        try:
            for message in pipe.receive(MOST_AT_ONCE):
                self._handle_message(message)
        except PipeError as error:
            self.trouble = str(error)
            pipe.gone = True

    def _handle_message(self, message: Any) -> None:
        if not isinstance(message, dict):
            raise PipeError("a message from the gateway is not a map")
        if "looks" in message:
            rate = min(float(message["looks"]), MOST_RATE_HZ)
            self.period_ns = round(NS_PER_S / rate) if rate > 0 else 0
            self._next_ns = 0
        if "command" in message:
            self._command(message)
        if "published" in message:
            self.telemetry = message["published"]

    def _command(self, message: dict[str, Any]) -> None:
        number = message.get("id")

        def answer(wrong: str, ns: int) -> None:
            said = {"answer": number, "wrong": wrong, "ns": ns, "wait_ns": self._wait_ns(ns)}
            self._pipe.send(said)

        self.take(message["command"], int(message.get("initiated", 0)), answer)

    def after(self, ns: int, standing: bool) -> None:
        if self.period_ns and not self._pipe.gone:
            now = stopwatch()
            if now >= self._next_ns or standing:
                self._next_ns = now + self.period_ns
                self._send_sample(ns, now, standing)

    def _send_sample(self, ns: int, now: int, standing: bool) -> None:
        if self._pipe.busy:
            self._pipe.flush()
            if self._pipe.busy:
                self.lost += 1
                return
        state = {**self.state(ns, now, standing), "leg": self._leg}
        self.lost += not self._pipe.send({"look": self._look.take(state)})

    def wait(self, seconds: float) -> None:
        if self._pipe.gone:  # no client can resume the run any more
            self.waiting.append(PendingCommand(read_command({"kind": "resume"})))
        else:
            self._pipe.wait(min(seconds, self.period_ns / NS_PER_S or seconds))

    def close(self, why: str) -> None:
        super().close(why)
        self._pipe.send({"ended": why})

    def settle(self, seconds: float) -> None:
        """Wait for the gateway's final telemetry counts, for at most ``seconds``."""
        until = stopwatch() + round(seconds * NS_PER_S)
        while not (self.telemetry or self._pipe.gone) and stopwatch() < until:
            self._pipe.wait(0.1)
            self.poll()


def check_reach(bind: str, keys: Path | None) -> None:
    """Raise an error for a ``tcp://`` address without keys, also on loopback.

    Without keys, every program that reaches the address could command the run.
    """
    if bind:
        check_served(
            bind,
            keys,
            f"--control-at {bind} needs keys, because every program that reaches this address "
            "could command the run. Type rtsim keys run.keys, add --control-keys run.keys, and "
            f"copy run.keys{CLIENT} to the client",
        )


class Gateway:
    """The gateway process; a context manager that returns the inbox for :func:`simulate`.

    ``about`` is plain data for clients, such as scenario and recording.  ``bind`` is an additional
    ``tcp://`` address to serve at, and ``keys`` the file of its keys.  ``plotjuggler`` is the
    address for PlotJuggler, if any.  ``foxglove`` is a listening socket; it is closed in this
    process.  ``listed``: clients on this machine find the run by its name.  The context begins when
    all services have started; it raises :class:`ScenarioError` if one of them cannot.
    """

    def __init__(
        self, about: dict[str, Any], bind: str = "", keys: Path | None = None,
        plotjuggler: str = "", foxglove: socket.socket | None = None, listed: bool = True,
    ) -> None:  # fmt: skip
        check_reach(bind, keys)
        if plotjuggler:
            check_free(plotjuggler)
        ours, theirs = socket.socketpair()
        self._pipe = Pipe(ours)
        told = {"pid": os.getpid(), "started_ns": civil(), **about}
        self.inbox = PipedInbox(self._pipe, told)
        self._viewed = bool(plotjuggler) or foxglove is not None
        passed = [theirs, *([] if foxglove is None else [foxglove])]
        command: Sequence[str] = [
            sys.executable, "-m", "rtsim.gateway.process", str(theirs.fileno()),
            "--bind", bind, "--keys", str(keys or ""), "--plotjuggler", plotjuggler,
            "--foxglove", str(-1 if foxglove is None else foxglove.fileno()),
            *(["--listed"] if listed else []),
        ]  # fmt: skip
        try:
            self._process = subprocess.Popen(
                command, pass_fds=[end.fileno() for end in passed], stdin=subprocess.DEVNULL,
                start_new_session=True, env={**os.environ, **ONE_THREAD},
            )  # fmt: skip
        finally:
            for end in passed:
                end.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> PipedInbox:
        try:
            self._await_start()
        except BaseException:
            self._end()
            raise
        return self.inbox

    def _await_start(self) -> None:
        until = stopwatch() + round(_START_S * NS_PER_S)
        told: list[Any] = []
        while not told and not self._pipe.gone and stopwatch() < until:
            self._pipe.wait(0.1)
            told = self._pipe.receive()
        if not any("ready" in message for message in told):
            why = told[0].get("failed") if told else _NOT_READY
            raise ScenarioError(str(why))

    def __exit__(self, *_: object) -> None:
        if self._viewed and self.inbox.closed:
            self.inbox.settle(_END_S)
        self._end()

    def _end(self) -> None:
        self._pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
