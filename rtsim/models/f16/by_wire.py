"""A fly-by-wire controller: the stick commands load factor and roll rate, not surface angles.

NASA's controller is not suitable for a pilot, because it works against the stick and returns the
aircraft to the trim.  The gains are designed for 335 kt at 10,000 ft and vary with the inverse of
dynamic pressure.  The structure is that of Stevens, Lewis and Johnson, "Aircraft Control and
Simulation", section 4.5 (normal acceleration command augmentation).  With the stick centred, the
aircraft flies straight, and it holds its altitude in turns up to 45 deg of bank.
"""

from __future__ import annotations

import math

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.models.f16.controller import PILOT, limited
from rtsim.models.f16.plant import CONTROLS, F16
from rtsim.models.units import DEG

STICK = Signals(
    Signal("pitch", low=-1.0, high=1.0, description="aft is positive: nose up"),
    Signal("roll", low=-1.0, high=1.0, description="right is positive"),
    Signal("yaw", low=-1.0, high=1.0, description="nose right is positive"),
    PILOT["throttle"],
)
FEEDBACK = Signals(
    *(
        F16.outputs[name]
        for name in (
            "airspeed", "dynamic_pressure", "alpha", "beta", "roll", "pitch",
            "roll_rate", "pitch_rate", "yaw_rate",
        )
    )
)  # fmt: skip
BY_WIRE_INPUTS = STICK.prefixed("stick_") + FEEDBACK
BY_WIRE_OUTPUTS = Signals(*(Signal(s.name, s.unit, low=s.low, high=s.high) for s in CONTROLS))
BY_WIRE_MEMORY = Signals(Signal("elevator_integral", "deg"))
BY_WIRE_PARAMETERS = Signals(
    Signal("period", "s", initial=0.01, low=1e-6, description="of its ticks"),
    Signal("elevator_trim", "deg"),
    Signal("pull", initial=6.0, description="g beyond 1 at full aft stick"),
    Signal("push", initial=2.5, description="g below 1 at full forward stick"),
    Signal("roll_rate_full", "rad/s", initial=3.0, description="at full stick"),
    Signal("alpha_limit", "deg", initial=22.0),
)

_G = 9.80665
_PRESSURE = 13400.0  # dynamic pressure for which the gains are designed, Pa
_LEAST, _MOST = 0.25, 3.0
_Q, _Q_INTEGRAL, _Q_FASTEST = 28.0, 50.0, 0.6
_P, _P_AHEAD = 3.0, 4.9
_R, _SIDESLIP = 20.0, 40.0
_ALPHA_BAND = 9.0
_ELEVATOR, _AILERON, _RUDDER = 24.0, 21.5, 30.0
_BANKED = 0.7
_SLOWEST = 30.0


@compiled
def level_load(roll: float, pitch: float) -> float:
    """Return the load factor, g, that holds the altitude: 1/cos(roll), reduced above 45 deg."""
    c = math.cos(roll)
    if c > _BANKED:
        c = 1.0 / c
    elif c > 0.0:
        c /= _BANKED * _BANKED
    return c * math.cos(pitch)


def by_wire(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Compute surface angles (deg) and power (%); the step function of the controller.

    ``u`` (13,) is ``BY_WIRE_INPUTS``, ``s`` (1,) ``BY_WIRE_MEMORY``, ``p`` (6,)
    ``BY_WIRE_PARAMETERS``, ``y`` (4,) ``BY_WIRE_OUTPUTS``.
    """
    speed, alpha, beta, roll, pitch = max(u[4], _SLOWEST), u[6], u[7], u[8], u[9]
    share = limited(_PRESSURE / max(u[5], 1.0), _LEAST, _MOST)

    load = level_load(roll, pitch) + u[0] * (p[2] if u[0] > 0.0 else p[3])
    rate = _G / speed * (load - math.cos(pitch) * math.cos(roll))
    highest = _Q_FASTEST * limited((p[5] - alpha / DEG) / _ALPHA_BAND, -1.0, 1.0)
    error = u[11] - limited(rate, -_Q_FASTEST, highest)
    wanted = p[1] + share * (_Q * error + s[0])
    elevator = limited(wanted, -_ELEVATOR, _ELEVATOR)
    if elevator == wanted or wanted * error < 0.0:  # anti-windup at the elevator's limit
        s[0] += p[0] * _Q_INTEGRAL * error

    roll_rate = u[1] * p[4]
    aileron = share * (_P * (u[10] - roll_rate) - _P_AHEAD * roll_rate)
    turn = _G / speed * math.sin(roll) * math.cos(pitch)
    rudder = share * (_R * (u[12] - turn) - _SIDESLIP * beta) - _RUDDER * u[2]

    y[0] = elevator
    y[1] = limited(aileron, -_AILERON, _AILERON)
    y[2] = limited(rudder, -_RUDDER, _RUDDER)
    y[3] = 100.0 * limited(u[3], 0.0, 1.0)
