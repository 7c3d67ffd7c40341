"""Timing of a serial line: exact baud rates, transmission times, and the time budget."""

from __future__ import annotations

from dataclasses import dataclass

from hitl.interface import Interface
from hitl.protocol.codec import Codec
from hitl.protocol.framing import wire_size
from hitl.protocol.messages import LAYOUTS, MessageKind
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S

BITS_PER_BYTE = 10
"""8 data bits, a start bit and a stop bit."""
MOST_ERROR_PERCENT = 1.0
"""Largest error of the board's rate, %; the adapter at the other end has an error, too."""
_SAME_RATE = 0.03
MOST_BAUD = 1_000_000
"""Fastest rate.  The firmware takes a byte in about 265 cycles and buffers 63.  At 2 Mbaud a byte
would arrive every 80 cycles."""
UNO_HZ = 16_000_000
_TAKING = 257
"""Cycles in which the firmware takes a byte from its buffer."""
_HANDLING = (1600, 11, 38)
"""Cycles between a request's last byte and its reply's first, without the step: for an exchange,
for each byte of the request, and for each byte of the reply."""
_COMMON = (9600, 19200, 38400, 57600, 76800, 115200, 230400, 250000, 500000, MOST_BAUD)
_NORMAL_SPEED = (16_000_000, 57_600)
"""Clock, Hz, and rate for which Arduino's core does not use U2X, as old boot loaders did."""


@dataclass(frozen=True)
class BaudRate:
    """A baud rate as a USART divides it from its clock: ``clock / (8 (UBRR + 1))``, with U2X.

    Source: ATmega328P data sheet, "Internal Clock Generation - The Baud Rate Generator".  For 57600
    baud at 16 MHz, Arduino's core uses ``clock / (16 (UBRR + 1))``, which is 2.1 % off.  Raises
    :class:`ScenarioError` for a rate that no divider makes.
    """

    baud: int
    clock_hz: int = 16_000_000

    def __post_init__(self) -> None:
        if not 0 < self.baud <= self.clock_hz // self._divider or self.ubrr > 4095:
            text = f"no divider makes {self.baud} baud from a clock of {self.clock_hz} Hz"
            raise ScenarioError(f"{text}; choose {_listed(self.clock_hz)}")

    @property
    def ubrr(self) -> int:
        """The divider register's value (UBRR) whose rate is nearest."""
        clock = self.clock_hz / self._divider
        below = max(int(clock // self.baud) - 1, 0)
        return min(below, below + 1, key=lambda n: abs(clock / (n + 1) - self.baud))

    @property
    def _divider(self) -> int:
        return 16 if (self.clock_hz, self.baud) == _NORMAL_SPEED else 8

    @property
    def actual(self) -> float:
        """The rate that the USART makes, bit/s."""
        return self.clock_hz / (self._divider * (self.ubrr + 1))

    @property
    def error_percent(self) -> float:
        """Deviation of the actual rate from the nominal rate, %."""
        return 100.0 * (self.actual / self.baud - 1.0)

    @property
    def good(self) -> bool:
        """True if the rate's error is below 1 %."""
        return abs(self.error_percent) < MOST_ERROR_PERCENT

    def __str__(self) -> str:
        if self.good:
            return f"{self.baud} baud ({self.error_percent:+.1f} %)"
        rates = _listed(self.clock_hz)
        return f"{self.baud} baud is {self.error_percent:+.1f} % off at the board; choose {rates}"


def offered(clock_hz: int = 16_000_000) -> tuple[int, ...]:
    """Return the common rates, bit/s, that are usable with this clock.

    Their error is below 1 %, and the firmware can take bytes that fast.
    """
    rates = (r for r in _COMMON if r <= clock_hz // 8)
    return tuple(r for r in rates if BaudRate(r, clock_hz).good)


def _listed(clock_hz: int) -> str:
    return ", ".join(map(str, offered(clock_hz)))


def nominal(actual: float) -> int:
    """Return the common rate nearest to ``actual``: 115200 baud for 117647 bit/s."""
    name = min(_COMMON, key=lambda rate: abs(actual / rate - 1.0))
    return name if abs(actual / name - 1.0) < _SAME_RATE else round(actual)


def in_words(baud: int, clock_hz: int) -> str:
    """Describe the rate of a board that answers; over USB, no divider needs to make it."""
    try:
        return str(BaudRate(baud, clock_hz))
    except ScenarioError:
        return f"{baud} baud"


def handling_ns(request_bytes: int, reply_bytes: int, baud: int, clock_hz: int = UNO_HZ) -> int:
    """Return the firmware's time for one exchange, ns, without the step and the transmission.

    In this time the firmware checks and unpacks the request, packs the reply with its checksum, and
    starts to send it.  If bytes arrive faster than the firmware takes them, it also takes the
    buffered ones.  The cycles were counted on an emulated Uno (docs/decisions/114).
    """
    waiting = max(0, _TAKING - BITS_PER_BYTE * clock_hz // baud) * request_bytes
    fixed, a_request_byte, a_reply_byte = _HANDLING
    cycles = fixed + a_request_byte * request_bytes + a_reply_byte * reply_bytes + waiting
    return cycles * NS_PER_S // clock_hz


def wire_ns(size: int, baud: int) -> int:
    """Return the transmission time of ``size`` bytes, ns, rounded up."""
    return -(-size * BITS_PER_BYTE * NS_PER_S // baud)


@dataclass(frozen=True)
class Budget:
    """Time budget of one exchange with a controller on a board, for the longest frames."""

    request_bytes: int
    reply_bytes: int
    request_ns: int
    reply_ns: int
    execution_ns: int
    period_ns: int
    handling_ns: int = 0
    """Time of the firmware in addition to the step (:func:`handling_ns`)."""

    @classmethod
    def of(
        cls, interface: Interface, baud: int, execution_ns: int = 0, clock_hz: int = UNO_HZ
    ) -> Budget:
        """Return the budget of the controller of ``interface`` at ``baud`` bit/s.

        ``execution_ns`` is the longest step so far by the board's clock, 0 if it is unknown.
        ``clock_hz`` is the board's processor clock.
        """
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
        """Transmission of request and reply, and the step, ns."""
        return self.request_ns + self.execution_ns + self.reply_ns

    @property
    def answered_ns(self) -> int:
        """Time from the request's first byte to the reply's last, ns."""
        return self.exchange_ns + self.handling_ns

    @property
    def holds(self) -> bool:
        """True if the exchange fits the period."""
        return self.answered_ns <= self.period_ns

    @property
    def rate_hz(self) -> float:
        """The greatest rate of steps that this line and this controller can sustain, Hz."""
        return NS_PER_S / self.answered_ns

    def __str__(self) -> str:
        verdict = "fits" if self.holds else "does not fit"
        step, rest = f"step {self.execution_ns / 1e6:.3f} ms, ", ""
        if not self.execution_ns:
            step, rest = "", " (a run measures the step's execution time)"
        return (
            f"request {self.request_bytes} bytes {self.request_ns / 1e6:.3f} ms, {step}"
            f"firmware {self.handling_ns / 1e6:.3f} ms, "
            f"reply {self.reply_bytes} bytes {self.reply_ns / 1e6:.3f} ms: "
            f"{self.answered_ns / 1e6:.3f} ms {verdict} the period of "
            f"{self.period_ns / 1e6:.3f} ms; up to {self.rate_hz:.0f} Hz{rest}"
        )
