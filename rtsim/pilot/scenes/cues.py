"""Draws warnings as text over any scene, and a symbol for the shaking of the stick."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pygame

from rtsim.pilot.scenes.scene import Warned
from rtsim.pilot.scenes.text import Colour, shade, write

AMBER: Colour = (255, 190, 60)
RED: Colour = (255, 84, 72)
_BACK = (30, 12, 10, 215)
_SHAKE_HZ = 11.0
_HEIGHT = 0.69
"""Vertical position of a warning in the picture: below the middle, above the status line."""


def draw_cues(surface: pygame.Surface, warned: Sequence[Warned], ns: int) -> None:
    """Draw warnings at simulated time ``ns``: amber for a shaking stick, red for the horn."""
    width, height = surface.get_size()
    size = max(18, height // 18)
    for k, warning in enumerate(warned):
        colour = RED if warning.horn else AMBER
        beat = math.sin(math.tau * _SHAKE_HZ * ns * 1e-9)
        sway = round(0.3 * size * warning.shaker * beat)
        box = pygame.Rect(0, 0, round(size * (1.2 + 0.55 * len(warning.text))), round(1.25 * size))
        box.center = (width // 2 + sway, round(_HEIGHT * height + 1.5 * k * size))
        shade(surface, box, _BACK)
        pygame.draw.rect(surface, colour, box, 3)
        write(surface, warning.text, box.center, size, colour, "centre")
        if warning.shaker:
            _shaking(surface, box, size, warning.shaker, colour)


def _shaking(
    surface: pygame.Surface, box: pygame.Rect, size: int, strength: float, colour: Colour
) -> None:
    """Draw zigzag lines beside ``box``, more lines for a greater strength."""
    for side in (-1, 1):
        for k in range(1 + round(2 * strength)):
            x = (box.left if side < 0 else box.right) + side * (0.35 + 0.4 * k) * size
            points = [
                (x + (0.1 if n % 2 else -0.1) * size, box.top + n * box.height / 6.0)
                for n in range(7)
            ]
            pygame.draw.lines(surface, colour, False, points, 3)
