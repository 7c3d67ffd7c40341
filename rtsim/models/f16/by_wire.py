"""A fly-by-wire controller: the stick commands load factor and roll rate, not surface angles.

NASA's controller is not suitable for a pilot, because it works against the stick and returns the
aircraft to the trim.  This controller has three parts:

- **Load factor.**  The wanted pitch acceleration is ``CAP (n_c - n) + (L - 2 zeta omega) da/dt``.
  With ``dn/dt = n_alpha da/dt`` and ``omega**2 = CAP n_alpha``, the load factor ``n`` follows the
  command ``n_c`` as a second-order system of frequency ``omega`` and damping ``zeta``.  ``CAP`` is
  the control anticipation parameter of MIL-F-8785C.  ``L = n_alpha g / V``.
- **Angle of attack.**  Two second-order laws of the same form lead to the upper and the lower limit
  of the angle of attack.  They bound the wanted pitch acceleration from above and below.
- **Surfaces.**  Elevator and aileron change by the difference between the wanted and the filtered
  angular acceleration, divided by the effectiveness of the surface.  The starting point is the
  measured angle of the surface behind the same filter (incremental dynamic inversion).  The law
  therefore has integral action, and no integrator that could wind up at a limit.

The stick's roll command is a rate about the direction of flight.  It is reduced at large angles of
attack of both signs, so that the pitch axis keeps its control power.  With the stick centred, the
aircraft flies straight, and it holds its altitude in turns up to 45 deg of bank.

With the gear lever down, the upper limit of the angle of attack is lower, so that the tail does not
strike the runway.  While the wheels carry the aircraft, the stick moves elevator and ailerons
directly.  The autopilot replaces single commands.

The autopilot of the F-16 by hand: it holds altitude, heading and speed, each by itself.

A mode engages when its input rises from 0 to 1, and holds the value of that moment.  It disengages
when the input falls to 0, when the stick or the throttle is moved, at large angles of roll or
pitch, and on the ground.  After that, the input must fall to 0 and rise again.

Engagement has no bump: the commanded load factor, the commanded roll rate and the power begin at
their present values.  The held altitude, heading and speed are those that the aircraft reaches by
itself within two seconds, so that it need not turn back.
"""

from __future__ import annotations

import math

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.models.f16.aircraft import PILOTED_F16
from rtsim.models.f16.controller import PILOT, limited
from rtsim.models.f16.plant import CONTROLS
from rtsim.models.f16.stevens_lewis import throttle_gearing
from rtsim.models.units import DEG

# The autopilot of the F-16 by hand: it holds altitude, heading and speed, each by itself.

MODES = Signals(
    Signal("ap_altitude", low=0.0, high=1.0, description="1 holds the altitude"),
    Signal("ap_heading", low=0.0, high=1.0, description="1 holds the heading"),
    Signal("ap_speed", low=0.0, high=1.0, description="1 holds the equivalent airspeed"),
)
"""The inputs of the autopilot, 0 or 1."""
HOLDS = Signals(
    Signal("holds_altitude", description="1 while the mode is engaged"),
    Signal("holds_heading"),
    Signal("holds_speed"),
    Signal("asked_altitude", description="the mode's last input"),
    Signal("asked_heading"),
    Signal("asked_speed"),
    Signal("altitude_held", "m"),
    Signal("heading_held", "rad"),
    Signal("speed_held", "m/s", description="equivalent airspeed"),
    Signal("climb_load", "g", description="commanded load factor beyond that of level flight"),
    Signal("bank_rate", "rad/s", description="commanded roll rate"),
    Signal("power_held", "%", description="commanded power"),
    Signal("power_sum", "%", description="integrated error of the speed"),
    Signal("lever", description="throttle when the speed hold engaged"),
    Signal("fading", description="1 while the power goes back to the throttle"),
    Signal("speed_lagged", "m/s", description="equivalent airspeed behind a lag"),
)
"""The memory of the autopilot."""

BREAKOUT = 0.15
"""Deflection of the stick that disengages altitude and heading hold."""
LEVER_MOVED = 0.05
"""Movement of the throttle that disengages the speed hold."""
LARGEST_ROLL, LARGEST_PITCH = 65.0, 45.0
"""Angles (deg) beyond which altitude and heading hold disengage."""
MOST_BANK, MOST_CLIMB = 30.0, 12.0
"""Largest bank angle (deg) and vertical speed (m/s) that the autopilot commands."""
_ALTITUDE_HOLD, _HEADING, _SPEED = 0, 1, 2
_ASKED, _HELD = 3, 6
_CLIMB_LOAD, _BANK_RATE, _POWER, _SUM, _LEVER, _FADING, _LAGGED = 9, 10, 11, 12, 13, 14, 15
_G = 9.80665
_CAPTURE = 2.0  # s
_CLIMB_PER_M, _CLIMB_TIME, _MOST_LOAD, _LOAD_SLEW = 0.25, 1.5, 0.5, 0.7  # 1/s, s, g, g/s
_TURN_TIME, _BANK_TIME, _MOST_ROLL, _ROLL_SLEW = 4.0, 1.2, 0.3, 0.6  # s, s, rad/s, rad/s2
_POWER_PER_MS, _POWER_SUMS, _POWER_SLEW = 5.0, 0.8, 15.0  # % s/m, %/m, %/s
_LAG = 0.5  # s
_SLOWEST = 30.0


@compiled
def towards(now: float, wanted: float, most: float) -> float:
    """Return ``now``, moved towards ``wanted`` by at most ``most``."""
    return now + limited(wanted - now, -most, most)


@compiled
def around(angle: float) -> float:
    """Return the same angle (rad) between -pi and pi."""
    return angle - 2.0 * math.pi * math.floor(angle / (2.0 * math.pi) + 0.5)


@compiled
def engage(
    asked_altitude: float, asked_heading: float, asked_speed: float,
    pitch_stick: float, roll_stick: float, throttle: float, roll: float, pitch: float,
    wheels: bool, s: Vector, first: int,
) -> tuple[bool, bool, bool]:  # fmt: skip
    """Engage and disengage the modes; return which of them engage now.

    ``s`` has ``HOLDS`` from element ``first`` on; ``roll`` and ``pitch`` are in rad.
    """
    upright = abs(roll) < LARGEST_ROLL * DEG and abs(pitch) < LARGEST_PITCH * DEG and not wheels
    free_pitch = abs(pitch_stick) < BREAKOUT and upright
    free_roll = abs(roll_stick) < BREAKOUT and upright
    free_lever = not wheels
    if s[first + _SPEED] > 0.5 and abs(throttle - s[first + _LEVER]) > LEVER_MOVED:
        free_lever = False
    new_altitude = _switch(s, first, _ALTITUDE_HOLD, asked_altitude, free_pitch)
    new_heading = _switch(s, first, _HEADING, asked_heading, free_roll)
    held = s[first + _SPEED] > 0.5
    new_speed = _switch(s, first, _SPEED, asked_speed, free_lever)
    if held and s[first + _SPEED] < 0.5:
        s[first + _FADING] = 1.0
    return new_altitude, new_heading, new_speed


@compiled
def _switch(s: Vector, first: int, mode: int, asked: float, free: bool) -> bool:
    """Update one mode; return whether it engages now."""
    on = asked > 0.5
    rises = on and s[first + _ASKED + mode] < 0.5
    s[first + _ASKED + mode] = 1.0 if on else 0.0
    if not (on and free):
        s[first + mode] = 0.0
        return False
    if rises:
        s[first + mode] = 1.0
    return rises


@compiled
def hold_altitude(
    new: bool, altitude: float, climb: float, banked: float, present: float, period: float,
    s: Vector, first: int,
) -> float:  # fmt: skip
    """Return the commanded load factor (g) beyond that of the centred stick.

    ``altitude`` in m, ``climb`` in m/s.  ``banked`` is the load factor that level flight needs
    beyond that of the centred stick, and ``present`` the command without the autopilot, g.
    """
    if new:
        s[first + _HELD + _ALTITUDE_HOLD] = altitude + _CAPTURE * climb
        s[first + _CLIMB_LOAD] = present
    error = s[first + _HELD + _ALTITUDE_HOLD] - altitude
    wanted = limited(_CLIMB_PER_M * error, -MOST_CLIMB, MOST_CLIMB)
    load = limited((wanted - climb) / (_CLIMB_TIME * _G), -_MOST_LOAD, _MOST_LOAD)
    wanted_load = load + banked
    s[first + _CLIMB_LOAD] = towards(s[first + _CLIMB_LOAD], wanted_load, _LOAD_SLEW * period)
    return s[first + _CLIMB_LOAD]  # type: ignore[no-any-return]


@compiled
def hold_heading(
    new: bool, heading: float, roll: float, speed: float, present: float, period: float,
    s: Vector, first: int,
) -> float:  # fmt: skip
    """Return the commanded roll rate (rad/s); angles in rad, ``speed`` in m/s.

    ``present`` is the command without the autopilot, rad/s.
    """
    fast = max(speed, _SLOWEST)
    if new:
        turning = _G * math.tan(limited(roll, -1.2, 1.2)) / fast
        s[first + _HELD + _HEADING] = around(heading + _CAPTURE * turning)
        s[first + _BANK_RATE] = present
    error = around(s[first + _HELD + _HEADING] - heading)
    most = MOST_BANK * DEG
    bank = limited(math.atan(error * fast / (_G * _TURN_TIME)), -most, most)
    rate = limited((bank - roll) / _BANK_TIME, -_MOST_ROLL, _MOST_ROLL)
    s[first + _BANK_RATE] = towards(s[first + _BANK_RATE], rate, _ROLL_SLEW * period)
    return s[first + _BANK_RATE]  # type: ignore[no-any-return]


@compiled
def hold_speed(
    new: bool, speed: float, throttle: float, by_lever: float, period: float, s: Vector, first: int
) -> float:
    """Return the commanded power, %, with or without the mode.

    ``speed`` is the equivalent airspeed, m/s; ``by_lever`` the power of the throttle, %.
    """
    power = by_lever
    if s[first + _LAGGED] == 0.0:
        s[first + _LAGGED] = speed
    gains = (speed - s[first + _LAGGED]) / _LAG
    s[first + _LAGGED] += min(1.0, period / _LAG) * (speed - s[first + _LAGGED])
    if s[first + _SPEED] > 0.5:
        if new:
            now = s[first + _POWER] if s[first + _FADING] > 0.5 else by_lever
            s[first + _HELD + _SPEED] = speed + _CAPTURE * gains
            s[first + _SUM] = now - _POWER_PER_MS * _CAPTURE * gains
            s[first + _LEVER] = throttle
            s[first + _FADING] = 0.0
        error = s[first + _HELD + _SPEED] - speed
        power = s[first + _SUM] + _POWER_PER_MS * error
        if 0.0 < power < 100.0:
            s[first + _SUM] += period * _POWER_SUMS * error
        power = limited(power, 0.0, 100.0)
    elif s[first + _FADING] > 0.5:
        power = towards(s[first + _POWER], by_lever, _POWER_SLEW * period)
        if power == by_lever:
            s[first + _FADING] = 0.0
    s[first + _POWER] = power
    return power


STICK = Signals(
    Signal("pitch", low=-1.0, high=1.0, description="aft is positive: nose up"),
    Signal("roll", low=-1.0, high=1.0, description="right is positive"),
    Signal("yaw", low=-1.0, high=1.0, description="nose right is positive"),
    PILOT["throttle"],
    *MODES,
    Signal("brake", low=0.0, high=1.0, description="of the main wheels"),
    Signal("gear", low=0.0, high=1.0, description="1 extends the landing gear"),
)
FEEDBACK = Signals(
    *(
        PILOTED_F16.outputs[name]
        for name in (
            "airspeed", "dynamic_pressure", "alpha", "beta", "roll", "pitch",
            "roll_rate", "pitch_rate", "yaw_rate", "load_factor",
        )
    ),
    *(Signal(f"{name}_angle", "deg") for name in ("elevator", "aileron")),
    *(
        PILOTED_F16.outputs[name]
        for name in ("yaw", "altitude", "velocity_down", "equivalent_airspeed", "wheel_load")
    ),
)  # fmt: skip
BY_WIRE_INPUTS = STICK.prefixed("stick_") + FEEDBACK
BY_WIRE_OUTPUTS = Signals(
    *(Signal(s.name, s.unit, low=s.low, high=s.high) for s in CONTROLS),
    Signal("autopilot", low=0.0, high=7.0, description="1 altitude, 2 heading, 4 speed is held"),
)
BY_WIRE_MEMORY = Signals(
    Signal("elevator", "deg", description="filtered angle"),
    Signal("aileron", "deg", description="filtered angle"),
    Signal("pitch_rate", "rad/s", description="filtered"),
    Signal("roll_rate", "rad/s", description="filtered"),
    Signal("expected", "g", initial=1.0, description="load factor that should be reached now"),
    Signal("correction", "g", description="added to the command, from its integrated error"),
    *HOLDS,
)
BY_WIRE_PARAMETERS = Signals(
    Signal("period", "s", initial=0.01, low=1e-6, description="of its ticks"),
    Signal("pull", initial=6.0, description="g beyond 1 at full aft stick"),
    Signal("push", initial=2.5, description="g below 1 at full forward stick"),
    Signal("load_highest", "g", initial=7.0),
    Signal("load_lowest", "g", initial=-2.5),
    Signal("roll_rate_full", "rad/s", initial=3.0, description="at full stick"),
    Signal("alpha_highest", "deg", initial=22.0),
    Signal("alpha_lowest", "deg", initial=-8.0),
    Signal("weight", "g", initial=1.0, description="load factor that carries the aircraft"),
    Signal("alpha_gear", "deg", initial=15.0, description="highest, with the gear lever down"),
)
_PRESSURE = 13400.0  # dynamic pressure of the effectiveness of the surfaces below, Pa
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
_CARRIED = 0.2  # load of the wheels over the weight from which the stick is direct
_FALLS, _FALLS_BAND = 3.0, 4.0  # deg/s
_ROTATES, _ROTATES_BAND, _ROTATES_RATE = 12.0, 4.0, 0.7  # deg, deg, s
_MODES, _GEAR, _FEEDBACK = 4, STICK.slice("gear").start, STICK.size
(
    _AIRSPEED, _PRESSURE_AT, _ALPHA, _BETA, _ROLL, _PITCH, _ROLL_RATE, _PITCH_RATE, _YAW_RATE,
    _LOAD, _ELEVATOR_ANGLE, _AILERON_ANGLE, _YAW, _ALTITUDE, _DOWN, _EQUIVALENT, _WHEELS,
) = (STICK.size + k for k in range(FEEDBACK.size))  # fmt: skip
_HOLDS = BY_WIRE_MEMORY.size - HOLDS.size


@compiled
def level_load(roll: float, pitch: float) -> float:
    """Return the load factor, g, that holds the altitude: 1/cos(roll), reduced above 45 deg."""
    c = math.cos(roll)
    if c > _BANKED:
        c = 1.0 / c
    elif c > 0.0:
        c /= _BANKED * _BANKED
    return c * math.cos(pitch)


@compiled
def roll_share(alpha: float, pressure: float, stick: float) -> float:
    """Return the share of the full roll rate that the pitch axis can bear.

    ``alpha`` is in deg, ``pressure`` the dynamic pressure in Pa, ``stick`` the pitch stick.
    """
    above = (alpha - _ROLL_ALPHA) / _ROLL_ALPHA_BAND
    below = (_ROLL_BELOW - alpha) / _ROLL_BELOW_BAND
    slow = limited(pressure / _ROLL_PRESSURE, _ROLL_SLOW, 1.0)
    pitching = 1.0 - _ROLL_PITCHING * abs(stick)
    return pitching * slow * limited(1.0 - max(above, below), _ROLL_LEAST, 1.0)


@compiled
def rotation(stick: float, alpha: float, pitch_rate: float) -> float:
    """Return the elevator (deg) for a pitch ``stick`` while the wheels carry the aircraft.

    An aft stick raises the nose to about 12 deg of the angle of attack ``alpha`` (rad), which
    leaves room for the tail.  The nose falls at about 4 deg/s at most, so that the nose leg bears
    it; ``pitch_rate`` is in rad/s.
    """
    if stick > 0.0:
        room = (_ROTATES - (alpha + _ROTATES_RATE * pitch_rate) / DEG) / _ROTATES_BAND
        stick *= limited(room, -0.5, 1.0)
    stick += limited((-_FALLS - pitch_rate / DEG) / _FALLS_BAND, 0.0, 1.0)
    return -_ELEVATOR * stick


def by_wire(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Compute surface angles (deg) and power (%); the step function of the controller.

    ``u`` (26,) is ``BY_WIRE_INPUTS``, ``s`` (22,) ``BY_WIRE_MEMORY``, ``p`` (10,)
    ``BY_WIRE_PARAMETERS``, ``y`` (5,) ``BY_WIRE_OUTPUTS``.
    """
    speed, roll, pitch = max(u[_AIRSPEED], _SLOWEST), u[_ROLL], u[_PITCH]
    flows = limited((u[_AIRSPEED] - 0.5 * _SLOWEST) / _SLOWEST, 0.0, 1.0)
    alpha, beta = flows * u[_ALPHA], flows * u[_BETA]
    roll_rate, pitch_rate, load = u[_ROLL_RATE], u[_PITCH_RATE], u[_LOAD]
    share = limited(_PRESSURE / max(u[_PRESSURE_AT], 1.0), _LEAST, _MOST)
    sine, cosine = math.sin(alpha), math.cos(alpha)
    wheels = u[_WHEELS] > _CARRIED
    new_altitude, new_heading, new_speed = engage(
        u[_MODES], u[_MODES + 1], u[_MODES + 2], u[0], u[1], u[3], roll, pitch, wheels, s, _HOLDS
    )

    level = math.cos(pitch) * math.cos(roll)
    lift = _LIFT / share
    fall = lift * _G / speed
    weight = (level - load) * cosine + math.sin(pitch) * sine
    alpha_rate = pitch_rate - beta * roll_rate + _G / speed * weight
    climb = u[0] * (p[1] if u[0] > 0.0 else p[2])
    if s[_HOLDS] > 0.5:
        banked = math.cos(pitch) / max(math.cos(roll), _LEVEL) - level_load(roll, pitch)
        climb = hold_altitude(
            new_altitude, u[_ALTITUDE], -u[_DOWN], p[8] * banked, climb, p[0], s, _HOLDS
        )
    wanted = limited(p[8] * level_load(roll, pitch) + climb, p[4], p[3])
    error = limited(wanted + s[5], p[4], p[3]) - load
    omega = _OMEGA / math.sqrt(math.sqrt(share))
    turn_up = omega * omega / lift * error + (fall - 2.0 * _ZETA * omega) * alpha_rate
    slow = (fall - 2.0 * _ALPHA_ZETA * _ALPHA_OMEGA) * alpha_rate
    stiff = _ALPHA_OMEGA * _ALPHA_OMEGA
    highest = stiff * ((p[9] if u[_GEAR] > 0.5 else p[6]) * DEG - alpha) + slow
    lowest = stiff * (p[7] * DEG - alpha) + slow
    allowed = limited(turn_up, lowest, highest)
    pitch_up = (pitch_rate - s[2]) / _FILTER
    elevator = s[0] + share / _ELEVATOR_PER_DEG * (allowed - pitch_up)
    y[0] = limited(elevator, -_ELEVATOR, _ELEVATOR)
    if wheels:
        y[0] = rotation(u[0], alpha, pitch_rate)
        s[4], s[5] = load, 0.0
    elif allowed == turn_up and y[0] == elevator:
        s[4] += min(1.0, p[0] * omega / (2.0 * _ZETA)) * (wanted - s[4])
        s[5] = limited(s[5] + p[0] * _CORRECTS * (s[4] - load), -_CORRECTION, _CORRECTION)
    else:
        s[4] = load

    asked = u[1] * p[5] * roll_share(alpha / DEG, u[_PRESSURE_AT], u[0])
    if s[_HOLDS + 1] > 0.5:
        asked = hold_heading(new_heading, u[_YAW], roll, speed, asked, p[0], s, _HOLDS)
    turn_right = (asked * cosine - roll_rate) / _ROLL_TIME
    roll_up = (roll_rate - s[3]) / _FILTER
    aileron = s[1] + share / _AILERON_PER_DEG * (turn_right - roll_up)
    if wheels:
        aileron, beta, roll = -_AILERON * u[1], 0.0, 0.0
    aileron = limited(aileron, -_AILERON, _AILERON)

    yaw_rate = roll_rate * sine / max(cosine, 0.2) + _G / speed * math.sin(roll) * math.cos(pitch)
    rudder = math.sqrt(share) * _R * (u[_YAW_RATE] - yaw_rate) - share * _SIDESLIP * beta
    rudder -= _RUDDER * u[2]
    rudder += _AILERON_YAW * aileron - share * _COUPLED * roll_rate * pitch_rate

    part = min(1.0, p[0] / _FILTER)
    s[0] += part * (u[_ELEVATOR_ANGLE] - s[0])
    s[1] += part * (u[_AILERON_ANGLE] - s[1])
    s[2] += part * (pitch_rate - s[2])
    s[3] += part * (roll_rate - s[3])
    y[1] = aileron
    y[2] = limited(rudder, -_RUDDER, _RUDDER)
    by_lever = throttle_gearing(limited(u[3], 0.0, 1.0))
    y[3] = hold_speed(new_speed, u[_EQUIVALENT], u[3], by_lever, p[0], s, _HOLDS)
    y[4] = s[_HOLDS] + 2.0 * s[_HOLDS + 1] + 4.0 * s[_HOLDS + 2]
