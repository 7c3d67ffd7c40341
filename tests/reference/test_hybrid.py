"""Balls and a thermostat of others: event times, each within 50 ns, intervals within 2 ns.

Figures: figures/hybrid.json, from the closed forms of Modelica's Reference-FMUs ball, Simulink's
sldemo_bounce, MATLAB's ballode and PathSim's thermostat.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from published import figures

from rtsim.core.errors import ZenoError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Guard, Model
from rtsim.models.ball import BALL
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import Adaptive, SciPy, Solver
from rtsim.solve.adaptive import BS32_TABLEAU

TIGHT = Adaptive(rtol=1e-10, atol=1e-12)
HOW: list[Any] = [
    pytest.param("rk4", "1/100", id="rk4"),
    pytest.param("abm4", "1/100", id="abm4"),
    pytest.param("rkn4", "1/100", id="rkn4"),
    pytest.param("dp54", 1, id="dp54"),
    pytest.param(TIGHT, 100, id="dp54-one-tag"),
    pytest.param(Adaptive(tableau=BS32_TABLEAU, rtol=1e-9, atol=1e-12), 1, id="bs32"),
    pytest.param(SciPy(method="DOP853", rtol=1e-10, atol=1e-12), 1, id="dop853"),
    pytest.param(SciPy(method="Radau", rtol=1e-10, atol=1e-12), 1, id="radau"),
    pytest.param(SciPy(method="LSODA", rtol=1e-11, atol=1e-13), 1, id="lsoda"),
]
MODELS = figures("hybrid")["models"]
BALLS = ["ball_refFMU", "ball_simulink_sldemo_bounce", "ball_matlab_ballode"]


def flown(scenario: Scenario) -> Recording:
    recorder = MemoryRecorder()
    simulate(scenario, recorder=recorder)
    return recorder.recording()


def crossings(recording: Recording, kind: str = "Crossed") -> list[int]:
    return [e.tag.ns for e in recording.events if e.kind == kind]


def thrown(
    given: dict[str, Any], solver: str | Solver, step: Any, model: Model = BALL, until: float = 0
) -> Scenario:
    scenario = Scenario("ball", until=until or math.ceil(given["zeno_time"]) + 1)
    scenario.plant(
        "ball", model, step=step, solver=solver,
        states={"height": given["h0"], "speed": given["v0"]},
        parameters={"gravity": given["g"], "restitution": given["e"]},
    )  # fmt: skip
    return scenario


@pytest.mark.sample(9)
@pytest.mark.parametrize(("solver", "step"), HOW)
@pytest.mark.parametrize("name", BALLS)
def test_all_impacts_of_a_bouncing_ball(name: str, solver: str | Solver, step: Any) -> None:
    """And it is at rest from its Zeno time on.

    A tag is the first whole ns after the impact: what that is late adds up over the last bounces,
    of which there are infinitely many.
    """
    given = MODELS[name]
    recording = flown(thrown(given, solver, step))
    exact = np.array(given["impact_times"])
    found = np.array(crossings(recording)[: len(exact)])
    assert np.abs(found / 1e9 - exact).max() < 50e-9
    rows = recording.tracks["ball"].rows
    after = rows.floats[np.searchsorted(rows.ns, found, "right") - 1, 1]
    off = np.diff(found) - 2 * after[:-1] / given["g"] * 1e9
    assert np.abs(off).max() < 2, "ns, given the state committed before it"
    (lies,) = crossings(recording, "Stopped")
    assert abs(lies / 1e9 - given["zeno_time"]) < 2e-6
    assert rows.floats[-1].tolist() == [0.0, 0.0, 1.0]
    assert rows.floats[rows.ns > lies, 0].tolist() == [0.0] * int((rows.ns > lies).sum())


@pytest.mark.parametrize("name", BALLS)
def test_without_a_stop_mode_the_run_says_zeno(name: str) -> None:
    given = MODELS[name]
    model = replace(BALL, name="endless", stop=None)
    with pytest.raises(ZenoError, match=r"floor of ball .*ever faster .*Zeno.*a stop mode"):
        simulate(thrown(given, "dp54", 10, model))


def temperature(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -0.5 * (x[0] - 10.0) + 10.0 * z[0]


def limits(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] - 22.0
    g[1] = x[0] - 18.0


def switch(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] = float(i)


THERMOSTAT = Model(
    name="thermostat", states=Signals(Signal("room", "degC", initial=20.0)),
    derivative=temperature, discrete=Signals("on = 1"),
    guards=(Guard("warm", +1), Guard("cold", -1)), guard=limits, reset=switch,
)  # fmt: skip


@pytest.mark.parametrize("starts_on", [True, False], ids=["on", "off"])
@pytest.mark.parametrize(("solver", "step"), [HOW[0], HOW[4], HOW[6], HOW[8]])
def test_a_thermostat(solver: str | Solver, step: Any, starts_on: bool) -> None:
    given = MODELS["thermostat_pathsim"]
    scenario = Scenario("thermostat", until=20)
    scenario.plant("t", THERMOSTAT, step=step, solver=solver, discrete={"on": float(starts_on)})
    recording = flown(scenario)
    found = np.array(crossings(recording))
    first = given["t_first_off_if_on" if starts_on else "t_first_on_if_off"]
    exact = first + given["period"] / 2 * np.arange(len(found))
    assert len(found) == 25 - (first + given["period"] / 2 * 24 > 20)
    assert np.abs(found / 1e9 - exact).max() < 50e-9
    rows = recording.tracks["t"].rows
    after = rows.floats[np.searchsorted(rows.ns, found, "right") - 1]
    room, on = after[:-1, 0], after[:-1, 1]
    to = np.where(on == 1, 22.0, 18.0)
    middle = 10 + 20 * on
    way = 2 * np.log((room - middle) / (to - middle))
    assert np.abs(np.diff(found) - way * 1e9).max() < 2, "ns, given the state committed before it"
