"""A moon that orbits a planet at distance 1 with period 30, in units of the model.

With mu = (2 pi / 30)^2 a circular orbit at distance 1 takes 30 time units, so the exact solution is
known at every time.
"""

from __future__ import annotations

import math

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration
from rtsim.equations.model import Model
from rtsim.scenario.scenario import Scenario

PERIOD = 30.0
MU = (2.0 * math.pi / PERIOD) ** 2


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """Compute the derivative of a point mass under an inverse-square attraction."""
    r2 = x[0] * x[0] + x[1] * x[1]
    pull = -p[0] / (r2 * math.sqrt(r2))
    dx[0] = x[2]
    dx[1] = x[3]
    dx[2] = pull * x[0]
    dx[3] = pull * x[1]


ORBIT = Model(
    name="orbit",
    states=Signals(
        Signal("x", "distance", initial=1.0),
        Signal("y", "distance"),
        Signal("vx", "distance/day", derivative_of="x"),
        Signal("vy", "distance/day", derivative_of="y", initial=2.0 * math.pi / PERIOD),
    ),
    parameters=Signals(Signal("mu", "distance^3/day^2", initial=MU, low=0.0)),
    derivative=derivative,
    assumptions=("the planet does not move", "point masses, no other bodies"),
)


def scenario(step: Duration = 0.1, solver: str = "rk4", until: Duration = 30) -> Scenario:
    """A moon that orbits a planet once in 30 s; a time unit of the model is 1 s."""
    out = Scenario("orbit", until=until)
    out.plant("moon", ORBIT, step=step, solver=solver)
    out.show(scene="orbit", plant="moon")
    out.plot("orbit", "moon.y", over="moon.x")
    out.plot("position", "moon.x", "moon.y")
    out.plot("velocity", "moon.vx", "moon.vy")
    return out
