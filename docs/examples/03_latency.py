"""The cart of example 02 receives the commands of its controller late.

Each command is a message. The argument ``transport`` is the latency of the link that carries it.
The cart does not move before the first command arrives. With a latency of 0.1 s the position passes
0 a little and settles. With 0.35 s the oscillation grows.

Try next: record a run, and list the time stamps of its messages with ``rtsim messages``. For a
random latency, import ``Gamma`` and use ``Gamma(2.0, latency / 4, minimum=latency / 2)``.
"""

from rtsim import Fixed, Model, PythonController, Scenario, Signals


def motion(t, x, z, u, p, dx):
    """x: position; u: commanded speed."""
    dx[0] = u[0]


def control(t, u, s, p, y):
    """u: sampled position; y: commanded speed."""
    y[0] = -5.0 * u[0]


CART = Model("cart", Signals("x [m] = 1"), motion, inputs=Signals("speed [m/s]"))


def scenario(latency=0.1):
    out = Scenario("latency", until=4)
    out.plant("cart", CART, step=0.01, inputs={"speed": "controller.speed"})
    controller = PythonController(control, inputs=Signals("x [m]"), outputs=Signals("speed [m/s]"))
    wires = {"x": "cart.x"}
    out.controller("controller", controller, period=0.02, inputs=wires, transport=Fixed(latency))
    return out
