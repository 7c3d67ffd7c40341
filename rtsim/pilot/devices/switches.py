"""Switches and trimmers, operated by buttons, hats and keys.

The module does not use SDL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rtsim.core.errors import UnknownName
from rtsim.core.tag import NS_PER_S
from rtsim.core.toml import Entries, Key, ListKey, choice, number, table
from rtsim.pilot.devices.device import DEVICE_KEYS, NAME, DeviceSample, Which

# Names of keys, as pygame returns them, and the keys that the window uses.

NAMED = (
    "up", "down", "left", "right", "space", "return", "tab", "backspace", "escape", "delete",
    "insert", "home", "end", "page up", "page down", "left shift", "right shift", "left ctrl",
    "right ctrl", "left alt", "right alt", "left meta", "right meta", "caps lock", "numlock",
    "scroll lock", "print screen", "break", "menu", "enter", "equals",
    *(f"[{key}]" for key in "0123456789./*-+"), *(f"f{k}" for k in range(1, 16)),
)  # fmt: skip
"""Names of keys with more than one letter. Names in brackets are keys of the number pad."""
OF_THE_WINDOW = frozenset(
    ("f1", "f2", "f3", "f4", "f5", "f6", "f11", "f12", "escape", "backspace", "space", "page up",
     "page down", "[+]", "[-]",
     *"hvmpncxbr+=-1")
)  # fmt: skip
"""Keys that the window uses. :mod:`rtsim.pilot.viewer.frames` defines their effects."""
WINDOW_COMMANDS = {
    "help": "shows or hides the list of keys",
    "view": "changes between the views of the scene",
    "next_page": "shows further strips",
    "previous_page": "shows the strips before",
    "mouse": "lets the mouse move the stick, or releases it",
    "pause": "pauses or resumes",
    "step": "makes a single step while paused",
    "faster": "doubles the rate",
    "slower": "halves the rate",
    "real_time": "sets the rate to real time",
    "mark": "sets a mark in the recording",
    "checkpoint": "saves a checkpoint",
    "return": "goes back to the checkpoint",
    "rewind": "goes 5 s back",
    "rewind_far": "goes 30 s back",
    "reset": "goes back to the beginning",
    "screenshot": "saves a picture of the window",
    "full_screen": "fills the screen, or leaves it",
    "look_left": "looks further to the left",
    "look_right": "looks further to the right",
    "look_up": "looks further up",
    "look_down": "looks further down",
    "look_ahead": "looks ahead",
    "quit": "ends the run",
}


def key_named(given: Any) -> str:
    """Check that ``given`` is the name of an available key, and return the name.

    A name of one letter means the key with this letter on the user's keyboard.
    """
    name = str(NAME.convert(given))
    letter = len(name) == 1 and name.isprintable() and name == name.lower()
    if not letter and name not in NAMED:
        low = name.lower()
        if len(low) == 1 or low in NAMED:
            raise ValueError(f"key names are in lower case; write {low!r}")
        raise UnknownName("key", name, NAMED)
    if name in OF_THE_WINDOW:
        raise ValueError("the window uses this key (F1 shows the keys of the window)")
    return name


# Buttons, hats and keys that are held, and those that were newly pressed.

GAMEPAD_BUTTONS = (
    "a", "b", "x", "y", "back", "guide", "start", "leftstick", "rightstick", "leftshoulder",
    "rightshoulder", "dpup", "dpdown", "dpleft", "dpright",
)  # fmt: skip
"""The buttons of a gamepad in SDL's order.

A joystick's buttons are called ``button0``, ``button1`` and so on, its hats ``hat0up``,
``hat0left`` and so on.
"""
PRESS_EXAMPLE = '{ button = "button4" }'
_JOYSTICK_BUTTON = re.compile(r"button\d{1,3}|hat\d{1,2}(up|down|left|right)")
_NOTHING = DeviceSample()


@dataclass(frozen=True)
class Press:
    """A key, or a button or hat direction of a device."""

    button: str = ""
    key: str = ""
    which: Which = Which()

    def __str__(self) -> str:
        return self.key or " of ".join(filter(None, (self.button, self.which.name)))

    @classmethod
    def of(cls, row: Entries) -> Press:
        """Return the button or key that a table of a mapping declares."""
        if bool(row["button"]) == bool(row["key"]):
            raise row.error("", f"write either a button or a key, such as {PRESS_EXAMPLE}")
        if row["key"] and (of_device := [key for key in DEVICE_KEYS if key in row.given]):
            text = f"{of_device[0]} names a joystick, but a key has none; leave it out"
            raise row.error(of_device[0], text)
        return cls(row["button"], row["key"], Which.of(row))


def button_named(given: Any) -> str:
    """Check that ``given`` is the name of a button or hat direction, and return the name."""
    name = str(NAME.convert(given))
    if name not in GAMEPAD_BUTTONS and not _JOYSTICK_BUTTON.fullmatch(name):
        raise UnknownName("button", name, ("button0", "hat0up", *GAMEPAD_BUTTONS))
    return name


BUTTON = Key("the name of a button, such as 'button4' or 'hat0up'", "", button_named)
KEY = Key("the name of another key, such as 'j' or 'left'", "", key_named)
PRESS = {"button": BUTTON, "key": KEY, **DEVICE_KEYS}


def presses(keys: Mapping[str, Key], example: str) -> Key:
    """Declare a key of a TOML file whose value is a table or a list of tables."""
    of = table(keys, f"a table: {example}")
    return ListKey(f"1 to 64 tables: [{example}]", (), of=of, count=range(1, 65), single=True)


class Presses:
    """The buttons and keys that are pressed in the latest sample.

    A button that is already on when its device is plugged in does not count as pressed.
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
        """Return the device on which a button is newly pressed, or ""."""
        before = self._before or self._now
        if press.key:
            return "keyboard" if press.key in self._now.keys - before.keys else ""
        for instance, stick in self._now.sticks.items():
            earlier = before.sticks.get(instance)
            if earlier is None or press.button in earlier.buttons:
                continue
            if press.button in stick.buttons and press.which.fits(stick):
                return stick.name
        return ""


REPEAT_AFTER_NS = NS_PER_S // 2
REPEAT_NS = NS_PER_S // 10
_TRIMMER_EXAMPLE = '{ button = "hat0up", by = -0.02 }'


@dataclass(frozen=True)
class Switch:
    """A button or key that sets a signal to a value."""

    press: Press
    kind: str
    to: float
    again: float
    """The value that a press sets if the value is already ``to``."""
    released: float | None = None
    """The value after the release; ``None`` if the value then stays."""

    def pressed(self, present: float, least: float) -> float:
        """Return the new value. Values that differ by at most ``least`` count as equal."""
        return self.again if abs(present - self.to) <= least else self.to

    def __str__(self) -> str:
        return self.kind if self.kind != "set" else f"= {self.to:g}"


@dataclass(frozen=True)
class Trimmer:
    """A button or key that changes a trim by ``by``, or sets the trim to ``to``."""

    press: Press
    by: float = 0.0
    to: float | None = None

    def moved(self, trim: float, times: int) -> float:
        return max(-1.0, min(1.0, trim + times * self.by if self.to is None else self.to))

    def __str__(self) -> str:
        return f"trim {self.by:+g}" if self.to is None else f"trim = {self.to:g}"


class Repeats:
    """Count how often a held trimmer acts."""

    def __init__(self) -> None:
        self._next: dict[Trimmer, int] = {}

    def due(self, trimmer: Trimmer, held: Presses, ns: int) -> int:
        """Return how often the trimmer acts at the time ``ns``."""
        if held.by(trimmer.press):
            self._next[trimmer] = ns + REPEAT_AFTER_NS
            return 1
        if not held.held(trimmer.press):
            self._next.pop(trimmer, None)
        if trimmer not in self._next or trimmer.to is not None or ns < self._next[trimmer]:
            return 0
        times = 1 + (ns - self._next[trimmer]) // REPEAT_NS
        self._next[trimmer] += times * REPEAT_NS
        return times


def _toggle(press: Press, high: float, low: float, rest: float) -> Switch:  # noqa: ARG001
    return Switch(press, "toggle", high, low)


def _hold(press: Press, high: float, low: float, rest: float) -> Switch:  # noqa: ARG001
    return Switch(press, "momentary", high, high, rest)


def _set(press: Press, high: float, low: float, rest: float) -> Switch:  # noqa: ARG001
    return Switch(press, "set", high, high)


KINDS: dict[str, Callable[[Press, float, float, float], Switch]] = {
    "toggle": _toggle, "momentary": _hold, "set": _set,
}  # fmt: skip
"""Kinds of switches by name. They differ in the effects of a press, a second press and the release.
"""


SWITCHES = presses(
    {"do": choice(KINDS, what="do"), "to": number(default=None), "else": number(default=None)}
    | PRESS,
    '{ button = "button4", do = "toggle" }',
)
TRIMMERS = presses(
    {"by": number(-1.0, 1.0, None), "to": number(-1.0, 1.0, None)} | PRESS, _TRIMMER_EXAMPLE
)


def switch_of(row: Entries, span: tuple[float, float], rest: float) -> Switch:
    """Read a switch from a table of a mapping.

    ``span`` contains the ends of the value's range, and ``rest`` is the value at rest.
    """
    kind = row["do"]
    if kind == "set" and row["to"] is None:
        raise row.error("do", "the switch has no value to set; write 'to = VALUE'")
    if row["else"] is not None and kind != "toggle":
        raise row.error("else", "else belongs to do = 'toggle'; leave it out")
    to, other = (
        _within(row, key, default, span) for key, default in (("to", span[1]), ("else", span[0]))
    )
    if kind == "toggle" and to == other:
        text = f"both positions of the toggle are {to:g}; give 'to' and 'else' different values"
        raise row.error("to", text)
    return KINDS[kind](Press.of(row), to, other, rest)


def _within(row: Entries, key: str, default: float, span: tuple[float, float]) -> float:
    value: float = default if row[key] is None else row[key]
    low, high = span
    if not low <= value <= high:
        text = f"{key} = {value:g} is outside the range of the value, {low:g} to {high:g}"
        raise row.error(key, text)
    return value


def trimmer_of(row: Entries) -> Trimmer:
    """Read a trimmer from a table of a mapping."""
    if (row["by"] is None) == (row["to"] is None):
        text = f"give exactly one of the keys 'by' and 'to', as in {_TRIMMER_EXAMPLE}"
        raise row.error("", text)
    return Trimmer(Press.of(row), row["by"] or 0.0, row["to"])
