"""Which axis or key moves which value, and how: a TOML file, read and checked.

A table for each value of the run's stick::

    [pitch]
    joystick = { axis = 1 }                      # number of the axis; name = "part of the device's"
    gamepad = { axis = "lefty" }
    keyboard = { minus = "up", plus = "down", rate = 2.0, spring = true }
    mouse = { axis = "y" }
    dead_zone = 0.05        # of half the travel, around the middle
    curve = 0.3             # 0: straight; 1: cubic, fine around the middle
    invert = false
    trim = 0.0              # added, in half travels
    safe = 0.0              # where it goes when its device is gone

The value's range is that of its signal.  ``rate`` on an axis moves the value by so many half
travels a second at full deflection and leaves it there: a throttle on a gamepad.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtsim.errors import RtsimError, UnknownName
from rtsim.signals import Signals

GAMEPAD_AXES = ("leftx", "lefty", "rightx", "righty", "triggerleft", "triggerright")
MOUSE_AXES = ("x", "y")
MOST_BYTES = 1 << 16
MOST_AXES = 64


class MappingError(RtsimError):
    """A mapping of devices that cannot be followed."""


@dataclass(frozen=True)
class AxisSource:
    """An axis of the first joystick or gamepad whose name contains ``name``, or of the mouse.

    ``rate`` 0: its position is the value's.
    """

    axis: int
    name: str = ""
    rate: float = 0.0


@dataclass(frozen=True)
class KeySource:
    """Two keys: half travels a second while one is held; ``spring``: back to the middle after."""

    minus: str
    plus: str
    rate: float = 2.0
    spring: bool = True


@dataclass(frozen=True)
class Value:
    """How one value is moved; the first source that is there moves it."""

    name: str
    joystick: AxisSource | None = None
    gamepad: AxisSource | None = None
    keyboard: KeySource | None = None
    mouse: AxisSource | None = None
    dead_zone: float = 0.0
    curve: float = 0.0
    invert: bool = False
    trim: float = 0.0
    safe: float = 0.0

    def shape(self, raw: float) -> float:
        """Deflection -1 to 1 for a raw position -1 to 1; not a number is the middle."""
        x = max(-1.0, min(1.0, raw)) if math.isfinite(raw) else 0.0
        if self.invert:
            x = -x
        beyond = (abs(x) - self.dead_zone) / (1.0 - self.dead_zone)
        x = math.copysign(max(0.0, beyond), x)
        x = (1.0 - self.curve) * x + self.curve * x * x * x
        return max(-1.0, min(1.0, x + self.trim))


_BOUNDS = {
    "dead_zone": (0.0, 0.9),
    "curve": (0.0, 1.0),
    "trim": (-1.0, 1.0),
    "rate": (-100.0, 100.0),
    "safe": (-math.inf, math.inf),
}
_SOURCES = ("joystick", "gamepad", "keyboard", "mouse")


def read_mapping(path: Path, stick: Signals) -> tuple[Value, ...]:
    """The file's values for the signals of ``stick``, in their order."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise MappingError(f"{path} has more than {MOST_BYTES} bytes; it is no mapping")
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise MappingError(f"{path}: {error}; 'rtsim fly --help' says what a mapping is") from error
    return mapping_of(data, stick, str(path))


def mapping_of(data: Mapping[str, Any], stick: Signals, where: str) -> tuple[Value, ...]:
    """The same from what the TOML said.  A value without a table stays at its initial one."""
    for name in data:
        if name not in stick:
            raise UnknownName("value", name, stick.names, where)
    return tuple(_value(s.name, data.get(s.name, {}), stick, where) for s in stick)


def _value(name: str, table: Any, stick: Signals, where: str) -> Value:
    where = f"{where}: {name}"
    if not isinstance(table, dict):
        raise MappingError(f"{where} is {table!r}; write a table, [{name}]")
    given: dict[str, Any] = {}
    for key, value in table.items():
        if key in _SOURCES:
            given[key] = _source(key, value, f"{where}.{key}")
        elif key == "invert":
            given[key] = _flag(value, f"{where}.{key}")
        elif key in ("dead_zone", "curve", "trim", "safe"):
            given[key] = _number(key, value, where)
        else:
            known = [*_SOURCES, "dead_zone", "curve", "invert", "trim", "safe"]
            raise UnknownName("key", key, known, where)
    signal = stick[name]
    safe = given.setdefault("safe", float(stick.initial()[stick.slice(name)][0]))
    if not signal.low <= safe <= signal.high:
        raise MappingError(f"{where}.safe = {safe:g} is outside {signal.low:g} to {signal.high:g}")
    return Value(name, **given)


def _source(kind: str, table: Any, where: str) -> AxisSource | KeySource:
    if not isinstance(table, dict):
        raise MappingError(f"{where} is {table!r}; write a table, {kind} = {{ ... }}")
    known = ("minus", "plus", "rate", "spring") if kind == "keyboard" else ("axis", "name", "rate")
    for key in table:
        if key not in known:
            raise UnknownName("key", key, known, where)
    rate = _number("rate", table["rate"], where) if "rate" in table else None
    if kind == "keyboard":
        keys = [_text(table.get(side), f"{where}.{side}") for side in ("minus", "plus")]
        spring = _flag(table.get("spring", True), f"{where}.spring")
        return KeySource(keys[0], keys[1], 2.0 if rate is None else abs(rate), spring)
    name = _text(table["name"], f"{where}.name") if "name" in table else ""
    return AxisSource(_axis(kind, table.get("axis"), where), name, rate or 0.0)


def _axis(kind: str, axis: Any, where: str) -> int:
    names = {"gamepad": GAMEPAD_AXES, "mouse": MOUSE_AXES}.get(kind)
    if names is not None:
        if axis not in names:
            raise UnknownName("axis", str(axis), names, where)
        return names.index(axis)
    if isinstance(axis, bool) or not isinstance(axis, int) or not 0 <= axis < MOST_AXES:
        raise MappingError(f"{where}.axis = {axis!r}; give its number, 0 to {MOST_AXES - 1}")
    return axis


def _number(key: str, value: Any, where: str) -> float:
    low, high = _BOUNDS[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MappingError(f"{where}.{key} = {value!r}; give a number")
    if not low <= value <= high:
        raise MappingError(f"{where}.{key} = {value:g}; give {low:g} to {high:g}")
    return float(value)


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise MappingError(f"{where} = {value!r}; give true or false")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 100:
        raise MappingError(f"{where} = {value!r}; give a name")
    return value
