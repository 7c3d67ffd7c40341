"""Interfaces of boards: a serial connection, and for an emulated board also pins and cycles.

::

    BoardLink            sends and receives bytes; only ``wait`` waits
    └── Board            adds pins and a clock that advances only at the caller's request

A :class:`BusEnd` represents everything that is connected to a bus of an emulated board.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from rtsim.core.errors import RtsimError


class BoardError(RtsimError):
    """Raised if a board cannot be reached, has stopped, is silent or has sent an impossible answer.

    The message contains a remedy.
    """

    environment: bool = False
    """True if the cause of the error is outside the board, for example in its cable."""


class BoardGone(BoardError):
    """The connection to the board is lost. A program on the board cannot cause this error."""

    environment = True


class BoardLink(Protocol):
    """A line that carries bytes to and from a board.

    The link does not interpret the bytes as frames or messages. ``hitl.testing.check_link`` checks
    an implementation of this protocol.
    """

    def send(self, data: bytes) -> None:
        """Send ``data`` after all bytes of earlier calls."""
        ...

    def receive(self) -> bytes:
        """Return all bytes that arrived since the last call, or ``b""``, without waiting."""
        ...

    def wait(self, timeout: float) -> bool:
        """Wait at most ``timeout`` s for a byte, and return True if a byte can be received.

        No other method waits.
        """
        ...

    def close(self) -> None:
        """Close the link; a second call does nothing.

        After ``close``, every other method raises :class:`BoardError`.
        """
        ...


@dataclass(frozen=True)
class Stamped:
    """A byte from the board, and the cycle at which the stop bit of this byte ended."""

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
    """The PWM signal of a timer at a pin, with ``duty`` from 0 to 1 and ``frequency`` in Hz."""

    duty: float
    frequency: float


class Pins(Protocol):
    """The pins of a board, by the names printed on it: ``D0`` to ``D13``, ``A0`` to ``A5``."""

    def write(self, pin: str, level: bool) -> None:
        """Drive the input ``pin`` of the board with ``level`` from now on."""
        ...

    def set_volts(self, pin: str, volts: float) -> None:
        """Set the voltage at the ADC input ``pin`` (``A0`` to ``A5``) from now on.

        ``volts`` must be between 0 and 5 V, and is rounded to whole mV.
        """
        ...

    def read(self, pin: str) -> bool:
        """Return True if the firmware drives ``pin`` high through its port, not through a timer."""
        ...

    def edges(self) -> list[Edge]:
        """Return all edges since the last call, in order, without the edges of a timer's PWM."""
        ...

    def pwm(self, pin: str) -> Pwm | None:
        """Return the PWM signal that a timer drives at ``pin``, or ``None``."""
        ...


class Board(BoardLink, Protocol):
    """A link to an emulated board that runs only at the caller's request (lockstep).

    ``wait`` runs the board to its next byte, for at most ``timeout`` s of the board's time.
    """

    @property
    def clock_hz(self) -> int:
        """Processor clock of the board, cycles per second."""
        ...

    @property
    def cycles(self) -> int:
        """Number of cycles that the board has run since power-on."""
        ...

    @property
    def pins(self) -> Pins: ...

    def advance(self, cycles: int) -> None:
        """Run the board for ``cycles`` more cycles.

        The effect depends only on the total number of cycles, not on the number of calls.
        """
        ...

    def take(self) -> list[Stamped]:
        """Return all bytes that arrived since the last call, each with its cycle of arrival."""
        ...

    def reset(self) -> None:
        """Press the reset button; the RAM keeps its contents."""
        ...


# The emulator computes the times on a bus. It reports when an operation begins, and completes the
# operation one bit or one byte later. The devices answer in between, so they need not look ahead.


class BusOp(IntEnum):
    """Operations of a bus controller, with their numbers in the messages to the emulator.

    START, ADDRESS, WRITE, READ and STOP belong to I2C; TRANSFER belongs to SPI. With ADDRESS, the
    byte is twice the address, plus 1 for reading. With READ, the byte is 1 if the controller
    acknowledges the received byte.
    """

    START, ADDRESS, WRITE, READ, STOP, TRANSFER = range(6)


@dataclass(frozen=True)
class BusReply:
    """The answer of the devices to a bus operation."""

    data: int = 0
    """The byte for READ and TRANSFER."""
    ack: bool = False
    """True if a device acknowledges ADDRESS or WRITE."""
    lost: bool = False
    """True if the controller lost arbitration: it sent a 1 but the line was low."""
    at: int = 0
    """First cycle at which the operation may complete. A past cycle means that the bus is not held.
    """


EMPTY = {op: BusReply(data=0xFF) for op in BusOp}
"""Answers of a bus without devices. The pull-ups make each bit 1, which means no acknowledgement.
"""


class BusEnd(Protocol):
    """The devices at a bus, connected to pins of the board. Cycles are those of the board."""

    @property
    def due(self) -> int | None:
        """Next cycle at which a device acts without an operation on the bus, or ``None``."""

    def serve(self, cycle: int) -> None:
        """Perform the actions that are due at ``cycle``."""

    def took(self, op: BusOp, byte: int, cycle: int) -> BusReply | None:
        """Return the answer to an operation that begins at ``cycle``.

        With ``None``, the operation is never answered and never completes.
        """

    def edge(self, pin: str, level: bool, cycle: int) -> None:
        """Handle a change of a board output at ``cycle``."""

    def let_go(self) -> None:
        """Handle a reset of the board, after which the board drives none of its pins."""
