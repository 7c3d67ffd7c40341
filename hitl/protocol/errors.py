"""Errors of a board in a session of the protocol, one class for each kind.

::

    ControllerError
    └── BoardFailure         the board, or the program that answers in its place, failed
        ├── SilentBoard      the board sent no readable frame within the timeout
        ├── OldFirmware      the board has another protocol version or another build
        ├── WrongController  the board runs another controller, or a controller with other signals
        ├── BoardReset       the board restarted during a run
        └── BoardRefused     the board answered a request with an error
"""

from __future__ import annotations

from rtsim.core.errors import ControllerError


class BoardFailure(ControllerError):
    """The board failed, or it runs other firmware than the session expects."""


class SilentBoard(BoardFailure):
    """The board sent no readable frame within the timeout."""


class OldFirmware(BoardFailure):
    """The board's firmware has another version of the protocol, or is another build."""


class WrongController(BoardFailure):
    """The board's controller, or its signals, differ from the interface file."""


class BoardReset(BoardFailure):
    """The board restarted during a run."""


class BoardRefused(BoardFailure):
    """The board answered a request with an error."""
