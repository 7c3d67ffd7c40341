"""What each control of a device does by a mapping, as text for ``rtsim joystick``."""

from __future__ import annotations

from rtsim.pilot.devices.described import Described
from rtsim.pilot.devices.keys import WINDOW_COMMANDS
from rtsim.pilot.devices.mapping import DeviceMapping
from rtsim.pilot.devices.presses import GAMEPAD_BUTTONS
from rtsim.pilot.devices.sources import GAMEPAD_AXES, Value


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
        found.append((_axis(axis.axis, device), " (speed)" if axis.rate else ""))
    keys = value.buttons
    if keys is not None and keys.which.fits(device):
        found += [(keys.minus, f": {value.ends[0]}"), (keys.plus, f": {value.ends[1]}")]
    for one in value.pressed:
        if one.press.button and one.press.which.fits(device):
            found.append((one.press.button, f": {one}"))
    return found


def _axis(number: int, device: Described) -> str:
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
