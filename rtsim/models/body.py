"""Base class for rigid bodies with six degrees of freedom on the rotating Earth.

The 13 states are position and velocity in ECI, the quaternion from ECI to body axes (scalar first),
and the body rates relative to inertial space. A derived class computes its derivative in three
steps::

    c11, …, c33, u, v, w, p, q, r, altitude = self.air_flow()
    compute forces and moments from the flow
    self.accelerate(d, c11, …, c33, fx, fy, fz, l, m, n)

The origin of the body axes is the centre of mass; x points forward, y right and z down. The methods
allocate no memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

import rtsim as rt
from rtsim.core.signals import Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.earth import (
    EARTH_RATE,
    EQUATORIAL_RADIUS,
    FLATTENING,
    GRAVITATIONAL_PARAMETER,
    J2,
    from_geodetic,
    from_ned,
    geodetic,
    gravity,
    to_ned,
)
from rtsim.models.atmosphere import SEA_LEVEL_DENSITY, standard_atmosphere
from rtsim.scenario.body import Body

LOWEST_AIRSPEED = 0.1 * 0.3048
"""Lower limit of the airspeed, m/s, used as a divisor for flow angles and reduced rates.

NASA's DAVE-ML models use the same limit.
"""


def drawn(plant: str, shape: str = "box", length: float = 10.0) -> Body:
    """Return the shape with which viewers draw the rigid body ``plant``.

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


AirMotion = tuple[float, float, float, float, float, float]


@compiled
def direction_cosines(q0: float, q1: float, q2: float, q3: float) -> NineAngles:
    """Return the direction cosines from ECI to body axes, row by row.

    The quaternion may have any length, because solvers do not normalise it at intermediate stages.
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


class RigidBody(rt.Plant):
    """Rigid body on the rotating Earth; derived classes add aerodynamic loads.

    Initially, the body flies level to the east at about 170 m/s, 3 km above the Gulf of Guinea.
    """

    position = rt.state("m", (EQUATORIAL_RADIUS + 3000.0, 0.0, 0.0))
    velocity = rt.state("m/s", (0.0, 635.0, 0.0), derivative_of="position")
    attitude = rt.state("1", (0.5, -0.5, -0.5, 0.5), kind="quaternion")
    rates = rt.state("rad/s", shape=(3,))
    mass = rt.parameter("kg", 1.0, low=1e-9)
    ixx = rt.parameter("kg m2", 1.0, low=1e-12)
    iyy = rt.parameter("kg m2", 1.0, low=1e-12)
    izz = rt.parameter("kg m2", 1.0, low=1e-12)
    ixz = rt.parameter("kg m2", description="positive: integral of x z dm")
    equatorial_radius = rt.parameter("m", EQUATORIAL_RADIUS, low=1.0)
    flattening = rt.parameter("1", FLATTENING, low=0.0, high=0.5)
    gravitational_parameter = rt.parameter("m3/s2", GRAVITATIONAL_PARAMETER, low=0.0)
    j2 = rt.parameter("1", J2, description="0: inverse-square gravity")
    earth_rate = rt.parameter("rad/s", EARTH_RATE, description="0: an Earth at rest")
    earth_angle = rt.parameter("rad", kind="angle", description="ECI to ECEF about z, at t = 0")
    altitude = rt.output("m", description="above the ellipsoid")
    latitude = rt.output("rad", kind="angle", description="geodetic")
    longitude = rt.output("rad", kind="angle")
    velocity_north = rt.output("m/s")
    velocity_east = rt.output("m/s")
    velocity_down = rt.output("m/s")
    roll = rt.output("rad", kind="angle", description="Euler angles: north-east-down to body")
    pitch = rt.output("rad", kind="angle")
    yaw = rt.output("rad", kind="angle")
    airspeed = rt.output("m/s", description="relative to the air, as alpha to equivalent_airspeed")
    alpha = rt.output("rad", kind="angle")
    beta = rt.output("rad", kind="angle")
    mach = rt.output()
    dynamic_pressure = rt.output("Pa")
    equivalent_airspeed = rt.output("m/s")
    inertial_roll_rate = rt.output("rad/s")
    inertial_pitch_rate = rt.output("rad/s")
    inertial_yaw_rate = rt.output("rad/s")
    roll_rate = rt.output("rad/s", description="body rates relative to the Earth-fixed frame")
    pitch_rate = rt.output("rad/s")
    yaw_rate = rt.output("rad/s")
    density = rt.output("kg/m3")
    speed_of_sound = rt.output("m/s")
    temperature = rt.output("K")
    pressure = rt.output("Pa")
    assumptions: ClassVar[tuple[str, ...]] = BODY_ASSUMPTIONS
    limits: ClassVar[tuple[str, ...]] = BODY_LIMITS

    def cosines(self) -> NineAngles:
        """Return the direction cosines from ECI to body axes, row by row."""
        return direction_cosines(
            self.attitude[0], self.attitude[1], self.attitude[2], self.attitude[3]
        )

    def place(self) -> tuple[float, float, float]:
        """Return the sine and cosine of the geodetic latitude, and the altitude (m)."""
        return geodetic(
            self.position[0], self.position[1], self.position[2],
            self.equatorial_radius, self.flattening,
        )  # fmt: skip

    def air_flow(self) -> Flow:
        """Return direction cosines, velocity (m/s), rates (rad/s) and altitude (m).

        Velocity and rates are relative to the Earth and in body axes.
        """
        c11, c12, c13, c21, c22, c23, c31, c32, c33 = self.cosines()
        rate = self.earth_rate
        vx = self.velocity[0] + rate * self.position[1]
        vy = self.velocity[1] - rate * self.position[0]
        vz = self.velocity[2]
        _, _, altitude = self.place()
        return (
            c11, c12, c13, c21, c22, c23, c31, c32, c33,
            c11 * vx + c12 * vy + c13 * vz,
            c21 * vx + c22 * vy + c23 * vz,
            c31 * vx + c32 * vy + c33 * vz,
            self.rates[0] - rate * c13,
            self.rates[1] - rate * c23,
            self.rates[2] - rate * c33,
            altitude,
        )  # fmt: skip

    def air_motion(self) -> AirMotion:
        """Return velocity (m/s) and rotation (rad/s) of the air, in body axes.

        In the base class, the air is at rest. :class:`rtsim.models.wind.MovingAir` overrides this
        method.
        """
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0

    def accelerate(
        self, d: Self,
        c11: float, c12: float, c13: float,
        c21: float, c22: float, c23: float,
        c31: float, c32: float, c33: float,
        fx: float, fy: float, fz: float,
        l: float, m: float, n: float,  # noqa: E741
    ) -> None:  # fmt: skip
        """Compute the derivative from forces (N) and moments (N m) in body axes.

        The method adds gravity.
        """
        gx, gy, gz = gravity(
            self.position[0], self.position[1], self.position[2],
            self.gravitational_parameter, self.equatorial_radius, self.j2,
        )  # fmt: skip
        inverse = 1.0 / self.mass
        ax, ay, az = inverse * fx, inverse * fy, inverse * fz
        d.position[0] = self.velocity[0]
        d.position[1] = self.velocity[1]
        d.position[2] = self.velocity[2]
        d.velocity[0] = gx + c11 * ax + c21 * ay + c31 * az
        d.velocity[1] = gy + c12 * ax + c22 * ay + c32 * az
        d.velocity[2] = gz + c13 * ax + c23 * ay + c33 * az

        q0, q1, q2, q3 = self.attitude[0], self.attitude[1], self.attitude[2], self.attitude[3]
        roll, pitch, yaw = self.rates[0], self.rates[1], self.rates[2]
        d.attitude[0] = -0.5 * (q1 * roll + q2 * pitch + q3 * yaw)
        d.attitude[1] = 0.5 * (q0 * roll + q2 * yaw - q3 * pitch)
        d.attitude[2] = 0.5 * (q0 * pitch + q3 * roll - q1 * yaw)
        d.attitude[3] = 0.5 * (q0 * yaw + q1 * pitch - q2 * roll)

        ixx, iyy, izz, ixz = self.ixx, self.iyy, self.izz, self.ixz
        hx, hy, hz = ixx * roll - ixz * yaw, iyy * pitch, izz * yaw - ixz * roll
        l -= pitch * hz - yaw * hy  # noqa: E741
        m -= yaw * hx - roll * hz
        n -= roll * hy - pitch * hx
        inverse = 1.0 / (ixx * izz - ixz * ixz)
        d.rates[0] = inverse * (izz * l + ixz * n)
        d.rates[1] = m / iyy
        d.rates[2] = inverse * (ixz * l + ixx * n)

    def describe_flow(self, u: float, v: float, w: float) -> None:
        """Compute airspeed, flow angles, Mach number, dynamic pressure and equivalent airspeed.

        ``u``, ``v`` and ``w`` are the velocity relative to the air in body axes, m/s.
        """
        airspeed = math.sqrt(u * u + v * v + w * w)
        self.airspeed = airspeed
        self.alpha = math.atan2(w, u)
        self.beta = math.asin(max(-1.0, min(1.0, v / max(airspeed, LOWEST_AIRSPEED))))
        self.mach = airspeed / self.speed_of_sound
        self.dynamic_pressure = 0.5 * self.density * airspeed * airspeed
        self.equivalent_airspeed = airspeed * math.sqrt(self.density / SEA_LEVEL_DENSITY)

    def describe(self) -> None:
        """Assign all outputs for air at rest."""
        c11, c12, c13, c21, c22, c23, c31, c32, c33, u, v, w, pr, qr, rr, _ = self.air_flow()
        sin_lat, cos_lat, altitude = self.place()
        celestial = math.atan2(self.position[1], self.position[0])
        sin_lon, cos_lon = math.sin(celestial), math.cos(celestial)
        angle = celestial - self.earth_angle - self.earth_rate * self.t
        self.altitude = altitude
        self.latitude = math.atan2(sin_lat, cos_lat)
        self.longitude = angle - 2.0 * math.pi * math.floor(angle / (2.0 * math.pi) + 0.5)
        rate = self.earth_rate
        self.velocity_north, self.velocity_east, self.velocity_down = to_ned(
            self.velocity[0] + rate * self.position[1],
            self.velocity[1] - rate * self.position[0],
            self.velocity[2],
            sin_lat, cos_lat, sin_lon, cos_lon,
        )  # fmt: skip
        b11, b12, b13 = to_ned(c11, c12, c13, sin_lat, cos_lat, sin_lon, cos_lon)
        _, _, b23 = to_ned(c21, c22, c23, sin_lat, cos_lat, sin_lon, cos_lon)
        _, _, b33 = to_ned(c31, c32, c33, sin_lat, cos_lat, sin_lon, cos_lon)
        self.roll = math.atan2(b23, b33)
        self.pitch = math.atan2(-b13, math.sqrt(b11 * b11 + b12 * b12))
        self.yaw = math.atan2(b12, b11)
        self.density, self.speed_of_sound, self.temperature, self.pressure = standard_atmosphere(
            altitude
        )
        self.describe_flow(u, v, w)
        self.inertial_roll_rate = self.rates[0]
        self.inertial_pitch_rate = self.rates[1]
        self.inertial_yaw_rate = self.rates[2]
        self.roll_rate = pr
        self.pitch_rate = qr
        self.yaw_rate = rr

    def describe_in_air(self, vx: float, vy: float, vz: float) -> None:
        """Compute the outputs of ``describe_flow`` again if the air moves.

        ``vx``, ``vy`` and ``vz`` are the velocity of the air in body axes, m/s.
        """
        if vx != 0.0 or vy != 0.0 or vz != 0.0:
            _, _, _, _, _, _, _, _, _, ub, vb, wb, _, _, _, _ = self.air_flow()
            self.describe_flow(ub - vx, vb - vy, wb - vz)

    def project(self) -> None:
        """Normalise the quaternion after each step of the solver."""
        q0, q1, q2, q3 = self.attitude[0], self.attitude[1], self.attitude[2], self.attitude[3]
        scale = 1.0 / math.sqrt(q0 * q0 + q1 * q1 + q2 * q2 + q3 * q3)
        self.attitude[0] *= scale
        self.attitude[1] *= scale
        self.attitude[2] *= scale
        self.attitude[3] *= scale


BODY_STATES = RigidBody.signals("state")
BODY_PARAMETERS = RigidBody.signals("parameter")
BODY_OUTPUTS = RigidBody.signals("output")


Triple = Sequence[float]
_from_ned = getattr(from_ned, "py_func", from_ned)
_cosines = getattr(direction_cosines, "py_func", direction_cosines)
"""The plain Python functions, because compiling them in each process would take longer."""


def euler_matrix(roll: float, pitch: float, yaw: float) -> NDArray[np.float64]:
    """Return the direction cosines (3, 3) from north-east-down to body axes; angles in rad."""
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
    """Return the unit quaternion (4,) of the direction cosines ``c`` (3, 3), scalar first.

    The scalar is not negative. Division by the largest element (Shepperd 1978) makes the result
    accurate for all rotations.
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
    """Return the rate (rad/s) of the north-east-down frame over the Earth, in NED axes.

    ``latitude`` is in rad, ``altitude`` and ``radius`` are in m, ``velocity_ned`` is in m/s.
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

    Args:
        latitude: geodetic latitude in rad.
        longitude: longitude in rad.
        altitude: altitude above the ellipsoid in m.
        velocity_ned: velocity relative to the Earth in m/s.
        euler: roll, pitch and yaw in rad.
        rates: body rates relative to inertial space in rad/s. By default, the body rates keep the
            Euler angles constant.
        parameters: parameters of the Earth. The default is WGS-84.
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


def body_states(x: Vector) -> dict[str, Any]:
    """Return the states in ``x`` (13,) by their names, as arguments of a :class:`RigidBody`.

    Example:
        Quadcopter(**body_states(initial_state(latitude=0.6, longitude=-1.3, altitude=STANDS)))
    """
    return {s.name: x[BODY_STATES.slice(s.name)] for s in BODY_STATES}


def acceleration_over_earth(x: Vector, dx: Vector, earth_rate: float) -> Vector:
    """Return the acceleration (3,) of a body with constant Euler angles, in body axes, m/s2.

    ``x`` (13,) is a state of :func:`initial_state` with its default rates, which are those of the
    local frame, and ``dx`` (13,) its derivative. ``earth_rate`` is in rad/s.
    """
    position, velocity, attitude, rates = (x[BODY_STATES.slice(s.name)] for s in BODY_STATES)
    change = dx[BODY_STATES.slice("velocity")]
    to_body = np.array(_cosines(*map(float, attitude))).reshape(3, 3)
    spin = np.array([0.0, 0.0, earth_rate])
    over_earth = to_body @ (velocity - np.cross(spin, position))
    found: Vector = to_body @ (change - np.cross(spin, velocity)) - np.cross(rates, over_earth)
    return found
