"""Boards that are opened by URL: emulated with cycle accuracy, or connected to a serial port."""

from hitl.boards.contract import Board, BoardError, BoardLink, Edge, Pins, Pwm, Stamped
from hitl.boards.urls import open_board, open_link, parse_url

__all__ = [
    "Board",
    "BoardError",
    "BoardLink",
    "Edge",
    "Pins",
    "Pwm",
    "Stamped",
    "open_board",
    "open_link",
    "parse_url",
]
