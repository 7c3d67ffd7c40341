"""Lateral guidance: compute the deviation from a track, and the course of the track.

``circle`` is NASA's (``F16_gnc.dml``, NASA/TM-2015-218675): a circle of 3 nautical miles about the
north pole, or about the intersection of the equator and the date line.  ``course`` holds a course
or a straight track; NASA does not define this computation.  Both functions have no memory and write
``COURSE``, which the controller reads.
"""

from __future__ import annotations

import math

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.earth import EQUATORIAL_RADIUS, FLATTENING
from rtsim.models.f16.controller import COURSE
from rtsim.models.units import DEG, FT

_FT_PER_NM = 6076.12
_FT_PER_DEG = 60.0 * _FT_PER_NM
_RADIUS_FT = 3.0 * _FT_PER_NM
_PI = 3.14159265
_POLAR_COURSE = 90.0

GUIDANCE_INPUTS = Signals(
    Signal("latitude_deg", "deg", kind="angle"),
    Signal("longitude_deg", "deg", kind="angle"),
)
GUIDANCE_OUTPUTS = COURSE
CIRCLE_PARAMETERS = Signals(
    Signal("circle_pole", low=0.0, high=1.0, initial=1.0, description="0: equator and date line")
)


def circle(inputs: Vector, parameters: Vector, outputs: Vector) -> None:
    """Compute the deviation (ft) from a circle of 3 nmi and the course (deg) along it.

    The centre is to the left of the aircraft.  ``inputs`` (2,) is ``GUIDANCE_INPUTS``,
    ``parameters`` (1,) is ``CIRCLE_PARAMETERS``, ``outputs`` (2,) is ``COURSE``.  Around the pole
    the course is 90 deg (due east) everywhere.
    """
    latitude, longitude = inputs[0], inputs[1]
    if parameters[0] > 0.5:
        outputs[0] = _FT_PER_DEG * (90.0 - latitude) - _RADIUS_FT
        outputs[1] = _POLAR_COURSE
    else:
        from_line = longitude - 180.0 if longitude > 0.0 else longitude + 180.0
        north = latitude * _FT_PER_DEG
        east = from_line * _FT_PER_DEG * math.cos(latitude * (_PI / 180.0))
        outputs[0] = math.sqrt(east * east + north * north) - _RADIUS_FT
        outputs[1] = -180.0 / _PI * math.atan2(north, east)


COURSE_INPUTS = GUIDANCE_INPUTS + Signals(
    Signal("course_command", "deg", kind="angle"),
    Signal("offset_command", "ft", description="of the new track, right of the old one"),
)
COURSE_PARAMETERS = Signals(
    Signal("from_latitude", "deg", kind="angle", description="a point of the track"),
    Signal("from_longitude", "deg", kind="angle"),
    Signal("hold_track", low=0.0, high=1.0, description="0: hold the course only"),
)
_E2 = FLATTENING * (2.0 - FLATTENING)


def course(inputs: Vector, parameters: Vector, outputs: Vector) -> None:
    """Compute the deviation (ft) from a line of constant course, and the course (deg).

    The deviation is 0 if the guidance holds only the course.  ``inputs`` (4,) is ``COURSE_INPUTS``,
    ``parameters`` (3,) is ``COURSE_PARAMETERS``, ``outputs`` (2,) is ``COURSE``.  Distances use the
    WGS-84 ellipsoid at the middle latitude, which is accurate for tracks of tens of kilometres away
    from the poles.
    """
    outputs[0] = 0.0
    outputs[1] = inputs[2]
    if parameters[2] <= 0.5:
        return
    track = inputs[2]
    middle = 0.5 * (inputs[0] + parameters[0]) * DEG
    sine = math.sin(middle)
    root = math.sqrt(1.0 - _E2 * sine * sine)
    normal = EQUATORIAL_RADIUS / root
    meridian = normal * (1.0 - _E2) / (root * root)
    turn = inputs[1] - parameters[1]
    turn -= 360.0 * math.floor(turn / 360.0 + 0.5)
    north = (inputs[0] - parameters[0]) * DEG * meridian
    east = turn * DEG * normal * math.cos(middle)
    right = east * math.cos(track * DEG) - north * math.sin(track * DEG)
    outputs[0] = right / FT - inputs[3]
