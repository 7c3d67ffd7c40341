"""The scenarios that the tests of falsification share: carts that are pushed and held."""

from __future__ import annotations

CART = """
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
"""

HELD = """
import rtsim as rt


class Cart(rt.Plant):
    x = rt.state("m", 1)
    v = rt.state("m/s")
    force = rt.input("N")

    def derivative(self, d):
        d.x = self.v
        d.v = self.force


class Hold(rt.Controller):
    period = 0.1
    x = rt.input("m")
    v = rt.input("m/s")
    force = rt.output("N")

    def step(self):
        self.force = -4.0 * self.x - 2.0 * self.v


def scenario():
    loop = rt.Scenario("cart", until=6)
    cart = loop.plant(Cart(), step=0.05)
    hold = loop.controller(Hold())
    loop.connect(cart, hold)
    loop.require("BACK", "always[0, 5] cart.x > -0.4 m", "The cart hardly passes 0.")
    return loop


def broken():
    loop = scenario()
    loop.faults({"name": "stuck", "where": "hold.x", "kind": "stuck", "at": 5.5, "duration": 1})
    return loop
"""
STUCK = """
[[fault]]
name = "stuck"
where = "hold.x"
kind = "stuck"
at = 5.5        # s, after the cart has stopped
duration = 1.0
"""
