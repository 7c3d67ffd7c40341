"""Text on a surface, and panes behind it; both are cached because drawing text takes 0.1 ms."""

from __future__ import annotations

from functools import lru_cache

import pygame

Colour = tuple[int, int, int]
_BLANK: Colour = (18, 26, 38)
_SAID: Colour = (255, 190, 60)


@lru_cache(maxsize=16)
def font(size: int) -> pygame.font.Font:
    """Return the font that pygame includes, so that pictures are the same on every machine."""
    pygame.font.init()
    return pygame.font.Font(None, size)


@lru_cache(maxsize=1024)
def rendered(text: str, size: int, colour: Colour) -> pygame.Surface:
    """Return the text as a surface with a transparent background."""
    return font(size).render(text, True, colour)


@lru_cache(maxsize=64)
def _pane(size: tuple[int, int], colour: tuple[int, int, int, int]) -> pygame.Surface:
    pane = pygame.Surface(size, pygame.SRCALPHA)
    pane.fill(colour)
    return pane


def shade(surface: pygame.Surface, area: pygame.Rect, colour: tuple[int, int, int, int]) -> None:
    """Cover ``area`` with ``colour``, whose last number is the opacity, 0 to 255."""
    surface.blit(_pane(area.size, colour), area)


def no_picture(surface: pygame.Surface, why: str) -> None:
    """Write on the surface why a scene cannot be drawn."""
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
) -> pygame.Rect:
    """Write ``text`` and return its rectangle.

    ``at`` is the middle of the left end, the middle of the right end or the centre of the text, for
    ``anchor`` ``left``, ``right`` or ``centre``.
    """
    image = rendered(text, size, colour)
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
