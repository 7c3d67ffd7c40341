"""One URL for every board: an emulated one, or one at a serial port.

====================================  =====================================================
``board:uno``                         emulated, by avr8js
``board:uno?backend=simavr``          emulated, by simavr
``board:uno?baud=115200``             what is at the other end of the line keeps to that rate
``serial:///dev/ttyACM0?baud=500000`` a board on the desk
``serial://COM3``                     the same on Windows
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
"""Of a serial port where the URL names none; 16 MHz divides to it without rest."""
_BACKENDS: dict[str, Callable[[], list[str | Path]]] = {
    "avr8js": node.command,
    "simavr": simavr.command,
}
_FORMS = "board:uno, serial:///dev/ttyACM0?baud=500000 or serial://COM3"


@dataclass(frozen=True)
class BoardUrl:
    """A URL that was understood.  ``baud`` is ``None`` where it names none."""

    text: str
    emulated: bool
    place: str
    """The kind of board, or the port."""
    baud: int | None
    backend: str = "avr8js"


def parse_url(text: str) -> BoardUrl:
    """Understand ``text``; :class:`BoardError` says what to type instead."""
    try:
        parts = urlsplit(text)
    except ValueError:  # half an IPv6 address
        raise BoardError(f"{text!r} is no board; expected {_FORMS}") from None
    if parts.scheme == "board":
        options = _options(text, parts.query, ("backend", "baud"))
        if parts.path != "uno" or parts.netloc:
            raise BoardError(f"{text}: the emulated board is an Uno; type: board:uno")
        backend = _one_of("back end", options.get("backend", "avr8js"), tuple(_BACKENDS), text)
        return BoardUrl(text, True, "uno", _baud(text, options), backend)
    if parts.scheme == "serial":
        options = _options(text, parts.query, ("baud",))
        place = unquote(parts.netloc + parts.path)
        if not place.strip("/"):
            raise BoardError(f"{text}: names no port; type: serial:///dev/ttyACM0 or serial://COM3")
        return BoardUrl(text, False, place, _baud(text, options))
    raise BoardError(f"{text!r} is no board; expected {_FORMS}")


def open_link(url: str, firmware: Path | None = None) -> BoardLink:
    """The board at ``url``; an emulated one runs the Intel HEX file ``firmware``."""
    at = parse_url(url)
    if at.emulated:
        return open_board(url, firmware)
    return SerialLink(at.place, at.baud or BAUD)


def open_board(url: str, firmware: Path | None) -> EmulatedBoard:
    """As :func:`open_link`, for who needs lockstep or pins: an emulated board or an error."""
    at = parse_url(url)
    if not at.emulated:
        raise BoardError(f"{url} runs by its own clock: no lockstep, no pins; type: board:uno")
    if firmware is None:
        raise BoardError(f"{url} is an empty chip: name its firmware, an Intel HEX file")
    image = read_image(firmware, uno.FLASH)
    return EmulatedBoard(image, _BACKENDS[at.backend](), at.backend, at.baud)


def _options(text: str, query: str, known: tuple[str, ...]) -> dict[str, str]:
    given = parse_qsl(query, keep_blank_values=True)
    for name, _ in given:
        _one_of("option", name, known, text)
    if len(dict(given)) < len(given):
        raise BoardError(f"{text}: gives an option twice")
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
        raise BoardError(f"{text}: baud={digits} is no rate; type: baud=500000")
    return int(digits)
