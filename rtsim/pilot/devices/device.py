"""Descriptions of devices, samples of devices, and the selection of a device."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from rtsim.core.errors import RtsimError
from rtsim.core.toml import Entries, Key, text, whole


@dataclass(frozen=True)
class Stick:
    """A sample of a joystick or gamepad, with positions from -1 to 1."""

    kind: str
    """Kind of the device: ``joystick`` or ``gamepad``."""
    name: str
    axes: tuple[float, ...]
    buttons: frozenset[str] = frozenset()
    """The held buttons, with the names of :mod:`rtsim.pilot.devices.switches`."""
    guid: str = ""
    order: int = 1
    """Number of the device among those of its model, from 1.

    The number stays when another device is unplugged.
    """


@dataclass(frozen=True)
class DeviceSample:
    """The state of all devices at one time."""

    sticks: Mapping[int, Stick] = field(default_factory=dict)
    """Joysticks and gamepads by instance id. A device keeps its id while it is plugged in."""
    keys: frozenset[str] = frozenset()
    mouse: tuple[float, float] | None = None
    """Sum of the mouse's movements to the right and down, in halves of the window.

    ``None`` if the mouse does not move the stick.
    """


@dataclass(frozen=True)
class Described:
    """Description of a device.

    ``axes`` are raw positions, -1 to 1. A hat is a pair (right, up) with the values -1, 0 or 1.
    """

    number: int
    """Instance id, which differs between two devices of the same model."""
    name: str
    guid: str
    """SDL's identifier of the model, which devices of the same model share."""
    axes: tuple[float, ...]
    buttons: tuple[bool, ...]
    hats: tuple[tuple[int, int], ...]
    rumble: bool
    gamepad: Mapping[str, str] | None
    """SDL's mapping from gamepad controls to the device's controls; ``None`` if not a gamepad."""
    order: int = 1
    """Number of the device among those of its model, from 1; the key ``number`` of a mapping."""
    held: tuple[str, ...] = ()
    """The held buttons and hats, with the names that a mapping uses."""

    def to_plain(self) -> dict[str, Any]:
        return {**asdict(self), "gamepad": None if self.gamepad is None else dict(self.gamepad)}


# Selection of a device in a mapping: by part of its name, by GUID, or by number within its model.

MOST_OF_A_MODEL = 16


def _guid(given: Any) -> str:
    if not isinstance(given, str) or not re.fullmatch("[0-9a-f]{32}", given.lower()):
        raise ValueError
    return given.lower()


NAME = text(wanted="a name of 1 to 100 characters", most=100)
DEVICE_KEYS = {
    "name": replace(NAME, default=""),
    "guid": Key("the 32 digits 0 to 9, a to f that rtsim joystick shows", "", _guid),
    "number": replace(
        whole(1, MOST_OF_A_MODEL, default=0),
        wanted=f"1 for the first device of this model, 2 for the second, to {MOST_OF_A_MODEL}",
    ),
}


class Device(Protocol):
    """The properties with which a mapping can select a device."""

    @property
    def name(self) -> str: ...
    @property
    def guid(self) -> str: ...
    @property
    def order(self) -> int: ...


@dataclass(frozen=True)
class Which:
    """Selection of devices in a mapping; without any given field, all devices are selected."""

    name: str = ""
    """A part of the device's name, in upper or lower case."""
    guid: str = ""
    """SDL's identifier of the model, as ``rtsim joystick`` shows it."""
    number: int = 0
    """1 for the first device of its model, 2 for the second; 0 for any device."""

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
        """Return the keys of a mapping file that select this device."""
        plain = {"name": self.name, "guid": self.guid, "number": self.number}
        return {key: value for key, value in plain.items() if value}

    @classmethod
    def of(cls, row: Entries) -> Which:
        """Return the selection of devices that a table of a mapping declares."""
        return cls(row["name"], row["guid"], row["number"])


class MappingError(RtsimError):
    """A mapping of devices is malformed."""


# Diagnosis if SDL finds no joystick.

_ELSEWHERE = {
    "win32": "type joy.cpl to see whether Windows detects it",
    "darwin": "System Settings, Privacy & Security, Input Monitoring must allow this terminal",
}


def why_none(
    root: Path = Path("/"),
    platform: str = sys.platform,
    readable: Callable[[Path], bool] = lambda path: os.access(path, os.R_OK),
) -> str:
    """Return why no joystick was found and what to do, without a full stop.

    For tests, ``root``, ``platform`` and ``readable`` replace the file system and the operating
    system.
    """
    if not platform.startswith("linux"):
        more = _ELSEWHERE.get(platform, "check whether the system detects it")
        return f"no joystick or gamepad was found: plug one in; {more}"
    inputs = root / "dev" / "input"
    if not inputs.is_dir():
        return (
            "no joystick or gamepad was found, because /dev/input does not exist. Start a "
            "container with --device /dev/input; under WSL, type on Windows: usbipd attach --wsl"
        )
    found = {
        _text(stick / "device" / "name"): [inputs / event.name for event in _events(stick)]
        for stick in sorted((root / "sys/class/input").glob("js*"))
    }
    shut = {name: [p for p in paths if not readable(p)] for name, paths in found.items()}
    for name, paths in shut.items():
        if paths:
            return (
                f"{name} is plugged in, but you have no permission to read "
                f"/dev/input/{paths[0].name}: type sudo usermod -aG input $USER, then log out and "
                "in again"
            )
    paths = [path for events in found.values() for path in events]
    if paths:
        return (
            f"the kernel detects {', '.join(found)}, but SDL does not: type "
            f"SDL_JOYSTICK_DEVICE=/dev/input/{paths[0].name} before the command"
        )
    return (
        "no joystick or gamepad is plugged in, or the kernel has no driver for it: lsusb lists "
        "the USB devices, sudo modprobe -a joydev xpad hid-generic loads the usual drivers"
    )


def _events(stick: Path) -> list[Path]:
    return sorted((stick / "device").glob("event*"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip() or "a joystick"
    except OSError:
        return "a joystick"
