"""NASA's sphere and brick: bodies with aerodynamic drag and rate damping only.

Source: NASA/TM-2015-218675, DAVE-ML models ``cannonball`` and ``brick``, and the table of initial
conditions (``initial_conditions_atmospheric.csv``), cases 1 to 10.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import rtsim as rt
from rtsim.core.errors import UnknownName
from rtsim.core.signals import Vector
from rtsim.core.tag import Duration
from rtsim.equations.earth import EARTH_RATE
from rtsim.models.atmosphere import standard_atmosphere
from rtsim.models.body import (
    BODY_ASSUMPTIONS,
    RigidBody,
    body_states,
    drawn,
    initial_state,
)
from rtsim.models.units import DEG, FT, SLUG, SLUG_FT2
from rtsim.models.wind import in_moving_air

_LOWEST_AIRSPEED = 0.5 * FT


class DraggedBody(RigidBody):
    """Body with drag and linear rate damping."""

    area = rt.parameter("m2")
    span = rt.parameter("m")
    chord = rt.parameter("m")
    cd = rt.parameter()
    clp = rt.parameter("1/rad")
    cmq = rt.parameter("1/rad")
    cnr = rt.parameter("1/rad")
    assumptions = (*BODY_ASSUMPTIONS, "air loads: drag and linear rate damping only")

    def derivative(self, d: Self) -> None:
        c11, c12, c13, c21, c22, c23, c31, c32, c33, ub, vb, wb, pr, qr, rr, altitude = (
            self.air_flow()
        )
        vx, vy, vz, wp, wq, wr = self.air_motion()
        ub, vb, wb = ub - vx, vb - vy, wb - vz
        pr, qr, rr = pr - wp, qr - wq, rr - wr
        density, _, _, _ = standard_atmosphere(altitude)
        airspeed = math.sqrt(ub * ub + vb * vb + wb * wb)
        area, span, chord = self.area, self.span, self.chord
        drag = -0.5 * density * area * airspeed * self.cd
        # This factor is dynamic pressure times area, divided by twice the airspeed.
        damping = 0.25 * density * area * airspeed * airspeed / max(airspeed, _LOWEST_AIRSPEED)
        self.accelerate(
            d, c11, c12, c13, c21, c22, c23, c31, c32, c33,
            drag * ub, drag * vb, drag * wb,
            damping * span * span * self.clp * pr,
            damping * chord * chord * self.cmq * qr,
            damping * span * span * self.cnr * rr,
        )  # fmt: skip

    def outputs(self) -> None:
        self.describe()
        vx, vy, vz, _, _, _ = self.air_motion()
        self.describe_in_air(vx, vy, vz)


class Sphere(DraggedBody):
    """NASA's cannonball, with drag coefficient 0.1 and no damping."""

    mass = rt.parameter("kg", 1.0 * SLUG, low=1e-9)
    ixx = rt.parameter("kg m2", 3.6 * SLUG_FT2, low=1e-12)
    iyy = rt.parameter("kg m2", 3.6 * SLUG_FT2, low=1e-12)
    izz = rt.parameter("kg m2", 3.6 * SLUG_FT2, low=1e-12)
    area = rt.parameter("m2", 0.1963495 * FT * FT)
    cd = rt.parameter("1", 0.1)


class Brick(DraggedBody):
    """NASA's tumbling brick, with unequal moments of inertia and aerodynamic damping."""

    mass = rt.parameter("kg", 0.155404754 * SLUG, low=1e-9)
    ixx = rt.parameter("kg m2", 0.00189422 * SLUG_FT2, low=1e-12)
    iyy = rt.parameter("kg m2", 0.006211019 * SLUG_FT2, low=1e-12)
    izz = rt.parameter("kg m2", 0.007194665 * SLUG_FT2, low=1e-12)
    area = rt.parameter("m2", 0.22222 * FT * FT)
    span = rt.parameter("m", 0.33333 * FT)
    chord = rt.parameter("m", 0.66667 * FT)
    cd = rt.parameter("1", 0.01)
    clp = rt.parameter("1/rad", -1.0)
    cmq = rt.parameter("1/rad", -1.0)
    cnr = rt.parameter("1/rad", -1.0)


SPHERE = Sphere.model()
BRICK = Brick.model()


@dataclass(frozen=True)
class BodyCase:
    """A check case: model, initial state (13,), duration (s), parameters and inputs."""

    name: str
    model: rt.Model
    state: Vector
    duration: float
    parameters: Mapping[str, float] = field(default_factory=dict)
    inputs: Mapping[str, float] = field(default_factory=dict)


def dropped(
    rates_deg: tuple[float, float, float], parameters: Mapping[str, float] | None = None
) -> Vector:
    """Return the state (13,) of a body at rest at latitude 0, longitude 0 and 30,000 ft.

    The body is at rest relative to the Earth, with axes north, east and down. ``rates_deg`` (deg/s)
    are relative to inertial space. ``parameters`` describe the Earth.
    """
    return initial_state(
        latitude=0.0,
        longitude=0.0,
        altitude=30000.0 * FT,
        rates=tuple(rate * DEG for rate in rates_deg),
        parameters=parameters,
    )


def launched(yaw_deg: float) -> Vector:
    """Return the state (13,) of a body that is thrown up at latitude 0, longitude 0, altitude 0.

    The body moves up with 1000 ft/s, and with 1000 ft/s horizontally in the direction ``yaw_deg``
    (deg). The x axis of the body points in the direction ``yaw_deg``, and the y axis is horizontal.
    The body does not rotate relative to the Earth.
    """
    yaw, speed = yaw_deg * DEG, 1000.0 * FT
    return initial_state(
        latitude=0.0,
        longitude=0.0,
        altitude=0.0,
        velocity_ned=(speed * math.cos(yaw), speed * math.sin(yaw), -speed),
        euler=(0.0, 0.0, yaw),
        rates=(EARTH_RATE * math.cos(yaw), -EARTH_RATE * math.sin(yaw), 0.0),
    )


_TUMBLING = (10.0, 20.0, 30.0)
ROUND = {"equatorial_radius": 6371007.1809, "flattening": 0.0, "j2": 0.0}
"""Parameters of the round Earth of cases 4 and 5, with inverse-square gravity.

The radius is from NASA/TM-2015-218675, volume 2, table 73. The table of initial conditions uses
feet of 1/3.28084 m: its 20902255.199 ft are this radius. In the same table, 20925646.99508 ft are
6378137 m, the radius of WGS-84, from which NASA's simulations start.
"""
ROUND_AT_REST = {**ROUND, "earth_rate": 0.0}

CASES: dict[str, BodyCase] = {
    case.name: case
    for case in (
        BodyCase("1", SPHERE, dropped((0.0, 0.0, 0.0)), 30.0, {"cd": 0.0}),
        BodyCase(
            "2",
            BRICK,
            dropped(_TUMBLING),
            30.0,
            {"cd": 0.0, "clp": 0.0, "cmq": 0.0, "cnr": 0.0},
        ),
        BodyCase("3", BRICK, dropped(_TUMBLING), 30.0, {"cd": 0.0}),
        BodyCase("4", SPHERE, dropped(_TUMBLING, ROUND_AT_REST), 30.0, ROUND_AT_REST),
        BodyCase("5", SPHERE, dropped(_TUMBLING, ROUND), 30.0, ROUND),
        BodyCase("6", SPHERE, dropped((0.0, 0.0, 0.0)), 30.0),
        BodyCase(
            "7",
            in_moving_air(SPHERE),
            dropped((0.0, 0.0, 0.0)),
            30.0,
            inputs={"wind_east": 20.0 * FT},
        ),
        BodyCase(
            "8",
            in_moving_air(SPHERE),
            dropped((0.0, 0.0, 0.0)),
            30.0,
            # wind from the west: (0.003 h - 20) ft/s, h in ft
            inputs={"wind_east": -20.0 * FT, "shear_east": 0.003},
        ),
        BodyCase("9", SPHERE, launched(90.0), 30.0),
        BodyCase("10", SPHERE, launched(0.0), 30.0),
    )
}
"""NESC atmospheric cases by number.

In the published table cases 2 and 3 start at 0 ft. NASA's simulations all start at 30,000 ft, and
so do the cases here.
"""


def scenario(case: str = "1", step: Duration = 0.005, until: Duration = 0) -> rt.Scenario:
    """NASA's falling, tumbling and thrown bodies, cases 1 to 10.

    In case 4 the Earth is a sphere at rest, and in case 5 a rotating sphere. Case 7 has constant
    wind, and case 8 has wind shear. ``until=0`` selects the duration of the case.
    """
    if case not in CASES:
        raise UnknownName("NESC case", case, CASES)
    chosen = CASES[case]
    out = rt.Scenario(f"nesc case {case}", until=until or chosen.duration)
    body = out.plant(
        "body",
        chosen.model,
        step=step,
        states=body_states(chosen.state),
        inputs=dict(chosen.inputs),
        parameters=dict(chosen.parameters),
    )
    out.plot("altitude [m]", body.altitude)
    out.plot("airspeed [m/s]", body.airspeed)
    out.plot("velocity [m/s]", body.velocity_north, body.velocity_east, body.velocity_down)
    out.plot("attitude [rad]", body.roll, body.pitch, body.yaw)
    out.plot("body rates [rad/s]", body.roll_rate, body.pitch_rate, body.yaw_rate)
    out.plot("place [rad]", body.latitude, body.longitude)
    out.show(drawn("body"))
    return out
