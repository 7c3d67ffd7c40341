"""Reads and checks a mapping: a TOML file that declares which axis, key or button does what.

The file has one table for each value of the run's stick::

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
    trim = 0.0              # added, in half travels
    rest = 0.0              # value to which keys with a spring return; default: the initial value
    safe = 0.0              # fail-safe value, used after the device was unplugged
    pickup = true           # a lever must reach the value before it moves it
    detents = [0.77]        # values at which a lever rests
    ends = ["nose down", "nose up"]     # what both ends do, for the help

    [gear]
    switches = [{ button = "button4", do = "toggle" }, { key = "g", do = "toggle" }]

    [commands]                           # of the window, not of the stick
    pause = { button = "button6" }

A key needs no opposite: ``keyboard = { plus = "b" }`` moves the value up, and with ``spring`` the
value goes back to ``rest``.

The range of a value is the range of its signal. With ``rate``, an axis moves the value by this
number of half travels per second at full deflection, and the value stays where it is at rest. A
throttle on a gamepad uses ``rate``.

``rtsim joystick calibrate`` writes its measurements into the table of an axis::

    joystick = { axis = 1, range = [-0.93, 0.02, 0.9], invert = true, dead_zone = 0.02 }

``range`` has the raw positions of the low end, the middle and the high end. The range of a lever
has no middle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

from rtsim.core import toml
from rtsim.core.errors import UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.pilot.devices.device import (
    DEVICE_KEYS,
    Described,
    MappingError,
    Which,
    checked_entries,
    checked_flag,
    checked_number,
    checked_table,
    checked_text,
)
from rtsim.pilot.devices.sources import (
    GAMEPAD_AXES,
    LEAST_TRAVEL,
    MOST_AXES,
    MOUSE_AXES,
    AxisSource,
    Curve,
    KeySource,
    Value,
    rising,
    travel,
)
from rtsim.pilot.devices.switches import (
    GAMEPAD_BUTTONS,
    PRESS_EXAMPLE,
    PRESS_KEYS,
    WINDOW_COMMANDS,
    Press,
    button_named,
    key_named,
    read_switches,
    read_trimmers,
)

MOST_BYTES = 1 << 16
COMMANDS = "commands"
"""The table of the window's commands."""
_DETENT_WIDTH = 0.04
_KEYS = ("minus", "plus", "rate", "spring")
_AXIS = ("axis", *DEVICE_KEYS, "rate", "range", "invert", "dead_zone")
_SOURCES: dict[str, tuple[str, ...]] = {
    "joystick": _AXIS, "gamepad": _AXIS, "keyboard": _KEYS, "buttons": (*_KEYS, *DEVICE_KEYS),
    "mouse": ("axis", "rate", "invert", "dead_zone"),
}  # fmt: skip
_OWN = (
    "dead_zone", "curve", "invert", "trim", "rest", "safe", "pickup", "detents", "detent_width",
    "switches", "trimmers", "ends",
)  # fmt: skip


class DeviceMapping(Sequence[Value]):
    """The values of a stick in the order of its signals, and the presses of window commands."""

    def __init__(self, values: Sequence[Value], commands: Sequence[tuple[Press, str]] = ()) -> None:
        self._values = tuple(values)
        self.commands = tuple(commands)
        """Presses with the names of the commands that they give, as in ``WINDOW_COMMANDS``."""

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> Value: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Value]: ...
    def __getitem__(self, index: int | slice) -> Value | Sequence[Value]:
        return self._values[index]


def read_mapping(path: Path, stick: Signals) -> DeviceMapping:
    """Read the mapping in the file ``path``; return it for the signals of ``stick``, in order."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise MappingError(
                f"{path} has more than {MOST_BYTES} bytes, which is too long for a mapping"
            )
        data = toml.loads(path.read_text(encoding="utf-8"))
        return mapping_of(data, stick, str(path))
    except (OSError, ValueError) as error:  # a number of 5000 digits raises ValueError
        raise MappingError(
            f"{path} is not a valid mapping: {error}; docs/controls.md describes mappings"
        ) from error
    except (RecursionError, OverflowError) as error:
        raise MappingError(
            f"{path} has too many levels of nested tables or too large a number; docs/controls.md "
            "describes mappings"
        ) from error


def mapping_of(data: Mapping[str, Any], stick: Signals, where: str) -> DeviceMapping:
    """Return the mapping for the parsed TOML ``data``; ``where`` is its name in error messages.

    A signal of ``stick`` without a table keeps its initial value.
    """
    tables = {name: table for name, table in data.items() if name != COMMANDS or name in stick}
    for name in tables:
        if name not in stick:
            raise UnknownName("value", name, (*stick.names, COMMANDS), where)
    values = [_value(s.name, data.get(s.name, {}), stick, where) for s in stick]
    given = {} if COMMANDS in tables else data.get(COMMANDS, {})
    return DeviceMapping(values, _commands(given, f"{where}: {COMMANDS}"))


def _commands(given: Any, where: str) -> list[tuple[Press, str]]:
    table = checked_table(given, WINDOW_COMMANDS, where, f"[{COMMANDS}]")
    found: dict[Press, str] = {}
    for name, presses_of in table.items():
        for one, at in checked_entries(presses_of, f"{where}.{name}", PRESS_EXAMPLE):
            press = Press.of(checked_table(one, PRESS_KEYS, at, PRESS_EXAMPLE), at)
            if press in found:
                raise MappingError(f"{at}: {press} already gives the command {found[press]}")
            found[press] = name
    return list(found.items())


def _value(name: str, given_table: Any, stick: Signals, where: str) -> Value:
    where = f"{where}: {name}"
    table = checked_table(given_table, (*_SOURCES, *_OWN), where, f"[{name}]")
    signal = stick[name]
    given: dict[str, Any] = {}
    for key, value in table.items():
        if key in _SOURCES:
            given[key] = _source(key, value, f"{where}.{key}")
        elif key == "invert":
            given[key] = checked_flag(value, f"{where}.{key}")
        elif key == "ends":
            given[key] = _ends(value, f"{where}.{key}")
        elif key in ("dead_zone", "trim", "rest", "safe"):
            given[key] = checked_number(key, value, where)
    given.setdefault("rest", float(stick.initial()[stick.slice(name)][0]))
    given.setdefault("safe", given["rest"])
    for key in ("rest", "safe"):
        if not signal.low <= given[key] <= signal.high:
            raise MappingError(
                f"{where}.{key} = {given[key]:g} is outside the range of the signal, "
                f"{signal.low:g} to {signal.high:g}"
            )
    given["lever"] = checked_flag(table.get("pickup", False), f"{where}.pickup")
    given["curve"] = _curve(table, signal, where)
    if "trimmers" in table:
        given["trimmers"] = read_trimmers(table["trimmers"], f"{where}.trimmers")
    if "switches" in table:
        at = f"{where}.switches"
        given["switches"] = read_switches(table["switches"], travel(signal), given["rest"], at)
        _check_takes_turns(given, where)
    return Value(name, **given)


def _check_takes_turns(given: Mapping[str, Any], where: str) -> None:
    """Raise an error if an axis would move the value back at once after a switch has set it."""
    for key in ("joystick", "gamepad"):
        source = given.get(key)
        if source is not None and not source.rate and not given["lever"]:
            raise MappingError(
                f"{where}: the axis of {key} holds the value, so that the switches have no effect; "
                "add pickup = true, or leave one of the two out"
            )


def _curve(table: Mapping[str, Any], signal: Signal, where: str) -> Curve:
    given = table.get("curve", 0.0)
    points = isinstance(given, list)
    return Curve(
        0.0 if points else checked_number("curve", given, where),
        _points(given, f"{where}.curve") if points else (),
        *_detents(table, signal, where),
    )


def _points(given: list[Any], where: str) -> tuple[tuple[float, float], ...]:
    pairs = all(isinstance(point, list) and len(point) == 2 for point in given)
    if not pairs or not 2 <= len(given) <= 64:
        raise MappingError(f"{where} = {given!r}; expected 2 to 64 corners [position, deflection]")
    found = tuple(
        (checked_number("range", x, where), checked_number("range", y, where)) for x, y in given
    )
    across, up = zip(*found, strict=True)
    if not rising(across) or (across[0], across[-1]) != (-1.0, 1.0):
        raise MappingError(f"{where}: the positions must rise from -1 to 1, but are {list(across)}")
    if list(up) != sorted(up) or up[0] == up[-1]:
        raise MappingError(
            f"{where}: the deflections must not fall, but are {list(up)}; use invert to reverse "
            "the direction"
        )
    return found


def _detents(
    table: Mapping[str, Any], signal: Signal, where: str
) -> tuple[tuple[float, ...], float]:
    """Return the detents as deflections -1 to 1, and half their width."""
    width = checked_number("detent_width", table.get("detent_width", _DETENT_WIDTH), where)
    given = table.get("detents", [])
    if not isinstance(given, list) or len(given) > 16:
        raise MappingError(f"{where}.detents = {given!r}; expected a list of at most 16 values")
    low, high = travel(signal)
    values = [checked_number("detents", value, where) for value in given]
    for value in values:
        if not low <= value <= high:
            raise MappingError(
                f"{where}.detents has {value:g}, which is outside the range {low:g} to {high:g}"
            )
    found = tuple(2.0 * (value - low) / (high - low) - 1.0 for value in values)
    if any(b - a <= 2.0 * width for a, b in pairwise(found)):
        raise MappingError(
            f"{where}.detents = {given!r}; expected values that rise by more than "
            f"{width * (high - low):g}, twice the detent_width"
        )
    return found, width


def _ends(value: Any, where: str) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise MappingError(f"{where} = {value!r}; expected two texts, for the low and the high end")
    low, high = (checked_text(text, where) for text in value)
    return low, high


def _source(kind: str, given: Any, where: str) -> AxisSource | KeySource:
    table = checked_table(given, _SOURCES[kind], where, f"{kind} = {{ ... }}")
    rate = checked_number("rate", table["rate"], where) if "rate" in table else None
    device = Which.of(table, where)
    if kind in ("keyboard", "buttons"):
        of = button_named if kind == "buttons" else key_named
        minus, plus = (
            of(table[side], f"{where}.{side}") if side in table else ""
            for side in ("minus", "plus")
        )
        if not (minus or plus):
            raise MappingError(f"{where} has neither minus nor plus; give one of them or both")
        if minus == plus:
            raise MappingError(
                f"{where}: minus and plus are both {plus!r}; give two different names"
            )
        spring = checked_flag(table.get("spring", True), f"{where}.spring")
        return KeySource(minus, plus, 2.0 if rate is None else abs(rate), spring, device)
    return AxisSource(
        _axis(kind, table.get("axis"), where),
        device,
        rate or 0.0,
        _span(table.get("range", [-1.0, 1.0]), f"{where}.range"),
        checked_flag(table["invert"], f"{where}.invert") if "invert" in table else None,
        checked_number("dead_zone", table["dead_zone"], where) if "dead_zone" in table else None,
    )


def _span(given: Any, where: str) -> tuple[float, float, float]:
    """Return (low, middle, high) for a TOML ``[low, high]`` or ``[low, middle, high]``."""
    if not isinstance(given, list) or len(given) not in (2, 3):
        raise MappingError(f"{where} = {given!r}; expected [low, high] or [low, middle, high]")
    found = [checked_number("range", value, where) for value in given]
    low, high = found[0], found[-1]
    middle = found[1] if len(found) == 3 else (low + high) / 2.0
    if min(middle - low, high - middle) < LEAST_TRAVEL:
        raise MappingError(
            f"{where} = {given!r}; expected raw positions that rise by at least {LEAST_TRAVEL:g}"
        )
    return low, middle, high


def _axis(kind: str, axis: Any, where: str) -> int:
    names = {"gamepad": GAMEPAD_AXES, "mouse": MOUSE_AXES}.get(kind)
    if names is not None:
        if axis not in names:
            raise UnknownName("axis", str(axis), names, where)
        return names.index(axis)
    if isinstance(axis, bool) or not isinstance(axis, int) or not 0 <= axis < MOST_AXES:
        raise MappingError(f"{where}.axis = {axis!r}; expected a number 0 to {MOST_AXES - 1}")
    return axis


# The use of each control of a device, as text for ``rtsim joystick``.


def uses(mapping: DeviceMapping, device: Described) -> dict[str, str]:
    """Return what the controls of ``device`` do; controls without a use are left out.

    The names of the controls are those of the mapping, such as ``axis 1``, ``lefty``, ``button4``.
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
    """Return the controls of ``device`` that move ``value``, and how."""
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
    """Return the names of all controls that ``device`` has."""
    if device.gamepad is not None:
        return [*GAMEPAD_AXES, *GAMEPAD_BUTTONS]
    return [
        *(f"axis {k}" for k in range(len(device.axes))),
        *(f"button{k}" for k in range(len(device.buttons))),
        *(f"hat{k}{way}" for k in range(len(device.hats)) for way in _WAYS),
    ]


_WAYS = ("up", "down", "left", "right")
