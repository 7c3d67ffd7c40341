"""A bouncing ball that comes to rest, the smallest model with an event.

The ball falls freely. At each impact, the speed of the ball is reversed and multiplied by
``restitution``. The times between impacts decrease geometrically, so infinitely many impacts occur
in a finite time (Zeno). In the stop mode, the ball lies on the ground.

Let h0 be the initial height, v0 the initial speed, g gravity and e the restitution. The first
impact is at t1 = (v0 + v1)/g with speed v1 = sqrt(v0^2 + 2 g h0). The time between
impact n and impact n + 1 is 2 v1 e^n/g. The ball comes to rest at t1 + 2 v1 e/(g (1 - e)).
"""

from __future__ import annotations

from typing import Self

import rtsim as rt
from rtsim.core.tag import Duration


class Ball(rt.Plant):
    """A ball above a floor."""

    height = rt.state("m", 1.0)
    speed = rt.state("m/s", derivative_of="height")
    lies = rt.memory()
    gravity = rt.parameter("m/s^2", 9.81)
    restitution = rt.parameter("1", 0.7)
    assumptions = ("the impact takes no time", "no air")

    def derivative(self, d: Self) -> None:
        d.height = self.speed
        d.speed = -self.gravity if self.lies == 0.0 else 0.0

    @rt.falling
    def floor(self) -> float:
        return self.height

    @floor.reset
    def bounce(self) -> None:
        self.height = 0.0
        self.speed = -self.restitution * self.speed

    @floor.stop
    def lie(self) -> None:
        self.height = 0.0
        self.speed = 0.0
        self.lies = 1.0


BALL = Ball.model()
"""The ball as a :class:`rtsim.Model`."""


def scenario(*, until: Duration = 4, step: Duration = "1/100", solver: str = "rk4") -> rt.Scenario:
    """A bouncing ball that is dropped from 1 m and comes to rest after 2.56 s."""
    out = rt.Scenario("ball", until=until)
    ball = out.plant(Ball(), step=step, solver=solver)
    out.plot("height [m]", ball.height)
    out.plot("speed [m/s]", ball.speed)
    out.plot("speed over height", ball.speed, over=ball.height)
    return out
