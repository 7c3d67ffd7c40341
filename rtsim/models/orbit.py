"""A moon that orbits a planet at the distance 1 with the period 30, in dimensionless units.

The orbit is a circle, so the exact solution is known at every time.
"""

from __future__ import annotations

import math
from typing import Self

import rtsim as rt
from rtsim.core.tag import Duration

PERIOD = 30.0
MU = (2.0 * math.pi / PERIOD) ** 2


class Orbit(rt.Plant):
    """A point mass under an inverse-square attraction."""

    x = rt.state("distance", 1.0)
    y = rt.state("distance")
    vx = rt.state("distance/day", derivative_of="x")
    vy = rt.state("distance/day", 2.0 * math.pi / PERIOD, derivative_of="y")
    mu = rt.parameter("distance^3/day^2", MU, low=0.0)
    assumptions = ("the planet does not move", "point masses, no other bodies")

    def derivative(self, d: Self) -> None:
        r2 = self.x * self.x + self.y * self.y
        pull = -self.mu / (r2 * math.sqrt(r2))
        d.x = self.vx
        d.y = self.vy
        d.vx = pull * self.x
        d.vy = pull * self.y


ORBIT = Orbit.model()
"""The moon as a :class:`rtsim.Model`."""


def scenario(step: Duration = 0.1, solver: str = "rk4", until: Duration = 30) -> rt.Scenario:
    """A moon that orbits a planet once in 30 s; a time unit of the model is 1 s."""
    out = rt.Scenario("orbit", until=until)
    moon = out.plant("moon", Orbit(), step=step, solver=solver)
    out.show(scene="orbit", plant="moon")
    out.plot("orbit", moon.y, over=moon.x)
    out.plot("position", moon.x, moon.y)
    out.plot("velocity", moon.vx, moon.vy)
    return out
