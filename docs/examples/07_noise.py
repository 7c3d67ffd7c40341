"""Gusts of wind turn a boat, and the water damps its rate of turn.

The component ``wind`` draws a new random value every 0.1 s and holds it. Its values come from a
random stream that is named after the component. The same seed gives the same gusts, also after you
add other components. In theory the standard deviation of the rate is 0.2 / sqrt(2) = 0.14 rad/s in
a long run.

Try next: ``--seed 2`` gives other gusts. ``--set boat.damping=4`` halves the standard deviation.
"""

from rtsim import Model, Scenario, Signals


def turning(t, x, z, u, p, dx):
    """x: rate of turn; u: gust; p: damping."""
    dx[0] = u[0] - p[0] * x[0]


BOAT = Model(
    name="boat",
    states=Signals("rate [rad/s]"),
    inputs=Signals("gust [rad/s^2]"),
    parameters=Signals("damping [1/s] = 1"),
    derivative=turning,
)


def scenario():
    out = Scenario("noise", until=60)
    out.plant("boat", BOAT, step=0.1, inputs={"gust": "wind.gust"})
    out.noise("wind", Signals("gust [rad/s^2]"), deviation=0.2, period=0.1)
    return out
