"""A scenario with a recorded column of its own: the energy of the plant ``unstable``."""

from __future__ import annotations

from dataclasses import replace

from rtsim import Scenario, Signals
from rtsim.components.latency import Fixed
from rtsim.core.signals import Vector
from rtsim.models.unstable import UNSTABLE, controller


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Write the recorded column."""
    y[0] = 0.5 * x[1] * x[1] - x[0] * x[0]


def scenario(latency: float = 0.0) -> Scenario:
    """The loop of ``unstable`` by Heun's method, with its energy in the recording."""
    out = Scenario("watched-loop", until=2)
    model = replace(UNSTABLE, outputs=Signals("energy [m^2/s^2]"), output=output)
    out.plant("plant", model, step=0.01, solver="heun", inputs={"force": "controller.force"})
    out.controller(
        "controller",
        controller(),
        period=0.1,
        inputs={"x": "plant.x", "v": "plant.v"},
        transport=Fixed(latency),
    )
    return out
