"""The three-dimensional scene of a page: bodies, their tracks, the ground, and a camera.

To follow a body, the scene moves the world instead of the camera. Each user can therefore turn the
camera independently.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import viser

from rtsim.core.errors import RtsimError
from rtsim.core.signals import Vector
from rtsim.gateway.shapes import (
    BodyTrail,
    Colours,
    Points,
    Pose,
    World,
    ground_triangles,
    placed_bodies,
    solid_of,
    world_over,
)
from rtsim.gateway.web.source import About
from rtsim.scenario.body import Body, Ground, Mesh

MOST_BODIES = 64
BALL = "ball"
NOBODY = "nothing"
"""Camera choice: no body is followed."""
_SEGMENTS = 500
_RECENT = 15
"""Number of segments at the end of a track, sent with each position; they cover 0.75 s.

The end of the track moves with its body, because a slow browser moves nodes at once but draws new
lines later.
"""
_COLOURS = 24
"""Limit of the colours of a shape. A mesh with more colours gets one mean colour."""
_WORLD = "/world"
_UNIT = 0.5
"""Length of the first body in browser units. The browser's camera is made for such sizes."""
_BLUE, _ORANGE, _MOON = (66, 130, 220), (235, 120, 20), (150, 145, 135)
_GROUND, _LINES = (120, 140, 120), (150, 165, 180)
_FLAT = (1.0, 0.0, 0.0, 0.0)


class Placed(Protocol):
    """A drawn object at a position that signals determine."""

    name: str
    length: float
    shape: str | Mesh
    names: tuple[str, ...]

    def pose(self, values: Mapping[str, float]) -> Pose | None:
        """Return the position and rotation, or ``None`` if a value is unknown or not finite."""
        ...


class _PlacedBody:
    def __init__(self, body: Body, units: Mapping[str, str], world: World) -> None:
        self.name, self.length, self.shape = body.name, body.length, body.shape
        self.names = body.signals
        rows = [{"name": n, "unit": units.get(n, "")} for n in self.names if n in units]
        (self._placed,) = placed_bodies([body], rows)
        self._world = world

    def pose(self, values: Mapping[str, float]) -> Pose | None:
        row = np.array([values.get(name, math.nan) for name in self.names])
        return self._placed.pose(row, self._world)


class _Moon:
    length: float = 0.12
    shape: str | Mesh = BALL

    def __init__(self, plant: str) -> None:
        self.name = plant
        self.names: tuple[str, ...] = (f"{plant}.x", f"{plant}.y")

    def pose(self, values: Mapping[str, float]) -> Pose | None:
        x, y = (values.get(name, math.nan) for name in self.names)
        if not (math.isfinite(x) and math.isfinite(y)):
            return None
        return Pose(np.array([x, y, 0.0]), (0.0, 0.0, 0.0, 1.0))


def ground_of(about: About) -> tuple[Ground | None, str]:
    """Return the declared ground, and an error message if its data are invalid."""
    plain = about.shown.get("ground")
    try:
        return (None if plain is None else Ground.from_plain(plain)), ""
    except RtsimError as error:
        return None, f"the ground is not shown: {error}"


def placed_in(about: About) -> tuple[list[Placed], str]:
    """Return the objects of the scene, and a message about omitted objects."""
    ground, wrong = ground_of(about)
    world = world_over(ground)
    found: list[Placed] = []
    for plain in about.bodies[:MOST_BODIES]:
        try:
            found.append(_PlacedBody(Body.from_plain(plain), about.signals, world))
        except (RtsimError, TypeError, ValueError, AttributeError) as error:
            wrong = f"a body is not shown: {error}"
    if len(about.bodies) > MOST_BODIES:
        wrong = f"only {MOST_BODIES} of {len(about.bodies)} bodies are shown"
    plant = about.shown.get("plant")
    if about.shown.get("scene") == "orbit" and f"{plant}.x" in about.signals:
        found.append(_Moon(str(plant)))
    return found, wrong


def _segments(points: Vector, many: int) -> Any:
    ends = np.full((many + 1, 3), points[-1], np.float32)
    ends[: len(points)] = points
    return np.stack([ends[:-1], ends[1:]], axis=1)


def _sky() -> Any:
    share = np.linspace(0.0, 1.0, 64)[:, None, None]
    top, horizon = np.array([172.0, 203.0, 236.0]), np.array([240.0, 246.0, 251.0])
    row = top + (horizon - top) * share
    return np.broadcast_to(row, (64, 4, 3)).astype(np.uint8)


class PageScene:
    """The scene in the browsers of ``server``."""

    def __init__(self, server: viser.ViserServer, about: About) -> None:
        self._scene: Any = server.scene
        self._server = server
        self.placed, self.wrong = placed_in(about)
        self.names = tuple(dict.fromkeys(n for one in self.placed for n in one.names))
        self.followed = self.placed[0].name if self.placed else NOBODY
        self._ground: Any = None
        longest = max((one.length for one in self.placed), default=1.0)
        self._scale = _UNIT / longest
        self._trails = [BodyTrail(one.length / 2, _SEGMENTS) for one in self.placed]
        self._world = self._scene.add_frame(_WORLD, show_axes=False)
        self._frames = [self._add(one) for one in self.placed]
        self._tracks = [self._add_line(f"{one.name}_track", _SEGMENTS) for one in self.placed]
        self._recent = [deque[Vector](maxlen=_RECENT + 1) for _ in self.placed]
        here = [f"{one.name}_here" for one in self.placed]
        self._here = [self._scene.add_frame(f"{_WORLD}/{h}", show_axes=False) for h in here]
        self._ends = [self._add_line(f"{h}/track_end", _RECENT) for h in here]
        self._ns = -1
        if any(one.shape == BALL for one in self.placed):
            self._add_planet()
        ground, _ = ground_of(about)
        if ground is not None:
            self._ground = self._scene.add_frame(f"{_WORLD}/ground", show_axes=False)
            self._add_triangles(f"{_WORLD}/ground", *ground_triangles(ground.grid))
        if self.placed:
            self._scene.set_background_image(_sky())
        self._aim()

    @property
    def choices(self) -> tuple[str, ...]:
        return (*(one.name for one in self.placed), NOBODY)

    def _aim(self) -> None:
        camera = self._server.initial_camera
        if any(one.shape == BALL for one in self.placed):
            camera.position, self.followed = (0.0, -6.0, 9.0), NOBODY
        else:
            camera.position = (-0.2, -1.2, 0.45)
        camera.look_at = (0.0, 0.0, 0.0)
        camera.far = 1e5

    def _add(self, one: Placed) -> Any:
        name, size = f"{_WORLD}/{one.name}", one.length * self._scale
        frame = self._scene.add_frame(
            name, axes_length=0.6 * size, axes_radius=0.008 * size, visible=False
        )
        if one.shape == BALL:
            self._scene.add_icosphere(f"{name}/shape", radius=size / 2, color=_MOON)
        else:
            self._add_shape(f"{name}/shape", one.shape, one.length)
        self._scene.add_label(f"{name}/name", one.name, position=(0.0, 0.0, -0.3 * size))
        return frame

    def _add_shape(self, name: str, shape: str | Mesh, length: float) -> None:
        self._add_triangles(name, *solid_of(shape, length).triangles())

    def _add_triangles(self, name: str, corners: Points, colours: Colours) -> None:
        kinds, which = np.unique(colours, axis=0, return_inverse=True)
        if len(kinds) > _COLOURS:
            kinds, which = colours.mean(axis=0, keepdims=True).astype(np.uint8), 0 * which
        for k, colour in enumerate(kinds.tolist()):
            some = (corners[which.ravel() == k] * self._scale).reshape(-1, 3)
            self._scene.add_mesh_simple(
                f"{name}/{k}",
                vertices=some.astype(np.float32),
                faces=np.arange(len(some), dtype=np.uint32).reshape(-1, 3),
                color=tuple(colour), flat_shading=True, side="double",
            )  # fmt: skip

    def _add_line(self, name: str, segments: int) -> Any:
        return self._scene.add_line_segments(
            f"{_WORLD}/{name}", np.zeros((segments, 2, 3)), _ORANGE,
            thickness=0.012, thickness_units="world",
        )  # fmt: skip

    def _add_planet(self) -> None:
        self._scene.add_icosphere(f"{_WORLD}/planet", radius=0.2 * self._scale, color=_BLUE)
        size = 4.0 * self._scale
        self._scene.add_grid(
            f"{_WORLD}/plane", size, size, cell_size=0.1 * self._scale,
            section_size=0.5 * self._scale, cell_color=_LINES, section_color=_GROUND,
        )  # fmt: skip

    def _add_ground(self, pose: Pose) -> None:
        altitude = pose.location[2] if pose.location is not None else 0.0
        high = max(abs(altitude), 20.0 / self._scale * _UNIT)
        cell = 10.0 ** math.floor(math.log10(high))
        self._ground = self._scene.add_grid(
            f"{_WORLD}/ground", infinite_grid=True, cell_size=cell * self._scale,
            section_size=10.0 * cell * self._scale, fade_distance=60.0 * high * self._scale,
            cell_color=_LINES, section_color=_GROUND,
            position=(0.0, 0.0, -altitude * self._scale),
        )  # fmt: skip

    def show(self, ns: int, values: Mapping[str, float]) -> None:
        """Move the bodies to their positions at the simulated time ``ns``."""
        if ns < self._ns:
            for trail in self._trails:
                trail.clear()
            for recent in self._recent:
                recent.clear()
        self._ns = ns
        with self._server.atomic():
            for k, one in enumerate(self.placed):
                pose = one.pose(values)
                frame = self._frames[k]
                if frame.visible != (pose is not None):
                    frame.visible = pose is not None
                if pose is not None:
                    self._move(k, one, frame, pose)
            if self.followed == NOBODY:
                self._world.position = (0.0, 0.0, 0.0)

    def _move(self, k: int, one: Placed, frame: Any, pose: Pose) -> None:
        at = tuple(float(x) for x in pose.position * self._scale)
        if not all(abs(x) < 1e9 for x in at):
            return
        x, y, z, w = pose.rotation
        frame.position, frame.wxyz = at, (w, x, y, z)
        if self._trails:
            self._trails[k].add(pose.position)
            self._recent[k].append(pose.position * self._scale)
            past = np.array(self._recent[k]) - self._recent[k][-1]
            self._here[k].position = at
            self._ends[k].points = _segments(past, _RECENT)
        if one.name == self.followed:
            self._world.position = tuple(-x for x in at)
        if self._ground is None and one.shape != BALL:
            self._add_ground(pose)

    def show_tracks(self) -> None:
        """Draw the tracks.

        Tracks are large, so call this method less often than ``show``.
        """
        for k, track in enumerate(self._tracks):
            position = np.array(self._frames[k].position) / self._scale
            points = np.array(self._trails[k].points(position)) * self._scale
            if np.isfinite(points).all():
                track.points = _segments(points, _SEGMENTS)
