"""The boards that exist, by name: those of rtsim, and those that other packages add."""

from __future__ import annotations

from hitl.boards.contract import BoardError
from hitl.boards.description import NAME, BoardDescription
from hitl.boards.uno import UNO
from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint

DEFAULT_BOARD = UNO
"""The board that is meant if the user names none."""
DEFAULT_URL = DEFAULT_BOARD.url


def _usable(name: str, made: object) -> BoardDescription:
    """Return ``made`` if it describes a board; raise :class:`ScenarioError` if it does not."""
    if not isinstance(made, BoardDescription):
        raise ScenarioError(
            f"board {name!r} is of type {type(made).__name__}; expected a BoardDescription"
        )
    if made.name != name or not NAME.match(name):
        raise ScenarioError(
            f"board {name!r} describes itself as {made.name!r}; use one name of lower-case "
            "letters, digits, - and _ for the entry point and the description"
        )
    return made


BOARDS: ExtensionPoint[BoardDescription] = ExtensionPoint(
    "rtsim.boards", "board", {DEFAULT_BOARD.name: DEFAULT_BOARD}, _usable
)
"""Boards by name.  The entry point ``rtsim.boards`` of a package adds one."""


def board_named(name: str, where: str = "") -> BoardDescription:
    """Return the board ``name``.

    Raises :class:`BoardError` with the known names for an unknown one, and with the reason for a
    board whose package cannot be used.  ``where`` begins the message.
    """
    start = f"{where}: " if where else ""
    if name not in BOARDS:
        raise BoardError(f"{start}unknown board {name!r}; known: {', '.join(BOARDS)}")
    try:
        return BOARDS[name]
    except ScenarioError as error:
        raise BoardError(f"{start}{error}") from error


def add_board(board: BoardDescription) -> BoardDescription:
    """Add ``board`` for this process.

    Raises :class:`ScenarioError` if its name belongs to rtsim.
    """
    BOARDS.add(board.name, board)
    return board


def board_of(processor: str) -> BoardDescription:
    """Return the first board with this family of processors, the default board before others.

    Raises :class:`BoardError` if no board has it.
    """
    for name in BOARDS:
        if board_named(name).processor == processor:
            return board_named(name)
    raise BoardError(f"no board has the processor {processor!r}; known boards: {', '.join(BOARDS)}")
