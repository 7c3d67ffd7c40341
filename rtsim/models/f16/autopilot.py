"""The autopilot of the F-16 by hand: it holds altitude, heading and speed, each by itself.

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
from rtsim.models.f16.controller import limited
from rtsim.models.units import DEG

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
_ALTITUDE, _HEADING, _SPEED = 0, 1, 2
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
    new_altitude = _switch(s, first, _ALTITUDE, asked_altitude, free_pitch)
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
        s[first + _HELD + _ALTITUDE] = altitude + _CAPTURE * climb
        s[first + _CLIMB_LOAD] = present
    error = s[first + _HELD + _ALTITUDE] - altitude
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
