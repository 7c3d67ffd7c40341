"""Four small controllers with errors that only the target processor shows.

Each function returns a scenario with a reference controller.  ``level``: a ``double`` has only 32
bits. ``position``: a ``float32`` is too coarse for degrees. In ``busy``, a step takes longer than
its period. In ``deep``, the stack overflows into the static data.
"""

from __future__ import annotations

import math
from typing import Self

import rtsim as rt

METRES_PER_DEGREE = 111132.0
HOME_DEG = 45.5017


class Level(rt.Controller):
    """Integrates its input at 200 Hz."""

    rate = rt.input("1/s")
    level = rt.output()
    sum = rt.memory("1", 1)

    def step(self) -> None:
        self.sum += 0.005 * self.rate
        self.level = self.sum


def level(rate: float = 1e-5, until: float = 0.5) -> rt.Scenario:
    """Return a scenario that integrates ``rate`` (1/s) in steps that are too small for float32."""
    out = rt.Scenario("level", until=until)
    level = out.controller(Level(), period="1/200")
    out.connect(rate, level.rate)
    return out


class Runner(rt.Plant):
    """Runs north at a constant speed."""

    latitude = rt.state("deg", HOME_DEG)
    speed = rt.parameter("m/s", 10)

    def derivative(self, d: Self) -> None:
        d.latitude = self.speed / METRES_PER_DEGREE


class Position(rt.Controller):
    """Computes the distance north of home."""

    latitude = rt.input("deg")
    home = rt.input("deg")
    north = rt.output("m")

    def step(self) -> None:
        self.north = (self.latitude - self.home) * METRES_PER_DEGREE


def position(until: float = 0.2) -> rt.Scenario:
    """Return a scenario that measures the distance of a runner, who moves 0.1 m per step."""
    out = rt.Scenario("position", until=until)
    runner = out.plant(Runner(), step=0.01)
    position = out.controller(Position(), period="1/100")
    out.connect(runner.latitude, position.latitude)
    out.connect(HOME_DEG, position.home)
    return out


class Busy(rt.Controller):
    """Computes a sum of sines."""

    terms = rt.input()
    angle = rt.input("rad")
    sum = rt.output()

    def step(self) -> None:
        self.sum = sum(math.sin(k * self.angle) for k in range(1, int(self.terms) + 1))


def busy(terms: int = 20, until: float = 0.02) -> rt.Scenario:
    """Return a scenario that computes a sum of ``terms`` sines a thousand times per second."""
    out = rt.Scenario("busy", until=until)
    busy = out.controller(Busy(), period="1/1000")
    out.connect(terms, busy.terms)
    out.connect(0.1, busy.angle)
    return out


class Deep(rt.Controller):
    """Returns the depth that is wanted."""

    wanted = rt.input()
    depth = rt.output()

    def step(self) -> None:
        self.depth = self.wanted


def deep(deepest: int = 100, until: float = 0.24) -> rt.Scenario:
    """Return a scenario whose recursion becomes deeper in each step."""
    out = rt.Scenario("deep", until=until)
    wanted = out.source("wanted", rt.Signals("depth [1]"))
    for step in range(deepest // 4):
        out.at(f"{step}/100", wanted.depth, 4 * (step + 1))
    deep = out.controller(Deep(), period="1/100")
    out.connect(wanted.depth, deep.wanted)
    return out
