"""Diagrams: what they become, and how they are drawn."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from block_parts import flown, wired

from rtsim.blocks import (
    Constant,
    Diagram,
    Differential,
    Expression,
    Gain,
    Integrator,
    PeriodicSampler,
    StateSpace,
    Sum,
    ZeroOrderHold,
    source,
)
from rtsim.blocks.source import LINES
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Model
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario


def oscillator() -> Diagram:
    """x'' = -4 x - 0.2 x'."""
    d = Diagram("oscillator")
    d.add("v", Integrator(), "acceleration")
    d.add("x", Integrator(1.0), "v")
    d.add("spring", Gain(-4.0), "x")
    d.add("damper", Gain(-0.2), "v")
    d.add("acceleration", Sum("++"), "spring", "damper")
    d.output("acceleration")
    return d


# -- what it becomes -------------------------------------------------------------------------------


def test_a_diagram_is_a_model() -> None:
    model = oscillator().model()
    assert model.states.names == ("v", "x")
    assert model.states["v"].derivative_of == "x", "solvers for pairs know them"
    assert model.parameters.names == ("damper_gain", "spring_gain")
    assert model.outputs.names == ("acceleration",)
    recording = flown(oscillator(), 2)
    w = math.sqrt(4 - 0.01)
    exact = math.exp(-0.2) * (math.cos(2 * w) + 0.1 / w * math.sin(2 * w))
    assert abs(recording["d.x"][-1] - exact) < 1e-7
    x, v = recording["d.x"], recording["d.v"]
    assert np.array_equal(recording["d.acceleration"], -4.0 * x + -0.2 * v)


def test_a_state_is_the_rate_of_one_other_at_most() -> None:
    d = Diagram("d")
    d.add("a", Integrator(), "one")
    d.add("b", Integrator(), "a")
    d.add("c", Integrator(), "b")
    d.add("e", Integrator(), "a")
    d.add("one", Constant(1.0))
    assert [s.derivative_of for s in d.model().states] == ["b", "", "", ""]


def test_compiled_is_the_same_as_plain() -> None:
    plain, native = (flown(oscillator(), 1, compile=c) for c in (False, True))
    assert np.array_equal(plain.rows("d").floats, native.rows("d").floats)


def test_the_order_of_adding_does_not_show() -> None:
    models = set()
    blocks = oscillator()
    for order in itertools.permutations(blocks.blocks):
        d = Diagram("oscillator")
        d.blocks = {name: blocks.blocks[name] for name in order}
        d.wires, d.shown = blocks.wires, blocks.shown
        models.add(d.model().derivative)
    assert len(models) == 1


def test_parameters_are_set_and_changed_by_name() -> None:
    d = Diagram("d")
    d.add("x", Integrator(), "rate")
    d.add("rate", Constant(1.0))
    scenario = Scenario("d", until=2)
    scenario.plant("d", d.model(), step="1/10", parameters={"rate_value": 2.0})
    scenario.at(1, "d.rate_value", 5.0)
    plant = simulate(scenario, compile=False).system.plants[0]
    assert abs(plant.x[0] - 7.0) < 1e-12


def test_inputs_come_from_the_scenario() -> None:
    d = Diagram("d")
    d.input("force [N]")
    d.add("speed", Integrator(unit="m/s"), "acceleration")
    d.add("acceleration", Gain(0.5, unit="1/kg"), "force")
    model = d.model()
    assert model.inputs["force"].unit == "N"
    assert model.states["speed"].unit == "m/s"
    scenario = Scenario("d", until=1)
    scenario.plant("d", model, step="1/10", inputs={"force": 4.0})
    assert abs(simulate(scenario, compile=False).system.plants[0].x[0] - 2.0) < 1e-12


def test_vectors_go_along_one_wire() -> None:
    d = Diagram("d")
    d.add("start", Constant((1.0, 2.0)))
    d.add("x", Integrator((0.0, 1.0)), "double")
    d.add("double", Gain(2.0), "start")
    d.add("y", StateSpace([[0.0]], [[1.0, 1.0]], [[1.0], [2.0]]), "x")
    d.output("y")
    recording = flown(d, 1)
    assert np.allclose(recording["d.x"][-1], (2.0, 5.0))
    assert np.allclose(recording["d.y"][-1], (4.0, 8.0))  # integral of 2t + 1 + 4t, and twice


def test_a_diagram_is_a_block_of_another() -> None:
    spring = Diagram("spring")
    spring.input("stretch")
    spring.add("stiffness", Gain(-4.0), "stretch")
    spring.output("stiffness", name="force")
    body = Diagram("body")
    body.input("force")
    body.add("v", Integrator(), "force")
    body.add("x", Integrator(1.0), "v")
    body.output("x", name="place")
    whole = Diagram("whole")
    whole.add("body", body, "spring.force")
    whole.add("spring", spring, "body.place")
    whole.output("body.place", name="place")
    assert whole.model().states.names == ("body_v", "body_x")
    assert abs(flown(whole, 1)["d.place"][-1] - math.cos(2.0)) < 1e-7


def test_a_system_of_equations_is_a_block() -> None:
    def pendulum(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = x[1]
        dx[1] = -p[0] * math.sin(x[0]) + u[0]

    def cosine(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[0] = math.cos(x[0]) + 0.0 * u[0]

    states, given = Signals("angle [rad] = 1", "rate [rad/s]"), Signals("torque")
    constants = Signals("stiffness = 4")
    bare = Model("pendulum", states, pendulum, inputs=given, parameters=constants)
    model = Model(
        "pendulum", states, pendulum, inputs=given, outputs=Signals("height"),
        output=cosine, parameters=constants,
    )  # fmt: skip
    ends = []
    for one, port in ((bare, "angle"), (model, "height")):
        d = Diagram("d")
        d.add("p", Differential(one, feedthrough=False), torque="none")
        d.add("none", Constant(0.25))
        d.output(f"p.{port}", name="shown")
        assert d.model().parameters.names == ("none_value", "p_stiffness")
        runs = [flown(d, 1, compile=c) for c in (False, True)]
        assert np.array_equal(runs[0]["d.shown"], runs[1]["d.shown"])
        ends.append(runs[0]["d.shown"][-1])
    scenario = Scenario("bare", until=1)
    scenario.plant("d", bare, step="1/100", inputs={"torque": 0.25})
    angle = simulate(scenario, compile=False).system.plants[0].x[0]
    assert ends == [angle, math.cos(angle)]

    with pytest.raises(ScenarioError, match=r"has discrete signals.* as a plant"):
        Differential(Model("m", states, pendulum, discrete=Signals("z")))


def test_helpers_of_users_are_called() -> None:
    @compiled
    def cube(x: float) -> float:
        return x * x * x

    d = Diagram("d")
    d.add("x", Integrator(1.0), "f")
    d.add("f", Expression(lambda t, x: -cube(x) + 0.0 * t), "x")
    for compile in (False, True):
        assert abs(flown(d, 1, compile=compile)["d.x"][-1] - 1 / math.sqrt(3)) < 1e-8


def test_its_source_is_kept_beside_its_machine_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
    d = oscillator()
    d.name = "kept"
    model = d.model()
    (path,) = (tmp_path / "cache" / "diagrams").iterdir()
    assert path.name == f"{model.derivative.__module__}.py"
    path.write_text("raise SystemExit('what is on disk is not run')")
    assert d.model().derivative is model.derivative
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "file"))
    d.name = "nowhere"
    assert flown(d, 1)["d.x"].size, "where nothing can be written it runs all the same"


# -- large ones ------------------------------------------------------------------------------------


def chain(n: int) -> Diagram:
    """n gains one behind the other, then an integrator; each gain is shown at the end."""
    d = Diagram("chain")
    d.add("x", Integrator(1.0), f"g{n - 1}")
    for k in range(n):
        d.add(f"g{k}", Gain(-1.0 if k == 0 else 1.0), "x" if k == 0 else f"g{k - 1}")
    d.output(f"g{n - 1}", name="last")
    return d


def test_a_long_one_is_compiled_in_pieces_and_computes_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source, "LINES", 3)
    recording = flown(chain(7), 1, compile=True)
    assert abs(recording["d.x"][-1] - math.exp(-1)) < 1e-9
    assert np.array_equal(recording["d.last"], -recording["d.x"])


def test_the_pieces_of_a_thousand_blocks_are_short() -> None:
    model = chain(1000).model()
    tree = ast.parse(inspect.getsource(sys.modules[model.derivative.__module__]))
    lengths = [len(f.body) for f in tree.body if isinstance(f, ast.FunctionDef)]
    assert 1000 / LINES < len(lengths) < 1000 / LINES + 10, "rates and outputs share them"
    assert max(lengths) < LINES + 4  # what goes from piece to piece


# -- drawn -----------------------------------------------------------------------------------------


def test_it_is_drawn() -> None:
    inner = Diagram("inner")
    inner.input("a [m]")
    inner.add("g", Gain(2.0), "a")
    inner.output("g", name="b")
    d = Diagram("drawn")
    d.add("part", inner, "x")
    d.add("s", PeriodicSampler("1/2"), "part.b")
    d.add("end", Gain(), "s")
    d.add("h", ZeroOrderHold(), "end")
    d.add("x", Integrator(), "h")
    d.output("x")
    lines = d.mermaid().splitlines()
    assert lines[0] == "flowchart LR"
    for wanted in (
        '  subgraph part_in ["part"]',
        '    part_g["g<br/>× 2"]',
        '    part_a(["a [m]"])',
        "  part_g --> s",
        '  end_["end<br/>× 1"]',
        "  s -.-> end_",
        "  end_ -.-> h",
        "  h -->|u| x",
        "  x --> part_a",
        "  part_a --> part_g",
        "  x --> out_x",
    ):
        assert wanted in lines, wanted
    text = d.dot()
    assert text.startswith('digraph "drawn" {')
    assert text.count("{") == text.count("}")
    assert '  "s" -> "end" [style=dashed];' in text
    assert '  "h" -> "x" [headlabel="u"];' in text


def test_what_is_not_finished_is_drawn_too() -> None:
    d = wired(("x", Integrator(), "nothing"), ("g", Gain(), "x"))
    assert "x --> g" in d.mermaid()


def test_the_picture_in_the_docs_is_what_is_drawn() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/blocks.md").read_text()
    code = re.search(r"^```python file=oscillator.py\n(.*?)^```", page, re.M | re.S)
    picture = re.search(r"^```mermaid\n(.*?)^```", page, re.M | re.S)
    assert code is not None
    assert picture is not None
    found: dict[str, Diagram] = {}
    exec(code[1], found)
    assert found["spring"].mermaid() == picture[1]
