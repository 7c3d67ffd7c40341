"""Read rig files: TOML files that describe the signals and devices at the pins of an I/O node.

::

    name = "illumination"
    watchdog = 0.1                     # s of silence until the fail-safe values are set

    [node]
    board = "board:NAME"               # or serial:///dev/ttyACM0
    baud = 500000

    [to_pins]
    light = { pin = "D3", kind = "pwm_out", unit = "lx", per_duty = 1000, high = 1000, safe = 1000 }

    [from_pins]
    lamp = { pin = "D2", kind = "digital_in" }
    lamp_on_at = { pin = "D2", kind = "pulse_in", measure = "rise" }    # s

    [devices.sensor]                   # an emulated board with its own firmware
    firmware = "illumination.hex"      # or an Arduino sketch, such as "switch.ino"

    [[wires]]
    from = "node.D3"
    to = "sensor.A0"
    resistance = 10e3                  # ohm; forms a low pass with the capacitance
    capacitance = 1e-6                 # F

:mod:`hitl.rigs.buses` describes the tables ``[bus_devices.NAME]`` and ``[[bus_faults]]``.

Each signal to a pin has a fail-safe value.  All signals are limited by ``low`` and ``high``.
Errors name the line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hitl.boards import parse_url
from hitl.boards.description import BoardPins, IoNode, ranges
from hitl.boards.intel_hex import read_image
from hitl.boards.known import DEFAULT_URL
from hitl.interface.fields import OVERFLOW, Field, InterfaceError, exact_number, finite, value
from hitl.interface.file import is_sketch
from hitl.protocol.line import BaudRate
from hitl.rigs.buses import BUS_DEVICE, BUS_FAULT, read_buses
from hitl.rigs.rig import (
    ADC_STEPS,
    CLOCK_HZ,
    DUTY_STEPS,
    FROM_PINS,
    MEASURES,
    MOST_PULSES,
    NODE,
    SUPPLY_V,
    TO_PINS,
    Channel,
    LowPass,
    Rig,
    RigDevice,
    RigEnd,
    RigWire,
    unfit,
)
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Undeclared
from rtsim.core.tag import to_ns
from rtsim.core.toml import (
    NEEDED,
    Entries,
    Key,
    Lines,
    ListKey,
    choice,
    flag,
    named,
    open_toml,
    read,
    table,
    text,
    whole,
)

# -- entries of [to_pins] and [from_pins]

_COMMON = {
    "pin": text(wanted='a pin, such as "D2"'),
    "unit": text(None, empty=True),
    "offset": finite(0.0),
    "low": value(-math.inf),
    "high": value(math.inf),
    "initial": value(None),
    "description": text("", empty=True),
}
TO_PIN = {
    **_COMMON,
    "kind": choice(TO_PINS, what="kind"),
    "per_duty": finite(None),
    "safe": value(None),
    "overflow": choice(OVERFLOW, OVERFLOW[0], "overflow"),
}
FROM_PIN = {
    **_COMMON,
    "kind": choice(FROM_PINS, what="kind"),
    "per_volt": finite(None),
    "measure": choice(MEASURES, None, "measure"),
    "pull_up": flag(),
}
_ONLY = {
    "per_duty": ("pwm_out",), "per_volt": ("adc_in",), "measure": ("pulse_in",),
    "pull_up": ("digital_in", "pulse_in"),
}  # fmt: skip
_NEVER = -1.0
"""Initial value of an edge time (s), which applies until the first edge."""


def read_channel(name: str, row: Entries, node: IoNode) -> Channel:
    """Return the channel of a signal; ``row`` is its table in the rig file.

    ``node`` describes the abilities of the pins. Raises :class:`InterfaceError` with the line of
    the signal.
    """
    kind, pin = row["kind"], row["pin"]
    if why := unfit(pin, kind, node):
        raise row.error("pin", why)
    for key, kinds in _ONLY.items():
        if key in row.given and kind not in kinds:
            raise row.error(key, f"{key} applies only to {kinds[0]}, not to {kind}; remove it")
    measure = row["measure"] if kind == "pulse_in" else ""
    if measure is None:
        raise row.error("measure", f"measure is missing; write {FROM_PIN['measure'].wanted}")
    type, scale, unit, initial = _raw(kind, measure, row)
    low, high, bias = row["low"], row["high"], row["offset"]
    if not low <= high:
        raise row.error("low", f"low = {low:g} and high = {high:g} allow no value")
    if bias and (type == "bool" or measure):
        raise row.error("offset", "offset applies only to pwm_out and adc_in; remove it")
    with row.checking():
        signal = Signal(
            name, unit if row["unit"] is None else row["unit"], type=type,
            initial=Undeclared(initial) if row["initial"] is None else row["initial"],
            low=low, high=high, description=row["description"],
        )  # fmt: skip
    overflow = row.get("overflow", OVERFLOW[0])
    place = Field(signal, name, True, row.place.line(), scale, bias, overflow)
    safe = _safe(place, row) if kind in TO_PINS else 0.0
    return Channel(place, pin, kind, measure, safe, row.get("pull_up", False))


def _raw(kind: str, measure: str, row: Entries) -> tuple[str, float, str, float]:
    if kind in ("digital_out", "digital_in"):
        return "bool", 1.0, "1", 0.0
    if kind == "pwm_out":
        return "uint8", _per(row, "per_duty", "value at a duty of 1") / DUTY_STEPS, "1", 0.0
    if kind == "adc_in":
        return "uint16", _per(row, "per_volt", "value of 1 V") * SUPPLY_V / ADC_STEPS, "1", 0.0
    if measure == "count":
        return "uint16", 1.0, "1", 0.0
    return "uint32", 1.0 / CLOCK_HZ, "s", 0.0 if measure == "width" else _NEVER


def _per(row: Entries, key: str, what: str) -> float:
    found: float | None = row[key]
    if not found:
        given = "is missing" if found is None else "= 0 is not valid"
        raise row.error(key, f"{key} {given}; write the {what}, such as {key} = 1000")
    return found


def _safe(place: Field, row: Entries) -> float:
    safe, signal = row["safe"], place.signal
    if safe is None:
        raise row.error(
            "safe", "safe is missing; write the value that the pin gets while the host is silent"
        )
    if not signal.low <= safe <= signal.high:
        text = f"safe = {safe:g} is outside the signal's range [{signal.low:g}, {signal.high:g}]"
        raise row.error("safe", text)
    if signal.type == "bool":
        return float(safe != 0.0)
    steps = (safe - place.bias) / place.scale if place.scale else math.inf  # 5e-324 / 255 is 0
    if not -0.5 <= steps <= DUTY_STEPS + 0.5:
        most = DUTY_STEPS * place.scale + place.bias
        text = (
            f"safe = {safe:g} is outside the pin's range: {place.bias:g} (duty cycle 0) to "
            f"{most:g} (duty cycle 1)"
        )
        raise row.error("safe", text)
    return float(round(steps))


# -- [[wires]]

_END = text(wanted=f'a pin of a board, such as "{NODE}.D3"')
_POSITIVE = finite(None, "a finite number > 0")
WIRE = {"from": _END, "to": _END, "resistance": _POSITIVE, "capacitance": _POSITIVE}


def read_wires(rows: Iterable[Entries], rig: Rig) -> Rig:
    """Return ``rig`` with the wires that the tables ``rows`` describe."""
    wires: list[RigWire] = []
    for row in rows:
        wire = _wire(row, rig)
        if any(w.target == wire.target for w in wires):
            text = (
                f"another wire already drives the pin {wire.target}; connect this wire to another "
                "pin"
            )
            raise row.error("to", text)
        if any(w.source == wire.target for w in wires):
            text = (
                f"the pin {wire.target} already drives another wire, so no wire can drive this "
                "pin; use another pin"
            )
            raise row.error("to", text)
        wires.append(wire)
    return replace(rig, wires=tuple(wires))


def _wire(row: Entries, rig: Rig) -> RigWire:
    source, target = _end(row, "from", rig), _end(row, "to", rig)
    wire = RigWire(source, target, _low_pass(row))
    if source.board == target.board:
        text = (
            f"the wire from {source} to {target} connects two pins of one board; a wire must "
            "connect two boards"
        )
        raise row.error("to", text)
    with row.checking():
        _fits(wire, rig)
    return wire


def _end(row: Entries, key: str, rig: Rig) -> RigEnd:
    board, dot, pin = row[key].partition(".")
    if not dot or "." in pin:
        text = f'{key} = {row[key]!r} is not a pin of a board; write {key} = "{NODE}.D3"'
        raise row.error(key, text)
    with row.checking(key):
        known = (NODE, *(d.name for d in rig.devices))
        if board not in known:
            raise UnknownName("board", board, known)
        numbers = _pins(board, rig).numbers
        if pin not in numbers:
            raise UnknownName("pin", pin, numbers, board)
    return RigEnd(board, pin)


def _pins(board: str, rig: Rig) -> BoardPins:
    urls = {NODE: rig.board, **{d.name: d.board for d in rig.devices}}
    return parse_url(urls[board]).description.require_pins()


def _low_pass(row: Entries) -> LowPass | None:
    given = [key for key in ("resistance", "capacitance") if key in row.given]
    if len(given) == 1:
        text = f"only {given[0]} is given; a low pass needs both resistance and capacitance"
        raise row.error(given[0], text)
    if not given:
        return None
    part = LowPass(row["resistance"], row["capacitance"])
    if part.resistance <= 0.0 or part.capacitance <= 0.0:
        text = (
            f"resistance = {part.resistance:g} ohm and capacitance = {part.capacitance:g} F are "
            "not valid; both must be finite and > 0"
        )
        raise row.error("resistance", text)
    return part


def _fits(wire: RigWire, rig: Rig) -> None:
    channels_there = _pins(wire.target.board, rig).channels
    if wire.low_pass is not None and wire.target.pin not in channels_there:
        raise ValueError(
            f"{wire.target} has no ADC channel; a low pass must end at {ranges(channels_there)}"
        )
    high, most = (_pins(end.board, rig).volts for end in (wire.source, wire.target))
    if high > most:
        raise ValueError(
            f"{wire.source} drives {high:g} V, but {wire.target} takes at most {most:g} V; a wire "
            "must not exceed the supply voltage of the board at its end"
        )
    for end, kinds, does in ((wire.source, TO_PINS, "drives"), (wire.target, FROM_PINS, "reads")):
        if end.board != NODE:
            continue
        channels = list(rig.at(end.pin))
        if not any(c.kind in kinds for c in channels):
            if not channels:
                raise ValueError(_no_row(end.pin, rig, does == "drives"))
            named = ", ".join(f"{c.kind} of {c.name}" for c in channels)
            raise ValueError(
                f"{end} is {named}, but this wire must connect to a pin that the I/O node "
                f"{does}; use another pin"
            )
        if does == "drives" and wire.low_pass is None and channels[0].kind == "pwm_out":
            raise ValueError(f"the PWM at {end} needs a low pass; give resistance and capacitance")


def _no_row(pin: str, rig: Rig, driven: bool) -> str:
    table, rows = ("to_pins", rig.to_pins) if driven else ("from_pins", rig.from_pins)
    pins = list(dict.fromkeys(c.pin for c in rows))
    there = f"; {', '.join(pins)} {'has' if len(pins) == 1 else 'have'} a signal" if pins else ""
    return f"{pin} has no signal in [{table}]{there}"


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
WATCHDOG_S = (0.002, 60.0)
SLICE_S = (1e-5, 1e-2)
DEFAULT_SLICE_S = 2e-4
SETTLE_S = (0.0, 60.0)


def _seconds(limits: tuple[float, float], default: Any = NEEDED) -> Key:
    low, high = limits

    def convert(given: Any) -> float:
        seconds = exact_number(given)
        if not low <= seconds <= high:
            raise ValueError
        return seconds

    return Key(f"seconds from {low:g} to {high:g}", default, convert)


_ROW = 'a table, such as { pin = "D2", kind = "..." }'
_DEVICE = {"firmware": text(wanted="the path of a file"), "board": text(DEFAULT_URL)}
_RIG = {
    "name": text(),
    "watchdog": _seconds(WATCHDOG_S),
    "hold": flag(),
    "node": table({"board": text(DEFAULT_URL), "baud": whole(1, default=None)}),
    "to_pins": named(table(TO_PIN, _ROW)),
    "from_pins": named(table(FROM_PIN, _ROW)),
    "devices": named(table(_DEVICE, "a table [devices.NAME] with firmware = '...'")),
    "wires": ListKey("each wire under a line [[wires]]", (), of=table(WIRE)),
    "emulation": table({
        "slice": _seconds(SLICE_S, DEFAULT_SLICE_S), "settle": _seconds(SETTLE_S, 0.0),
    }),
    "bus_devices": named(table(BUS_DEVICE, "a table [bus_devices.NAME] with kind = '...'")),
    "bus_faults": ListKey("each fault under a line [[bus_faults]]", (), of=table(BUS_FAULT)),
}  # fmt: skip


def load_rig(path: str | Path) -> Rig:
    """Read the rig file ``path``; raise :class:`InterfaceError` with file and line."""
    file = open_toml(Path(path), "a rig file", "illumination.toml", InterfaceError)
    return _Reader(file.path.resolve(), read(file.data, _RIG, file.place), file.lines).rig()


class _Reader:
    def __init__(self, path: Path, top: Entries, lines: Lines) -> None:
        self.path, self.top, self.lines = path, top, lines

    def rig(self) -> Rig:
        top = self.top
        board, baud, node = self._node()
        to_pins, from_pins = (
            tuple(read_channel(name, row, node) for name, row in top[key].items())
            for key in ("to_pins", "from_pins")
        )
        if not to_pins and not from_pins and not top["bus_devices"]:
            text = "[to_pins] and [from_pins] are missing; name at least one signal at a pin"
            raise top.error("to_pins", text)
        self._apart(to_pins, from_pins)
        if not _NAME.match(top["name"]):
            text = f"name {top['name']!r} is not an identifier of at most 63 letters, digits and _"
            raise top.error("name", text)
        rig = Rig(
            path=self.path,
            name=top["name"],
            board=board,
            baud=baud,
            watchdog_ms=round(1000 * top["watchdog"]),
            hold=top["hold"],
            to_pins=to_pins,
            from_pins=from_pins,
            devices=self._devices(),
            wires=(),
            slice_ns=to_ns(top["emulation"]["slice"]),
            settle_ns=to_ns(top["emulation"]["settle"]),
            lines=self.lines,
        )
        rig = read_wires(top["wires"], rig)
        return read_buses(top["bus_devices"], top["bus_faults"], rig)

    def _node(self) -> tuple[str, int, IoNode]:
        row = self.top["node"]
        url, baud = row["board"], row["baud"]
        with row.checking("board"):
            at = parse_url(url)
            board = at.description
            node = board.io_node
            if node is None:
                raise ScenarioError(
                    f"{board.phrase} cannot run the firmware of the I/O node; write board = "
                    f'"{DEFAULT_URL}"'
                )
            if at.baud is not None:
                raise ScenarioError(
                    f"{url} contains a baud rate; write baud = ... on a line of its own"
                )
        with row.checking("baud"):
            rate = BaudRate.of(board, board.line.baud if baud is None else baud)
            if not rate.good:
                raise ScenarioError(str(rate))
        return url, board.line.baud if baud is None else baud, node

    def _apart(self, to_pins: tuple[Channel, ...], from_pins: tuple[Channel, ...]) -> None:
        driven: dict[str, Channel] = {}
        for channel in to_pins:
            if other := driven.get(channel.pin):
                text = f"{channel.name}: {other.name} already drives {channel.pin}; use another pin"
                raise self.top["to_pins"].error(channel.name, text)
            driven[channel.pin] = channel
        read: dict[str, Channel] = {}
        for channel in from_pins:
            other = driven.get(channel.pin) or read.setdefault(channel.pin, channel)
            if other.node_kind is not channel.node_kind:
                text = (
                    f"{channel.name}: {channel.pin} is already used as {other.kind} by "
                    f"{other.name}; use another pin"
                )
                raise self.top["from_pins"].error(channel.name, text)
        stamped = dict.fromkeys(c.pin for c in from_pins if c.kind == "pulse_in")
        if len(stamped) > MOST_PULSES:
            last = next(c.name for c in from_pins if c.pin == list(stamped)[MOST_PULSES])
            text = f"{last}: the I/O node can time the edges of at most {MOST_PULSES} pins"
            raise self.top["from_pins"].error(last, text)
        names = {c.name for c in to_pins} & {c.name for c in from_pins}
        if names:
            name = min(names)
            text = f"{name} is also in [to_pins]; rename one of them"
            raise self.top["from_pins"].error(name, text)

    def _devices(self) -> tuple[RigDevice, ...]:
        out = []
        for name, row in self.top["devices"].items():
            if not _NAME.match(name) or name == NODE:
                text = f"write another name, because the name {NODE} is reserved for the I/O node"
                raise row.error("", text if name == NODE else f"{name!r} is not an identifier")
            firmware = (self.path.parent / row["firmware"]).resolve()
            if not firmware.is_file():
                text = f"there is no file {firmware}; paths are relative to {self.path.parent}"
                raise row.error("firmware", text)
            with row.checking("board"):
                if not parse_url(row["board"]).emulated:
                    raise ScenarioError(
                        f"{row['board']} is a real board, but a device must be emulated; write "
                        f"{DEFAULT_URL}"
                    )
            if not is_sketch(firmware):
                with row.checking("firmware"):
                    read_image(firmware, parse_url(row["board"]).description)
            out.append(RigDevice(name, row["board"], firmware))
        return tuple(out)
