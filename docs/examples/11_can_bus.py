"""The commands of example 03 share a CAN bus with the frames of other nodes.

The bus has 10 kbit/s, so that one frame takes 13.2 ms. When the bus is free, the waiting frame with
the smallest identifier goes first. The argument ``others`` is the number of sensors whose frames
have priority over the commands. With two of these sensors, a command takes up to 40 ms. With four
sensors, the bus cannot carry all frames: the latency of the commands grows until the loop is
unstable.

Try next: ``rtsim bus load docs/examples/11_can_bus.py --set others=4``, and a bit rate of 20_000.
"""

import rtsim as rt
from rtsim.components import CanBus


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


def scenario(others=2, bitrate=10_000):
    loop = rt.Scenario("can_bus", until=8)
    bus = CanBus(bitrate)
    cart = loop.plant(Cart(), step=0.01)
    driver = loop.controller(Driver(), period=0.02, transport=bus.frame(0x200))
    loop.connect(cart, driver)
    for k in range(others):
        frame = bus.frame(0x100 + k)
        loop.sensor(f"other_{k}", {"x": cart.x}, period=0.1, transport=frame)
    return loop
