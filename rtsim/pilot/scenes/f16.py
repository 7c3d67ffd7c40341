"""The scene of an F-16: the view from the cockpit, or from behind the aircraft."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pygame

from rtsim.gateway.shapes import solid_of
from rtsim.pilot.scenes.camera import Camera, axes_of
from rtsim.pilot.scenes.flight import FlightScene, Ground
from rtsim.pilot.scenes.flight_aids import FlightAids
from rtsim.pilot.scenes.hud import HeadUp, HudFigures
from rtsim.pilot.scenes.relief import Relief
from rtsim.pilot.scenes.scene import CHASE, SceneMoment, Shown
from rtsim.pilot.scenes.sky import draw_sky
from rtsim.pilot.scenes.solids import DrawnSolid, Placement
from rtsim.pilot.scenes.task import TaskDrawing
from rtsim.pilot.scenes.text import no_picture
from rtsim.pilot.scenes.world import Runway, Terrain, on_ground
from rtsim.scenario.ground import Ground as Declared

_BEHIND, _ABOVE, _LENGTH = 32.0, 7.0, 15.1
_AHEAD = 1e-3
"""Largest look angle, rad, that counts as looking ahead."""


class F16Scene:
    """The scene of an F-16; ``about`` can have the entries ``plant``, ``runway`` and ``gates``.

    ``runway`` has the latitude and longitude of the runway's middle, and its direction, deg.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        latitude, longitude, heading = map(float, about.get("runway", (36.0176, -75.6713, 45.0)))
        self.ground = Ground(latitude, longitude)
        self._task = TaskDrawing(about, math.radians(heading))
        self._terrain = Terrain()
        self._aircraft = DrawnSolid(solid_of("aircraft", _LENGTH))
        declared = about.get("ground")
        self._relief = None if declared is None else self._relief_of(declared)
        down = 0.0 if self._relief is None else -self._relief.height(0.0, 0.0)
        self._runway = Runway(math.radians(heading), down=down)
        self._display = HeadUp()
        ends = np.array([[-0.5 * self._runway.length, 0.0]])
        self._aids = FlightAids(self._task.course, on_ground(ends, math.radians(heading))[0])
        self._name = str(about.get("plant", "f16"))

    def _relief_of(self, plain: Mapping[str, Any]) -> Relief:
        """Return the declared ground; without latitude and longitude, its origin is the runway."""
        declared = Declared.from_plain(plain)
        if declared.latitude is None or declared.longitude is None:
            return Relief(declared.grid)
        angles = math.radians(declared.latitude), math.radians(declared.longitude)
        north, east, _ = self.ground.place(*angles, 0.0).tolist()
        return Relief(declared.grid, (north, east))

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:
        body = moment.plants[self._name]
        with np.errstate(all="ignore"):  # flight.drawable detects overflow
            flight = self.ground.flight(body)
        if not flight.drawable:
            no_picture(surface, f"the state of {self._name} is not finite, or not near the Earth")
            return
        camera = self.camera(flight, surface, moment.view, moment.look)
        draw_sky(surface, camera)
        (self._relief or self._terrain).draw(surface, camera)
        self._runway.draw(surface, camera)
        self._task.draw(surface, camera, moment, self._aircraft)
        if moment.view == CHASE:
            self._aircraft.draw(surface, camera, Placement(flight.place, flight.axes))
        if not moment.aside:
            figures = self._figures(body, moment)
            self._display.draw(surface, camera, flight, figures)
            self._aids.draw(surface, flight, body, figures.looks_ahead)

    def camera(
        self,
        flight: FlightScene,
        surface: pygame.Surface,
        view: str,
        look: tuple[float, float] = (0.0, 0.0),
    ) -> Camera:
        """Return the camera at the pilot's eyes, or behind the aircraft without roll.

        ``look`` is the direction of looking, to the right and up, rad.
        """
        width, height = surface.get_size()
        if view != CHASE:
            return Camera(flight.place, flight.axes, width, height).turned(*look)
        axes = axes_of(0.0, 0.6 * flight.pitch, flight.heading)
        axes = axes_of(0.0, look[1], look[0]) @ axes
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
            moment.view != CHASE and max(map(abs, moment.look)) < _AHEAD,
        )
