"""Places on a flat world around a reference point, as the tasks of flight need them."""

from __future__ import annotations

import math

from rtsim.core.signals import Signal
from rtsim.equations.compiling import compiled

_RADIUS, _FLATTENING = 6378137.0, 1.0 / 298.257223563
_E2 = _FLATTENING * (2.0 - _FLATTENING)
"""WGS 84."""

PLACE_INPUTS = (
    Signal("latitude", "rad"),
    Signal("longitude", "rad"),
    Signal("altitude", "m"),
)
"""The signals of an aircraft from which its place follows; altitude is above the ellipsoid."""
PLACE_NEEDS = tuple(s.name for s in PLACE_INPUTS)


@compiled
def place(
    latitude: float, longitude: float, altitude: float, latitude0: float, longitude0: float
) -> tuple[float, float, float]:
    """Return north, east and down (m) of a reference point; angles in rad, altitude in m."""
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
    """Return the distances along ``course`` (rad) and to the right of it, m."""
    c, s = math.cos(course), math.sin(course)
    return c * north + s * east, c * east - s * north
