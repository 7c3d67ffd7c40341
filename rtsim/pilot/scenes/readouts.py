"""Draws numbers at both sides of the picture: those that a scenario declares, or its own choice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pygame

from rtsim.pilot.scenes.hud import GREEN, SHADE
from rtsim.pilot.scenes.text import shade, write
from rtsim.scenario.hud import LEFT, RIGHT, Hud

_SIDES = {LEFT: 0.14, RIGHT: 0.86}
"""Horizontal position of the numbers of each side, as a share of the width."""
_MIDDLE = 0.46


@dataclass(frozen=True)
class Readout:
    """A number with its text and unit, for one side of the picture."""

    text: str
    value: float
    unit: str = ""
    digits: int = 0
    side: str = LEFT

    @property
    def number(self) -> str:
        """The number as text; dashes for a value that is not finite."""
        return f"{self.value:.{self.digits}f}" if math.isfinite(self.value) else "---"


def declared(number: Hud, value: float) -> Readout:
    """Return the number that a scenario declares, for the ``value`` of its signal."""
    text = number.text or number.signal.partition(".")[2]
    return Readout(text, number.factor * value, number.unit, number.digits, number.side)


def draw_readouts(surface: pygame.Surface, readouts: Sequence[Readout]) -> None:
    """Draw the numbers; the first one of each side is larger and has a frame."""
    width, height = surface.get_size()
    size = max(16, height // 30)
    big = round(1.5 * size)
    for side, share in _SIDES.items():
        some = [one for one in readouts if one.side == side]
        x, y = share * width, _MIDDLE * height
        for one in some[:1]:
            area = pygame.Rect(0, 0, round(4.4 * big), round(1.1 * big))
            area.center = (round(x), round(y))
            shade(surface, area, SHADE)
            pygame.draw.rect(surface, GREEN, area, 2)
            write(surface, one.number, area.center, big, GREEN, "centre")
            above = (x, y - 0.95 * big)
            write(surface, f"{one.text} {one.unit}".strip(), above, size, GREEN, "centre")
        if len(some) < 2:
            continue
        at = (x - 2.2 * big, y + 0.8 * big)
        shade(surface, pygame.Rect(*at, 4.4 * big, (len(some) - 0.6) * size), SHADE)
        for k, one in enumerate(some[1:]):
            text = f"{one.text}  {one.number} {one.unit}"
            write(surface, text, (at[0] + 0.3 * big, at[1] + (k + 0.7) * size), size, GREEN)
