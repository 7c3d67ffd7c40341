"""Draw the world around a body: ground, runway, gates, sky and hills.

Hills have levels of detail. Level 0 has the cells of the grid, and each further level has cells of
twice the size. Each level fills a square around the camera without the square of the previous
level. The number of drawn cells therefore hardly depends on the size of the grid. Source: Losasso
and Hoppe, "Geometry clipmaps", ACM Trans. Graphics 23, 2004.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pygame
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.gateway.shapes import KIND_COLOURS, Solid, commonest, every
from rtsim.pilot.scenes.camera import Camera, Points
from rtsim.pilot.scenes.text import Colour
from rtsim.scenario.body import GroundGrid

GRID: Colour = (72, 94, 58)
COARSE: Colour = (92, 112, 78)
ASPHALT: Colour = (62, 64, 68)
PAINT: Colour = (226, 226, 220)
GATE: Colour = (255, 168, 40)
NEXT_GATE: Colour = (255, 64, 200)
PASSED: Colour = (120, 150, 120)

Stroke = tuple[Colour, int]
"""Colour and thickness (pixels) of a line."""

_CELL, _CELLS = 500.0, 16
_WIDE, _WIDES = 4000.0, 6
_FIELDS = 10
_LOWEST = 0.002
"""Camera height above the ground below which lines are not drawn, in cells; 1 m by default."""


class Terrain:
    """Flat ground with a grid of lines every ``cell`` m, and coloured fields between the lines.

    The ground is at the coordinate ``down`` (m).
    """

    def __init__(self, cell: float = _CELL, down: float = 0.0) -> None:
        wide = _WIDE / _CELL * cell
        grids = ((COARSE, wide, _grid(wide, _WIDES)), (GRID, cell, _grid(cell, _CELLS)))
        self._size, self.down = cell, down
        self._lines = np.concatenate([lines for _, _, lines in grids])
        self._lines[..., 2] = down
        self._strokes = [(colour, 1) for colour, _, lines in grids for _ in lines]
        self._spacing = np.concatenate([np.full((len(g), 1, 2), space) for _, space, g in grids])
        self._cell: tuple[int, int] | None = None
        self._fields: tuple[Points, list[Colour]] = np.zeros((0, 4, 3)), []

    def draw(self, surface: pygame.Surface, camera: Camera) -> None:
        """Draw the ground over a sky that :func:`draw_sky` has drawn."""
        if camera.position[2] >= self.down - _LOWEST * self._size:
            return
        draw_areas(surface, camera, *self._fields_around(camera))
        moved = self._lines.copy()
        moved[..., :2] += np.floor(camera.position[:2] / self._spacing) * self._spacing
        draw_lines(surface, camera, moved, self._strokes)

    def _fields_around(self, camera: Camera) -> tuple[Points, list[Colour]]:
        north, east = (math.floor(camera.position[k] / self._size) for k in (0, 1))
        if (north, east) == self._cell:
            return self._fields
        corners, colours = [], []
        for i in range(north - _FIELDS, north + _FIELDS):
            for k in range(east - _FIELDS, east + _FIELDS):
                drawn = (i * 73856093 ^ k * 19349663) & 0xFF
                if drawn <= 60:
                    corners.append([[i, k], [i + 1, k], [i + 1, k + 1], [i, k + 1]])
                    shade = drawn // 3
                    colours.append((78 + shade, 100 + shade, 54 + shade // 2))
        fields = np.zeros((len(corners), 4, 3))
        fields[..., 2] = self.down
        fields[..., :2] = self._size * np.array(corners, float).reshape(-1, 4, 2)
        self._cell, self._fields = (north, east), (fields, colours)
        return self._fields


class Runway:
    """A runway whose middle is the reference point. ``heading`` is in rad, lengths in m.

    The runway is at the coordinate ``down`` (m).
    """

    def __init__(
        self, heading: float, length: float = 3000.0, width: float = 60.0, down: float = 0.0
    ) -> None:
        self.length = length
        half, side = 0.5 * length, 0.5 * width
        painted = [
            (along, along + 60.0, -0.9, 0.9) for along in np.arange(150.0 - half, half - 150, 120)
        ]
        painted += [(-half, half, edge, edge + 1.5) for edge in (-side, side - 1.5)]
        for end in (-half + 15.0, half - 60.0):
            for k in range(-4, 4):
                across = (k + 0.25) * side / 4.5
                painted.append((end, end + 45.0, across, across + 3.4))
        flat = [
            ((start, left), (start, right), (end, right), (end, left))
            for start, end, left, right in [(-half, half, -side, side), *painted]
        ]
        corners = np.stack([on_ground(np.array(area), heading) for area in flat])
        corners[..., 2] = down
        self.areas: tuple[Points, list[Colour]] = corners, [ASPHALT] + [PAINT] * len(painted)
        """Corners (n, 4, 3), m, and colours of the runway and its markings."""

    def draw(self, surface: pygame.Surface, camera: Camera) -> None:
        draw_areas(surface, camera, *self.areas)


@dataclass
class FlightGate:
    """A gate: ``place`` (3,) is the gate's middle in world axes, m; ``heading`` is in rad."""

    place: Vector
    heading: float
    half: float = 45.0

    @cached_property
    def lines(self) -> Points:
        """The lines (5, 2, 3) of the gate: four sides, and the pole below."""
        side = self.half * np.array([-math.sin(self.heading), math.cos(self.heading), 0.0])
        up = np.array([0.0, 0.0, -self.half])
        corners = np.array([self.place + a * side + b * up for a, b in _SQUARE])
        pole = np.array([self.place - up, [*self.place[:2], 0.0]])
        return np.stack([*np.stack([corners, np.roll(corners, -1, axis=0)], axis=1), pole])


_SQUARE = ((-1, -1), (1, -1), (1, 1), (-1, 1))


class Course:
    """A course of gates to fly through in order. The next gate to pass has a different colour.

    The run decides which gates were passed. The scene sets ``next``, ``missed`` and ``passed``.
    """

    def __init__(self, gates: Sequence[FlightGate]) -> None:
        self.gates = tuple(gates)
        self.next = 0
        self.missed = 0
        self.passed = [False] * len(self.gates)

    @classmethod
    def along(cls, rows: Sequence[Sequence[float]], course: float, half: float) -> Course:
        """Return the course with the gates ``rows``.

        A row contains the distances along and across the course (m), the height (m), and the turn
        (deg). ``course`` is a direction, rad.
        """
        gates = []
        for along, across, height, turn in rows:
            place = on_ground(np.array([[along, across]]), course)[0]
            place[2] = -height
            gates.append(FlightGate(place, course + math.radians(turn), half))
        return cls(gates)

    def lines(self, camera: Camera) -> tuple[Points, list[Stroke]]:
        """Return the lines (k, 2, 3) of the gates, beginning with the last gate."""
        ends: list[Points] = [np.zeros((0, 2, 3))]
        strokes: list[Stroke] = []
        for k, gate in reversed(list(enumerate(self.gates))):
            colour = PASSED if self.passed[k] else NEXT_GATE if k == self.next else GATE
            distance = math.dist(gate.place, camera.position)
            thick = max(2, min(14, round(3.0 * camera.focal / max(distance, 1.0))))
            ends.append(gate.lines)
            strokes += [(colour, thick)] * 4 + [(colour, 1)]
        return np.concatenate(ends), strokes


def on_ground(corners: Points, heading: float) -> Points:
    """Return world points (k, 3) on the ground for ``corners`` (k, 2).

    Rows of ``corners`` contain distances along and across the direction ``heading``.
    """
    c, s = math.cos(heading), math.sin(heading)
    along, across = corners[:, 0], corners[:, 1]
    return np.stack([c * along - s * across, s * along + c * across, 0.0 * along], axis=1)


def _grid(spacing: float, cells: int) -> Points:
    reach = spacing * cells
    at = spacing * np.arange(-cells, cells + 1.0)
    across = np.stack([[[x, -reach, 0.0], [x, reach, 0.0]] for x in at])
    return np.concatenate((across, across[..., [1, 0, 2]]))


def draw_lines(
    surface: pygame.Surface, camera: Camera, ends: Points, strokes: Sequence[Stroke]
) -> None:
    """Draw world lines (k, 2, 3), each with its colour and thickness in pixels."""
    pixels, which = camera.lines(ends)
    for (here, there), k in zip(pixels.tolist(), which.tolist(), strict=True):
        colour, thick = strokes[k]
        pygame.draw.line(surface, colour, here, there, thick)


def draw_areas(
    surface: pygame.Surface, camera: Camera, corners: Points, colours: Sequence[Colour]
) -> None:
    """Draw world polygons (n, k, 3), each in its colour."""
    for k, outline in camera.areas(corners):
        pygame.draw.polygon(surface, colours[k], outline)


# The sky: bands of haze around the horizon, clouds, and the sun.

SKY: Colour = (52, 96, 158)
BANDS: tuple[tuple[float, Colour], ...] = (
    (65.0, (58, 103, 164)),
    (45.0, (65, 112, 171)),
    (30.0, (74, 122, 180)),
    (20.0, (84, 131, 187)),
    (13.0, (95, 141, 194)),
    (8.0, (108, 152, 201)),
    (5.0, (124, 165, 208)),
    (3.0, (142, 178, 214)),
    (1.5, (162, 192, 219)),
    (0.6, (180, 204, 223)),
    (0.0, (128, 138, 118)),
    (-1.0, (104, 122, 88)),
    (-4.0, (90, 112, 72)),
)
"""Colours of sky, haze and ground, each with the elevation of its upper edge, deg."""
_EDGES = [math.radians(elevation) for elevation, _ in BANDS]
_BANDS = list(zip(_EDGES, [*_EDGES[1:], None], [colour for _, colour in BANDS], strict=True))
"""Upper edge, lower edge (rad) and colour of each band. The last band has no lower edge."""
HAZE: Colour = (162, 180, 190)
SUN: Colour = (255, 250, 226)
_SUN_AZIMUTH, _SUN_ELEVATION = math.radians(60.0), math.radians(28.0)
_SUN_RINGS: tuple[tuple[float, float], ...] = ((5.0, 0.12), (3.4, 0.3), (2.3, 0.55), (1.5, 1.0))
"""Radius (deg) and brightness (0 to 1) of the glow and the disc of the sun."""
_CLOUDS = 46
_PUFFS, _CORNERS = 3, 10


def _direction(azimuth: float, elevation: float) -> Vector:
    flat = math.cos(elevation)
    return np.array([
        flat * math.cos(azimuth), flat * math.sin(azimuth), -math.sin(elevation),
    ])  # fmt: skip


TOWARDS_SUN = _direction(_SUN_AZIMUTH, _SUN_ELEVATION)


def _around(middle: Vector, wide: float, high: float, corners: int) -> Points:
    up = np.array([0.0, 0.0, -1.0])
    right = np.cross(middle, up)
    right = right / np.linalg.norm(right)
    above = np.cross(right, middle)
    turns = math.tau * np.arange(corners)[:, np.newaxis] / corners
    out: Points = middle + wide * np.cos(turns) * right + high * np.sin(turns) * above
    return out


def _clouds() -> tuple[Points, list[Colour]]:
    chance, areas, colours = random.Random(4), [], []
    for _ in range(_CLOUDS):
        elevation = math.asin(chance.uniform(math.sin(math.radians(7.0)), 0.985))
        azimuth, size = chance.uniform(0.0, math.tau), chance.uniform(0.035, 0.1)
        white = chance.randint(212, 238)
        flat = 0.35 + 0.5 * math.sin(elevation)  # clouds near the horizon are seen from the side
        for puff in range(_PUFFS):
            beside = (puff - 1.0) * 0.9 * size / max(0.3, math.cos(elevation))
            part = size * chance.uniform(0.6, 1.0)
            middle = _direction(azimuth + beside, elevation + chance.uniform(-0.1, 0.1) * size)
            areas.append(_around(middle, part, flat * part, _CORNERS))
            colours.append((white, white + 3, white + 9))
    return np.array(areas), colours


_CLOUD_AREAS, _CLOUD_COLOURS = _clouds()
_SUN_AREAS = np.array(
    [_around(TOWARDS_SUN, math.radians(r), math.radians(r), 24) for r, _ in _SUN_RINGS]
)


def draw_sky(surface: pygame.Surface, camera: Camera) -> None:
    """Draw sky, haze, clouds and sun, and flat ground below the horizon."""
    draw_horizon(surface, camera)
    _draw_far(surface, camera, _CLOUD_AREAS, _CLOUD_COLOURS)
    _draw_far(surface, camera, _SUN_AREAS, [_glow(share) for _, share in _SUN_RINGS])


def draw_horizon(surface: pygame.Surface, camera: Camera) -> None:
    """Draw bands of colour above and below the horizon."""
    surface.fill(SKY)
    for elevation, lowest, colour in _BANDS:
        corners = camera.below(elevation, lowest)
        if len(corners) > 2:
            pygame.draw.polygon(surface, colour, corners)


def _glow(share: float) -> Colour:
    red, green, blue = (
        round(sky + share * (sun - sky)) for sky, sun in zip((92, 138, 190), SUN, strict=True)
    )
    return red, green, blue


def _draw_far(
    surface: pygame.Surface, camera: Camera, areas: Points, colours: list[Colour]
) -> None:
    seen = areas @ camera.axes.T
    ahead = np.flatnonzero(seen[..., 0].min(axis=1) > 0.05)
    if not ahead.size:
        return
    pixels = camera.pixels(seen[ahead])
    low, high = pixels.min(axis=1), pixels.max(axis=1)
    inside = ((high > 0.0) & (low < (camera.width, camera.height))).all(axis=1)
    for k, outline in zip(ahead[inside].tolist(), pixels[inside].tolist(), strict=True):
        pygame.draw.polygon(surface, colours[k], outline)


# A ground with hills: the cells of a grid, fine near the camera and coarse far from it.

_LEVELS = 20
"""Number of cells along a side of a level's square; a multiple of 4."""
_SIGHT = 22e3
"""Distance at which haze makes up 63 % of the colour, m."""
_TUFTS, _TUFTS_BELOW = 24, 120.0
"""Number of patches along a side of their square, and camera height below which they are drawn, m.
"""
_TUFT = (76, 98, 58)
_CELL_CORNERS = np.array([(-1.0, -1.3), (1.2, -0.8), (1.0, 1.2), (-0.9, 0.9)])
_DARK = 0.55


class _Level:
    def __init__(self, grid: GroundGrid, step: int) -> None:
        rows, columns = (every(axis.size, step) for axis in (grid.north, grid.east))
        self.north, self.east = grid.north[rows], grid.east[columns]
        self.height = grid.height[np.ix_(rows, columns)]
        kinds = commonest(grid.kind, rows[:-1], columns[:-1])
        self.colours = KIND_COLOURS[kinds] * self._light()[..., np.newaxis]

    def _light(self) -> Points:
        h = self.height
        north = np.diff(self.north)[:, np.newaxis]
        east = np.diff(self.east)[np.newaxis]
        up_north = 0.5 * (h[1:, :-1] + h[1:, 1:] - h[:-1, :-1] - h[:-1, 1:]) / north
        up_east = 0.5 * (h[:-1, 1:] + h[1:, 1:] - h[:-1, :-1] - h[1:, :-1]) / east
        sun_north, sun_east, sun_down = TOWARDS_SUN
        lit = (-sun_down - sun_north * up_north - sun_east * up_east) / np.sqrt(
            1.0 + up_north**2 + up_east**2
        )
        flat = -sun_down
        light: Points = np.clip(_DARK + (1.0 - _DARK) * lit / flat, 0.4, 1.25)
        return light

    def corners(self, i: NDArray[np.intp], k: NDArray[np.intp]) -> Points:
        out = np.empty((i.size, 4, 3))
        for corner, (a, b) in enumerate(((0, 0), (1, 0), (1, 1), (0, 1))):
            out[:, corner, 0] = self.north[i + a]
            out[:, corner, 1] = self.east[k + b]
            out[:, corner, 2] = -self.height[i + a, k + b]
        return out


class Relief:
    """Hilly ground ``grid``, whose origin is at ``origin`` (2,): north and east, m."""

    def __init__(self, grid: GroundGrid, origin: tuple[float, float] = (0.0, 0.0)) -> None:
        self._grid = grid
        self._origin = np.array([*origin, 0.0])
        self._levels: list[_Level] = []
        size = max(grid.kind.shape)
        while True:
            step = 1 << len(self._levels)
            self._levels.append(_Level(grid, step))
            # this level covers the grid from any camera position
            if _LEVELS // 2 * step >= 2 * size:
                break

    def height(self, north: float, east: float) -> float:
        """Return the height (m) of the ground at a place, or 0 outside the grid."""
        return float(self.heights(np.array([north]), np.array([east]))[0])

    def heights(self, north: Points, east: Points) -> Points:
        """Return the heights (n,), m, at places (n,), as :meth:`height` does for one."""
        grid = self._grid
        x, y = north - self._origin[0], east - self._origin[1]
        i, k = _cells(grid.north, x), _cells(grid.east, y)
        a = (x - grid.north[i]) / (grid.north[i + 1] - grid.north[i])
        b = (y - grid.east[k]) / (grid.east[k + 1] - grid.east[k])
        h = grid.height
        low = (1.0 - a) * h[i, k] + a * h[i + 1, k]
        high = (1.0 - a) * h[i, k + 1] + a * h[i + 1, k + 1]
        inside = (a >= 0.0) & (a <= 1.0) & (b >= 0.0) & (b <= 1.0)
        out: Points = np.where(inside, (1.0 - b) * low + b * high, 0.0)
        return out

    def draw(self, surface: pygame.Surface, camera: Camera) -> None:
        """Draw the ground over a sky, with the farthest cells first."""
        corners, colours = self.around(camera)
        ahead = (corners - camera.position) @ camera.axes[0]
        shown = np.flatnonzero(ahead.max(axis=1) > camera.near)
        corners, colours = corners[shown], colours[shown]
        flat = corners[..., :2].mean(axis=1) - camera.position[:2]
        distance = np.hypot(flat[:, 0], flat[:, 1])
        order = np.argsort(-distance)
        fog = 1.0 - np.exp(-distance[order, np.newaxis] / _SIGHT)
        shades = (colours[order] * (1.0 - fog) + np.array(HAZE) * fog).astype(int).tolist()
        for k, outline in camera.areas(corners[order]):
            pygame.draw.polygon(surface, shades[k], outline)
        self._draw_tufts(surface, camera)

    def _draw_tufts(self, surface: pygame.Surface, camera: Camera) -> None:
        north, east, down = camera.position.tolist()
        above = -down - self.height(north, east)
        if not 0.0 < above < _TUFTS_BELOW:
            return
        space = 2.0 * 2.0 ** math.floor(math.log2(max(above, 2.0)))
        first = (np.floor(camera.position[:2] / space) - _TUFTS // 2).astype(np.int64)
        i, k = np.meshgrid(*(n + np.arange(_TUFTS) for n in first), indexing="ij")
        drawn = (i * 73856093 ^ k * 19349663).ravel() & 0xFFFF
        middle = np.stack([i.ravel() + (drawn & 0xFF) / 256.0, k.ravel() + (drawn >> 8) / 256.0], 1)
        size = 0.03 + 0.05 * (drawn & 0x3F)[:, np.newaxis, np.newaxis] / 64.0
        flat = space * (middle[:, np.newaxis] + size * _CELL_CORNERS)
        height = self.heights(flat[..., 0].ravel(), flat[..., 1].ravel()).reshape(flat.shape[:2])
        corners = np.concatenate([flat, -height[..., np.newaxis]], axis=2)
        for _, outline in camera.areas(corners):
            pygame.draw.polygon(surface, _TUFT, outline)

    def around(self, camera: Camera, finer: int = 1) -> tuple[Points, Points]:
        """Return corners (n, 4, 3), m, and colours (n, 3) of the cells around the camera.

        ``finer`` multiplies the number of cells along a side of each level.
        """
        grid, cells = self._grid, finer * _LEVELS
        here = camera.position - self._origin
        at = np.array([_cell(grid.north, here[0]), _cell(grid.east, here[1])])
        found, colours = [], []
        inner: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None
        for level, part in enumerate(self._levels):
            step = 1 << level
            low = (at // (2 * step)) * 2 * step - cells // 2 * step
            high = low + cells * step
            i, k = (
                np.arange(max(0, low[n] // step), min(part.colours.shape[n], high[n] // step))
                for n in (0, 1)
            )
            rows, columns = (a.ravel() for a in np.meshgrid(i, k, indexing="ij"))
            if inner is not None:
                hidden = _between(rows * step, inner[0][0], inner[1][0])
                hidden &= _between(columns * step, inner[0][1], inner[1][1])
                rows, columns = rows[~hidden], columns[~hidden]
            inner = low, high
            found.append(part.corners(rows, columns))
            colours.append(part.colours[rows, columns])
        return np.concatenate(found) + self._origin, np.concatenate(colours)


def _between(values: NDArray[np.intp], low: int, high: int) -> NDArray[np.bool_]:
    return (values >= low) & (values < high)


def _cells(axis: Points, at: Points) -> NDArray[np.intp]:
    return np.clip(np.searchsorted(axis, at, side="right") - 1, 0, axis.size - 2)


def _cell(axis: Points, at: float) -> int:
    return int(_cells(axis, np.array([at]))[0])


# Shapes of bodies, lit by the sun, and their shadows on the ground.

_SHADE, _EDGE = 0.75, 0.72
_OUTLINED = 100
"""A shape with more panels than this has no outlines, which would cover its colours."""
_SHADOW = (52, 62, 46)
_SHADOW_CORNERS = 12


@dataclass(frozen=True)
class Placement:
    """Position ``place`` (3,), m, and body axes as rows (3, 3), in north, east, down."""

    place: Vector
    axes: Points


class DrawnSolid:
    """A shape prepared for drawing."""

    def __init__(self, solid: Solid) -> None:
        self.solid = solid
        corners = solid.corners
        across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        size = np.linalg.norm(across, axis=1, keepdims=True)
        self._normals = across / np.maximum(size, 1e-12)
        self._outlined = len(corners) <= _OUTLINED
        self._middles = corners.mean(axis=1)
        self._closed = solid.outward or is_closed(corners)
        flat = corners.reshape(-1, 3)
        low, high = flat.min(axis=0), flat.max(axis=0)
        if solid.outward:
            away = ((self._middles - 0.5 * (low + high)) * self._normals).sum(axis=1)
            self._normals[away < 0.0] *= -1.0
        turns = np.linspace(0.0, 2.0 * np.pi, _SHADOW_CORNERS, endpoint=False)
        ring = np.stack([np.cos(turns), np.sin(turns), np.zeros(_SHADOW_CORNERS)], axis=1)
        self._footprint = 0.5 * (high + low) + 0.5 * (high - low) * ring

    def draw(self, surface: pygame.Surface, camera: Camera, at: Placement) -> None:
        """Draw the panels of a body, beginning with the farthest."""
        some = self._facing(camera, at)
        placed = self.solid.corners[some] @ at.axes + at.place
        depth = (placed - camera.position) @ camera.axes[0]
        order = np.argsort(-depth.max(axis=1))
        placed, far = placed[order], some[order]
        lit = np.abs(self._normals[far] @ (at.axes @ TOWARDS_SUN))
        light = _SHADE + (1.0 - _SHADE) * lit
        colours = (self.solid.colours[far] * light[:, np.newaxis]).astype(int)
        edges = (colours * _EDGE).astype(int).tolist()
        shades = colours.tolist()
        for k, outline in camera.areas(placed):
            pygame.draw.polygon(surface, shades[k], outline)
            if self._outlined:
                pygame.draw.polygon(surface, edges[k], outline, 1)

    def _facing(self, camera: Camera, at: Placement) -> NDArray[np.intp]:
        if not self._closed:
            return np.arange(len(self._normals))
        here = at.axes @ (camera.position - at.place)
        return np.flatnonzero(((here - self._middles) * self._normals).sum(axis=1) > 0.0)

    def draw_shadow(
        self, surface: pygame.Surface, camera: Camera, at: Placement, down: float
    ) -> None:
        """Draw the shadow of a body on the ground at the coordinate ``down`` (m)."""
        area = self._footprint @ at.axes + at.place
        area[:, 2] = down
        for _, outline in camera.areas(area[np.newaxis]):
            pygame.draw.polygon(surface, _SHADOW, outline)


def is_closed(corners: Points) -> bool:
    """Return True if triangles (n, 3, 3) form closed surfaces with normals to the outside.

    In a closed surface, each edge belongs to two triangles.
    """
    if corners.shape[1] != 3:
        return False
    _, which = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    faces = which.reshape(-1, 3)
    edges = np.concatenate([faces, faces[:, [1, 2, 0]]]).reshape(2, -1).T
    forth = {(int(a), int(b)) for a, b in edges}
    once = len(forth) == len(edges)
    volume = np.einsum("ni,ni->n", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum()
    return once and all((b, a) in forth for a, b in forth) and bool(volume > 0.0)


# One picture: its camera and its parts, for either way of drawing.


@dataclass
class WorldPicture:
    """The parts of a picture of the world.

    Attributes:
        camera: The camera.
        ground: Flat ground or relief.
        runway: The runway, if there is one.
        bodies: Shapes with their placements.
        shadows: Shapes, their placements, and the coordinates (m) of the ground below them.
        lines: Lines (k, 2, 3) in world axes, each with its colours and thicknesses.
        sun: Unit vector (3,) towards the sun.
    """

    camera: Camera
    ground: Terrain | Relief
    runway: Runway | None = None
    bodies: list[tuple[DrawnSolid, Placement]] = field(default_factory=list)
    shadows: list[tuple[DrawnSolid, Placement, float]] = field(default_factory=list)
    lines: list[tuple[Points, Sequence[Stroke]]] = field(default_factory=list)
    sun: Vector = field(default_factory=lambda: TOWARDS_SUN)

    @property
    def ground_down(self) -> float:
        """The coordinate of the ground below the camera, m."""
        if isinstance(self.ground, Relief):
            return -self.ground.height(*self.camera.position[:2].tolist())
        return self.ground.down

    def draw_in_software(self, surface: pygame.Surface) -> None:
        """Draw the parts with pygame, beginning with the farthest body."""
        camera = self.camera
        draw_sky(surface, camera)
        self.ground.draw(surface, camera)
        if self.runway is not None:
            self.runway.draw(surface, camera)
        for shape, at, down in self.shadows:
            shape.draw_shadow(surface, camera, at, down)
        for ends, strokes in self.lines:
            draw_lines(surface, camera, ends, strokes)
        depth = [-float(camera.seen(at.place)[0]) for _, at in self.bodies]
        for k in np.argsort(depth).tolist():
            shape, at = self.bodies[k]
            shape.draw(surface, camera, at)
