"""Model of the Aerosonde, a small unmanned aircraft, from the book of Beard and McLain.

Sources:

- Beard and McLain, *Small Unmanned Aircraft: Theory and Practice* (Princeton, 2012), chapter 4 and
  appendix E, with the revised figures of the book's programs (``aerosonde_parameters`` of
  mavsim_public, legacy_mavsim_python and mavsim_simulink, which agree except for the sign of
  ``c_n_p``; this file takes the sign of mavsim_simulink and mavsim_matlab).
- The propeller and the motor are modelled as in McLain's supplement to the book. The thrust and
  torque coefficients are quadratic in the advance ratio, and the motor torque equals the propeller
  torque at each instant.

Up to the stall, the lift is linear in the angle of attack; beyond the stall, the wing acts as a
flat plate (equations 4.9 and 4.10). The drag is the sum of parasitic and induced drag (equation
4.11). ``tests/models/test_aerosonde.py`` compares trim and linear model with those of the book's
programs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

import rtsim as rt
from rtsim.core.signals import Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.earth import EARTH_RATE
from rtsim.linear.plants import Point
from rtsim.linear.trimming import Trim
from rtsim.linear.trimming import trim as find_trim
from rtsim.models.atmosphere import standard_atmosphere
from rtsim.models.body import (
    BODY_ASSUMPTIONS,
    BODY_LIMITS,
    BODY_STATES,
    LOWEST_AIRSPEED,
    STILL_AIR,
    acceleration_over_earth,
    body_states,
    initial_state,
)
from rtsim.models.vehicle import Loads, Vehicle
from rtsim.models.wind import MOVING_AIR

CONTROLS = ("elevator", "aileron", "rudder", "throttle")
_LOWEST = 0.15
"""Height of the centre of mass above the ground in a crash, m (own choice)."""


@compiled
def lift_coefficient(alpha: float, zero: float, slope: float, stall: float, sharp: float) -> float:
    """Return the lift coefficient at the angle of attack ``alpha`` (rad).

    ``zero`` and ``slope`` (1/rad) define the linear part, and ``stall`` (rad) and ``sharp`` the
    transition to the flat plate.
    """
    below, above = math.exp(-sharp * (alpha - stall)), math.exp(sharp * (alpha + stall))
    plate = (1.0 + below + above) / ((1.0 + below) * (1.0 + above))
    sine = math.sin(alpha)
    flat = 2.0 * sine * abs(sine) * math.cos(alpha)
    return (1.0 - plate) * (zero + slope * alpha) + plate * flat


class Aerosonde(Vehicle):
    """A fixed-wing aircraft of 11 kg with an electric motor."""

    mass = rt.parameter("kg", 11.0, low=1e-9)
    ixx = rt.parameter("kg m2", 0.8244, low=1e-12)
    iyy = rt.parameter("kg m2", 1.135, low=1e-12)
    izz = rt.parameter("kg m2", 1.759, low=1e-12)
    ixz = rt.parameter("kg m2", 0.1204)
    area = rt.parameter("m2", 0.55, low=0.0)
    span = rt.parameter("m", 2.8956, low=0.0)
    chord = rt.parameter("m", 0.18994, low=0.0)
    c_l_0, c_l_alpha, c_l_q, c_l_elevator = rt.parameter((0.23, 5.61, 7.95, 0.13))
    c_d_p, c_d_q, c_d_elevator = rt.parameter((0.043, 0.0, 0.0135))
    oswald = rt.parameter("1", 0.9, low=1e-3, description="efficiency of the span")
    c_m_0, c_m_alpha, c_m_q, c_m_elevator = rt.parameter((0.0135, -2.74, -38.21, -0.99))
    c_y_beta, c_y_p, c_y_r = rt.parameter((-0.98, 0.0, 0.0))
    c_y_aileron, c_y_rudder = rt.parameter((0.075, 0.19))
    c_roll_beta, c_roll_p, c_roll_r = rt.parameter((-0.13, -0.51, 0.25))
    c_roll_aileron, c_roll_rudder = rt.parameter((0.17, 0.0024))
    c_n_beta, c_n_p, c_n_r = rt.parameter((0.073, -0.069, -0.095))
    c_n_aileron, c_n_rudder = rt.parameter((-0.011, -0.069))
    stall = rt.parameter("rad", 0.47, low=0.0, description="angle of attack of the stall")
    sharp = rt.parameter("1", 50.0, low=0.0, description="rate of the transition to the stall")
    diameter = rt.parameter("m", 20.0 * 0.0254, low=1e-6, description="of the propeller")
    back_emf = rt.parameter("V.s", 60.0 / (2.0 * math.pi * 145.0), low=1e-9, description="per rad")
    motor_resistance = rt.parameter("ohm", 0.042, low=1e-6)
    idle_current = rt.parameter("A", 1.5, low=0.0)
    full_voltage = rt.parameter("V", 3.7 * 12.0, low=0.0)
    c_torque = rt.parameter((0.005230, 0.004970, -0.01664), description="by advance ratio")
    c_thrust = rt.parameter((0.09357, -0.06044, -0.1079), description="by advance ratio")
    elevator = rt.input("rad", description="trailing edge down is positive: nose down")
    aileron = rt.input("rad", description="positive rolls right")
    rudder = rt.input("rad", description="positive yaws left")
    throttle = rt.input("1", low=0.0, high=1.0)
    thrust = rt.output("N")
    propeller_speed = rt.output("rad/s")
    motor_current = rt.output("A")
    assumptions = (
        *(MOVING_AIR if a == STILL_AIR else a for a in BODY_ASSUMPTIONS),
        "aerodynamic coefficients: Beard and McLain, appendix E, revised",
        "surfaces follow their commands at once; thrust along body x through the centre of mass",
        "the propeller has no inertia, and the battery a constant voltage",
    )
    limits = (
        *BODY_LIMITS,
        "the drag beyond the stall is that of the line of the lift",
        "lateral coefficients linear in sideslip; no ground effect, no landing gear",
    )

    def propeller(self, airspeed: float, density: float) -> tuple[float, float, float, float]:
        """Return thrust (N), torque (N m), speed (rad/s) and current (A) of the motor."""
        volts = max(0.0, min(1.0, self.throttle)) * self.full_voltage
        k, d, turn = self.back_emf, self.diameter, 2.0 * math.pi
        cubed = density * d * d * d
        a = self.c_torque[0] * cubed * d * d / (turn * turn)
        b = self.c_torque[1] * cubed * d * airspeed / turn + k * k / self.motor_resistance
        c = self.c_torque[2] * cubed * airspeed * airspeed
        c += k * (self.idle_current - volts / self.motor_resistance)
        speed = max(0.0, (-b + math.sqrt(max(0.0, b * b - 4.0 * a * c))) / (2.0 * a))
        turns, ahead = speed / turn, airspeed / d
        thrust = self.c_thrust[0] * turns * turns + self.c_thrust[1] * turns * ahead
        thrust += self.c_thrust[2] * ahead * ahead
        torque = self.c_torque[0] * turns * turns + self.c_torque[1] * turns * ahead
        torque += self.c_torque[2] * ahead * ahead
        current = (volts - k * speed) / self.motor_resistance
        return cubed * d * thrust, cubed * d * d * torque, speed, current

    def loads(self) -> Loads:
        _, _, _, _, _, _, _, _, _, ub, vb, wb, pr, qr, rr, altitude = self.air_flow()
        vx, vy, vz, wp, wq, wr = self.air_motion()
        ub, vb, wb, pr, qr, rr = ub - vx, vb - vy, wb - vz, pr - wp, qr - wq, rr - wr
        density, _, _, _ = standard_atmosphere(altitude)
        airspeed = max(math.sqrt(ub * ub + vb * vb + wb * wb), LOWEST_AIRSPEED)
        alpha = math.atan2(wb, ub)
        beta = math.asin(max(-1.0, min(1.0, vb / airspeed)))
        half = 0.5 / airspeed
        pitching, rolling, yawing = (
            qr * self.chord * half,
            pr * self.span * half,
            rr * self.span * half,
        )
        lift = lift_coefficient(alpha, self.c_l_0, self.c_l_alpha, self.stall, self.sharp)
        lift += self.c_l_q * pitching + self.c_l_elevator * self.elevator
        line = self.c_l_0 + self.c_l_alpha * alpha
        slender = math.pi * self.oswald * self.span * self.span / self.area
        drag = self.c_d_p + line * line / slender
        drag += self.c_d_q * pitching + self.c_d_elevator * self.elevator
        side = self.c_y_beta * beta + self.c_y_p * rolling + self.c_y_r * yawing
        side += self.c_y_aileron * self.aileron + self.c_y_rudder * self.rudder
        roll = self.c_roll_beta * beta + self.c_roll_p * rolling + self.c_roll_r * yawing
        roll += self.c_roll_aileron * self.aileron + self.c_roll_rudder * self.rudder
        pitch = self.c_m_0 + self.c_m_alpha * alpha
        pitch += self.c_m_q * pitching + self.c_m_elevator * self.elevator
        yaw = self.c_n_beta * beta + self.c_n_p * rolling + self.c_n_r * yawing
        yaw += self.c_n_aileron * self.aileron + self.c_n_rudder * self.rudder
        pressed = 0.5 * density * airspeed * airspeed * self.area
        sine, cosine = math.sin(alpha), math.cos(alpha)
        thrust, torque, _, _ = self.propeller(airspeed, density)
        return (
            pressed * (lift * sine - drag * cosine) + thrust,
            pressed * side,
            -pressed * (lift * cosine + drag * sine),
            pressed * self.span * roll - torque,
            pressed * self.chord * pitch,
            pressed * self.span * yaw,
        )

    def outputs(self) -> None:
        super().outputs()
        self.thrust, _, self.propeller_speed, self.motor_current = self.propeller(
            self.airspeed, self.density
        )

    @rt.falling(terminal=True, failure="the aircraft struck the ground")
    def crash(self) -> float:
        c11, c12, c13, c21, c22, c23, c31, c32, c33 = self.cosines()
        _, _, _, _, above, _, _ = self.ground_below(c11, c12, c13, c21, c22, c23, c31, c32, c33)
        return above - _LOWEST


AEROSONDE = Aerosonde.model()
"""The aircraft as a :class:`rtsim.Model`."""


@dataclass(frozen=True, kw_only=True)
class SteadyFlight:
    """A straight flight with constant heading in still air.

    Angles are in rad, ``altitude`` in m, and ``speed`` over the Earth in m/s; ``parameters``
    replaces default values of the aircraft.

    Example:
        flight = SteadyFlight(latitude=0.6, longitude=0.0, altitude=100.0).trim()
        loop.plant(Aerosonde(), step=0.005)
        flight.set_in(loop, "aerosonde")
    """

    latitude: float
    longitude: float
    altitude: float
    speed: float = 25.0
    course: float = 0.0
    climb: float = 0.0
    parameters: Mapping[str, float] = field(default_factory=dict)

    def states(self, roll: float, pitch: float) -> dict[str, object]:
        """Return the states by name for given roll and pitch angles (rad)."""
        flat = self.speed * math.cos(self.climb)
        down = -self.speed * math.sin(self.climb)
        x = initial_state(
            latitude=self.latitude, longitude=self.longitude, altitude=self.altitude,
            velocity_ned=(flat * math.cos(self.course), flat * math.sin(self.course), down),
            euler=(roll, pitch, self.course), parameters=self.parameters,
        )  # fmt: skip
        return body_states(x)

    def trim(self) -> Trim:
        """Find roll, pitch, throttle and surface angles; raise ``ModelError`` if impossible."""
        earth_rate = self.parameters.get("earth_rate", EARTH_RATE)

        def place(free: Mapping[str, float]) -> dict[str, object]:
            inputs = {name: free[name] for name in CONTROLS}
            return {**self.states(free["roll"], free["pitch"]), **inputs}

        def residual(point: Point, dx: Vector, y: Vector) -> Vector:  # noqa: ARG001
            moves = acceleration_over_earth(point.x, dx, earth_rate)
            return np.concatenate((moves, dx[BODY_STATES.slice("rates")]))

        start = {"roll": 0.0, "pitch": 0.05 + self.climb, "throttle": 0.6}
        return find_trim(
            AEROSONDE,
            free={**start, "elevator": -0.1, "aileron": 0.0, "rudder": 0.0},
            bounds={"throttle": (0.0, 1.0)},
            fixed=self.parameters,
            place=place,
            residual=residual,
            tolerance=1e-8,
        )
