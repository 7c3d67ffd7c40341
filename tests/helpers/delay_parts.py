"""Models with delays, for several tests."""

# ruff: noqa: ARG001

from __future__ import annotations

import math
from typing import Any

from rtsim import Delayed, Model, Scenario, Signals, simulate
from rtsim.core.signals import Vector
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.solve import Solver

S = 1_000_000_000


def ran(scenario: Scenario, **how: Any) -> Recording:
    recorder = MemoryRecorder()
    simulate(scenario, recorder=recorder, **{"compile": False, **how})
    return recorder.recording()


def single(model: Model, until: float, solver: str | Solver = "rk4", step: str = "1/8") -> Scenario:
    out = Scenario("delays", until=until)
    out.plant("a", model, step=step, solver=solver)
    return out


def decay(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = -u[0]


DECAY = Model(
    "decay", states=Signals("x = 1"), derivative=decay, delays=(Delayed("x", 1.0, before=1.0),)
)


def by_steps(t: float) -> float:
    """The solution, by the method of steps: a polynomial of degree k between k - 1 and k."""
    terms = range(math.floor(t) + 2)
    return math.fsum((-1) ** k * (t - (k - 1)) ** k / math.factorial(k) for k in terms)
