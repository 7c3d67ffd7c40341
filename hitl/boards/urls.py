"""Board URLs: one form for emulated boards, one for boards at a serial port.

====================================  =====================================================
``board:uno``                         emulated, by avr8js
``board:uno?backend=simavr``          emulated, by simavr
``board:uno?baud=115200``             emulated; the host's end of the line has this rate
``serial:///dev/ttyACM0?baud=500000`` a real board at a serial port
``serial://COM3``                     a real board at a serial port on Windows
====================================  =====================================================
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from hitl.boards import node, simavr, uno
from hitl.boards.contract import BoardError, BoardLink
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.intel_hex import read_image
from hitl.boards.serial_port import SerialLink

BAUD = 500_000
"""Default rate of a serial port, bit/s; an Uno's 16 MHz clock can divide to it exactly."""
_BACKENDS: dict[str, Callable[[], list[str | Path]]] = {
    "avr8js": node.command,
    "simavr": simavr.command,
}
_FORMS = "board:uno, serial:///dev/ttyACM0?baud=500000 or serial://COM3"


@dataclass(frozen=True)
class BoardUrl:
    """A parsed board URL."""

    text: str
    emulated: bool
    place: str
    """The kind of an emulated board, or the name of the port."""
    baud: int | None
    """Rate of the line, bit/s; ``None`` if the URL names none."""
    backend: str = "avr8js"


def parse_url(text: str) -> BoardUrl:
    """Parse the board URL ``text``.

    Raises :class:`BoardError` if it is not one; the message says what to type.
    """
    try:
        parts = urlsplit(text)
    except ValueError:  # an incomplete IPv6 address
        raise BoardError(f"{text!r} is not a board URL; expected {_FORMS}") from None
    if parts.scheme == "board":
        options = _options(text, parts.query, ("backend", "baud"))
        if parts.path != "uno" or parts.netloc:
            raise BoardError(f"{text}: the only emulated board is an Uno; type: board:uno")
        backend = _one_of("back end", options.get("backend", "avr8js"), tuple(_BACKENDS), text)
        return BoardUrl(text, True, "uno", _baud(text, options), backend)
    if parts.scheme == "serial":
        options = _options(text, parts.query, ("baud",))
        place = unquote(parts.netloc + parts.path)
        if not place.strip("/"):
            raise BoardError(
                f"{text}: the URL names no port; type: serial:///dev/ttyACM0 or serial://COM3"
            )
        return BoardUrl(text, False, place, _baud(text, options))
    raise BoardError(f"{text!r} is not a board URL; expected {_FORMS}")


def open_link(url: str, firmware: Path | None = None) -> BoardLink:
    """Open the link to the board at ``url``.

    An emulated board runs the Intel HEX file ``firmware``; a real board keeps its own program.
    Raises :class:`BoardError` if the URL is malformed or the board cannot be opened.
    """
    at = parse_url(url)
    if at.emulated:
        return open_board(url, firmware)
    return SerialLink(at.place, at.baud or BAUD)


def open_board(url: str, firmware: Path | None) -> EmulatedBoard:
    """Open the emulated board at ``url``, which runs the Intel HEX file ``firmware``.

    An emulated board has pins and runs in lockstep.  Raises :class:`BoardError` for a serial port,
    for a missing ``firmware``, and if the emulator cannot be started.
    """
    at = parse_url(url)
    if not at.emulated:
        raise BoardError(
            f"{url} is a real board, which has its own clock: lockstep and pins need an emulated "
            "board; type: board:uno"
        )
    if firmware is None:
        raise BoardError(f"{url} has no firmware: name an Intel HEX file for the emulated board")
    image = read_image(firmware, uno.FLASH)
    return EmulatedBoard(image, _BACKENDS[at.backend](), at.backend, at.baud)


def _options(text: str, query: str, known: tuple[str, ...]) -> dict[str, str]:
    given = parse_qsl(query, keep_blank_values=True)
    for name, _ in given:
        _one_of("option", name, known, text)
    if len(dict(given)) < len(given):
        raise BoardError(f"{text}: the URL gives an option twice; give each option once")
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
            f"{text}: baud={digits} is not a rate from 300 to 9999999 bit/s; type: baud=500000"
        )
    return int(digits)
