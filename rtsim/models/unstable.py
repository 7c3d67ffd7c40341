"""An unstable plant and a sampled controller that stabilises it.

The plant is x'' = 2 x + u. Every 0.1 s the controller computes u_k = -[8 4] x - s_(k-1) and s_k =
s_(k-1) + x_1 / 2.
"""

from __future__ import annotations

from typing import Self

import rtsim as rt
from rtsim.core.tag import Duration


class Unstable(rt.Plant):
    """A mass that a negative spring pushes away from the middle."""

    x = rt.state("m", 1.0)
    v = rt.state("m/s", derivative_of="x")
    force = rt.input("N/kg")
    stiffness = rt.parameter("1/s^2", 2.0)
    assumptions = ("the force is held between answers of the controller",)

    def derivative(self, d: Self) -> None:
        d.x = self.v
        d.v = self.stiffness * self.x + self.force


UNSTABLE = Unstable.model()
"""The plant as a :class:`rtsim.Model`."""


class Stabiliser(rt.Controller, compile=True):
    """Controller with proportional, derivative and summed feedback."""

    x = rt.input("m")
    v = rt.input("m/s")
    force = rt.output("N/kg")
    sum = rt.memory("N/kg")
    proportional = rt.parameter("1/s^2", 8.0)
    derivative = rt.parameter("1/s", 4.0)
    integral = rt.parameter("1/s^2", 0.5)

    def step(self) -> None:
        self.force = -(self.proportional * self.x + self.derivative * self.v) - self.sum
        self.sum += self.integral * self.x


def controller() -> rt.PythonController:
    return Stabiliser().controller("controller")


def scenario(latency: Duration = 0, step: Duration = 0.01, until: Duration = 10) -> rt.Scenario:
    """An unstable plant and a sampled controller, whose outputs arrive after ``latency`` s."""
    out = rt.Scenario("unstable", until=until)
    plant = out.plant("plant", Unstable(), step=step)
    controller = out.controller("controller", Stabiliser(), period=0.1, transport=rt.Fixed(latency))
    out.connect(plant, controller)
    out.plot("position [m]", plant.x)
    out.plot("speed [m/s]", plant.v)
    out.plot("force [N/kg]", plant.force, controller.force)
    out.plot("speed over position", plant.v, over=plant.x)
    return out
