"""Computes the pose of an aircraft in a flat world from the state of a body on the rotating Earth.

The input is the interpolated position, velocity and attitude in Earth-centred inertial axes. The
module does not use Euler angles, because they jump at the zenith. The flat world has the axes north
and east of a reference point on the ellipsoid, and is valid within about 100 km of that point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rtsim.core.signals import Vector
from rtsim.pilot.scenes.camera import Points
from rtsim.pilot.scenes.scene import Shown

EQUATORIAL_RADIUS = 6378137.0
FLATTENING = 1.0 / 298.257223563
EARTH_RATE = 7.292115e-5
GRAVITATION = 3.986004418e14
"""Constants of WGS 84, copied from :mod:`rtsim.equations.earth`, which loads the compiler."""
G = 9.80665
KT, FT = 1852.0 / 3600.0, 0.3048
_FARTHEST = 1e8
"""Limit of positions (m), velocities (m/s) and load factors (g) that can be drawn."""


@dataclass(frozen=True)
class FlightScene:
    """The pose of an aircraft; ``place`` (3,) is its place relative to the reference point, m.

    The components of ``place`` are north, east and down. The rows of ``axes`` are the body axes in
    world axes.
    """

    place: Vector
    axes: Points
    velocity: Vector
    """Velocity relative to the ground (3,): north, east, down, m/s."""
    load: float
    """Load factor along -z of the body, g."""

    @property
    def drawable(self) -> bool:
        """True if all numbers are finite and small enough for the pixel coordinates of SDL."""
        given = np.concatenate((self.place, self.velocity, self.axes.ravel(), [self.load]))
        return bool((np.abs(given) < _FARTHEST).all())  # false also for NaN

    @property
    def heading(self) -> float:
        """The heading of the aircraft, rad, 0 to 2 pi."""
        return math.atan2(self.axes[0, 1], self.axes[0, 0]) % math.tau

    @property
    def pitch(self) -> float:
        return math.asin(max(-1.0, min(1.0, -self.axes[0, 2])))

    @property
    def roll(self) -> float:
        return math.atan2(self.axes[1, 2], self.axes[2, 2])

    @property
    def height(self) -> float:
        """The height of the aircraft above the ellipsoid, m."""
        return -float(self.place[2])


class Ground:
    """A flat approximation of the Earth around a latitude and longitude (deg)."""

    def __init__(self, latitude: float, longitude: float) -> None:
        self.latitude, self.longitude = math.radians(latitude), math.radians(longitude)
        sine = math.sin(self.latitude)
        e2 = FLATTENING * (2.0 - FLATTENING)
        root = math.sqrt(1.0 - e2 * sine * sine)
        self._normal = EQUATORIAL_RADIUS / root
        self._meridian = self._normal * (1.0 - e2) / (root * root)

    def place(self, latitude: float, longitude: float, height: float) -> Vector:
        """Return the position (north, east, down), m, for angles in rad and height in m."""
        east = math.remainder(longitude - self.longitude, math.tau)
        return np.array(
            [
                (latitude - self.latitude) * self._meridian,
                east * self._normal * math.cos(self.latitude),
                -height,
            ]
        )

    def flight(self, body: Shown) -> FlightScene:
        """Return the pose for a ``body`` that has the states of :mod:`rtsim.models.body`."""
        x = body.vector("position")
        velocity = body.vector("velocity")
        latitude, height = geodetic(x)
        celestial = math.atan2(x[1], x[0])
        longitude = celestial - EARTH_RATE * body.ns * 1e-9
        world = ned_axes(latitude, celestial)
        turning = turned(body.vector("attitude"))
        relative = velocity - EARTH_RATE * np.array([-x[1], x[0], 0.0])
        felt = body.rate("velocity") + GRAVITATION * x / (x @ x) ** 1.5
        return FlightScene(
            self.place(latitude, longitude, height),
            turning @ world.T,
            world @ relative,
            -float((turning @ felt)[2]) / G,
        )


def geodetic(x: Vector) -> tuple[float, float]:
    """Return latitude (rad) and height (m) of an Earth-centred position (3,), m.

    Source: Bowring's formula, one iteration.
    """
    across = math.hypot(x[0], x[1])
    polar = EQUATORIAL_RADIUS * (1.0 - FLATTENING)
    e2 = FLATTENING * (2.0 - FLATTENING)
    u = math.atan2(x[2] * EQUATORIAL_RADIUS, across * polar)
    second = e2 / (1.0 - e2)
    latitude = math.atan2(
        x[2] + second * polar * math.sin(u) ** 3,
        across - e2 * EQUATORIAL_RADIUS * math.cos(u) ** 3,
    )
    sine = math.sin(latitude)
    height = across * math.cos(latitude) + x[2] * sine
    return latitude, height - EQUATORIAL_RADIUS * math.sqrt(1.0 - e2 * sine * sine)


def ned_axes(latitude: float, longitude: float) -> Points:
    """Return a matrix (3, 3) with the rows north, east and down, in Earth-centred axes."""
    sb, cb = math.sin(latitude), math.cos(latitude)
    sl, cl = math.sin(longitude), math.cos(longitude)
    return np.array([[-sb * cl, -sb * sl, cb], [-sl, cl, 0.0], [-cb * cl, -cb * sl, -sb]])


def turned(q: Vector) -> Points:
    """Return body axes as rows, for the quaternion ``q`` (scalar first) from outer to body axes."""
    w, x, y, z = q / math.sqrt(float(q @ q))
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)],
            [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)],
            [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
