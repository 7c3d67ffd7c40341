"""The scenario that the tests of falsification share: a cart that a source pushes."""

from __future__ import annotations

CART = '''
import rtsim as rt


class Cart(rt.Plant):
    mass = rt.parameter("kg", 1.0)
    x = rt.state("m")
    v = rt.state("m/s")
    force = rt.input("N")

    def derivative(self, d):
        d.x = self.v
        d.v = self.force / self.mass


def scenario(friction=0.0):
    loop = rt.Scenario("cart", until=2)
    cart = loop.plant(Cart(), step=0.05)
    push = loop.source("push", rt.Signals(rt.Signal("force", "N")))
    loop.connect(push.force, cart.force)
    loop.at(1, push.force, 5.0)
    loop.require("NEAR", "always abs(cart.x) < 1.2 m")
    loop.require("FAR", "always (cart.x > 5 m implies cart.v < 0 m/s)")
    loop.require("LATER", "always[0, 9] cart.x < 1 m")
    return loop
'''
