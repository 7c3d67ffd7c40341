"""A computer that opens two remote valves: an example of compute and network latency.

A tank fills until its pressure exceeds a limit.  At its next sample, the computer decides to open
both valves.  It computes one command after the other and sends each command over a network, so the
commands arrive some time after the sample.  The sample is at 53.100 s; the commands are completed
at 53.212 and 53.213 s, and they arrive at 53.217 and 53.218 s.
"""

from __future__ import annotations

from rtsim.components.controller import PythonController
from rtsim.components.latency import Fixed
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration
from rtsim.equations.model import Model
from rtsim.scenario.scenario import Scenario


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """Fill the tank at a constant rate; each valve follows its command with a first-order lag."""
    dx[0] = p[0] - p[1] * (x[1] + x[2]) * x[0]
    dx[1] = (u[0] - x[1]) / p[2]
    dx[2] = (u[1] - x[2]) / p[2]


TANK = Model(
    name="tank",
    states=Signals("pressure [bar]", "valve21 [1]", "valve22 [1]"),
    inputs=Signals("open21 [1]", "open22 [1]"),
    parameters=Signals(
        Signal("filling", "bar/s", initial=1.0 / 53.0, low=0.0),
        Signal("relief", "1/s", initial=0.2, low=0.0),
        Signal("lag", "s", initial=0.05, low=1e-6),
    ),
    derivative=derivative,
    assumptions=("relief flow is proportional to opening and pressure", "valves open by a lag"),
)


def control(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Open the valve when the pressure exceeds the limit, and keep it open."""
    if u[0] >= p[0]:
        s[0] = 1.0
    y[0] = s[0]


def _valve(name: str) -> PythonController:
    return PythonController(
        control,
        inputs=Signals("pressure [bar]"),
        outputs=Signals("open [1]"),
        memory=Signals("latched [1]"),
        parameters=Signals("limit [bar] = 1"),
        name=name,
    )


def scenario(until: Duration = 60, step: Duration = 0.01) -> Scenario:
    """A tank with two valves and a computer that samples its pressure every 0.3 s."""
    out = Scenario("valves", until=until, limits=("the computer's load does not vary",))
    out.plant("tank", TANK, step=step, inputs={"open21": "valve21.open", "open22": "valve22.open"})
    for name, compute in (("valve21", 0.112), ("valve22", 0.113)):
        out.controller(
            name,
            _valve(name),
            period=0.3,
            inputs={"pressure": "tank.pressure"},
            compute=Fixed(compute),
            transport=Fixed(0.005),
        )
    out.plot("pressure [bar]", "tank.pressure")
    for name in ("valve21", "valve22"):
        out.plot(name, f"tank.{name}", f"{name}.open")
    return out
