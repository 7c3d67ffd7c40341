"""A fox chases a rabbit: two agents that react to each other at the same ticks.

At each tick the fox runs towards the next position of the rabbit, and the rabbit runs directly away
from the fox.  Each of them sees the position of the other before the tick.  The gap therefore
shrinks with the difference of their speeds, until the fox bites.

With ``acausal`` the rabbit moves after the fox and sees the new position of the fox at the same
tick, which is a modelling error.  The gap is then never shorter than the distance that the rabbit
runs in one tick.  A fox with a shorter bite therefore never reaches the rabbit.
"""

from __future__ import annotations

from math import hypot

from rtsim.components.controller import PythonController
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration
from rtsim.scenario.scenario import Scenario

PLACE = Signals("x [m]", "y [m]", "vx [m/s]", "vy [m/s]")
GAP = 10.05
COURSE = (0.8, 0.6)
"""Initial direction from the fox to the rabbit, a unit vector."""


def chase(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Move the fox towards the next position of the rabbit.

    ``u`` is the rabbit, ``s`` the position of the fox, ``p`` its speed (m/s) and the tick (s).
    """
    stride = p[0] * p[1]
    dx = u[0] + u[2] * p[1] - s[0]
    dy = u[1] + u[3] * p[1] - s[1]
    far = hypot(dx, dy)
    share = stride / far if far > stride else 1.0
    _go(s, y, share * dx, share * dy, p[1])


def flee(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Move the rabbit directly away from the fox.

    ``u`` is the fox, ``s`` the position of the rabbit, ``p`` its speed (m/s) and the tick (s).
    """
    dx = s[0] - u[0]
    dy = s[1] - u[1]
    far = hypot(dx, dy)
    share = p[0] * p[1] / far if far > 1e-9 else 0.0  # the fox has reached the rabbit
    _go(s, y, share * dx, share * dy, p[1])


def _go(s: Vector, y: Vector, dx: float, dy: float, tick: float) -> None:
    s[0] += dx
    s[1] += dy
    y[0] = s[0]
    y[1] = s[1]
    y[2] = dx / tick
    y[3] = dy / tick


def judge(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Compute the gap between fox and rabbit (m), and whether the fox has bitten the rabbit.

    ``u`` has both positions (m), ``s`` is 1 once the rabbit was bitten, ``p`` is the reach of a
    bite (m).
    """
    gap = hypot(u[2] - u[0], u[3] - u[1])
    if gap < p[0]:
        s[0] = 1.0
    y[0] = gap
    y[1] = s[0]


def _at(x: float, y: float) -> Signals:
    return Signals(f"x [m] = {x!r}", f"y [m] = {y!r}", "vx [m/s]", "vy [m/s]")


def _place(x: float, y: float) -> Signals:
    return Signals(f"x [m] = {x!r}", f"y [m] = {y!r}")


def scenario(
    acausal: bool = False,
    fox: float = 6.0,
    rabbit: float = 5.0,
    bite: float = 0.3,
    tick: float = 0.1,
    until: Duration = 15,
) -> Scenario:
    """A fox chases a rabbit; speeds ``fox`` and ``rabbit`` in m/s, ``bite`` in m, ``tick`` in s."""
    out = Scenario(
        "fox-and-rabbit",
        until=until,
        assumptions=("both see the other's place and speed",),
        limits=("the rabbit sees the fox of the present tick: acausal",) if acausal else (),
    )
    away = (GAP * COURSE[0], GAP * COURSE[1])
    for name, step, speed, at, other in (
        ("fox", chase, fox, (0.0, 0.0), "rabbit"),
        ("rabbit", flee, rabbit, away, "fox"),
    ):
        agent = PythonController(
            step, PLACE, _at(*at), memory=_place(*at), name=name,
            parameters=Signals("speed [m/s]", "tick [s]"), values={"speed": speed, "tick": tick},
        )  # fmt: skip
        seen = {signal: f"{other}.{signal}" for signal in PLACE.names}
        out.controller(name, agent, period=tick, inputs=seen)
    looks = PythonController(
        judge,
        Signals("fox_x [m]", "fox_y [m]", "rabbit_x [m]", "rabbit_y [m]"),
        Signals("gap [m]", "bitten"),
        memory=Signals("bitten"), parameters=Signals("bite [m]"), values={"bite": bite},
    )  # fmt: skip
    places = {f"{who}_{axis}": f"{who}.{axis}" for who in ("fox", "rabbit") for axis in "xy"}
    out.controller("judge", looks, on=("rabbit",), inputs=places)
    out.plot("gap [m]", "judge.gap")
    out.plot("path of the fox", "fox.y", over="fox.x")
    out.plot("path of the rabbit", "rabbit.y", over="rabbit.x")
    if acausal:
        out.order("fox", "rabbit")
    return out
