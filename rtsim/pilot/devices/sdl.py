"""The devices through SDL: the only place that asks it for sticks, keys and the mouse.

Sticks are kept by instance id: an index changes when another device is unplugged, and a name may
belong to two.  Their events come also while the window has no focus.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
os.environ.setdefault("SDL_JOYSTICK_ALLOW_BACKGROUND_EVENTS", "1")

import pygame

try:
    from pygame._sdl2 import controller as gamepads
except ImportError:  # a build without it: gamepads are joysticks then
    gamepads = None  # type: ignore[assignment,unused-ignore]

from rtsim.pilot.devices.controls import Look, Stick
from rtsim.pilot.devices.mapping import GAMEPAD_AXES, MOST_AXES

MOST_STICKS = 16
_FULL = 32767.0


@dataclass
class _Plugged:
    joystick: Any
    gamepad: Any
    name: str


class Devices:
    """Every device that SDL shows; :meth:`look` once a millisecond or so."""

    def __init__(self, handle: Callable[[Any], object] | None = None) -> None:
        """``handle`` is given every event of the window: keys, clicks, its size, its end."""
        self.mouse_flies = False
        self.news: list[str] = []
        """Who came and who went, until somebody reads and clears it."""
        self._handle = handle
        self._plugged: dict[int, _Plugged] = {}
        self._keys: set[str] = set()
        pygame.joystick.init()
        if gamepads is not None:
            gamepads.init()
        for index in range(pygame.joystick.get_count()):  # came before anybody listened
            self._add(index)

    def look(self) -> Look:
        """Take in what happened since the last look, and read every axis."""
        for event in pygame.event.get():
            self._take(event)
        sticks = {number: _read(plugged) for number, plugged in self._plugged.items()}
        return Look(sticks, frozenset(self._keys), self._mouse())

    def rumble(self, low: float, high: float, milliseconds: int) -> bool:
        """Shake every stick that can, strength 0 to 1; whether one did."""
        done = [p.joystick.rumble(low, high, milliseconds) for p in self._plugged.values()]
        return any(done)

    def close(self) -> None:
        self._plugged.clear()
        if gamepads is not None:
            gamepads.quit()
        pygame.joystick.quit()

    def _take(self, event: Any) -> None:
        if event.type == pygame.JOYDEVICEADDED:
            self._add(event.device_index)
        elif event.type == pygame.JOYDEVICEREMOVED:
            self._remove(event.instance_id)
        elif event.type == pygame.KEYDOWN:
            self._keys.add(pygame.key.name(event.key))
        elif event.type == pygame.KEYUP:
            self._keys.discard(pygame.key.name(event.key))
        elif event.type == pygame.WINDOWFOCUSLOST:
            self._keys.clear()  # their release is told to another window
        if self._handle is not None:
            self._handle(event)

    def _add(self, index: int) -> None:
        try:
            joystick = pygame.joystick.Joystick(index)
            number = joystick.get_instance_id()
            if number in self._plugged or len(self._plugged) >= MOST_STICKS:
                return
            gamepad = None
            if gamepads is not None and gamepads.is_controller(index):
                gamepad = gamepads.Controller.from_joystick(joystick)
            self._plugged[number] = _Plugged(joystick, gamepad, joystick.get_name() or "joystick")
        except pygame.error as error:  # gone again already, or no right to read it
            self.news.append(f"a device cannot be used: {error}")
            return
        self.news.append(f"{self._plugged[number].name} is there")

    def _remove(self, number: int) -> None:
        plugged = self._plugged.pop(number, None)
        if plugged is not None:
            self.news.append(f"{plugged.name} is gone")

    def _mouse(self) -> tuple[float, float] | None:
        surface = pygame.display.get_surface() if pygame.display.get_init() else None
        if not self.mouse_flies or surface is None:
            return None
        x, y = pygame.mouse.get_pos()
        width, height = surface.get_size()
        return 2.0 * x / max(1, width) - 1.0, 2.0 * y / max(1, height) - 1.0


def _read(plugged: _Plugged) -> Stick:
    if plugged.gamepad is not None:
        axes = tuple(plugged.gamepad.get_axis(k) / _FULL for k in range(len(GAMEPAD_AXES)))
        return Stick("gamepad", plugged.name, axes)
    joystick = plugged.joystick
    count = min(joystick.get_numaxes(), MOST_AXES)
    return Stick("joystick", plugged.name, tuple(joystick.get_axis(k) for k in range(count)))
