"""A running program in virtual time.

The library ``virtual_time.so`` in the program and :class:`VirtualProcess` exchange messages over a
local socket. The simulator grants time and sends datagrams with their times of arrival; the program
reports that it has used its time, with the datagrams that it has sent.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hitl.programs.library import ProgramError, check_program, virtual_time
from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S

_REPORT = struct.Struct("<4sIIiq")
_GRANT = struct.Struct("<4sIIIq")
_HEAD = struct.Struct("<qHHI")
_LENGTH = struct.Struct("<I")
_MOST_DATAGRAMS, _MOST_NOTES, _MOST_NOTE = 1 << 16, 64, 160
MOST_BYTES = 65_507
"""Bytes of the longest datagram."""
LOOK_NS = 1000
"""Time that a program needs to read a clock or to poll, ns."""
_TAIL = 2000
_PATIENCE_S = 10.0


class Datagram(NamedTuple):
    """A datagram between the simulator and a program, or a part of a TCP stream."""

    at_ns: int
    """Time on the program's clock at which it arrives at the program or was sent by it, ns."""
    port: int
    """Port to which it is sent."""
    data: bytes
    source: int = 0
    """Port from which it is sent."""


class VirtualProcess:
    """A program that is started with virtual time; its time begins at 0.

    Args:
        command: The program and its arguments.
        listens: Ports that the program opens.
        calls: Ports to which the program sends.
        folder: Working folder of the program.
        environment: Environment variables, in addition to ``PATH`` and ``HOME``.
        log: File for the output of the program; by default, a temporary file.
        look_ns: Time that the program needs to read a clock or to poll, ns.
        patience: Longest wall-clock time in s without a report of the program.

    Raises:
        ProgramError: The program cannot be started in virtual time.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        listens: Iterable[int] = (),
        calls: Iterable[int] = (),
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        look_ns: int = LOOK_NS,
        patience: float = _PATIENCE_S,
    ) -> None:
        self.name = Path(command[0]).name
        self.notes: list[str] = []
        """What the library cannot replace, or has found in the program."""
        self.now_ns = 0
        """Time of the program, ns."""
        self.threads = 0
        self._patience = patience
        self._received = b""
        program = Path(command[0]).absolute()
        check_program(program)
        library, launcher = virtual_time()
        ours, its = socket.socketpair()
        self._control = ours
        ours.settimeout(patience)
        self._log = open(log, "w+b") if log else tempfile.TemporaryFile()  # noqa: SIM115
        ports = (":".join(map(str, ports)) for ports in (listens, calls))
        options = "fd={},look={},in={},out={}".format(its.fileno(), look_ns, *ports)
        kept = {
            name: os.environ[name]
            for name in ("PATH", "HOME", "LD_LIBRARY_PATH")
            if name in os.environ
        }
        try:
            self._process = subprocess.Popen(
                [launcher, library, options, program, *map(str, command[1:])],
                stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT, cwd=folder,
                env={**kept, "LC_ALL": "C", "TZ": "UTC", **(environment or {})},
                pass_fds=[its.fileno()], start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            self._log.close()
            ours.close()
            raise ProgramError(f"cannot start {program}: {error.strerror}") from None
        finally:
            its.close()
        try:
            self._report()
        except BaseException:
            self.close()
            raise

    def run(
        self, until_ns: int, datagrams: Iterable[Datagram] = (), *, first: bool = False
    ) -> list[Datagram]:
        """Let the program run until ``until_ns``, and return the datagrams that it sends.

        Args:
            until_ns: Time of the program at which it stops, ns; all that happens at this time is
                included.
            datagrams: Datagrams that arrive at the program.
            first: If True, the program stops at the time of the first datagram that it sends.

        Raises:
            ProgramError: The program has ended, or does not use its time.
        """
        out = []
        count = 0
        for one in datagrams:
            if len(one.data) > MOST_BYTES:
                raise ProgramError(
                    f"a datagram of {len(one.data)} bytes for port {one.port} of {self.name} is "
                    f"too long; the longest has {MOST_BYTES} bytes"
                )
            out += [_HEAD.pack(one.at_ns, one.port, one.source, len(one.data)), one.data]
            count += 1
        out.insert(0, _GRANT.pack(b"GRNT", count, first, 0, until_ns))
        try:
            self._control.sendall(b"".join(out))
        except TimeoutError:
            raise self._hangs() from None
        except OSError:
            raise self._ended() from None
        return self._report()

    def _report(self) -> list[Datagram]:
        until = stopwatch() + round(self._patience * NS_PER_S)
        magic, datagrams, notes, self.threads, self.now_ns = _REPORT.unpack(
            self._get(_REPORT.size, until)
        )
        if magic != b"DONE" or datagrams > _MOST_DATAGRAMS or notes > _MOST_NOTES:
            raise self._damaged()
        out = []
        for _ in range(datagrams):
            at_ns, port, source, length = _HEAD.unpack(self._get(_HEAD.size, until))
            if length > MOST_BYTES:
                raise self._damaged()
            out.append(Datagram(at_ns, port, self._get(length, until), source))
        for _ in range(notes):
            (length,) = _LENGTH.unpack(self._get(_LENGTH.size, until))
            if length > _MOST_NOTE:
                raise self._damaged()
            self.notes.append(self._get(length, until).decode(errors="replace"))
        return out

    def _damaged(self) -> ProgramError:
        return self._error("has damaged the connection to its virtual time")

    def _get(self, size: int, until: int) -> bytes:
        """Return the next ``size`` bytes of the program, which must arrive before ``until`` (ns)."""
        while len(self._received) < size:
            try:
                part = self._control.recv(1 << 16)
            except TimeoutError:
                raise self._hangs() from None
            except OSError:
                part = b""
            if not part:
                raise self._ended()
            self._received += part
            if stopwatch() > until:
                raise self._hangs()
        out = self._received[:size]
        self._received = self._received[size:]
        return out

    def _ended(self) -> ProgramError:
        try:
            status = self._process.wait(self._patience)
        except subprocess.TimeoutExpired:
            return self._error("has closed the connection to its virtual time")
        if status < 0:
            try:
                how = f"was ended by {signal.Signals(-status).name}"
            except ValueError:
                how = f"was ended by signal {-status}"
        else:
            how = f"has ended with exit status {status}"
        return self._error(how)

    def _hangs(self) -> ProgramError:
        where = "; ".join(self._threads_at())
        return self._error(
            f"has not used its time within {self._patience:g} s: a thread computes, waits in a "
            f"system call that has no virtual time, or waits for another thread in a loop without "
            f"a call ({where or 'its threads cannot be read'})"
        )

    def _threads_at(self) -> Iterable[str]:
        tasks = Path(f"/proc/{self._process.pid}/task")
        for task in sorted(tasks.iterdir()) if tasks.is_dir() else []:
            try:
                call = (task / "syscall").read_text().split()[0]
                name = (task / "comm").read_text().strip()
            except OSError:
                continue
            if call != str(_FUTEX):
                yield f"thread {name} {'runs' if call == 'running' else f'is in system call {call}'}"

    def _error(self, what: str) -> ProgramError:
        at = f"{self.now_ns / NS_PER_S:.9g} s of its time"
        tail = self.output().strip()
        lines = f"\nits last output:\n{tail[-_TAIL:]}" if tail else ""
        return ProgramError(f"the program {self.name} {what}, at {at}{lines}")

    def output(self) -> str:
        """Return the end of the output of the program."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), 4 * _TAIL, max(0, size - 4 * _TAIL)).decode(
            errors="replace"
        )

    def close(self) -> None:
        """End the program and all processes that it has started; a second call has no effect."""
        self._control.close()
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._log.close()


_FUTEX = 202 if os.uname().machine == "x86_64" else 98 if hasattr(os, "uname") else 0
"""Number of the system call in which threads wait for their turn."""
