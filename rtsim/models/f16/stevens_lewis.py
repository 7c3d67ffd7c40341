"""The F-16 of Stevens and Lewis: 13 states, flat Earth, engine lag, in feet and slugs.

Source: Stevens, Lewis and Johnson, *Aircraft Control and Simulation*, sections 3.5 and 3.6. The
aerodynamic tables are NASA's, except the rolling-moment tables of Stevens, Lewis and Johnson. Tests
compare the model with table 3.5-2 and the trims of the book.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Self

import rtsim as rt
from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.model import BoundModel, bind
from rtsim.linear.trimming import trim
from rtsim.models.f16.aerodynamics import BOOK_SIDESLIP, BOOK_SURFACES, coefficients, thrust_lbf

_AREA, _SPAN, _CHORD, _REFERENCE_CG = 300.0, 30.0, 11.32, 0.35
_PER_MASS, GRAVITY, _ENGINE = 1.57e-3, 32.17, 160.0
_DEGREES, _DEGREES_IN_CZ = 57.29578, 57.3
AREA_PER_MASS = _PER_MASS * _AREA
"""Acceleration (ft/s2) per dynamic pressure (lbf/ft2) and coefficient."""
# Coefficients of the moments of inertia, rounded as in the book.
_C1, _C2, _C3, _C4, _C5 = -0.770, 0.02755, 1.055e-4, 1.642e-6, 0.9604
_C6, _C7, _C8, _C9 = 1.759e-2, 1.792e-5, -0.7336, 1.587e-5


@compiled
def throttle_gearing(throttle: float) -> float:
    """Return the commanded power in % for a throttle position from 0 to 1."""
    if throttle <= 0.77:
        return 64.94 * throttle
    return 217.38 * throttle - 117.38


@compiled
def throttle_for(power: float) -> float:
    if power <= 50.0:
        return power / 64.94
    return (power + 117.38) / 217.38


@compiled
def power_rate(power: float, command: float) -> float:
    """Return the rate of the engine's power, %/s. The lag differs with and without afterburner."""
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


class StevensLewis(rt.Plant, name="f16_stevens_lewis"):
    """The F-16 with the equations of motion from the book of Stevens, Lewis and Johnson."""

    airspeed = rt.state("ft/s", 502.0)
    alpha = rt.state("rad", 0.03691, kind="angle")
    beta = rt.state("rad", kind="angle")
    roll = rt.state("rad", kind="angle")
    pitch = rt.state("rad", 0.03691, kind="angle")
    yaw = rt.state("rad", kind="angle")
    roll_rate = rt.state("rad/s")
    pitch_rate = rt.state("rad/s")
    yaw_rate = rt.state("rad/s")
    north = rt.state("ft")
    east = rt.state("ft")
    altitude = rt.state("ft")
    power = rt.state("%", 9.0)
    throttle = rt.input("1", 0.1385, low=0.0, high=1.0)
    elevator = rt.input("deg", -0.7588)
    aileron = rt.input("deg")
    rudder = rt.input("deg")
    cg = rt.parameter("1", 0.35, low=0.0, high=1.0, description="of the mean chord")
    assumptions = (
        "a flat Earth at rest, constant gravity, the book's own atmosphere",
        "tables are extrapolated past their ends, as the book's programs do",
    )
    limits = ("airspeed above 0; pitch within 90 deg",)

    def loads(self) -> tuple[float, float, float, float, float, float, float, float]:
        """Return Mach number, pressure (lbf/ft2), CX, CY, CZ, and Cl, Cm, Cn at the cg."""
        speed, roll, pitch, yaw = self.airspeed, self.roll_rate, self.pitch_rate, self.yaw_rate
        mach, pressure = air_data(speed, self.altitude)
        half = 0.5 / speed
        cx, cy, cz, cl, cm, cn = coefficients(
            self.alpha * _DEGREES, self.beta * _DEGREES,
            roll * _SPAN * half, pitch * _CHORD * half, yaw * _SPAN * half,
            self.elevator, self.aileron, self.rudder,
            BOOK_SIDESLIP, BOOK_SURFACES, _DEGREES_IN_CZ, True,
        )  # fmt: skip
        arm = _REFERENCE_CG - self.cg
        cm += cz * arm
        cn -= cy * arm * _CHORD / _SPAN
        return mach, pressure, cx, cy, cz, cl, cm, cn

    def turning(
        self, pressure: float, cl: float, cm: float, cn: float
    ) -> tuple[float, float, float]:
        """Return the derivatives of roll, pitch and yaw rate (rad/s2)."""
        roll, pitch, yaw = self.roll_rate, self.pitch_rate, self.yaw_rate
        moment = pressure * _AREA * _SPAN
        return (
            (_C2 * roll + _C1 * yaw + _C4 * _ENGINE) * pitch + moment * (_C3 * cl + _C4 * cn),
            (_C5 * roll - _C7 * _ENGINE) * yaw
            + _C6 * (yaw * yaw - roll * roll)
            + pressure * _AREA * _CHORD * _C7 * cm,
            (_C8 * roll - _C2 * yaw + _C9 * _ENGINE) * pitch + moment * (_C4 * cl + _C9 * cn),
        )

    def derivative(self, d: Self) -> None:
        speed, alpha, beta = self.airspeed, self.alpha, self.beta
        roll, pitch, yaw = self.roll_rate, self.pitch_rate, self.yaw_rate
        mach, pressure, cx, cy, cz, cl, cm, cn = self.loads()
        d.power = power_rate(self.power, throttle_gearing(self.throttle))
        thrust = thrust_lbf(self.power, self.altitude, mach)

        sa, ca, sb, cb = math.sin(alpha), math.cos(alpha), math.sin(beta), math.cos(beta)
        sp, cp = math.sin(self.roll), math.cos(self.roll)
        st, ct = math.sin(self.pitch), math.cos(self.pitch)
        sy, cy_psi = math.sin(self.yaw), math.cos(self.yaw)
        ub, vb, wb = speed * ca * cb, speed * sb, speed * sa * cb
        loaded = _PER_MASS * pressure * _AREA
        du = yaw * vb - pitch * wb - GRAVITY * st + loaded * cx + _PER_MASS * thrust
        dv = roll * wb - yaw * ub + GRAVITY * ct * sp + loaded * cy
        dw = pitch * ub - roll * vb + GRAVITY * ct * cp + loaded * cz
        across = ub * ub + wb * wb
        gains = (ub * du + vb * dv + wb * dw) / speed
        d.airspeed = gains
        d.alpha = (ub * dw - wb * du) / across
        d.beta = (speed * dv - vb * gains) * cb / across

        turning = pitch * sp + yaw * cp
        d.roll = roll + st / ct * turning
        d.pitch = pitch * cp - yaw * sp
        d.yaw = turning / ct

        d.roll_rate, d.pitch_rate, d.yaw_rate = self.turning(pressure, cl, cm, cn)

        d.north = (
            ub * ct * cy_psi + vb * (sp * cy_psi * st - cp * sy) + wb * (cp * st * cy_psi + sp * sy)
        )
        d.east = (
            ub * ct * sy + vb * (sp * sy * st + cp * cy_psi) + wb * (cp * st * sy - sp * cy_psi)
        )
        d.altitude = ub * st - vb * sp * ct - wb * cp * ct


STEVENS_LEWIS = StevensLewis.model()


@cache
def bound_stevens_lewis() -> BoundModel:
    return bind(STEVENS_LEWIS)


def level_trim(
    airspeed: float,
    *,
    altitude: float = 0.0,
    cg: float = 0.35,
    guess: Mapping[str, float] | None = None,
) -> tuple[Vector, Vector]:
    """Return the state (13,) and inputs (4,) of steady wings-level flight.

    ``airspeed`` is in ft/s, ``altitude`` is in ft, and ``cg`` is a fraction of the mean chord.
    ``guess`` can contain ``throttle``, ``alpha`` (rad) and ``elevator`` (deg), from which the
    search starts. Raises ``ModelError`` if no steady state exists.
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
