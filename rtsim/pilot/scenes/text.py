"""Text on a surface, and panes behind it: each costs a tenth of a millisecond, and is kept."""

from __future__ import annotations

from functools import lru_cache

import pygame

Colour = tuple[int, int, int]
_BLANK: Colour = (18, 26, 38)
_SAID: Colour = (255, 190, 60)


@lru_cache(maxsize=16)
def font(size: int) -> pygame.font.Font:
    """The one that pygame ships: the same picture on every machine."""
    pygame.font.init()
    return pygame.font.Font(None, size)


@lru_cache(maxsize=1024)
def rendered(text: str, size: int, colour: Colour) -> pygame.Surface:
    """On nothing."""
    return font(size).render(text, True, colour)


@lru_cache(maxsize=64)
def _pane(size: tuple[int, int], colour: tuple[int, int, int, int]) -> pygame.Surface:
    pane = pygame.Surface(size, pygame.SRCALPHA)
    pane.fill(colour)
    return pane


def shade(surface: pygame.Surface, area: pygame.Rect, colour: tuple[int, int, int, int]) -> None:
    """Darker there, by the last number of ``colour``: 0 not at all, 255 nothing shows through."""
    surface.blit(_pane(area.size, colour), area)


def no_picture(surface: pygame.Surface, why: str) -> None:
    """In the place of a scene that cannot be drawn."""
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
    """``at`` is the middle of the text's left end, of its right end, or its ``centre``."""
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
