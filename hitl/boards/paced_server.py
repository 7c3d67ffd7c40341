"""The process that serves a board: ``python -m hitl.boards.paced_server OPTIONS`` (JSON).

The process writes one line of JSON when the port exists, one for each command ``status``, and one
if it fails.  The process ends when its stdin is closed or its parent process has ended.
"""

from __future__ import annotations

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
from hitl.boards.paced_line import PacedLine
from hitl.boards.paced_terminal import Terminal
from hitl.boards.urls import open_board, parse_url
from rtsim.core.clock import Wake, WallClock
from rtsim.core.errors import RtsimError
from rtsim.timing import scheduling

_BOOT_S = 0.05
"""Longest time of the board from power-on until its firmware switches the UART on."""
_BOOT_SLICE_S = 0.001


class _Anything(Wake):
    """A wake-up that is set while bytes of the client or of the parent process wait to be read."""

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
    """Open the board and run it until its UART is on, so that its baud rate is known."""
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


def _told(control: int) -> bytes:
    """Return the bytes that the parent process wrote; empty if the parent is gone."""
    return os.read(control, 4096) if select.select([control], [], [], 0.0)[0] else b"\0"


def serve(url: str, firmware: Path, link: Path | None, control: int, parent: int) -> None:
    """Serve the board until the parent process ends or closes the pipe.

    ``url`` and ``firmware`` name the board, ``link`` a symbolic link to the port, ``control`` the
    file descriptor of the commands, and ``parent`` the parent's process id.  Raises
    :class:`BoardError` if the board cannot be served.
    """
    with ExitStack() as stack:
        board = stack.enter_context(closing(_booted(url, firmware)))
        terminal = stack.enter_context(closing(Terminal(link)))
        stack.enter_context(scheduling.request())
        line = PacedLine(board, terminal, WallClock(spin_ns=0), parse_url(url).baud)
        wake = _Anything(terminal, line, control)
        _say(port=terminal.port, baud=line.baud, emulator=" ".join(board.emulator))
        while os.getppid() == parent:
            said = _told(control)
            if not said:
                return
            for word in said.splitlines():
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
