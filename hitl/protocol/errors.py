"""What can be wrong with a board, each by its name.

::

    ControllerError
    └── BoardError           the board, or what answers in its place
        ├── SilentBoard      nothing, or nothing readable, came within the patience
        ├── OldFirmware      it speaks another version of the protocol
        ├── WrongController  it carries another controller, or another version of this one
        ├── BoardReset       it started anew in the middle of a run
        └── BoardRefused     it understood and said no
"""

from __future__ import annotations

from rtsim.core.errors import ControllerError


class BoardFailure(ControllerError):
    """The board is not what it has to be."""


class SilentBoard(BoardFailure):
    """Nothing readable came within the patience."""


class OldFirmware(BoardFailure):
    """It speaks another version of the protocol."""


class WrongController(BoardFailure):
    """Its controller's signals are not those of the interface file."""


class BoardReset(BoardFailure):
    """It started anew in the middle of a run."""


class BoardRefused(BoardFailure):
    """It answered a request with an error."""
