"""The seek bar below a recording: shows the time, and converts mouse positions to times."""

from __future__ import annotations

from dataclasses import dataclass

import pygame

from rtsim.pilot.scenes.text import Colour, write

INK: Colour = (226, 232, 238)
DONE: Colour = (90, 200, 250)
REST: Colour = (70, 82, 96)
_BACK: Colour = (12, 16, 22)
HEIGHT = 44
_MARGIN = 16


@dataclass(frozen=True)
class SeekBar:
    """A seek bar from ``first`` to ``end``, simulated ns."""

    first: int
    end: int

    def line(self, size: tuple[int, int]) -> pygame.Rect:
        """Return the rectangle of the bar on a surface of the given size."""
        width, height = size
        return pygame.Rect(_MARGIN, height - HEIGHT + 8, max(1, width - 2 * _MARGIN), 6)

    def holds(self, size: tuple[int, int], at: tuple[int, int]) -> bool:
        """Return whether a click at ``at`` is on the bar or at most some pixels beside it."""
        return self.line(size).inflate(2 * _MARGIN, 14).collidepoint(at)

    def ns(self, size: tuple[int, int], x: int) -> int:
        """Return the time at the pixel column ``x``, limited to the times of the bar."""
        line = self.line(size)
        share = min(1.0, max(0.0, (x - line.left) / line.width))
        return self.first + round(share * (self.end - self.first))

    def x(self, size: tuple[int, int], ns: int) -> int:
        """Return the pixel column of the time ``ns``."""
        line = self.line(size)
        share = (ns - self.first) / max(1, self.end - self.first)
        return line.left + round(share * line.width)

    def draw(self, surface: pygame.Surface, ns: int, says: str) -> None:
        size = surface.get_size()
        line, x = self.line(size), self.x(size, ns)
        surface.fill(_BACK, pygame.Rect(0, size[1] - HEIGHT, size[0], HEIGHT))
        surface.fill(REST, line)
        surface.fill(DONE, pygame.Rect(line.left, line.top, x - line.left, line.height))
        pygame.draw.circle(surface, INK, (x, line.centery), 7)
        write(surface, says, (_MARGIN, size[1] - 13), 20, INK)
