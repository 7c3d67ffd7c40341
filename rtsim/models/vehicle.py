"""Base classes of bodies above terrain, and of vehicles with sensors."""

from __future__ import annotations

import math
from typing import Self

import rtsim as rt
from rtsim.equations.earth import to_ned
from rtsim.models.body import RigidBody
from rtsim.models.terrain import local, terrain
from rtsim.models.wind import MovingAir

Below = tuple[float, float, float, float, float, float, float]
Loads = tuple[float, float, float, float, float, float]


class AboveTerrain(RigidBody):
    """A body that computes the ground below its centre of mass."""

    def ground_below(
        self,
        c11: float, c12: float, c13: float,
        c21: float, c22: float, c23: float,
        c31: float, c32: float, c33: float,
    ) -> Below:  # fmt: skip
        """Return the plane of the ground below the centre of mass, and the position of the body.

        The first three numbers are the upward normal of the ground in body axes. Four lengths (m)
        follow: the distance from the plane, the height above the ground, and the position north and
        east of the runway's middle.
        """
        sin_lat, cos_lat, altitude = self.place()
        celestial = math.atan2(self.position[1], self.position[0])
        sin_lon, cos_lon = math.sin(celestial), math.cos(celestial)
        longitude = celestial - self.earth_angle - self.earth_rate * self.t
        north, east = local(math.atan2(sin_lat, cos_lat), longitude)
        height, to_north, to_east = terrain(north, east)
        scale = 1.0 / math.sqrt(1.0 + to_north * to_north + to_east * to_east)
        b11, b12, b13 = to_ned(c11, c12, c13, sin_lat, cos_lat, sin_lon, cos_lon)
        b21, b22, b23 = to_ned(c21, c22, c23, sin_lat, cos_lat, sin_lon, cos_lon)
        b31, b32, b33 = to_ned(c31, c32, c33, sin_lat, cos_lat, sin_lon, cos_lon)
        return (
            -scale * (b11 * to_north + b12 * to_east + b13),
            -scale * (b21 * to_north + b22 * to_east + b23),
            -scale * (b31 * to_north + b32 * to_east + b33),
            scale * (altitude - height),
            altitude - height,
            north,
            east,
        )


class Vehicle(AboveTerrain, MovingAir):
    """A vehicle with sensors; derived classes compute its forces and moments.

    A derived class overrides :meth:`loads`, and calls ``super().derivative(d)`` and
    ``super().outputs()`` in methods of its own.
    """

    attitude_ned = rt.output(
        "1", shape=(4,), kind="quaternion", description="north-east-down to body, scalar first"
    )
    specific_force = rt.output(
        "m/s2", shape=(3,), description="loads without gravity over the mass, in body axes"
    )
    height = rt.output("m", description="of the centre of mass above the ground")

    def loads(self) -> Loads:
        """Return all forces (N) and moments (N m) except gravity, in body axes."""
        return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0

    def derivative(self, d: Self) -> None:
        c11, c12, c13, c21, c22, c23, c31, c32, c33 = self.cosines()
        fx, fy, fz, mx, my, mz = self.loads()
        self.accelerate(
            d, c11, c12, c13, c21, c22, c23, c31, c32, c33, fx, fy, fz, mx, my, mz
        )  # fmt: skip

    def outputs(self) -> None:
        self.describe()
        vx, vy, vz, _, _, _ = self.air_motion()
        self.describe_in_air(vx, vy, vz)
        sr, cr = math.sin(0.5 * self.roll), math.cos(0.5 * self.roll)
        sp, cp = math.sin(0.5 * self.pitch), math.cos(0.5 * self.pitch)
        sy, cy = math.sin(0.5 * self.yaw), math.cos(0.5 * self.yaw)
        self.attitude_ned[0] = cr * cp * cy + sr * sp * sy
        self.attitude_ned[1] = sr * cp * cy - cr * sp * sy
        self.attitude_ned[2] = cr * sp * cy + sr * cp * sy
        self.attitude_ned[3] = cr * cp * sy - sr * sp * cy
        fx, fy, fz, _, _, _ = self.loads()
        self.specific_force[0] = fx / self.mass
        self.specific_force[1] = fy / self.mass
        self.specific_force[2] = fz / self.mass
        c11, c12, c13, c21, c22, c23, c31, c32, c33 = self.cosines()
        _, _, _, _, above, _, _ = self.ground_below(c11, c12, c13, c21, c22, c23, c31, c32, c33)
        self.height = above
