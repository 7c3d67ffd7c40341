"""A rigid body with six degrees of freedom on the rotating Earth: equations for several models.

State (13): ECI position and velocity, the quaternion that turns ECI into body axes (scalar first),
and the body rates relative to inertial space.  The derivative of a model has three steps::

    c11, …, c33, u, v, w, p, q, r, altitude = air_flow(x, parameters)
    compute forces and moments from the flow
    accelerate(x, parameters, c11, …, c33, fx, fy, fz, l, m, n, dx)

Body axes: x forward, y right, z down, origin in the centre of mass.  A body's parameters begin with
``BODY_PARAMETERS``, its outputs with ``BODY_OUTPUTS``.  No function allocates memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.earth import (
    EARTH_PARAMETERS,
    EQUATORIAL_RADIUS,
    from_geodetic,
    from_ned,
    geodetic,
    gravity,
    to_ned,
)
from rtsim.models.atmosphere import SEA_LEVEL_DENSITY, standard_atmosphere
from rtsim.scenario.body import Body

LOWEST_AIRSPEED = 0.1 * 0.3048
"""The lowest airspeed, m/s, with which flow angles and reduced rates are computed, as in NASA's
DAVE-ML models.
"""

BODY_STATES = Signals(
    Signal("position", "m", shape=(3,), initial=(EQUATORIAL_RADIUS + 3000.0, 0.0, 0.0)),
    Signal("velocity", "m/s", shape=(3,), initial=(0.0, 635.0, 0.0), derivative_of="position"),
    Signal("attitude", shape=(4,), kind="quaternion", initial=(0.5, -0.5, -0.5, 0.5)),
    Signal("rates", "rad/s", shape=(3,)),
)
"""The state of a body.

Initially it is 3 km above the Gulf of Guinea and moves east in level flight at about 170 m/s.
"""

BODY_PARAMETERS = (
    Signals(
        Signal("mass", "kg", initial=1.0, low=1e-9),
        Signal("ixx", "kg m2", initial=1.0, low=1e-12),
        Signal("iyy", "kg m2", initial=1.0, low=1e-12),
        Signal("izz", "kg m2", initial=1.0, low=1e-12),
        Signal("ixz", "kg m2", description="positive: integral of x z dm"),
    )
    + EARTH_PARAMETERS
)
_IXX, _IYY, _IZZ, _IXZ = 1, 2, 3, 4
BODY_RADIUS, BODY_FLATTENING = 5, 6
"""Where the parameters of a body have the equatorial radius and the flattening of the Earth."""
_GM, _J2, _RATE, _ANGLE = 7, 8, 9, 10

BODY_OUTPUTS = Signals(
    Signal("altitude", "m", description="above the ellipsoid"),
    Signal("latitude", "rad", kind="angle", description="geodetic"),
    Signal("longitude", "rad", kind="angle"),
    Signal("velocity_north", "m/s"),
    Signal("velocity_east", "m/s"),
    Signal("velocity_down", "m/s"),
    Signal("roll", "rad", kind="angle", description="Euler angles: north-east-down to body"),
    Signal("pitch", "rad", kind="angle"),
    Signal("yaw", "rad", kind="angle"),
    Signal("airspeed", "m/s", description="relative to the air, as alpha to equivalent_airspeed"),
    Signal("alpha", "rad", kind="angle"),
    Signal("beta", "rad", kind="angle"),
    Signal("mach"),
    Signal("dynamic_pressure", "Pa"),
    Signal("equivalent_airspeed", "m/s"),
    Signal("inertial_roll_rate", "rad/s"),
    Signal("inertial_pitch_rate", "rad/s"),
    Signal("inertial_yaw_rate", "rad/s"),
    Signal("roll_rate", "rad/s", description="body rates relative to the Earth-fixed frame"),
    Signal("pitch_rate", "rad/s"),
    Signal("yaw_rate", "rad/s"),
    Signal("density", "kg/m3"),
    Signal("speed_of_sound", "m/s"),
    Signal("temperature", "K"),
    Signal("pressure", "Pa"),
)


def drawn(plant: str, shape: str = "box", length: float = 10.0) -> Body:
    """Return how a viewer draws ``plant``, whose outputs begin with ``BODY_OUTPUTS``.

    ``length`` is in m.
    """
    return Body(
        plant,
        geodetic=(f"{plant}.latitude", f"{plant}.longitude", f"{plant}.altitude"),
        euler=(f"{plant}.roll", f"{plant}.pitch", f"{plant}.yaw"),
        shape=shape,
        length=length,
    )


STILL_AIR = "the air rests relative to the rotating Earth"
BODY_ASSUMPTIONS = (
    "the body is rigid and its mass constant",
    STILL_AIR,
    "the atmosphere is the US Standard Atmosphere 1976",
    "gravity is that of a point mass and J2; no moon, no sun",
    "the Earth turns at a constant rate about a fixed axis",
)
BODY_LIMITS = (
    "altitude -5 to 86 km: above it the atmosphere is extrapolated",
    f"airspeed above {LOWEST_AIRSPEED:.3g} m/s: flow angles and reduced rates are formed with that",
)

NineAngles = tuple[float, float, float, float, float, float, float, float, float]
Flow = tuple[
    float, float, float, float, float, float, float, float, float,
    float, float, float, float, float, float, float,
]  # fmt: skip


@compiled
def direction_cosines(q0: float, q1: float, q2: float, q3: float) -> NineAngles:
    """Return the direction cosines from ECI to body, row by row.

    The quaternion may have any length, because in the stages of a solver its length differs from 1.
    """
    s = 2.0 / (q0 * q0 + q1 * q1 + q2 * q2 + q3 * q3)
    s1, s2, s3 = s * q1, s * q2, s * q3
    xx, yy, zz = s1 * q1, s2 * q2, s3 * q3
    xy, xz, yz = s1 * q2, s1 * q3, s2 * q3
    wx, wy, wz = s1 * q0, s2 * q0, s3 * q0
    return (
        1.0 - yy - zz, xy + wz, xz - wy,
        xy - wz, 1.0 - xx - zz, yz + wx,
        xz + wy, yz - wx, 1.0 - xx - yy,
    )  # fmt: skip


@compiled
def air_flow(x: Vector, p: Vector) -> Flow:
    """Return direction cosines, velocity (m/s), rates (rad/s) and altitude (m).

    Velocity and rates are relative to the Earth, and so to air at rest, in body axes.  ``x`` is the
    state (13,), and ``p`` begins with ``BODY_PARAMETERS``.
    """
    c11, c12, c13, c21, c22, c23, c31, c32, c33 = direction_cosines(x[6], x[7], x[8], x[9])
    rate = p[_RATE]
    vx, vy, vz = x[3] + rate * x[1], x[4] - rate * x[0], x[5]
    _, _, altitude = geodetic(x[0], x[1], x[2], p[BODY_RADIUS], p[BODY_FLATTENING])
    return (
        c11, c12, c13, c21, c22, c23, c31, c32, c33,
        c11 * vx + c12 * vy + c13 * vz,
        c21 * vx + c22 * vy + c23 * vz,
        c31 * vx + c32 * vy + c33 * vz,
        x[10] - rate * c13,
        x[11] - rate * c23,
        x[12] - rate * c33,
        altitude,
    )  # fmt: skip


@compiled
def accelerate(
    x: Vector, p: Vector,
    c11: float, c12: float, c13: float,
    c21: float, c22: float, c23: float,
    c31: float, c32: float, c33: float,
    fx: float, fy: float, fz: float,
    l: float, m: float, n: float,  # noqa: E741
    dx: Vector,
) -> None:  # fmt: skip
    """Fill ``dx`` (13,) from forces (N) and moments (N m) in body axes, and gravity."""
    gx, gy, gz = gravity(x[0], x[1], x[2], p[_GM], p[BODY_RADIUS], p[_J2])
    inverse = 1.0 / p[0]
    ax, ay, az = inverse * fx, inverse * fy, inverse * fz
    dx[0] = x[3]
    dx[1] = x[4]
    dx[2] = x[5]
    dx[3] = gx + c11 * ax + c21 * ay + c31 * az
    dx[4] = gy + c12 * ax + c22 * ay + c32 * az
    dx[5] = gz + c13 * ax + c23 * ay + c33 * az

    q0, q1, q2, q3 = x[6], x[7], x[8], x[9]
    roll, pitch, yaw = x[10], x[11], x[12]
    dx[6] = -0.5 * (q1 * roll + q2 * pitch + q3 * yaw)
    dx[7] = 0.5 * (q0 * roll + q2 * yaw - q3 * pitch)
    dx[8] = 0.5 * (q0 * pitch + q3 * roll - q1 * yaw)
    dx[9] = 0.5 * (q0 * yaw + q1 * pitch - q2 * roll)

    ixx, iyy, izz, ixz = p[_IXX], p[_IYY], p[_IZZ], p[_IXZ]
    hx, hy, hz = ixx * roll - ixz * yaw, iyy * pitch, izz * yaw - ixz * roll
    l -= pitch * hz - yaw * hy  # noqa: E741
    m -= yaw * hx - roll * hz
    n -= roll * hy - pitch * hx
    inverse = 1.0 / (ixx * izz - ixz * ixz)
    dx[10] = inverse * (izz * l + ixz * n)
    dx[11] = m / iyy
    dx[12] = inverse * (ixz * l + ixx * n)


@compiled
def air_data(u: float, v: float, w: float, density: float, sound: float, y: Vector) -> None:
    """Fill the outputs airspeed to equivalent airspeed of ``BODY_OUTPUTS``.

    ``u``, ``v`` and ``w`` are the velocity relative to the air in body axes, m/s; ``density`` in
    kg/m3, ``sound`` is the speed of sound, m/s.
    """
    airspeed = math.sqrt(u * u + v * v + w * w)
    y[9] = airspeed
    y[10] = math.atan2(w, u)
    y[11] = math.asin(max(-1.0, min(1.0, v / max(airspeed, LOWEST_AIRSPEED))))
    y[12] = airspeed / sound
    y[13] = 0.5 * density * airspeed * airspeed
    y[14] = airspeed * math.sqrt(density / SEA_LEVEL_DENSITY)


@compiled
def describe(t: float, x: Vector, p: Vector, y: Vector) -> None:
    """Fill the first elements of ``y`` with ``BODY_OUTPUTS``, in air at rest."""
    c11, c12, c13, c21, c22, c23, c31, c32, c33, u, v, w, pr, qr, rr, _ = air_flow(x, p)
    sin_lat, cos_lat, altitude = geodetic(x[0], x[1], x[2], p[BODY_RADIUS], p[BODY_FLATTENING])
    celestial = math.atan2(x[1], x[0])
    sin_lon, cos_lon = math.sin(celestial), math.cos(celestial)
    angle = celestial - p[_ANGLE] - p[_RATE] * t
    y[0] = altitude
    y[1] = math.atan2(sin_lat, cos_lat)
    y[2] = angle - 2.0 * math.pi * math.floor(angle / (2.0 * math.pi) + 0.5)
    rate = p[_RATE]
    y[3], y[4], y[5] = to_ned(
        x[3] + rate * x[1], x[4] - rate * x[0], x[5], sin_lat, cos_lat, sin_lon, cos_lon
    )
    b11, b12, b13 = to_ned(c11, c12, c13, sin_lat, cos_lat, sin_lon, cos_lon)
    _, _, b23 = to_ned(c21, c22, c23, sin_lat, cos_lat, sin_lon, cos_lon)
    _, _, b33 = to_ned(c31, c32, c33, sin_lat, cos_lat, sin_lon, cos_lon)
    y[6] = math.atan2(b23, b33)
    y[7] = math.atan2(-b13, math.sqrt(b11 * b11 + b12 * b12))
    y[8] = math.atan2(b12, b11)
    density, sound, temperature, pressure = standard_atmosphere(altitude)
    air_data(u, v, w, density, sound, y)
    y[15] = x[10]
    y[16] = x[11]
    y[17] = x[12]
    y[18] = pr
    y[19] = qr
    y[20] = rr
    y[21] = density
    y[22] = sound
    y[23] = temperature
    y[24] = pressure


def normalise_attitude(x: Vector) -> None:
    """Scale the quaternion of an accepted state (13, …) to unit length, in place."""
    scale = 1.0 / math.sqrt(x[6] * x[6] + x[7] * x[7] + x[8] * x[8] + x[9] * x[9])
    x[6] *= scale
    x[7] *= scale
    x[8] *= scale
    x[9] *= scale


# Initial states of a body from geodetic position, velocity and Euler angles.

Triple = Sequence[float]
_from_ned = getattr(from_ned, "py_func", from_ned)
"""The uncompiled Python function: compiling it in each process would take longer."""


def euler_matrix(roll: float, pitch: float, yaw: float) -> NDArray[np.float64]:
    """Return the direction cosines (3, 3) from north-east-down to body; angles in rad."""
    sr, cr = math.sin(roll), math.cos(roll)
    sp, cp = math.sin(pitch), math.cos(pitch)
    sy, cy = math.sin(yaw), math.cos(yaw)
    return np.array(
        [
            [cp * cy, cp * sy, -sp],
            [sr * sp * cy - cr * sy, sr * sp * sy + cr * cy, sr * cp],
            [cr * sp * cy + sr * sy, cr * sp * sy - sr * cy, cr * cp],
        ]
    )


def quaternion_of(c: NDArray[np.float64]) -> Vector:
    """Return the unit quaternion (4,), scalar first and not negative, of direction cosines (3, 3).

    The function takes the square root of the largest of the four squares (Shepperd 1978), so it is
    well-conditioned for all rotations.
    """
    squares = np.array(
        [
            1 + c[0, 0] + c[1, 1] + c[2, 2],
            1 + c[0, 0] - c[1, 1] - c[2, 2],
            1 - c[0, 0] + c[1, 1] - c[2, 2],
            1 - c[0, 0] - c[1, 1] + c[2, 2],
        ]
    )
    products = {
        (0, 1): c[1, 2] - c[2, 1],
        (0, 2): c[2, 0] - c[0, 2],
        (0, 3): c[0, 1] - c[1, 0],
        (1, 2): c[0, 1] + c[1, 0],
        (1, 3): c[2, 0] + c[0, 2],
        (2, 3): c[1, 2] + c[2, 1],
    }
    largest = int(np.argmax(squares))
    double = math.sqrt(squares[largest])  # 2 q[largest]
    q = np.empty(4)
    for i in range(4):
        pair = (min(i, largest), max(i, largest))
        q[i] = double / 2 if i == largest else products[pair] / (2 * double)
    q /= np.linalg.norm(q)
    return -q if q[0] < 0 else q


def transport_rate(
    latitude: float, altitude: float, velocity_ned: Triple, radius: float, flattening: float
) -> tuple[float, float, float]:
    """Return the rate (rad/s) of the north-east-down frame relative to the Earth, in NED axes.

    ``latitude`` in rad, ``altitude`` and ``radius`` in m, ``velocity_ned`` in m/s.
    """
    e2 = flattening * (2.0 - flattening)
    root = math.sqrt(1.0 - e2 * math.sin(latitude) ** 2)
    meridian = radius * (1.0 - e2) / root**3 + altitude
    normal = radius / root + altitude
    north, east = velocity_ned[0], velocity_ned[1]
    return east / normal, -north / meridian, -east * math.tan(latitude) / normal


def initial_state(
    *,
    latitude: float,
    longitude: float,
    altitude: float,
    velocity_ned: tuple[float, float, float] = (0.0, 0.0, 0.0),
    euler: Triple = (0.0, 0.0, 0.0),
    rates: Triple | None = None,
    parameters: Mapping[str, float] | None = None,
) -> Vector:
    """Return the state (13,) of a body at t = 0.

    Angles are in rad, ``altitude`` in m, ``velocity_ned`` in m/s relative to the Earth; ``euler``
    is roll, pitch, yaw.  ``rates`` (rad/s) are relative to inertial space, in body axes; with None
    the Euler angles are constant.  ``parameters`` describe the Earth (default: WGS-84).
    """
    defaults = dict(zip(BODY_PARAMETERS.names, BODY_PARAMETERS.initial(), strict=True))
    given = {**defaults, **(parameters or {})}
    radius, flattening = given["equatorial_radius"], given["flattening"]
    celestial = longitude + given["earth_angle"]
    rate = given["earth_rate"]
    position = np.array(from_geodetic(latitude, celestial, altitude, radius, flattening))
    local = (
        math.sin(latitude),
        math.cos(latitude),
        math.sin(celestial),
        math.cos(celestial),
    )
    velocity: Vector = np.array(_from_ned(*velocity_ned, *local))
    velocity += rate * np.array([-position[1], position[0], 0.0])
    body_from_ned = euler_matrix(*euler)
    eci_from_ned: NDArray[np.float64] = np.array(
        [
            _from_ned(1.0, 0.0, 0.0, *local),
            _from_ned(0.0, 1.0, 0.0, *local),
            _from_ned(0.0, 0.0, 1.0, *local),
        ]
    ).T
    if rates is None:
        transport = transport_rate(latitude, altitude, velocity_ned, radius, flattening)
        frame = np.array(transport) + rate * np.array(
            [math.cos(latitude), 0.0, -math.sin(latitude)]
        )
        rates = body_from_ned @ frame
    attitude = quaternion_of(body_from_ned @ eci_from_ned.T)
    return np.concatenate((position, velocity, attitude, np.asarray(rates, dtype=float)))
