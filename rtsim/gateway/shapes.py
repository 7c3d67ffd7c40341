"""Shapes, tracks and positions of bodies, and the ground as triangles.

The window, the web page and Foxglove draw the same shapes. Body axes are forward, right, down.
World axes are x east, y north and z up, in m. The world's origin is the first position of the first
body with latitude and longitude.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.equations.earth import EQUATORIAL_RADIUS, FLATTENING
from rtsim.scenario.body import KINDS, ROAD, RUNWAY, WATER, Body, Ground, GroundGrid, Mesh

Points = NDArray[np.float64]
Colours = NDArray[np.uint8]
Colour = tuple[int, int, int]
Corner = tuple[float, float, float]
Panel = tuple[Colour, Sequence[Corner]]
"""A flat convex area: its colour, and its corners."""

_LIGHT, _DARK, _CANOPY, _FLAME, _NOZZLE = (
    (150, 156, 164), (112, 118, 126), (40, 52, 70), (255, 170, 70), (70, 68, 66),
)  # fmt: skip
_PAINT, _GLASS, _TYRE, _LAMP, _REAR = (
    (190, 60, 50), (52, 68, 86), (40, 42, 46), (255, 240, 190), (150, 20, 24),
)  # fmt: skip
_ARM, _HULL, _FRONT, _ROTOR = (70, 76, 84), (48, 52, 60), (235, 90, 40), (196, 204, 214)


@dataclass(frozen=True, eq=False)
class Solid:
    """The panels of a shape, in body axes.

    ``corners`` (n, k, 3), m, contains k corners per panel. A panel with fewer corners than the
    others repeats its last corner. ``colours`` (n, 3) are red, green and blue, 0 to 255.
    """

    corners: Points
    colours: Colours
    eye: Vector
    """Position (3,) of the driver's or pilot's eyes, m."""
    on_ground: bool = False
    """True if the origin of the shape is on the ground below it."""
    outward: bool = False
    """True if each panel faces away from the middle and cannot be seen from inside."""

    def triangles(self) -> tuple[Points, Colours]:
        """Return corners (m, 3, 3), m, and colours (m, 3) of triangles that cover the panels."""
        first, corners = self.corners[:, :1], self.corners
        fans = [
            np.concatenate((first, corners[:, k : k + 2]), axis=1)
            for k in range(1, corners.shape[1] - 1)
        ]
        stacked = np.stack(fans, axis=1).reshape(-1, 3, 3)
        colours = np.repeat(self.colours, len(fans), axis=0)
        across = np.cross(stacked[:, 1] - stacked[:, 0], stacked[:, 2] - stacked[:, 0])
        whole = np.abs(across).max(axis=1) > 0.0  # repeated corners give triangles without area
        return stacked[whole], colours[whole]


@lru_cache(maxsize=64)
def solid_of(shape: str | Mesh, length: float) -> Solid:
    """Return a shape of :data:`rtsim.scenario.body.SHAPES` or a mesh, scaled to ``length``, m."""
    if isinstance(shape, Mesh):
        corners = shape.corners.astype(np.float64) * (length / shape.length)
        top = float(corners[..., 2].min())
        return Solid(corners, shape.colours, np.array([0.0, 0.0, top]))
    panels, eye, on_ground = _KNOWN[shape]
    most = max(len(corners) for _, corners in panels)
    padded = [[*corners, *[corners[-1]] * (most - len(corners))] for _, corners in panels]
    colours = np.array([colour for colour, _ in panels], np.uint8)
    outward = shape in ("box", "car")
    return Solid(np.array(padded) * length, colours, np.array(eye) * length, on_ground, outward)


def triangles(shape: str | Mesh, length: float) -> tuple[Points, Colours]:
    """Return the corners (n, 3, 3), m, and colours (n, 3) of the triangles of a shape.

    Each triangle occurs twice, once for each of its sides.
    """
    corners, colours = solid_of(shape, length).triangles()
    return np.concatenate([corners, corners[:, ::-1]]), np.concatenate([colours, colours])


def _both(panels: Sequence[Panel]) -> list[Panel]:
    return [*panels, *((c, [(x, -y, z) for x, y, z in corners]) for c, corners in panels)]


def _block(
    x: tuple[float, float],
    y: tuple[float, float],
    z: tuple[float, float],
    colour: Colour,
    top: tuple[float, float] | None = None,
    sides: Colour | None = None,
) -> list[Panel]:
    (a, b), (left, right), (up, down) = x, y, z
    c, d = top or x
    side = sides or colour
    return [
        (colour, [(a, left, down), (a, right, down), (b, right, down), (b, left, down)]),
        (side, [(a, left, down), (a, right, down), (c, right, up), (c, left, up)]),
        (side, [(b, left, down), (b, right, down), (d, right, up), (d, left, up)]),
        (side, [(a, left, down), (b, left, down), (d, left, up), (c, left, up)]),
        (side, [(a, right, down), (b, right, down), (d, right, up), (c, right, up)]),
        (colour, [(c, left, up), (c, right, up), (d, right, up), (d, left, up)]),
    ]  # fmt: skip


def _ring(middle: Corner, radius: float, axis: str, many: int = 8) -> list[Corner]:
    x, y, z = middle
    turns = [math.tau * (k + 0.5) / many for k in range(many)]
    arms = [(radius * math.cos(t), radius * math.sin(t)) for t in turns]
    return [(x + a, y, z + b) if axis == "y" else (x + a, y + b, z) for a, b in arms]


def _wheel(x: float, y: float, radius: float, width: float) -> list[Panel]:
    inner, outer = (_ring((x, y + side, -radius), radius, "y") for side in (0.0, width))
    tread = [
        (_TYRE, [inner[k - 1], inner[k], outer[k], outer[k - 1]])
        for k in range(len(inner))
        if min(inner[k - 1][2], inner[k][2]) > -0.8 * radius  # below the body
    ]
    hub = _ring((x, y + 1.02 * width, -radius), 0.55 * radius, "y")
    return [*tread, (_TYRE, outer), (_LIGHT, hub)]


Section = tuple[float, float, float, float]
"""Ellipse across a body: x, half of its width, z of its middle, and half of its height."""


def _loft(colour: Colour, sections: Sequence[Section], many: int = 14) -> list[Panel]:
    """Return the panels between ellipses, and the two ends."""
    turns = [math.tau * k / many for k in range(many)]
    rings = [
        [(x, wide * math.sin(t), middle - high * math.cos(t)) for t in turns]
        for x, wide, middle, high in sections
    ]
    sides = [
        (colour, [ahead[k - 1], ahead[k], behind[k], behind[k - 1]])
        for ahead, behind in pairwise(rings)
        for k in range(many)
    ]
    return [*sides, (colour, rings[0]), (colour, rings[-1])]


def _wing(
    colour: Colour, root: Sequence[Corner], tip: Sequence[Corner], thick: Corner
) -> list[Panel]:
    """Return a wing between leading and trailing edges (2 each) at its root and at its tip.

    ``thick`` is the direction across the wing, as long as half of its thickness per unit of chord.
    """
    profile: list[list[Corner]] = []
    for ahead, behind in (root, tip):
        half = math.dist(ahead, behind) * np.array(thick)
        crest = 0.6 * np.array(ahead) + 0.4 * np.array(behind)
        up, down = (crest - half).tolist(), (crest + half).tolist()
        profile.append([ahead, up, behind, down])
    inner, outer = profile
    faces = [(colour, [inner[k], inner[k - 1], outer[k - 1], outer[k]]) for k in range(4)]
    return [*faces, (colour, outer)]


_AIRCRAFT_LENGTH = 15.1
_FUSELAGE: tuple[Section, ...] = (
    (7.55, 0.01, 0.1, 0.01), (7.2, 0.14, 0.08, 0.13), (6.5, 0.32, 0.05, 0.3),
    (5.6, 0.47, 0.02, 0.45), (4.5, 0.57, 0.0, 0.55), (3.0, 0.68, 0.02, 0.62),
    (1.2, 0.9, 0.07, 0.68), (-1.2, 1.0, 0.08, 0.68), (-3.4, 0.94, 0.06, 0.64),
    (-5.4, 0.78, 0.04, 0.58), (-6.6, 0.6, 0.03, 0.53),
)  # fmt: skip
_AIRCRAFT: list[Panel] = [
    *_loft(_LIGHT, _FUSELAGE),
    *_loft(_NOZZLE, ((-6.55, 0.6, 0.03, 0.53), (-7.1, 0.56, 0.03, 0.52), (-7.5, 0.42, 0.03, 0.42))),
    (_FLAME, [(-7.51, 0.3 * math.sin(k * math.tau / 10), 0.03 - 0.3 * math.cos(k * math.tau / 10))
              for k in range(10)]),
    *_loft(_DARK, ((3.0, 0.44, 0.78, 0.34), (1.5, 0.5, 0.76, 0.36), (-1.5, 0.44, 0.6, 0.3))),
    *_loft(_CANOPY, ((5.3, 0.02, -0.42, 0.02), (4.6, 0.27, -0.46, 0.27), (3.7, 0.4, -0.5, 0.48),
                     (2.6, 0.4, -0.52, 0.5), (1.6, 0.26, -0.55, 0.32), (0.6, 0.03, -0.6, 0.04))),
    *_both([
        *_wing(_LIGHT, ((1.6, 0.85, 0.0), (-3.5, 0.85, 0.05)),
               ((-2.2, 4.72, 0.0), (-3.4, 4.72, 0.03)), (0.0, 0.0, 0.022)),
        *_wing(_LIGHT, ((4.3, 0.5, -0.08), (1.5, 0.5, -0.02)),
               ((1.65, 0.98, 0.0), (0.6, 0.98, 0.0)), (0.0, 0.0, 0.02)),
        *_wing(_LIGHT, ((-4.7, 0.7, 0.1), (-7.2, 0.7, 0.12)),
               ((-6.6, 2.75, 0.42), (-7.5, 2.75, 0.43)), (0.0, -0.003, 0.02)),
        *_wing(_DARK, ((-4.6, 0.55, 0.5), (-6.1, 0.55, 0.5)),
               ((-5.2, 0.85, 1.15), (-6.0, 0.85, 1.15)), (0.0, 0.018, -0.006)),
    ]),
    *_wing(_DARK, ((-3.0, 0.0, -0.5), (-7.0, 0.0, -0.45)), ((-5.9, 0.0, -3.3), (-7.5, 0.0, -3.3)),
           (0.0, 0.022, 0.0)),
]  # fmt: skip
_BOX = _block((-0.5, 0.5), (-0.2, 0.2), (-0.1, 0.1), _LIGHT)
_BOX[2] = (_PAINT, _BOX[2][1])  # the front
_HALF = 0.2
_CAR = [
    *_block((-0.5, 0.5), (-_HALF, _HALF), (-0.19, -0.06), _PAINT),
    *_block((-0.42, 0.24), (-0.18, 0.18), (-0.32, -0.19), _PAINT, (-0.32, 0.08), _GLASS),
    *_both([
        (_LAMP, ((0.502, 0.1, -0.17), (0.502, 0.18, -0.17), (0.502, 0.18, -0.12),
                 (0.502, 0.1, -0.12))),
        (_REAR, ((-0.502, 0.1, -0.17), (-0.502, 0.18, -0.17), (-0.502, 0.18, -0.12),
                 (-0.502, 0.1, -0.12))),
        *_wheel(0.31, 0.155, 0.075, 0.05), *_wheel(-0.31, 0.155, 0.075, 0.05),
    ]),
]  # fmt: skip
_ROTORS = [(x, y) for x in (0.35, -0.35) for y in (0.35, -0.35)]


def _arm(x: float, y: float) -> list[Panel]:
    across = 0.04 / math.hypot(x, y)
    u, v = -y * across, x * across
    colour = _FRONT if x > 0.0 else _ARM
    beam = [(u, v, 0.0), (x + u, y + v, 0.0), (x - u, y - v, 0.0), (-u, -v, 0.0)]
    motor = _block((x - 0.03, x + 0.03), (y - 0.03, y + 0.03), (-0.07, 0.03), _ARM)
    return [(colour, beam), *motor, (_ROTOR, _ring((x, y, -0.08), 0.2, "z", 12))]


_QUADCOPTER = [
    *_block((-0.16, 0.16), (-0.09, 0.09), (-0.06, 0.06), _HULL),
    *(panel for x, y in _ROTORS for panel in _arm(x, y)),
    (_FRONT, ((0.162, -0.05, -0.03), (0.162, 0.05, -0.03), (0.162, 0.05, 0.03),
              (0.162, -0.05, 0.03))),
]  # fmt: skip

_KNOWN: dict[str, tuple[Sequence[Panel], Corner, bool]] = {
    "aircraft": (
        [(c, [(x / _AIRCRAFT_LENGTH, y / _AIRCRAFT_LENGTH, z / _AIRCRAFT_LENGTH)
              for x, y, z in corners]) for c, corners in _AIRCRAFT],
        (0.0, 0.0, 0.0), False,
    ),
    "box": (_BOX, (0.0, 0.0, -0.1), False),
    "car": (_CAR, (0.02, 0.0, -0.28), True),
    "quadcopter": (_QUADCOPTER, (0.0, 0.0, -0.05), False),
}  # fmt: skip
"""By shape: panels, position of the eyes, and whether the origin is on the ground."""


class BodyTrail:
    """Past positions of a body, limited to ``most`` points.

    A new point is stored if its distance from the last point is at least ``spacing`` m. When the
    list is full, every second point is removed and ``spacing`` is doubled.
    """

    def __init__(self, spacing: float, most: int = 1000) -> None:
        self._first_spacing = self._spacing = spacing
        self._most = most
        self._points: list[Vector] = []

    def add(self, point: Vector) -> None:
        if self._points and np.linalg.norm(point - self._points[-1]) < self._spacing:
            return
        self._points.append(point)
        if len(self._points) >= self._most:
            self._points = self._points[::2]
            self._spacing *= 2.0

    def clear(self) -> None:
        self._points.clear()
        self._spacing = self._first_spacing

    def points(self, now: Vector) -> Sequence[Vector]:
        """Return the past positions, followed by the present position ``now``."""
        return [*self._points, now]


# The ground as coloured triangles.

KIND_COLOURS = np.array([
    (92, 116, 70), (134, 130, 78), (104, 102, 98), (64, 66, 70), (58, 96, 132), (52, 82, 50),
], np.uint8)  # fmt: skip
"""Colour of each kind in :data:`rtsim.scenario.body.KINDS`, for all viewers."""
MOST_CELLS = 64
"""Limit of the cells along a side, for viewers that receive the ground as triangles."""
_WEIGHTS = np.where(np.isin(np.arange(len(KINDS)), (ROAD, RUNWAY, WATER)), 3, 1)
"""Weights of the kinds where a coarse cell covers several of them, which keep roads visible."""


def every(size: int, step: int) -> NDArray[np.intp]:
    """Return every ``step``-th index below ``size``, and the last index."""
    out = np.arange(0, size, step)
    return out if out[-1] == size - 1 else np.append(out, size - 1)


def commonest(
    kind: NDArray[np.uint8], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the most frequent kind of ground in each block of cells.

    The blocks begin at the indices ``rows`` and ``columns``. A cell of road, runway or water counts
    three times, so that narrow features stay visible.
    """
    counts = [
        np.add.reduceat(np.add.reduceat((kind == k).astype(int), rows, axis=0), columns, axis=1)
        for k in range(len(KINDS))
    ]
    return np.asarray(np.argmax(np.stack(counts) * _WEIGHTS[:, np.newaxis, np.newaxis], axis=0))


def ground_triangles(grid: GroundGrid) -> tuple[Points, Colours]:
    """Return corners (n, 3, 3), m, in axes east, north, up, and colours (n, 3) of triangles.

    Cells are merged until the ground has at most ``MOST_CELLS`` cells along each side.
    """
    rows, columns = (
        every(axis.size, -(-(axis.size - 1) // MOST_CELLS)) for axis in (grid.north, grid.east)
    )
    north, east = np.meshgrid(grid.north[rows], grid.east[columns], indexing="ij")
    points = np.stack([east, north, grid.height[np.ix_(rows, columns)]], axis=2)
    a, b, c, d = points[:-1, :-1], points[:-1, 1:], points[1:, 1:], points[1:, :-1]
    corners = np.stack([np.stack([a, b, c], axis=2), np.stack([a, c, d], axis=2)], axis=2)
    kinds = commonest(grid.kind, rows[:-1], columns[:-1])
    return corners.reshape(-1, 3, 3), np.repeat(KIND_COLOURS[kinds.ravel()], 2, axis=0)


# Poses of the bodies of a scene, computed from a sample of the signals.

Matrix = NDArray[np.float64]

_SWAP = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
"""Matrix that converts north-east-down axes to east-north-up axes, and back."""


@dataclass(frozen=True)
class Pose:
    """Position and rotation of a body in the world.

    ``position`` (3,) is in world axes, m. ``rotation`` (x, y, z, w) is the quaternion from body to
    world axes. ``location`` contains latitude (rad), longitude (rad) and altitude (m), or is
    ``None``.
    """

    position: Vector
    rotation: tuple[float, float, float, float]
    location: tuple[float, float, float] | None = None

    def north_east_down(self) -> tuple[Vector, Matrix]:
        """Return position (3,), m, and body axes as rows (3, 3), in north-east-down axes."""
        x, y, z, w = self.rotation
        return _SWAP @ self.position, (_SWAP @ _from_quaternion(np.array([w, x, y, z]))).T


class PlacedBody:
    """A body of a run, and the positions of its signals in a sample.

    Raises an error if a signal is unknown or has a wrong unit.
    """

    def __init__(self, body: Body, index: Mapping[str, int], units: Mapping[str, str]) -> None:
        self.body = body
        self._where = _Columns(body, body.where, index, units)
        self._turned = _Columns(body, body.turned, index, units)

    def numbers(self, values: Vector) -> tuple[Vector, Vector]:
        """Return the position and attitude signals of the body, converted to m and rad.

        The conversion is linear, so the method can also convert rates of change.
        """
        return self._where.numbers(values), self._turned.numbers(values)

    def pose(self, values: Vector, world: World) -> Pose | None:
        """Return the position and rotation of the body, or ``None`` if a signal is not finite."""
        where, turned = self.numbers(values)
        if not (np.isfinite(where).all() and np.isfinite(turned).all()):
            return None
        local = _from_euler(*turned) if self.body.euler else _from_quaternion(turned)
        if not self.body.geodetic:
            return Pose(_SWAP @ where, to_quaternion(_SWAP @ local))
        latitude, longitude, altitude = map(float, where)
        axes = _axes(latitude, longitude)
        position = world.place(_earth_fixed(latitude, longitude, altitude), axes)
        return Pose(
            position, to_quaternion(world.turn(axes @ local)), (latitude, longitude, altitude)
        )


def world_over(ground: Ground | None) -> World:
    """Return the world frame with its origin at the ground, or at a body's first position."""
    if ground is None or ground.latitude is None or ground.longitude is None:
        return World()
    return World((math.radians(ground.latitude), math.radians(ground.longitude)))


class _Columns:
    def __init__(
        self, body: Body, field: str, index: Mapping[str, int], units: Mapping[str, str]
    ) -> None:
        terms = list(body.terms(field, units))
        self._constant = np.array([0.0 if name else number for name, number in terms])
        self._live = np.flatnonzero([bool(name) for name, _ in terms])
        self._columns = [index[name] for name, _ in terms if name]
        self._factors = np.array([factor for name, factor in terms if name])

    def numbers(self, values: Vector) -> Vector:
        out = self._constant.copy()
        out[self._live] = values[self._columns] * self._factors
        return out


class World:
    """The world frame, a plane that touches the Earth at the first position of a body.

    With ``origin`` (latitude and longitude, rad), the plane touches the Earth at that point, at
    altitude 0.
    """

    def __init__(self, origin: tuple[float, float] | None = None) -> None:
        self._origin: Vector | None = None
        self._turn: Matrix = np.eye(3)
        if origin is not None:
            self.place(_earth_fixed(*origin, 0.0), _axes(*origin))

    def place(self, fixed: Vector, axes: Matrix) -> Vector:
        """Convert an Earth-fixed position (3,), m, to the world frame.

        The columns of ``axes`` are the directions north, east and down at the position.
        """
        if self._origin is None:
            self._origin, self._turn = fixed, _SWAP @ axes.T
        return self._turn @ (fixed - self._origin)

    def turn(self, rotation: Matrix) -> Matrix:
        """Convert a rotation from Earth-fixed axes to world axes."""
        return self._turn @ rotation


def placed_bodies(bodies: Sequence[Body], signals: Sequence[Mapping[str, Any]]) -> list[PlacedBody]:
    """Return the bodies of a scene; ``signals`` is the run's list of signals."""
    index = {str(row["name"]): k for k, row in enumerate(signals)}
    units = {str(row["name"]): str(row["unit"]) for row in signals}
    return [PlacedBody(body, index, units) for body in bodies]


def _earth_fixed(latitude: float, longitude: float, altitude: float) -> Vector:
    squared = FLATTENING * (2.0 - FLATTENING)
    across = EQUATORIAL_RADIUS / math.sqrt(1.0 - squared * math.sin(latitude) ** 2)
    ring = (across + altitude) * math.cos(latitude)
    return np.array([
        ring * math.cos(longitude),
        ring * math.sin(longitude),
        (across * (1.0 - squared) + altitude) * math.sin(latitude),
    ])  # fmt: skip


def _axes(latitude: float, longitude: float) -> Matrix:
    sp, cp, sl, cl = (
        math.sin(latitude), math.cos(latitude), math.sin(longitude), math.cos(longitude),
    )  # fmt: skip
    return np.array([[-sp * cl, -sl, -cp * cl], [-sp * sl, cl, -cp * sl], [cp, 0.0, -sp]])


def _from_euler(roll: float, pitch: float, yaw: float) -> Matrix:
    sr, cr, sp, cp = math.sin(roll), math.cos(roll), math.sin(pitch), math.cos(pitch)
    sy, cy = math.sin(yaw), math.cos(yaw)
    return np.array([
        [cp * cy, sr * sp * cy - cr * sy, cr * sp * cy + sr * sy],
        [cp * sy, sr * sp * sy + cr * cy, cr * sp * sy - sr * cy],
        [-sp, sr * cp, cr * cp],
    ])  # fmt: skip


def _from_quaternion(q: Vector) -> Matrix:
    w, x, y, z = map(float, q)
    s = 2.0 / max(w * w + x * x + y * y + z * z, 1e-300)
    return np.array([
        [1.0 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)],
        [s * (x * y + w * z), 1.0 - s * (x * x + z * z), s * (y * z - w * x)],
        [s * (x * z - w * y), s * (y * z + w * x), 1.0 - s * (x * x + y * y)],
    ])  # fmt: skip


def to_quaternion(m: Matrix) -> tuple[float, float, float, float]:
    """Return the quaternion (x, y, z, w) of a rotation matrix.

    For accuracy, the largest component is computed first.
    """
    squares = np.array([
        1.0 + m[0, 0] - m[1, 1] - m[2, 2], 1.0 - m[0, 0] + m[1, 1] - m[2, 2],
        1.0 - m[0, 0] - m[1, 1] + m[2, 2], 1.0 + m[0, 0] + m[1, 1] + m[2, 2],
    ])  # fmt: skip
    most = int(np.argmax(squares))
    a, b, c = m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]
    xy, xz, yz = m[0, 1] + m[1, 0], m[0, 2] + m[2, 0], m[1, 2] + m[2, 1]
    rows = ([squares[0], xy, xz, a], [xy, squares[1], yz, b], [xz, yz, squares[2], c],
            [a, b, c, squares[3]])  # fmt: skip
    q = np.array(rows[most], dtype=float)
    q /= np.linalg.norm(q)
    return float(q[0]), float(q[1]), float(q[2]), float(q[3])
