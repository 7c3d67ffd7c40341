"""The cart of example 02 receives each command of its controller after a latency.

Each command is a message. The argument ``transport`` is the latency of the link that carries the
message. The cart does not move before the first command arrives. With a latency of 0.1 s the
position slightly overshoots 0 and settles. With 0.35 s the oscillation grows.

Try next: record a run, and list the time stamps of its messages with ``rtsim messages``. For a
random latency, give ``transport=rt.Gamma(2.0, latency / 4, minimum=latency / 2)``.
"""

import rtsim as rt


class Cart(rt.Plant):
    x = rt.state("m", 1)
    speed = rt.input("m/s")

    def derivative(self, d):
        d.x = self.speed


class Driver(rt.Controller):
    x = rt.input("m")
    speed = rt.output("m/s")

    def step(self):
        self.speed = -5 * self.x


def scenario(latency=0.1):
    loop = rt.Scenario("latency", until=4)
    cart = loop.plant(Cart(), step=0.01)
    driver = loop.controller(Driver(), period=0.02, transport=latency)
    loop.connect(cart, driver)
    return loop
