"""A running program in virtual time.

The library ``virtual_time.so`` in the program and :class:`VirtualProcess` exchange messages over a
local socket. The simulator grants time and sends datagrams with their times of arrival; the program
reports that it has used its time, with the datagrams that it has sent.
"""

from __future__ import annotations

import platform
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hitl.programs.library import ProgramError, check_program, virtual_time
from hitl.programs.started import PATIENCE_S, Datagram, ProgramHangs, StartedProgram
from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S

_REPORT = struct.Struct("<4sIIiqI")
_GRANT = struct.Struct("<4sIIIq")
_HEAD = struct.Struct("<qHHI")
_LENGTH = struct.Struct("<I")
_MOST_NOTES, _MOST_NOTE = 128, 160
_MOST_REPORT = (64 << 20) + _MOST_NOTES * (_MOST_NOTE + 4)
"""Bytes of the longest report; the library in the program sends no longer one."""
_MOST_PORTS = 64
MOST_BYTES = 65_507
"""Bytes of the longest datagram."""
LOOK_NS = 1000
"""Time that a program needs to read a clock or to poll, ns."""
_REFUSED, _OPENED = "refused: ", "opened: port "
"""Begins of notes about a port that is not declared, and about one that is opened."""


def _listed(ports: Sequence[int]) -> str:
    return f"port {', '.join(map(str, ports))}" if ports else "no port"


class VirtualProcess(StartedProgram):
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
        other_ports: If True, the program can use other ports of the network, in real time. By
            default, each use of another port is an error.

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
        patience: float = PATIENCE_S,
        other_ports: bool = False,
    ) -> None:
        super().__init__(command, log, patience)
        self._now_ns = self.threads = 0
        listens, calls = list(listens), list(calls)
        self._ports = {str(port): port for port in listens}
        self._declared = (
            f"it may open {_listed(listens)} and send to {_listed(calls)}: correct or add the "
            "port, or give other_ports=True, so that the program uses the network"
        )
        for ports in (listens, calls):
            if len(ports) > _MOST_PORTS:
                raise ProgramError(
                    f"{self.name} has {len(ports)} ports; give {_MOST_PORTS} or less"
                )
        program = Path(command[0]).absolute()
        check_program(program)
        library, launcher = virtual_time()
        ours, its = socket.socketpair()
        self._control = ours
        ours.settimeout(patience)
        options = (
            f"fd={its.fileno()},look={look_ns},in={':'.join(map(str, listens))},"
            f"out={':'.join(map(str, calls))},others={int(other_ports)}"
        )
        try:
            self._start(
                [launcher, library, options, program, *map(str, command[1:])],
                folder, environment, {"LC_ALL": "C", "TZ": "UTC"}, [its.fileno()],
            )  # fmt: skip
        except BaseException:
            ours.close()
            raise
        finally:
            its.close()
        try:
            self._report()
        except BaseException:
            self.close()
            raise

    @property
    def now_ns(self) -> int:
        return self._now_ns

    def run(
        self, until_ns: int, datagrams: Iterable[Datagram] = (), *, first: bool = False
    ) -> list[Datagram]:
        """Run the program until its time is ``until_ns``, including all events at this time."""
        if self._stopped and (stopped := self.stopped()):
            raise stopped
        out = []
        count = 0
        for one in datagrams:
            if len(one.data) > MOST_BYTES:
                raise ProgramError(
                    f"a datagram of {len(one.data)} bytes for port {one.port} of {self.name} is "
                    f"too long; the longest has {MOST_BYTES} bytes"
                )
            try:
                head = _HEAD.pack(one.at_ns, one.port, one.source, len(one.data))
            except struct.error:
                raise ProgramError(
                    f"a datagram for {self.name} goes from port {one.source} to port {one.port} at "
                    f"{one.at_ns} ns; give ports from 0 to 65535, and a whole number of ns"
                ) from None
            out += [head, one.data]
            count += 1
        out.insert(0, _GRANT.pack(b"GRNT", count, first, 0, until_ns))
        self._send(b"".join(out))
        sent = self._report()
        while self.now_ns < until_ns and not first and self.threads:
            # The program has replaced itself by another program, which begins at its time 0.
            self._send(_GRANT.pack(b"GRNT", 0, 0, 0, until_ns))
            sent += self._report()
        return sent

    def _send(self, data: bytes) -> None:
        try:
            self._control.sendall(data)
        except TimeoutError:
            raise self._hangs() from None
        except OSError:
            raise self.ended() from None

    def _report(self) -> list[Datagram]:
        data = self._get(_REPORT.size, b"")
        magic, datagrams, notes, threads, now_ns, size = _REPORT.unpack_from(data)
        if magic == b"DONE" and now_ns == 0 < self._now_ns:
            raise self._error(
                "has started another program in its place (exec) after its own time has begun, and "
                "the time of the other program begins at 0; give the other program as the command",
                ProgramError,
            )
        if magic != b"DONE" or now_ns < self._now_ns or size > _MOST_REPORT:
            raise self._damaged()
        self.threads, self._now_ns = threads, now_ns
        if not size:
            return []
        size += _REPORT.size
        known = len(self.notes)
        data = self._get(size, data)
        at = _REPORT.size
        out = []
        try:
            for _ in range(datagrams):
                sent_ns, port, source, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size
                out.append(Datagram(sent_ns, port, data[at : at + length], source))
                at += length
            for _ in range(min(notes, _MOST_NOTES)):
                (length,) = _LENGTH.unpack_from(data, at)
                at += _LENGTH.size
                self._noted(data[at : at + length].decode(errors="replace"))
                at += length
        except struct.error:  # beyond the end
            raise self._damaged() from None
        if at != size or len(data) != size:
            raise self._damaged()
        for text in self.notes[known:]:
            if text.startswith(_REFUSED):
                what = f"uses {text.removeprefix(_REFUSED)}; {self._declared}"
                raise self._error(what, ProgramError)
        return out

    def _noted(self, text: str) -> None:
        _, opened, port = text.rpartition(_OPENED)
        if opened and port in self._ports:
            self.opened.add(self._ports[port])
        else:
            self.notes.append(text)

    def _damaged(self) -> ProgramError:
        return self._error("has damaged the connection to its virtual time", ProgramError)

    def _get(self, size: int, data: bytes) -> bytes:
        """Return ``data`` and what the program sends, until there are ``size`` bytes or more."""
        parts, have = [data], len(data)
        until = 0
        while have < size:
            try:
                part = self._control.recv(1 << 16)
            except TimeoutError:
                raise self._hangs() from None
            except OSError:
                part = b""
            if not part:
                raise self.ended()
            parts.append(part)
            have += len(part)
            if have < size:  # the parts of one report come within the patience
                until = until or stopwatch() + round(self._patience * NS_PER_S)
                if stopwatch() > until:
                    raise self._hangs()
        return b"".join(parts) if len(parts) > 2 or data else parts[-1]

    def _hangs(self) -> ProgramError:
        if stopped := self.stopped():
            return stopped
        where = "; ".join(self._threads_at())
        return self._error(
            f"has not used its time within {self._patience:g} s: a thread computes, waits in a "
            f"system call that has no virtual time, or waits for another thread in a loop without "
            f"a call ({where or 'its threads cannot be read'})",
            ProgramHangs,
        )

    def _threads_at(self) -> Iterable[str]:
        tasks = Path(f"/proc/{self._running.pid}/task")
        for task in sorted(tasks.glob("*")):
            try:
                call = (task / "syscall").read_text().partition(" ")[0].strip()
                name = (task / "comm").read_text().strip()
            except OSError:
                continue
            if call != str(_FUTEX):
                does = "runs" if call == "running" else f"is in system call {call}"
                yield f"thread {name} {does}"

    def close(self) -> None:
        super().close()  # first, or the program would report a lost connection
        self._control.close()


_FUTEX = 202 if platform.machine() == "x86_64" else 98
"""Number of the system call in which threads wait for their turn."""
