"""A controller samples the position of a cart every 20 ms and commands the speed of the cart.

The cart moves continuously. The command stays constant from one sample to the next. In theory each
sample of the position is 1 - 0.02 * gain times the sample before. With a gain of 5 the cart
therefore moves to 0 without oscillation. With a gain above 100 the loop is unstable.

Try next: ``--set controller.gain=60`` makes the cart pass 0 between any two samples.
``--set controller.gain=101`` makes the oscillation grow.
"""

from rtsim import Model, PythonController, Scenario, Signals


def motion(t, x, z, u, p, dx):
    """x: position; u: commanded speed."""
    dx[0] = u[0]


def control(t, u, s, p, y):
    """u: sampled position; p: gain; y: commanded speed."""
    y[0] = -p[0] * u[0]


CART = Model("cart", Signals("x [m] = 1"), motion, inputs=Signals("speed [m/s]"))


def scenario():
    out = Scenario("sampled-controller", until=1)
    out.plant("cart", CART, step=0.01, inputs={"speed": "controller.speed"})
    controller = PythonController(
        control,
        inputs=Signals("x [m]"),
        outputs=Signals("speed [m/s]"),
        parameters=Signals("gain [1/s] = 5"),
    )
    out.controller("controller", controller, period=0.02, inputs={"x": "cart.x"})
    return out
