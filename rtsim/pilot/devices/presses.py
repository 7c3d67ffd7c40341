"""Buttons, hats and keys: which of them are held, and which were newly pressed; without SDL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtsim.core.errors import UnknownName
from rtsim.pilot.devices import checked, which
from rtsim.pilot.devices.checked import MappingError
from rtsim.pilot.devices.keys import check_key
from rtsim.pilot.devices.samples import DeviceSample
from rtsim.pilot.devices.which import Which

GAMEPAD_BUTTONS = (
    "a", "b", "x", "y", "back", "guide", "start", "leftstick", "rightstick", "leftshoulder",
    "rightshoulder", "dpup", "dpdown", "dpleft", "dpright",
)  # fmt: skip
"""The buttons of a gamepad in SDL's order.

The names of a joystick's buttons are ``button0`` and so on, and ``hat0up``, ``hat0left`` and so on.
"""
KEYS = ("button", "key", *which.KEYS)
EXAMPLE = '{ button = "button4" }'
_JOYSTICK_BUTTON = re.compile(r"button\d{1,3}|hat\d{1,2}(up|down|left|right)")
_NOTHING = DeviceSample()


@dataclass(frozen=True)
class Press:
    """A button or a direction of a hat, on the device ``which``, or a key of the keyboard."""

    button: str = ""
    key: str = ""
    which: Which = Which()

    def __str__(self) -> str:
        return self.key or " of ".join(filter(None, (self.button, self.which.name)))

    @classmethod
    def of(cls, table: Mapping[str, Any], where: str) -> Press:
        """Return the press that ``table`` means: its ``button`` or its ``key``."""
        if ("button" in table) == ("key" in table):
            raise MappingError(f"{where} needs either a button or a key, such as {EXAMPLE}")
        if "key" in table:
            if of_device := [key for key in which.KEYS if key in table]:
                raise MappingError(
                    f"{where}: {of_device[0]} names a joystick, but a key has none; leave it out"
                )
            return cls(key=key_named(table["key"], f"{where}.key"))
        return cls(button_named(table["button"], f"{where}.button"), which=Which.of(table, where))


def key_named(given: Any, where: str) -> str:
    return check_key(checked.text(given, where), where)


def button_named(given: Any, where: str) -> str:
    name = checked.text(given, where)
    if name not in GAMEPAD_BUTTONS and not _JOYSTICK_BUTTON.fullmatch(name):
        known = ("button0", "hat0up", *GAMEPAD_BUTTONS)
        raise UnknownName("button", name, known, where)
    return name


class Presses:
    """The presses of the last sample of all devices.

    A button that is held when its device is plugged in is not a press, because switches of a
    throttle are on all the time.
    """

    def __init__(self) -> None:
        self._before: DeviceSample | None = None
        self._now = _NOTHING

    def look(self, sample: DeviceSample) -> None:
        self._before = self._before and self._now
        self._before = self._before or sample
        self._now = sample

    def held(self, press: Press) -> bool:
        if press.key:
            return press.key in self._now.keys
        return any(
            press.button in stick.buttons and press.which.fits(stick)
            for stick in self._now.sticks.values()
        )

    def by(self, press: Press) -> str:
        """Return the name of the device that has just been pressed; empty without a new press."""
        before = self._before or self._now
        if press.key:
            return "keyboard" if press.key in self._now.keys - before.keys else ""
        for number, stick in self._now.sticks.items():
            earlier = before.sticks.get(number)
            if earlier is None or press.button in earlier.buttons:
                continue
            if press.button in stick.buttons and press.which.fits(stick):
                return stick.name
        return ""
