"""A program that runs as a process, and the errors that name how it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from hitl.programs.library import ProgramError
from hitl.worker.ending import FROM_OUTSIDE
from rtsim.core.tag import NS_PER_S

_TAIL = 2000
_TAIL_BYTES = 4 * _TAIL
_KEPT = "PATH", "HOME", "LD_LIBRARY_PATH"
PATIENCE_S = 10.0


E = TypeVar("E", bound=ProgramError)


class Datagram(NamedTuple):
    """A datagram between the simulator and a program, or a part of a TCP stream."""

    at_ns: int
    """Time on the program's clock at which it arrives at the program or was sent by it, ns."""
    port: int
    """Port to which it is sent."""
    data: bytes
    source: int = 0
    """Port from which it is sent."""


class ProgramEnded(ProgramError):
    """The program has ended during the run."""


class ProgramHangs(ProgramError):
    """The program does not use the time that it gets."""


class ProgramStopped(ProgramHangs):
    """A signal has stopped the program, and nothing has continued it."""

    environment = True


class StartedProgram(ABC):
    """A program that has been started, with its output and its end.

    Args:
        command: The program and its arguments.
        log: File to which the output is appended; by default, a temporary file.
        patience: Longest wall-clock time in s without a report or an end of the program.
    """

    def __init__(self, command: Sequence[str | Path], log: Path | None, patience: float) -> None:
        self.name = Path(command[0]).name
        self.notes: list[str] = []
        """What the library cannot replace, or has found in the program."""
        self.opened: set[int] = set()
        """Declared ports that it has opened; empty without virtual time, where this is not seen."""
        self.threads = 1
        """Number of its threads; 0 after it has ended."""
        self.run_began_ns: int | None = None
        """Time of the program at which the run began, ns; None before the run and without a run."""
        self._patience = patience
        self._path = log
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def _start(
        self,
        command: Sequence[str | Path],
        folder: Path | None,
        environment: Mapping[str, str] | None,
        fixed: Mapping[str, str],
        files: Sequence[int] = (),
    ) -> None:
        """Start ``command`` in a session of its own."""
        self._log = open(self._path, "a+b") if self._path else tempfile.TemporaryFile()  # noqa: SIM115
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        try:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=self._log,
                stderr=subprocess.STDOUT, cwd=folder, pass_fds=files, start_new_session=True,
                env={**kept, **fixed, **(environment or {})},
            )  # fmt: skip
        except OSError as error:
            self._log.close()
            raise ProgramError(f"cannot start {self.name}: {error.strerror}") from None

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    @abstractmethod
    def now_ns(self) -> int:
        """Time of the program, ns."""

    @abstractmethod
    def run(
        self, until_ns: int, datagrams: Iterable[Datagram] = (), *, first: bool = False
    ) -> list[Datagram]:
        """Run the program until its time is ``until_ns``, and return the datagrams that it sends.

        Args:
            until_ns: Time of the program at which it stops, ns.
            datagrams: Datagrams that arrive at the program.
            first: If True, the program stops at the first datagram that it sends.

        Raises:
            ProgramError: The program has ended, or does not use its time.
        """

    def kill(self) -> None:
        """End the program as the signal SIGKILL does."""
        if os.name == "posix":
            self._signal(signal.SIGKILL)
        else:
            self._running.kill()
        self._running.wait()

    def stop(self) -> None:
        """Stop the program as the signal SIGSTOP does."""
        self._signal(signal.SIGSTOP)
        self._stopped = True

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._running.pid, number)

    def ended(self) -> ProgramError:
        """Return the error that describes how the program has ended."""
        try:
            status = self._running.wait(self._patience)
        except subprocess.TimeoutExpired:
            return self._error("has closed the connection to its virtual time", ProgramEnded)
        environment = False
        if status < 0:
            try:
                name = signal.Signals(-status).name
                environment = name in FROM_OUTSIDE
            except ValueError:
                name = f"signal {-status}"
            how = f"was ended by {name}"
        else:
            how = f"has ended with exit status {status}"
        error = self._error(how, ProgramEnded)
        error.environment = environment
        return error

    def stopped(self) -> ProgramStopped | None:
        """Return the error of a program that a signal has stopped, or None."""
        try:
            status = Path(f"/proc/{self._running.pid}/stat").read_text()
        except OSError:
            status = ""
        if not (self._stopped or status.rpartition(")")[2].split()[:1] == ["T"]):
            return None
        return self._error("was stopped (SIGSTOP, or a debugger)", ProgramStopped)

    def _error(self, what: str, kind: type[E]) -> E:
        now_ns = self.now_ns
        after = f"{now_ns / NS_PER_S:.9g} s of its time"
        if self.run_began_ns is not None:
            after += f" ({(now_ns - self.run_began_ns) / NS_PER_S:.9g} s of the run)"
        tail = self.output().strip()
        lines = f"\nits last output:\n{tail[-_TAIL:]}" if tail else ""
        return kind(f"the program {self.name} {what}, after {after}{lines}")

    @property
    def exit_status(self) -> int | None:
        """Exit status of the program, negative for a signal; None while it runs."""
        return self._running.poll()

    def output(self) -> str:
        """Return the end of the output of the program."""
        begin = max(0, os.fstat(self._log.fileno()).st_size - _TAIL_BYTES)
        if self._path is None:  # a seek would move the program's place in the file, too
            data = os.pread(self._log.fileno(), _TAIL_BYTES, begin)
        else:
            with open(self._path, "rb") as file:
                file.seek(begin)
                data = file.read(_TAIL_BYTES)
        return data.decode(errors="replace")

    def close(self) -> None:
        """End the program and all processes that it has started; a second call has no effect."""
        if self._process is not None:
            self.kill()
            self._log.close()
