"""The F-16 of Stevens and Lewis: flat Earth, 13 states, engine lag, in feet and slugs.

Source: Stevens, Lewis and Johnson, *Aircraft Control and Simulation*, sections 3.5 and 3.6.  The
aerodynamics are those of :mod:`rtsim.models.f16.aerodynamics` with the rolling-moment tables of the
book.  Tests compare the result with table 3.5-2 and the trims of the book.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from rtsim.core.errors import ModelError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.model import BoundModel, Model, bind
from rtsim.linear.trimming import trim
from rtsim.models.f16.aerodynamics import BOOK_SIDESLIP, BOOK_SURFACES, coefficients, thrust_lbf

_AREA, _SPAN, _CHORD, _REFERENCE_CG = 300.0, 30.0, 11.32, 0.35
_PER_MASS, _GRAVITY, _ENGINE = 1.57e-3, 32.17, 160.0
_DEGREES, _DEGREES_IN_CZ = 57.29578, 57.3
# Coefficients of the moments of inertia, rounded as in the book.
_C1, _C2, _C3, _C4, _C5 = -0.770, 0.02755, 1.055e-4, 1.642e-6, 0.9604
_C6, _C7, _C8, _C9 = 1.759e-2, 1.792e-5, -0.7336, 1.587e-5


@compiled
def throttle_gearing(throttle: float) -> float:
    """Return the commanded power in % for a throttle position 0..1."""
    if throttle <= 0.77:
        return 64.94 * throttle
    return 217.38 * throttle - 117.38


@compiled
def throttle_for(power: float) -> float:
    """Return the throttle position 0..1 that commands ``power`` in %."""
    if power <= 50.0:
        return power / 64.94
    return (power + 117.38) / 217.38


@compiled
def power_rate(power: float, command: float) -> float:
    """Return the rate of the engine's power, %/s; the lag differs with and without afterburner."""
    if command >= 50.0:
        if power >= 50.0:
            return 5.0 * (command - power)
        target = 60.0
    else:
        target = 40.0 if power >= 50.0 else command
        if power >= 50.0:
            return 5.0 * (target - power)
    error = target - power
    if error <= 25.0:
        return error
    if error >= 50.0:
        return 0.1 * error
    return (1.9 - 0.036 * error) * error


@compiled
def air_data(airspeed: float, altitude: float) -> tuple[float, float]:
    """Return Mach number and dynamic pressure (lbf/ft2) in the book's atmosphere.

    ``airspeed`` is in ft/s, ``altitude`` in ft.
    """
    factor = 1.0 - 0.703e-5 * altitude
    temperature = 519.0 * factor if altitude < 35000.0 else 390.0
    density = 2.377e-3 * factor**4.14
    return airspeed / math.sqrt(1.4 * 1716.3 * temperature), 0.5 * density * airspeed * airspeed


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """Fill ``dx`` (13,) by the book's equations of motion."""
    speed, alpha, beta, phi, theta, psi = x[0], x[1], x[2], x[3], x[4], x[5]
    roll, pitch, yaw, power = x[6], x[7], x[8], x[12]
    mach, pressure = air_data(speed, x[11])
    dx[12] = power_rate(power, throttle_gearing(u[0]))
    thrust = thrust_lbf(power, x[11], mach)

    half = 0.5 / speed
    cx, cy, cz, cl, cm, cn = coefficients(
        alpha * _DEGREES, beta * _DEGREES,
        roll * _SPAN * half, pitch * _CHORD * half, yaw * _SPAN * half,
        u[1], u[2], u[3],
        BOOK_SIDESLIP, BOOK_SURFACES, _DEGREES_IN_CZ, True,
    )  # fmt: skip
    arm = _REFERENCE_CG - p[0]
    cm += cz * arm
    cn -= cy * arm * _CHORD / _SPAN

    sa, ca, sb, cb = math.sin(alpha), math.cos(alpha), math.sin(beta), math.cos(beta)
    sp, cp, st, ct = math.sin(phi), math.cos(phi), math.sin(theta), math.cos(theta)
    sy, cy_psi = math.sin(psi), math.cos(psi)
    ub, vb, wb = speed * ca * cb, speed * sb, speed * sa * cb
    loaded = _PER_MASS * pressure * _AREA
    du = yaw * vb - pitch * wb - _GRAVITY * st + loaded * cx + _PER_MASS * thrust
    dv = roll * wb - yaw * ub + _GRAVITY * ct * sp + loaded * cy
    dw = pitch * ub - roll * vb + _GRAVITY * ct * cp + loaded * cz
    across = ub * ub + wb * wb
    dx[0] = (ub * du + vb * dv + wb * dw) / speed
    dx[1] = (ub * dw - wb * du) / across
    dx[2] = (speed * dv - vb * dx[0]) * cb / across

    turning = pitch * sp + yaw * cp
    dx[3] = roll + st / ct * turning
    dx[4] = pitch * cp - yaw * sp
    dx[5] = turning / ct

    moment = pressure * _AREA * _SPAN
    dx[6] = (_C2 * roll + _C1 * yaw + _C4 * _ENGINE) * pitch + moment * (_C3 * cl + _C4 * cn)
    dx[7] = (
        (_C5 * roll - _C7 * _ENGINE) * yaw
        + _C6 * (yaw * yaw - roll * roll)
        + pressure * _AREA * _CHORD * _C7 * cm
    )
    dx[8] = (_C8 * roll - _C2 * yaw + _C9 * _ENGINE) * pitch + moment * (_C4 * cl + _C9 * cn)

    dx[9] = ub * ct * cy_psi + vb * (sp * cy_psi * st - cp * sy) + wb * (cp * st * cy_psi + sp * sy)
    dx[10] = ub * ct * sy + vb * (sp * sy * st + cp * cy_psi) + wb * (cp * st * sy - sp * cy_psi)
    dx[11] = ub * st - vb * sp * ct - wb * cp * ct


STEVENS_LEWIS = Model(
    name="f16_stevens_lewis",
    states=Signals(
        Signal("airspeed", "ft/s", initial=502.0),
        Signal("alpha", "rad", kind="angle", initial=0.03691),
        Signal("beta", "rad", kind="angle"),
        Signal("roll", "rad", kind="angle"),
        Signal("pitch", "rad", kind="angle", initial=0.03691),
        Signal("yaw", "rad", kind="angle"),
        Signal("roll_rate", "rad/s"),
        Signal("pitch_rate", "rad/s"),
        Signal("yaw_rate", "rad/s"),
        Signal("north", "ft"),
        Signal("east", "ft"),
        Signal("altitude", "ft"),
        Signal("power", "%", initial=9.0),
    ),
    inputs=Signals(
        Signal("throttle", low=0.0, high=1.0, initial=0.1385),
        Signal("elevator", "deg", initial=-0.7588),
        Signal("aileron", "deg"),
        Signal("rudder", "deg"),
    ),
    parameters=Signals(
        Signal("cg", initial=0.35, low=0.0, high=1.0, description="of the mean chord")
    ),
    derivative=derivative,
    assumptions=(
        "a flat Earth at rest, constant gravity, the book's own atmosphere",
        "tables are extrapolated past their ends, as the book's programs do",
    ),
    limits=("airspeed above 0; pitch within 90 deg",),
)


@cache
def bound_stevens_lewis() -> BoundModel:
    """Return the compiled F-16 of Stevens and Lewis."""
    return bind(STEVENS_LEWIS)


def level_trim(
    airspeed: float,
    *,
    altitude: float = 0.0,
    cg: float = 0.35,
    guess: Mapping[str, float] | None = None,
) -> tuple[Vector, Vector]:
    """Return the state (13,) and inputs (4,) of steady wings-level flight.

    ``airspeed`` is in ft/s, ``altitude`` in ft, ``cg`` as a fraction of the mean chord.  ``guess``
    may give ``throttle``, ``alpha`` (rad) and ``elevator`` (deg) as the start of the search.
    Raises :class:`ModelError` if the search finds no steady state.
    """
    start = {"throttle": 0.2, "alpha": 0.1, "elevator": -1.0, **(guess or {})}

    def place(free: Mapping[str, float]) -> dict[str, object]:
        return {**free, "pitch": free["alpha"], "power": throttle_gearing(free["throttle"])}

    try:
        found = trim(
            STEVENS_LEWIS,
            free=start,
            fixed={"airspeed": airspeed, "altitude": altitude, "cg": cg},
            steady=("airspeed", "alpha", "pitch_rate"),
            place=place,
            tolerance=1e-7,
        )
    except ModelError as error:
        raise ModelError(f"no level trim found at {airspeed:g} ft/s: {error}") from None
    return found.point.x, found.point.u
