"""An inverted pendulum with a motor at its pivot, and its reference controller."""

import math
from typing import Self

import rtsim as rt

PERIOD = 0.005  # s
STIFFNESS, DAMPING, MOST, TRUST = 60.0, 12.0, 20.0, 0.02
"""Gains, 1/s^2 and 1/s; the largest acceleration, rad/s^2; the weight of the tilt in a step."""


class Pendulum(rt.Plant):
    """A pendulum with a gravity sensor at its pivot."""

    angle = rt.state("rad", 0.1, description="from upright")
    rate = rt.state("rad/s")
    drive = rt.input("rad/s^2")
    push = rt.input("rad/s^2")
    tilt = rt.output("g")
    upright = rt.output("g")
    length = rt.parameter("m", 0.5, low=0.01)

    assumptions = ("the sensor is at the pivot", "no friction")

    def derivative(self, d: Self) -> None:
        d.angle = self.rate
        d.rate = 9.80665 / self.length * math.sin(self.angle) + self.drive + self.push

    def outputs(self) -> None:
        self.tilt = math.sin(self.angle)
        self.upright = math.cos(self.angle)


class Balance(rt.Controller):
    """A controller that estimates the angle from rate and tilt, and controls it to 0."""

    rate = rt.input("rad/s")
    tilt = rt.input("g")
    upright = rt.input("g")
    drive = rt.output("rad/s^2")
    failing = rt.output()
    angle = rt.memory("rad", 0.1)

    def step(self) -> None:
        self.angle = (1.0 - TRUST) * (self.angle + self.rate * PERIOD) + TRUST * self.tilt
        self.drive = min(max(-STIFFNESS * self.angle - DAMPING * self.rate, -MOST), MOST)
        self.failing = 0.0


def scenario(until: float = 2.0) -> rt.Scenario:
    """Return a scenario with an initial tilt of 0.1 rad and a push from 1 s to 1.1 s."""
    loop = rt.Scenario("pendulum", until=until)
    hand = loop.source("hand", rt.Signals("push [rad/s^2]"))
    loop.at(1.0, hand.push, 5.0)
    loop.at(1.1, hand.push, 0.0)
    pendulum = loop.plant(Pendulum(), step=0.001)
    balance = loop.controller(Balance(), period=PERIOD, compute=0.004)
    loop.connect(hand, pendulum)
    loop.connect(balance, pendulum)
    loop.plot("angle [rad]", "pendulum.angle")
    loop.plot("drive [rad/s^2]", "balance.drive", "hand.push")
    loop.plot("sensor cannot be read", "balance.failing")
    return loop
