"""The commands of example 03 share a CAN bus with the frames of other nodes.

The bus has 10 kbit/s, so that one frame takes 13.2 ms. When the bus is free, the waiting frame with
the smallest identifier goes first. The frames of the ``others`` are more important than the
commands. With two of them, a command takes up to 40 ms. With four of them, the frames need more
time than there is: commands wait longer and longer, until the loop is unstable.

Try next: ``rtsim bus load docs/examples/11_can_bus.py --set others=4``, and a bit rate of 20_000.
"""

from rtsim import Model, PythonController, Scenario, Signals
from rtsim.components.can_bus import CanBus


def motion(t, x, z, u, p, dx):
    """x: position; u: commanded speed."""
    dx[0] = u[0]


def control(t, u, s, p, y):
    """u: sampled position; y: commanded speed."""
    y[0] = -5.0 * u[0]


CART = Model("cart", Signals("x [m] = 1"), motion, inputs=Signals("speed [m/s]"))


def scenario(others=2, bitrate=10_000):
    out = Scenario("can_bus", until=8)
    bus = CanBus(bitrate)
    out.plant("cart", CART, step=0.01, inputs={"speed": "controller.speed"})
    controller = PythonController(control, inputs=Signals("x [m]"), outputs=Signals("speed [m/s]"))
    wires = {"x": "cart.x"}
    command = bus.frame(0x200)
    out.controller("controller", controller, period=0.02, inputs=wires, transport=command)
    for k in range(others):
        frame = bus.frame(0x100 + k)
        out.sensor(f"other_{k}", {"x": "cart.x"}, period=0.1, transport=frame)
    return out
