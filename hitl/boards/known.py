"""All boards by name: those of rtsim and those of other packages."""

from __future__ import annotations

from hitl.boards.avr import MEGA, NANO, UNO
from hitl.boards.contract import BoardError
from hitl.boards.description import NAME, BoardDescription
from hitl.boards.pico import PICO
from hitl.boards.stm32f4 import STM32F4
from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint

DEFAULT_BOARD = UNO
"""Default board."""
DEFAULT_URL = DEFAULT_BOARD.url


def _usable(name: str, made: object) -> BoardDescription:
    if not isinstance(made, BoardDescription):
        raise ScenarioError(
            f"board {name!r} is of type {type(made).__name__}; expected a BoardDescription"
        )
    if made.name != name or not NAME.match(name):
        raise ScenarioError(
            f"the board registered as {name!r} has the attribute name = {made.name!r}; make "
            "both names equal, of lower-case letters, digits, - and _"
        )
    return made


BOARDS: ExtensionPoint[BoardDescription] = ExtensionPoint(
    "rtsim.boards",
    "board",
    {board.name: board for board in (DEFAULT_BOARD, NANO, MEGA, PICO, STM32F4)},
    _usable,
)
"""All boards by name. A package adds a board by an entry point in the group ``rtsim.boards``."""


def board_named(name: str, where: str = "") -> BoardDescription:
    """Return the description of the board ``name``.

    Raises ``BoardError`` for an unknown name, and for a package that cannot be used. The message
    begins with ``where`` and lists the known names.
    """
    start = f"{where}: " if where else ""
    if name not in BOARDS:
        bare = name.removeprefix("board:").partition("?")[0]
        if bare in BOARDS:
            raise BoardError(
                f"{start}expected the name of a board, but {name!r} is a URL; write {bare}"
            )
        raise BoardError(f"{start}unknown board {name!r}; known: {', '.join(BOARDS)}")
    try:
        return BOARDS[name]
    except ScenarioError as error:
        raise BoardError(f"{start}{error}") from error


def add_board(board: BoardDescription) -> BoardDescription:
    """Add a board for this process, and return it.

    Raises ``ScenarioError`` if rtsim has a board of this name.
    """
    BOARDS.add(board.name, board)
    return board


def board_of(processor: str) -> BoardDescription:
    """Return the first board with a processor of the family ``processor``.

    The default board precedes all others. Raises ``BoardError`` if no board has such a processor.
    """
    for name in BOARDS:
        if board_named(name).processor == processor:
            return board_named(name)
    raise BoardError(f"no board has the processor {processor!r}; known boards: {', '.join(BOARDS)}")
