"""Define the interfaces of boards: a line of bytes, and for an emulated board also pins and cycles.

::

    BoardLink            sends and receives bytes; only ``wait`` waits
    └── Board            adds pins, and cycles that pass only when the caller asks for them

A :class:`BusEnd` is what is wired to a bus of an emulated board.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
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


# The emulator computes the times on a bus: it tells when an operation begins, and completes the
# operation one bit or one byte later.  The end of the bus answers in between, so it never needs to
# look ahead.


class BusOp(IntEnum):
    """Operations of a controller of a bus, with the numbers of the messages to the emulator.

    START, ADDRESS, WRITE, READ and STOP are of I2C, TRANSFER is of SPI.  The byte of ADDRESS is the
    address times 2, plus 1 to read.  The byte of READ is 1 if the controller acknowledges.
    """

    START, ADDRESS, WRITE, READ, STOP, TRANSFER = range(6)


@dataclass(frozen=True)
class BusReply:
    """The answer to an operation."""

    data: int = 0
    """The byte for READ and TRANSFER."""
    ack: bool = False
    """True if a device acknowledges ADDRESS or WRITE."""
    lost: bool = False
    """True if the controller of the bus sent a 1 and found the line low: arbitration is lost."""
    at: int = 0
    """First cycle at which the operation may complete; in the past for a bus that is not held."""


EMPTY = {op: BusReply(data=0xFF) for op in BusOp}
"""Answers of a bus without devices: its pull-ups make each bit 1, which is no acknowledgement."""


class BusEnd(Protocol):
    """The other end of a bus: what is wired to the board's pins.  Cycles are the board's."""

    @property
    def due(self) -> int | None:
        """Next cycle at which the end acts by itself, such as at a pin; ``None`` without one."""

    def serve(self, cycle: int) -> None:
        """Do what is due at ``cycle``."""

    def took(self, op: BusOp, byte: int, cycle: int) -> BusReply | None:
        """Return the answer to an operation that begins at ``cycle``; ``None`` for no answer ever.

        Without an answer the operation never completes.
        """

    def edge(self, pin: str, level: bool, cycle: int) -> None:
        """Take a change of an output of the board at ``cycle``."""

    def let_go(self) -> None:
        """Take a reset of the board, which drives none of its pins any more."""
