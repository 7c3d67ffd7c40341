"""A ball bounces: a guard finds each impact, and a reset changes the speed.

The value of the guard is the height of the ball. When the height falls through 0, the function
``bounce`` reverses the speed and reduces it by 30 %. The bounces follow each other ever faster.
When they accumulate, the function ``lie`` puts the ball to rest. In theory the first impact is at
0.4515 s, and the ball comes to rest at 2.5586 s.

Try next: ``--set ball.restitution=0.9 --until 10``. The recording lists each impact as an event.
"""

from rtsim import Guard, Model, Scenario, Signals


def motion(t, x, z, u, p, dx):
    """x: height and speed; z[0] is 1 once the ball is at rest."""
    dx[0] = x[1]
    dx[1] = -9.81 * (1.0 - z[0])


def height(t, x, z, u, p, g):
    g[0] = x[0]


def bounce(i, t, x, z, u, p):
    x[0], x[1] = 0.0, -p[0] * x[1]


def lie(i, t, x, z, u, p):
    x[0], x[1], z[0] = 0.0, 0.0, 1.0


BALL = Model(
    name="ball",
    states=Signals("height [m] = 1", "speed [m/s]"),
    discrete=Signals("at_rest"),
    parameters=Signals("restitution = 0.7"),
    derivative=motion,
    guards=(Guard("floor", -1),),
    guard=height,
    reset=bounce,
    stop=lie,
)


def scenario():
    out = Scenario("bouncing-ball", until=3)
    out.plant("ball", BALL, step=0.01)
    return out
