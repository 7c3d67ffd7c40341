"""Timing of a serial line: bit rates, transmission times and the time budget."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hitl.boards.description import BoardDescription, Line
from hitl.boards.known import DEFAULT_BOARD
from hitl.interface import Interface
from hitl.protocol.codec import Codec
from hitl.protocol.framing import wire_size
from hitl.protocol.messages import LAYOUTS, MessageKind
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S, Period

BITS_PER_BYTE = 10
"""Bits per transmitted byte: 8 data bits, a start bit and a stop bit."""
MOST_ERROR_PERCENT = 1.0
"""Maximum error of the board's baud rate, %.  The adapter at the other end adds its own error."""
_SAME_RATE = 0.03
MOST_BAUD = DEFAULT_BOARD.line.most_baud
"""Maximum baud rate of the default board, bit/s."""
_CLOCK_HZ, _LINE = DEFAULT_BOARD.clock_hz, DEFAULT_BOARD.line
_COMMON = (9600, 19200, 38400, 57600, 76800, 115200, 230400, 250000, 500000, 1000000)


@dataclass(frozen=True)
class BaudRate:
    """A bit rate, and the actual rate of a UART.

    ``clock_hz`` and ``line`` default to those of the default board. Raises ``ScenarioError`` if the
    UART cannot produce the rate.
    """

    baud: int
    clock_hz: int = _CLOCK_HZ
    line: Line = field(default=_LINE, repr=False, hash=False)

    def __post_init__(self) -> None:
        fastest = self.clock_hz // self._samples
        if not 0 < self.baud <= fastest or self.steps > self.line.most * self.line.fractions:
            text = f"no divider makes {self.baud} baud from a clock of {self.clock_hz} Hz"
            raise ScenarioError(f"{text}; choose {_listed(self.clock_hz, self.line)}")

    @classmethod
    def of(cls, board: BoardDescription, baud: int) -> BaudRate:
        """Return a ``BaudRate`` for a board."""
        return cls(baud, board.clock_hz, board.line)

    @property
    def steps(self) -> int:
        """Divider with the rate nearest to ``baud``, in units of ``1 / line.fractions``."""
        clock = self.clock_hz * self.line.fractions / self._samples
        below = max(int(clock // self.baud), self.line.fractions)
        return min(below, below + 1, key=lambda n: abs(clock / n - self.baud))

    @property
    def _samples(self) -> int:
        return self.line.other_samples.get((self.clock_hz, self.baud), self.line.samples)

    @property
    def actual(self) -> float:
        """The actual rate of the UART, bit/s."""
        return self.clock_hz * self.line.fractions / (self._samples * self.steps)

    @property
    def error_percent(self) -> float:
        """Deviation of the actual rate from the nominal rate, %."""
        return 100.0 * (self.actual / self.baud - 1.0)

    @property
    def good(self) -> bool:
        """True if the deviation is less than 1 %."""
        return abs(self.error_percent) < MOST_ERROR_PERCENT

    def to_json(self) -> dict[str, object]:
        return {"rate": self.baud, "error_percent": self.error_percent, "good": self.good}

    def __str__(self) -> str:
        if self.good:
            return f"{self.baud} baud ({self.error_percent:+.1f} %)"
        rates = _listed(self.clock_hz, self.line)
        return f"{self.baud} baud is {self.error_percent:+.1f} % off at the board; choose {rates}"


def offered(clock_hz: int = _CLOCK_HZ, line: Line = _LINE) -> tuple[int, ...]:
    """Return the common bit rates that a UART supports.

    A supported rate has an error below 1 %, and the firmware is fast enough for it.
    """
    rates = (r for r in _COMMON if r <= min(clock_hz // line.samples, line.most_baud))
    return tuple(r for r in rates if BaudRate(r, clock_hz, line).good)


def _listed(clock_hz: int, line: Line) -> str:
    return ", ".join(map(str, offered(clock_hz, line)))


def nominal(actual: float) -> int:
    """Return the common baud rate nearest to ``actual``, such as 115200 for 117647 bit/s.

    Without a common rate within 3 %, the result is ``actual`` as an integer.
    """
    name = min(_COMMON, key=lambda rate: abs(actual / rate - 1.0))
    return name if abs(actual / name - 1.0) < _SAME_RATE else round(actual)


def in_words(baud: int, clock_hz: int, line: Line) -> str:
    """Return a bit rate and its error as text.

    The error is omitted if it is unknown, as for a USB port.
    """
    try:
        return str(BaudRate(baud, clock_hz, line))
    except ScenarioError:
        return f"{baud} baud"


def handling_ns(
    request_bytes: int, reply_bytes: int, baud: int, clock_hz: int = _CLOCK_HZ, line: Line = _LINE
) -> int:
    """Return the time (ns) that the firmware needs for an exchange, without step and transmission.

    The firmware checks and unpacks the request, packs the reply, and starts to send it. Bytes that
    arrive too fast need additional time. The cycle counts in ``line`` were measured on an emulated
    board (docs/decisions/114).
    """
    waiting = max(0, line.taking - BITS_PER_BYTE * clock_hz // baud) * request_bytes
    fixed, a_request_byte, a_reply_byte = line.handling
    cycles = fixed + a_request_byte * request_bytes + a_reply_byte * reply_bytes + waiting
    return cycles * NS_PER_S // clock_hz


def wire_ns(size: int, baud: int) -> int:
    """Return the transmission time of ``size`` bytes, ns, rounded up."""
    return -(-size * BITS_PER_BYTE * NS_PER_S // baud)


@dataclass(frozen=True)
class Budget:
    """Time budget of an exchange with a controller on a board."""

    request_bytes: int
    reply_bytes: int
    request_ns: int
    reply_ns: int
    execution_ns: int
    period_ns: int
    handling_ns: int = 0
    """Time of the firmware without the controller step, ns; see :func:`handling_ns`."""

    @classmethod
    def of(
        cls,
        interface: Interface,
        baud: int,
        execution_ns: int = 0,
        clock_hz: int = _CLOCK_HZ,
        line: Line = _LINE,
    ) -> Budget:
        """Return the time budget of the controller of ``interface``.

        Args:
            interface: Interface of the controller.
            baud: Bit rate.
            execution_ns: Longest step so far, ns; 0 if unknown.
            clock_hz: Processor clock of the board.
            line: Serial line of the board.
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
            handling_ns(*sizes, baud, clock_hz, line),
        )  # fmt: skip

    def every(self, period: Period | None) -> Budget:
        """Return the budget for another period; None keeps the period.

        A scenario may have another period if the interface file contains ``any_period``.
        """
        return self if period is None else replace(self, period_ns=round(period.ns))

    @property
    def exchange_ns(self) -> int:
        """Time (ns) for request, step and reply, without the firmware's own time."""
        return self.request_ns + self.execution_ns + self.reply_ns

    @property
    def answered_ns(self) -> int:
        """Time (ns) from the first byte of the request to the last byte of the reply."""
        return self.exchange_ns + self.handling_ns

    @property
    def holds(self) -> bool:
        """True if the exchange is not longer than the period."""
        return self.answered_ns <= self.period_ns

    @property
    def rate_hz(self) -> float:
        """Maximum rate of steps on this line, Hz."""
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
