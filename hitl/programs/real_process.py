"""A running program on the clock of the machine, with real UDP sockets on the loopback."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from hitl.programs.library import ProgramError
from hitl.programs.started import PATIENCE_S, Datagram, StartedProgram
from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S

_HOST = "127.0.0.1"
_MOST_BYTES = 65_535
_MOST_AT_ONCE = 4096
"""Datagrams that are read in one call of :meth:`RealProcess.run`; later ones wait."""


class RealProcess(StartedProgram):
    """A program that is started without virtual time; its time is that since its start.

    Args:
        command: The program and its arguments.
        calls: UDP ports to which the program sends; they are opened here, on the loopback.
        folder: Working folder of the program.
        environment: Environment variables, in addition to ``PATH`` and ``HOME``.
        log: File for the output of the program; by default, a temporary file.
        patience: Longest wall-clock time in s until the status of an ended program is known.

    Raises:
        ProgramError: The program cannot be started, or a port is in use.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        calls: Iterable[int] = (),
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        patience: float = PATIENCE_S,
    ) -> None:
        super().__init__(command, log, patience)
        program = Path(command[0]).absolute()
        if not program.is_file():
            raise ProgramError(f"the program {program} does not exist; give the path of a program")
        self._ports: dict[socket.socket, int] = {}
        self._out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            for port in calls:
                self._ports[self._opened(port)] = port
            self._start([program, *map(str, command[1:])], folder, environment, {})
        except BaseException:
            self.close()
            raise
        self._began_ns = stopwatch()

    def _opened(self, port: int) -> socket.socket:
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            out.bind((_HOST, port))
        except OSError as error:
            out.close()
            raise ProgramError(
                f"the UDP port {port}, to which {self.name} sends, cannot be opened: "
                f"{error.strerror}; end the program that uses the port"
            ) from None
        out.setblocking(False)
        return out

    @property
    def now_ns(self) -> int:
        return stopwatch() - self._began_ns

    def run(
        self, until_ns: int, datagrams: Iterable[Datagram] = (), *, first: bool = False
    ) -> list[Datagram]:
        """Send the datagrams, and read what the program sends until its time is ``until_ns``."""
        by_port = {port: opened for opened, port in self._ports.items()}
        for one in datagrams:
            try:
                by_port.get(one.source, self._out).sendto(one.data, (_HOST, one.port))
            except OSError:  # the program has not opened the port, or has closed it
                continue
        sent: list[Datagram] = []
        while True:
            left = max(0, until_ns - self.now_ns)
            ready, _, _ = select.select(self._ports or [self._out], [], [], left / NS_PER_S)
            for each in ready:
                sent += self._read(each)
            if not left or (first and sent) or len(sent) >= _MOST_AT_ONCE:
                break
            if self.exit_status is not None:
                break
        if self.exit_status is not None:
            raise self.ended()
        return sent

    def _read(self, opened: socket.socket) -> list[Datagram]:
        out: list[Datagram] = []
        while len(out) < _MOST_AT_ONCE:
            try:
                data, source = opened.recvfrom(_MOST_BYTES)
            except OSError:
                break
            out.append(Datagram(self.now_ns, self._ports[opened], data, source[1]))
        return out

    def close(self) -> None:
        super().close()
        for opened in (self._out, *self._ports):
            opened.close()
