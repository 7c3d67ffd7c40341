"""Five cars in a row, each of which follows the car in front.

The cars drive towards negative positions. Inputs are the throttle and the brake of the first car,
from 0 to 1. Each other car chases the car in front until the gap is 10 m. The car then keeps its
distance; it brakes at a gap of 5 m and chases again at 15 m. A braking car chases again from a gap
of 20 m.

Source: Hu, Lygeros and Sastry, "Towards a Theory of Stochastic Hybrid Systems" (HSCC 2000), as in
the model ``cars`` of ARCH-COMP.

The cars change their modes at the steps of the plant. With ``located=True``, the modes change
exactly at these gaps, which takes up to 100 times as long.
"""

from __future__ import annotations

from typing import Self

import rtsim as rt
from rtsim.core.tag import Duration
from rtsim.models.falsification.requirements import CARS, end, required

CHASE, KEEP, BRAKE = 0.0, 1.0, 2.0


@rt.compiled
def following(gap: float, mode: float) -> float:
    """Return the new mode of a car in ``mode`` at a gap (m)."""
    if mode == CHASE:
        return KEEP if gap <= 10.0 else CHASE
    if mode == KEEP:
        return CHASE if gap >= 15.0 else BRAKE if gap <= 5.0 else KEEP
    return CHASE if gap >= 20.0 else BRAKE


@rt.compiled
def margin(gap: float, mode: float) -> float:
    """Return the distance (m) of a gap from the limit at which the mode ends."""
    if mode == CHASE:
        return gap - 10.0
    return min(gap - 5.0, 15.0 - gap) if mode == KEEP else 20.0 - gap


@rt.compiled
def after(gap: float, mode: float) -> float:
    if mode == CHASE:
        return KEEP
    return BRAKE if mode == KEEP and gap < 10.0 else CHASE


@rt.compiled
def speed(v: float, mode: float) -> float:
    """Return the change of the position of a follower, m/s."""
    return v if mode == KEEP else -v


@rt.compiled
def acceleration(v: float, mode: float) -> float:
    """Return the change of the speed of a follower, m/s^2."""
    if mode == CHASE:
        return 1.0
    return 0.0 if mode == KEEP else -v


class Row(rt.Plant):
    """The positions and speeds of the five cars."""

    y1, y2, y3, y4, y5 = rt.state("m", (0, 10, 20, 30, 40))
    v1, v2, v3, v4, v5 = rt.state("m/s", (0, 0, 0, 0, 0))
    m2, m3, m4, m5 = rt.memory("1", (KEEP, KEEP, KEEP, KEEP))
    throttle = rt.input("m/s^2")
    brake = rt.input("1/s")

    def derivative(self, d: Self) -> None:
        d.y1, d.v1 = self.v1, -self.throttle - self.brake * self.v1
        d.y2, d.v2 = speed(self.v2, self.m2), acceleration(self.v2, self.m2)
        d.y3, d.v3 = speed(self.v3, self.m3), acceleration(self.v3, self.m3)
        d.y4, d.v4 = speed(self.v4, self.m4), acceleration(self.v4, self.m4)
        d.y5, d.v5 = speed(self.v5, self.m5), acceleration(self.v5, self.m5)


class Cars(Row):
    """Cars that change their modes at the steps of the plant."""

    def update(self) -> None:
        self.m2 = following(self.y2 - self.y1, self.m2)
        self.m3 = following(self.y3 - self.y2, self.m3)
        self.m4 = following(self.y4 - self.y3, self.m4)
        self.m5 = following(self.y5 - self.y4, self.m5)


class LocatedCars(Row):
    """Cars that change their modes when the gaps reach their limits."""

    @rt.falling
    def gap2(self) -> float:
        return margin(self.y2 - self.y1, self.m2)

    @gap2.reset
    def change2(self) -> None:
        self.m2 = after(self.y2 - self.y1, self.m2)

    @rt.falling
    def gap3(self) -> float:
        return margin(self.y3 - self.y2, self.m3)

    @gap3.reset
    def change3(self) -> None:
        self.m3 = after(self.y3 - self.y2, self.m3)

    @rt.falling
    def gap4(self) -> float:
        return margin(self.y4 - self.y3, self.m4)

    @gap4.reset
    def change4(self) -> None:
        self.m4 = after(self.y4 - self.y3, self.m4)

    @rt.falling
    def gap5(self) -> float:
        return margin(self.y5 - self.y4, self.m5)

    @gap5.reset
    def change5(self) -> None:
        self.m5 = after(self.y5 - self.y4, self.m5)


def scenario(
    throttle: float = 0.0,
    brake: float = 0.0,
    requirement: str = "",
    located: bool = False,
    step: Duration = 0.01,
    until: Duration | None = None,
) -> rt.Scenario:
    """Five cars in a row, whose first car has a throttle and a brake from 0 to 1.

    ``requirement`` is the name of a requirement in ``cars.toml``. By default, a run with a
    requirement ends when the requirement is decided, and any other run at 100 s.
    """
    wanted = [required(CARS, requirement)] if requirement else []
    if until is None:
        until = end(wanted[0]) if wanted else 100
    out = rt.Scenario("cars", until=until)
    out.require_all(*wanted)
    leader = out.source(
        "leader",
        rt.Signals(
            rt.Signal("throttle", "m/s^2", initial=throttle, low=0.0, high=1.0),
            rt.Signal("brake", "1/s", initial=brake, low=0.0, high=1.0),
        ),
    )
    cars = (
        out.plant("cars", LocatedCars(), step=step)
        if located
        else out.plant("cars", Cars(), step=step, update_period=step)
    )
    out.connect(leader.throttle, cars.throttle)
    out.connect(leader.brake, cars.brake)
    out.plot("position [m]", cars.y1, cars.y2, cars.y3, cars.y4, cars.y5)
    return out
