"""Models with algebraic constraints, and runs of them."""

from __future__ import annotations

from typing import Any

from rtsim import Guard, Model, Scenario, Signal, Signals, simulate
from rtsim.record.recorders import MemoryRecorder

Row = list[float]


# A tank that drains through a pipe: the flow y solves y + y^3 = level, and a pump acts on events.


def drains(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = z[0] - y[0]


def pipe(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
    r[0] = y[0] + p[0] * y[0] ** 3 - x[0] - u[0]


def shows(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = 2.0 * y[0]


def flow_level(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
    g[0] = y[0] - 0.5


def refill(i: int, t: float, x: Any, y: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
    x[0] = x[0] + y[0]
    z[1] = y[0]


def pump(t: float, x: Any, y: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
    z[0] = 0.1 * y[0]


TANK = Model(
    "tank",
    Signals("level = 2"),
    drains,
    discrete=Signals("pumped", "last"),
    inputs=Signals("head"),
    outputs=Signals("shown"),
    parameters=Signals(Signal("bend", initial=1.0)),
    output=shows,
    update=pump,
    guards=(Guard("slow", -1),),
    guard=flow_level,
    reset=refill,
    algebraic=Signals("flow = 1"),
    residual=pipe,
)


def scenario_of(model: Model, step: str, solver: Any, until: float, **plant: Any) -> Scenario:
    out = Scenario(model.name, until=until)
    out.plant("plant", model, step=step, solver=solver, **plant)
    return out


def last(model: Model, step: str, solver: Any, until: float, plant: Any = None, **how: Any) -> Row:
    """Return states and algebraic values at the end of a run."""
    scenario = scenario_of(model, step, solver, until, **(plant or {}))
    outcome = simulate(scenario, recorder=MemoryRecorder(), **how)
    end = outcome.system.plants[0]
    return [*end.x.tolist(), *end.z.tolist()]
