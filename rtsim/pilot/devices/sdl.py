"""Read joysticks, gamepads, keys and mouse through SDL.

Devices are identified by instance id, because names can be equal and indices change. SDL delivers
events of these devices even if the window does not have the focus.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rtsim.core.clock import stopwatch
from rtsim.core.extras import needs
from rtsim.pilot.devices.device import Described, DeviceSample, Stick
from rtsim.pilot.devices.sources import GAMEPAD_AXES, MOST_AXES
from rtsim.pilot.devices.switches import GAMEPAD_BUTTONS

with needs("pilot", "a joystick or a window"):
    import pygame

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
os.environ.setdefault("SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS", "1")

try:
    from pygame._sdl2 import controller as gamepads
except ImportError:  # builds without this module treat gamepads as joysticks
    gamepads = None  # type: ignore[assignment,unused-ignore]

MOST_STICKS = 16
_MOST_BUTTONS, _MOST_HATS = 128, 8
_FULL = 32767.0
_GAMEPAD_BUTTON = getattr(pygame, "CONTROLLERBUTTONDOWN", -1)
_SYSTEM_EVENT = getattr(pygame, "SYSWMEVENT", 0x201)
_X_TIMED = range(2, 7)
"""Types of X events that contain the time of the event: keys, buttons and motions."""
_X_TIME_AT = 56
_MS = 1_000_000
_SANE_MS = 1000
"""An event with a greater age than this, ms, has the time of another machine's X server."""
_BARELY = 2.0 / 65535.0
"""Strength of the weakest rumble. SDL has no other test whether a device can rumble."""


@dataclass
class _Plugged:
    joystick: Any
    gamepad: Any
    name: str
    guid: str
    order: int
    """1 for the first device of its model, 2 for the second.

    The number stays while the device is plugged in.
    """
    tapped: set[str] = field(default_factory=set)
    """Buttons pressed since the last sample. Some may be released already."""
    can_rumble: bool | None = None


class Devices:
    """All devices that SDL has found; call ``look`` about once per millisecond."""

    def __init__(self, handle: Callable[[Any], object] | None = None) -> None:
        """Find all devices.

        ``handle`` is called with each event of the window, such as a key, a click or a new size.
        """
        self._mouse_flies = False
        self._mouse = (0.0, 0.0)
        """Sum of the mouse's movements while it moves the stick, in halves of the window."""
        self.news: list[str] = []
        """Messages about devices plugged in or unplugged. The reader clears this list."""
        self._handle = handle
        self._plugged: dict[int, _Plugged] = {}
        self._keys: set[str] = set()
        self._tapped: set[str] = set()
        self._came = False
        self.since_ns = 0
        """Earliest possible time of the changes in the latest sample.

        The time is in ns of :func:`rtsim.core.clock.stopwatch`. If an X server reported a key,
        button or motion since the previous sample, the first of these events gives the time.
        Otherwise the time is that of the previous sample, because SDL 2 itself reports no times.
        """
        self._looked_ns = 0
        self._happened: list[int] = []
        _ask_for_x_events()
        pygame.joystick.init()
        if gamepads is not None:
            gamepads.init()
        for index in range(pygame.joystick.get_count()):  # these were plugged in before SDL started
            self._add(index)

    def look(self) -> DeviceSample:
        """Process the events since the last call, and return the state of all devices."""
        began = stopwatch()
        for event in pygame.event.get():
            self._take(event)
        if self._came:  # SDL reports 0 for a new device until the next fetch of events
            self._came = False
            pygame.event.pump()
        sticks = {number: _read(plugged) for number, plugged in self._plugged.items()}
        mouse = self._mouse if self._mouse_flies else None
        keys = frozenset(self._keys | self._tapped)
        self._tapped.clear()
        self.since_ns = min(self._happened, default=self._looked_ns or began)
        self._looked_ns = began
        self._happened.clear()
        return DeviceSample(sticks, keys, mouse)

    @property
    def mouse_flies(self) -> bool:
        """True if the mouse moves the stick; the pointer is then hidden."""
        return self._mouse_flies

    @mouse_flies.setter
    def mouse_flies(self, flies: bool) -> None:
        self._mouse_flies = flies
        if pygame.display.get_init() and pygame.display.get_surface() is not None:
            pygame.mouse.set_visible(not flies)
            pygame.event.set_grab(flies)  # with a hidden pointer, SDL reports relative movements

    def rumble(self, low: float, high: float, milliseconds: int, only: AbstractSet[int]) -> bool:
        """Make the devices with the instance ids ``only`` vibrate; return True if any can.

        ``low`` and ``high`` are the strengths of the heavy and the light motor, 0 to 1. If both are
        0, the rumble ends.
        """
        done = False
        for number in only & self._plugged.keys():
            plugged = self._plugged[number]
            if low or high:
                plugged.can_rumble = bool(plugged.joystick.rumble(low, high, milliseconds))
                done = done or plugged.can_rumble
            elif plugged.can_rumble:
                plugged.joystick.stop_rumble()
        return done

    def describe(self) -> list[Described]:
        """Return the description of every joystick and gamepad."""
        return [_described(n, plugged) for n, plugged in sorted(self._plugged.items())]

    def close(self) -> None:
        self.mouse_flies = False
        self._plugged.clear()
        if gamepads is not None:
            gamepads.quit()
        pygame.joystick.quit()

    def _take(self, event: Any) -> None:
        if event.type == _SYSTEM_EVENT:
            self._note_time(event.dict.get("event"))
        elif event.type == pygame.JOYDEVICEADDED:
            self._add(event.device_index)
        elif event.type == pygame.JOYDEVICEREMOVED:
            self._remove(event.instance_id)
        elif event.type == pygame.KEYDOWN:
            self._keys.add(pygame.key.name(event.key))
            self._tapped.add(pygame.key.name(event.key))
        elif event.type == pygame.KEYUP:
            self._keys.discard(pygame.key.name(event.key))
        elif event.type in (pygame.JOYBUTTONDOWN, pygame.JOYHATMOTION, _GAMEPAD_BUTTON):
            self._tap(event)
        elif event.type == pygame.MOUSEMOTION and self._mouse_flies:
            self._mouse_moved(*event.rel)
        elif event.type == pygame.WINDOWFOCUSLOST:
            self._keys.clear()  # another window receives the events of their release
            self._tapped.clear()
        if self._handle is not None:
            self._handle(event)

    def _note_time(self, data: bytes | None) -> None:
        if data is None or len(data) < _X_TIME_AT + 4:
            return
        if struct.unpack_from("i", data)[0] in _X_TIMED:
            now_ms = stopwatch() // _MS
            age_ms = (now_ms - struct.unpack_from("I", data, _X_TIME_AT)[0]) % 2**32
            if age_ms < _SANE_MS:
                self._happened.append((now_ms - age_ms) * _MS)

    def _add(self, index: int) -> None:
        try:
            joystick = pygame.joystick.Joystick(index)
            number = joystick.get_instance_id()
            if number in self._plugged or len(self._plugged) >= MOST_STICKS:
                return
            gamepad = None
            if gamepads is not None and gamepads.is_controller(index):
                gamepad = gamepads.Controller.from_joystick(joystick)
            self._plugged[number] = self._described(joystick, gamepad)
        except pygame.error as error:  # unplugged meanwhile, or no permission to read it
            self.news.append(f"a device cannot be used: {error}")
            return
        self._came = True
        self.news.append(f"{self._plugged[number].name} was plugged in")

    def _described(self, joystick: Any, gamepad: Any) -> _Plugged:
        name, guid = joystick.get_name() or "joystick", joystick.get_guid()
        taken = {p.order for p in self._plugged.values() if (p.name, p.guid) == (name, guid)}
        order = next(k for k in range(1, MOST_STICKS + 1) if k not in taken)
        return _Plugged(joystick, gamepad, name, guid, order)

    def _tap(self, event: Any) -> None:
        plugged = self._plugged.get(event.instance_id)
        if plugged is None or (event.type == _GAMEPAD_BUTTON) is (plugged.gamepad is None):
            return
        if event.type == pygame.JOYHATMOTION:
            plugged.tapped.update(_hat(event.hat, *event.value))
        elif plugged.gamepad is None:
            plugged.tapped.add(f"button{event.button}")
        elif event.button < len(GAMEPAD_BUTTONS):
            plugged.tapped.add(GAMEPAD_BUTTONS[event.button])

    def _remove(self, number: int) -> None:
        plugged = self._plugged.pop(number, None)
        if plugged is not None:
            self.news.append(f"{plugged.name} was unplugged")

    def _mouse_moved(self, across: float, down: float) -> None:
        surface = pygame.display.get_surface()
        if surface is not None:
            width, height = surface.get_size()
            x, y = self._mouse
            self._mouse = x + 2.0 * across / max(1, width), y + 2.0 * down / max(1, height)


def _ask_for_x_events() -> None:
    if not sys.platform.startswith("linux") or ctypes.sizeof(ctypes.c_long) != 8:
        return
    if not pygame.display.get_init() or pygame.display.get_driver() != "x11":
        return
    try:
        loaded = (line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines())
        name = next(path for path in loaded if Path(path).name.startswith("libSDL2-2"))
        event_state = ctypes.CDLL(name).SDL_EventState
    except (OSError, StopIteration, AttributeError, IndexError):
        return
    event_state.argtypes, event_state.restype = [ctypes.c_uint32, ctypes.c_int], ctypes.c_uint8
    event_state(_SYSTEM_EVENT, 1)


def _read(plugged: _Plugged) -> Stick:
    buttons = frozenset((*_held(plugged), *plugged.tapped))
    plugged.tapped.clear()
    kind, axes = "joystick", _axes(plugged.joystick)
    if plugged.gamepad is not None:
        kind = "gamepad"
        axes = tuple(plugged.gamepad.get_axis(k) / _FULL for k in range(len(GAMEPAD_AXES)))
    return Stick(kind, plugged.name, axes, buttons, plugged.guid, plugged.order)


def _axes(joystick: Any) -> tuple[float, ...]:
    return tuple(joystick.get_axis(k) for k in range(min(joystick.get_numaxes(), MOST_AXES)))


def _held(plugged: _Plugged) -> Iterator[str]:
    if plugged.gamepad is not None:
        yield from (name for k, name in enumerate(GAMEPAD_BUTTONS) if plugged.gamepad.get_button(k))
        return
    joystick = plugged.joystick
    for k in range(min(joystick.get_numbuttons(), _MOST_BUTTONS)):
        if joystick.get_button(k):
            yield f"button{k}"
    for k in range(min(joystick.get_numhats(), _MOST_HATS)):
        yield from _hat(k, *joystick.get_hat(k))


def _hat(number: int, right: int, up: int) -> Iterator[str]:
    if right:
        yield f"hat{number}right" if right > 0 else f"hat{number}left"
    if up:
        yield f"hat{number}up" if up > 0 else f"hat{number}down"


def _described(number: int, plugged: _Plugged) -> Described:
    joystick = plugged.joystick
    if plugged.can_rumble is None:
        plugged.can_rumble = bool(joystick.rumble(_BARELY, 0.0, 1))
    buttons = range(min(joystick.get_numbuttons(), _MOST_BUTTONS))
    hats = range(min(joystick.get_numhats(), _MOST_HATS))
    return Described(
        number,
        plugged.name,
        plugged.guid,
        _axes(joystick),
        tuple(bool(joystick.get_button(k)) for k in buttons),
        tuple(joystick.get_hat(k) for k in hats),
        plugged.can_rumble,
        None if plugged.gamepad is None else dict(plugged.gamepad.get_mapping()),
        plugged.order,
        tuple(sorted(_held(plugged))),
    )
