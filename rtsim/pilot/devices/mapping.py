"""Which axis or key moves which value, and how: a TOML file, read and checked.

A table for each value of the run's stick::

    [pitch]
    joystick = { axis = 1 }                      # number of the axis; name = "part of the device's"
    gamepad = { axis = "lefty" }
    keyboard = { minus = "up", plus = "down", rate = 2.0, spring = true }
    buttons = { minus = "hat0down", plus = "hat0up" }      # as keys are; gamepads: "dpdown", "a"
    mouse = { axis = "y" }
    dead_zone = 0.05        # of half the travel, around the middle
    curve = 0.3             # 0: straight; 1: cubic, fine around the middle
    invert = false
    trim = 0.0              # added, in half travels
    safe = 0.0              # where it goes when its device is gone

The value's range is that of its signal.  ``rate`` on an axis moves the value by so many half
travels a second at full deflection and leaves it there: a throttle on a gamepad.

``rtsim joystick calibrate`` writes what it measured beside an axis, where it is that axis' alone::

    joystick = { axis = 1, range = [-0.93, 0.02, 0.9], invert = true, dead_zone = 0.02 }

``range``: the raw positions of its low end, its middle and its high end; of a lever both ends.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtsim.core.errors import RtsimError, UnknownName
from rtsim.core.signals import Signals
from rtsim.pilot.devices.keys import check_key

GAMEPAD_AXES = ("leftx", "lefty", "rightx", "righty", "triggerleft", "triggerright")
GAMEPAD_BUTTONS = (
    "a", "b", "x", "y", "back", "guide", "start", "leftstick", "rightstick", "leftshoulder",
    "rightshoulder", "dpup", "dpdown", "dpleft", "dpright",
)  # fmt: skip
"""In SDL's order; a joystick's are ``button0`` and so on, and ``hat0up``, ``hat0left``."""
MOUSE_AXES = ("x", "y")
MOST_BYTES = 1 << 16
MOST_AXES = 64
LEAST_TRAVEL = 0.1
"""Of a calibrated half travel, in raw positions."""
_JOYSTICK_BUTTON = re.compile(r"button\d{1,3}|hat\d{1,2}(up|down|left|right)")


class MappingError(RtsimError):
    """A mapping of devices that cannot be followed."""


@dataclass(frozen=True)
class AxisSource:
    """An axis of the first joystick or gamepad whose name contains ``name``, or of the mouse.

    ``rate`` 0: its position is the value's.  ``span``: raw positions of low end, middle, high end.
    ``invert`` and ``dead_zone``, where given, take the place of the value's.
    """

    axis: int
    name: str = ""
    rate: float = 0.0
    span: tuple[float, float, float] = (-1.0, 0.0, 1.0)
    invert: bool | None = None
    dead_zone: float | None = None

    def position(self, raw: float) -> float:
        """-1 to 1 of its travel; not a number is the middle."""
        low, middle, high = self.span
        away = raw - middle if math.isfinite(raw) else 0.0
        return max(-1.0, min(1.0, away / (high - middle if away > 0.0 else middle - low)))


@dataclass(frozen=True)
class KeySource:
    """Two keys or buttons: half travels a second while one is held; ``spring``: back after.

    ``name``: of buttons, a part of their device's.
    """

    minus: str
    plus: str
    rate: float = 2.0
    spring: bool = True
    name: str = ""


_ANY_AXIS = AxisSource(0)


@dataclass(frozen=True)
class Value:
    """How one value is moved; the first source that is there moves it."""

    name: str
    joystick: AxisSource | None = None
    gamepad: AxisSource | None = None
    keyboard: KeySource | None = None
    buttons: KeySource | None = None
    mouse: AxisSource | None = None
    dead_zone: float = 0.0
    curve: float = 0.0
    invert: bool = False
    trim: float = 0.0
    safe: float = 0.0

    @property
    def by_hand(self) -> str:
        """The keys and the mouse that move it, in words; empty where none do."""
        told = []
        if self.keyboard is not None:
            told.append(f"{self.keyboard.minus} (-), {self.keyboard.plus} (+)")
        if self.mouse is not None:
            told.append("mouse (M)")
        return "; ".join(told)

    @property
    def by_device(self) -> bool:
        """A joystick or gamepad would move it, were there one."""
        return any(s is not None for s in (self.joystick, self.gamepad, self.buttons))

    def shape(self, raw: float, source: AxisSource = _ANY_AXIS) -> float:
        """Deflection -1 to 1 for a raw position of ``source``."""
        x = source.position(raw)
        if self.invert if source.invert is None else source.invert:
            x = -x
        dead = self.dead_zone if source.dead_zone is None else source.dead_zone
        x = math.copysign(max(0.0, (abs(x) - dead) / (1.0 - dead)), x)
        x = (1.0 - self.curve) * x + self.curve * x * x * x
        return max(-1.0, min(1.0, x + self.trim))


_BOUNDS = {
    "dead_zone": (0.0, 0.9),
    "curve": (0.0, 1.0),
    "trim": (-1.0, 1.0),
    "rate": (-100.0, 100.0),
    "range": (-1.0, 1.0),
    "safe": (-math.inf, math.inf),
}
_KEYS = ("minus", "plus", "rate", "spring")
_AXIS = ("axis", "name", "rate", "range", "invert", "dead_zone")
_SOURCES: dict[str, tuple[str, ...]] = {
    "joystick": _AXIS, "gamepad": _AXIS, "keyboard": _KEYS, "buttons": (*_KEYS, "name"),
    "mouse": ("axis", "rate", "invert", "dead_zone"),
}  # fmt: skip


def read_mapping(path: Path, stick: Signals) -> tuple[Value, ...]:
    """The file's values for the signals of ``stick``, in their order."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise MappingError(f"{path} has more than {MOST_BYTES} bytes; it is no mapping")
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return mapping_of(data, stick, str(path))
    except (OSError, ValueError) as error:  # a number of 5000 digits is none to Python either
        raise MappingError(f"{path}: {error}; docs/pilot.md says what a mapping is") from error
    except (RecursionError, OverflowError) as error:
        raise MappingError(
            f"{path} nests too deep or has a number too large to be a mapping; docs/pilot.md says "
            "what one is"
        ) from error


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
    for key in table:
        if key not in _SOURCES[kind]:
            raise UnknownName("key", key, _SOURCES[kind], where)
    rate = _number("rate", table["rate"], where) if "rate" in table else None
    name = _text(table["name"], f"{where}.name") if "name" in table else ""
    if kind in ("keyboard", "buttons"):
        of = _button if kind == "buttons" else _key
        minus, plus = (of(table.get(side), f"{where}.{side}") for side in ("minus", "plus"))
        if minus == plus:
            raise MappingError(f"{where}: minus and plus are both {plus!r}; give two")
        spring = _flag(table.get("spring", True), f"{where}.spring")
        return KeySource(minus, plus, 2.0 if rate is None else abs(rate), spring, name)
    return AxisSource(
        _axis(kind, table.get("axis"), where),
        name,
        rate or 0.0,
        _span(table.get("range", [-1.0, 1.0]), f"{where}.range"),
        _flag(table["invert"], f"{where}.invert") if "invert" in table else None,
        _number("dead_zone", table["dead_zone"], where) if "dead_zone" in table else None,
    )


def _key(given: Any, where: str) -> str:
    return check_key(_text(given, where), where)


def _button(given: Any, where: str) -> str:
    name = _text(given, where)
    if name not in GAMEPAD_BUTTONS and not _JOYSTICK_BUTTON.fullmatch(name):
        known = ("button0", "hat0up", *GAMEPAD_BUTTONS)
        raise UnknownName("button", name, known, where)
    return name


def _span(given: Any, where: str) -> tuple[float, float, float]:
    """Both ends, or with the middle between them; a device's own end may lie a little outside."""
    if not isinstance(given, list) or len(given) not in (2, 3):
        raise MappingError(f"{where} = {given!r}; give [low, high] or [low, middle, high]")
    found = [_number("range", value, where) for value in given]
    low, high = found[0], found[-1]
    middle = found[1] if len(found) == 3 else (low + high) / 2.0
    if min(middle - low, high - middle) < LEAST_TRAVEL:
        raise MappingError(
            f"{where} = {given!r}; give raw positions that rise by {LEAST_TRAVEL:g} or more"
        )
    return low, middle, high


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
