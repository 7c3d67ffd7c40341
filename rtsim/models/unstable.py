"""An unstable plant and a sampled controller that stabilises it.

x'' = 2 x + u with u_k = -[8 4] x - s_(k-1), s_k = s_(k-1) + x_1 / 2, every 0.1 s.
"""

from __future__ import annotations

from rtsim.components.controller import PythonController
from rtsim.components.latency import Fixed
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration
from rtsim.equations.model import Model
from rtsim.scenario.scenario import Scenario


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """Compute the derivative of position and speed of the plant."""
    dx[0] = x[1]
    dx[1] = p[0] * x[0] + u[0]


UNSTABLE = Model(
    name="unstable",
    states=Signals(Signal("x", "m", initial=1.0), Signal("v", "m/s", derivative_of="x")),
    inputs=Signals("force [N/kg]"),
    parameters=Signals(Signal("stiffness", "1/s^2", initial=2.0)),
    derivative=derivative,
    assumptions=("the force is held between answers of the controller",),
)


def control(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Compute the force from proportional, derivative and summed feedback; ``s`` is the sum."""
    y[0] = -(p[0] * u[0] + p[1] * u[1]) - s[0]
    s[0] += p[2] * u[0]


def controller() -> PythonController:
    """Return the sampled controller with gains 8, 4 and 1/2."""
    return PythonController(
        control,
        inputs=Signals("x [m]", "v [m/s]"),
        outputs=Signals("force [N/kg]"),
        memory=Signals("sum [N/kg]"),
        parameters=Signals(
            "proportional [1/s^2] = 8", "derivative [1/s] = 4", "integral [1/s^2] = 0.5"
        ),
        compile=True,
        name="controller",
    )


def scenario(latency: Duration = 0, step: Duration = 0.01, until: Duration = 10) -> Scenario:
    """An unstable plant with a sampled controller, whose answers take ``latency`` s to arrive."""
    out = Scenario("unstable", until=until)
    out.plant("plant", UNSTABLE, step=step, inputs={"force": "controller.force"})
    out.controller(
        "controller",
        controller(),
        period=0.1,
        inputs={"x": "plant.x", "v": "plant.v"},
        transport=Fixed(latency),
    )
    out.plot("position [m]", "plant.x")
    out.plot("speed [m/s]", "plant.v")
    out.plot("force [N/kg]", "plant.force", "controller.force")
    out.plot("speed over position", "plant.v", over="plant.x")
    return out
