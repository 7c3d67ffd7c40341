"""A fox chases a rabbit: two agents that react to each other at the same ticks.

At each tick the fox runs towards the next position of the rabbit, and the rabbit runs directly away
from the fox. Each animal sees the position of the other animal before the tick. The distance
therefore shrinks by the difference of both speeds until the fox bites.

``acausal=True`` adds a modelling error: the rabbit already sees the next position of the fox. With
this error, the distance is never shorter than the distance that the rabbit runs in one tick.
"""

from __future__ import annotations

from math import hypot

import rtsim as rt
from rtsim.core.tag import Duration

GAP = 10.05
COURSE = (0.8, 0.6)
"""Initial direction from the fox to the rabbit, a unit vector."""
AWAY_X, AWAY_Y = GAP * COURSE[0], GAP * COURSE[1]
"""Initial position of the rabbit, m. The fox starts at (0, 0)."""


class Agent(rt.Controller):
    """An animal that moves once in each tick."""

    other_x = rt.input("m", name="x")
    other_y = rt.input("m", name="y")
    other_vx = rt.input("m/s", name="vx")
    other_vy = rt.input("m/s", name="vy")
    x = rt.output("m")
    y = rt.output("m")
    vx = rt.output("m/s")
    vy = rt.output("m/s")
    at_x = rt.memory("m", name="x")
    at_y = rt.memory("m", name="y")
    speed = rt.parameter("m/s")
    tick = rt.parameter("s")

    def go(self, dx: float, dy: float) -> None:
        self.at_x += dx
        self.at_y += dy
        self.x = self.at_x
        self.y = self.at_y
        self.vx = dx / self.tick
        self.vy = dy / self.tick


class Fox(Agent):
    """A fox that runs towards the next position of the rabbit."""

    def step(self) -> None:
        stride = self.speed * self.tick
        dx = self.other_x + self.other_vx * self.tick - self.at_x
        dy = self.other_y + self.other_vy * self.tick - self.at_y
        far = hypot(dx, dy)
        share = stride / far if far > stride else 1.0
        self.go(share * dx, share * dy)


class Rabbit(Agent):
    """A rabbit that runs directly away from the fox."""

    x = rt.output("m", initial=AWAY_X)
    y = rt.output("m", initial=AWAY_Y)
    at_x = rt.memory("m", AWAY_X, name="x")
    at_y = rt.memory("m", AWAY_Y, name="y")

    def step(self) -> None:
        dx = self.at_x - self.other_x
        dy = self.at_y - self.other_y
        far = hypot(dx, dy)
        share = self.speed * self.tick / far if far > 1e-9 else 0.0  # the fox has reached it
        self.go(share * dx, share * dy)


class Judge(rt.Controller):
    """Controller that computes the distance, and whether the fox has bitten the rabbit."""

    fox_x = rt.input("m")
    fox_y = rt.input("m")
    rabbit_x = rt.input("m")
    rabbit_y = rt.input("m")
    gap = rt.output("m")
    bitten = rt.output()
    has_bitten = rt.memory(name="bitten")
    bite = rt.parameter("m", description="reach of the fox")

    def step(self) -> None:
        gap = hypot(self.rabbit_x - self.fox_x, self.rabbit_y - self.fox_y)
        if gap < self.bite:
            self.has_bitten = 1.0
        self.gap = gap
        self.bitten = self.has_bitten


def scenario(
    acausal: bool = False,
    fox: float = 6.0,
    rabbit: float = 5.0,
    bite: float = 0.3,
    tick: float = 0.1,
    until: Duration = 15,
) -> rt.Scenario:
    """A fox chases a rabbit; speeds ``fox`` and ``rabbit`` in m/s, ``bite`` in m, ``tick`` in s."""
    out = rt.Scenario(
        "fox-and-rabbit",
        until=until,
        assumptions=("both see the other's place and speed",),
        limits=("the rabbit sees the fox of the present tick: acausal",) if acausal else (),
    )
    hunter = out.controller(Fox(speed=fox, tick=tick), period=tick)
    prey = out.controller(Rabbit(speed=rabbit, tick=tick), period=tick)
    for one, other in ((hunter, prey), (prey, hunter)):
        out.connect(other.x, one.other_x)
        out.connect(other.y, one.other_y)
        out.connect(other.vx, one.other_vx)
        out.connect(other.vy, one.other_vy)
    judge = out.controller(Judge(bite=bite), on=("rabbit",))
    out.connect(hunter.x, judge.fox_x)
    out.connect(hunter.y, judge.fox_y)
    out.connect(prey.x, judge.rabbit_x)
    out.connect(prey.y, judge.rabbit_y)
    out.plot("gap [m]", judge.gap)
    out.plot("path of the fox", hunter.y, over=hunter.x)
    out.plot("path of the rabbit", prey.y, over=prey.x)
    if acausal:
        out.order(hunter, prey)
    return out
