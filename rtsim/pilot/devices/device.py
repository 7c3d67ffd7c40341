"""Devices: what they report, which one a mapping means, and checks of a mapping's entries."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from rtsim.core.errors import RtsimError, UnknownName


@dataclass(frozen=True)
class Stick:
    """A sample of a joystick or gamepad; positions are -1 to 1."""

    kind: str
    """The kind of the device: ``joystick`` or ``gamepad``."""
    name: str
    axes: tuple[float, ...]
    buttons: frozenset[str] = frozenset()
    """The buttons that are held, with the names of :mod:`rtsim.pilot.devices.switches`."""
    guid: str = ""
    """SDL's identifier of the model."""
    order: int = 1
    """1, or the number of the device among those of its model; it stays when another one goes."""


@dataclass(frozen=True)
class DeviceSample:
    """The state of all devices at one time."""

    sticks: Mapping[int, Stick] = field(default_factory=dict)
    """Joysticks and gamepads by instance id; a device keeps its id while it is plugged in."""
    keys: frozenset[str] = frozenset()
    mouse: tuple[float, float] | None = None
    """The sum of the mouse's movements, in halves of the window, to the right and down; ``None`` if
    the mouse does not move the stick."""


@dataclass(frozen=True)
class Described:
    """A device; ``axes`` are raw positions -1 to 1, ``hats`` are (right, up), each -1, 0 or 1."""

    number: int
    """The instance id; it differs between two devices of the same model."""
    name: str
    guid: str
    """SDL's identifier of the model; two devices of the same model share it."""
    axes: tuple[float, ...]
    buttons: tuple[bool, ...]
    hats: tuple[tuple[int, int], ...]
    rumble: bool
    gamepad: Mapping[str, str] | None
    """SDL's mapping from gamepad controls to the device's controls; ``None`` if not a gamepad."""
    order: int = 1
    """The number of the device among those of its model, from 1; ``number`` in a mapping."""
    held: tuple[str, ...] = ()
    """The buttons and hats that are held, with the names that a mapping uses."""

    def to_plain(self) -> dict[str, Any]:
        return {**asdict(self), "gamepad": None if self.gamepad is None else dict(self.gamepad)}


# The device that a mapping means: by a part of its name, its GUID, or its number in a pair.

MOST_OF_A_MODEL = 16
DEVICE_KEYS = ("name", "guid", "number")
_GUID = re.compile("[0-9a-f]{32}")


class Device(Protocol):
    """The properties of a device by which a mapping can name it."""

    @property
    def name(self) -> str: ...
    @property
    def guid(self) -> str: ...
    @property
    def order(self) -> int: ...


@dataclass(frozen=True)
class Which:
    """The devices that an entry of a mapping means; without any field, every device."""

    name: str = ""
    """A part of the device's name; upper and lower case are the same."""
    guid: str = ""
    """SDL's identifier of the model, as ``rtsim joystick`` shows it."""
    number: int = 0
    """1 for the first device of several of one model, 2 for the second; 0 for any."""

    def fits(self, device: Device) -> bool:
        return (
            self.name.lower() in device.name.lower()
            and self.guid in ("", device.guid)
            and self.number in (0, device.order)
        )

    @property
    def given(self) -> bool:
        return self != Which()

    def to_plain(self) -> dict[str, Any]:
        """Return the keys of the mapping file that mean this device."""
        plain = {"name": self.name, "guid": self.guid, "number": self.number}
        return {key: value for key, value in plain.items() if value}

    @classmethod
    def of(cls, table: Mapping[str, Any], where: str) -> Which:
        """Return the device that the keys ``name``, ``guid`` and ``number`` of ``table`` mean."""
        name = checked_text(table["name"], f"{where}.name") if "name" in table else ""
        guid = table.get("guid", "")
        if guid and not (isinstance(guid, str) and _GUID.fullmatch(guid.lower())):
            raise MappingError(
                f"{where}.guid = {guid!r}; expected the 32 digits 0 to 9, a to f that rtsim "
                "joystick shows"
            )
        count = table.get("number", 0)
        valid = isinstance(count, int) and not isinstance(count, bool)
        if "number" in table and not (valid and 1 <= count <= MOST_OF_A_MODEL):
            raise MappingError(
                f"{where}.number = {count!r}; expected 1 for the first device of this model, 2 "
                f"for the second, to {MOST_OF_A_MODEL}"
            )
        return cls(name, guid.lower(), count)


# Checks of the entries of a mapping file, one function for each kind of entry.

_MOST_ENTRIES = 64
_BOUNDS = {
    "dead_zone": (0.0, 0.9),
    "curve": (0.0, 1.0),
    "detent_width": (0.0, 0.5),
    "trim": (-1.0, 1.0),
    "by": (-1.0, 1.0),
    "rate": (-100.0, 100.0),
    "range": (-1.0, 1.0),
    "safe": (-math.inf, math.inf),
    "rest": (-math.inf, math.inf),
    "to": (-math.inf, math.inf),
    "else": (-math.inf, math.inf),
    "detents": (-math.inf, math.inf),
}


class MappingError(RtsimError):
    """A mapping of devices that is malformed."""


def checked_table(given: Any, known: Iterable[str], where: str, example: str) -> Mapping[str, Any]:
    """Return ``given`` if it is a table with the keys ``known`` only."""
    if not isinstance(given, dict):
        raise MappingError(f"{where} is {given!r}; expected a table: {example}")
    known = tuple(known)
    for key in given:
        if key not in known:
            raise UnknownName("key", key, known, where)
    return given


def checked_entries(given: Any, where: str, example: str) -> list[tuple[Any, str]]:
    """Return the entries of a list of tables, each with its name for messages.

    One table counts as a list of one entry.
    """
    listed = [given] if isinstance(given, dict) else given
    if not isinstance(listed, list) or not 0 < len(listed) <= _MOST_ENTRIES:
        raise MappingError(
            f"{where} is {given!r}; expected 1 to {_MOST_ENTRIES} tables: [{example}]"
        )
    return [(one, f"{where}[{k}]" if len(listed) > 1 else where) for k, one in enumerate(listed)]


def checked_number(key: str, value: Any, where: str) -> float:
    low, high = _BOUNDS[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MappingError(f"{where}.{key} = {value!r}; expected a finite number")
    if not low <= value <= high:
        raise MappingError(f"{where}.{key} = {value:g}; expected {low:g} to {high:g}")
    return float(value)


def checked_flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise MappingError(f"{where} = {value!r}; expected true or false")
    return value


def checked_text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 100:
        raise MappingError(f"{where} = {value!r}; expected a name of 1 to 100 characters")
    return value
