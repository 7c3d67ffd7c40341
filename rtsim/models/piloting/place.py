"""Positions of an aircraft relative to a reference point on a flat Earth."""

from __future__ import annotations

import math

import rtsim as rt
from rtsim.equations.compiling import compiled

_RADIUS, _FLATTENING = 6378137.0, 1.0 / 298.257223563
_E2 = _FLATTENING * (2.0 - _FLATTENING)
"""Square of the eccentricity of the WGS 84 ellipsoid."""


class Placed(rt.Plant):
    """Base class of tasks that read the position of an aircraft.

    Altitude is above the ellipsoid.
    """

    latitude = rt.input("rad")
    longitude = rt.input("rad")
    altitude = rt.input("m")
    latitude0 = rt.parameter("rad")
    longitude0 = rt.parameter("rad")
    course = rt.parameter("rad")

    def place(self) -> tuple[float, float, float]:
        """Return the aircraft's position (m) relative to the reference point: north, east, down."""
        return place(self.latitude, self.longitude, self.altitude, self.latitude0, self.longitude0)


PLACE_NEEDS = Placed.signals("input").names


@compiled
def place(
    latitude: float, longitude: float, altitude: float, latitude0: float, longitude0: float
) -> tuple[float, float, float]:
    """Return a position relative to a reference point: north, east and down, m.

    Angles are in rad, ``altitude`` is in m.
    """
    sine = math.sin(latitude0)
    root = math.sqrt(1.0 - _E2 * sine * sine)
    normal = _RADIUS / root
    meridian = normal * (1.0 - _E2) / (root * root)
    east = longitude - longitude0
    while east > math.pi:
        east -= 2.0 * math.pi
    while east < -math.pi:
        east += 2.0 * math.pi
    return (latitude - latitude0) * meridian, east * normal * math.cos(latitude0), -altitude


@compiled
def along_across(north: float, east: float, course: float) -> tuple[float, float]:
    """Return the distances (m) along the course ``course`` (rad) and to the right of the course."""
    c, s = math.cos(course), math.sin(course)
    return c * north + s * east, c * east - s * north
