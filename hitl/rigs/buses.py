"""Read ``[bus_devices.NAME]`` and ``[[bus_faults]]`` of a rig file.

::

    [bus_devices.imu]
    kind = "mpu6050"
    bus = "controller.i2c"              # a board of [devices], and its bus
    address = 0x68                      # I2C; an SPI device has select = "D10"
    pins = { int = "D2" }               # outputs of the device, and the board's pins
    options = {}                        # such as vref of an mcp3008

    [bus_devices.imu.quantities]
    gyro_y = { signal = "rate", unit = "rad/s", scale = 57.29577951308232 }  # deg/s = scale * value
    temperature = 30                    # a constant, in the unit of the device

    [[bus_faults]]
    bus = "controller.i2c"
    kind = "stuck_sda"                  # or nack_address, nack_data, wrong_byte
    begin = 0.5                         # s of the run
    end = 0.55                          # without it: the end of the run
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hitl.boards import parse_url
from hitl.boards.description import BoardDescription
from hitl.bus_devices import DEVICES
from hitl.bus_devices.device import KINDS, BusDevice, BusFault, I2cDevice, Quantity
from hitl.interface.fields import Field, number
from hitl.interface.lines import InterfaceError, Lines, Table
from hitl.rigs.rig import NODE, BusSignal, Rig, RigBusDevice, RigBusFault
from rtsim.core.errors import RtsimError, UnknownName
from rtsim.core.signals import Signal
from rtsim.core.tag import to_ns

_KEYS = ("kind", "bus", "address", "select", "pins", "options", "quantities")
_SIGNAL_KEYS = ("signal", "unit", "scale", "offset", "description")
_FAULT_KEYS = ("bus", "kind", "begin", "end", "device", "mask")
_GENERAL = range(0x08, 0x78)
"""I2C addresses that no standard reserves."""


def read_buses(lines: Lines, devices: dict[str, Any], faults: object, rig: Rig) -> Rig:
    """Return ``rig`` with the bus devices and the faults of its file.

    Raises :class:`InterfaceError` with the line of a wrong entry.
    """
    placed: list[RigBusDevice] = []
    for name, row in devices.items():
        if not isinstance(row, dict) or not name.isidentifier():
            text = f"{name} is not a bus device; write a table [bus_devices.NAME] with kind = '...'"
            raise lines.error("bus_devices", name, text)
        one = _Reader(lines, name, row, rig).device()
        _check_apart(lines, one, placed, rig)
        placed.append(one)
    out = replace(rig, bus_devices=tuple(placed))
    return replace(out, bus_faults=tuple(_faults(lines, faults, out)))


class _Reader:
    """Reads one table ``[bus_devices.NAME]``."""

    def __init__(self, lines: Lines, name: str, row: dict[str, Any], rig: Rig) -> None:
        self.name, self.rig, self.lines = name, rig, lines
        self.table = Table(lines, f"bus_devices.{name}", row, _KEYS)

    def device(self) -> RigBusDevice:
        key = "kind"
        try:
            made = DEVICES.get_or_raise(self.table.text("kind"))
            key = "options"
            device = made(self._options())
            key = "bus"
            board, bus, description = self._bus(made)
            key = "address" if made.bus == "i2c" else "select"
            address, select = self._place(made, description)
            key = "pins"
            pins = self._pins(made, description)
        except InterfaceError:
            raise
        except RtsimError as error:
            raise self.table.error(key, f"{self.name}: {error}") from None
        signals, constants = self._quantities(made)
        return RigBusDevice(
            self.name, self.table.text("kind"), board, bus, address, select, pins,
            device.option, signals, constants,
        )  # fmt: skip

    def _options(self) -> dict[str, float]:
        return dict(self.table.table("options"))

    def _bus(self, made: type[BusDevice]) -> tuple[str, str, BoardDescription]:
        """Return the board and the bus of ``bus = "BOARD.BUS"``, and the board's description."""
        text = self.table.text("bus")
        board, bus, at = bus_at(text, self.rig)
        if at.bus(bus).kind != made.bus:
            fit = ", ".join(f"{board}.{n}" for n, b in at.buses.items() if b.kind == made.bus)
            raise RtsimError(
                f"{text} is a bus of kind {at.bus(bus).kind}, but {self.table.text('kind')} is at "
                f"a bus of kind {made.bus}; choose {fit or 'another board'}"
            )
        return board, bus, at

    def _place(self, made: type[BusDevice], at: BoardDescription) -> tuple[int, str]:
        """Return the address of an I2C device, or the select pin of an SPI device."""
        wrong = "select" if issubclass(made, I2cDevice) else "address"
        if wrong in self.table.data:
            raise self.table.error(wrong, f"{wrong} does not apply to {made.bus}; remove it")
        if not issubclass(made, I2cDevice):
            select = self.table.text("select")
            at.pin(select)
            return 0, select
        address = self.table.data.get("address", made.address)
        allowed = made.addresses or _GENERAL
        if isinstance(address, bool) or address not in allowed:
            named = ", ".join(f"0x{a:02x}" for a in made.addresses) or "0x08 to 0x77"
            raise RtsimError(f"address = {address!r} is not valid; choose {named}")
        return address, ""

    def _pins(self, made: type[BusDevice], at: BoardDescription) -> dict[str, str]:
        pins = self.table.table("pins")
        for output, pin in pins.items():
            if output not in made.outputs:
                raise UnknownName("output", output, made.outputs)
            at.pin(str(pin))
        return {output: str(pin) for output, pin in pins.items()}

    def _quantities(
        self, made: type[BusDevice]
    ) -> tuple[tuple[BusSignal, ...], tuple[tuple[str, float], ...]]:
        """Return the signals that set quantities, and the quantities that are constant."""
        known = {q.name: q for q in made.quantities}
        signals, constants = [], []
        where = f"bus_devices.{self.name}.quantities"
        for name, row in self.table.table("quantities").items():
            try:
                if name not in known:
                    raise UnknownName("quantity", name, known, self.name)
                if isinstance(row, dict):
                    signals.append(self._signal(known[name], row, self.lines.of(where, name)))
                else:
                    constants.append((name, _finite(row, name)))
            except (TypeError, ValueError, ZeroDivisionError, RtsimError) as error:
                raise self.lines.error(where, name, f"{name}: {error}") from None
        return tuple(signals), tuple(constants)

    def _signal(self, quantity: Quantity, row: Mapping[str, Any], line: int) -> BusSignal:
        for key in row:
            if key not in _SIGNAL_KEYS:
                raise UnknownName("key", key, _SIGNAL_KEYS)
        name, unit = row.get("signal", quantity.name), row.get("unit", quantity.unit)
        description = row.get("description", quantity.description)
        if not all(isinstance(text, str) for text in (name, unit, description)):
            raise ValueError("signal, unit and description are texts; write signal = 'rate'")
        scale, offset = (
            _finite(row.get("scale", 1), "scale"),
            _finite(row.get("offset", 0), "offset"),
        )
        signal = Signal(name, unit, description=description)
        return BusSignal(Field(signal, name, True, line), self.name, quantity.name, scale, offset)


def _finite(value: object, name: str) -> float:
    found = number(value)
    if not math.isfinite(found):
        raise ValueError(f"{name} = {value!r} is not finite; give a finite number")
    return found


def bus_at(text: str, rig: Rig) -> tuple[str, str, BoardDescription]:
    """Return the board, the bus and the board's description of ``text``, such as ``imu.i2c``.

    Raises :class:`RtsimError` if there is no such bus, or if its emulator has no buses.
    """
    boards = {d.name: d.board for d in rig.devices}
    board, _, bus = text.partition(".")
    if board == NODE or board not in boards:
        raise UnknownName("board", board, boards, "[devices]")
    at = parse_url(boards[board])
    at.description.bus(bus)
    if not at.description.emulators[at.backend].buses:
        fit = [name for name, emulator in at.description.emulators.items() if emulator.buses]
        raise RtsimError(
            f"the emulator {at.backend} has no buses; write board = "
            f'"{at.description.url}?backend={fit[0]}" in [devices.{board}]'
            if fit
            else f"no emulator of {at.description.phrase} has buses"
        )
    return board, bus, at.description


def _check_apart(lines: Lines, one: RigBusDevice, others: Iterable[RigBusDevice], rig: Rig) -> None:
    """Check that no other device has the same address, select pin, driven pin or signal."""
    table = f"bus_devices.{one.name}"
    driven = {w.target.pin for w in rig.wires if w.target.board == one.board}
    for pin in one.pins.values():
        if pin in driven:
            raise lines.error(table, "pins", f"a wire already drives {one.board}.{pin}")
    names = {c.name for c in rig.channels}
    for other in others:
        names |= {s.name for s in other.signals}
        if other.board != one.board:
            continue
        if other.bus == one.bus and (other.address, other.select) == (one.address, one.select):
            key = "select" if one.select else "address"
            where = one.select or f"0x{one.address:02x}"
            raise lines.error(table, key, f"{other.name} is already at {where} of {one.at}")
        if taken := set(other.pins.values()) & set(one.pins.values()):
            raise lines.error(table, "pins", f"{other.name} already drives {min(taken)}")
    for signal in one.signals:
        if signal.name in names:
            text = f"the signal {signal.name} exists already; give the signal another name"
            raise lines.error(f"{table}.quantities", signal.quantity, text)
        names.add(signal.name)


def _faults(lines: Lines, rows: object, rig: Rig) -> Iterable[RigBusFault]:
    if not isinstance(rows, list):
        text = "bus_faults is not a list of tables; write each fault under a line [[bus_faults]]"
        raise lines.error("", "bus_faults", text)
    for element, row in enumerate(rows):
        try:
            yield _fault(row, rig)
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, RtsimError) as error:
            text = f"bus fault {element + 1}: {error}"
            raise lines.error("", "bus_faults", text, element) from None


def _fault(row: Any, rig: Rig) -> RigBusFault:
    if not isinstance(row, dict):
        raise ValueError('the fault is not a table; write kind = "stuck_sda"')
    for key in row:
        if key not in _FAULT_KEYS:
            raise UnknownName("key", key, _FAULT_KEYS)
    kind, bus, device = row.get("kind"), str(row.get("bus", "")), row.get("device", "")
    if kind not in KINDS:
        raise UnknownName("kind", str(kind), KINDS)
    there = {d.name: d for d in rig.bus_devices if d.at == bus}
    if not there:
        raise UnknownName("bus", bus, dict.fromkeys(d.at for d in rig.bus_devices))
    if bus_at(bus, rig)[2].bus(bus.partition(".")[2]).kind != "i2c" and kind != "wrong_byte":
        raise ValueError(f"{kind} is a fault of I2C, but {bus} is SPI; choose wrong_byte")
    if device and (kind == "stuck_sda" or device not in there):
        if kind == "stuck_sda":
            raise ValueError("stuck_sda holds the line for all devices; remove device")
        raise UnknownName("device", str(device), there, bus)
    mask = row.get("mask", 0xFF)
    if "mask" in row and kind != "wrong_byte":
        raise ValueError(f"mask applies only to wrong_byte, not to {kind}; remove it")
    if isinstance(mask, bool) or not isinstance(mask, int) or not 1 <= mask <= 0xFF:
        raise ValueError(f"mask = {mask!r} is not valid; give an integer from 0x01 to 0xff")
    begin, end = to_ns(_finite(row.get("begin", 0), "begin")), row.get("end")
    end_ns = None if end is None else to_ns(_finite(end, "end"))
    if begin < 0 or (end_ns is not None and end_ns <= begin):
        raise ValueError(f"begin = {row.get('begin', 0)!r} and end = {end!r} allow no time")
    return RigBusFault(bus, BusFault(str(kind), begin, end_ns, str(device), mask))
