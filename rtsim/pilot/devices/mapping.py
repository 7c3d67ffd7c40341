"""Reads and checks a mapping: a TOML file that declares which axis or key moves which value.

The file has one table for each value of the run's stick::

    [pitch]
    joystick = { axis = 1 }              # number of the axis; name = "a part of the device's name"
    gamepad = { axis = "lefty" }
    keyboard = { minus = "up", plus = "down", rate = 2.0, spring = true }
    buttons = { minus = "hat0down", plus = "hat0up" }      # like keys; gamepads: "dpdown", "a"
    mouse = { axis = "y" }
    dead_zone = 0.05        # share of half the travel, around the middle
    curve = 0.3             # 0: linear; 1: cubic, fine around the middle
    invert = false
    trim = 0.0              # added, in half travels
    rest = 0.0              # value to which keys with a spring return; default: the initial value
    safe = 0.0              # fail-safe value, used after the device was unplugged
    pickup = true           # a lever must reach the value before it moves it
    ends = ["nose down", "nose up"]     # what both ends do, for the help

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
"""The buttons of a gamepad in SDL's order.

The names of a joystick's buttons are ``button0`` and so on, and ``hat0up``, ``hat0left`` and so on.
"""
MOUSE_AXES = ("x", "y")
MOST_BYTES = 1 << 16
MOST_AXES = 64
LEAST_TRAVEL = 0.1
"""The least half travel of a calibrated axis, in units of the raw position."""
_JOYSTICK_BUTTON = re.compile(r"button\d{1,3}|hat\d{1,2}(up|down|left|right)")


class MappingError(RtsimError):
    """A mapping of devices that is malformed."""


@dataclass(frozen=True)
class AxisSource:
    """An axis of the first joystick or gamepad whose name contains ``name``, or of the mouse.

    If ``rate`` is 0, the position of the axis is the deflection of the value.  ``span`` has the raw
    positions of the low end, the middle and the high end.  ``invert`` and ``dead_zone``, if given,
    replace those of the value.  If the name is empty and several devices have the axis, a person
    chooses one (:mod:`rtsim.pilot.devices.choosing`).
    """

    axis: int
    name: str = ""
    rate: float = 0.0
    span: tuple[float, float, float] = (-1.0, 0.0, 1.0)
    invert: bool | None = None
    dead_zone: float | None = None

    def position(self, raw: float) -> float:
        """Return the position in the travel, -1 to 1, for a raw position; NaN is the middle."""
        low, middle, high = self.span
        away = raw - middle if math.isfinite(raw) else 0.0
        return max(-1.0, min(1.0, away / (high - middle if away > 0.0 else middle - low)))


@dataclass(frozen=True)
class KeySource:
    """Two keys or buttons that move a value while one of them is held; one of them may be empty.

    ``rate`` is in half travels per second. With ``spring``, the value moves back after the key is
    released. ``name`` is a part of the name of the device that has the buttons.
    """

    minus: str
    plus: str
    rate: float = 2.0
    spring: bool = True
    name: str = ""


_ANY_AXIS = AxisSource(0)


@dataclass(frozen=True)
class Value:
    """The sources of one value; the first source that is available moves the value."""

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
    rest: float = 0.0
    safe: float = 0.0
    lever: bool = False
    """True if an axis must reach the value before it moves it."""
    ends: tuple[str, str] = ("-", "+")
    """What the low and the high end do, for the help."""

    @property
    def by_hand(self) -> str:
        """The keys and the mouse that can move the value, as text; empty if there are none."""
        told = []
        if self.keyboard is not None:
            keys = (self.keyboard.plus, self.ends[1]), (self.keyboard.minus, self.ends[0])
            told += [", ".join(f"{key}: {end}" for key, end in keys if key)]
        if self.mouse is not None:
            told.append("mouse (M)")
        return "; ".join(told)

    @property
    def by_device(self) -> bool:
        """True if the mapping has an axis or a button of a device for the value."""
        return any(s is not None for s in (self.joystick, self.gamepad, self.buttons))

    def shape(self, raw: float, source: AxisSource = _ANY_AXIS) -> float:
        """Return the deflection -1 to 1 for the raw position ``raw`` of ``source``."""
        x = source.position(raw)
        if self.invert if source.invert is None else source.invert:
            x = -x
        dead = self.dead_zone if source.dead_zone is None else source.dead_zone
        x = math.copysign(max(0.0, (abs(x) - dead) / (1.0 - dead)), x)
        x = (1.0 - self.curve) * x + self.curve * x * x * x
        return max(-1.0, min(1.0, x + self.trim))

    def raw(self, position: float, source: AxisSource = _ANY_AXIS) -> float:
        """Return the raw position, -1 to 1, for which :meth:`shape` returns ``position``."""
        if self.shape(0.0, source) == position:
            return 0.0
        low, high = -1.0, 1.0
        rises = self.shape(high, source) >= self.shape(low, source)
        for _ in range(40):
            middle = (low + high) / 2.0
            below = self.shape(middle, source) < position
            low, high = (middle, high) if below is rises else (low, middle)
        return (low + high) / 2.0


_BOUNDS = {
    "dead_zone": (0.0, 0.9),
    "curve": (0.0, 1.0),
    "trim": (-1.0, 1.0),
    "rate": (-100.0, 100.0),
    "range": (-1.0, 1.0),
    "safe": (-math.inf, math.inf),
    "rest": (-math.inf, math.inf),
}
_KEYS = ("minus", "plus", "rate", "spring")
_AXIS = ("axis", "name", "rate", "range", "invert", "dead_zone")
_SOURCES: dict[str, tuple[str, ...]] = {
    "joystick": _AXIS, "gamepad": _AXIS, "keyboard": _KEYS, "buttons": (*_KEYS, "name"),
    "mouse": ("axis", "rate", "invert", "dead_zone"),
}  # fmt: skip


def read_mapping(path: Path, stick: Signals) -> tuple[Value, ...]:
    """Read the mapping in the file ``path``; return it for the signals of ``stick``, in order."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise MappingError(
                f"{path} has more than {MOST_BYTES} bytes, which is too long for a mapping"
            )
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return mapping_of(data, stick, str(path))
    except (OSError, ValueError) as error:  # a number of 5000 digits raises ValueError
        raise MappingError(
            f"{path} is not a valid mapping: {error}; docs/pilot.md describes mappings"
        ) from error
    except (RecursionError, OverflowError) as error:
        raise MappingError(
            f"{path} has too many levels of nested tables or too large a number; docs/pilot.md "
            "describes mappings"
        ) from error


def mapping_of(data: Mapping[str, Any], stick: Signals, where: str) -> tuple[Value, ...]:
    """Return the mapping for the parsed TOML ``data``; ``where`` is its name in error messages.

    A signal of ``stick`` without a table keeps its initial value.
    """
    for name in data:
        if name not in stick:
            raise UnknownName("value", name, stick.names, where)
    return tuple(_value(s.name, data.get(s.name, {}), stick, where) for s in stick)


def _value(name: str, table: Any, stick: Signals, where: str) -> Value:
    where = f"{where}: {name}"
    if not isinstance(table, dict):
        raise MappingError(f"{where} is {table!r}; expected a table: [{name}]")
    given: dict[str, Any] = {}
    for key, value in table.items():
        if key in _SOURCES:
            given[key] = _source(key, value, f"{where}.{key}")
        elif key in ("invert", "pickup"):
            given[key] = _flag(value, f"{where}.{key}")
        elif key == "ends":
            given[key] = _ends(value, f"{where}.{key}")
        elif key in ("dead_zone", "curve", "trim", "rest", "safe"):
            given[key] = _number(key, value, where)
        else:
            own = ("dead_zone", "curve", "invert", "trim", "rest", "safe", "pickup", "ends")
            raise UnknownName("key", key, [*_SOURCES, *own], where)
    signal = stick[name]
    given.setdefault("rest", float(stick.initial()[stick.slice(name)][0]))
    given.setdefault("safe", given["rest"])
    for key in ("rest", "safe"):
        if not signal.low <= given[key] <= signal.high:
            raise MappingError(
                f"{where}.{key} = {given[key]:g} is outside the range of the signal, "
                f"{signal.low:g} to {signal.high:g}"
            )
    return Value(name, lever=given.pop("pickup", False), **given)


def _ends(value: Any, where: str) -> tuple[str, str]:
    if not isinstance(value, list) or len(value) != 2:
        raise MappingError(f"{where} = {value!r}; expected two texts, for the low and the high end")
    low, high = (_text(text, where) for text in value)
    return low, high


def _source(kind: str, table: Any, where: str) -> AxisSource | KeySource:
    if not isinstance(table, dict):
        raise MappingError(f"{where} is {table!r}; expected a table: {kind} = {{ ... }}")
    for key in table:
        if key not in _SOURCES[kind]:
            raise UnknownName("key", key, _SOURCES[kind], where)
    rate = _number("rate", table["rate"], where) if "rate" in table else None
    name = _text(table["name"], f"{where}.name") if "name" in table else ""
    if kind in ("keyboard", "buttons"):
        of = _button if kind == "buttons" else _key
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
    """Return (low, middle, high) for a TOML ``[low, high]`` or ``[low, middle, high]``."""
    if not isinstance(given, list) or len(given) not in (2, 3):
        raise MappingError(f"{where} = {given!r}; expected [low, high] or [low, middle, high]")
    found = [_number("range", value, where) for value in given]
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


def _number(key: str, value: Any, where: str) -> float:
    low, high = _BOUNDS[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MappingError(f"{where}.{key} = {value!r}; expected a finite number")
    if not low <= value <= high:
        raise MappingError(f"{where}.{key} = {value:g}; expected {low:g} to {high:g}")
    return float(value)


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise MappingError(f"{where} = {value!r}; expected true or false")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 100:
        raise MappingError(f"{where} = {value!r}; expected a name of 1 to 100 characters")
    return value
