"""Use a rig as a controller.

An I/O node writes the inputs of a controller to pins, and reads its outputs from pins.

:class:`hitl.controllers.board.BoardController` communicates with the node as with any other board.
This module converts between the signals of a rig and the pins of the node.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np

from hitl.boards import open_board, parse_url
from hitl.boards.description import BoardDescription
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.known import DEFAULT_BOARD, DEFAULT_URL
from hitl.bus_devices import DEVICES
from hitl.bus_devices.device import BusDevice
from hitl.bus_devices.ends import ENDS, I2cEnd, Placed, SpiEnd
from hitl.controllers.board import BoardController
from hitl.firmware import firmware
from hitl.interface import Interface, load_interface
from hitl.protocol.codec import Codec
from hitl.protocol.framing import Parser, ProtocolFrame
from hitl.protocol.line import Budget, wire_ns
from hitl.protocol.messages import MessageKind
from hitl.rigs.rig import (
    ADC_PINS,
    CLOCK_HZ,
    MOST_PULSES,
    NODE,
    NUMBER,
    PINS,
    Channel,
    Rig,
    RigBusDevice,
)
from hitl.rigs.wiring import Probe, WiredBoards
from hitl.worker.ending import refusal
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Period, Tag
from rtsim.engine.faults.line_kinds import LineFaults

# -- conversion between signals and raw values of pins

TAKING_CYCLES = 800
"""Cycles from the last byte of a request to the node's time stamp of this request.

The delay of an edge's time stamp is already subtracted. The value was measured on the emulator, and
``test_rig_illumination.py`` checks it.
"""
_WRAP = 1 << 32
_COUNTS = 1 << 16
_EDGES = ("rises", "falls")


def delay_ns(size: int, baud: int) -> int:
    """Return the time (ns) from the tag of a request to its time stamp in the node.

    The request has ``size`` bytes. The transmission of the request begins at the tag, with ``baud``
    bit/s.
    """
    return wire_ns(size, baud) + TAKING_CYCLES * NS_PER_S // CLOCK_HZ


class NodeWriter:
    """Convert signals to the raw values of pins."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._channels = rig.to_pins
        self._fields = tuple(c.field for c in rig.to_pins)
        self._signals = Signals(*(f.signal for f in self._fields))
        self._codec = Codec(self._fields)  # a byte each
        self._pins = [NUMBER[c.pin] for c in rig.to_pins]

    def drive(self, values: Vector) -> Vector:
        """Convert ``values`` (n,) to the raw values of all pins, shape (18,).

        Raises ``ControllerError`` for a value outside its limits, unless the signal saturates.
        """
        limited = [self._limited(c, float(v)) for c, v in zip(self._channels, values, strict=True)]
        data, refused = self._codec.pack(np.array(limited))
        if refused:
            text = refusal(self._rig.name, refused, self._signals, values, self._signals)
            raise ControllerError(text)
        out = np.zeros(len(PINS))
        out[self._pins] = np.frombuffer(data, np.uint8)
        return out

    def _limited(self, channel: Channel, value: float) -> float:
        signal = channel.field.signal
        if signal.low <= value <= signal.high:
            return value
        if channel.field.overflow == "saturate" and value == value:
            return min(max(value, signal.low), signal.high)
        raise ControllerError(
            f"{channel.name} = {value:g} {signal.unit} is outside its limits at "
            f"{channel.pin}, {signal.low:g} to {signal.high:g}; correct its source, or let it "
            "saturate (overflow = 'saturate')"
        )


class NodeReader:
    """Convert answers of the node to signals.

    The times of edges are converted to simulated time (s). The node stamps each edge and each
    request with its own clock. A request is sent at its tag, so the simulated time of its stamp is
    known. The time of an edge follows from the difference between both stamps. The node's clock
    must therefore be accurate only from one request to the next.

    A repeated request has several possible times of arrival. The stamp in the answer shows which
    one is correct.
    """

    def __init__(self, rig: Rig, outputs: Signals, request_ns: int) -> None:
        self._channels = rig.from_pins
        self._pulse = {pin: k for k, pin in enumerate(rig.pulse_pins)}
        self._at = {s.name: outputs.slice(s.name) for s in outputs}
        self._request_ns = request_ns
        self._seen: dict[str, list[int]] = {}
        self._counts = [0] * MOST_PULSES
        self._taken: tuple[int, int] | None = None
        """Latest time stamp of a request, as simulated time (ns) and as cycles of the node."""
        self._times = {c.name: float(c.field.signal.initial) for c in rig.from_pins}  # type: ignore[arg-type]
        self.silences = 0

    def values(self, tag: Tag, found: Vector, begun_ns: Sequence[int] = (0,)) -> Vector:
        """Return the signals (n,) in an answer of the node to the request of ``tag``.

        ``begun_ns`` contains the times (ns after the tag) at which the request and its repetitions
        were sent.
        """
        node = {name: found[where].astype(np.int64).tolist() for name, where in self._at.items()}
        self.silences += (node["silences"][0] - self.silences) % 256
        taken_ns = self._taken_ns(node["now"][0], [tag.ns + self._request_ns + b for b in begun_ns])
        if not self._seen:  # edges before the start of the run do not count
            self._seen = {edge: node[edge] for edge in _EDGES}
        for edge in _EDGES:
            for k in range(MOST_PULSES):
                self._counts[k] += (node[edge][k] - self._seen[edge][k]) % _COUNTS
        out = [self._value(c, taken_ns, node) for c in self._channels]
        self._seen = {edge: node[edge] for edge in _EDGES}
        return np.array(out)

    def _taken_ns(self, cycles: int, copies_ns: list[int]) -> int:
        taken_ns = copies_ns[-1]
        if self._taken is not None:
            ns, before = self._taken
            expected = ns + (cycles - before) % _WRAP * NS_PER_S / CLOCK_HZ
            taken_ns = min(copies_ns, key=lambda copy_ns: abs(copy_ns - expected))
        self._taken = taken_ns, cycles
        return taken_ns

    def _value(self, channel: Channel, taken_ns: int, node: dict[str, list[int]]) -> float:
        place = channel.field
        if channel.kind == "digital_in":
            number = NUMBER[channel.pin]
            return float(node["levels"][number // 6] >> number % 6 & 1)
        if channel.kind == "adc_in":
            return node["analog"][ADC_PINS.index(channel.pin)] * place.scale + place.bias
        k = self._pulse[channel.pin]
        if channel.measure == "count":
            return float(self._counts[k])
        if channel.measure == "width":
            return node["width"][k] * place.scale
        edges = f"{channel.measure}s"
        if node[edges][k] != self._seen[edges][k]:
            age = (node["now"][0] - node[channel.measure][k] + _WRAP // 2) % _WRAP - _WRAP // 2
            self._times[channel.name] = (taken_ns - age * NS_PER_S / CLOCK_HZ) / NS_PER_S
        return self._times[channel.name]


class BusDevices:
    """The bus devices of a rig, connected to its boards. All boards are at cycle 0."""

    def __init__(self, rig: Rig, boards: Mapping[str, EmulatedBoard]) -> None:
        self._signals = rig.bus_signals
        self._faults = rig.bus_faults
        self._ends: dict[str, I2cEnd | SpiEnd] = {}
        self._of: dict[str, str] = {}
        """Board and bus of each device, by the name of the device."""
        for at in dict.fromkeys(d.at for d in rig.bus_devices):
            rows = [d for d in rig.bus_devices if d.at == at]
            self._of |= {d.name: at for d in rows}
            board, bus = boards[rows[0].board], rows[0].bus
            placed = [Placed(d.name, _made(d), d.address, d.select, d.pins) for d in rows]
            self._ends[at] = ENDS[board.description.bus(bus).kind](board, bus, placed)
        self._at = [self._ends[self._of[s.device]] for s in self._signals]

    def begin(self) -> None:
        for at, end in self._ends.items():
            end.begin()
            end.faults.extend(fault.fault for fault in self._faults if fault.bus == at)

    def set(self, values: Iterable[float]) -> None:
        """Set the quantities of the bus devices.

        Raises :class:`ControllerError` for a value that is not finite.
        """
        for signal, end, value in zip(self._signals, self._at, values, strict=True):
            end.set(signal.device, signal.quantity, value * signal.scale + signal.offset)

    @property
    def acted(self) -> list[int]:
        """Number of operations that each fault has changed."""
        return [self._ends[fault.bus].acted[fault.fault] for fault in self._faults]

    @property
    def idle(self) -> list[str]:
        """For each fault, the reason why it had no effect, or ""."""
        return [self._ends[fault.bus].why_idle(fault.fault) for fault in self._faults]

    @property
    def unused(self) -> dict[str, str]:
        """Sentences about the devices without any transfer, by name."""
        found = {name: self._ends[at].why_unused(name) for name, at in self._of.items()}
        return {name: text for name, text in found.items() if text}


def _made(device: RigBusDevice) -> BusDevice:
    made = DEVICES[device.kind](device.options)
    for name, value in device.constants:
        made.set(name, value)
    return made


def node_interface(
    period: Period | None = None, board: BoardDescription = DEFAULT_BOARD
) -> Interface:
    """Return the interface of the firmware of the I/O node.

    The signals are the same on every board. ``period`` replaces the period in the interface file.
    Raises ``ScenarioError`` for a board that cannot be an I/O node.
    """
    if board.io_node is None:
        raise ScenarioError(
            f"the firmware of the I/O node does not run on {board.phrase}; use {DEFAULT_URL}"
        )
    interface = load_interface(board.io_node.interface)
    return interface if period is None else replace(interface, period=period)


def wired_boards(rig: Rig, probe: Probe | None = None) -> WiredBoards:
    """Start the emulated boards of a rig, and connect them.

    ``probe`` is called whenever a voltage between boards changes. Raises ``InterfaceError`` for a
    sketch with errors, and ``hitl.boards.contract.BoardError`` if a board cannot be started.
    """
    image = firmware(
        node_interface(board=rig.description), baud=rig.baud, board=rig.description
    ).path
    images = rig.images()
    boards: dict[str, EmulatedBoard] = {}
    try:
        boards[NODE] = open_board(rig.url, image)
        for device in rig.devices:
            boards[device.name] = open_board(device.board, images[device.name])
        slice_cycles = rig.slice_ns * CLOCK_HZ // NS_PER_S
        return WiredBoards(boards, rig.wires, slice_cycles, probe)
    except BaseException:
        for board in boards.values():
            board.close()
        raise


class RigController:
    """A controller whose signals are at the pins of a rig.

    Args:
        rig: The rig, from :func:`hitl.rigs.load_rig`.
        period: Period of the replaced controller, for the time budget of the line.
        paced: If true, the rig runs by the wall clock.
        silence: Longest time without an answer to a request, s.
        patience: Longest time for connecting, starting and stopping, s.
        probe: Function that is called with each voltage between emulated boards.
    """

    outside = True

    def __init__(
        self,
        rig: Rig,
        period: Period,
        *,
        paced: bool = False,
        silence: float = 10.0,
        patience: float = 5.0,
        probe: Probe | None = None,
    ) -> None:
        self.rig = rig
        self.interface = rig.interface(period)
        self.inputs: Signals = self.interface.inputs
        self.outputs: Signals = self.interface.outputs
        self.parameters = Signals()
        self.name = rig.name
        self.silence, self.patience = silence, patience
        self.own_time = not paced
        self._period, self._probe = period, probe
        self._emulated = parse_url(rig.board).emulated
        if rig.bus_devices and not self._emulated:
            names = ", ".join(device.name for device in rig.bus_devices)
            raise ScenarioError(
                f"{rig.name} has simulated bus devices ({names}), which need emulated boards, but "
                f"{rig.board} is a real board; use {DEFAULT_URL}"
            )
        if self._emulated:
            rig.images()  # report errors of the compiler now, not at the start of the run
        self._prepare()

    def _prepare(self) -> None:
        rig = self.rig
        self.boards: WiredBoards | None = None
        """The emulated boards; ``None`` before they run, and for a real I/O node."""
        self.buses: BusDevices | None = None
        """The bus devices at the emulated boards."""
        self.last: dict[str, float] = {}
        """Latest value of each signal that was written or read, by name."""
        node = node_interface(self._period, rig.description)
        self.node = BoardController(
            node, rig.parameters(), url=rig.url, link=self._wired if self._emulated else None,
            silence=self.silence, patience=self.patience, cases=None, paced=not self.own_time,
        )  # fmt: skip
        self._writer = NodeWriter(rig)
        board = rig.description
        budget = Budget.of(node, rig.baud, clock_hz=board.clock_hz, line=board.line)
        self._reader = NodeReader(rig, self.node.outputs, delay_ns(budget.request_bytes, rig.baud))

    def _wired(self) -> WiredBoards:
        boards = wired_boards(self.rig, self._probe)
        try:
            self.buses = BusDevices(self.rig, boards.boards)
        except BaseException:
            boards.close()
            raise
        self.boards = boards
        return boards

    def fresh(self) -> Self:
        """Return a new controller of the same rig.

        The boards are on, the pins have their fail-safe values, and the settling time has passed.
        """
        out = copy(self)
        out._prepare()
        out.node = out.node.fresh()
        if out.boards is not None:
            out.boards.advance(self.rig.settle_ns * CLOCK_HZ // NS_PER_S)
            out._refuse_protocol(out.boards)
            out.anchor(Tag(0))
            if out.buses is not None:
                out.buses.begin()
        return out

    def _refuse_protocol(self, boards: WiredBoards) -> None:
        for device in self.rig.devices:
            for found in Parser().feed(boards.boards[device.name].receive()):
                if isinstance(found, ProtocolFrame) and found.kind == MessageKind.RESET:
                    self.close()
                    raise self.rig.error(
                        device,
                        f"{device.firmware} is the firmware of a controller with rtsim's protocol, "
                        "which uses no pins; give a sketch that does, such as "
                        f'firmware = "{device.name}.ino", or run the controller with rtsim pitl',
                    )

    def describe(self) -> dict[str, object]:
        return {
            "type": type(self).__name__,
            "rig": str(self.rig.path),
            "schema": f"{self.interface.schema:016x}",
            "node": self.node.describe(),
        }

    def send(self, tag: Tag, inputs: Vector) -> None:
        """Write the inputs to the pins and to the bus devices.

        Raises ``ControllerError`` for a value outside its limits.
        """
        count = len(self.rig.to_pins)
        drive = self._writer.drive(inputs[:count])
        if self.buses is not None and self.rig.bus_devices:
            self.advance(tag)
            self.buses.set(inputs[count:].tolist())
        self.last.update(zip(self.inputs.names, inputs.tolist(), strict=True))
        self.node.send(tag, drive)

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        found = self.node.receive(tag, patience)
        if found is None:
            return None
        values = self._reader.values(tag, found, self.node.begun_ns)
        self.last.update(zip(self.outputs.names, values.tolist(), strict=True))
        return values

    def spoil(self, line: LineFaults) -> None:
        """Apply faults to the bytes on the line of the I/O node."""
        self.node.spoil(line)

    def advance(self, tag: Tag) -> None:
        self.node.advance(tag)

    def anchor(self, tag: Tag) -> None:
        self.node.anchor(tag)

    def stamps(self) -> tuple[int, ...]:
        return self.node.stamps()

    def silent(self, tag: Tag) -> ControllerError:
        return self.node.silent(tag)

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:
        return self.node.explained(tag, error)

    @property
    def free_running(self) -> bool:
        """True if the rig cannot pause together with the simulation."""
        return self.rig.free_running and not self.rig.hold

    @property
    def took_ns(self) -> array[int]:
        """Execution time of each step in the I/O node, ns."""
        return self.node.took_ns

    @property
    def budget(self) -> Budget:
        """Time budget of an exchange with the I/O node, from the longest step so far."""
        return self.node.budget

    @property
    def repeated(self) -> int:
        """Number of repeated requests."""
        return self.node.counts.repeated

    @property
    def silences(self) -> int:
        """How often the node's watchdog has set the fail-safe values."""
        return self._reader.silences

    def close(self) -> None:
        self.node.close()
