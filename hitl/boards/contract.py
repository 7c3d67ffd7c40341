"""What a board is: a line of bytes, and, where it is emulated, time in cycles and pins.

::

    Link                 bytes out and in; one call that waits
    └── Board            and cycles that pass only when they are asked for, and pins
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rtsim.core.errors import RtsimError


class BoardError(RtsimError):
    """A board that cannot be reached, died, went silent or lied; says what to type."""

    environment: bool = False
    """What failed was around the board, such as its cable: no verdict on what it runs."""


class BoardGone(BoardError):
    """Nothing is at the other end any more, which no program on a board brings about."""

    environment = True


class BoardLink(Protocol):
    """Bytes only; framing and meaning live above.  ``hitl.testing.check_link`` is the contract."""

    def send(self, data: bytes) -> None:
        """Hand over ``data``, in order, after all that was sent before."""
        ...

    def receive(self) -> bytes:
        """All that has arrived since the last call; empty where nothing has.  Never waits."""
        ...

    def wait(self, timeout: float) -> bool:
        """Until something can be received, at most ``timeout`` s; the only call that waits."""
        ...

    def close(self) -> None:
        """Let go of it; again is harmless.  Every other call then raises :class:`BoardError`."""
        ...


@dataclass(frozen=True)
class Stamped:
    """A byte of the board's, and the cycle at which its stop bit was over."""

    cycle: int
    value: int


@dataclass(frozen=True)
class Edge:
    """A pin that the firmware drives took ``level`` in the instruction that began at ``cycle``."""

    cycle: int
    pin: str
    level: bool


@dataclass(frozen=True)
class Pwm:
    """What a timer drives a pin with: the share of time it is high, and the frequency, Hz."""

    duty: float
    frequency: float


class Pins(Protocol):
    """Pins by the names that are printed on the board: ``D0`` to ``D13``, ``A0`` to ``A5``."""

    def write(self, pin: str, level: bool) -> None:
        """Drive an input of the board, from now on."""
        ...

    def set_volts(self, pin: str, volts: float) -> None:
        """What the ADC finds at ``A0`` to ``A5`` from now on, 0 to 5 V, in whole mV."""
        ...

    def read(self, pin: str) -> bool:
        """True while the firmware drives ``pin`` high through its port (no timer)."""
        ...

    def edges(self) -> list[Edge]:
        """All since the last call, in order.  Edges that a timer makes are not among them."""
        ...

    def pwm(self, pin: str) -> Pwm | None:
        """What a timer makes of ``pin``; ``None`` where none does."""
        ...


class Board(BoardLink, Protocol):
    """A link whose far end runs only when it is told to: lockstep.

    ``wait`` lets the board run, to its next byte, at most ``timeout`` s of its own time.
    """

    @property
    def clock_hz(self) -> int:
        """Cycles in a second."""
        ...

    @property
    def cycles(self) -> int:
        """How far it has run since power came on."""
        ...

    @property
    def pins(self) -> Pins: ...

    def advance(self, cycles: int) -> None:
        """Run ``cycles`` more.  How a time is cut into slices changes nothing."""
        ...

    def take(self) -> list[Stamped]:
        """As ``receive``, with the cycle of each byte."""
        ...

    def reset(self) -> None:
        """Press the reset button; the RAM keeps what it holds."""
        ...
