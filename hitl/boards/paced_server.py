"""The process that serves a board: ``python -m hitl.boards.paced_server OPTIONS``.

The process prints JSON lines: one when the port exists, one for each command ``status``, and one
after a failure. The process ends when its standard input closes or its parent has ended. The port
is a pseudo-terminal, which programs can open as a serial port.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from types import FrameType

from hitl.boards.contract import BoardError
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.known import DEFAULT_URL
from hitl.boards.paced import PacedLine
from hitl.boards.urls import open_board, parse_url
from rtsim.core.clock import Wake, WallClock
from rtsim.core.errors import RtsimError
from rtsim.timing import scheduling

MOST_READ = 4096
_HUNG_UP = 0x10  # POLLHUP, which Windows lacks


class Terminal:
    """A pseudo-terminal, which a client opens as a serial port.

    ``link`` is a symbolic link to create for the port. The port transmits bytes unchanged and
    without echo. This process does not keep the port itself open, so that it can detect when a
    client opens the port. Raises ``BoardError`` on Windows, and if the link cannot be created.
    """

    def __init__(self, link: Path | None = None) -> None:
        if sys.platform == "win32" or not hasattr(os, "openpty"):
            raise BoardError(
                "a served board needs a pseudo-terminal, and Windows has none; "
                f"use {DEFAULT_URL} in lockstep, or a board at a real port: serial://COM3"
            )
        import tty

        self._near, far = os.openpty()
        self._link: Path | None = None
        try:
            tty.setraw(far)
            self.port = os.ttyname(far)
            os.set_blocking(self._near, False)
            self._poll = select.poll()
            self._poll.register(self._near, select.POLLIN)
            if link is not None:
                self._point(link)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(far)
        self.open = False
        """True if a client had the port open at the last call of :meth:`opened`."""
        self.unread = 0
        """Number of bytes that no client has read."""

    def fileno(self) -> int:
        return self._near

    def opened(self) -> bool:
        """Return True if a client has opened the port since the last call."""
        events = self._poll.poll(0)
        free = bool(events) and bool(events[0][1] & _HUNG_UP) and not events[0][1] & select.POLLIN
        if self.open == (not free):
            return False
        self.open = not free
        if free:
            self._forget()
        return self.open

    def read(self) -> bytes:
        """Return the bytes from the client, without waiting."""
        try:
            return os.read(self._near, MOST_READ)
        except OSError:  # no bytes (EAGAIN) or no client (EIO)
            return b""

    def write(self, data: bytes) -> None:
        """Send ``data`` to the client; bytes that the client does not read are lost and counted."""
        taken = 0
        if self.open:
            with contextlib.suppress(OSError):
                taken = os.write(self._near, data)
        self.unread += len(data) - taken

    def close(self) -> None:
        if self._link is not None:
            with contextlib.suppress(OSError):
                if os.readlink(self._link) == self.port:
                    self._link.unlink()
            self._link = None
        if self._near >= 0:
            os.close(self._near)
            self._near = -1

    def _forget(self) -> None:
        if sys.platform != "win32":
            import termios

            with contextlib.suppress(OSError, termios.error):
                far = os.open(self.port, os.O_RDWR | os.O_NOCTTY)
                try:
                    termios.tcflush(far, termios.TCIFLUSH)
                finally:
                    os.close(far)

    def _point(self, link: Path) -> None:
        try:
            if link.is_symlink() and not link.exists():
                link.unlink()
            link.symlink_to(self.port)
        except FileExistsError:
            raise BoardError(
                f"cannot make the link {link}: a file with this name exists; remove the file, "
                "or give another --link"
            ) from None
        except OSError as error:
            raise BoardError(f"cannot write the link {link}: {error.strerror}") from None
        self._link = link


_BOOT_S = 0.05
"""Longest time from power-on until the firmware enables the UART, s."""
_BOOT_SLICE_S = 0.001


class _Anything(Wake):
    def __init__(self, terminal: Terminal, line: PacedLine, control: int) -> None:
        super().__init__()
        self._terminal, self._line, self._control = terminal, line, control

    def wait(self, seconds: float) -> bool:
        sources: list[Terminal | int] = [self._control]
        if self._terminal.open and self._line.hungry:
            sources.append(self._terminal)
        return bool(select.select(sources, [], [], max(0.0, seconds))[0])

    def is_set(self) -> bool:
        return self.wait(0.0)


def _booted(url: str, firmware: Path) -> EmulatedBoard:
    board = open_board(url, firmware)
    try:
        for _ in range(round(_BOOT_S / _BOOT_SLICE_S)):
            board.advance(round(board.clock_hz * _BOOT_SLICE_S))
            if board.line_on:
                return board
    except BaseException:
        board.close()
        raise
    board.close()
    raise BoardError(
        f"{firmware} does not use its serial line: the UART was still off {_BOOT_S:g} s after "
        "power-on; use firmware that speaks over the serial line"
    )


def _say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _commands(control: int) -> bytes:
    return os.read(control, 4096) if select.select([control], [], [], 0.0)[0] else b"\0"


def serve(url: str, firmware: Path, link: Path | None, control: int, parent: int) -> None:
    """Serve the board until the parent process ends or closes the pipe.

    ``link`` is a symbolic link to the port, ``control`` a file descriptor for commands, and
    ``parent`` the parent's process id. Raises :class:`BoardError` if the board cannot be served.
    """
    with ExitStack() as stack:
        board = stack.enter_context(closing(_booted(url, firmware)))
        terminal = stack.enter_context(closing(Terminal(link)))
        stack.enter_context(scheduling.request())
        line = PacedLine(board, terminal, WallClock(spin_ns=0), parse_url(url).baud)
        wake = _Anything(terminal, line, control)
        _say(port=terminal.port, baud=line.baud, emulator=" ".join(board.emulator))
        while os.getppid() == parent:
            commands = _commands(control)
            if not commands:
                return
            for word in commands.splitlines():
                if word == b"reset":
                    line.reset()
                if word == b"anew":
                    line.count_anew()
                if word != b"status":
                    continue
                counts = {
                    "unread": terminal.unread, "open": terminal.open, "lost": board.lost,
                    "garbled": board.garbled, "restarts": board.restarts, "baud": line.baud,
                }  # fmt: skip
                _say(**line.state().to_json(), **counts)
            line.turn()
            line.wait(wake)


def _asked_to_end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    sys.exit(128 + number)


def main() -> None:
    signal.signal(signal.SIGTERM, _asked_to_end)
    options = json.loads(sys.argv[1])
    link = options["link"]
    try:
        serve(
            options["url"], Path(options["firmware"]), None if link is None else Path(link),
            sys.stdin.fileno(), options["parent"],
        )  # fmt: skip
    except RtsimError as error:
        _say(error=str(error))
        sys.exit(2)
    except BrokenPipeError:  # the parent no longer reads; silence the error at exit, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
