"""What the devices of a person report at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stick:
    """A sample of a joystick or gamepad; positions are -1 to 1."""

    kind: str
    """The kind of the device: ``joystick`` or ``gamepad``."""
    name: str
    axes: tuple[float, ...]
    buttons: frozenset[str] = frozenset()
    """The buttons that are held, with the names of :mod:`rtsim.pilot.devices.presses`."""
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
