"""The scene of a moon and its planet, with the track and velocity of the moon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pygame

from rtsim.pilot.scenes.scene import PastStates, SceneMoment, ScenePast, Shown
from rtsim.pilot.scenes.text import Colour, no_picture, write

SPACE: Colour = (8, 10, 18)
PLANET: Colour = (70, 130, 200)
MOON: Colour = (215, 210, 200)
TRACK: Colour = (250, 190, 90)
ARROW: Colour = (120, 220, 130)
_INK, _FAINT = (220, 226, 232), (44, 52, 68)
_STARS = 160
_KEPT = 3600
"""Number of pictures whose states form the track: one minute at 60 pictures per second."""
_ROOM = 1.2
_FADES = 24
_PLANET_SHARE, _MOON_SHARE = 0.09, 0.03
"""Radii as shares of the picture's shorter side. The model's bodies have no size."""
_ARROW_SHARE = 0.16
"""Length of the arrow at the moon's initial speed, as a share of the shorter side."""


class OrbitScene:
    """The scene of a moon: plant ``about["plant"]``, by default "moon", with x, y, vx and vy."""

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._name = str(about.get("plant", "moon"))
        self._pasts = PastStates(_KEPT)
        self._extent = 0.0
        self._speed = 0.0
        places = np.random.default_rng(7).random((_STARS, 3))
        self._stars = [(x, y, round(60 + 120 * bright)) for x, y, bright in places.tolist()]

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:
        moon = moment.plants[self._name]
        past = self._pasts.of(moment, self._name)
        if not np.isfinite([moon[name] for name in ("x", "y", "vx", "vy")]).all():
            no_picture(surface, f"the state of {self._name} is not finite")
            return
        self._fit(moon, past)
        width, height = surface.get_size()
        surface.fill(SPACE)
        for x, y, bright in self._stars:
            surface.set_at((round(x * width), round(y * height)), (bright, bright, bright))
        self._rings(surface)
        self._track(surface, past, moon)
        least = min(surface.get_size())
        _ball(surface, self.pixel(surface, 0.0, 0.0), _PLANET_SHARE * least, PLANET)
        self._arrow(surface, moon)
        at = self.pixel(surface, moon["x"], moon["y"])
        _ball(surface, at, max(3.0, _MOON_SHARE * least), MOON)
        self._figures(surface, moon)

    def pixel(self, surface: pygame.Surface, x: float, y: float) -> tuple[float, float]:
        """Return the pixel of a point in the orbital plane. The planet is in the middle."""
        middle, scale = self._seen(surface)
        return middle[0] + scale * x, middle[1] - scale * y

    def _seen(self, surface: pygame.Surface) -> tuple[tuple[float, float], float]:
        width, height = surface.get_size()
        return (0.5 * width, 0.5 * height), 0.5 * min(width, height) / (_ROOM * self._extent)

    def _fit(self, moon: Shown, past: ScenePast) -> None:
        """Fit the scale to the whole track. Pixels per unit of length never increase."""
        where = [past.values[:, moon.signals.slice(name)] for name in ("x", "y")]
        distance = np.hypot(*where)
        distance = distance[np.isfinite(distance)]
        far = float(distance.max()) if distance.size else 0.0
        self._extent = max(self._extent, far) or 1.0
        if self._speed == 0.0:
            self._speed = math.hypot(moon["vx"], moon["vy"])

    def _rings(self, surface: pygame.Surface) -> None:
        power = 10.0 ** math.floor(math.log10(self._extent))
        ratio = self._extent / power
        step = power * (0.5 if ratio < 2.0 else 1.0 if ratio < 5.0 else 2.0)
        for k in range(1, 1 + int(_ROOM * self._extent / step)):
            x, y = self.pixel(surface, k * step, 0.0)
            centre = self.pixel(surface, 0.0, 0.0)
            pygame.draw.circle(surface, _FAINT, centre, x - centre[0], 1)
            write(surface, f"{k * step:g}", (x + 4, y), 18, (110, 122, 140))

    def _track(self, surface: pygame.Surface, past: ScenePast, moon: Shown) -> None:
        x, y = (past.values[:, moon.signals.slice(name)][:, 0] for name in ("x", "y"))
        kept = np.isfinite(x) & np.isfinite(y)
        middle, scale = self._seen(surface)
        points = np.column_stack((middle[0] + scale * x, middle[1] - scale * y))[kept].tolist()
        for part in range(_FADES):
            first = part * len(points) // _FADES
            line = points[max(0, first - 1) : (part + 1) * len(points) // _FADES]
            share = 0.2 + 0.8 * (part + 1) / _FADES
            colour = tuple(round(b + share * (c - b)) for b, c in zip(SPACE, TRACK, strict=True))
            if len(line) > 1:
                pygame.draw.lines(surface, colour, False, line, 2)

    def _arrow(self, surface: pygame.Surface, moon: Shown) -> None:
        speed = math.hypot(moon["vx"], moon["vy"])
        if not 0.0 < speed < math.inf or self._speed == 0.0:
            return
        length = _ARROW_SHARE * min(surface.get_size()) * min(3.0, speed / self._speed)
        along = np.array([moon["vx"], -moon["vy"]]) / speed
        start = np.array(self.pixel(surface, moon["x"], moon["y"]))
        tip = start + length * along
        pygame.draw.line(surface, ARROW, tuple(start), tuple(tip), 2)
        side = np.array([-along[1], along[0]])
        head = [tip, tip - 12.0 * along + 5.0 * side, tip - 12.0 * along - 5.0 * side]
        pygame.draw.polygon(surface, ARROW, [tuple(corner) for corner in head])

    def _figures(self, surface: pygame.Surface, moon: Shown) -> None:
        distance, speed = math.hypot(moon["x"], moon["y"]), math.hypot(moon["vx"], moon["vy"])
        angle = math.degrees(math.atan2(moon["y"], moon["x"])) % 360.0
        units = moon.signals["x"].unit, moon.signals["vx"].unit
        rows = [
            (f"distance {distance:.6f} {units[0]}", MOON),
            (f"speed {speed:.6f} {units[1]}", ARROW),
            (f"angle {angle:.2f}\u00b0", _INK),
        ]
        for k, (text, colour) in enumerate(rows):
            write(surface, text, (16, 24 + 24 * k), 22, colour)


def _ball(surface: pygame.Surface, at: tuple[float, float], radius: float, colour: Colour) -> None:
    for k in range(6):
        share = 0.45 + 0.11 * k
        shade = tuple(min(255, round(share * c)) for c in colour)
        off = 0.09 * k * radius
        pygame.draw.circle(surface, shade, (at[0] - off, at[1] - off), radius * (1.0 - 0.13 * k))
