"""Run an emulator in a process of its own: start it, send requests, detect failures, end it."""

from __future__ import annotations

import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from hitl.boards import wire
from hitl.boards.contract import BoardError, BoardGone
from hitl.worker.ending import WorkerEnding
from rtsim.core.clock import stopwatch

_PATIENCE_S = 60.0
_GRACE_S = 2.0
_MOST_SAID = 2000


class EmulatorProcess:
    """A process that runs an emulator; each request gets one answer.

    Any failure ends the process, and every later call raises the same error.  ``command`` starts
    the emulator, and ``name`` is its name in error messages.  ``patience`` is the timeout for an
    answer, s of the wall clock.  The emulator ends by itself if this process ends, because its
    stdin is then closed.  Raises :class:`BoardError` if it cannot be started.
    """

    def __init__(self, command: Sequence[str | Path], name: str, patience: float = _PATIENCE_S):
        self._name, self._patience = name, patience
        self._failed: str | None = None
        self._hung = self._killed = False
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [str(c) for c in command],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
            )  # fmt: skip
        except OSError as error:
            self._said.close()
            raise BoardError(f"cannot start the emulator {command[0]}: {error.strerror}") from None
        self._asked: int | None = None
        self._closing = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, name=f"{name} watchdog", daemon=True)
        self._watchdog.start()
        self._guarded_hello()

    def _guarded_hello(self) -> None:
        self._asked = stopwatch()
        kind, body = self._answer()
        if kind != "H":
            self._fail(f"greeted with a message {kind!r}; expected 'H'")
        try:
            self.emulator = wire.greeting(body)
        except BoardError as error:
            self.lied(error)

    @property
    def pid(self) -> int:
        """Id of the emulator's process."""
        return self._process.pid

    def check(self) -> None:
        """Raise :class:`BoardError` if the process has failed or was closed."""
        if self._failed is not None:
            raise self._error()

    def ask(self, kind: str, body: bytes = b"", expected: str = "K") -> bytes:
        """Send a request of kind ``kind`` with ``body`` and return the body of its answer.

        Raises :class:`BoardError` if the process ends, hangs, reports an error, or does not answer
        with a message of kind ``expected``.
        """
        self.check()
        if len(body) > wire.MOST_BODY:
            raise BoardError(
                f"a request to {self._name} has {len(body)} bytes; at most {wire.MOST_BODY} "
                "are allowed: send fewer bytes in one request"
            )
        self._asked = stopwatch()
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(wire.frame(kind, body))
            self._process.stdin.flush()
        except OSError:
            self._fail(self._ending())
        given, answer = self._answer()
        if given == "E":
            self._fail(f"reports: {answer.decode('utf-8', 'replace')[:_MOST_SAID]}")
        if given != expected:
            self._fail(f"answered {kind!r} with {given!r}; expected {expected!r}")
        return answer

    def lied(self, error: BoardError) -> NoReturn:
        """End the process because of an impossible answer, and raise :class:`BoardError`."""
        self._fail(f"answered with {error}")

    def close(self) -> None:
        """End the process.  A second call does nothing."""
        if self._failed is None:
            self._failed = f"{self._name} is closed"
        self._end()

    def _answer(self) -> tuple[str, bytes]:
        length, kind = wire.HEAD.unpack(self._read(wire.HEAD.size))
        if length > wire.MOST_BODY:
            self._fail(f"announced {length} bytes; at most {wire.MOST_BODY} are allowed")
        body = self._read(length)
        self._asked = None
        return chr(kind), body

    def _read(self, length: int) -> bytes:
        assert self._process.stdout is not None
        try:
            data = self._process.stdout.read(length)
        except OSError:
            data = b""
        if len(data) < length:
            self._fail(self._ending())
        return data

    def _watch(self) -> None:
        """Kill an emulator that hangs, to end the blocked read; pipes have no timeout."""
        while not self._closing.wait(self._patience / 4):
            asked = self._asked
            if asked is not None and stopwatch() - asked > self._patience * 1e9:
                self._hung = True
                self._process.kill()
                return

    def _ending(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_S)
        if self._hung:
            return f"did not answer within {self._patience:g} s and was killed"
        code = self._process.poll()
        if code is None:
            return "closed its end of the pipe"
        said = self._last_words()
        ending = WorkerEnding(code, "", "")
        self._killed = ending.killed
        words = ending.in_words if code else "ended with exit status 0"
        return words + (f"; it said:\n{said}" if said else "")

    def _last_words(self) -> str:
        size = self._said.seek(0, 2)
        self._said.seek(max(0, size - _MOST_SAID))
        return self._said.read().decode("utf-8", "replace").strip()

    def _fail(self, what: str) -> NoReturn:
        self._failed = f"{self._name} {what}"
        self._end()
        raise self._error()

    def _error(self) -> BoardError:
        """Return the error for the failure: :class:`BoardGone` if the process hung or was killed.

        No program on the board can cause that, because the emulator runs it cycle by cycle.
        """
        text = self._failed or ""
        return BoardGone(text) if self._hung or self._killed else BoardError(text)

    def _end(self) -> None:
        self._closing.set()
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(0.0 if self._hung else _GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        if self._watchdog is not threading.current_thread():
            self._watchdog.join()
        self._said.close()
