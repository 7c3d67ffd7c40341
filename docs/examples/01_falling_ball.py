"""A ball falls from a height of 100 m, without air.

This is the smallest scenario: one plant, described by a model. The model has two states, the
height and the speed. Its function ``motion`` fills the derivative of each state.

In theory the ball is at 100 m - g t^2 / 2, which is 21.52 m after 4 s.

Try next: ``--set ball.gravity=1.62`` drops the ball on the Moon. ``--until 6`` runs longer. The
model has no ground, so the ball falls on below 0 m; example 05 adds a ground.
"""

from rtsim import Model, Scenario, Signals


def motion(t, x, z, u, p, dx):
    """x: height and speed; p: gravity."""
    dx[0] = x[1]
    dx[1] = -p[0]


BALL = Model(
    name="ball",
    states=Signals("height [m] = 100", "speed [m/s]"),
    parameters=Signals("gravity [m/s^2] = 9.81"),
    derivative=motion,
)


def scenario():
    out = Scenario("falling-ball", until=4)
    out.plant("ball", BALL, step=0.01)
    return out
