"""A worker process from its birth to its end: started, watched, asked, and never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hitl.interface import Interface
from hitl.link import Link, libzmq
from hitl.messages import Garbage, Heard, Kind, Speaker, parse
from rtsim.clock import stopwatch
from rtsim.errors import ControllerError
from rtsim.tag import NS_PER_S, Tag

START_S = 20.0
"""To be loaded and connected; a sanitizer takes its time."""
END_S = 2.0
_TAIL_BYTES = 16_384
_LOOK_NS = 20_000_000
"""How often a silent worker is looked after while something waits for it."""
_NONE = Tag(-1)
_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}
_MEANINGS = {
    "SIGFPE": "an integer division by zero, or one that overflows",
    "SIGSEGV": "an address that is not its own",
    "SIGABRT": "abort(), or a failed assertion",
    "SIGILL": "an instruction that is none",
    "SIGKILL": "somebody killed it, or memory ran out",
}


@dataclass(frozen=True)
class Ending:
    """How a worker ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def in_words(self) -> str:
        if self.code >= 0:
            return f"ended with exit status {self.code}"
        try:
            name = signal.Signals(-self.code).name
        except ValueError:
            return f"was ended by signal {-self.code}"
        meaning = _MEANINGS.get(name, "")
        return f"was ended by {name}" + (f" ({meaning})" if meaning else "")


class Worker:
    """One process, and the link to it.

    ``command`` is run with ``connect ENDPOINT LIBZMQ`` behind it, and speaks :mod:`hitl.messages`.
    """

    def __init__(self, interface: Interface, command: Sequence[str | Path]) -> None:
        self.interface = interface
        self.unknown = 0
        """Messages that were not understood."""
        most = max(interface.inputs.size, interface.parameters.size)
        self._speaker = Speaker(most, interface.schema)
        self._most = interface.outputs.size
        self._link = Link.local()
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.ExitStack() as undo:
            undo.callback(self._link.close)
            self._out = undo.enter_context(tempfile.TemporaryFile())
            self._err = undo.enter_context(tempfile.TemporaryFile())
            self._process = self._spawned(command)
            undo.callback(self.kill)
            self._join()
            undo.pop_all()

    def _spawned(self, command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        full = [*map(str, command), "connect", self._link.endpoint, str(libzmq())]
        try:
            return subprocess.Popen(
                full, stdin=subprocess.DEVNULL, stdout=self._out, stderr=self._err,
                env={**os.environ, **_ENVIRONMENT},
            )  # fmt: skip
        except OSError as error:
            raise ControllerError(f"cannot start {full[0]}: {error.strerror}") from None

    def _join(self) -> None:
        """Its HELLO; both ends must have been made of the same interface."""
        heard = self.receive(stopwatch() + int(START_S * NS_PER_S))
        if heard is None:
            raise ControllerError(f"{self.about} did not say HELLO within {START_S:g} s")
        if isinstance(heard, Garbage) or heard.kind is not Kind.HELLO:
            said = heard.why if isinstance(heard, Garbage) else heard.kind.name
            raise ControllerError(f"{self.about} did not say HELLO first ({said})")
        if heard.schema != self.interface.schema:
            raise ControllerError(
                f"{self.about} was built of another interface (schema {heard.schema:016x}, "
                f"{self.interface.path.name} has {self.interface.schema:016x}); build it again"
            )
        self._link.hide()

    @property
    def about(self) -> str:
        return f"the worker of {self.interface.name} (process {self.pid})"

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def send(self, kind: Kind, sequence: int, tag: Tag, values: object) -> bool:
        """False where it cannot be sent: the worker is gone, or takes nothing."""
        return self._link.send(self._speaker.message(kind, sequence, tag, values))  # type: ignore[arg-type]

    def receive(self, until_ns: int) -> Heard | Garbage | None:
        """The next message; ``None`` at ``until_ns`` of the stopwatch.

        Raises :class:`Died` where the worker has ended and nothing of it is left to hear.
        """
        while True:
            data = self._link.receive()
            if data is not None:
                return parse(data, self._most)
            gone = self.ended()
            if gone and not self._link.wait(stopwatch() + _LOOK_NS):  # its last words
                raise Died(self.about, self.ending())
            now = stopwatch()
            if now >= until_ns:
                return None
            if not gone:
                self._link.wait(min(until_ns, now + _LOOK_NS))

    def ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def ending(self) -> Ending:
        """How it ended, with the tail of what it printed."""
        code = self._process.wait() if self._process else 0
        return Ending(code, _tail(self._out), _tail(self._err))

    def stop(self) -> Ending:
        """Ask it to terminate, and see to it that it does."""
        if not self.ended():
            self.send(Kind.STOP, 0, _NONE, ())
            try:
                assert self._process is not None
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.ending()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """No process and no file is left; may be called again."""
        try:
            self.kill()
        finally:
            self._link.close()
            self._out.close()
            self._err.close()


class Died(ControllerError):
    """A worker ended before it was asked to."""

    def __init__(self, about: str, ending: Ending) -> None:
        self.ending = ending
        said = f"; it said:\n{ending.stderr}" if ending.stderr else ""
        super().__init__(f"{about} {ending.in_words}{said}")


def _tail(file: object) -> str:
    file.seek(0, os.SEEK_END)  # type: ignore[attr-defined]
    size = file.tell()  # type: ignore[attr-defined]
    file.seek(max(0, size - _TAIL_BYTES))  # type: ignore[attr-defined]
    return str(file.read().decode(errors="replace")).strip()  # type: ignore[attr-defined]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """For a worker that runs by itself (``rtsim sil serve``)."""
    return {**os.environ, **_ENVIRONMENT, **extra}
