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

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hitl.boards import parse_url
from hitl.boards.description import BoardDescription
from hitl.bus_devices import DEVICES
from hitl.bus_devices.device import KINDS, BusDevice, BusFault, I2cDevice, Quantity
from hitl.interface.fields import Field, finite
from hitl.rigs.rig import NODE, BusSignal, Rig, RigBusDevice, RigBusFault
from rtsim.core.errors import RtsimError, UnknownName
from rtsim.core.signals import Signal
from rtsim.core.tag import to_ns
from rtsim.core.toml import Entries, Key, Place, choice, named, table, text, whole

_QUANTITY = {
    "signal": text(None),
    "unit": text(None, empty=True),
    "scale": finite(1.0),
    "offset": finite(0.0),
    "description": text(None, empty=True),
}


class _QuantityKey(Key):
    def value(self, given: object, place: Place, name: str, element: int | None = None) -> Any:
        key = table(_QUANTITY) if isinstance(given, dict) else finite()
        return key.value(given, place, name, element)


BUS_DEVICE = {
    "kind": text(),
    "bus": text(wanted="a board of [devices] and its bus, such as imu.i2c"),
    "address": Key(default=None),
    "select": text(None, "the pin that selects the device"),
    "pins": named(text()),
    "options": named(Key()),
    "quantities": named(_QuantityKey()),
}
BUS_FAULT = {
    "bus": text(),
    "kind": choice(KINDS, what="kind"),
    "begin": finite(0.0),
    "end": finite(None),
    "device": text(""),
    "mask": replace(whole(1, 0xFF, None), wanted="an integer from 0x01 to 0xff"),
}
_GENERAL = range(0x08, 0x78)
"""I2C addresses that the standard does not reserve."""


def read_buses(devices: Mapping[str, Entries], faults: Iterable[Entries], rig: Rig) -> Rig:
    """Return a copy of ``rig`` with the bus devices and bus faults of a rig file.

    Raises ``InterfaceError`` for a wrong entry.
    """
    placed: list[RigBusDevice] = []
    for name, row in devices.items():
        if not name.isidentifier():
            raise row.error("", f"{name!r} is not an identifier of letters, digits and _")
        one = _device(name, row, rig)
        _check_apart(row, one, placed, rig)
        placed.append(one)
    out = replace(rig, bus_devices=tuple(placed))
    return replace(out, bus_faults=tuple(_fault(row, out) for row in faults))


def _device(name: str, row: Entries, rig: Rig) -> RigBusDevice:
    with row.checking("kind"):
        made = DEVICES.get_or_raise(row["kind"])
    with row.checking("options"):
        device = made(dict(row["options"]))
    with row.checking("bus"):
        board, bus, description = bus_at(row["bus"], rig)
        if description.bus(bus).kind != made.bus:
            buses = description.buses.items()
            fit = ", ".join(f"{board}.{n}" for n, b in buses if b.kind == made.bus)
            raise RtsimError(
                f"{row['bus']} is a bus of kind {description.bus(bus).kind}, but {row['kind']} is "
                f"at a bus of kind {made.bus}; choose {fit or 'another board'}"
            )
    address, select = _place(row, made, description)
    with row.checking("pins"):
        for output, pin in row["pins"].items():
            if output not in made.outputs:
                raise UnknownName("output", output, made.outputs)
            description.pin(pin)
    signals, constants = [], []
    known = {q.name: q for q in made.quantities}
    quantities = row["quantities"]
    for quantity, given in quantities.items():
        with quantities.checking(quantity):
            if quantity not in known:
                raise UnknownName("quantity", quantity, known, name)
            if isinstance(given, Entries):
                signals.append(_signal(name, known[quantity], given))
            else:
                constants.append((quantity, given))
    return RigBusDevice(
        name, row["kind"], board, bus, address, select, dict(row["pins"]), device.option,
        tuple(signals), tuple(constants),
    )  # fmt: skip


def _place(row: Entries, made: type[BusDevice], at: BoardDescription) -> tuple[int, str]:
    wrong = "select" if issubclass(made, I2cDevice) else "address"
    if wrong in row.given:
        raise row.error(wrong, f"{wrong} does not apply to {made.bus}; remove it")
    if not issubclass(made, I2cDevice):
        select = row["select"]
        if select is None:
            raise row.error("select", f"select is missing; write {BUS_DEVICE['select'].wanted}")
        with row.checking("select"):
            at.pin(select)
        return 0, select
    address = made.address if row["address"] is None else row["address"]
    if isinstance(address, bool) or address not in (made.addresses or _GENERAL):
        choices = ", ".join(f"0x{a:02x}" for a in made.addresses) or "0x08 to 0x77"
        raise row.error("address", f"address = {address!r} is not valid; choose {choices}")
    return address, ""


def _signal(device: str, quantity: Quantity, row: Entries) -> BusSignal:
    name = row["signal"] or quantity.name
    unit = quantity.unit if row["unit"] is None else row["unit"]
    about = quantity.description if row["description"] is None else row["description"]
    field = Field(Signal(name, unit, description=about), name, True, row.place.line())
    return BusSignal(field, device, quantity.name, row["scale"], row["offset"])


def bus_at(text: str, rig: Rig) -> tuple[str, str, BoardDescription]:
    """Return the board, the bus and the description for a text such as ``imu.i2c``.

    Raises ``RtsimError`` if the bus does not exist or cannot be emulated.
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


def _check_apart(row: Entries, one: RigBusDevice, others: Iterable[RigBusDevice], rig: Rig) -> None:
    driven = {w.target.pin for w in rig.wires if w.target.board == one.board}
    for pin in one.pins.values():
        if pin in driven:
            raise row.error("pins", f"a wire already drives {one.board}.{pin}")
    names = {c.name for c in rig.channels}
    for other in others:
        names |= {s.name for s in other.signals}
        if other.board != one.board:
            continue
        if other.bus == one.bus and (other.address, other.select) == (one.address, one.select):
            key = "select" if one.select else "address"
            where = one.select or f"0x{one.address:02x}"
            raise row.error(key, f"{other.name} is already at {where} of {one.at}")
        if taken := set(other.pins.values()) & set(one.pins.values()):
            raise row.error("pins", f"{other.name} already drives {min(taken)}")
    for signal in one.signals:
        if signal.name in names:
            text = f"the signal {signal.name} exists already; give the signal another name"
            raise row["quantities"].error(signal.quantity, text)
        names.add(signal.name)


def _fault(row: Entries, rig: Rig) -> RigBusFault:
    kind, bus, device = row["kind"], row["bus"], row["device"]
    there = {d.name: d for d in rig.bus_devices if d.at == bus}
    with row.checking("bus"):
        if not there:
            raise UnknownName("bus", bus, dict.fromkeys(d.at for d in rig.bus_devices))
        at = bus_at(bus, rig)[2].bus(bus.partition(".")[2])
    if at.kind != "i2c" and kind != "wrong_byte":
        raise row.error("kind", f"{kind} is a fault of I2C, but {bus} is SPI; choose wrong_byte")
    if device and kind == "stuck_sda":
        text = "stuck_sda acts on all devices of the bus, not on one; remove the key device"
        raise row.error("device", text)
    if device and device not in there:
        raise row.error("device", UnknownName("device", device, there, bus))
    if row["mask"] is not None and kind != "wrong_byte":
        raise row.error("mask", f"mask applies only to wrong_byte, not to {kind}; remove it")
    with row.checking():
        begin = to_ns(row["begin"])
        end = None if row["end"] is None else to_ns(row["end"])
    if begin < 0 or (end is not None and end <= begin):
        text = f"begin = {row['begin']:g} and end = {row['end']} allow no time"
        raise row.error("begin", text)
    return RigBusFault(bus, BusFault(kind, begin, end, device, row["mask"] or 0xFF))
