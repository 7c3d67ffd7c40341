"""A controller samples the position of a cart every 20 ms and commands the speed of the cart.

The cart moves continuously. The command stays constant from one sample to the next. In theory, each
sample of the position is the previous sample multiplied by (1 - 0.02 * gain). With a gain of 5 the
cart therefore moves to 0 without oscillation. With a gain above 100 the loop is unstable.

Try next: with ``--set driver.gain=60`` the position of the cart changes its sign between any two
samples. ``--set driver.gain=101`` makes the oscillation grow.
"""

import rtsim as rt


class Cart(rt.Plant):
    x = rt.state("m", 1)
    speed = rt.input("m/s", description="commanded speed")

    def derivative(self, d):
        d.x = self.speed


class Driver(rt.Controller):
    x = rt.input("m")
    speed = rt.output("m/s")
    gain = rt.parameter("1/s", 5)

    def step(self):
        self.speed = -self.gain * self.x


def scenario():
    loop = rt.Scenario("sampled-controller", until=1)
    cart = loop.plant(Cart(), step=0.01)
    driver = loop.controller(Driver(), period=0.02)
    loop.connect(cart, driver)
    return loop
