"""Read device mappings: TOML files that define the functions of axes, buttons and keys.

A mapping has one table for each value of the run's stick::

    [pitch]
    joystick = { axis = 1 }              # number of the axis; name = "a part of the device's name"
    gamepad = { axis = "lefty" }
    keyboard = { minus = "up", plus = "down", rate = 2.0, spring = true }
    buttons = { minus = "hat0down", plus = "hat0up" }      # like keys; gamepads: "dpdown", "a"
    mouse = { axis = "y" }
    trimmers = [{ button = "hat0up", by = -0.02 }]         # a press moves the trim
    dead_zone = 0.05        # share of half the travel, around the middle
    curve = 0.3             # 0: linear; 1: cubic; or corners [[-1, -1], [0.2, 0], [1, 1]]
    invert = false
    trim = 0.0              # offset, in half travels
    rest = 0.0              # value to which keys with a spring return; default: the initial value
    safe = 0.0              # fail-safe value, used after the device was unplugged
    pickup = true           # a lever must reach the value before it moves the value
    detents = [0.77]        # values at which a lever rests
    ends = ["nose down", "nose up"]     # effect of both ends, for the help

    [gear]
    switches = [{ button = "button4", do = "toggle" }, { key = "g", do = "toggle" }]

    [commands]                           # of the window, not of the stick
    pause = { button = "button6" }

A mapping can declare a key for one direction only. The key of ``keyboard = { plus = "b" }`` moves
the value up. With ``spring``, the value returns to ``rest`` when the key is released.

The range of a value is the declared range of the signal. With ``rate``, the position of an axis
determines the rate of change of the value. At full deflection, the value changes by ``rate`` halves
of its range per second. Use ``rate`` for a gamepad axis that moves the throttle.

``rtsim joystick calibrate`` writes its measurements into the table of an axis::

    joystick = { axis = 1, range = [-0.93, 0.02, 0.9], invert = true, dead_zone = 0.02 }

``range`` contains the raw positions of the axis at its low end, middle and high end. For a lever,
``range`` contains no middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

from rtsim.core.signals import Signal, Signals
from rtsim.core.toml import (
    Entries,
    Key,
    ListKey,
    Place,
    choice,
    flag,
    number,
    numbers,
    open_toml,
    read,
    table,
    whole,
)
from rtsim.pilot.devices.device import DEVICE_KEYS, NAME, Described, MappingError, Which
from rtsim.pilot.devices.sources import (
    GAMEPAD_AXES,
    LEAST_TRAVEL,
    MOST_AXES,
    MOUSE_AXES,
    AxisSource,
    Curve,
    KeySource,
    Points,
    Value,
    rising,
    travel,
)
from rtsim.pilot.devices.switches import (
    BUTTON,
    GAMEPAD_BUTTONS,
    KEY,
    PRESS,
    PRESS_EXAMPLE,
    SWITCHES,
    TRIMMERS,
    WINDOW_COMMANDS,
    Press,
    presses,
    switch_of,
    trimmer_of,
)

MOST_BYTES = 1 << 16
COMMANDS = "commands"
_RATE = number(-100.0, 100.0, None)
_DEAD_ZONE = number(0.0, 0.9, None)
_POSITION = number(-1.0, 1.0)
_AXIS = {
    "rate": _RATE,
    "range": ListKey(
        "[low, high] or [low, middle, high], raw positions from -1 to 1",
        (-1.0, 1.0), of=_POSITION, count=range(2, 4),
    ),
    "invert": flag(None),
    "dead_zone": _DEAD_ZONE,
    **DEVICE_KEYS,
}  # fmt: skip
_KEYS = {"rate": _RATE, "spring": flag(True)}
_SOURCES = {
    "joystick": table({"axis": whole(0, MOST_AXES - 1), **_AXIS}, "{ axis = 1 }", None),
    "gamepad": table(
        {"axis": choice(GAMEPAD_AXES, what="axis"), **_AXIS}, "{ axis = 'lefty' }", None
    ),
    "keyboard": table({"minus": KEY, "plus": KEY, **_KEYS}, "{ plus = 'b' }", None),
    "buttons": table(
        {"minus": BUTTON, "plus": BUTTON, **_KEYS, **DEVICE_KEYS}, "{ plus = 'button4' }", None
    ),
    "mouse": table({"axis": choice(MOUSE_AXES, what="axis"), **_AXIS}, "{ axis = 'y' }", None),
}
_CORNERS = ListKey(
    "2 to 64 corners [position, deflection] from -1 to 1",
    of=ListKey("a corner [position, deflection]", of=_POSITION, count=range(2, 3)),
    count=range(2, 65),
)


class _Curve(Key):
    def value(self, given: object, place: Place, name: str, element: int | None = None) -> Any:
        key = _CORNERS if isinstance(given, list) else number(0.0, 1.0)
        return key.value(given, place, name, element)


_VALUE = {
    **_SOURCES,
    "dead_zone": replace(_DEAD_ZONE, default=0.0),
    "curve": _Curve("a number from 0 to 1, or corners", 0.0),
    "invert": flag(),
    "trim": number(-1.0, 1.0, 0.0),
    "rest": number(default=None),
    "safe": number(default=None),
    "pickup": flag(),
    "detents": numbers((), "a list of at most 16 numbers", count=range(17)),
    "detent_width": number(0.0, 0.5, 0.04),
    "switches": SWITCHES,
    "trimmers": TRIMMERS,
    "ends": ListKey(
        "two texts, for the low and the high end", ("-", "+"), of=NAME, count=range(2, 3)
    ),
}
_COMMANDS = table(dict.fromkeys(WINDOW_COMMANDS, presses(PRESS, PRESS_EXAMPLE)))


class DeviceMapping(Sequence[Value]):
    """The sources of the stick values, and the controls for window commands."""

    def __init__(self, values: Sequence[Value], commands: Sequence[tuple[Press, str]] = ()) -> None:
        self._values = tuple(values)
        self.commands = tuple(commands)
        """Presses with the names of their commands, as in ``WINDOW_COMMANDS``."""

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Value]: ...
    def __getitem__(self, index: int | slice) -> Value | Sequence[Value]:
        return self._values[index]


def read_mapping(path: Path, stick: Signals) -> DeviceMapping:
    """Return the mapping in the file ``path``, for the signals of ``stick`` in their order."""
    what = "a mapping (docs/controls.md describes mappings)"
    file = open_toml(path, what, error=MappingError, most=MOST_BYTES)
    return _mapping(file.data, stick, file.place)


def mapping_of(data: Mapping[str, Any], stick: Signals, where: str) -> DeviceMapping:
    """Return the mapping that TOML data define; ``where`` is the name of the file in messages.

    A signal without a table keeps its initial value.
    """
    return _mapping(data, stick, Place(where, error_class=MappingError))


def _mapping(data: Mapping[str, Any], stick: Signals, place: Place) -> DeviceMapping:
    keys = {COMMANDS: _COMMANDS} | dict.fromkeys(stick.names, table(_VALUE))
    rows = read(data, keys, place)
    values = [_value(signal, rows[signal.name], stick) for signal in stick]
    return DeviceMapping(values, () if COMMANDS in stick else _commands(rows[COMMANDS]))


def _commands(rows: Entries) -> list[tuple[Press, str]]:
    found: dict[Press, str] = {}
    for name, several in rows.items():
        for row in several:
            press = Press.of(row)
            if press in found:
                raise row.error("", f"{press} already gives the command {found[press]}")
            found[press] = name
    return list(found.items())


def _value(signal: Signal, row: Entries, stick: Signals) -> Value:
    rest, safe = row["rest"], row["safe"]
    if rest is None:
        rest = float(stick.initial()[stick.slice(signal.name)][0])
    if safe is None:
        safe = rest
    for key, value in (("rest", rest), ("safe", safe)):
        if not signal.low <= value <= signal.high:
            text = (
                f"{key} = {value:g} is outside the range of the signal, {signal.low:g} to "
                f"{signal.high:g}"
            )
            raise row.error(key, text)
    span = travel(signal)
    curve = row["curve"]
    points = isinstance(curve, tuple)
    shape = Curve(
        0.0 if points else curve, _points(row, curve) if points else (), *_detents(row, span)
    )
    sources: dict[str, Any] = {
        kind: None if row[kind] is None else _source(kind, row[kind]) for kind in _SOURCES
    }
    found = Value(
        signal.name, **sources,
        switches=tuple(switch_of(one, span, rest) for one in row["switches"]),
        trimmers=tuple(map(trimmer_of, row["trimmers"])),
        dead_zone=row["dead_zone"], curve=shape, invert=row["invert"], trim=row["trim"],
        rest=rest, safe=safe, lever=row["pickup"], ends=row["ends"],
    )  # fmt: skip
    if found.switches:
        _check_takes_turns(found, row)
    return found


def _check_takes_turns(value: Value, row: Entries) -> None:
    for key, source in (("joystick", value.joystick), ("gamepad", value.gamepad)):
        if source is not None and not source.rate and not value.lever:
            raise row.error(
                key,
                f"the axis of {key} sets the value all the time, so the switches have no effect; "
                f"add pickup = true, or leave out {key} or the switches",
            )


def _points(row: Entries, found: Points) -> Points:
    across, up = zip(*found, strict=True)
    if not rising(across) or (across[0], across[-1]) != (-1.0, 1.0):
        text = f"the positions must rise from -1 to 1, but are {list(across)}"
        raise row.error("curve", f"curve: {text}")
    if list(up) != sorted(up) or up[0] == up[-1]:
        text = f"the deflections must not fall, but are {list(up)}; use invert to reverse them"
        raise row.error("curve", f"curve: {text}")
    return found


def _detents(row: Entries, span: tuple[float, float]) -> tuple[tuple[float, ...], float]:
    values, width = row["detents"], row["detent_width"]
    low, high = span
    for value in values:
        if not low <= value <= high:
            text = f"detents has {value:g}, which is outside the range {low:g} to {high:g}"
            raise row.error("detents", text)
    found = tuple(2.0 * (value - low) / (high - low) - 1.0 for value in values)
    if any(b - a <= 2.0 * width for a, b in pairwise(found)):
        text = (
            f"detents = {list(values)}; write values that rise by more than "
            f"{width * (high - low):g}, twice the detent_width"
        )
        raise row.error("detents", text)
    return found, width


def _source(kind: str, row: Entries) -> AxisSource | KeySource:
    if kind in ("keyboard", "buttons"):
        minus, plus = row["minus"], row["plus"]
        if not (minus or plus):
            raise row.error("", "neither minus nor plus is given; write one of them or both")
        if minus == plus:
            text = f"minus and plus are both {plus!r}; give two different names"
            raise row.error("minus", text)
        rate = 2.0 if row["rate"] is None else abs(row["rate"])
        which = Which.of(row) if kind == "buttons" else Which()
        return KeySource(minus, plus, rate, row["spring"], which)
    axis = row["axis"]
    names = {"gamepad": GAMEPAD_AXES, "mouse": MOUSE_AXES}.get(kind)
    return AxisSource(
        axis if names is None else names.index(axis),
        Which.of(row), row["rate"] or 0.0, _span(row), row["invert"], row["dead_zone"],
    )  # fmt: skip


def _span(row: Entries) -> tuple[float, float, float]:
    found = row["range"]
    low, high = found[0], found[-1]
    middle = found[1] if len(found) == 3 else (low + high) / 2.0
    if min(middle - low, high - middle) < LEAST_TRAVEL:
        text = f"range = {list(found)}; write raw positions that rise by at least {LEAST_TRAVEL:g}"
        raise row.error("range", text)
    return low, middle, high


# The use of each control of a device, as text for ``rtsim joystick``.


def uses(mapping: DeviceMapping, device: Described) -> dict[str, str]:
    """Return what each control of ``device`` does, without controls that have no function.

    Controls have the names of the mapping, such as ``axis 1``, ``lefty`` or ``button4``.
    """
    found: dict[str, list[str]] = {}
    for value in mapping:
        for control, use in _of_value(value, device):
            found.setdefault(control, []).append(f"{value.name}{use}")
    for press, name in mapping.commands:
        if press.button and press.which.fits(device):
            found.setdefault(press.button, []).append(f"{name}: {WINDOW_COMMANDS[name]}")
    here = _controls(device)
    return {name: ", ".join(found[name]) for name in here if name in found}


def _of_value(value: Value, device: Described) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    axis = value.joystick if device.gamepad is None else value.gamepad
    if axis is not None and axis.which.fits(device):
        found.append((_axis_name(axis.axis, device), " (speed)" if axis.rate else ""))
    keys = value.buttons
    if keys is not None and keys.which.fits(device):
        found += [(keys.minus, f": {value.ends[0]}"), (keys.plus, f": {value.ends[1]}")]
    for one in value.pressed:
        if one.press.button and one.press.which.fits(device):
            found.append((one.press.button, f": {one}"))
    return found


def _axis_name(number: int, device: Described) -> str:
    return f"axis {number}" if device.gamepad is None else GAMEPAD_AXES[number]


def _controls(device: Described) -> list[str]:
    if device.gamepad is not None:
        return [*GAMEPAD_AXES, *GAMEPAD_BUTTONS]
    return [
        *(f"axis {k}" for k in range(len(device.axes))),
        *(f"button{k}" for k in range(len(device.buttons))),
        *(f"hat{k}{way}" for k in range(len(device.hats)) for way in _WAYS),
    ]


_WAYS = ("up", "down", "left", "right")
