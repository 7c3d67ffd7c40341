"""An emulated Arduino Uno: the very image that would be flashed, in lockstep, to the cycle."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

from hitl.boards import uno, wire
from hitl.boards.contract import BoardError, Edge, Pwm, Stamped
from hitl.boards.process import EmulatorProcess
from hitl.boards.wire import In, Input, Out, WireEvent

SLICE = 1_600_000
"""Cycles asked for at once: an answer comes often enough to tell a hang from work."""
_MOST_KEPT = 1 << 20
_MOST_MILLIVOLTS = 5000
_OTHER_BITS = 0x5A


class EmulatedPins:
    """The pins of an :class:`EmulatedBoard`; see :class:`hitl.boards.contract.Pins`."""

    def __init__(self, board: EmulatedBoard) -> None:
        self._board = board
        self._levels: dict[int, bool] = {}
        self._edges: deque[Edge] = deque(maxlen=_MOST_KEPT)

    def write(self, pin: str, level: bool) -> None:
        self._board._input(In.LEVEL, uno.pin(pin), int(bool(level)))

    def set_volts(self, pin: str, volts: float) -> None:
        channel = uno.channel(pin)
        if not 0.0 <= volts <= _MOST_MILLIVOLTS / 1000:
            raise BoardError(f"{volts!r} V at {pin}: an Uno takes 0 to 5 V")
        self._board._input(In.VOLTS, channel, round(volts * 1000))

    def read(self, pin: str) -> bool:
        return self._levels.get(uno.pin(pin), False)

    def edges(self) -> list[Edge]:
        edges = list(self._edges)
        self._edges.clear()
        return edges

    def pwm(self, pin: str) -> Pwm | None:
        return uno.pwm(pin, self._board.peek(*uno.REGISTERS))

    def _took(self, event: WireEvent) -> None:
        self._levels[event.which] = bool(event.value)
        if event.which in uno.NAMES:
            self._edges.append(Edge(event.cycle, uno.NAMES[event.which], bool(event.value)))


class EmulatedBoard:
    """A :class:`hitl.boards.contract.Board` whose processor is an emulator's process.

    ``image`` is the program from address 0; ``command`` starts the emulator.  ``baud``: of the line
    at its other end; ``None`` is whatever the firmware has set.  Where the two are more than 4.5 %
    apart, bytes are garbled in both directions, and counted.  A byte takes ten bit times.
    """

    def __init__(
        self, image: bytes, command: Sequence[str | Path], name: str,
        baud: int | None = None, patience: float | None = None,
    ) -> None:  # fmt: skip
        more = {} if patience is None else {"patience": patience}
        self._process = EmulatorProcess(command, f"the emulated board ({name})", **more)
        self._reached = 0
        self._inputs: list[Input] = []
        self._arrived: deque[Stamped] = deque(maxlen=_MOST_KEPT)
        self._pins = EmulatedPins(self)
        self.lost = 0
        """Bytes that the board's receiver dropped: it was full, or off."""
        self.garbled = 0
        """Bytes of the board's that arrived at another baud rate than they were sent at."""
        self.restarts = 0
        """Resets by its own watchdog."""
        try:
            self._process.ask("L", image)
            if baud is not None:
                self._process.ask("B", round(10 * uno.CLOCK_HZ / baud).to_bytes(4, "little"))
        except BaseException:
            self.close()
            raise

    @property
    def emulator(self) -> tuple[str, str]:
        """Its name and version."""
        return self._process.emulator

    @property
    def clock_hz(self) -> int:
        return uno.CLOCK_HZ

    @property
    def cycles(self) -> int:
        return self._reached

    @property
    def pins(self) -> EmulatedPins:
        return self._pins

    @property
    def baud(self) -> float:
        """What the firmware has set, bit/s."""
        status, _, _, _, low, high = self.peek(0xC0, 6)
        divisor = (high & 0x0F) << 8 | low
        return uno.CLOCK_HZ / ((divisor + 1) * (8 if status & 2 else 16))

    def advance(self, cycles: int) -> None:
        if cycles < 0:
            raise BoardError(f"advance({cycles}): time does not run backwards")
        self._run(self._reached + cycles, until_byte=False)

    def send(self, data: bytes, at: int | None = None) -> None:
        """As a link does; ``at``: a cycle to come at which they reach the line, not at once."""
        for value in data:
            self._input(In.BYTE, 0, value, at)

    def receive(self) -> bytes:
        return bytes(stamped.value for stamped in self.take())

    def take(self) -> list[Stamped]:
        self._process.check()
        arrived = list(self._arrived)
        self._arrived.clear()
        return arrived

    def wait(self, timeout: float) -> bool:
        self._process.check()
        if not self._arrived:
            self._run(self._reached + max(0, round(timeout * uno.CLOCK_HZ)), until_byte=True)
        return bool(self._arrived)

    def reset(self) -> None:
        self._process.ask("R")
        self._pins._levels.clear()

    def peek(self, address: int, length: int) -> bytes:
        """``length`` bytes of data space, registers and RAM, from ``address``; changes nothing."""
        body = address.to_bytes(2, "little") + length.to_bytes(2, "little")
        found = self._process.ask("P", body, "P")
        if len(found) != length:
            self._process.lied(BoardError(f"{len(found)} bytes of memory instead of {length}"))
        return found

    def close(self) -> None:
        self._process.close()

    def _input(self, kind: In, which: int, value: int, at: int | None = None) -> None:
        self._process.check()
        if len(self._inputs) >= wire.MOST_EVENTS:
            raise BoardError(f"more than {wire.MOST_EVENTS} inputs wait; let the board run")
        cycle = self._reached if at is None else max(at, self._reached)
        self._inputs.append(Input(cycle, kind, which, value))

    def _run(self, target: int, until_byte: bool) -> None:
        """Up to ``target``, in slices; to the end of the first byte if so asked."""
        while True:
            goal = min(target, self._reached + SLICE)
            inputs, self._inputs = self._inputs, []
            answer = self._process.ask("A", wire.advance(goal, inputs, until_byte), "A")
            try:
                reached, events = wire.advanced(answer, self._reached, goal)
            except BoardError as error:
                self._process.lied(error)
            self._reached = reached
            for event in events:
                self._take(event)
            if reached == target or (until_byte and self._arrived):
                return

    def _take(self, event: WireEvent) -> None:
        if event.kind is Out.BYTE:
            self.garbled += event.which
            value = _garbled(event.value) if event.which else event.value
            self._arrived.append(Stamped(event.cycle, value))
        elif event.kind is Out.EDGE:
            self._pins._took(event)
        elif event.kind is Out.LOST:
            self.lost += 1
        else:
            self.restarts += 1


def _garbled(value: int) -> int:
    """Another byte: no delimiter, so that what reads frames has something to complain of."""
    return value ^ _OTHER_BITS or 0xFF
