"""Moving air: wind, its change with altitude, and turbulence, as inputs of the rigid bodies.

The bodies of rtsim compute their air loads from the velocity relative to the air.  Without
``AIR_INPUTS`` the air rests relative to the rotating Earth.  :func:`in_moving_air` returns a body
that has these inputs behind its own; the functions of a body then find them at the end of ``u``::

    if air_moves(u, first):
        wx, wy, wz, wp, wq, wr = air_velocity(x, p, u, first)

A body with these inputs in air at rest computes the same bits as one without them.

Wind and turbulence of MIL-F-8785C: mean wind with shear near the ground, and Dryden gusts.

Source: MIL-F-8785C, "Flying Qualities of Piloted Airplanes" (5 November 1980), 3.7: spectra of the
Dryden form, scale lengths and intensities of its low-altitude and its medium/high-altitude model.
The intensities above 2000 ft are read from its figure 7.

The frozen field passes the aircraft with the airspeed V.  Each component is a linear filter of
white noise.  At the ticks of its period the filter has exactly the distribution that the continuous
filter has there; between them the outputs keep their values.  With L a scale length, b the span:

    u:  1 / (1 + L/V s)
    v:  (1 + sqrt(3) L/V s) / (1 + L/V s)^2      w:  the same with its own L
    p:  1 / (1 + 4b/(pi V) s)
    q:  -(s/V) / (1 + 4b/(pi V) s) of w          r:  (s/V) / (1 + 3b/(pi V) s) of v

The specification does not fix the signs of q and r.  Here p, q and r are the rotation of the air,
which the body's own rates are measured against: q is minus the change of w along the x axis.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration, Period
from rtsim.equations.compiling import compiled
from rtsim.equations.earth import from_ned, geodetic
from rtsim.equations.model import Model, Timer
from rtsim.models.body import (
    BODY_FLATTENING,
    BODY_RADIUS,
    STILL_AIR,
    air_data,
    air_flow,
    direction_cosines,
)
from rtsim.models.units import FT

_MASS = "turbulence: velocity of the air in body axes"
_TURNS = "rotation of the air in body axes"

AIR_INPUTS = Signals(
    Signal("wind_north", "m/s", optional=True, description="velocity of the air over the Earth"),
    Signal("wind_east", "m/s", optional=True, description="positive for a wind from the west"),
    Signal("wind_down", "m/s", optional=True),
    Signal("shear_north", "1/s", optional=True, description="added to the wind for each m above 0"),
    Signal("shear_east", "1/s", optional=True),
    Signal("turbulence_x", "m/s", optional=True, description=_MASS),
    Signal("turbulence_y", "m/s", optional=True, description=_MASS),
    Signal("turbulence_z", "m/s", optional=True, description=_MASS),
    Signal("turbulence_roll", "rad/s", optional=True, description=_TURNS),
    Signal("turbulence_pitch", "rad/s", optional=True, description=_TURNS),
    Signal("turbulence_yaw", "rad/s", optional=True, description=_TURNS),
)
"""The motion of the air at the centre of mass; every input is 0 by default.

The velocity of the air is (``wind`` + ``shear`` times the altitude above the ellipsoid) in north,
east and down, plus ``turbulence`` in body axes.
"""
_COUNT = AIR_INPUTS.size
MOVING_AIR = "the air moves as the inputs say; its velocity and rotation are those at the centre"

AirMotion = tuple[float, float, float, float, float, float]


def in_moving_air(model: Model) -> Model:
    """Return the body ``model`` with ``AIR_INPUTS`` behind its own inputs.

    Raises :class:`ModelError` if the model has inputs of these names, or if it does not state that
    its air rests: then it is not known to use the velocity of the air.

    Example:
        out.plant("ball", in_moving_air(SPHERE), step=0.01, inputs={"wind_east": 6.0})
    """
    taken = [name for name in AIR_INPUTS.names if name in model.inputs]
    if taken:
        raise ModelError(
            f"model {model.name} already has the inputs {', '.join(taken)}; use it as it is"
        )
    if STILL_AIR not in model.assumptions:
        raise ModelError(
            f"model {model.name} does not say that it uses the velocity of the air; let its "
            f"functions call rtsim.models.wind.air_velocity, and add the sentence STILL_AIR of "
            "rtsim.models.body to its assumptions"
        )
    assumptions = (MOVING_AIR if a == STILL_AIR else a for a in model.assumptions)
    return replace(
        model, inputs=model.inputs + AIR_INPUTS, assumptions=tuple(dict.fromkeys(assumptions))
    )


@compiled
def air_moves(u: Vector, first: int) -> bool:
    """Return whether one of the ``AIR_INPUTS`` is not 0; they begin at element ``first`` of ``u``.

    A body without ``AIR_INPUTS`` has no element there.
    """
    for i in range(first, min(u.size, first + _COUNT)):  # noqa: SIM110 -- any() does not compile
        if u[i] != 0.0:
            return True
    return False


@compiled
def air_velocity(x: Vector, p: Vector, u: Vector, first: int) -> AirMotion:
    """Return velocity (m/s, over the Earth) and rotation (rad/s) of the air, in body axes.

    ``x`` is the state (13,), ``p`` begins with ``BODY_PARAMETERS``, and ``AIR_INPUTS`` begin at
    element ``first`` of ``u``.  At a pole, north is the meridian of inertial longitude 0.
    """
    c11, c12, c13, c21, c22, c23, c31, c32, c33 = direction_cosines(x[6], x[7], x[8], x[9])
    sin_lat, cos_lat, altitude = geodetic(x[0], x[1], x[2], p[BODY_RADIUS], p[BODY_FLATTENING])
    across = math.sqrt(x[0] * x[0] + x[1] * x[1])
    sin_lon, cos_lon = 0.0, 1.0
    if across > 0.0:
        sin_lon, cos_lon = x[1] / across, x[0] / across
    vx, vy, vz = from_ned(
        u[first] + u[first + 3] * altitude,
        u[first + 1] + u[first + 4] * altitude,
        u[first + 2],
        sin_lat, cos_lat, sin_lon, cos_lon,
    )  # fmt: skip
    return (
        c11 * vx + c12 * vy + c13 * vz + u[first + 5],
        c21 * vx + c22 * vy + c23 * vz + u[first + 6],
        c31 * vx + c32 * vy + c33 * vz + u[first + 7],
        u[first + 8],
        u[first + 9],
        u[first + 10],
    )


@compiled
def describe_in_air(x: Vector, p: Vector, vx: float, vy: float, vz: float, y: Vector) -> None:
    """Compute the outputs airspeed to equivalent airspeed of ``BODY_OUTPUTS`` again, in moving air.

    ``vx``, ``vy`` and ``vz`` are the velocity of the air in body axes, m/s.
    """
    _, _, _, _, _, _, _, _, _, ub, vb, wb, _, _, _, _ = air_flow(x, p)
    air_data(ub - vx, vb - vy, wb - vz, y[21], y[22], y)


# Wind and turbulence of MIL-F-8785C: mean wind with shear near the ground, and Dryden gusts.

DRYDEN_INPUTS = Signals(
    Signal("airspeed", "m/s", description="of the aircraft"),
    Signal("altitude", "m", description="above the ground"),
    Signal("roll", "rad", kind="angle", optional=True, description="matters below 2000 ft"),
    Signal("pitch", "rad", kind="angle", optional=True, description="matters below 2000 ft"),
)
DRYDEN_OUTPUTS = Signals(
    *(
        Signal(s.name, s.unit, description=s.description)
        for s in AIR_INPUTS
        if not s.name.startswith("shear")
    )
)
DRYDEN_PARAMETERS = Signals(
    Signal("wind_20ft", "m/s", low=0.0, description="mean wind 20 ft above the ground"),
    Signal("wind_from", "rad", kind="angle", description="where it comes from; pi/2: the east"),
    Signal(
        "roughness", "m", initial=0.15 * FT, low=1e-6, high=6.0,
        description="0.15 ft in take-off, approach and landing (category C), else 2 ft",
    ),
    Signal("exceedance", initial=1e-3, low=1e-6, high=0.2, description="probability, figure 7"),
    Signal("span", "m", initial=30.0 * FT, low=1e-3, description="of the wing; the F-16's"),
)  # fmt: skip

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
"""Figure 7: intensity over the altitude for each probability of exceedance.

1e-2 is light, 1e-3 moderate and 1e-5 severe turbulence.
"""
_LOWEST, _LOW, _HIGH, _LOWEST_WIND = 10.0 * FT, 1000.0 * FT, 2000.0 * FT, 3.0 * FT
_SLOWEST = 1.0
_V, _W = math.sqrt(1.5), (1.0 - math.sqrt(3.0)) / math.sqrt(2.0)
_SERIES = 24

DRYDEN_DISCRETE = Signals(
    Signal("normal", shape=(8,), description="random numbers of the present tick"),
    Signal("filter", shape=(8,), description="states of the filters, each of deviation near 1"),
    Signal("started"),
)
_FILTER, _STARTED = 8, 16
_U_AT, _V_AT, _W_AT, _P_AT = 0, 1, 4, 7

Scales = tuple[float, float, float, float]


@compiled
def _between(points: Vector, value: float) -> tuple[int, float]:
    """Return the interval of rising ``points`` that holds ``value``, and its place from 0 to 1."""
    i = 0
    while i < points.size - 2 and value >= points[i + 1]:
        i += 1
    return i, max(0.0, min(1.0, (value - points[i]) / (points[i + 1] - points[i])))


@compiled
def high_intensity(altitude: float, exceedance: float) -> float:
    """Return the standard deviation (m/s) of figure 7, for all components.

    ``altitude`` is in m.  The interpolation is linear in the altitude and in the logarithm of the
    probability of exceedance.
    """
    i, across = _between(_ALTITUDE_FT, altitude / FT)
    j, along = _between(-_LOG_EXCEEDANCE, -math.log10(exceedance))
    fewer = (1.0 - across) * _INTENSITY_FT_S[j, i] + across * _INTENSITY_FT_S[j, i + 1]
    more = (1.0 - across) * _INTENSITY_FT_S[j + 1, i] + across * _INTENSITY_FT_S[j + 1, i + 1]
    return FT * float((1.0 - along) * fewer + along * more)


@compiled
def scales(altitude: float, wind_20ft: float, exceedance: float) -> Scales:
    """Return the scale lengths of u and v, and of w (m), and their standard deviations (m/s).

    ``altitude`` is in m above the ground, ``wind_20ft`` in m/s.  Below 1000 ft they are those of
    the low-altitude model (at least 10 ft above the ground), above 2000 ft those of the medium/
    high-altitude model, and between them they are interpolated, as is usual: the specification
    gives none there.
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

    The filter of a component and of its angular rate, with unit white noise n, has the states

        x1' = -a x1 + sqrt(2a) n,   x2' = a (x1 - x2),   x3' = b (component - x3)

    where the component is ``_V x1 + _W x2``.  ``slow`` is a times the period, ``fast`` b times it.
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
    """Return elements 13, 23 and 33 of the covariance of the states of :func:`transition`.

    Elements 11, 12 and 22 are 1, 1/2 and 1/2.
    """
    c13 = fast * (_V + 0.5 * _W) / (slow + fast)
    c23 = (slow * c13 + 0.5 * fast * (_V + _W)) / (slow + fast)
    return c13, c23, _V * c13 + _W * c23


@compiled
def _root(value: float) -> float:
    return math.sqrt(value) if value > 0.0 else 0.0


@compiled
def move_pair(z: Vector, at: int, noise: int, slow: float, fast: float, started: bool) -> None:
    """Move the three states at ``z[at]`` over one period, with the random numbers at ``z[noise]``.

    The added noise has the covariance P - F P F', with P the stationary covariance and F the
    transition matrix, which is the integral over the period.  The first time the states are drawn
    from P.
    """
    p13, p23, p33 = stationary(slow, fast)
    x1, x2, x3 = 0.0, 0.0, 0.0
    q11, q12, q22, q13, q23, q33 = 1.0, 0.5, 0.5, p13, p23, p33
    if started:
        f11, f21, f31, f32, f33 = transition(slow, fast)
        x1 = f11 * z[at]
        x2 = f21 * z[at] + f11 * z[at + 1]
        x3 = f31 * z[at] + f32 * z[at + 1] + f33 * z[at + 2]
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
    # the Cholesky factor; a pivot that is 0 but for rounding adds nothing
    g11 = _root(q11)
    g21 = q12 / g11 if g11 > 0.0 else 0.0
    g31 = q13 / g11 if g11 > 0.0 else 0.0
    g22 = _root(q22 - g21 * g21)
    g32 = (q23 - g21 * g31) / g22 if g22 > 0.0 else 0.0
    g33 = _root(q33 - g31 * g31 - g32 * g32)
    n1, n2, n3 = z[noise], z[noise + 1], z[noise + 2]
    z[at] = x1 + g11 * n1
    z[at + 1] = x2 + g21 * n1 + g22 * n2
    z[at + 2] = x3 + g31 * n1 + g32 * n2 + g33 * n3


@compiled
def _move_one(z: Vector, at: int, slow: float, started: bool) -> None:
    decay = math.exp(-slow) if started else 0.0
    z[_FILTER + at] = decay * z[_FILTER + at] + _root(1.0 - decay * decay) * z[at]


@compiled
def move(z: Vector, u: Vector, p: Vector, period: float) -> None:
    """Move all filters over one period (s) at the present airspeed and altitude."""
    speed, started = max(u[0], _SLOWEST), z[_STARTED] != 0.0
    length, length_w, _, _ = scales(u[1], p[0], p[3])
    travelled, turn = period * speed, 0.25 * math.pi / p[4]
    _move_one(z, _U_AT, travelled / length, started)
    slow = travelled / length
    move_pair(z, _FILTER + _V_AT, _V_AT, slow, 4.0 / 3.0 * travelled * turn, started)
    move_pair(z, _FILTER + _W_AT, _W_AT, travelled / length_w, travelled * turn, started)
    _move_one(z, _P_AT, travelled * turn, started)
    z[_STARTED] = 1.0


@compiled
def mean_wind(altitude: float, wind_20ft: float, roughness: float) -> float:
    """Return the mean wind (m/s) of the low-altitude model: logarithmic from 3 ft to 1000 ft.

    Below and above, the wind is that of these altitudes.  ``altitude`` and ``roughness`` are in m.
    """
    height = max(_LOWEST_WIND, min(_LOW, altitude))
    return wind_20ft * max(0.0, math.log(height / roughness)) / math.log(20.0 * FT / roughness)


def _derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    """Do nothing: the model has no continuous state."""


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Fill ``y`` with ``DRYDEN_OUTPUTS``."""
    _, length_w, deviation, deviation_w = scales(u[1], p[0], p[3])
    wind = mean_wind(u[1], p[0], p[2])
    y[0] = -wind * math.cos(p[1])
    y[1] = -wind * math.sin(p[1])
    y[2] = 0.0
    v = _FILTER + _V_AT
    w = _FILTER + _W_AT
    unit_v = _V * z[v] + _W * z[v + 1]
    unit_w = _V * z[w] + _W * z[w + 1]
    gx, gy, gz = deviation * z[_FILTER + _U_AT], deviation * unit_v, deviation_w * unit_w
    share = max(0.0, min(1.0, (u[1] - _LOW) / (_HIGH - _LOW)))
    sr, cr, sp, cp = math.sin(u[2]), math.cos(u[2]), math.sin(u[3]), math.cos(u[3])
    level = 1.0 - share
    y[3] = share * gx + level * (cp * gx - sp * gz)
    y[4] = share * gy + level * (sr * sp * gx + cr * gy + sr * cp * gz)
    y[5] = share * gz + level * (cr * sp * gx - sr * gy + cr * cp * gz)
    turn = 0.25 * math.pi / p[4]
    rolling = 0.1 * math.pi * math.pi / (p[4] * length_w) * math.pow(turn * length_w, 1.0 / 3.0)
    y[6] = deviation_w * math.sqrt(rolling) * z[_FILTER + _P_AT]
    y[7] = -deviation_w * turn * (unit_w - z[w + 2])
    y[8] = 4.0 / 3.0 * deviation * turn * (unit_v - z[v + 2])


def dryden(period: Duration | Period = 0.01) -> Model:
    """Return the wind and turbulence of MIL-F-8785C as a plant, with new values every ``period`` s.

    Its outputs have the names of ``AIR_INPUTS``.  Its random stream is named after the plant, so a
    run with the same seed has the same turbulence.  The steps of the plants do not change it.

    Example:
        out.plant(
            "air", dryden(0.01), step=0.01,
            inputs={"airspeed": "f16.airspeed", "altitude": "f16.altitude"},
        )
    """
    ticks = Period.of(period)
    seconds = ticks.seconds

    def tick(due: Vector, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        move(z, u, p, seconds)

    return Model(
        name="dryden",
        states=Signals(),
        derivative=_derivative,
        discrete=DRYDEN_DISCRETE,
        inputs=DRYDEN_INPUTS,
        outputs=DRYDEN_OUTPUTS,
        parameters=DRYDEN_PARAMETERS,
        output=output,
        timers=(Timer(ticks, draws=("normal",)),),
        tick=tick,
        assumptions=(
            "turbulence is frozen: it passes the aircraft with the airspeed (MIL-F-8785C)",
            "turbulence is held between its ticks; scale lengths are those at the ticks",
            "below 1000 ft turbulence is along the heading, across it and vertical; above 2000 ft "
            "along the body axes",
        ),
        limits=(
            f"airspeed above {_SLOWEST:g} m/s, altitude above {_LOWEST:.3g} m: less counts as that",
            "above 80,000 ft the intensity is that at 80,000 ft",
        ),
    )
