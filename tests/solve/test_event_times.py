"""Every solver places events where the closed form has them, to its order or its tolerance.

A solver that is registered later is tested too.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration
from rtsim.equations.model import Guard, Model
from rtsim.models.ball import BALL
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import SOLVERS, SciPy, Solver
from rtsim.solve.adaptive import StepTolerance

PAIRED = ("rkn4", "semi_implicit_euler")
"""Solvers of states in pairs, which the tank does not have."""
H = 1e-2
"""The step of a fixed-step solver (s)."""
GRIDS = {True: (4, "1/10"), False: ("1/100",)}
"""The steps of the plant for an adaptive solver, and for a fixed-step solver."""


def circles(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -x[0]


def first(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0]


CIRCLE = Model("circle", Signals("q = 1", Signal("v", derivative_of="q")), circles,
               guards=(Guard("g"),), guard=first)  # fmt: skip


def empties(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -x[0]


def half(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] - 0.5


def fills(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[0] = 1.0


TANK = Model("tank", Signals("level = 1"), empties, guards=(Guard("g", -1),), guard=half,
             reset=fills)  # fmt: skip


def crossings(
    model: Model, solver: str | Solver, step: Duration, until: Duration = 4
) -> tuple[Vector, Recording]:
    """The times (s) at which the guard fires."""
    scenario, recorder = Scenario(model.name, until=until), MemoryRecorder()
    scenario.plant("w", model, step=step, solver=solver)
    simulate(scenario, recorder=recorder)
    found = recorder.recording()
    return np.array([e.tag.ns / 1e9 for e in found.events if e.kind == "Crossed"]), found


def allowed(name: str) -> float:
    """The error (s) of one event: a few times the tolerance, or the error of a few steps."""
    solver = SOLVERS[name]
    if isinstance(solver, StepTolerance):
        return 4 * solver.rtol + 1e-9
    return H**solver.order + 1e-9


@pytest.mark.parametrize("name", SOLVERS)
def test_each_event_is_within_the_error_of_the_solver(name: str) -> None:
    for step in GRIDS[isinstance(SOLVERS[name], StepTolerance)]:
        for model, begin, every in (
            (CIRCLE, math.pi / 2, math.pi),
            (TANK, math.log(2), math.log(2)),
        ):
            if model is TANK and name in PAIRED:
                continue
            found, _ = crossings(model, name, step)
            exact = begin + every * np.arange(len(found))
            assert len(found) == math.ceil((4 - begin) / every)
            errors = np.abs(found - exact) / np.arange(1, len(found) + 1)
            assert errors.max() < allowed(name), (model.name, step)


@pytest.mark.parametrize("name", SOLVERS)
def test_the_guard_is_zero_in_the_state_at_an_event(name: str) -> None:
    """To rounding: less than it moves in a ten-thousandth of a ns."""
    found, recording = crossings(CIRCLE, name, GRIDS[isinstance(SOLVERS[name], StepTolerance)][0])
    rows = recording.tracks["w"].rows
    at = [round(t * 1e9) for t in found]
    values = rows.floats[np.isin(rows.ns, at), 0]
    assert values.size >= len(at)
    assert np.abs(values).max() < 1e-13


V, G, E = math.sqrt(2 * 9.81), 9.81, 0.7


@pytest.mark.parametrize("method", ["BDF", "LSODA"])
@pytest.mark.parametrize("step", [1, "1/100"])
def test_a_multistep_method_that_starts_at_each_tag_keeps_its_tolerance(
    method: str, step: Duration
) -> None:
    """Each tag starts the method anew, at order 1, with an error of the same sign."""
    found, _ = crossings(BALL, SciPy(method=method), step, until="1.1")
    exact = V / G * (2 * np.cumsum(E ** np.arange(2)) - 1)
    assert np.abs(found - exact).max() < 2e-6
