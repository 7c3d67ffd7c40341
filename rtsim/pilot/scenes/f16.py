"""The scene of an F-16: the view from the cockpit, or from behind the aircraft."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pygame

from rtsim.pilot.scenes.camera import Camera, axes_of
from rtsim.pilot.scenes.flight import FlightScene, Ground
from rtsim.pilot.scenes.hud import HeadUp, HudFigures
from rtsim.pilot.scenes.scene import CHASE, SceneMoment, Shown
from rtsim.pilot.scenes.task import TaskDrawing
from rtsim.pilot.scenes.text import no_picture
from rtsim.pilot.scenes.world import Runway, Terrain

_BEHIND, _ABOVE = 32.0, 7.0


class F16Scene:
    """The scene of an F-16; ``about`` can have the entries ``plant``, ``runway`` and ``gates``.

    ``runway`` has the latitude and longitude of the runway's middle, and its direction, deg.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        latitude, longitude, heading = map(float, about.get("runway", (36.0176, -75.6713, 45.0)))
        self.ground = Ground(latitude, longitude)
        self._task = TaskDrawing(about, math.radians(heading))
        self._terrain = Terrain()
        self._runway = Runway(math.radians(heading))
        self._display = HeadUp()
        self._name = str(about.get("plant", "f16"))

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:
        body = moment.plants[self._name]
        with np.errstate(all="ignore"):  # flight.drawable detects overflow
            flight = self.ground.flight(body)
        if not flight.drawable:
            no_picture(surface, f"the state of {self._name} is not finite, or not near the Earth")
            return
        camera = self.camera(flight, surface, moment.view)
        self._terrain.draw(surface, camera)
        self._runway.draw(surface, camera)
        self._task.draw(surface, camera, moment, flight, draw_aircraft)
        if moment.view == CHASE:
            draw_aircraft(surface, camera, flight)
        self._display.draw(surface, camera, flight, self._figures(body, moment))

    def camera(self, flight: FlightScene, surface: pygame.Surface, view: str) -> Camera:
        """Return the camera at the pilot's eyes, or behind the aircraft without roll."""
        width, height = surface.get_size()
        if view != CHASE:
            return Camera(flight.place, flight.axes, width, height)
        axes = axes_of(0.0, 0.6 * flight.pitch, flight.heading)
        place = flight.place - _BEHIND * axes[0] - _ABOVE * axes[2]
        return Camera(place, axes, width, height)

    def _figures(self, body: Shown, moment: SceneMoment) -> HudFigures:
        return HudFigures(
            body["equivalent_airspeed"],
            body["alpha"],
            body["mach"],
            any(w.signal == f"{self._name}.alpha" for w in moment.warned),
            moment.stick.get("throttle"),
            self._task.text(moment),
            moment.view != CHASE,
        )


_LIGHT, _DARK, _CANOPY, _FLAME = (150, 156, 164), (112, 118, 126), (40, 52, 70), (255, 170, 70)
_PANELS: tuple[tuple[tuple[int, int, int], tuple[tuple[float, float, float], ...]], ...] = (
    (_LIGHT, ((1.5, 1.0, 0.0), (-2.8, 4.9, 0.0), (-4.0, 4.9, 0.0), (-4.0, 0.9, 0.0))),
    (_LIGHT, ((1.5, -1.0, 0.0), (-2.8, -4.9, 0.0), (-4.0, -4.9, 0.0), (-4.0, -0.9, 0.0))),
    (_LIGHT, ((-4.9, 0.8, 0.1), (-6.6, 2.8, 0.4), (-7.6, 2.8, 0.4), (-7.2, 0.8, 0.1))),
    (_LIGHT, ((-4.9, -0.8, 0.1), (-6.6, -2.8, 0.4), (-7.6, -2.8, 0.4), (-7.2, -0.8, 0.1))),
    (_DARK, ((-3.2, 0.0, -0.7), (-6.6, 0.0, -3.4), (-7.8, 0.0, -3.4), (-7.0, 0.0, -0.5))),
    (_DARK, ((7.5, 0.0, 0.1), (2.0, 0.9, 0.7), (-7.0, 0.7, 0.6), (-7.0, -0.7, 0.6),
             (2.0, -0.9, 0.7))),
    (_LIGHT, ((7.5, 0.0, 0.1), (2.5, 0.8, -0.3), (-7.0, 0.7, -0.5), (-7.0, -0.7, -0.5),
              (2.5, -0.8, -0.3))),
    (_CANOPY, ((4.6, 0.0, -0.5), (3.0, 0.5, -1.0), (0.6, 0.0, -1.1), (3.0, -0.5, -1.0))),
    (_FLAME, ((-7.05, 0.5, 0.0), (-7.05, 0.0, -0.5), (-7.05, -0.5, 0.0), (-7.05, 0.0, 0.5))),
)  # fmt: skip
"""The panels of the aircraft: colour, and corners in body axes, m."""


_MOST = max(len(corners) for _, corners in _PANELS)
_CORNERS = np.array([[*c, *(c[-1:] * (_MOST - len(c)))] for _, c in _PANELS])
"""The corners of all panels (panels, corners, 3).

The last corner is repeated in panels with fewer corners.
"""
_MIDDLES = np.array([np.mean(corners, axis=0) for _, corners in _PANELS])


def draw_aircraft(surface: pygame.Surface, camera: Camera, flight: FlightScene) -> None:
    """Draw the panels of the aircraft, the farthest first."""
    far = np.argsort(-camera.seen(_MIDDLES @ flight.axes + flight.place)[:, 0])
    for k, outline in camera.areas(_CORNERS[far] @ flight.axes + flight.place):
        pygame.draw.polygon(surface, _PANELS[far[k]][0], outline)
        pygame.draw.polygon(surface, (70, 74, 80), outline, 1)
