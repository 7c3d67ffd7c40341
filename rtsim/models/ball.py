"""A ball that falls, bounces, and comes to rest: the smallest model with an event.

The ball falls freely.  When its height crosses zero downwards, it bounces with ``restitution``
times its speed.  The durations of the bounces are a geometric series with a finite sum (Zeno); in
the stop mode the ball lies still.

With initial height h0 and speed v0, gravity g and restitution e, the first impact has the speed
v1 = sqrt(v0^2 + 2 g h0) and is at t1 = (v0 + v1)/g.  Impact n + 1 follows 2 v1 e^n/g after impact
n, and the ball comes to rest at t1 + 2 v1 e/(g (1 - e)).
"""

from __future__ import annotations

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration
from rtsim.equations.model import Guard, Model
from rtsim.scenario.scenario import Scenario

GRAVITY, RESTITUTION = 0, 1
LIES = 0


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """Compute the derivative: free fall, or zero in the stop mode."""
    dx[0] = x[1]
    dx[1] = -p[GRAVITY] if z[LIES] == 0.0 else 0.0


def height(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    """Compute the guard: the height above the floor, m."""
    g[0] = x[0]


def bounce(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    """Reverse the speed and reduce it by the restitution, when the ball hits the floor."""
    x[0] = 0.0
    x[1] = -p[RESTITUTION] * x[1]


def lie(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    """Enter the stop mode, in which the ball lies still."""
    x[0] = 0.0
    x[1] = 0.0
    z[LIES] = 1.0


BALL = Model(
    name="ball",
    states=Signals(
        Signal("height", "m", initial=1.0), Signal("speed", "m/s", derivative_of="height")
    ),
    derivative=derivative,
    discrete=Signals("lies"),
    parameters=Signals("gravity [m/s^2] = 9.81", "restitution = 0.7"),
    guards=(Guard("floor", -1),),
    guard=height,
    reset=bounce,
    stop=lie,
    assumptions=("the impact takes no time", "no air"),
)


def scenario(*, until: Duration = 4, step: Duration = "1/100", solver: str = "rk4") -> Scenario:
    """A bouncing ball: dropped from 1 m, at rest after 2.56 s."""
    out = Scenario("ball", until=until)
    out.plant("ball", BALL, step=step, solver=solver)
    out.plot("height [m]", "ball.height")
    out.plot("speed [m/s]", "ball.speed")
    out.plot("speed over height", "ball.speed", over="ball.height")
    return out
