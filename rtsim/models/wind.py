"""Wind, wind shear and turbulence as inputs of rigid bodies.

Aerodynamic loads depend on the velocity relative to the air. The method ``air_motion`` of a body
returns the motion of the air. For a ``rtsim.models.body.RigidBody``, the air rotates with the
Earth. ``in_moving_air`` adds inputs for the motion of the air to a body. With all inputs 0, the
results are exactly those of the body without these inputs.

:func:`dryden` makes the wind and turbulence of MIL-F-8785C: mean wind with shear near the ground,
and Dryden gusts.

Source: MIL-F-8785C, "Flying Qualities of Piloted Airplanes" (5 November 1980), 3.7. The intensities
above 2000 ft are read from figure 7.

The turbulence is a frozen field that passes the aircraft with the airspeed V. Each component of the
turbulence is white noise through a linear filter. At each tick, the output has exactly the
distribution of the continuous filter; between ticks, the output is constant. L is a scale length
and b the span:

    u:  1 / (1 + L/V s)
    v:  (1 + sqrt(3) L/V s) / (1 + L/V s)^2      w:  the same with its own L
    p:  1 / (1 + 4b/(pi V) s)
    q:  -(s/V) / (1 + 4b/(pi V) s) of w          r:  (s/V) / (1 + 3b/(pi V) s) of v

The specification does not fix the signs of q and r. In this module, p, q and r are the rotation
rates of the air. Loads depend on the body rates minus the rotation rates of the air. The rate q is
the negative gradient of w along the x axis.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

import rtsim as rt
from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.core.tag import Duration, Period
from rtsim.equations.compiling import compiled
from rtsim.equations.earth import from_ned
from rtsim.models.body import STILL_AIR, AirMotion, RigidBody
from rtsim.models.sampling import Sampled, sampled
from rtsim.models.units import FT

_MASS = "turbulence: velocity of the air in body axes"
_TURNS = "rotation of the air in body axes"

MOVING_AIR = "the air moves as the inputs say; its velocity and rotation are those at the centre"


class MovingAir(RigidBody):
    """Body in moving air. Every input is 0 by default.

    In moving air, the velocity relative to the air differs from the velocity over the Earth. The
    air's velocity is the sum of the wind, the shear times the altitude, and the turbulence.
    """

    wind_north = rt.input("m/s", optional=True, description="velocity of the air over the Earth")
    wind_east = rt.input("m/s", optional=True, description="positive for a wind from the west")
    wind_down = rt.input("m/s", optional=True)
    shear_north = rt.input("1/s", optional=True, description="added to the wind for each m above 0")
    shear_east = rt.input("1/s", optional=True)
    turbulence_x = rt.input("m/s", optional=True, description=_MASS)
    turbulence_y = rt.input("m/s", optional=True, description=_MASS)
    turbulence_z = rt.input("m/s", optional=True, description=_MASS)
    turbulence_roll = rt.input("rad/s", optional=True, description=_TURNS)
    turbulence_pitch = rt.input("rad/s", optional=True, description=_TURNS)
    turbulence_yaw = rt.input("rad/s", optional=True, description=_TURNS)

    def air_moves(self) -> bool:
        return (
            self.wind_north != 0.0
            or self.wind_east != 0.0
            or self.wind_down != 0.0
            or self.shear_north != 0.0
            or self.shear_east != 0.0
            or self.turbulence_x != 0.0
            or self.turbulence_y != 0.0
            or self.turbulence_z != 0.0
            or self.turbulence_roll != 0.0
            or self.turbulence_pitch != 0.0
            or self.turbulence_yaw != 0.0
        )

    def air_motion(self) -> AirMotion:
        if not self.air_moves():
            return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        c11, c12, c13, c21, c22, c23, c31, c32, c33 = self.cosines()
        sin_lat, cos_lat, altitude = self.place()
        x, y = self.position[0], self.position[1]
        across = math.sqrt(x * x + y * y)
        sin_lon, cos_lon = 0.0, 1.0
        if across > 0.0:
            sin_lon, cos_lon = y / across, x / across
        vx, vy, vz = from_ned(
            self.wind_north + self.shear_north * altitude,
            self.wind_east + self.shear_east * altitude,
            self.wind_down,
            sin_lat, cos_lat, sin_lon, cos_lon,
        )  # fmt: skip
        return (
            c11 * vx + c12 * vy + c13 * vz + self.turbulence_x,
            c21 * vx + c22 * vy + c23 * vz + self.turbulence_y,
            c31 * vx + c32 * vy + c33 * vz + self.turbulence_z,
            self.turbulence_roll,
            self.turbulence_pitch,
            self.turbulence_yaw,
        )


AIR_INPUTS = MovingAir.signals("input")


def in_moving_air(model: rt.Model) -> rt.Model:
    """Return the body ``model`` with additional inputs for the motion of the air.

    ``model`` is ``Body.model()`` of a class that derives from
    :class:`rtsim.models.body.RigidBody`. Raises :class:`ModelError` for any other model, and if
    the model already has such an input.

    Example:
        out.plant("ball", in_moving_air(SPHERE), step=0.01, inputs={"wind_east": 6.0})
    """
    taken = [name for name in AIR_INPUTS.names if name in model.inputs]
    if taken:
        raise ModelError(
            f"model {model.name} already has the inputs {', '.join(taken)}; use the model without "
            "in_moving_air()"
        )
    for body in _derived(RigidBody):
        if body.default_name() == model.name and body.model() is model:
            moving: rt.Model = _moving(body).model()
            return moving
    raise ModelError(
        f"rtsim cannot add wind to model {model.name}, because its class does not derive from "
        "RigidBody of rtsim.models.body; derive the class from RigidBody, and call "
        "self.air_motion() in its derivative"
    )


def _derived(base: type[RigidBody]) -> list[Any]:
    return [base, *(one for part in base.__subclasses__() for one in _derived(part))]


@cache
def _moving(body: Any) -> Any:
    assumptions = (MOVING_AIR if a == STILL_AIR else a for a in body.assumptions)
    known = {
        "assumptions": tuple(dict.fromkeys(assumptions)),
        "__module__": body.__module__,
        "__doc__": body.__doc__,
    }
    return type(body)(body.__name__, (MovingAir, body), known, name=body.default_name())


_LOG_EXCEEDANCE = np.log10(np.array([2e-1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6]))
_ALTITUDE_FT = np.array(
    [500.0, 1750, 3750, 7500, 15000, 25000, 35000, 45000, 55000, 65000, 75000, 80000]
)
_INTENSITY_FT_S = np.array(
    [
        [3.2, 2.2, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [4.2, 3.6, 3.3, 1.6, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [6.6, 6.9, 7.4, 6.7, 4.6, 2.7, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0],
        [8.6, 9.6, 10.6, 10.1, 8.0, 6.6, 5.0, 4.2, 2.7, 0.0, 0.0, 0.0],
        [11.8, 13.0, 16.0, 15.1, 11.6, 9.7, 8.1, 8.2, 7.9, 4.9, 3.2, 2.1],
        [15.6, 17.6, 23.0, 23.6, 22.1, 20.0, 16.0, 15.1, 12.1, 7.9, 6.2, 5.1],
        [18.7, 21.5, 28.4, 30.2, 30.7, 31.0, 25.2, 23.1, 17.5, 10.7, 8.4, 7.2],
    ]
)
"""Figure 7: intensity over altitude, one row for each probability of exceedance.

1e-2 is light, 1e-3 moderate and 1e-5 severe turbulence.
"""
_LOWEST, _LOW, _HIGH, _LOWEST_WIND = 10.0 * FT, 1000.0 * FT, 2000.0 * FT, 3.0 * FT
_SLOWEST = 1.0
_V, _W = math.sqrt(1.5), (1.0 - math.sqrt(3.0)) / math.sqrt(2.0)
_SERIES = 24

Scales = tuple[float, float, float, float]


@compiled
def _between(points: Vector, value: float) -> tuple[int, float]:
    i = 0
    for k in range(1, points.size - 1):
        if not value >= points[k]:
            break
        i = k
    return i, max(0.0, min(1.0, (value - points[i]) / (points[i + 1] - points[i])))


@compiled
def high_intensity(altitude: float, exceedance: float) -> float:
    """Return the standard deviation (m/s) of the turbulence, from figure 7 of MIL-F-8785C.

    ``altitude`` is in m. The interpolation is linear in the altitude and in the logarithm of the
    probability.
    """
    i, across = _between(_ALTITUDE_FT, altitude / FT)
    j, along = _between(-_LOG_EXCEEDANCE, -math.log10(exceedance))
    fewer = (1.0 - across) * _INTENSITY_FT_S[j, i] + across * _INTENSITY_FT_S[j, i + 1]
    more = (1.0 - across) * _INTENSITY_FT_S[j + 1, i] + across * _INTENSITY_FT_S[j + 1, i + 1]
    return FT * float((1.0 - along) * fewer + along * more)


@compiled
def scales(altitude: float, wind_20ft: float, exceedance: float) -> Scales:
    """Return the scale lengths (m) and standard deviations (m/s) of the turbulence.

    ``altitude`` is in m above the ground, ``wind_20ft`` in m/s. Below 1000 ft, the values are from
    the low-altitude model. Below 10 ft, the values are those at 10 ft. Above 2000 ft, the values
    are from the medium/high-altitude model. Between 1000 and 2000 ft, for which the specification
    has no values, the values are interpolated.
    """
    low = max(_LOWEST, min(_LOW, altitude))
    ratio = 0.177 + 0.000823 * low / FT
    length, length_w = low / math.pow(ratio, 1.2), low
    deviation_w = 0.1 * wind_20ft
    deviation = deviation_w / math.pow(ratio, 0.4)
    if altitude <= _LOW:
        return length, length_w, deviation, deviation_w
    share = min(1.0, (altitude - _LOW) / (_HIGH - _LOW))
    high = high_intensity(max(altitude, _HIGH), exceedance)
    above = 1750.0 * FT
    return (
        length + share * (above - length),
        length_w + share * (above - length_w),
        deviation + share * (high - deviation),
        deviation_w + share * (high - deviation_w),
    )


@compiled
def transition(slow: float, fast: float) -> tuple[float, float, float, float, float]:
    """Return elements 11 (and 22), 21, 31, 32 and 33 of the transition matrix over one period.

    A filter with three states computes a turbulence component and its angular rate. With unit white
    noise n:

        x1' = -a x1 + sqrt(2a) n,   x2' = a (x1 - x2),   x3' = b (component - x3)

    The component is ``_V x1 + _W x2``. ``slow`` is a * period, and ``fast`` is b * period.
    """
    e, f, d = math.exp(-slow), math.exp(-fast), fast - slow
    if abs(d) > 1.0:
        first = (e - f) / d
        second = (e * (d - 1.0) + f) / (d * d)
    else:  # series of (1 - exp(-d))/d and (d - 1 + exp(-d))/d^2, without cancellation
        first, second, term = 0.0, 0.0, 1.0
        for k in range(1, _SERIES):
            term /= k
            first += term
            second += term / (k + 1)
            term *= -d
        first *= e
        second *= e
    return e, slow * e, fast * (_V * first + _W * slow * second), fast * _W * first, f


@compiled
def stationary(slow: float, fast: float) -> tuple[float, float, float]:
    """Return the elements 13, 23 and 33 of the filter states' stationary covariance.

    :func:`transition` defines the states. Elements 11, 12 and 22 are 1, 1/2 and 1/2.
    """
    c13 = fast * (_V + 0.5 * _W) / (slow + fast)
    c23 = (slow * c13 + 0.5 * fast * (_V + _W)) / (slow + fast)
    return c13, c23, _V * c13 + _W * c23


@compiled
def _root(value: float) -> float:
    return math.sqrt(value) if value > 0.0 else 0.0


@compiled
def move_pair(x: Vector, noise: Vector, slow: float, fast: float, started: bool) -> None:
    """Advance the filter states ``x`` (3,) by one period, with the random numbers ``noise`` (3,).

    Let P be the stationary covariance and F the transition matrix. The added noise has the
    covariance P - F P F', so that P stays constant. At the first call, the states are random
    numbers with the stationary covariance P.
    """
    p13, p23, p33 = stationary(slow, fast)
    x1, x2, x3 = 0.0, 0.0, 0.0
    q11, q12, q22, q13, q23, q33 = 1.0, 0.5, 0.5, p13, p23, p33
    if started:
        f11, f21, f31, f32, f33 = transition(slow, fast)
        x1 = f11 * x[0]
        x2 = f21 * x[0] + f11 * x[1]
        x3 = f31 * x[0] + f32 * x[1] + f33 * x[2]
        b12 = f21 + 0.5 * f11
        b13 = f31 + 0.5 * f32 + f33 * p13
        b22 = 0.5 * f21 + 0.5 * f11
        b23 = 0.5 * f31 + 0.5 * f32 + f33 * p23
        b33 = f31 * p13 + f32 * p23 + f33 * p33
        q11 -= f11 * f11
        q12 -= f11 * b12
        q22 -= f21 * b12 + f11 * b22
        q13 -= f11 * b13
        q23 -= f21 * b13 + f11 * b23
        q33 -= f31 * b13 + f32 * b23 + f33 * b33
    # Cholesky factor. A pivot that is 0 except for rounding adds nothing.
    g11 = _root(q11)
    g21 = q12 / g11 if g11 > 0.0 else 0.0
    g31 = q13 / g11 if g11 > 0.0 else 0.0
    g22 = _root(q22 - g21 * g21)
    g32 = (q23 - g21 * g31) / g22 if g22 > 0.0 else 0.0
    g33 = _root(q33 - g31 * g31 - g32 * g32)
    n1, n2, n3 = noise[0], noise[1], noise[2]
    x[0] = x1 + g11 * n1
    x[1] = x2 + g21 * n1 + g22 * n2
    x[2] = x3 + g31 * n1 + g32 * n2 + g33 * n3


@compiled
def _moved(x: float, noise: float, slow: float, started: bool) -> float:
    decay = math.exp(-slow) if started else 0.0
    return decay * x + _root(1.0 - decay * decay) * noise


@compiled
def mean_wind(altitude: float, wind_20ft: float, roughness: float) -> float:
    """Return the mean wind (m/s) of the low-altitude model, logarithmic from 3 ft to 1000 ft.

    Below 3 ft and above 1000 ft, the result is the wind at that limit. ``altitude`` and
    ``roughness`` are in m.
    """
    height = max(_LOWEST_WIND, min(_LOW, altitude))
    return wind_20ft * max(0.0, math.log(height / roughness)) / math.log(20.0 * FT / roughness)


class DrydenAir(Sampled, name="dryden"):
    """Wind and turbulence of MIL-F-8785C, without a sample period."""

    airspeed = rt.input("m/s", description="of the aircraft")
    altitude = rt.input("m", description="above the ground")
    roll = rt.input("rad", kind="angle", optional=True, description="matters below 2000 ft")
    pitch = rt.input("rad", kind="angle", optional=True, description="matters below 2000 ft")
    wind_north = rt.output("m/s", description="velocity of the air over the Earth")
    wind_east = rt.output("m/s", description="positive for a wind from the west")
    wind_down = rt.output("m/s")
    turbulence_x = rt.output("m/s", description=_MASS)
    turbulence_y = rt.output("m/s", description=_MASS)
    turbulence_z = rt.output("m/s", description=_MASS)
    turbulence_roll = rt.output("rad/s", description=_TURNS)
    turbulence_pitch = rt.output("rad/s", description=_TURNS)
    turbulence_yaw = rt.output("rad/s", description=_TURNS)
    wind_20ft = rt.parameter("m/s", low=0.0, description="mean wind 20 ft above the ground")
    wind_from = rt.parameter("rad", kind="angle", description="where it comes from; pi/2: the east")
    roughness = rt.parameter(
        "m", 0.15 * FT, low=1e-6, high=6.0,
        description="0.15 ft in take-off, approach and landing (category C), else 2 ft",
    )  # fmt: skip
    exceedance = rt.parameter("1", 1e-3, low=1e-6, high=0.2, description="probability, figure 7")
    span = rt.parameter("m", 30.0 * FT, low=1e-3, description="of the wing; the F-16's")
    normal = rt.memory("1", shape=(8,), description="random numbers of the present tick")
    filter = rt.memory(
        "1", shape=(8,), description="states of the filters, each of deviation near 1"
    )
    started = rt.memory()
    assumptions = (
        "turbulence is frozen: it passes the aircraft with the airspeed (MIL-F-8785C)",
        "turbulence is held between its ticks; scale lengths are those at the ticks",
        "below 1000 ft turbulence is along the heading, across it and vertical; above 2000 ft "
        "along the body axes",
    )
    limits = (
        f"airspeed above {_SLOWEST:g} m/s, altitude above {_LOWEST:.3g} m: less counts as that",
        "above 80,000 ft the intensity is that at 80,000 ft",
    )

    def sample(self, period: float) -> None:
        speed, started = max(self.airspeed, _SLOWEST), self.started != 0.0
        length, length_w, _, _ = scales(self.altitude, self.wind_20ft, self.exceedance)
        travelled, turn = period * speed, 0.25 * math.pi / self.span
        slow = travelled / length
        self.filter[0] = _moved(self.filter[0], self.normal[0], slow, started)
        fast = 4.0 / 3.0 * travelled * turn
        move_pair(self.filter[1:4], self.normal[1:4], slow, fast, started)
        slow, fast = travelled / length_w, travelled * turn
        move_pair(self.filter[4:7], self.normal[4:7], slow, fast, started)
        self.filter[7] = _moved(self.filter[7], self.normal[7], fast, started)
        self.started = 1.0

    def outputs(self) -> None:
        _, length_w, deviation, deviation_w = scales(self.altitude, self.wind_20ft, self.exceedance)
        wind = mean_wind(self.altitude, self.wind_20ft, self.roughness)
        self.wind_north = -wind * math.cos(self.wind_from)
        self.wind_east = -wind * math.sin(self.wind_from)
        self.wind_down = 0.0
        unit_v = _V * self.filter[1] + _W * self.filter[2]
        unit_w = _V * self.filter[4] + _W * self.filter[5]
        gx, gy, gz = deviation * self.filter[0], deviation * unit_v, deviation_w * unit_w
        share = max(0.0, min(1.0, (self.altitude - _LOW) / (_HIGH - _LOW)))
        sr, cr = math.sin(self.roll), math.cos(self.roll)
        sp, cp = math.sin(self.pitch), math.cos(self.pitch)
        level = 1.0 - share
        self.turbulence_x = share * gx + level * (cp * gx - sp * gz)
        self.turbulence_y = share * gy + level * (sr * sp * gx + cr * gy + sr * cp * gz)
        self.turbulence_z = share * gz + level * (cr * sp * gx - sr * gy + cr * cp * gz)
        turn = 0.25 * math.pi / self.span
        rolling = 0.1 * math.pi * math.pi / (self.span * length_w)
        rolling *= math.pow(turn * length_w, 1.0 / 3.0)
        self.turbulence_roll = deviation_w * math.sqrt(rolling) * self.filter[7]
        self.turbulence_pitch = -deviation_w * turn * (unit_w - self.filter[6])
        self.turbulence_yaw = 4.0 / 3.0 * deviation * turn * (unit_v - self.filter[3])


DRYDEN_INPUTS = DrydenAir.signals("input")
DRYDEN_OUTPUTS = DrydenAir.signals("output")


def dryden(period: Duration | Period = 0.01) -> rt.Model:
    """Return a plant for the wind and turbulence of MIL-F-8785C, updated every ``period`` s.

    The outputs have the names of ``AIR_INPUTS``. The random numbers depend only on the seed and the
    plant's name, so they are equal in all runs with this seed.

    Example:
        out.plant(
            "air", dryden(0.01), step=0.01,
            inputs={"airspeed": "f16.airspeed", "altitude": "f16.altitude"},
        )
    """
    return sampled(DrydenAir, period).model()
