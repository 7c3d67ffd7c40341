"""The scene of a tracking task, with one bar for the error or two for target and aircraft."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pygame

from rtsim.pilot.scenes.scene import SceneMoment
from rtsim.pilot.scenes.text import Colour, no_picture, write

BACK, GRID, OWN, TARGET, INK = (
    (18, 22, 28), (52, 62, 74), (120, 220, 130), (255, 180, 70), (130, 142, 154),
)  # fmt: skip
_SPAN = 4.0
"""Half of the picture's height, in RMS of the target."""


class TrackingScene:
    """The display of a tracking task.

    ``about`` contains the options of :meth:`rtsim.models.piloting.Tracking.shown`: ``axes``,
    ``display`` and ``rms``. The axis ``roll`` turns the bar. The first axis other than roll moves
    the bar up and down, the second one sideways.

    A compensatory display shows the error as the distance of a bar from the middle. A pursuit
    display shows the target and the aircraft as two bars.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._axes = [str(a) for a in about.get("axes", ())]
        self._pursuit = about.get("display") == "pursuit"
        self._rms = [float(v) for v in about.get("rms", ())] or [1.0] * len(self._axes)
        self._task = str(about.get("task", "task"))

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:
        surface.fill(BACK)
        if self._task not in moment.plants:
            write(surface, f"this run has no plant {self._task}", (16, 16), 22, INK)
            return
        task = moment.plants[self._task]
        errors = [float(task[f"{axis}_error"]) for axis in self._axes]
        targets = [float(task[f"{axis}_target"]) for axis in self._axes]
        if not np.isfinite(errors + targets).all():
            no_picture(surface, "the error is not finite")
            return
        self._grid(surface)
        if self._pursuit:
            centres = [float(task[f"{axis}_centre"]) for axis in self._axes]
            self._bar(surface, [t - c for t, c in zip(targets, centres, strict=True)], TARGET, 5)
            own = [t - e - c for t, e, c in zip(targets, errors, centres, strict=True)]
            self._bar(surface, own, OWN, 3)
        else:
            self._bar(surface, errors, TARGET, 5)
            self._mark(surface)
        instruction = "move the green bar onto the amber bar" if self._pursuit else (
            "bring the amber bar to the mark: pull if it is above"
        )  # fmt: skip
        write(surface, f"{task.ns / 1e9:.0f} s   {instruction}", (16, 20), 22, INK)

    def _grid(self, surface: pygame.Surface) -> None:
        width, height = surface.get_size()
        for k in (-2, -1, 1, 2):
            y = round(height / 2 + k * height / 6)
            pygame.draw.line(surface, GRID, (0.3 * width, y), (0.7 * width, y))

    def _bar(
        self, surface: pygame.Surface, values: list[float], colour: Colour, thick: int
    ) -> None:
        width, height = surface.get_size()
        turn, moved = 0.0, [0.0, 0.0]
        plain = 0
        for axis, value, rms in zip(self._axes, values, self._rms, strict=True):
            if axis == "roll":
                turn = math.remainder(value, math.tau)
            elif plain < 2:
                moved[plain] = max(-1.5, min(1.5, value / (_SPAN * rms)))
                plain += 1
        middle = np.array([width / 2 + moved[1] * height / 2, height / 2 - moved[0] * height / 2])
        half = 0.22 * width * np.array([math.cos(turn), math.sin(turn)])
        left, right = (middle - half).tolist(), (middle + half).tolist()
        pygame.draw.line(surface, colour, left, right, thick)

    def _mark(self, surface: pygame.Surface) -> None:
        width, height = surface.get_size()
        x, y = width // 2, height // 2
        for a, b in (((-90, 0), (-25, 0)), ((25, 0), (90, 0)), ((0, -8), (0, 8))):
            pygame.draw.line(surface, OWN, (x + a[0], y + a[1]), (x + b[0], y + b[1]), 3)
