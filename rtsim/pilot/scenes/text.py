"""Text, panes and warnings on a surface.

Drawn texts are kept in memory, because drawing a text takes 0.1 ms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import pygame

from rtsim.pilot.scenes.scene import Warned

Colour = tuple[int, int, int]
_BLANK: Colour = (18, 26, 38)
_SAID: Colour = (255, 190, 60)


@lru_cache(maxsize=16)
def font(size: int) -> pygame.font.Font:
    """Return pygame's own font, so that pictures are equal on all machines."""
    pygame.font.init()
    return pygame.font.Font(None, size)


@lru_cache(maxsize=1024)
def rendered(text: str, size: int, colour: Colour) -> pygame.Surface:
    return font(size).render(text, True, colour)


EDGE: Colour = (6, 26, 14)
"""Colour around the symbols and letters of a display over the world."""


@lru_cache(maxsize=1024)
def outlined(text: str, size: int, colour: Colour) -> pygame.Surface:
    """Return the text with a dark edge, so that it can be read over any background."""
    inner, edge = rendered(text, size, colour), rendered(text, size, EDGE)
    wide, high = inner.get_size()
    out = pygame.Surface((wide + 2, high + 2), pygame.SRCALPHA)
    for x, y in ((0, 1), (2, 1), (1, 0), (1, 2), (0, 0), (2, 2), (0, 2), (2, 0)):
        out.blit(edge, (x, y))
    out.blit(inner, (1, 1))
    return out


def stroke(
    surface: pygame.Surface, colour: Colour, points: Sequence[tuple[float, float]], thick: int = 2
) -> None:
    """Draw connected lines with a dark edge."""
    pygame.draw.lines(surface, EDGE, False, points, thick + 2)
    pygame.draw.lines(surface, colour, False, points, thick)


@lru_cache(maxsize=64)
def _pane(size: tuple[int, int], colour: tuple[int, int, int, int]) -> pygame.Surface:
    pane = pygame.Surface(size, pygame.SRCALPHA)
    pane.fill(colour)
    return pane


def shade(surface: pygame.Surface, area: pygame.Rect, colour: tuple[int, int, int, int]) -> None:
    """Cover ``area`` with ``colour``, whose last number is the opacity, 0 to 255."""
    surface.blit(_pane(area.size, colour), area)


def no_picture(surface: pygame.Surface, why: str) -> None:
    """Write on the empty surface why the scene cannot be drawn."""
    surface.fill(_BLANK)
    at = surface.get_rect().center
    write(surface, f"no picture: {why}", at, 24, _SAID, "centre")


def write(
    surface: pygame.Surface,
    text: str,
    at: tuple[float, float],
    size: int,
    colour: Colour,
    anchor: str = "left",
    edged: bool = False,
) -> pygame.Rect:
    """Write ``text`` and return its rectangle. With ``edged``, the letters have a dark edge.

    ``at`` is the middle of the text's left or right end, or the centre, depending on the anchor.
    """
    image = outlined(text, size, colour) if edged else rendered(text, size, colour)
    box = image.get_rect()
    place = (round(at[0]), round(at[1]))
    if anchor == "left":
        box.midleft = place
    elif anchor == "right":
        box.midright = place
    else:
        box.center = place
    surface.blit(image, box)
    return box


# Warnings as text over any scene, with a symbol for the stick shaker.

AMBER: Colour = (255, 190, 60)
RED: Colour = (255, 84, 72)
_BACK = (30, 12, 10, 215)
_SHAKE_HZ = 11.0
_HEIGHT = 0.69
"""Vertical position of a warning: below the picture's middle and above the status line."""


def draw_cues(surface: pygame.Surface, warned: Sequence[Warned], ns: int) -> None:
    """Draw warnings at the simulated time ``ns``: red for the horn, amber for others."""
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
    for side in (-1, 1):
        for k in range(1 + round(2 * strength)):
            x = (box.left if side < 0 else box.right) + side * (0.35 + 0.4 * k) * size
            points = [
                (x + (0.1 if n % 2 else -0.1) * size, box.top + n * box.height / 6.0)
                for n in range(7)
            ]
            pygame.draw.lines(surface, colour, False, points, 3)
