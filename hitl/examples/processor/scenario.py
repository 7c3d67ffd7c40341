"""Four small controllers whose errors show only on the target processor.

Each function returns a scenario with a reference controller.  ``level``: a ``double`` has only 32
bits.  ``position``: a ``float32`` is too coarse for degrees.  ``busy``: a step takes longer than
its period.  ``deep``: the stack overflows into the static data.
"""

from __future__ import annotations

import math

from rtsim import Model, PythonController, Scenario, Signal, Signals
from rtsim.core.signals import Vector

METRES_PER_DEGREE = 111132.0
HOME_DEG = 45.5017


def level_law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    s[0] += 0.005 * u[0]
    y[0] = s[0]


def level(rate: float = 1e-5, until: float = 0.5) -> Scenario:
    """Return a scenario that integrates ``rate`` (1/s) in steps too small for a float32."""
    out = Scenario("level", until=until)
    design = PythonController(
        level_law,
        inputs=Signals("rate [1/s]"),
        outputs=Signals("level [1]"),
        memory=Signals(Signal("level", "1", initial=1.0)),
    )
    out.controller("level", design, period="1/200", inputs={"rate": rate})
    return out


def run(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    """Compute the derivative of the latitude ``x`` (deg) for the speed ``p`` to the north (m/s)."""
    dx[0] = p[0] / METRES_PER_DEGREE


RUNNER = Model(
    name="runner",
    states=Signals(Signal("latitude", "deg", initial=HOME_DEG)),
    derivative=run,
    parameters=Signals(Signal("speed", "m/s", initial=10.0)),
)


def north_law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    y[0] = (u[0] - u[1]) * METRES_PER_DEGREE


def position(until: float = 0.2) -> Scenario:
    """Return a scenario with the distance of a runner, who moves 0.1 m north in each step."""
    out = Scenario("position", until=until)
    out.plant("runner", RUNNER, step=0.01)
    design = PythonController(
        north_law,
        inputs=Signals("latitude [deg]", "home [deg]"),
        outputs=Signals("north [m]"),
    )
    inputs: dict[str, str | float] = {"latitude": "runner.latitude", "home": HOME_DEG}
    out.controller("position", design, period="1/100", inputs=inputs)
    return out


def busy_law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    y[0] = sum(math.sin(k * u[1]) for k in range(1, int(u[0]) + 1))


def busy(terms: int = 20, until: float = 0.02) -> Scenario:
    """Return a scenario that computes a sum of ``terms`` sines a thousand times per second."""
    out = Scenario("busy", until=until)
    design = PythonController(
        busy_law, inputs=Signals("terms [1]", "angle [rad]"), outputs=Signals("sum [1]")
    )
    inputs: dict[str, str | float] = {"terms": float(terms), "angle": 0.1}
    out.controller("busy", design, period="1/1000", inputs=inputs)
    return out


def deep_law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    y[0] = u[0]


def deep(deepest: int = 100, until: float = 0.24) -> Scenario:
    """Return a scenario whose recursion gets four calls deeper in each step, up to ``deepest``."""
    out = Scenario("deep", until=until)
    out.source("wanted", Signals("depth [1]"))
    for step in range(deepest // 4):
        out.at(f"{step}/100", "wanted.depth", 4 * (step + 1))
    design = PythonController(deep_law, inputs=Signals("wanted [1]"), outputs=Signals("depth [1]"))
    out.controller("deep", design, period="1/100", inputs={"wanted": "wanted.depth"})
    return out
