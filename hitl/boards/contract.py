"""Interfaces of boards: a serial line, and for emulated boards also pins and cycles.

::

    BoardLink            sends and receives bytes; only ``wait`` waits
    └── Board            adds pins and a clock that advances only at the caller's request

A ``BusEnd`` stands for all devices on a bus of an emulated board.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from rtsim.core.errors import RtsimError


class BoardError(RtsimError):
    """A board cannot be reached, has stopped, is silent, or has sent an impossible answer.

    The message contains a remedy.
    """

    environment: bool = False
    """True if the cause of the error is outside the board, for example in its cable."""


class BoardGone(BoardError):
    """The connection to the board is lost. The program on the board cannot cause this error."""

    environment = True


class BoardLink(Protocol):
    """A line that carries bytes between a board and this process.

    The link does not know the protocol of these bytes. ``hitl.testing.check_link`` checks an
    implementation of this protocol.
    """

    def send(self, data: bytes) -> None:
        """Send ``data`` after the data of earlier calls."""
        ...

    def receive(self) -> bytes:
        """Return the bytes that have arrived since the last call, without waiting."""
        ...

    def wait(self, timeout: float) -> bool:
        """Wait at most ``timeout`` s for a byte; return True if a byte has arrived.

        No other method waits.
        """
        ...

    def close(self) -> None:
        """Close the link; a second call has no effect.

        After ``close``, every other method raises :class:`BoardError`.
        """
        ...


@dataclass(frozen=True)
class Stamped:
    """A byte from the board, with the cycle at the end of its stop bit."""

    cycle: int
    value: int


@dataclass(frozen=True)
class Edge:
    """A change of level at an output pin of the board.

    ``cycle`` is the beginning of the instruction that set the pin to ``level``.
    """

    cycle: int
    pin: str
    level: bool


@dataclass(frozen=True)
class Pwm:
    """The PWM signal at a pin, with ``duty`` from 0 to 1 and ``frequency`` in Hz."""

    duty: float
    frequency: float


class Pins(Protocol):
    """The pins of a board, by the names printed on it: ``D0`` to ``D13``, ``A0`` to ``A5``."""

    def write(self, pin: str, level: bool) -> None:
        """Drive the input pin ``pin`` with ``level`` from now on."""
        ...

    def set_volts(self, pin: str, volts: float) -> None:
        """Set the voltage at the ADC input ``pin`` (``A0`` to ``A5``) from now on.

        ``volts`` must be between 0 and 5 V, and is rounded to whole mV.
        """
        ...

    def read(self, pin: str) -> bool:
        """Return True if the program on the board drives the pin high through its port."""
        ...

    def edges(self) -> list[Edge]:
        """Return the edges since the last call, without the edges of PWM signals."""
        ...

    def pwm(self, pin: str) -> Pwm | None:
        """Return the PWM signal that a timer drives at ``pin``, or ``None``."""
        ...


class Board(BoardLink, Protocol):
    """An emulated board that runs only when the caller requests it (lockstep).

    ``wait`` runs the board to its next byte, for at most ``timeout`` s of its own time.
    """

    @property
    def clock_hz(self) -> int:
        """Clock frequency of the processor, Hz."""
        ...

    @property
    def cycles(self) -> int:
        """Number of cycles since power-on."""
        ...

    @property
    def pins(self) -> Pins: ...

    def advance(self, cycles: int) -> None:
        """Run the board for ``cycles`` more cycles.

        The result depends only on the total number of cycles.
        """
        ...

    def take(self) -> list[Stamped]:
        """Return the bytes since the last call, each with its cycle."""
        ...

    def reset(self) -> None:
        """Press the reset button; the RAM keeps its contents."""
        ...


# The emulator computes the times on a bus. It reports when an operation begins, and completes the
# operation one bit or one byte later. The devices answer in between, so they need not look ahead.


class BusOp(IntEnum):
    """Operations of a bus controller, as numbers in messages to the emulator.

    START, ADDRESS, WRITE, READ and STOP belong to I2C, and TRANSFER to SPI. The byte of ADDRESS is
    twice the address, plus 1 for reading. The byte of READ is 1 if the controller acknowledges the
    received byte.
    """

    START, ADDRESS, WRITE, READ, STOP, TRANSFER = range(6)


@dataclass(frozen=True)
class BusReply:
    """The answer of the bus devices to an operation."""

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
    """The devices on a bus, and their connections to pins of the board.

    Cycles are those of the board.
    """

    @property
    def due(self) -> int | None:
        """Next cycle at which a device acts by itself, or ``None``."""

    def serve(self, cycle: int) -> None:
        """Execute the actions of the devices at ``cycle``."""

    def took(self, op: BusOp, byte: int, cycle: int) -> BusReply | None:
        """Return the answer of the devices to an operation that begins at ``cycle``.

        After ``None``, the operation never completes.
        """

    def edge(self, pin: str, level: bool, cycle: int) -> None:
        """Handle a change of a board output at ``cycle``."""

    def let_go(self) -> None:
        """Handle a reset of the board, which then drives no pin."""
