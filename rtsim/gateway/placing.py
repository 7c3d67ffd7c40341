"""Computes the poses of the bodies of a scene from one sample of the signals.

World axes are x east, y north, z up, in metres.  The origin is the first position of the first
geodetic body, or the origin of the frame ``north_east_down``.  Body axes are forward, right, down.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.equations.earth import EQUATORIAL_RADIUS, FLATTENING
from rtsim.scenario.body import Body
from rtsim.scenario.ground import Ground

Matrix = NDArray[np.float64]

_SWAP = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
"""Matrix that converts north-east-down axes to east-north-up axes, and back."""


@dataclass(frozen=True)
class Pose:
    """The pose of a body: position and rotation in the world.

    ``position`` (3,) is in world axes, m. ``rotation`` (x, y, z, w) is the quaternion from body to
    world axes. ``location`` is latitude (rad), longitude (rad) and altitude (m), or ``None`` if
    unknown.
    """

    position: Vector
    rotation: tuple[float, float, float, float]
    location: tuple[float, float, float] | None = None

    def north_east_down(self) -> tuple[Vector, Matrix]:
        """Return the position (3,), m, and the body axes as rows (3, 3), in north-east-down."""
        x, y, z, w = self.rotation
        return _SWAP @ self.position, (_SWAP @ _from_quaternion(np.array([w, x, y, z]))).T


class PlacedBody:
    """One body of a run; raises an error for signals that are unknown or in a wrong unit."""

    def __init__(self, body: Body, index: Mapping[str, int], units: Mapping[str, str]) -> None:
        self.body = body
        self._where = _Columns(body, body.where, index, units)
        self._turned = _Columns(body, body.turned, index, units)

    def numbers(self, values: Vector) -> tuple[Vector, Vector]:
        """Return the numbers of position and attitude, in m and rad, as the body declares them.

        The numbers depend linearly on ``values``, so that rates of change can be converted too.
        """
        return self._where.numbers(values), self._turned.numbers(values)

    def pose(self, values: Vector, world: World) -> Pose | None:
        """Return the pose for the sample ``values``, or ``None`` if a signal is not finite."""
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
    """Return the world of a declared ground, or else that of the first position of a body."""
    if ground is None or ground.latitude is None or ground.longitude is None:
        return World()
    return World((math.radians(ground.latitude), math.radians(ground.longitude)))


class _Columns:
    """The elements of a position or an attitude: columns of a sample with factors, and numbers."""

    def __init__(
        self, body: Body, field: str, index: Mapping[str, int], units: Mapping[str, str]
    ) -> None:
        terms = list(body.terms(field, units))
        self._constant = np.array([0.0 if name else number for name, number in terms])
        self._live = np.flatnonzero([bool(name) for name, _ in terms])
        self._columns = [index[name] for name, _ in terms if name]
        self._factors = np.array([factor for name, factor in terms if name])

    def numbers(self, values: Vector) -> Vector:
        """Return the elements in m, rad or 1, for the sample ``values``."""
        out = self._constant.copy()
        out[self._live] = values[self._columns] * self._factors
        return out


class World:
    """The world frame: its plane touches the Earth at the first position of a body.

    If ``origin`` is given, it touches the Earth there: latitude and longitude, rad, at altitude 0.
    """

    def __init__(self, origin: tuple[float, float] | None = None) -> None:
        self._origin: Vector | None = None
        self._turn: Matrix = np.eye(3)
        if origin is not None:
            self.place(_earth_fixed(*origin, 0.0), _axes(*origin))

    def place(self, fixed: Vector, axes: Matrix) -> Vector:
        """Convert an Earth-fixed position (3,), m, to the world frame.

        ``axes`` has the directions north, east and down at that position as columns.
        """
        if self._origin is None:
            self._origin, self._turn = fixed, _SWAP @ axes.T
        return self._turn @ (fixed - self._origin)

    def turn(self, rotation: Matrix) -> Matrix:
        """Return ``rotation`` (body to Earth-fixed axes) as a matrix from body to world axes."""
        return self._turn @ rotation


def placed_bodies(bodies: Sequence[Body], signals: Sequence[Mapping[str, Any]]) -> list[PlacedBody]:
    """Return the bodies of a scene; ``signals`` is the list of signals of the catalogue."""
    index = {str(row["name"]): k for k, row in enumerate(signals)}
    units = {str(row["name"]): str(row["unit"]) for row in signals}
    return [PlacedBody(body, index, units) for body in bodies]


def _earth_fixed(latitude: float, longitude: float, altitude: float) -> Vector:
    """Return the Earth-fixed position (3,), m, of a geodetic position, on the WGS-84 ellipsoid."""
    squared = FLATTENING * (2.0 - FLATTENING)
    across = EQUATORIAL_RADIUS / math.sqrt(1.0 - squared * math.sin(latitude) ** 2)
    ring = (across + altitude) * math.cos(latitude)
    return np.array([
        ring * math.cos(longitude),
        ring * math.sin(longitude),
        (across * (1.0 - squared) + altitude) * math.sin(latitude),
    ])  # fmt: skip


def _axes(latitude: float, longitude: float) -> Matrix:
    """Return a matrix (3, 3) with the columns north, east and down, in Earth-fixed axes."""
    sp, cp, sl, cl = (
        math.sin(latitude), math.cos(latitude), math.sin(longitude), math.cos(longitude),
    )  # fmt: skip
    return np.array([[-sp * cl, -sl, -cp * cl], [-sp * sl, cl, -cp * sl], [cp, 0.0, -sp]])


def _from_euler(roll: float, pitch: float, yaw: float) -> Matrix:
    """Return the rotation matrix from body axes to north-east-down."""
    sr, cr, sp, cp = math.sin(roll), math.cos(roll), math.sin(pitch), math.cos(pitch)
    sy, cy = math.sin(yaw), math.cos(yaw)
    return np.array([
        [cp * cy, sr * sp * cy - cr * sy, cr * sp * cy + sr * sy],
        [cp * sy, sr * sp * sy + cr * cy, cr * sp * sy - sr * cy],
        [-sp, sr * cp, cr * cp],
    ])  # fmt: skip


def _from_quaternion(q: Vector) -> Matrix:
    """Return the rotation matrix from body axes to north-east-down.

    ``q`` (w, x, y, z) is the quaternion from north-east-down to body axes, of any length.
    """
    w, x, y, z = map(float, q)
    s = 2.0 / max(w * w + x * x + y * y + z * z, 1e-300)
    return np.array([
        [1.0 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y)],
        [s * (x * y + w * z), 1.0 - s * (x * x + z * z), s * (y * z - w * x)],
        [s * (x * z - w * y), s * (y * z + w * x), 1.0 - s * (x * x + y * y)],
    ])  # fmt: skip


def to_quaternion(m: Matrix) -> tuple[float, float, float, float]:
    """Return the quaternion (x, y, z, w) of a rotation matrix.

    The largest component is computed first, so that no component loses precision.
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
