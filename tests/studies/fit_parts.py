"""Plants whose parameters the tests fit."""

from __future__ import annotations

import numpy as np

import rtsim as rt
from rtsim.studies.measurements import Measurements


class Mass(rt.Plant):
    """A mass on a spring, with a damper."""

    position = rt.state("m", 1)
    speed = rt.state("m/s")
    mass = rt.parameter("kg", 1.2, low=0.01)
    stiffness = rt.parameter("N/m", 3.0, low=0)
    damping = rt.parameter("N.s/m", 0.4, low=0)

    def derivative(self, d) -> None:  # type: ignore[no-untyped-def]
        d.position = self.speed
        d.speed = (-self.stiffness * self.position - self.damping * self.speed) / self.mass


class Motor(rt.Plant):
    """A motor with friction; its voltage is measured."""

    speed = rt.state("rad/s")
    voltage = rt.input("V")
    gain = rt.parameter("rad/(s.V)", 5.0)
    lag = rt.parameter("s", 0.3, low=0.001)
    torque = rt.output("N.m")

    def derivative(self, d) -> None:  # type: ignore[no-untyped-def]
        d.speed = (self.gain * self.voltage - self.speed) / self.lag

    def outputs(self) -> None:
        self.torque = 0.01 * (self.gain * self.voltage - self.speed) / self.lag


class Falling(rt.Plant):
    """A body that falls through air, and bounces."""

    height = rt.state("m", 2)
    speed = rt.state("m/s")
    drag = rt.parameter("1/m", 0.2, low=0)
    first = rt.parameter("m", 0)

    def derivative(self, d) -> None:  # type: ignore[no-untyped-def]
        d.height = self.speed
        d.speed = -9.81 - self.drag * self.speed * abs(self.speed)

    @rt.falling
    def floor(self) -> float:
        return self.height

    @floor.reset
    def bounce(self) -> None:
        self.speed = -0.7 * self.speed


class Decay(rt.Plant):
    """A decay without a solution for a negative rate."""

    x = rt.state("1", 1)
    rate = rt.parameter("1/s2", 4)

    def derivative(self, d) -> None:  # type: ignore[no-untyped-def]
        d.x = -((self.rate) ** 0.5) * self.x


class Sensor(rt.Plant):
    """A signal with an offset and a slow drift."""

    x = rt.state("s")
    offset = rt.parameter("1", 1)
    drift = rt.parameter("1", 1)
    y = rt.output("1")
    root = rt.output("1")

    def derivative(self, d) -> None:  # type: ignore[no-untyped-def]
        d.x = 1.0

    def outputs(self) -> None:
        self.y = self.offset + 1e-7 * self.drift * self.x
        self.root = self.drift**0.5


class Pair(rt.Plant):
    """An array of two decays."""

    x = rt.state("m", (1, 2))
    rate = rt.parameter("1/s", 0.5)

    def derivative(self, d) -> None:  # type: ignore[no-untyped-def]
        for i in range(2):
            d.x[i] = -self.rate * self.x[i]


class Late(rt.Controller):
    """Reads a signal for the first time after the start."""

    period = 0.1
    y = rt.input("1")
    out = rt.output("1")

    def step(self) -> None:
        self.out = self.y


def sensor() -> rt.Scenario:
    out = rt.Scenario("sensor", until=2)
    out.plant(Sensor(), step=0.01)
    return out


def decay() -> rt.Scenario:
    out = rt.Scenario("decay", until=2)
    out.plant(Decay(), step=0.02)
    return out


def mass() -> rt.Scenario:
    out = rt.Scenario("mass", until=5)
    out.plant(Mass(), step=0.02)
    return out


def motor() -> rt.Scenario:
    out = rt.Scenario("motor", until=2)
    out.source("drive", rt.Signals("voltage [V] = 1"))
    out.plant("motor", Motor(), step=0.01, inputs={"voltage": "drive.voltage"})
    out.at(0.5, "drive.voltage", -2)
    out.at(1.2, "drive.voltage", 3)
    return out


def falling() -> rt.Scenario:
    out = rt.Scenario("falling", until=0.6)
    out.plant(Falling(), step=0.005)
    return out


def noisy(
    scenario: rt.Scenario, truth: dict[str, float], noise: dict[str, float], seed: int
) -> Measurements:
    """Return noisy measurements of a run with the values ``truth``."""
    made = scenario.copy()
    for name, value in truth.items():
        made.set(name, value)
    run = rt.simulate(made)
    random = np.random.default_rng(seed)
    signals = {n: run[n] + s * random.standard_normal(run.time.size) for n, s in noise.items()}
    return Measurements("the measurements", run.time, signals)
