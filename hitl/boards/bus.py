"""What happens on a bus of an emulated board, and what the other end of the bus answers.

The emulator computes the times: it tells when an operation begins, and completes the operation one
bit or one byte later.  The other end answers in between, so it never needs to look ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol


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
