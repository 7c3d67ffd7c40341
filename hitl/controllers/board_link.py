"""Opens the line to a controller on a board; an emulated board gets its firmware."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from hitl.boards.contract import BoardError, BoardLink
from hitl.boards.paced import PacedBoard, Timing
from hitl.boards.serial_port import SerialLink
from hitl.boards.urls import open_link, parse_url
from hitl.firmware import firmware
from hitl.firmware.sketch import sketch_of
from hitl.interface import Interface


class ServedLink:
    """The line to an emulated board in real time, which runs in a process of its own."""

    def __init__(self, url: str, image: Path) -> None:
        self.pacing: Timing | None = None
        """How well the emulator kept up with the wall clock; ``None`` until the line is closed."""
        self._served = PacedBoard(url, image)
        try:
            self.baud = round(self._served.baud) or parse_url(url).rate
            self._port = SerialLink(self._served.port, self.baud)
        except BaseException:
            self._served.close()
            raise
        self.send, self.receive, self.wait = self._port.send, self._port.receive, self._port.wait

    def reset(self) -> None:
        """Press the board's reset button."""
        self._served.reset()

    def restart(self) -> None:
        """Reset the board, and drop the bytes that it sent before.

        Raises :class:`BoardError` if the emulator has ended.
        """
        self._served.reset()
        self._served.status()  # the reset is done
        self._port.receive()

    def count_anew(self) -> None:
        """Forget the emulator's timing up to now, which is not of the run."""
        self._served.count_anew()

    @property
    def pid(self) -> int:
        """Process id of the emulator."""
        return self._served.pid

    def close(self) -> None:
        """Close the port and end the emulator."""
        if self.pacing is None:
            with suppress(BoardError):  # the emulator has ended, and its error was reported
                self.pacing = self._served.status().timing
        try:
            self._port.close()
        finally:
            self._served.close()


def link_of(interface: Interface, url: str, image: Path | None, paced: bool) -> BoardLink:
    """Return the line to the board at ``url``; an emulated board runs ``image``.

    Without ``image`` an emulated board runs the firmware of ``interface``.  ``paced``: an emulated
    board runs in real time.
    """
    at = parse_url(url)
    if not at.emulated:
        return open_link(url)
    if image is None:
        image = firmware(interface, baud=at.baud, board=at.description).path
    return ServedLink(url, image) if paced else open_link(url, image)


def warms_up(url: str) -> bool:
    """Return whether the board at ``url`` is emulated by a program that is slow at first."""
    at = parse_url(url)
    return at.emulated and at.description.emulator(at.backend).warms_up


def build_of(interface: Interface, url: str) -> int | None:
    """Return the build that the board at ``url`` must report; ``None`` if it may report any."""
    at = parse_url(url)
    if at.emulated or not interface.sources:
        return None  # the given image, or firmware without a C controller
    return sketch_of(interface, board=at.description).build
