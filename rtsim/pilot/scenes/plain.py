"""Any model's signals as figures: what is shown of a run that has no scene of its own."""

from __future__ import annotations

import pygame

from rtsim.pilot.scenes.scene import Moment
from rtsim.pilot.scenes.text import write

_BACK, _INK, _FAINT = (18, 22, 28), (220, 226, 232), (130, 142, 154)


class PlainScene:
    """Names, values and units in columns."""

    def draw(self, surface: pygame.Surface, moment: Moment) -> None:
        surface.fill(_BACK)
        size = 20
        x, y = 16, 24
        for name, plant in moment.plants.items():
            write(surface, name, (x, y), size + 4, _INK)
            y += size + 6
            for signal in plant.signals:
                for column, value in zip(signal.columns, plant.vector(signal.name), strict=True):
                    if y > surface.get_height() - 2 * size:
                        x, y = x + 340, 24
                    write(surface, column, (x, y), size, _FAINT)
                    write(surface, f"{value:.6g}", (x + 250, y), size, _INK, "right")
                    write(surface, signal.unit, (x + 258, y), size, _FAINT)
                    y += size
            y += size
