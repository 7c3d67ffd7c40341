"""Moving air: wind, its change with altitude, and turbulence, as inputs of the rigid bodies.

The bodies of rtsim compute their air loads from the velocity relative to the air.  Without
``AIR_INPUTS`` the air rests relative to the rotating Earth.  :func:`in_moving_air` returns a body
that has these inputs behind its own; the functions of a body then find them at the end of ``u``::

    if air_moves(u, first):
        wx, wy, wz, wp, wq, wr = air_velocity(x, p, u, first)

A body with these inputs in air at rest computes the same bits as one without them.
"""

from __future__ import annotations

import math
from dataclasses import replace

from rtsim.core.errors import ModelError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.earth import from_ned, geodetic
from rtsim.equations.model import Model
from rtsim.models.body import (
    BODY_FLATTENING,
    BODY_RADIUS,
    STILL_AIR,
    air_data,
    air_flow,
    direction_cosines,
)

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
