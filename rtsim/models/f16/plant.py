"""The F-16 of NASA's check cases: aerodynamic and engine loads on the common rigid body.

The inputs are control surface angles in degrees and engine power in percent.  The outputs are those
of the rigid body in SI units, the thrust, and the sensors in the units that NASA's controller
reads.  Source: see ``f16.json``; loads are summed as in NASA/TM-2015-218675.

A discrete gust: the air moves against one aircraft for a short time.

The speed of the air rises and falls as (1 - cos) / 2, the shape of MIL-F-8785C (3.7.2.3) and of 14
CFR 25.341.  Its components are in body axes, as in MIL-F-8785C, and equal over the whole aircraft.
"""

from __future__ import annotations

import math

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Model
from rtsim.models.atmosphere import standard_atmosphere
from rtsim.models.body import (
    BODY_ASSUMPTIONS,
    BODY_LIMITS,
    BODY_OUTPUTS,
    BODY_PARAMETERS,
    BODY_STATES,
    LOWEST_AIRSPEED,
    accelerate,
    air_flow,
    describe,
    normalise_attitude,
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
from rtsim.models.wind import air_moves, air_velocity, describe_in_air

# A discrete gust: the air moves against one aircraft for a short time.

GUST_PARAMETERS = Signals(
    Signal("gust_y", "m/s", description="peak speed of the air to the right, in body axes"),
    Signal("gust_z", "m/s", description="peak speed of the air downward, in body axes"),
    Signal("gust_start", "s"),
    Signal("gust_duration", "s", initial=1.0, low=1e-3),
)
GUST_ASSUMPTION = "the gust of the parameters is uniform over the aircraft: it has no rates"


@compiled
def gust_shape(t: float, start: float, duration: float) -> float:
    """Return the speed of the air at ``t`` s as a fraction of its peak; 0 outside the gust."""
    since = t - start
    if since <= 0.0 or since >= duration:
        return 0.0
    return 0.5 - 0.5 * math.cos(2.0 * math.pi * since / duration)


CONTROLS = Signals(
    Signal("elevator", "deg", description="trailing edge down is positive: nose down"),
    Signal("aileron", "deg", description="positive rolls left"),
    Signal("rudder", "deg", description="positive yaws left"),
    Signal("power", "%", low=0.0, high=100.0),
)
SENSORS = Signals(
    Signal("altitude_ft", "ft"),
    Signal("equivalent_airspeed_kt", "kt"),
    Signal("alpha_deg", "deg", kind="angle"),
    Signal("beta_deg", "deg", kind="angle"),
    Signal("roll_deg", "deg", kind="angle"),
    Signal("pitch_deg", "deg", kind="angle"),
    Signal("yaw_deg", "deg", kind="angle"),
    Signal("latitude_deg", "deg", kind="angle"),
    Signal("longitude_deg", "deg", kind="angle"),
)
"""Inputs of the controller beside ``roll_rate``, ``pitch_rate`` and ``yaw_rate`` in rad/s."""

LOAD_FACTOR = Signals(
    Signal("load_factor", description="upward air load along the body's z axis over the weight")
)
STANDARD_GRAVITY = 9.80665
"""m/s^2, exact (ISO 80000-3)."""


def _parameters() -> Signals:
    figures = {
        "mass": INERTIA["mass_slug"] * SLUG,
        **{name: INERTIA[f"{name}_slug_ft2"] * SLUG_FT2 for name in ("ixx", "iyy", "izz", "ixz")},
    }
    body = (
        Signal(s.name, s.unit, kind=s.kind, initial=figures.get(s.name, s.initial), low=s.low)
        for s in BODY_PARAMETERS
    )
    cg = Signal(
        "cg", initial=INERTIA["cg_fraction"], low=0.0, high=1.0, description="of the mean chord"
    )
    return Signals(*body, cg, *GUST_PARAMETERS)


PARAMETERS = _parameters()
_CG = PARAMETERS.slice("cg").start
_MASS = PARAMETERS.slice("mass").start
_GUST_Y, _GUST_Z, _GUST_START, _GUST_DURATION = range(_CG + 1, _CG + 5)
_AIR = CONTROLS.size
_THRUST = BODY_OUTPUTS.size
_SENSORS = _THRUST + 1
_LOAD_FACTOR = _SENSORS + SENSORS.size


AirLoads = tuple[
    float, float, float, float, float, float, float, float, float,
    float, float, float, float, float, float,
]  # fmt: skip
"""Nine direction cosines from ECI to body, three forces (N) and three moments (N m)."""


@compiled
def loads(
    ub: float, vb: float, wb: float, pr: float, qr: float, rr: float, altitude: float,
    elevator: float, aileron: float, rudder: float, power: float, cg: float,
) -> tuple[float, float, float, float, float, float]:  # fmt: skip
    """Return forces (N) and moments (N m) about the centre of mass, in body axes.

    Arguments: velocity (m/s) and rates (rad/s) relative to the air, altitude in m, surfaces in deg,
    power in %, ``cg`` as a fraction of the mean chord.
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


@compiled
def loads_in_air(
    t: float, x: Vector, u: Vector, p: Vector,
    elevator: float, aileron: float, rudder: float, power: float,
) -> AirLoads:  # fmt: skip
    """Return the direction cosines, and forces (N) and moments (N m) of the motion through the air.

    ``x`` begins with ``BODY_STATES`` and ``u`` with ``CONTROLS``; surfaces in deg, power in %.
    """
    c11, c12, c13, c21, c22, c23, c31, c32, c33, ub, vb, wb, pr, qr, rr, altitude = air_flow(x, p)
    if p[_GUST_Y] != 0.0 or p[_GUST_Z] != 0.0:
        shape = gust_shape(t, p[_GUST_START], p[_GUST_DURATION])
        vb -= shape * p[_GUST_Y]
        wb -= shape * p[_GUST_Z]
    if air_moves(u, _AIR):
        vx, vy, vz, wp, wq, wr = air_velocity(x, p, u, _AIR)
        ub, vb, wb = ub - vx, vb - vy, wb - vz
        pr, qr, rr = pr - wp, qr - wq, rr - wr
    fx, fy, fz, mx, my, mz = loads(
        ub, vb, wb, pr, qr, rr, altitude, elevator, aileron, rudder, power, p[_CG]
    )
    return c11, c12, c13, c21, c22, c23, c31, c32, c33, fx, fy, fz, mx, my, mz


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """Fill ``dx`` by the equations of motion; air loads are those of the motion through the air."""
    c11, c12, c13, c21, c22, c23, c31, c32, c33, fx, fy, fz, mx, my, mz = loads_in_air(
        t, x, u, p, u[0], u[1], u[2], u[3]
    )
    accelerate(x, p, c11, c12, c13, c21, c22, c23, c31, c32, c33, fx, fy, fz, mx, my, mz, dx)


@compiled
def sense(
    t: float, x: Vector, u: Vector, p: Vector,
    elevator: float, aileron: float, rudder: float, power: float, y: Vector,
) -> None:  # fmt: skip
    """Fill ``y`` with ``BODY_OUTPUTS``, the thrust (N), ``SENSORS`` and the load factor.

    Surfaces in deg, power in %.
    """
    describe(t, x, p, y)
    vx, vy, vz = 0.0, 0.0, 0.0
    if p[_GUST_Y] != 0.0 or p[_GUST_Z] != 0.0:
        shape = gust_shape(t, p[_GUST_START], p[_GUST_DURATION])
        vy, vz = shape * p[_GUST_Y], shape * p[_GUST_Z]
    if air_moves(u, _AIR):
        ax, ay, az, _, _, _ = air_velocity(x, p, u, _AIR)
        vx, vy, vz = vx + ax, vy + ay, vz + az
    if vx != 0.0 or vy != 0.0 or vz != 0.0:
        describe_in_air(x, p, vx, vy, vz, y)
    y[_THRUST] = LBF * thrust_lbf(power, y[0] / FT, y[12])
    y[_SENSORS] = y[0] / FT
    y[_SENSORS + 1] = y[14] / KT
    y[_SENSORS + 2] = y[10] / DEG
    y[_SENSORS + 3] = y[11] / DEG
    y[_SENSORS + 4] = y[6] / DEG
    y[_SENSORS + 5] = y[7] / DEG
    y[_SENSORS + 6] = y[8] / DEG
    y[_SENSORS + 7] = y[1] / DEG
    y[_SENSORS + 8] = y[2] / DEG
    _, _, _, _, _, _, _, _, _, _, _, fz, _, _, _ = loads_in_air(
        t, x, u, p, elevator, aileron, rudder, power
    )
    y[_LOAD_FACTOR] = -fz / (p[_MASS] * STANDARD_GRAVITY)


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Fill ``y`` with ``BODY_OUTPUTS``, the thrust (N), ``SENSORS`` and the load factor."""
    sense(t, x, u, p, u[0], u[1], u[2], u[3], y)


F16 = Model(
    name="f16",
    states=BODY_STATES,
    inputs=CONTROLS,
    outputs=BODY_OUTPUTS + Signals(Signal("thrust", "N")) + SENSORS + LOAD_FACTOR,
    parameters=PARAMETERS,
    derivative=derivative,
    output=output,
    project=normalise_attitude,
    assumptions=(
        *BODY_ASSUMPTIONS,
        GUST_ASSUMPTION,
        f"aerodynamics, thrust and inertia: {SOURCE}",
        "surfaces and engine follow their commands at once and have no stops of their own",
        "thrust acts through the centre of mass; the engine has no angular momentum",
        "the leading-edge flap, gear and fuel state of the tables; no ground effect",
    ),
    limits=(
        *BODY_LIMITS,
        "alpha -10 to 45 deg, |beta| up to 30 deg, elevator -24 to 24 deg: tables clamp outside",
        "thrust tables end at Mach 1 and 50,000 ft; the aerodynamics are low-speed data throughout",
        "altitude below 0 ft takes sea-level thrust; near 50,000 ft idle thrust exceeds military",
    ),
)
