"""An F-16 with an automatic ground collision avoidance system (GCAS).

Source: P. Heidlauf, A. Collins, M. Bolender and S. Bak, *Verification Challenges in F-16 Ground
Collision Avoidance and Other Automated Maneuvers*, ARCH 2018. Gains, equilibrium and thresholds are
the numbers in the authors' program AeroBenchVVPython.

The falsification competition ARCH-COMP asks whether this aircraft stays above the ground after a
dive. ``docs/f16-gcas.md`` describes the benchmark.
"""

from __future__ import annotations

import math
from fractions import Fraction

import rtsim as rt
from rtsim.core.tag import Duration, Period, exact_seconds
from rtsim.models.f16.controller import limited
from rtsim.models.f16.stevens_lewis import AREA_PER_MASS, GRAVITY, StevensLewis
from rtsim.models.units import DEG

STANDBY, ROLL, PULL = 0.0, 1.0, 2.0
"""Modes of the autopilot: no command, level the wings, pull up."""
DECISIONS = 30
"""Rate at which the autopilot changes its mode, Hz."""

_AHEAD = 15.0
"""Distance of the accelerometers ahead of the centre of mass, ft."""
_ALPHA, _POWER = 0.0389, 9.0567
"""Equilibrium at 502 ft/s and 1000 ft: angle of attack (rad) and power (%)."""
_THROTTLE, _ELEVATOR = 0.1395, -0.7496
"""Controls of the equilibrium: throttle, and elevator (deg)."""
_E_ALPHA, _E_PITCH, _E_LOAD = -156.8801506723475, -31.037008068526642, -38.72983346216317
_A_BETA, _A_ROLL, _A_YAW, _A_TURN, _A_SIDE = 37.84483, -25.40956, -6.82876, -332.88343, -17.15997
_R_BETA, _R_ROLL, _R_YAW, _R_TURN, _R_SIDE = -23.91233, 5.69968, -21.63431, 64.49490, -88.36203
"""Gains of the regulator: elevator, aileron and rudder (deg) per rad, rad/s and integrated error.
"""
_ELEVATOR_MOST, _AILERON_MOST, _RUDDER_MOST = 25.0, 21.5, 30.0
_WINGS_LEVEL, _ROLL_STOPPED = 5.0 * DEG, 10.0 * DEG
_PER_ROLL, _PER_ROLL_RATE = 4.0, 2.0  # 1/s, 1
_PULL_LOAD, _PULL_LEAST = 5.0, 2.0  # g, s


class SensedF16(StevensLewis, name="f16_gcas"):
    """The F-16 of Stevens and Lewis, with the accelerometers of the flight controller."""

    load_increment = rt.output(description="load factor ahead of the centre of mass, minus 1, g")
    side_yaw = rt.output(description="lateral load factor (g) plus yaw rate (rad/s)")
    flight_path = rt.output("rad", kind="angle", description="pitch minus angle of attack")

    def outputs(self) -> None:
        _, pressure, _, cy, cz, cl, cm, cn = self.loads()
        _, up, right = self.turning(pressure, cl, cm, cn)
        force = AREA_PER_MASS * pressure
        self.load_increment = -(force * cz - _AHEAD * up) / GRAVITY - 1.0
        self.side_yaw = (force * cy + _AHEAD * right) / GRAVITY + self.yaw_rate
        self.flight_path = self.pitch - self.alpha


class GroundAvoidance(rt.Controller, compile=True):
    """Autopilot that levels the wings and pulls up, with its inner control loop."""

    alpha = rt.input("rad", kind="angle")
    beta = rt.input("rad", kind="angle")
    roll = rt.input("rad", kind="angle")
    flight_path = rt.input("rad", kind="angle")
    roll_rate = rt.input("rad/s")
    pitch_rate = rt.input("rad/s")
    yaw_rate = rt.input("rad/s")
    altitude = rt.input("ft")
    load_increment = rt.input()
    side_yaw = rt.input()
    throttle = rt.output("1", initial=_THROTTLE, low=0.0, high=1.0)
    elevator = rt.output("deg", initial=_ELEVATOR)
    aileron = rt.output("deg")
    rudder = rt.output("deg")
    mode = rt.output(
        initial=ROLL, low=0.0, high=2.0, description="0 standby, 1 level the wings, 2 pull up"
    )
    active = rt.memory(initial=ROLL, description="mode")
    ticks = rt.memory(description="number of the present tick")
    pulled = rt.memory(description="tick at which the pull-up began")
    load_sum = rt.memory("s", description="integrated error of the load factor")
    turn_sum = rt.memory("rad", description="integrated error of the roll rate")
    side_sum = rt.memory("s", description="integrated error of the lateral acceleration")
    period = rt.parameter("s", 1.0 / 240.0, low=1e-6, description="of its ticks")
    decides = rt.parameter("1", 8.0, low=1.0, description="ticks between two decisions")
    deck = rt.parameter("ft", 1000.0, description="altitude below which a dive ends the standby")

    def decide(self) -> None:
        turns = self.roll / (2.0 * math.pi)
        bank = 2.0 * math.pi * (turns - math.floor(turns + 0.5))
        climbs = self.flight_path > 0.0
        if self.active == STANDBY:
            if self.altitude < self.deck and not climbs:
                self.active = ROLL
        elif self.active == ROLL:
            if abs(bank) < _WINGS_LEVEL and abs(self.roll_rate) < _ROLL_STOPPED:
                self.active, self.pulled = PULL, self.ticks
        elif climbs and (self.ticks - self.pulled) * self.period > _PULL_LEAST - 1e-9:
            self.active = STANDBY

    def step(self) -> None:
        if self.ticks % self.decides < 0.5:
            self.decide()
        self.ticks += 1.0
        load, turn = 0.0, 0.0
        if self.active == ROLL:
            turns = self.roll / (2.0 * math.pi)
            bank = 2.0 * math.pi * (turns - math.floor(turns + 0.5))
            turn = -_PER_ROLL * bank - _PER_ROLL_RATE * self.roll_rate
        elif self.active == PULL:
            load = _PULL_LOAD

        alpha, beta = self.alpha - _ALPHA, self.beta
        roll, pitch, yaw = self.roll_rate, self.pitch_rate, self.yaw_rate
        elevator = -(_E_ALPHA * alpha + _E_PITCH * pitch + _E_LOAD * self.load_sum)
        aileron = -(
            _A_BETA * beta + _A_ROLL * roll + _A_YAW * yaw
            + _A_TURN * self.turn_sum + _A_SIDE * self.side_sum
        )  # fmt: skip
        rudder = -(
            _R_BETA * beta + _R_ROLL * roll + _R_YAW * yaw
            + _R_TURN * self.turn_sum + _R_SIDE * self.side_sum
        )  # fmt: skip
        self.throttle = _THROTTLE
        self.elevator = limited(elevator + _ELEVATOR, -_ELEVATOR_MOST, _ELEVATOR_MOST)
        self.aileron = limited(aileron, -_AILERON_MOST, _AILERON_MOST)
        self.rudder = limited(rudder, -_RUDDER_MOST, _RUDDER_MOST)
        self.mode = self.active

        # As in the source, the roll rate about the velocity uses the deviation of alpha.
        about = roll * math.cos(alpha) + yaw * math.sin(alpha)
        self.load_sum += self.period * (self.load_increment - load)
        self.turn_sum += self.period * (about - turn)
        self.side_sum += self.period * self.side_yaw


SENSED = GroundAvoidance.signals("input").names
SURFACES = ("throttle", "elevator", "aileron", "rudder")


def scenario(
    altitude: float = 2330.0,
    speed: float = 540.0,
    roll: float = 0.25 * math.pi,
    pitch: float = -0.4 * math.pi,
    yaw: float = -0.25 * math.pi,
    engaged: bool = True,
    rate: float = 240.0,
    latency: float = 0.0,
    until: Duration = 15,
) -> rt.Scenario:
    """Begin in a dive with a bank angle, and let the ground collision avoidance recover.

    Args:
        altitude: initial altitude, ft.
        speed: initial airspeed, ft/s.
        roll: initial roll angle, rad.
        pitch: initial pitch angle, rad.
        yaw: initial yaw angle, rad.
        engaged: False begins in standby: the recovery begins below 1000 ft only.
        rate: rate of the controller, a multiple of 30 Hz.
        latency: transport latency of the controller's commands, s.
        until: end of the run, s.
    """
    ticks = exact_seconds(rate, "rate") / DECISIONS
    if ticks.denominator != 1 or ticks < 1:
        raise rt.ScenarioError(f"rate {rate:g} Hz is no multiple of {DECISIONS} Hz; give 240")
    out = rt.Scenario("F-16 ground collision avoidance", until=until)
    period = Period(Fraction(1_000_000_000, DECISIONS) / ticks)
    f16 = out.plant(
        "f16",
        SensedF16(
            airspeed=speed, alpha=2.1215 * DEG, altitude=altitude, roll=roll, pitch=pitch, yaw=yaw
        ),
        step=period,
    )
    mode = ROLL if engaged else STANDBY
    gcas = out.controller(
        "gcas",
        GroundAvoidance(period=1.0 / rate, decides=float(ticks), active=mode, mode=mode),
        period=period,
        transport=rt.Fixed(latency),
    )
    for name in SENSED:
        out.connect(f"{f16}.{name}", f"{gcas}.{name}")
    for name in SURFACES:
        out.connect(f"{gcas}.{name}", f"{f16}.{name}")
    out.require("F16", "always[0, 15] f16.altitude > 0 ft", "The aircraft stays above the ground.")
    out.plot("altitude [ft]", "f16.altitude")
    out.plot("roll and pitch [rad]", "f16.roll", "f16.pitch")
    out.plot("load factor minus 1 [g]", "f16.load_increment")
    out.plot("surfaces [deg]", "f16.elevator", "f16.aileron", "f16.rudder")
    out.plot("mode", "gcas.mode")
    return out
