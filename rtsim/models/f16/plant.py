"""The F-16 of NASA's check cases: a rigid body with aerodynamic and engine loads.

The inputs are control surface angles in degrees and engine power in percent. The outputs are those
of the rigid body in SI units, the thrust, and sensor values in the units of NASA's controller.
Source: see ``f16.json``; loads are summed as in NASA/TM-2015-218675.

The parameters can add a discrete gust. The speed of the air rises and falls as (1 - cos) / 2, the
shape of MIL-F-8785C (3.7.2.3) and of 14 CFR 25.341. The gust components are in body axes, as in
MIL-F-8785C, and equal over the whole aircraft.
"""

from __future__ import annotations

import math
from typing import ClassVar, Self

import rtsim as rt
from rtsim.equations.compiling import compiled
from rtsim.models.atmosphere import standard_atmosphere
from rtsim.models.body import (
    BODY_ASSUMPTIONS,
    BODY_LIMITS,
    LOWEST_AIRSPEED,
    RigidBody,
)
from rtsim.models.f16.aerodynamics import (
    AREA,
    CHORD,
    DEGREES_PER_RADIAN,
    INERTIA,
    NASA_SIDESLIP,
    NASA_SURFACES,
    REFERENCE_CG,
    SOURCE,
    SPAN,
    coefficients,
    thrust_lbf,
)
from rtsim.models.units import DEG, FT, KT, LBF, SLUG, SLUG_FT2

GUST_ASSUMPTION = "the gust of the parameters is uniform over the aircraft: it has no rates"


@compiled
def gust_shape(t: float, start: float, duration: float) -> float:
    """Return the speed of the gust at ``t`` s as a fraction of its peak, 0 outside the gust."""
    since = t - start
    if since <= 0.0 or since >= duration:
        return 0.0
    return 0.5 - 0.5 * math.cos(2.0 * math.pi * since / duration)


AT_ONCE = "surfaces and engine follow their commands at once and have no stops of their own"
STANDARD_GRAVITY = 9.80665
"""Standard gravity, m/s^2, exact (ISO 80000-3)."""


AirLoads = tuple[
    float, float, float, float, float, float, float, float, float,
    float, float, float, float, float, float,
]  # fmt: skip
"""Nine direction cosines from ECI to body axes, three forces (N) and three moments (N m)."""


@compiled
def loads(
    ub: float, vb: float, wb: float, pr: float, qr: float, rr: float, altitude: float,
    elevator: float, aileron: float, rudder: float, power: float, cg: float,
) -> tuple[float, float, float, float, float, float]:  # fmt: skip
    """Return forces (N) and moments (N m) about the centre of mass, in body axes.

    Velocity (m/s) and rates (rad/s) are relative to the air. ``altitude`` is in m, surface angles
    are in deg, ``power`` is in %, and ``cg`` is a fraction of the mean chord.
    """
    density, sound, _, _ = standard_atmosphere(altitude)
    airspeed = max(math.sqrt(ub * ub + vb * vb + wb * wb), LOWEST_AIRSPEED)
    alpha = math.atan2(wb, ub) * DEGREES_PER_RADIAN
    beta = math.asin(max(-1.0, min(1.0, vb / airspeed))) * DEGREES_PER_RADIAN
    half = 0.5 / airspeed
    cx, cy, cz, cl, cm, cn = coefficients(
        alpha, beta,
        pr * SPAN * half, qr * CHORD * half, rr * SPAN * half,
        elevator, aileron, rudder,
        NASA_SIDESLIP, NASA_SURFACES, DEGREES_PER_RADIAN, False,
    )  # fmt: skip
    pressed = 0.5 * density * airspeed * airspeed * AREA
    fy, fz = pressed * cy, pressed * cz
    arm = (REFERENCE_CG - cg) * CHORD
    return (
        pressed * cx + LBF * thrust_lbf(power, altitude / FT, airspeed / sound),
        fy,
        fz,
        pressed * SPAN * cl,
        pressed * CHORD * cm + arm * fz,
        pressed * SPAN * cn - arm * fy,
    )


class Aircraft(RigidBody, name="f16"):
    """The F-16 without actuators, so surfaces and engine follow their commands at once."""

    mass = rt.parameter("kg", INERTIA["mass_slug"] * SLUG, low=1e-9)
    ixx = rt.parameter("kg m2", INERTIA["ixx_slug_ft2"] * SLUG_FT2, low=1e-12)
    iyy = rt.parameter("kg m2", INERTIA["iyy_slug_ft2"] * SLUG_FT2, low=1e-12)
    izz = rt.parameter("kg m2", INERTIA["izz_slug_ft2"] * SLUG_FT2, low=1e-12)
    ixz = rt.parameter("kg m2", INERTIA["ixz_slug_ft2"] * SLUG_FT2)
    cg = rt.parameter(
        "1", INERTIA["cg_fraction"], low=0.0, high=1.0, description="of the mean chord"
    )
    gust_y = rt.parameter("m/s", description="peak speed of the air to the right, in body axes")
    gust_z = rt.parameter("m/s", description="peak speed of the air downward, in body axes")
    gust_start = rt.parameter("s")
    gust_duration = rt.parameter("s", 1.0, low=1e-3)
    elevator = rt.input("deg", description="trailing edge down is positive: nose down")
    aileron = rt.input("deg", description="positive rolls left")
    rudder = rt.input("deg", description="positive yaws left")
    power = rt.input("%", low=0.0, high=100.0)
    thrust = rt.output("N")
    altitude_ft = rt.output("ft")
    equivalent_airspeed_kt = rt.output("kt")
    alpha_deg = rt.output("deg", kind="angle")
    beta_deg = rt.output("deg", kind="angle")
    roll_deg = rt.output("deg", kind="angle")
    pitch_deg = rt.output("deg", kind="angle")
    yaw_deg = rt.output("deg", kind="angle")
    latitude_deg = rt.output("deg", kind="angle")
    longitude_deg = rt.output("deg", kind="angle")
    load_factor = rt.output(description="upward air load along the body's z axis over the weight")
    assumptions: ClassVar[tuple[str, ...]] = (
        *BODY_ASSUMPTIONS,
        GUST_ASSUMPTION,
        f"aerodynamics, thrust and inertia: {SOURCE}",
        AT_ONCE,
        "thrust acts through the centre of mass; the engine has no angular momentum",
        "the leading-edge flap, gear and fuel state of the tables; no ground effect",
    )
    limits: ClassVar[tuple[str, ...]] = (
        *BODY_LIMITS,
        "alpha -10 to 45 deg, |beta| up to 30 deg, elevator -24 to 24 deg: tables clamp outside",
        "thrust tables end at Mach 1 and 50,000 ft; the aerodynamics are low-speed data throughout",
        "altitude below 0 ft takes sea-level thrust; near 50,000 ft idle thrust exceeds military",
    )

    def gust(self) -> tuple[float, float]:
        """Return the speed (m/s) of the air in the gust, to the right and downward."""
        if self.gust_y == 0.0 and self.gust_z == 0.0:
            return 0.0, 0.0
        shape = gust_shape(self.t, self.gust_start, self.gust_duration)
        return shape * self.gust_y, shape * self.gust_z

    def loads_in_air(
        self, elevator: float, aileron: float, rudder: float, power: float
    ) -> AirLoads:
        """Return the direction cosines, and the forces (N) and moments (N m) of air and engine.

        Surface angles are in deg, ``power`` is in %.
        """
        c11, c12, c13, c21, c22, c23, c31, c32, c33, ub, vb, wb, pr, qr, rr, altitude = (
            self.air_flow()
        )
        gust_y, gust_z = self.gust()
        vb, wb = vb - gust_y, wb - gust_z
        vx, vy, vz, wp, wq, wr = self.air_motion()
        ub, vb, wb = ub - vx, vb - vy, wb - vz
        pr, qr, rr = pr - wp, qr - wq, rr - wr
        fx, fy, fz, mx, my, mz = loads(
            ub, vb, wb, pr, qr, rr, altitude, elevator, aileron, rudder, power, self.cg
        )
        return c11, c12, c13, c21, c22, c23, c31, c32, c33, fx, fy, fz, mx, my, mz

    def derivative(self, d: Self) -> None:
        c11, c12, c13, c21, c22, c23, c31, c32, c33, fx, fy, fz, mx, my, mz = self.loads_in_air(
            self.elevator, self.aileron, self.rudder, self.power
        )
        self.accelerate(
            d, c11, c12, c13, c21, c22, c23, c31, c32, c33, fx, fy, fz, mx, my, mz
        )  # fmt: skip

    def sense(self, elevator: float, aileron: float, rudder: float, power: float) -> None:
        """Compute all outputs; surface angles are in deg, and ``power`` is in %."""
        self.describe()
        gust_y, gust_z = self.gust()
        vx, vy, vz, _, _, _ = self.air_motion()
        self.describe_in_air(vx, gust_y + vy, gust_z + vz)
        self.thrust = LBF * thrust_lbf(power, self.altitude / FT, self.mach)
        self.altitude_ft = self.altitude / FT
        self.equivalent_airspeed_kt = self.equivalent_airspeed / KT
        self.alpha_deg = self.alpha / DEG
        self.beta_deg = self.beta / DEG
        self.roll_deg = self.roll / DEG
        self.pitch_deg = self.pitch / DEG
        self.yaw_deg = self.yaw / DEG
        self.latitude_deg = self.latitude / DEG
        self.longitude_deg = self.longitude / DEG
        _, _, _, _, _, _, _, _, _, _, _, fz, _, _, _ = self.loads_in_air(
            elevator, aileron, rudder, power
        )
        self.load_factor = -fz / (self.mass * STANDARD_GRAVITY)

    def outputs(self) -> None:
        self.sense(self.elevator, self.aileron, self.rudder, self.power)


F16 = Aircraft.model()
"""The aircraft as a :class:`rtsim.Model`."""
CONTROLS = F16.inputs
PARAMETERS = F16.parameters
