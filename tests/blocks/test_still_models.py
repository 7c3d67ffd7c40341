"""Models without a derivative, and models without states: legal on every solver and engine."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rtsim.blocks import Diagram, Gain, SampledPID, Sum
from rtsim.blocks.continuous import Differential
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.equations.model import Guard, Model, standing
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import SOLVERS

ENGINES = [(True, "compiled"), (True, "interpreted"), (False, "interpreted")]
PAIRED = ("rkn4", "semi_implicit_euler")


def _output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = math.sin(t) + z[0]


def _wave(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = math.sin(40.0 * t)


def _counted(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] += 1.0


def _moved(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] += 1.0
    x[0] += 0.5


def _model(states: Signals) -> Model:
    return Model(
        "still", states, None, discrete=Signals("count"), outputs=Signals("y"), output=_output,
        guards=(Guard("wave", 1),), guard=_wave, reset=_moved if states.size else _counted,
    )  # fmt: skip


def _run(model: Model, solver: str, compile: bool, engine: str, **how: Any) -> Any:
    scenario = Scenario("still", until=1)
    scenario.plant("p", model, step="0.01", solver=solver, **how)
    recorder = MemoryRecorder()
    outcome = simulate(scenario, recorder=recorder, compile=compile, engine=engine)
    return outcome, recorder.recording()


@pytest.mark.sample(10)
@pytest.mark.parametrize("states", [(), ("x = 1",)], ids=["stateless", "no derivative"])
@pytest.mark.parametrize("solver", sorted(SOLVERS))
def test_outputs_guards_and_resets_work(solver: str, states: tuple[str, ...]) -> None:
    if states and solver in PAIRED:
        pytest.skip("it needs states in pairs")
    found = []
    for compile, engine in ENGINES:
        outcome, recording = _run(_model(Signals(*states)), solver, compile, engine)
        crossed = [event.tag.ns for event in recording.events if event.kind == "Crossed"]
        exact = [math.ceil(2 * math.pi * k / 40 * 1e9) for k in range(1, 7)]
        assert crossed[-6:] == pytest.approx(exact, abs=1)
        (plant,) = outcome.system.plants
        assert plant.z.tolist() == [len(crossed)]
        assert plant.x.tolist() == [1.0 + 0.5 * len(crossed) for _ in states]
        assert plant.y[0] == pytest.approx(math.sin(1.0) + len(crossed))
        found.append((crossed, plant.values.tolist()))
    assert found[0] == found[1] == found[2]


def test_the_compiled_engine_runs_them() -> None:
    plain = Model("plain", outputs=Signals("y"), discrete=Signals("z"), output=_output)
    for solver in ("rk4", "dp54", "radau"):
        outcome, recording = _run(plain, solver, True, "compiled")
        assert outcome.certificate.engine.startswith("compiled: ")
        _, other = _run(plain, solver, True, "interpreted")
        assert recording.track("p").column("y").tolist() == other["p.y"].tolist()


def test_a_block_of_such_a_model_stands_still() -> None:
    block = Differential(Model("still", Signals("x = 2")))
    assert "_f" in block.equations({}).functions


@pytest.mark.sample(2)
@pytest.mark.parametrize("solver", ["rk4", "dp54", "rodas5p", "radau"])
def test_a_diagram_without_a_continuous_state_is_a_plant(solver: str) -> None:
    d = Diagram("sampled")
    d.input("error")
    d.add("sum", Sum("+-"), "error", "back")
    d.add("back", Gain(0.5), "sum")
    d.add("law", SampledPID(kp=3.0, period=0.1), "sum")
    d.solve("back", initial=0.0)
    d.output("law")
    d.output("sum", "inner")
    found = []
    for compile, engine in ENGINES:
        outcome, _ = _run(d.model(), solver, compile, engine, inputs={"error": 1.5})
        assert outcome.final("p.law") == pytest.approx(3.0)
        assert outcome.final("p.inner") == pytest.approx(1.0)
        found.append(outcome.system.plants[0].values.tolist())
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("name", ["derivative", "output", "update", "guard", "reset", "tick"])
def test_what_is_no_function_is_named(name: str) -> None:
    given: dict[str, Any] = {"derivative": standing, name: 3}
    with pytest.raises(ModelError, match=rf"{name} of model m is 3; give a function of \("):
        Model("m", Signals("x"), **given)


@pytest.mark.parametrize("solver", [4, object()])
def test_what_is_no_solver_is_named_with_its_plant(solver: Any) -> None:
    scenario = Scenario("s", until=1)
    with pytest.raises(ScenarioError, match=r'solver of plant tank is .*such as "rk4"'):
        scenario.plant("tank", Model("m", Signals("x")), step="0.01", solver=solver)
