"""Model of the Earth as a rotating ellipsoid with J2 gravity.

With other parameters, the Earth is a sphere or does not rotate. The frames are:

- ECI is an inertial frame with the z axis through the north pole.
- ECEF is the ECI frame, rotated about z by the angle ``earth_angle + earth_rate * t``.
- NED is the frame with axes north, east and down at a point.

Gravity and altitude do not depend on longitude. Equations of motion in ECI therefore need no
trigonometric functions.

The constants are those of WGS-84 (NIMA TR8350.2, 3rd edition) as used by NASA/TM-2015-218675. The
value of J2 is from the file ``initial_conditions_atmospheric.csv`` of NASA/TM-2015-218675.
"""

from __future__ import annotations

import math

from rtsim.core.signals import Signal, Signals
from rtsim.equations.compiling import compiled

EQUATORIAL_RADIUS = 6378137.0
FLATTENING = 1.0 / 298.257223563
GRAVITATIONAL_PARAMETER = 3.986004418e14
EARTH_RATE = 7.292115e-5
J2 = 0.00108262982

EARTH_PARAMETERS = Signals(
    Signal("equatorial_radius", "m", initial=EQUATORIAL_RADIUS, low=1.0),
    Signal("flattening", initial=FLATTENING, low=0.0, high=0.5),
    Signal("gravitational_parameter", "m3/s2", initial=GRAVITATIONAL_PARAMETER, low=0.0),
    Signal("j2", initial=J2, description="0: inverse-square gravity"),
    Signal("earth_rate", "rad/s", initial=EARTH_RATE, description="0: an Earth at rest"),
    Signal("earth_angle", "rad", kind="angle", description="ECI to ECEF about z, at t = 0"),
)


@compiled
def gravity(
    x: float, y: float, z: float, gm: float, radius: float, j2: float
) -> tuple[float, float, float]:
    """Return the gravitational acceleration (m/s2) at a position (m).

    Position and acceleration are given in the same frame, ECI or ECEF. ``gm`` is the gravitational
    parameter (m3/s2), and ``radius`` is the equatorial radius (m).
    """
    inverse = 1.0 / (x * x + y * y + z * z)
    central = -gm * inverse * math.sqrt(inverse)
    oblate = 1.5 * j2 * radius * radius * inverse
    latitude_term = 5.0 * z * z * inverse
    across = central * (1.0 + oblate * (1.0 - latitude_term))
    along = central * (1.0 + oblate * (3.0 - latitude_term))
    return across * x, across * y, along * z


@compiled
def geodetic(
    x: float, y: float, z: float, radius: float, flattening: float
) -> tuple[float, float, float]:
    """Return the sine and cosine of the geodetic latitude, and the altitude (m), at a position (m).

    The function uses Bowring's formula ("The accuracy of geodetic latitude and height equations",
    Survey Review 28, 1985). Within 1000 km of the surface, the error of the latitude is below 1e-9
    rad.
    """
    ratio = 1.0 - flattening
    polar = radius * ratio
    e2 = flattening * (2.0 - flattening)
    second_e2 = e2 / (ratio * ratio)
    p2 = x * x + y * y
    p = math.sqrt(p2)
    r = math.sqrt(p2 + z * z)
    up = z * ratio * (r + second_e2 * polar)  # tan of the parametric latitude = up / across
    across = p * r
    scale = 1.0 / math.sqrt(up * up + across * across)
    sin_u, cos_u = up * scale, across * scale
    up = z + second_e2 * polar * sin_u * sin_u * sin_u
    across = p - e2 * radius * cos_u * cos_u * cos_u
    scale = 1.0 / math.sqrt(up * up + across * across)
    sine, cosine = up * scale, across * scale
    return sine, cosine, p * cosine + z * sine - radius * math.sqrt(1.0 - e2 * sine * sine)


def from_geodetic(
    latitude: float, longitude: float, altitude: float, radius: float, flattening: float
) -> tuple[float, float, float]:
    """Return the ECEF position (m) of a geodetic point.

    With the inertial longitude as argument, the result is the ECI position.
    """
    e2 = flattening * (2.0 - flattening)
    sine, cosine = math.sin(latitude), math.cos(latitude)
    normal = radius / math.sqrt(1.0 - e2 * sine * sine)
    across = (normal + altitude) * cosine
    up = (normal * (1.0 - e2) + altitude) * sine
    return across * math.cos(longitude), across * math.sin(longitude), up


def eci_to_ecef(x: float, y: float, angle: float) -> tuple[float, float]:
    """Return the x and y components in ECEF of a vector that is given in ECI.

    The z component is the same in both frames. ``angle`` (rad) is the rotation angle of the Earth;
    with a negative angle, the function converts from ECEF to ECI.
    """
    c, s = math.cos(angle), math.sin(angle)
    return c * x + s * y, c * y - s * x


@compiled
def to_ned(
    x: float, y: float, z: float, sin_lat: float, cos_lat: float, sin_lon: float, cos_lon: float
) -> tuple[float, float, float]:
    """Return the north, east and down components of a vector that is given in ECEF.

    With the sine and cosine of the inertial longitude, the vector is given in ECI.
    """
    outward = cos_lon * x + sin_lon * y
    return (
        cos_lat * z - sin_lat * outward,
        cos_lon * y - sin_lon * x,
        -cos_lat * outward - sin_lat * z,
    )


@compiled
def from_ned(
    n: float, e: float, d: float, sin_lat: float, cos_lat: float, sin_lon: float, cos_lon: float
) -> tuple[float, float, float]:
    """Return the ECEF or ECI components of a vector that is given in NED."""
    outward = -sin_lat * n - cos_lat * d
    return (
        cos_lon * outward - sin_lon * e,
        sin_lon * outward + cos_lon * e,
        cos_lat * n - sin_lat * d,
    )
