"""Define the interfaces of boards: a line of bytes, and for an emulated board also pins and cycles.

::

    BoardLink            sends and receives bytes; only ``wait`` waits
    └── Board            adds pins, and cycles that pass only when the caller asks for them
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rtsim.core.errors import RtsimError


class BoardError(RtsimError):
    """Error of a board that cannot be reached, stopped, went silent or gave an impossible answer.

    The error message says what the user can do.
    """

    environment: bool = False
    """True if the cause of the error is outside the board, for example in its cable."""


class BoardGone(BoardError):
    """The connection to the board is lost.  A program on the board cannot cause this error."""

    environment = True


class BoardLink(Protocol):
    """A line that carries bytes to and from a board.

    The link does not interpret the bytes as frames or messages.  ``hitl.testing.check_link`` checks
    an implementation of this class.
    """

    def send(self, data: bytes) -> None:
        """Send ``data`` after all bytes of earlier calls, in order."""
        ...

    def receive(self) -> bytes:
        """Return all bytes that arrived since the last call (``b""`` if none).  Never waits."""
        ...

    def wait(self, timeout: float) -> bool:
        """Wait at most ``timeout`` s for a byte; return True if one can be received.

        This is the only call that waits.
        """
        ...

    def close(self) -> None:
        """Close the link.  A second call does nothing.

        After ``close`` every other call raises :class:`BoardError`.
        """
        ...


@dataclass(frozen=True)
class Stamped:
    """A byte that the board sent, and the cycle at which its stop bit ended."""

    cycle: int
    value: int


@dataclass(frozen=True)
class Edge:
    """A change of level at a pin that the firmware drives.

    The instruction that set the pin to ``level`` began at ``cycle``.
    """

    cycle: int
    pin: str
    level: bool


@dataclass(frozen=True)
class Pwm:
    """The PWM signal of a timer at a pin: ``duty`` from 0 to 1, and ``frequency`` in Hz."""

    duty: float
    frequency: float


class Pins(Protocol):
    """The pins of a board, by the names printed on it: ``D0`` to ``D13``, ``A0`` to ``A5``."""

    def write(self, pin: str, level: bool) -> None:
        """Drive the input ``pin`` of the board with ``level`` from now on."""
        ...

    def set_volts(self, pin: str, volts: float) -> None:
        """Set the voltage that the ADC measures at ``pin`` (``A0`` to ``A5``) from now on.

        ``volts`` is between 0 and 5 V and is rounded to whole mV.
        """
        ...

    def read(self, pin: str) -> bool:
        """Return True while the firmware drives ``pin`` high by its port, not by a timer."""
        ...

    def edges(self) -> list[Edge]:
        """Return all edges since the last call, in order, except the edges that a timer makes."""
        ...

    def pwm(self, pin: str) -> Pwm | None:
        """Return the PWM signal that a timer makes at ``pin``; ``None`` without such a timer."""
        ...


class Board(BoardLink, Protocol):
    """A link to a board that runs only when the caller lets it run (lockstep).

    ``wait`` lets the board run to its next byte, at most ``timeout`` s of the board's own time.
    """

    @property
    def clock_hz(self) -> int:
        """Processor clock of the board, cycles per second."""
        ...

    @property
    def cycles(self) -> int:
        """Cycles that the board has run since power-on."""
        ...

    @property
    def pins(self) -> Pins: ...

    def advance(self, cycles: int) -> None:
        """Run the board for ``cycles`` more cycles.

        Several calls have the same effect as one call with the sum of their cycles.
        """
        ...

    def take(self) -> list[Stamped]:
        """Return all bytes that arrived since the last call, each with its cycle of arrival."""
        ...

    def reset(self) -> None:
        """Press the reset button.  The RAM keeps its contents."""
        ...
