"""Emulated boards that are connected pin to pin and behave like one board, the I/O node.

All boards advance together, in slices. A change at a pin arrives at the other end of the wire after
exactly one time slice. Within a slice, no board depends on another one, so their order has no
effect. Times are cycles of the I/O node. A board with another clock advances by whole cycles, never
past the time of the node.

Voltages and PWM duties are computed at the end of a slice and constant in the next slice. Slices
begin at multiples of their length. A stop within a slice therefore does not change the results.

A pin reads low if no pin drives its wire.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from hitl.boards.contract import BoardError, Edge, Stamped
from hitl.boards.emulated import EmulatedBoard, EmulatedPins
from hitl.rigs.rig import NODE, LowPass, RigEnd, RigWire


class Capacitor:
    """The capacitor of a ``LowPass``, with a piecewise constant voltage at the resistor.

    dV/dt = (held - V) / RC has the solution V(t) = held + (V0 - held) exp(-t / RC), which is exact
    for steps of any length. A PWM signal counts as its mean. For a PWM period T, the omitted ripple
    is at most held * (1 - duty) * T / RC. No current flows into the ADC.
    """

    def __init__(self, part: LowPass, clock_hz: int) -> None:
        self._cycles = part.time_constant * clock_hz
        self._cycle = 0
        self._volts = 0.0
        self.held = 0.0

    def volts(self, cycle: int) -> float:
        """Return the voltage (V) at ``cycle``, which must not be before the latest ``drive``."""
        decayed = math.exp(-(cycle - self._cycle) / self._cycles)
        return self.held + (self._volts - self.held) * decayed

    def drive(self, cycle: int, volts: float) -> None:
        """Apply a voltage to the low pass from ``cycle`` on."""
        if volts != self.held:
            self._volts, self._cycle = self.volts(cycle), cycle
            self.held = volts


Probe = Callable[[int, RigEnd, float], None]
"""A function ``(cycle, pin, volts)`` that is called each time the voltage at a pin is set."""


@dataclass
class _Line:
    wire: RigWire
    capacitor: Capacitor | None
    level: bool = False
    """Level that the port of the source drives."""
    millivolts: int = field(default=-1)


class WiredBoards:
    """An I/O node and the boards at its pins, with the interface of one emulated board.

    ``boards`` contains the node under the name ``"node"``. All boards must be at cycle 0. The
    method ``close`` closes all boards. ``slice_cycles`` is the delay of every wire. ``probe`` is
    called with every voltage.
    """

    def __init__(
        self,
        boards: Mapping[str, EmulatedBoard],
        wires: Sequence[RigWire],
        slice_cycles: int,
        probe: Probe | None = None,
    ) -> None:
        self._boards = dict(boards)
        self._node = self._boards[NODE]
        self._slice = slice_cycles
        self._probe = probe
        self._hz = self._node.clock_hz
        self._lines = [
            _Line(w, None if w.low_pass is None else Capacitor(w.low_pass, self._hz)) for w in wires
        ]
        self._under_way: list[tuple[int, int, _Line, bool]] = []
        self._counted = 0
        self._restarts = dict.fromkeys(self._boards, 0)
        for line in self._lines:
            if line.capacitor is None:
                self._set_level(line, False)
            else:
                self._set_volts(line, 0)

    @property
    def clock_hz(self) -> int:
        return self._hz

    @property
    def cycles(self) -> int:
        return self._node.cycles

    @property
    def pins(self) -> EmulatedPins:
        """Pins of the node. Changes of level go to the wires, not to the caller."""
        return self._node.pins

    @property
    def baud(self) -> float:
        """Bit rate that the firmware of the node has set, bit/s."""
        return self._node.baud

    @property
    def boards(self) -> Mapping[str, EmulatedBoard]:
        """All boards by name, including the I/O node."""
        return self._boards

    @property
    def node(self) -> EmulatedBoard:
        return self._node

    def advance(self, cycles: int) -> None:
        if cycles < 0:
            raise BoardError(f"advance({cycles}): the number of cycles must be >= 0")
        self._run(self.cycles + cycles, until_byte=False)

    def wait(self, timeout: float) -> bool:
        return self._run(self.cycles + max(0, round(timeout * self._hz)), until_byte=True)

    def send(self, data: bytes) -> None:
        self._node.send(data)

    def receive(self) -> bytes:
        return self._node.receive()

    def take(self) -> list[Stamped]:
        return self._node.take()

    def reset(self) -> None:
        """Press the node's reset button."""
        self._node.reset()
        self._let_go(NODE, self.cycles)

    def close(self) -> None:
        for board in self._boards.values():
            board.close()

    def _run(self, target: int, until_byte: bool) -> bool:
        if until_byte and self._node.wait(0.0):
            return True
        arrived = False
        while self.cycles < target and not arrived:
            now = self.cycles
            end = min(target, (now // self._slice + 1) * self._slice)
            if self._under_way:
                end = min(end, self._under_way[0][0])
            if until_byte:
                arrived = self._node.wait((end - now) / self._hz)
            else:
                self._node.advance(end - now)
            for board in self._boards.values():
                # whole cycles up to now, with the same clock as many as the node
                board.advance(self.cycles * board.clock_hz // self._hz - board.cycles)
            self._collect()
            if self.cycles % self._slice == 0:
                self._measure()
            self._deliver()
        return arrived

    def _collect(self) -> None:
        for name, board in self._boards.items():
            if board.restarts != self._restarts[name]:
                self._restarts[name] = board.restarts
                self._let_go(name, self.cycles)
            for edge in board.pins.edges():
                at = -(-edge.cycle * self._hz // board.clock_hz)
                self._changed(name, Edge(at, edge.pin, edge.level))

    def _let_go(self, name: str, cycle: int) -> None:
        for line in self._lines:
            if line.wire.source.board == name and line.level:
                self._changed(name, Edge(cycle, line.wire.source.pin, False))

    def _changed(self, name: str, edge: Edge) -> None:
        for line in self._lines:
            if line.wire.source != RigEnd(name, edge.pin) or line.level == edge.level:
                continue
            line.level = edge.level
            if line.capacitor is not None:
                line.capacitor.drive(edge.cycle, self._supply(line.wire.source) * edge.level)
            else:
                self._counted += 1
                there = edge.cycle + self._slice
                heappush(self._under_way, (there, self._counted, line, edge.level))

    def _deliver(self) -> None:
        while self._under_way and self._under_way[0][0] <= self.cycles:
            _, _, line, level = heappop(self._under_way)
            self._set_level(line, level)

    def _measure(self) -> None:
        registers: dict[str, bytes] = {}
        for line in self._lines:
            if line.capacitor is None:
                continue
            source = line.wire.source
            board = self._boards[source.board]
            pins = board.description.require_pins()
            if source.board not in registers:
                window = pins.registers
                registers[source.board] = board.peek(window.address, window.length)
            pwm = pins.pwm(source.pin, registers[source.board])
            duty = float(line.level) if pwm is None else pwm.duty
            volts = line.capacitor.volts(self.cycles)
            line.capacitor.drive(self.cycles, self._supply(source) * duty)
            self._set_volts(line, volts)

    def _set_level(self, line: _Line, level: bool) -> None:
        target = line.wire.target
        self._boards[target.board].pins.write(target.pin, level)
        if target.pin in self._boards[target.board].description.require_pins().channels:
            self._set_volts(line, self._supply(line.wire.source) * level)
        elif self._probe is not None:
            self._probe(self.cycles, target, self._supply(line.wire.source) * level)

    def _supply(self, end: RigEnd) -> float:
        return self._boards[end.board].description.require_pins().volts

    def _set_volts(self, line: _Line, volts: float) -> None:
        target = line.wire.target
        if self._probe is not None:
            self._probe(self.cycles, target, volts)
        if (millivolts := round(1000 * volts)) != line.millivolts:
            line.millivolts = millivolts
            self._boards[target.board].pins.set_volts(
                target.pin, min(max(volts, 0.0), self._supply(target))
            )
