"""Initial states of a body from geodetic position, velocity and Euler angles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.equations.earth import from_geodetic, from_ned
from rtsim.models.body import BODY_PARAMETERS

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
