"""A plant and a controller as classes, joined by handles; results by name."""

from typing import Self

import rtsim as rt


class Cart(rt.Plant):
    x = rt.state("m", 1.0)
    speed = rt.state("m/s")
    force = rt.input("N/kg")
    stopped = rt.mode("no", "yes")
    offset = rt.parameter("m", (0.0, 0.1))
    drag, slope = rt.parameter((0.01, 0.0))
    place, last = rt.memory("m", ((0, 0), (1, 1)))
    power = rt.output("W/kg")

    def derivative(self, d: Self) -> None:
        d.x = self.speed
        d.speed = self.force - self.drag * self.speed + self.slope + 0.0 * self.place[0]

    def outputs(self) -> None:
        self.power = self.force * (self.speed + self.offset[0])

    @rt.falling(terminal=True)
    def end(self) -> float:
        return self.x + 5.0

    @end.reset
    def stop(self) -> None:
        self.speed = 0.0
        self.stopped = "yes"


class Brake(rt.Controller):
    period = 0.1
    x = rt.input("m")
    speed = rt.input("m/s")
    force = rt.output("N/kg")
    gain = rt.parameter("1/s2", 4.0)
    steps = rt.memory()

    def step(self) -> None:
        self.steps += self.period
        self.force = -self.gain * self.x - 2.0 * self.speed


def loop_of(delay: float) -> tuple[rt.Scenario, Cart, Brake]:
    loop = rt.Scenario("cart", until=2)
    cart = loop.plant(Cart(x=2.0), step=0.01)
    brake = loop.controller("brake", Brake(), transport=delay)
    loop.connect(cart, brake)
    loop.set(brake.gain, 3.0)
    return loop, cart, brake


def peak(delay: float) -> float:
    loop, cart, _ = loop_of(delay)
    run = rt.simulate(loop)
    power = run[cart.power]
    late: list[str] = [event.source for event in run.events]
    assert run, run.in_words
    assert not late
    assert run.time[-1] == 2.0
    return float(abs(power).max()) + float(run.cart.x[-1]) + float(run["cart.x"][-1])


assert peak(0.0) < peak(0.1)
direct = rt.simulate(Cart(), Brake(), until=2, step=0.01)
direct_end: float = direct.cart.x[-1]
assert direct_end < 1.0
