"""URLs of boards, emulated or at a serial port.

====================================  =====================================================
``board:NAME``                        emulated, by the first emulator of the board NAME
``board:NAME?backend=EMULATOR``       emulated, by EMULATOR
``board:NAME?baud=115200``            emulated; the host's end of the line has this rate
``serial:///dev/ttyACM0?baud=500000`` a real board at a serial port
``serial:///dev/ttyACM0?board=NAME``  the real board NAME; without this option the default board
``serial://COM3``                     a real board at a serial port on Windows
====================================  =====================================================
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from hitl.boards.contract import BoardError, BoardLink
from hitl.boards.description import BoardDescription
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.intel_hex import read_image
from hitl.boards.known import BOARDS, DEFAULT_BOARD, DEFAULT_URL, board_named
from hitl.boards.serial_port import SerialLink

_FORMS = f"{DEFAULT_URL}, serial:///dev/ttyACM0?baud=500000 or serial://COM3"


@dataclass(frozen=True)
class BoardUrl:
    """A parsed board URL."""

    text: str
    emulated: bool
    place: str
    """Name of the emulated board, or of the serial port."""
    baud: int | None
    """Bit rate of the line in the URL (bit/s), or ``None``."""
    backend: str = ""
    """Name of the emulator; "" selects the first emulator of the board."""
    board: str = DEFAULT_BOARD.name

    @property
    def description(self) -> BoardDescription:
        return board_named(self.board, self.text)

    @property
    def rate(self) -> int:
        """Bit rate of the line (bit/s), from the URL or from the board's program."""
        return self.baud or self.description.line.baud


def parse_url(text: str) -> BoardUrl:
    """Parse the board URL ``text``.

    Raises ``BoardError`` for a text that is no board URL; the message shows valid URLs.
    """
    try:
        parts = urlsplit(text)
    except ValueError:  # an incomplete IPv6 address
        raise _no_url(text) from None
    if parts.scheme == "board":
        options = _options(text, parts.query, ("backend", "baud"))
        if parts.netloc:
            raise _no_url(text)
        board = board_named(parts.path, text)
        emulators = tuple(board.emulators)
        if not emulators:
            raise BoardError(
                f"{text}: {board.phrase} has no emulator; use a real board, for example "
                f"serial:///dev/ttyACM0?board={board.name}"
            )
        backend = _one_of("back end", options.get("backend", emulators[0]), emulators, text)
        return BoardUrl(text, True, board.name, _baud(text, options), backend, board.name)
    if parts.scheme == "serial":
        options = _options(text, parts.query, ("baud", "board"))
        place = unquote(parts.netloc + parts.path)
        if not place.strip("/"):
            raise BoardError(
                f"{text}: the URL names no port; type: serial:///dev/ttyACM0 or serial://COM3"
            )
        name = board_named(options.get("board", DEFAULT_BOARD.name), text).name
        return BoardUrl(text, False, place, _baud(text, options), board=name)
    raise _no_url(text)


def open_link(url: str, firmware: Path | None = None) -> BoardLink:
    """Open the link to the board at ``url``.

    An emulated board runs the Intel HEX file ``firmware``; a real board keeps its program. Raises
    ``BoardError`` for an invalid URL, and if the board cannot be opened.
    """
    at = parse_url(url)
    if at.emulated:
        return open_board(url, firmware)
    return SerialLink(at.place, at.rate)


def open_board(url: str, firmware: Path | None) -> EmulatedBoard:
    """Open an emulated board with the Intel HEX file ``firmware``.

    The board runs in lockstep and has pins. Raises ``BoardError`` for a serial port, without
    ``firmware``, and if the emulator cannot be started.
    """
    at = parse_url(url)
    if not at.emulated:
        raise BoardError(
            f"{url} is a real board with its own clock, but lockstep and access to pins need "
            f"an emulated board; give {DEFAULT_URL}"
        )
    if firmware is None:
        raise BoardError(
            f"{url} names an emulated board, but no firmware is given; give an Intel HEX file"
        )
    board = at.description
    image = read_image(firmware, board)
    command = board.emulator(at.backend).command()
    return EmulatedBoard(image, command, at.backend, at.baud, description=board)


def _no_url(text: str) -> BoardError:
    name = text.partition("?")[0]
    hint = f"did you mean board:{text}?" if name in BOARDS else f"expected {_FORMS}"
    return BoardError(f"{text!r} is not a board URL; {hint}")


def _options(text: str, query: str, known: tuple[str, ...]) -> dict[str, str]:
    given = parse_qsl(query, keep_blank_values=True)
    for name, _ in given:
        _one_of("option", name, known, text)
    if len(dict(given)) < len(given):
        raise BoardError(f"{text}: the URL contains an option twice; give each option once")
    return dict(given)


def _one_of(what: str, name: str, known: tuple[str, ...], text: str) -> str:
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
    raise BoardError(f"{text}: unknown {what} {name!r}; {hint}")


def _baud(text: str, options: dict[str, str]) -> int | None:
    if "baud" not in options:
        return None
    digits = options["baud"]
    if not (digits.isascii() and digits.isdigit() and 1 <= len(digits) <= 7 and int(digits) >= 300):
        raise BoardError(
            f"{text}: baud={digits} is not a rate from 300 to 9999999 bit/s; write, for "
            "example, baud=500000"
        )
    return int(digits)
