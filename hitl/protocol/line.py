"""The line: baud rates that a crystal divides well, time on the wire, and what a period leaves."""

from __future__ import annotations

from dataclasses import dataclass

from hitl.interface import Interface
from hitl.protocol.codec import Codec
from hitl.protocol.framing import wire_size
from hitl.protocol.messages import LAYOUTS, MessageKind
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S

BITS_PER_BYTE = 10
"""8, a start bit and a stop bit."""
MOST_ERROR_PERCENT = 1.0
"""Of the board's rate; the adapter at the other end has an error of its own."""
_SAME_RATE = 0.03
MOST_BAUD = 1_000_000
"""A byte costs the firmware about 265 cycles; at 2 Mbaud one comes each 80, and 63 can wait."""
UNO_HZ = 16_000_000
_TAKING = 257
"""Cycles in which the firmware takes a byte."""
_HANDLING = (1600, 11, 38)
"""Cycles between a request's last byte and its reply's first, without the step: of any exchange,
and of each byte of the request and of the reply."""
_COMMON = (9600, 19200, 38400, 57600, 76800, 115200, 230400, 250000, 500000, MOST_BAUD)
_NORMAL_SPEED = (16_000_000, 57_600)
"""Arduino's core makes this rate of this clock without U2X, as old boot loaders did."""


@dataclass(frozen=True)
class BaudRate:
    """What a USART makes of a rate: ``clock / (8 (UBRR + 1))`` at double speed (U2X).

    ATmega328P datasheet, "Internal Clock Generation - The Baud Rate Generator".  Of 57600 baud at
    16 MHz Arduino's core makes ``clock / (16 (UBRR + 1))``, which is 2.1 % off.
    """

    baud: int
    clock_hz: int = 16_000_000

    def __post_init__(self) -> None:
        if not 0 < self.baud <= self.clock_hz // self._divider or self.ubrr > 4095:
            text = f"no divider makes {self.baud} baud of {self.clock_hz} Hz"
            raise ScenarioError(f"{text}; choose {_listed(self.clock_hz)}")

    @property
    def ubrr(self) -> int:
        """The divider whose rate is nearest."""
        clock = self.clock_hz / self._divider
        below = max(int(clock // self.baud) - 1, 0)
        return min(below, below + 1, key=lambda n: abs(clock / (n + 1) - self.baud))

    @property
    def _divider(self) -> int:
        return 16 if (self.clock_hz, self.baud) == _NORMAL_SPEED else 8

    @property
    def actual(self) -> float:
        return self.clock_hz / (self._divider * (self.ubrr + 1))

    @property
    def error_percent(self) -> float:
        return 100.0 * (self.actual / self.baud - 1.0)

    @property
    def good(self) -> bool:
        return abs(self.error_percent) < MOST_ERROR_PERCENT

    def __str__(self) -> str:
        if self.good:
            return f"{self.baud} baud ({self.error_percent:+.1f} %)"
        rates = _listed(self.clock_hz)
        return f"{self.baud} baud is {self.error_percent:+.1f} % off at the board; better: {rates}"


def offered(clock_hz: int = 16_000_000) -> tuple[int, ...]:
    """Common rates that this clock divides with less than 1 % of error, and firmware can take."""
    rates = (r for r in _COMMON if r <= clock_hz // 8)
    return tuple(r for r in rates if BaudRate(r, clock_hz).good)


def _listed(clock_hz: int) -> str:
    return ", ".join(map(str, offered(clock_hz)))


def nominal(actual: float) -> int:
    """What the rate that a board really makes is called: 117647 bit/s is 115200 baud."""
    name = min(_COMMON, key=lambda rate: abs(actual / rate - 1.0))
    return name if abs(actual / name - 1.0) < _SAME_RATE else round(actual)


def in_words(baud: int, clock_hz: int) -> str:
    """What a board that answers makes of a rate, though it may not be by a divider (USB)."""
    try:
        return str(BaudRate(baud, clock_hz))
    except ScenarioError:
        return f"{baud} baud"


def handling_ns(request_bytes: int, reply_bytes: int, baud: int, clock_hz: int = UNO_HZ) -> int:
    """What the firmware takes of an exchange beside the step, while nothing is on the wire.

    It checks and unpacks the request, packs and seals the reply, and starts to send it; where bytes
    come faster than it takes them, it also takes those that wait.  By cycles that were counted on
    an emulated Uno (docs/decisions/114).
    """
    waiting = max(0, _TAKING - BITS_PER_BYTE * clock_hz // baud) * request_bytes
    fixed, a_request_byte, a_reply_byte = _HANDLING
    cycles = fixed + a_request_byte * request_bytes + a_reply_byte * reply_bytes + waiting
    return cycles * NS_PER_S // clock_hz


def wire_ns(size: int, baud: int) -> int:
    """Time of ``size`` bytes on the wire, rounded up."""
    return -(-size * BITS_PER_BYTE * NS_PER_S // baud)


@dataclass(frozen=True)
class Budget:
    """One exchange of a controller: the longest frames, and what they leave of the period."""

    request_bytes: int
    reply_bytes: int
    request_ns: int
    reply_ns: int
    execution_ns: int
    period_ns: int
    handling_ns: int = 0
    """What the firmware takes beside the step (:func:`handling_ns`)."""

    @classmethod
    def of(
        cls, interface: Interface, baud: int, execution_ns: int = 0, clock_hz: int = UNO_HZ
    ) -> Budget:
        """``execution_ns``: the longest step so far, of the board's own clock."""
        sizes = (
            wire_size(LAYOUTS[MessageKind.STEP][1].size + Codec(interface.input_fields).bytes),
            wire_size(
                LAYOUTS[MessageKind.STEP_REPLY][1].size + Codec(interface.output_fields).bytes
            ),
        )
        request_ns, reply_ns = (wire_ns(size, baud) for size in sizes)
        return cls(
            *sizes, request_ns, reply_ns, execution_ns, round(interface.period.ns),
            handling_ns(*sizes, baud, clock_hz),
        )  # fmt: skip

    @property
    def exchange_ns(self) -> int:
        """On the wire, and in the step."""
        return self.request_ns + self.execution_ns + self.reply_ns

    @property
    def answered_ns(self) -> int:
        """From the request's first byte to the reply's last."""
        return self.exchange_ns + self.handling_ns

    @property
    def holds(self) -> bool:
        return self.answered_ns <= self.period_ns

    @property
    def rate_hz(self) -> float:
        """The rate that this line and this controller can hold."""
        return NS_PER_S / self.answered_ns

    def __str__(self) -> str:
        verdict = "fits" if self.holds else "does not fit"
        step, rest = f"step {self.execution_ns / 1e6:.3f} ms, ", ""
        if not self.execution_ns:
            step, rest = "", " (the step's execution time is measured in a flight)"
        return (
            f"request {self.request_bytes} bytes {self.request_ns / 1e6:.3f} ms, {step}"
            f"firmware {self.handling_ns / 1e6:.3f} ms, "
            f"reply {self.reply_bytes} bytes {self.reply_ns / 1e6:.3f} ms: "
            f"{self.answered_ns / 1e6:.3f} ms {verdict} the period of "
            f"{self.period_ns / 1e6:.3f} ms; up to {self.rate_hz:.0f} Hz{rest}"
        )
