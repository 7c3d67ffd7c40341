"""The rig file: a TOML file that describes the signals and devices at the pins of an I/O node.

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
    firmware = "illumination.hex"

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

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hitl.boards import BoardError, parse_url
from hitl.boards.description import BoardPins, IoNode, ranges
from hitl.boards.known import DEFAULT_URL
from hitl.interface.fields import OVERFLOW, Field, number
from hitl.interface.lines import InterfaceError, Lines, Table
from hitl.protocol.line import BaudRate
from hitl.rigs.buses import read_buses
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
from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.signals import Signal
from rtsim.core.tag import to_ns
from rtsim.core.toml import open_toml

# Rows of ``[to_pins]`` and ``[from_pins]``

_COMMON = ("pin", "kind", "unit", "offset", "low", "high", "initial", "description")
TO_KEYS = (*_COMMON, "per_duty", "safe", "overflow")
FROM_KEYS = (*_COMMON, "per_volt", "measure", "pull_up")
_ONLY = {
    "per_duty": "pwm_out", "per_volt": "adc_in", "measure": "pulse_in", "pull_up": "digital_in",
}  # fmt: skip
_NEVER = -1.0
"""Initial value of the time of an edge, for use until the first edge, s."""


def read_channel(
    lines: Lines, table: str, name: str, row: object, keys: tuple[str, ...], node: IoNode
) -> Channel:
    """Read the signal ``name`` of ``[table]`` from ``row``, which may have the keys ``keys``.

    ``node`` says what the pins of the I/O node can do.
    Raises :class:`InterfaceError` with the signal's line for any error.
    """
    try:
        if not isinstance(row, dict):
            raise ValueError(
                f'the entry is not a table; write {name} = {{ pin = "D2", kind = "..." }}'
            )
        for key in row:
            _known("key", key, keys)
        kind = row.get("kind")
        _known("kind", kind, TO_PINS if table == "to_pins" else FROM_PINS)
        pin = row.get("pin")
        if why := unfit(str(pin), str(kind), node):
            raise ValueError(why)
        for key, of in _ONLY.items():
            if key in row and not (kind == of or (key == "pull_up" and kind == "pulse_in")):
                raise ValueError(f"{key} applies only to {of}, not to {kind}; remove it")
        return _channel(name, str(pin), str(kind), row, lines.of(table, name))
    except InterfaceError:
        raise
    except (TypeError, ValueError, ZeroDivisionError, OverflowError, RtsimError) as error:
        raise lines.error(table, name, f"{name}: {error}") from None


def _known(what: str, given: object, known: tuple[str, ...]) -> None:
    if given in known:
        return
    if given is None:
        raise ValueError(f"{what} is missing; choose {', '.join(known)}")
    near = difflib.get_close_matches(str(given), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"choose {', '.join(known)}"
    raise ValueError(f"unknown {what} {given!r}; {hint}")


def _channel(name: str, pin: str, kind: str, row: Mapping[str, Any], line: int) -> Channel:
    measure = row.get("measure", "")
    if kind == "pulse_in":
        _known("measure", row.get("measure"), MEASURES)
    type, scale, unit, initial = _raw(kind, measure, row)
    low, high = number(row.get("low", -math.inf)), number(row.get("high", math.inf))
    if not low <= high:
        raise ValueError(f"low = {low:g} and high = {high:g} allow no value; give low <= high")
    signal = Signal(
        name, _text(row, "unit", unit), type=type, initial=number(row.get("initial", initial)),
        low=low, high=high, description=_text(row, "description", ""),
    )  # fmt: skip
    overflow = row.get("overflow", OVERFLOW[0])
    _known("overflow", overflow, OVERFLOW)
    bias = number(row.get("offset", 0.0))
    if bias and (type == "bool" or measure):
        raise ValueError("offset applies only to pwm_out and adc_in; remove it")
    if not math.isfinite(bias):
        raise ValueError(f"offset = {bias:g} is not finite; give a finite number")
    place = Field(signal, name, True, line, scale, bias, overflow)
    safe = _safe(place, row) if kind in TO_PINS else 0.0
    pull_up = row.get("pull_up", False)
    if not isinstance(pull_up, bool):
        raise ValueError(f"pull_up = {pull_up!r} is not valid; write true or false")
    return Channel(place, pin, kind, measure, safe, pull_up)


def _raw(kind: str, measure: str, row: Mapping[str, Any]) -> tuple[str, float, str, float]:
    """Return the raw type, the value of a raw step, the default unit and the initial value."""
    if kind in ("digital_out", "digital_in"):
        return "bool", 1.0, "1", 0.0
    if kind == "pwm_out":
        return "uint8", _per(row, "per_duty", "value at a duty of 1") / DUTY_STEPS, "1", 0.0
    if kind == "adc_in":
        return "uint16", _per(row, "per_volt", "value of 1 V") * SUPPLY_V / ADC_STEPS, "1", 0.0
    if measure == "count":
        return "uint16", 1.0, "1", 0.0
    return "uint32", 1.0 / CLOCK_HZ, "s", 0.0 if measure == "width" else _NEVER


def _per(row: Mapping[str, Any], key: str, what: str) -> float:
    if key not in row:
        raise ValueError(f"{key} is missing; give the {what}, such as {key} = 1000")
    value = number(row[key])
    if not math.isfinite(value) or value == 0.0:
        raise ValueError(f"{key} = {value:g} is not valid; give a finite number other than 0")
    return value


def _text(row: Mapping[str, Any], key: str, default: str) -> str:
    value = row.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"{key} = {value!r} is not a text; write {key} = '...'")
    return value


def _safe(place: Field, row: Mapping[str, Any]) -> float:
    """Return the fail-safe value as a raw value."""
    if "safe" not in row:
        raise ValueError(
            "safe is missing; give the value that the pin gets while the host is silent"
        )
    safe, signal = number(row["safe"]), place.signal
    if not signal.low <= safe <= signal.high:
        raise ValueError(
            f"safe = {safe:g} is outside the signal's range [{signal.low:g}, {signal.high:g}]"
        )
    if signal.type == "bool":
        return float(safe != 0.0)
    raw = round((safe - place.bias) / place.scale)
    if not 0 <= raw <= DUTY_STEPS:
        most = DUTY_STEPS * place.scale + place.bias
        raise ValueError(
            f"safe = {safe:g} is outside the pin's range: {place.bias:g} (duty cycle 0) to "
            f"{most:g} (duty cycle 1)"
        )
    return float(raw)


# ``[[wires]]``

_KEYS = ("from", "to", "resistance", "capacitance")


def read_wires(lines: Lines, rows: object, rig: Rig) -> Rig:
    """Return ``rig`` with the wires that ``rows`` describe.

    Raises :class:`InterfaceError` with the line of the wrong ``[[wires]]``.
    """
    if not isinstance(rows, list):
        text = "wires is not a list of tables; write each wire under a line [[wires]]"
        raise lines.error("", "wires", text)
    wires: list[RigWire] = []
    for element, row in enumerate(rows):
        try:
            wire = _wire(row, rig)
            if any(w.target == wire.target for w in wires):
                raise ValueError(
                    f"another wire already drives the pin {wire.target}; connect this wire to "
                    "another pin"
                )
            if any(w.source == wire.target for w in wires):
                raise ValueError(
                    f"the pin {wire.target} already drives another wire, so no wire can drive "
                    "this pin; use another pin"
                )
        except InterfaceError:
            raise
        except (TypeError, ValueError, ZeroDivisionError, OverflowError, RtsimError) as error:
            raise lines.error("", "wires", f"wire {element + 1}: {error}", element) from None
        wires.append(wire)
    return replace(rig, wires=tuple(wires))


def _wire(row: Any, rig: Rig) -> RigWire:
    if not isinstance(row, dict):
        raise ValueError('the wire is not a table; write from = "node.D3" and to = "sensor.A0"')
    for key in row:
        if key not in _KEYS:
            raise UnknownName("key", key, _KEYS)
    source, target = _end(row, "from", rig), _end(row, "to", rig)
    wire = RigWire(source, target, _low_pass(row))
    if source.board == target.board:
        raise ValueError(
            f"the wire from {source} to {target} connects two pins of one board; a wire must "
            "connect two boards"
        )
    _fits(wire, rig)
    return wire


def _end(row: dict[str, Any], key: str, rig: Rig) -> RigEnd:
    text = row.get(key)
    if not isinstance(text, str) or text.count(".") != 1:
        raise ValueError(f'{key} = {text!r} is not a pin of a board; write {key} = "{NODE}.D3"')
    board, pin = text.split(".")
    known = (NODE, *(d.name for d in rig.devices))
    if board not in known:
        raise UnknownName("board", board, known)
    numbers = _pins(board, rig).numbers
    if pin not in numbers:
        raise UnknownName("pin", pin, numbers, board)
    return RigEnd(board, pin)


def _pins(board: str, rig: Rig) -> BoardPins:
    """Return the pins of the board that wires call ``board``."""
    urls = {NODE: rig.board, **{d.name: d.board for d in rig.devices}}
    return parse_url(urls[board]).description.require_pins()


def _low_pass(row: dict[str, Any]) -> LowPass | None:
    given = [key for key in ("resistance", "capacitance") if key in row]
    if not given:
        return None
    if len(given) == 1:
        raise ValueError(
            f"only {given[0]} is given; a low pass needs both resistance and capacitance"
        )
    part = LowPass(number(row["resistance"]), number(row["capacitance"]))
    if not all(0.0 < v < math.inf for v in (part.resistance, part.capacitance)):
        raise ValueError(
            f"resistance = {part.resistance:g} ohm and capacitance = {part.capacitance:g} F "
            "are not valid; both must be finite and > 0"
        )
    return part


def _fits(wire: RigWire, rig: Rig) -> None:
    """Check that the pins at both ends fit the wire's direction and kind."""
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
    """Return the error for a pin of the node without a signal, with the pins that have a signal."""
    table, rows = ("to_pins", rig.to_pins) if driven else ("from_pins", rig.from_pins)
    pins = list(dict.fromkeys(c.pin for c in rows))
    there = f"; {', '.join(pins)} {'has' if len(pins) == 1 else 'have'} a signal" if pins else ""
    return f"{pin} has no signal in [{table}]{there}"


_TOP = (
    "name", "watchdog", "hold", "node", "to_pins", "from_pins", "devices", "wires", "emulation",
    "bus_devices", "bus_faults",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
WATCHDOG_S = (0.002, 60.0)
SLICE_S = (1e-5, 1e-2)
DEFAULT_SLICE_S = 2e-4
SETTLE_S = (0.0, 60.0)


def load_rig(path: str | Path) -> Rig:
    """Read the rig file ``path``.  Raises :class:`InterfaceError` with file and line."""
    file = open_toml(Path(path), "a rig file", "illumination.toml", InterfaceError)
    return _Reader(file.path.resolve(), file.data, Lines(file.path, file.text)).rig()


class _Reader:
    def __init__(self, path: Path, data: dict[str, Any], lines: Lines) -> None:
        self.path, self.lines = path, lines
        self.top = Table(lines, "", data, _TOP)

    def rig(self) -> Rig:
        board, baud, node = self._node()
        to_pins = self._channels("to_pins", TO_KEYS, node)
        from_pins = self._channels("from_pins", FROM_KEYS, node)
        if not to_pins and not from_pins and not self.top.table("bus_devices"):
            text = "[to_pins] and [from_pins] are missing; name at least one signal at a pin"
            raise self.top.error("to_pins", text)
        self._apart(to_pins, from_pins)
        devices = self._devices()
        emulation = Table(self.lines, "emulation", self.top.table("emulation"), ("slice", "settle"))
        rig = Rig(
            path=self.path,
            name=self._name(),
            board=board,
            baud=baud,
            watchdog_ms=round(1000 * self._seconds(self.top, "watchdog", None, WATCHDOG_S)),
            hold=self._flag("hold"),
            to_pins=to_pins,
            from_pins=from_pins,
            devices=devices,
            wires=(),
            slice_ns=to_ns(self._seconds(emulation, "slice", DEFAULT_SLICE_S, SLICE_S)),
            settle_ns=to_ns(self._seconds(emulation, "settle", 0.0, SETTLE_S)),
            lines=self.lines,
        )
        rig = read_wires(self.lines, self.top.data.get("wires", []), rig)
        faults = self.top.data.get("bus_faults", [])
        return read_buses(self.lines, self.top.table("bus_devices"), faults, rig)

    def _name(self) -> str:
        name = self.top.text("name")
        if not _NAME.match(name):
            text = f"name {name!r} is not an identifier of at most 63 letters, digits and _"
            raise self.top.error("name", text)
        return name

    def _flag(self, key: str) -> bool:
        value = self.top.data.get(key, False)
        if not isinstance(value, bool):
            raise self.top.error(key, f"{key} = {value!r} is not valid; write true or false")
        return value

    def _seconds(
        self, table: Table, key: str, default: float | None, limits: tuple[float, float]
    ) -> float:
        value = table.data.get(key, default)
        low, high = limits
        try:
            seconds = number(value)
        except (TypeError, ValueError, ZeroDivisionError):
            seconds = math.nan
        if not low <= seconds <= high:
            what = f"{key} is missing" if value is None else f"{key} = {value!r} is not valid"
            raise table.error(key, f"{what}; give seconds from {low:g} to {high:g}")
        return seconds

    def _node(self) -> tuple[str, int, IoNode]:
        table = Table(self.lines, NODE, self.top.table(NODE), ("board", "baud"))
        url = table.text("board") if "board" in table.data else DEFAULT_URL
        key = "board"
        try:
            at = parse_url(url)
            board = at.description
            baud = table.data.get("baud", board.line.baud)
            node = board.io_node
            if node is None:
                raise ScenarioError(
                    f"the firmware of the I/O node does not run on {board.phrase}; write "
                    f"{DEFAULT_URL}"
                )
            if at.baud is not None:
                raise ScenarioError(
                    f"{url} contains a baud rate; write baud = ... on a line of its own"
                )
            key = "baud"
            if isinstance(baud, bool) or not isinstance(baud, int):
                raise ScenarioError(f"baud = {baud!r} is not a whole number; write baud = 500000")
            rate = BaudRate.of(board, baud)
            if not rate.good:
                raise ScenarioError(str(rate))
        except RtsimError as error:
            raise table.error(key, str(error)) from None
        return url, baud, node

    def _channels(self, name: str, keys: tuple[str, ...], node: IoNode) -> tuple[Channel, ...]:
        return tuple(
            read_channel(self.lines, name, signal, row, keys, node)
            for signal, row in self.top.table(name).items()
        )

    def _apart(self, to_pins: tuple[Channel, ...], from_pins: tuple[Channel, ...]) -> None:
        """Check that no pin is driven by two signals or used as two kinds of input."""
        driven: dict[str, Channel] = {}
        for channel in to_pins:
            if other := driven.get(channel.pin):
                text = f"{channel.name}: {other.name} already drives {channel.pin}; use another pin"
                raise self.lines.error("to_pins", channel.name, text)
            driven[channel.pin] = channel
        read: dict[str, Channel] = {}
        for channel in from_pins:
            other = driven.get(channel.pin) or read.setdefault(channel.pin, channel)
            if other.node_kind is not channel.node_kind:
                text = (
                    f"{channel.name}: {channel.pin} is already used as {other.kind} by "
                    f"{other.name}; use another pin"
                )
                raise self.lines.error("from_pins", channel.name, text)
        stamped = dict.fromkeys(c.pin for c in from_pins if c.kind == "pulse_in")
        if len(stamped) > MOST_PULSES:
            last = next(c.name for c in from_pins if c.pin == list(stamped)[MOST_PULSES])
            text = f"{last}: the I/O node can time the edges of at most {MOST_PULSES} pins"
            raise self.lines.error("from_pins", last, text)
        names = {c.name for c in to_pins} & {c.name for c in from_pins}
        if names:
            name = min(names)
            text = f"{name} is also in [to_pins]; rename one of them"
            raise self.lines.error("from_pins", name, text)

    def _devices(self) -> tuple[RigDevice, ...]:
        out = []
        for name, row in self.top.table("devices").items():
            if not isinstance(row, dict) or not _NAME.match(name) or name == NODE:
                text = (
                    f"{name} is not a device; write a table [devices.NAME] with firmware = '...' "
                    f"(the name {NODE} is reserved for the I/O node)"
                )
                raise self.lines.error("devices", name, text)
            table = Table(self.lines, f"devices.{name}", row, ("firmware", "board"))
            firmware = (self.path.parent / table.text("firmware")).resolve()
            if not firmware.is_file():
                text = f"there is no file {firmware}; paths are relative to {self.path.parent}"
                raise table.error("firmware", text)
            board = table.text("board") if "board" in row else DEFAULT_URL
            try:
                at = parse_url(board)
            except BoardError as error:
                raise table.error("board", str(error)) from None
            if not at.emulated:
                text = (
                    f"{board} is a real board, but a device must be emulated; write {DEFAULT_URL}"
                )
                raise table.error("board", text)
            out.append(RigDevice(name, board, firmware))
        return tuple(out)
