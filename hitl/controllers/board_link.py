"""Opens the line that a controller on a board talks over, with the firmware that belongs to it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hitl.boards.contract import BoardError, BoardLink
from hitl.boards.paced import PacedBoard
from hitl.boards.paced_line import Timing
from hitl.boards.serial_port import SerialLink
from hitl.boards.urls import BAUD, open_link, parse_url
from hitl.firmware import firmware
from hitl.firmware.sketch import sketch_of
from hitl.interface import Interface


class ServedLink:
    """An emulated board in real time, in a process of its own, through its pseudo-terminal."""

    def __init__(self, url: str, image: Path) -> None:
        self.pacing: Timing | None = None
        """How the emulator kept to the clock, once it is closed."""
        self._served = PacedBoard(url, image)
        try:
            self.baud = round(self._served.baud) or BAUD
            self._port = SerialLink(self._served.port, self.baud)
        except BaseException:
            self._served.close()
            raise
        self.send, self.receive, self.wait = self._port.send, self._port.receive, self._port.wait

    def reset(self) -> None:
        """Press the board's reset button."""
        self._served.reset()

    @property
    def pid(self) -> int:
        """Of the process that serves."""
        return self._served.pid

    def close(self) -> None:
        """End both."""
        if self.pacing is None:
            with suppress(BoardError):  # it has ended, which was told to who spoke to it
                self.pacing = self._served.status().timing
        try:
            self._port.close()
        finally:
            self._served.close()


def link_of(interface: Interface, url: str, image: Path | None, paced: bool) -> BoardLink:
    """The board at ``url``; an emulated one runs ``image``, or the firmware of ``interface``."""
    at = parse_url(url)
    if not at.emulated:
        return open_link(url)
    if image is None:
        image = firmware(interface, baud=at.baud or BAUD).path
    return ServedLink(url, image) if paced else open_link(url, image)


def build_of(interface: Interface, url: str) -> int | None:
    """The build that a board at a port has to carry; ``None`` where any will do."""
    if parse_url(url).emulated or not interface.sources:
        return None  # it runs the image that it is given; this firmware is not of a C controller
    return sketch_of(interface, BAUD).build
