"""Fly-by-wire controller with autopilot, in which the stick commands load factor and roll rate.

NASA's controller is unsuitable for a pilot, because it returns the aircraft to its trim against the
stick. This controller has three parts:

- **Load factor.** The target pitch acceleration is ``CAP (n_c - n) + (L - 2 zeta omega) da/dt``. If
  ``dn/dt = n_alpha da/dt`` and ``omega**2 = CAP n_alpha``, the load factor ``n`` follows the
  commanded load factor ``n_c`` like a second-order system of frequency ``omega`` and damping
  ``zeta``. ``CAP`` is the control anticipation parameter of MIL-F-8785C. ``L = n_alpha g / V``.
- **Angle of attack.** Two more second-order systems keep the angle of attack within its limits.
  These two systems limit the commanded pitch acceleration.
- **Surfaces.** Elevator and aileron change in proportion to the error of the angular acceleration.
  The controller adds this change to the measured angle of the control surface. The measured angles
  and accelerations pass through equal filters (incremental dynamic inversion). The controller
  therefore has integral action without an integrator that could wind up.

The roll command of the stick is a rate about the direction of flight. At large angles of attack,
the roll rate is reduced to keep control power in pitch. With the stick centred, the aircraft flies
straight, and holds its altitude in turns up to 45 deg of bank.

With the gear down, the limit of the angle of attack is lower, so that the tail does not strike the
runway. On the ground, the stick moves elevator and ailerons directly.

The autopilot has independent modes for altitude, heading and speed. A mode engages when its input
rises from 0 to 1. The pilot disengages a mode with its input, with the stick or with the throttle;
large angles and the ground also disengage it. To engage a mode again, its input must first fall to
0.

At the engagement, the commands begin at their present values, so that the aircraft does not jerk. A
mode holds the altitude, heading or speed that the aircraft would reach within two seconds.
"""

from __future__ import annotations

import math
from dataclasses import replace

import rtsim as rt
from rtsim.equations.compiling import compiled
from rtsim.models.f16.controller import limited
from rtsim.models.f16.stevens_lewis import throttle_gearing
from rtsim.models.units import DEG

BREAKOUT = 0.15
"""Deflection of the stick that disengages altitude and heading hold."""
LEVER_MOVED = 0.05
"""Movement of the throttle that disengages the speed hold."""
LARGEST_ROLL, LARGEST_PITCH = 65.0, 45.0
"""Angles (deg) beyond which altitude and heading hold disengage."""
MOST_BANK, MOST_CLIMB = 30.0, 12.0
"""Largest bank angle (deg) and vertical speed (m/s) that the autopilot commands."""
_G = 9.80665
_CAPTURE = 2.0  # s
_CLIMB_PER_M, _CLIMB_TIME, _MOST_LOAD, _LOAD_SLEW = 0.25, 1.5, 0.5, 0.7  # 1/s, s, g, g/s
_TURN_TIME, _BANK_TIME, _MOST_ROLL, _ROLL_SLEW = 4.0, 1.2, 0.3, 0.6  # s, s, rad/s, rad/s2
_POWER_PER_MS, _POWER_SUMS, _POWER_SLEW = 5.0, 0.8, 15.0  # % s/m, %/m, %/s
_LAG = 0.5  # s
_SLOWEST = 30.0


_PRESSURE = 13400.0  # dynamic pressure for the next constants, Pa
_LEAST, _MOST = 0.2, 4.0
_ELEVATOR_PER_DEG, _AILERON_PER_DEG = -0.177, -0.686  # rad/s2 per deg at _PRESSURE
_LIFT = 16.0  # n_alpha at _PRESSURE, g/rad
_OMEGA, _ZETA = 4.0, 0.85
_CORRECTS, _CORRECTION = 1.5, 0.4  # 1/s, g
_ALPHA_OMEGA, _ALPHA_ZETA = 3.0, 0.9
_FILTER = 0.1  # time constant of the filters, s
_ROLL_TIME = 0.3  # time constant of the roll rate, s
_ROLL_ALPHA, _ROLL_ALPHA_BAND, _ROLL_LEAST = 10.0, 12.0, 0.25
_ROLL_BELOW, _ROLL_BELOW_BAND = -2.0, 6.0
_ROLL_PRESSURE, _ROLL_SLOW = 10_000.0, 0.3
_ROLL_PITCHING = 0.4
_R, _SIDESLIP, _AILERON_YAW, _COUPLED = 36.0, 40.0, -0.5, 11.7
_ELEVATOR, _AILERON, _RUDDER = 24.0, 21.5, 30.0
_BANKED, _LEVEL = 0.7, 0.4
_CARRIED = 0.2  # wheel load / weight above which the stick is direct
_FALLS, _FALLS_BAND = 3.0, 4.0  # deg/s
_ROTATES, _ROTATES_BAND, _ROTATES_RATE = 12.0, 4.0, 0.7  # deg, deg, s


@compiled
def towards(now: float, wanted: float, most: float) -> float:
    """Return ``now``, changed towards ``wanted`` by at most ``most``."""
    return now + limited(wanted - now, -most, most)


@compiled
def around(angle: float) -> float:
    """Return an angle (rad) in the range -pi to pi."""
    return angle - 2.0 * math.pi * math.floor(angle / (2.0 * math.pi) + 0.5)


@compiled
def switched(held: float, before: float, asked: float, free: bool) -> tuple[float, float, bool]:
    """Return the state and the input of an autopilot mode, and whether the mode engages now.

    ``held`` is the previous state of the mode, and ``before`` is the previous value of its input.
    ``free`` is False if a condition disengages the mode.
    """
    on = asked > 0.5
    rises = on and before < 0.5
    now = 1.0 if on else 0.0
    if not (on and free):
        return 0.0, now, False
    return (1.0 if rises else held), now, rises


@compiled
def level_load(roll: float, pitch: float) -> float:
    """Return the load factor (g) for level flight: 1/cos(roll), reduced above 45 deg."""
    c = math.cos(roll)
    if c > _BANKED:
        c = 1.0 / c
    elif c > 0.0:
        c /= _BANKED * _BANKED
    return c * math.cos(pitch)


@compiled
def roll_share(alpha: float, pressure: float, stick: float) -> float:
    """Return the fraction of the full roll rate that leaves enough control power in pitch.

    ``alpha`` is in deg, ``pressure`` is the dynamic pressure in Pa, and ``stick`` is the pitch
    stick.
    """
    above = (alpha - _ROLL_ALPHA) / _ROLL_ALPHA_BAND
    below = (_ROLL_BELOW - alpha) / _ROLL_BELOW_BAND
    slow = limited(pressure / _ROLL_PRESSURE, _ROLL_SLOW, 1.0)
    pitching = 1.0 - _ROLL_PITCHING * abs(stick)
    return pitching * slow * limited(1.0 - max(above, below), _ROLL_LEAST, 1.0)


@compiled
def rotation(stick: float, alpha: float, pitch_rate: float) -> float:
    """Return the elevator angle (deg) on the ground for the pitch stick ``stick``.

    An aft stick raises the nose to an angle of attack of about 12 deg, at which the tail stays
    clear of the ground. The nose falls at most at about 4 deg/s, to protect the nose leg.
    ``pitch_rate`` is in rad/s.
    """
    if stick > 0.0:
        room = (_ROTATES - (alpha + _ROTATES_RATE * pitch_rate) / DEG) / _ROTATES_BAND
        stick *= limited(room, -0.5, 1.0)
    stick += limited((-_FALLS - pitch_rate / DEG) / _FALLS_BAND, 0.0, 1.0)
    return -_ELEVATOR * stick


class ByWire(rt.Controller, compile=True):
    """Controller that computes surface angles (deg) and power (%) from the stick."""

    stick_pitch = rt.input(low=-1.0, high=1.0, description="aft is positive: nose up")
    stick_roll = rt.input(low=-1.0, high=1.0, description="right is positive")
    stick_yaw = rt.input(low=-1.0, high=1.0, description="nose right is positive")
    stick_throttle = rt.input(low=0.0, high=1.0)
    stick_ap_altitude = rt.input(low=0.0, high=1.0, description="1 holds the altitude")
    stick_ap_heading = rt.input(low=0.0, high=1.0, description="1 holds the heading")
    stick_ap_speed = rt.input(low=0.0, high=1.0, description="1 holds the equivalent airspeed")
    stick_brake = rt.input(low=0.0, high=1.0, description="of the main wheels")
    stick_gear = rt.input(low=0.0, high=1.0, description="1 extends the landing gear")
    airspeed = rt.input("m/s")
    dynamic_pressure = rt.input("Pa")
    alpha = rt.input("rad", kind="angle")
    beta = rt.input("rad", kind="angle")
    roll = rt.input("rad", kind="angle")
    pitch = rt.input("rad", kind="angle")
    roll_rate = rt.input("rad/s")
    pitch_rate = rt.input("rad/s")
    yaw_rate = rt.input("rad/s")
    load_factor = rt.input()
    elevator_angle = rt.input("deg")
    aileron_angle = rt.input("deg")
    yaw = rt.input("rad", kind="angle")
    altitude = rt.input("m")
    velocity_down = rt.input("m/s")
    equivalent_airspeed = rt.input("m/s")
    wheel_load = rt.input()
    elevator = rt.output("deg")
    aileron = rt.output("deg")
    rudder = rt.output("deg")
    power = rt.output("%", low=0.0, high=100.0)
    autopilot = rt.output(low=0.0, high=7.0, description="1 altitude, 2 heading, 4 speed is held")
    filtered_elevator = rt.memory("deg", description="filtered angle", name="elevator")
    filtered_aileron = rt.memory("deg", description="filtered angle", name="aileron")
    filtered_pitch_rate = rt.memory("rad/s", description="filtered", name="pitch_rate")
    filtered_roll_rate = rt.memory("rad/s", description="filtered", name="roll_rate")
    expected = rt.memory("g", 1.0, description="load factor that should be reached now")
    correction = rt.memory("g", description="added to the command, from its integrated error")
    holds_altitude = rt.memory(description="1 while the mode is engaged")
    holds_heading = rt.memory()
    holds_speed = rt.memory()
    asked_altitude = rt.memory(description="the mode's last input")
    asked_heading = rt.memory()
    asked_speed = rt.memory()
    altitude_held = rt.memory("m")
    heading_held = rt.memory("rad")
    speed_held = rt.memory("m/s", description="equivalent airspeed")
    climb_load = rt.memory("g", description="commanded load factor beyond that of level flight")
    bank_rate = rt.memory("rad/s", description="commanded roll rate")
    power_held = rt.memory("%", description="commanded power")
    power_sum = rt.memory("%", description="integrated error of the speed")
    lever = rt.memory(description="throttle when the speed hold engaged")
    fading = rt.memory(description="1 while the power goes back to the throttle")
    speed_lagged = rt.memory("m/s", description="equivalent airspeed behind a lag")
    period = rt.parameter("s", 0.01, low=1e-6, description="of its ticks")
    pull = rt.parameter("1", 6.0, description="g beyond 1 at full aft stick")
    push = rt.parameter("1", 2.5, description="g below 1 at full forward stick")
    load_highest = rt.parameter("g", 7.0)
    load_lowest = rt.parameter("g", -2.5)
    roll_rate_full = rt.parameter("rad/s", 3.0, description="at full stick")
    alpha_highest = rt.parameter("deg", 22.0)
    alpha_lowest = rt.parameter("deg", -8.0)
    weight = rt.parameter("g", 1.0, description="load factor that carries the aircraft")
    alpha_gear = rt.parameter("deg", 15.0, description="highest, with the gear lever down")

    def engage(self, wheels: bool) -> tuple[bool, bool, bool]:
        """Engage and disengage the autopilot modes; return which modes engage now."""
        level = abs(self.roll) < LARGEST_ROLL * DEG and abs(self.pitch) < LARGEST_PITCH * DEG
        upright = level and not wheels
        free_pitch = abs(self.stick_pitch) < BREAKOUT and upright
        free_roll = abs(self.stick_roll) < BREAKOUT and upright
        free_lever = not wheels
        held = self.holds_speed > 0.5
        if held and abs(self.stick_throttle - self.lever) > LEVER_MOVED:
            free_lever = False
        self.holds_altitude, self.asked_altitude, new_altitude = switched(
            self.holds_altitude, self.asked_altitude, self.stick_ap_altitude, free_pitch
        )
        self.holds_heading, self.asked_heading, new_heading = switched(
            self.holds_heading, self.asked_heading, self.stick_ap_heading, free_roll
        )
        self.holds_speed, self.asked_speed, new_speed = switched(
            self.holds_speed, self.asked_speed, self.stick_ap_speed, free_lever
        )
        if held and self.holds_speed < 0.5:
            self.fading = 1.0
        return new_altitude, new_heading, new_speed

    def hold_altitude(self, new: bool, banked: float, present: float) -> float:
        """Return the commanded load factor (g) relative to that of the centred stick.

        ``banked`` (g) is the load factor for level flight, relative to that of the centred stick.
        ``present`` (g) is the commanded load factor without the autopilot.
        """
        climb = -self.velocity_down
        if new:
            self.altitude_held = self.altitude + _CAPTURE * climb
            self.climb_load = present
        error = self.altitude_held - self.altitude
        wanted = limited(_CLIMB_PER_M * error, -MOST_CLIMB, MOST_CLIMB)
        load = limited((wanted - climb) / (_CLIMB_TIME * _G), -_MOST_LOAD, _MOST_LOAD)
        self.climb_load = towards(self.climb_load, load + banked, _LOAD_SLEW * self.period)
        return self.climb_load

    def hold_heading(self, new: bool, speed: float, present: float) -> float:
        """Return the commanded roll rate (rad/s); ``speed`` is in m/s.

        ``present`` (rad/s) is the commanded roll rate without the autopilot.
        """
        fast = max(speed, _SLOWEST)
        if new:
            turning = _G * math.tan(limited(self.roll, -1.2, 1.2)) / fast
            self.heading_held = around(self.yaw + _CAPTURE * turning)
            self.bank_rate = present
        error = around(self.heading_held - self.yaw)
        most = MOST_BANK * DEG
        bank = limited(math.atan(error * fast / (_G * _TURN_TIME)), -most, most)
        rate = limited((bank - self.roll) / _BANK_TIME, -_MOST_ROLL, _MOST_ROLL)
        self.bank_rate = towards(self.bank_rate, rate, _ROLL_SLEW * self.period)
        return self.bank_rate

    def hold_speed(self, new: bool) -> float:
        """Return the commanded power (%) of the speed mode, or of the throttle."""
        speed = self.equivalent_airspeed
        by_lever = throttle_gearing(limited(self.stick_throttle, 0.0, 1.0))
        power = by_lever
        if self.speed_lagged == 0.0:
            self.speed_lagged = speed
        gains = (speed - self.speed_lagged) / _LAG
        self.speed_lagged += min(1.0, self.period / _LAG) * (speed - self.speed_lagged)
        if self.holds_speed > 0.5:
            if new:
                now = self.power_held if self.fading > 0.5 else by_lever
                self.speed_held = speed + _CAPTURE * gains
                self.power_sum = now - _POWER_PER_MS * _CAPTURE * gains
                self.lever = self.stick_throttle
                self.fading = 0.0
            error = self.speed_held - speed
            power = self.power_sum + _POWER_PER_MS * error
            if 0.0 < power < 100.0:
                self.power_sum += self.period * _POWER_SUMS * error
            power = limited(power, 0.0, 100.0)
        elif self.fading > 0.5:
            power = towards(self.power_held, by_lever, _POWER_SLEW * self.period)
            if power == by_lever:
                self.fading = 0.0
        self.power_held = power
        return power

    def step(self) -> None:
        speed, roll, pitch = max(self.airspeed, _SLOWEST), self.roll, self.pitch
        flows = limited((self.airspeed - 0.5 * _SLOWEST) / _SLOWEST, 0.0, 1.0)
        alpha, beta = flows * self.alpha, flows * self.beta
        roll_rate, pitch_rate, load = self.roll_rate, self.pitch_rate, self.load_factor
        share = limited(_PRESSURE / max(self.dynamic_pressure, 1.0), _LEAST, _MOST)
        sine, cosine = math.sin(alpha), math.cos(alpha)
        wheels = self.wheel_load > _CARRIED
        new_altitude, new_heading, new_speed = self.engage(wheels)

        level = math.cos(pitch) * math.cos(roll)
        lift = _LIFT / share
        fall = lift * _G / speed
        weight = (level - load) * cosine + math.sin(pitch) * sine
        alpha_rate = pitch_rate - beta * roll_rate + _G / speed * weight
        climb = self.stick_pitch * (self.pull if self.stick_pitch > 0.0 else self.push)
        if self.holds_altitude > 0.5:
            banked = math.cos(pitch) / max(math.cos(roll), _LEVEL) - level_load(roll, pitch)
            climb = self.hold_altitude(new_altitude, self.weight * banked, climb)
        lowest_load, highest_load = self.load_lowest, self.load_highest
        wanted = limited(self.weight * level_load(roll, pitch) + climb, lowest_load, highest_load)
        error = limited(wanted + self.correction, lowest_load, highest_load) - load
        omega = _OMEGA / math.sqrt(math.sqrt(share))
        turn_up = omega * omega / lift * error + (fall - 2.0 * _ZETA * omega) * alpha_rate
        slow = (fall - 2.0 * _ALPHA_ZETA * _ALPHA_OMEGA) * alpha_rate
        stiff = _ALPHA_OMEGA * _ALPHA_OMEGA
        alpha_most = self.alpha_gear if self.stick_gear > 0.5 else self.alpha_highest
        highest = stiff * (alpha_most * DEG - alpha) + slow
        lowest = stiff * (self.alpha_lowest * DEG - alpha) + slow
        allowed = limited(turn_up, lowest, highest)
        pitch_up = (pitch_rate - self.filtered_pitch_rate) / _FILTER
        unlimited = self.filtered_elevator + share / _ELEVATOR_PER_DEG * (allowed - pitch_up)
        elevator = limited(unlimited, -_ELEVATOR, _ELEVATOR)
        if wheels:
            elevator = rotation(self.stick_pitch, alpha, pitch_rate)
            self.expected, self.correction = load, 0.0
        elif allowed == turn_up and elevator == unlimited:
            self.expected += min(1.0, self.period * omega / (2.0 * _ZETA)) * (
                wanted - self.expected
            )
            corrects = self.correction + self.period * _CORRECTS * (self.expected - load)
            self.correction = limited(corrects, -_CORRECTION, _CORRECTION)
        else:
            self.expected = load

        asked = self.stick_roll * self.roll_rate_full
        asked *= roll_share(alpha / DEG, self.dynamic_pressure, self.stick_pitch)
        if self.holds_heading > 0.5:
            asked = self.hold_heading(new_heading, speed, asked)
        turn_right = (asked * cosine - roll_rate) / _ROLL_TIME
        roll_up = (roll_rate - self.filtered_roll_rate) / _FILTER
        aileron = self.filtered_aileron + share / _AILERON_PER_DEG * (turn_right - roll_up)
        if wheels:
            aileron, beta, roll = -_AILERON * self.stick_roll, 0.0, 0.0
        aileron = limited(aileron, -_AILERON, _AILERON)

        turning = _G / speed * math.sin(roll) * math.cos(pitch)
        yaw_rate = roll_rate * sine / max(cosine, 0.2) + turning
        rudder = math.sqrt(share) * _R * (self.yaw_rate - yaw_rate) - share * _SIDESLIP * beta
        rudder -= _RUDDER * self.stick_yaw
        rudder += _AILERON_YAW * aileron - share * _COUPLED * roll_rate * pitch_rate

        part = min(1.0, self.period / _FILTER)
        self.filtered_elevator += part * (self.elevator_angle - self.filtered_elevator)
        self.filtered_aileron += part * (self.aileron_angle - self.filtered_aileron)
        self.filtered_pitch_rate += part * (pitch_rate - self.filtered_pitch_rate)
        self.filtered_roll_rate += part * (roll_rate - self.filtered_roll_rate)
        self.elevator = elevator
        self.aileron = aileron
        self.rudder = limited(rudder, -_RUDDER, _RUDDER)
        self.power = self.hold_speed(new_speed)
        modes = self.holds_altitude + 2.0 * self.holds_heading + 4.0 * self.holds_speed
        self.autopilot = modes


BY_WIRE_INPUTS = ByWire.signals("input")
_STICK = "stick_"
STICK = rt.Signals(
    *(
        replace(s, name=s.name.removeprefix(_STICK))
        for s in BY_WIRE_INPUTS
        if s.name.startswith(_STICK)
    )
)
FEEDBACK = rt.Signals(*(s for s in BY_WIRE_INPUTS if not s.name.startswith(_STICK)))
