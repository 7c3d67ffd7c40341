"""A computer that opens two remote valves: an example of computation time and network latency.

A tank fills until its pressure exceeds a limit. At the next sample, the computer begins to compute
the commands for both valves. The computer sends one command after the other over a network, so both
commands arrive late. The sample is at 53.100 s. The commands are completed at 53.212 and 53.213 s,
and arrive at 53.217 and 53.218 s.
"""

from __future__ import annotations

from typing import Self

import rtsim as rt
from rtsim.core.tag import Duration


class Tank(rt.Plant):
    """Tank with a constant inflow; each valve follows its command with a lag."""

    pressure = rt.state("bar")
    valve21 = rt.state()
    valve22 = rt.state()
    open21 = rt.input()
    open22 = rt.input()
    filling = rt.parameter("bar/s", 1.0 / 53.0, low=0.0)
    relief = rt.parameter("1/s", 0.2, low=0.0)
    lag = rt.parameter("s", 0.05, low=1e-6)
    assumptions = (
        "relief flow is proportional to opening and pressure",
        "valves open by a lag",
    )

    def derivative(self, d: Self) -> None:
        d.pressure = self.filling - self.relief * (self.valve21 + self.valve22) * self.pressure
        d.valve21 = (self.open21 - self.valve21) / self.lag
        d.valve22 = (self.open22 - self.valve22) / self.lag


class Valve(rt.Controller):
    """Controller that opens a valve for good when the pressure reaches the limit."""

    pressure = rt.input("bar")
    open = rt.output()
    latched = rt.memory()
    limit = rt.parameter("bar", 1.0)

    def step(self) -> None:
        if self.pressure >= self.limit:
            self.latched = 1.0
        self.open = self.latched


def scenario(until: Duration = 60, step: Duration = 0.01) -> rt.Scenario:
    """A tank with two valves, and a computer that samples the pressure every 0.3 s."""
    out = rt.Scenario("valves", until=until, limits=("the computer's load does not vary",))
    tank = out.plant(Tank(), step=step)
    out.plot("pressure [bar]", tank.pressure)
    for name, compute, command, position in (
        ("valve21", 0.112, tank.open21, tank.valve21),
        ("valve22", 0.113, tank.open22, tank.valve22),
    ):
        valve = out.controller(
            name, Valve(), period=0.3, compute=rt.Fixed(compute), transport=rt.Fixed(0.005)
        )
        out.connect(tank.pressure, valve.pressure)
        out.connect(valve.open, command)
        out.plot(name, position, valve.open)
    return out
