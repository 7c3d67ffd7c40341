"""The direction of looking in a window: moved in steps by keys and commands, drawn smoothly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

import pygame

STEP = math.radians(15.0)
"""Angle of one step, rad."""
_HIGHEST = math.radians(90.0)
_SETTLES_S = 0.08
"""Time constant with which the picture follows a step, s."""
_CLOSE = 1e-4
"""Angle at which the picture counts as arrived, rad."""

STEPS: Mapping[str, tuple[float, float]] = {
    "look_left": (-STEP, 0.0),
    "look_right": (STEP, 0.0),
    "look_up": (0.0, STEP),
    "look_down": (0.0, -STEP),
}
AHEAD = "look_ahead"
COMMANDS = (*STEPS, AHEAD)
"""The names of the commands of :meth:`Look.order`."""


class Look:
    """The direction of looking; ``yaw`` to the right and ``pitch`` up of ``base``, rad."""

    def __init__(self, base: tuple[float, float] = (0.0, 0.0)) -> None:
        self._base = base
        self._wanted = self._drawn = base

    def order(self, command: str) -> None:
        """Follow one of :data:`COMMANDS`; ``look_ahead`` goes back to the window's direction."""
        if command == AHEAD:
            self.set(0.0, 0.0)
            return
        yaw, pitch = STEPS[command]
        self.set(self._wanted[0] - self._base[0] + yaw, self._wanted[1] - self._base[1] + pitch)

    def set(self, yaw: float, pitch: float) -> None:
        """Look at ``yaw`` to the right and ``pitch`` up of the window's own direction, rad."""
        yaw, pitch = self._base[0] + yaw, self._base[1] + pitch
        self._wanted = yaw, max(-_HIGHEST, min(_HIGHEST, pitch))

    def at(self, passed_s: float) -> tuple[float, float]:
        """Return the direction to draw, ``passed_s`` after the last call, s."""
        share = 1.0 - math.exp(-max(0.0, passed_s) / _SETTLES_S)
        yaw, pitch = (
            wanted if abs(wanted - drawn) < _CLOSE else drawn + share * (wanted - drawn)
            for wanted, drawn in zip(self._wanted, self._drawn, strict=True)
        )
        self._drawn = yaw, pitch
        return math.remainder(yaw, math.tau), pitch


KEYS: Mapping[int, str] = {
    pygame.K_F2: "look_left", pygame.K_F3: "look_right", pygame.K_F4: "look_up",
    pygame.K_F5: "look_down", pygame.K_F6: AHEAD,
}  # fmt: skip
"""The keys that move the direction of looking, with their commands."""


def look_keys(look: Look) -> dict[int, Callable[[], None]]:
    """Return what each of :data:`KEYS` does with ``look``."""
    return {key: partial(look.order, command) for key, command in KEYS.items()}
