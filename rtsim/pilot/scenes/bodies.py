"""The scene of any vehicle: bodies over the ground, with their tracks.

The web page and Foxglove show the same bodies (``rtsim.scenario.body.Body``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pygame

from rtsim.core.errors import RtsimError
from rtsim.core.signals import Vector
from rtsim.gateway.shapes import BodyTrail, PlacedBody, Pose, World, solid_of, world_over
from rtsim.pilot.scenes.camera import Camera, Points, axes_of
from rtsim.pilot.scenes.gpu import draw_world, remark
from rtsim.pilot.scenes.hud import AMBER, FlightScene, HeadUp, Readout, declared, draw_readouts
from rtsim.pilot.scenes.scene import CHASE, COCKPIT, SIGNALS, SceneMoment
from rtsim.pilot.scenes.strips import StripScene
from rtsim.pilot.scenes.text import no_picture, write
from rtsim.pilot.scenes.world import DrawnSolid, Placement, Relief, Terrain, WorldPicture
from rtsim.scenario.body import Body, Ground
from rtsim.scenario.shown import RIGHT, Hud

_BEHIND, _ABOVE, _TILT = 2.6, 0.6, 0.12
"""Camera of the chase view: distances behind and above the body, body lengths, and tilt, rad."""
_NEAR = 0.05
_LOWEST = 0.15
_ORANGE = (235, 120, 20)
_MOST_TRACK = 400
_DT = 1e-3
"""Time step that turns the rates of a body's signals into its velocity, s."""
_FARTHEST = 1e8
_AHEAD = 1e-3


@dataclass(frozen=True)
class _Seen:
    body: _Drawn
    at: Placement
    velocity: Vector

    @property
    def flight(self) -> FlightScene:
        return FlightScene(self.at.place, self.at.axes, self.velocity, 0.0)


class _Drawn:
    def __init__(self, body: Body, index: Mapping[str, int], units: Mapping[str, str]) -> None:
        self.name, self.length = body.name, body.length
        self.placed = PlacedBody(body, index, units)
        self.shape = DrawnSolid(solid_of(body.shape, body.length))
        self.trail = BodyTrail(body.length / 2, _MOST_TRACK)

    def pose(self, values: Vector, world: World) -> Pose | None:
        with np.errstate(all="ignore"):
            pose = self.placed.pose(values, world)
        if pose is None or not (np.abs(pose.position) < _FARTHEST).all():
            return None
        return pose if np.isfinite(pose.rotation).all() else None

    def seen(self, values: Vector, slope: Vector, world: World) -> _Seen | None:
        pose = self.pose(values, world)
        if pose is None:
            return None
        place, axes = pose.north_east_down()
        later = self.pose(values + _DT * slope, world)
        velocity = np.zeros(3) if later is None else (later.north_east_down()[0] - place) / _DT
        return _Seen(self, Placement(place, axes), velocity)


class BodyScene:
    """The scene ``bodies``. Page Down follows the next body.

    The mapping ``about`` has the key ``bodies``, and may have ``hud``, ``ground``, ``views`` and
    ``view`` (the first view), as :meth:`rtsim.scenario.shown.Presentation.window` describes.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        self._bodies = [Body.from_plain(plain) for plain in about.get("bodies", ())]
        self._hud = [Hud.from_plain(plain) for plain in about.get("hud", ())]
        ground = about.get("ground")
        self._ground = None if ground is None else Ground.from_plain(ground)
        self._relief = None if self._ground is None else Relief(self._ground.grid)
        self._strips = StripScene({k: v for k, v in about.items() if k == "views"})
        flies = any(body.shape == "aircraft" for body in self._bodies)
        known = (COCKPIT, CHASE, SIGNALS) if flies else (CHASE, COCKPIT, SIGNALS)
        first = str(about.get("view", known[0]))
        self.views = (first, *(v for v in known if v != first)) if first in known else known
        self._display = HeadUp()
        self._terrains: dict[float, Terrain] = {}
        self._drawn: list[_Drawn] | None = None
        self._missing: list[str] = []
        self._index: dict[str, int] = {}
        self._world: World | None = None
        self._ns = -1

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:
        if moment.view == SIGNALS:
            self._strips.draw(surface, moment)
            return
        plants = [moment.plants[name] for name in sorted(moment.plants)]
        values = np.concatenate([plant.values for plant in plants])
        slope = np.concatenate([plant.slope for plant in plants])
        bodies = self._bodies_of(moment)
        if not bodies:
            no_picture(surface, "; ".join(self._missing) or "no body is declared")
            return
        world = self._world_of(bodies, values)
        found = [body.seen(values, slope, world) for body in bodies] if world else []
        seen = [one for one in found if one is not None]
        if not seen:
            no_picture(surface, "the position of no body is finite")
            return
        self._follow(max(plant.ns for plant in plants), seen)
        followed = seen[moment.page % len(seen)]
        self._draw(surface, moment, followed, seen)
        if not moment.aside:
            self._numbers(surface, followed, values)
        for k, text in enumerate(self._missing):
            write(surface, text, (12.0, 14.0 + 20.0 * k), 20, AMBER)

    @property
    def remark(self) -> str:
        return remark()

    def _bodies_of(self, moment: SceneMoment) -> list[_Drawn]:
        if self._drawn is None:
            self._drawn, units = [], {}
            at = 0
            for name in sorted(moment.plants):
                for signal in moment.plants[name].signals:
                    for column in signal.columns:
                        self._index[f"{name}.{column}"] = at
                        units[f"{name}.{column}"] = signal.unit
                        at += 1
            for body in self._bodies:
                try:
                    self._drawn.append(_Drawn(body, self._index, units))
                # a controller's signal, which the window does not receive
                except RtsimError as error:
                    self._missing.append(f"{body.name} is not drawn: {error}")
            self._hud = [number.with_unit(units) for number in self._hud]
        return self._drawn

    def _world_of(self, bodies: list[_Drawn], values: Vector) -> World | None:
        if self._world is None:
            ground = self._ground
            if ground is not None and ground.latitude is not None:
                self._world = world_over(ground)
                return self._world
            poses = [body.pose(values, World()) for body in bodies]
            known = [pose for pose in poses if pose is not None]
            if not known:
                return None
            located = [pose.location for pose in known if pose.location is not None]
            self._world = World(located[0][:2]) if located else World()
        return self._world

    def _follow(self, ns: int, seen: list[_Seen]) -> None:
        if ns < self._ns:
            for body in self._drawn or ():
                body.trail.clear()
        self._ns = ns
        for one in seen:
            one.body.trail.add(one.at.place)

    def _height(self, place: Vector) -> float:
        return 0.0 if self._relief is None else self._relief.height(*place[:2].tolist())

    def _draw(
        self, surface: pygame.Surface, moment: SceneMoment, followed: _Seen, seen: list[_Seen]
    ) -> None:
        camera = self._camera(surface, moment, followed)
        ground = self._relief or self._terrain(camera, followed.body.length)
        picture = WorldPicture(camera, ground)
        inside = followed if moment.view == COCKPIT else None
        for one in seen:
            if one is not inside:
                below = -self._height(one.at.place)
                picture.bodies.append((one.body.shape, one.at))
                picture.shadows.append((one.body.shape, one.at, below))
            points: Points = np.array(one.body.trail.points(one.at.place))
            if len(points) > 1:
                ends = np.stack([points[:-1], points[1:]], axis=1)
                picture.lines.append((ends, [(_ORANGE, 2)] * len(ends)))
        draw_world(surface, picture)
        if moment.aside:
            return
        ladder = inside is not None and not followed.body.shape.solid.on_ground
        ahead = inside is not None and max(map(abs, moment.look)) < _AHEAD
        self._display.symbols(surface, camera, followed.flight, ladder=ladder, ahead=ahead)

    def _camera(self, surface: pygame.Surface, moment: SceneMoment, followed: _Seen) -> Camera:
        width, height = surface.get_size()
        at, length, (yaw, pitch) = followed.at, followed.body.length, moment.look
        near = min(1.0, _NEAR * length)
        if moment.view == COCKPIT:
            eye = at.place + followed.body.shape.solid.eye @ at.axes
            return Camera(eye, at.axes, width, height, near=near).turned(yaw, pitch)
        flight = followed.flight
        axes = axes_of(0.0, 0.6 * flight.pitch, flight.heading)
        axes = axes_of(0.0, pitch, yaw) @ axes
        place = at.place - length * (_BEHIND * axes[0] + _ABOVE * axes[2])
        axes = axes_of(0.0, -_TILT, 0.0) @ axes
        place[2] = min(place[2], -self._height(place) - _LOWEST * length)
        return Camera(place, axes, width, height, near=near)

    def _terrain(self, camera: Camera, length: float) -> Terrain:
        high = max(-float(camera.position[2]), length)
        cell = 5.0 * 10.0 ** math.floor(math.log10(min(high, 1e5)))
        return self._terrains.setdefault(cell, Terrain(cell))

    def _numbers(self, surface: pygame.Surface, followed: _Seen, values: Vector) -> None:
        name = followed.body.name if len(self._bodies) > 1 else ""
        if self._hud:
            shown = [
                declared(one, values[self._index[one.signal]] if one.signal in self._index
                         else math.nan)
                for one in self._hud
            ]  # fmt: skip
        else:
            place = followed.at.place
            speed = float(np.linalg.norm(followed.velocity))
            shown = [Readout("speed", speed, "m/s", 1)]
            if not followed.body.shape.solid.on_ground:
                high = -float(place[2]) - self._height(place)
                shown.append(Readout("height", high, "m", 1, RIGHT))
        draw_readouts(surface, shown)
        if name:
            write(surface, name, (surface.get_width() / 2, 0.14 * surface.get_height()), 22,
                  AMBER, "centre")  # fmt: skip
