"""Start, supervise and end worker processes.

The base class ``WorkerProxy`` is also used for workers on other machines.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from hitl.interface import Interface
from hitl.worker.ending import Died, WorkerEnding
from hitl.worker.link import LOOK_NS, Link, SharedLink, SharedSteps, WorkerLink, libzmq
from hitl.worker.messages import (
    MalformedMessage,
    MessageWriter,
    WorkerMessage,
    WorkerMessageKind,
    longest,
    parse,
)
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Tag

NOWHEN = Tag(-1)
"""Tag of messages that belong to no step."""


class WorkerProxy(ABC):
    """Base class of a worker that exchanges messages over a link.

    A proxy detects the end of its worker and the loss of the link.
    """

    def __init__(self, interface: Interface, link: Link) -> None:
        self.interface = interface
        self.link = link
        self.steps: SharedSteps | None = None
        """Fast path for steps, if the link has one."""
        if isinstance(link, SharedLink):
            sizes = interface.inputs.size, interface.outputs.size
            self.steps = SharedSteps(link, interface.schema, *sizes)
        most = max(interface.inputs.size, interface.parameters.size)
        self._speaker = MessageWriter(most, interface.schema)
        self._most = max(interface.outputs.size, interface.parameters.size, 1)

    @property
    @abstractmethod
    def about(self) -> str:
        """The worker's name in error messages."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """Process id of the worker; 0 on another machine."""

    @abstractmethod
    def gone(self) -> bool:
        """Return True if the worker has ended or is disconnected."""

    def stopped(self) -> bool:
        """Return True if a signal has suspended the worker."""
        return False

    @abstractmethod
    def why_gone(self) -> ControllerError:
        """Return the error that explains why the worker has ended."""

    @abstractmethod
    def stop(self) -> WorkerEnding:
        """Ask the worker to end, wait for its end, and return how it ended."""

    @abstractmethod
    def kill(self) -> None:
        """End the worker at once."""

    @abstractmethod
    def close(self) -> None:
        """Release the process and the link; a second call has no effect."""

    def send(self, kind: WorkerMessageKind, sequence: int, tag: Tag, values: Vector) -> bool:
        return self.link.send(self._speaker.message(kind, sequence, tag, values))

    def receive(self, until_ns: int) -> WorkerMessage | MalformedMessage | None:
        """Return the next message, or None if none arrives before ``until_ns`` of the stopwatch.

        Raises ``ControllerError`` if the worker is gone.
        """
        while True:
            data = self.link.receive(until_ns)
            if data is None and self.gone():
                data = self.link.receive(stopwatch() + LOOK_NS)  # its last message
                if data is None:
                    raise self.why_gone()
            if data is not None:
                return self._read(data)
            if stopwatch() >= until_ns:
                return None

    def _read(self, data: bytes) -> WorkerMessage | MalformedMessage:
        heard = parse(data, self._most)
        if isinstance(heard, WorkerMessage) and heard.kind is WorkerMessageKind.ANSWER:
            most = max(self.interface.outputs.size, 1)
            if len(heard.values) > most:
                return MalformedMessage(
                    f"it has {len(heard.values)} values, at most {most} are expected"
                )
        return heard

    def greeted(
        self, heard: WorkerMessage | MalformedMessage | None, patience: float
    ) -> WorkerMessage:
        """Return the message ``heard`` if it is a HELLO of a worker with the same interface.

        ``patience`` is the time (s) for the error message. Raises ``ControllerError`` for any other
        message, and without a message.
        """
        if heard is None:
            raise ControllerError(f"{self.about} did not send HELLO within {patience:g} s")
        if isinstance(heard, MalformedMessage) or heard.kind is not WorkerMessageKind.HELLO:
            said = heard.why if isinstance(heard, MalformedMessage) else heard.kind.name
            raise ControllerError(f"{self.about} did not send HELLO first ({said})")
        if heard.schema != self.interface.schema:
            raise ControllerError(
                f"{self.about} was built from another interface (schema {heard.schema:016x}, "
                f"but {self.interface.path.name} has schema {self.interface.schema:016x}); "
                "build the worker again"
            )
        return heard


START_S = 20.0
"""Timeout for loading and connecting, s; a sanitizer needs some seconds."""
END_S = 2.0
"""Timeout for terminating on request, s."""
LAST_WORDS_NS = 200_000_000
"""Timeout for reading messages of an ended process; BYE normally arrives at once."""
_DYING_S = 0.1
"""Maximum time from the closing of a worker's link to the end of its process, s."""
_TAIL_BYTES = 65_536
_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99:malloc_fill_byte=254:"
    "max_malloc_fill_size=1073741824",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "GLIBC_TUNABLES": "glibc.malloc.perturb=1:glibc.malloc.tcache_count=0",
}
"""Options of the sanitizers, and of glibc, which fill new heap memory with bytes 0xFE.

glibc fills with the inverse of ``perturb``, except memory from its per-thread cache.
"""
_PARENT = "RTSIM_PARENT"
_LEAST_BYTES = 1024
"""Minimum size of the longest message over shared memory, so that malformed messages fit."""


class Worker(WorkerProxy):
    """A worker process on this machine.

    The environment variable ``RTSIM_PARENT`` contains the id of the present process. The worker
    ends when that process ends.

    Args:
        interface: Interface of the controller.
        command: Command that starts the worker, to which ``ENDPOINT LIBZMQ`` are added.
        patience: Longest time to wait for HELLO, s.
        shared: Library for shared memory; None means ZeroMQ.

    Raises:
        ControllerError: The worker cannot be started, or its answer is invalid.
        Died: The worker ended.
    """

    def __init__(
        self,
        interface: Interface,
        command: Sequence[str | Path],
        patience: float = START_S,
        shared: Path | None = None,
    ) -> None:
        super().__init__(interface, _link(interface, shared))
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = self._spawned(command)
        except BaseException:
            _let_go(None, self.link, self._out, self._err)
            raise
        # Called once, by close(), by the garbage collector or at exit.
        self._let_go = weakref.finalize(
            self, _let_go, self._process, self.link, self._out, self._err
        )
        try:
            self.greeted(self.receive(stopwatch() + int(patience * NS_PER_S)), patience)
        except BaseException:
            self.close()
            raise
        self.link.hide()

    def _spawned(self, command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        full = [*map(str, command), self.link.endpoint, str(libzmq())]
        try:
            return subprocess.Popen(
                full, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err,
                env=_environment(), pass_fds=self._inherited(),
            )  # fmt: skip
        except OSError as error:
            raise ControllerError(f"cannot start the worker {full[0]}: {error.strerror}") from None

    def _inherited(self) -> tuple[int, ...]:
        return (self.link.descriptor,) if isinstance(self.link, SharedLink) else ()

    @property
    def about(self) -> str:
        return f"the worker of {self.interface.name} (process {self.pid})"

    @property
    def pid(self) -> int:
        return self._process.pid

    def gone(self) -> bool:
        return self._process.poll() is not None or self.link.lost()

    def stopped(self) -> bool:
        if not hasattr(os, "waitid"):  # before Python 3.13 on macOS
            return False
        changed = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
        with contextlib.suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.pid, changed) is not None
        return False

    def why_gone(self) -> ControllerError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_DYING_S)
            return Died(self.about, self._ending())
        return ControllerError(f"{self.about} has closed its link, but its process still runs")

    def _ending(self, **how: bool) -> WorkerEnding:
        code = self._process.wait()
        return WorkerEnding(code, _tail(self._out), _tail(self._err), **how)

    def stop(self) -> WorkerEnding:
        if self._process.poll() is not None:
            raise Died(self.about, self._ending())
        self.send(WorkerMessageKind.STOP, 0, NOWHEN, np.empty(0))
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            stopped = self.stopped()
            self.kill()
            return self._ending(unresponsive=True, stopped=stopped)
        return self._ending(silent=not self._took_leave())

    def _took_leave(self) -> bool:
        until = stopwatch() + LAST_WORDS_NS
        while stopwatch() < until:
            data = self.link.receive(until)
            heard = None if data is None else parse(data, self._most)
            if isinstance(heard, WorkerMessage) and heard.kind is WorkerMessageKind.BYE:
                return True
        return False

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self._let_go()


def _link(interface: Interface, shared: Path | None) -> Link:
    if shared is None:
        return WorkerLink.local()
    sizes = interface.inputs.size, interface.outputs.size, interface.parameters.size
    return SharedLink(shared, max(_LEAST_BYTES, longest(*sizes)))


def _let_go(process: subprocess.Popen[bytes] | None, link: Link, *files: IO[bytes]) -> None:
    with contextlib.ExitStack() as last:
        for file in files:
            last.callback(file.close)
        last.callback(link.close)
        if process is not None:
            process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    asked = {k: ":".join(filter(None, (v, os.environ.get(k)))) for k, v in _OPTIONS.items()}
    return {**os.environ, **asked, _PARENT: str(os.getpid())}


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    return file.read().decode(errors="replace").strip()
