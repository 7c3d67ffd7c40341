"""Boards by URL, either emulated cycle by cycle or at a serial port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hitl.boards.contract import Board, BoardError, BoardLink, Edge, Pins, Pwm, Stamped
    from hitl.boards.description import (
        BoardDescription,
        BoardPins,
        Compiler,
        CTypes,
        Flasher,
        Line,
        Memory,
    )
    from hitl.boards.known import add_board, board_named
    from hitl.boards.urls import open_board, open_link, parse_url

__all__ = [
    "Board",
    "BoardDescription",
    "BoardError",
    "BoardLink",
    "BoardPins",
    "CTypes",
    "Compiler",
    "Edge",
    "Flasher",
    "Line",
    "Memory",
    "Pins",
    "Pwm",
    "Stamped",
    "add_board",
    "board_named",
    "open_board",
    "open_link",
    "parse_url",
]

__getattr__, __dir__ = lazy_exports(__name__)
