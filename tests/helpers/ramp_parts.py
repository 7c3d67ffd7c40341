"""A plant that rises and falls, with a slow controller and a source, for tests of requirements."""

from __future__ import annotations

from typing import Any

import rtsim as rt

S = 1_000_000_000


class Ramp(rt.Plant):
    """``x`` rises with the input ``slope``; at 1 m it falls to 0."""

    x = rt.state("m")
    count = rt.memory("1")
    slope = rt.input("m/s")
    pair = rt.state("m", (1.0, 2.0))

    def derivative(self, d: Any) -> None:
        d.x = self.slope
        d.pair = 0.0, 0.0

    @rt.rising
    def full(self) -> float:
        return self.x - 1.0

    @full.reset
    def empty(self) -> None:
        self.x = 0.0
        self.count = self.count + 1.0


class Slow(rt.Controller):
    """Answers half its input."""

    x = rt.input("m")
    half = rt.output("m", initial=5.0)

    def step(self) -> None:
        self.half = 0.5 * self.x


def ramp(until: float = 4, *required: str, transport: float = 0.0) -> rt.Scenario:
    loop = rt.Scenario("ramp", until=until)
    drive = loop.source("drive", rt.Signals(rt.Signal("slope", "m/s")), {"slope": 0.5})
    plant = loop.plant(Ramp(), step=0.1)
    slow = loop.controller(Slow(), period=0.5, compute=0.2, transport=transport)
    loop.connect(drive.slope, plant.slope)
    loop.connect(plant.x, slow.x)
    loop.at(3, drive.slope, 0.25)
    for text in required:
        loop.require_all(text)
    return loop
