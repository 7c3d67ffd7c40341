"""Diagrams: how they are wired, what is refused and how it is said, what is drawn."""

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
from block_parts import flown

from rtsim.blocks import (
    Constant,
    Diagram,
    Differential,
    Expression,
    Gain,
    Integrator,
    LevelCrossing,
    PeriodicSampler,
    Product,
    Saturation,
    StateSpace,
    Sum,
    TransferFunction,
    ZeroOrderHold,
    source,
    units,
)
from rtsim.blocks.source import LINES
from rtsim.compiling import compiled
from rtsim.errors import ScenarioError, ShapeError, UnknownName
from rtsim.model import Model
from rtsim.scenario import Scenario
from rtsim.signals import Signals, Vector
from rtsim.simulation import simulate


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

    with pytest.raises(ScenarioError, match=r"has discrete signals.* make it a plant"):
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


# -- what is refused -------------------------------------------------------------------------------


def wired(*parts: tuple[object, ...]) -> Diagram:
    d = Diagram("d")
    for name, block, *sources in parts:
        d.add(name, block, *sources)  # type: ignore[arg-type]
    return d


LOOPS = [
    (
        (("a", Gain(), "b"), ("b", Gain(), "c"), ("c", Gain(), "a"), ("x", Integrator(), "a")),
        r"algebraic loop: (b\.y -> a\.y -> c\.y|c\.y -> b\.y -> a\.y|a\.y -> c\.y -> b\.y)",
    ),
    (
        (
            ("error", Sum("+-"), "r", "plant"),
            ("r", Constant()),
            ("plant", TransferFunction([1, 1], [1, 2]), "error"),
        ),
        r"algebraic loop: (error\.y -> plant\.y -> error\.y|plant\.y -> error\.y -> plant\.y)",
    ),
    (
        (
            ("error", Sum("+-"), "r", "sensor"),
            ("r", Constant()),
            ("plant", TransferFunction([1, 1], [1, 2]), "error"),
            ("sensor", StateSpace(-1, 1, 1, 1), "plant"),
        ),
        r"algebraic loop: (error\.y -> plant\.y -> sensor\.y|plant\.y -> sensor\.y -> error\.y"
        r"|sensor\.y -> error\.y -> plant\.y)",
    ),
    (
        (
            ("s", PeriodicSampler(1), "x"),
            ("x", Integrator(), "h"),
            ("h", ZeroOrderHold(), "sum"),
            ("sum", Sum(), "s", "g"),
            ("g", Gain(), "sum"),
        ),
        r"algebraic loop: (sum\.y -> g\.y|g\.y -> sum\.y)",
    ),
]


@pytest.mark.parametrize(("parts", "words"), LOOPS)
def test_an_algebraic_loop_is_named_with_its_remedy(
    parts: tuple[tuple[object, ...], ...], words: str
) -> None:
    with pytest.raises(ScenarioError, match=words + ".*break it by an Integrator"):
        wired(*parts).model()


def test_a_loop_through_what_has_no_feedthrough_is_none() -> None:
    """Feedthrough is read off the equations: this one's numerator is of lower degree."""
    wired(
        ("error", Sum("+-"), "r", "plant"),
        ("r", Constant()),
        ("plant", TransferFunction([1], [1, 2]), "error"),
    ).model()


REFUSED: list[tuple[tuple[tuple[object, ...], ...], str]] = [
    ((("x", Integrator()),), r"not wired in diagram d: x\.u; wire each to an output"),
    ((("x", Integrator(), "y"),), r"unknown block or input 'y' in diagram d"),
    ((("x", Integrator(), "x.z"),), r"unknown output 'z' in x"),
    ((("x", Integrator(), "x", "x"),), r"x\.y is a signal, and x\.reset takes events; put a Per"),
    (
        (("x", Integrator(), "s"), ("s", PeriodicSampler(1), "x")),
        r"s\.y is an event, and x\.u takes a signal; put a ZeroOrderHold between",
    ),
    (
        (("x", Integrator((0.0, 0.0)), "c"), ("c", Constant(1.0))),
        r"c\.y has 1 elements, and x\.u takes 2",
    ),
    (
        (("x", Integrator(unit="m"), "v"), ("v", Constant(1.0, unit="m/s^2"))),
        r"v\.y is in m/s\^2, x\.u takes m/s: nothing converts",
    ),
    (
        (
            ("a", Constant(1.0, unit="m")),
            ("b", Constant(1.0, unit="s")),
            ("sum", Sum(), "a", "b"),
            ("x", Integrator(), "sum"),
        ),
        r"sum adds m and s \(u2\)",
    ),
    (
        (
            ("a", Constant(1.0)),
            ("b", Constant((1.0, 2.0))),
            ("sum", Sum(), "a", "b"),
            ("x", Integrator(), "a"),
        ),
        r"inputs of sum have different sizes \(u1 1, u2 2\)",
    ),
    ((("a", Constant(1.0)),), "diagram d has no continuous state"),
    (
        (("c", Constant()), ("x", StateSpace(-1, 1, 1, 1), "c", "e"), ("e", LevelCrossing(), "c")),
        r"x passes its input straight on .*: an impulse there makes its output infinite",
    ),
]


@pytest.mark.parametrize(("parts", "words"), REFUSED)
def test_what_does_not_fit_is_refused_by_name(
    parts: tuple[tuple[object, ...], ...], words: str
) -> None:
    with pytest.raises(ScenarioError, match=words):
        wired(*parts).model()


def test_wires_are_checked_as_they_are_drawn() -> None:
    d = wired(("x", Integrator(), "g"), ("g", Gain(), "x"))
    with pytest.raises(ScenarioError, match=r"g\.u is wired twice: to x and to x; add the two"):
        d.wire("x", "g")
    with pytest.raises(UnknownName, match="unknown block 'h' in diagram d; known: x, g"):
        d.wire("x", "h")
    with pytest.raises(UnknownName, match="unknown input 'v' in g"):
        d.wire("x", "g.v")
    with pytest.raises(ScenarioError, match="leads nowhere"):
        d.wire("x")
    with pytest.raises(ScenarioError, match="g stands in diagram d already"):
        d.add("g", Gain())
    with pytest.raises(ScenarioError, match="g stands in diagram d already"):
        d.input("g")
    with pytest.raises(ScenarioError, match=r"y has 1 inputs \(u\), and 2 are given"):
        d.add("y", Gain(), "x", "g")
    with pytest.raises(ScenarioError, match="not an identifier"):
        d.add("a b", Gain())
    d.output("g")
    with pytest.raises(ScenarioError, match="output g of diagram d is declared twice"):
        d.output("g")


def test_what_two_diagrams_hide_is_found() -> None:
    inner = Diagram("inner")
    inner.input("a")
    inner.add("g", Gain(), "a")
    inner.output("g", name="b")
    outer = Diagram("outer")
    outer.add("one", inner)
    outer.add("x", Integrator(), "one.b")
    with pytest.raises(ScenarioError, match=r"not wired in diagram outer: one\.g\.u \(by a\)"):
        outer.model()
    outer.wire("one.b", "one.a")
    with pytest.raises(ScenarioError, match=r"algebraic loop: one\.g\.y -> one\.g\.y"):
        outer.model()
    through = Diagram("through")
    through.input("a")
    through.output("a", name="b")
    outer = Diagram("outer")
    outer.add("x", Integrator(), "t.b")
    outer.add("t", through, "t.b")
    with pytest.raises(ScenarioError, match="leads to itself"):
        outer.model()
    outer.add("t_x", Integrator(), "x")
    nested = Diagram("nested")
    nested.add("x", Integrator(1.0), "x")
    outer = Diagram("outer")
    outer.add("t", nested)
    outer.add("t_x", Integrator(), "t_x")
    with pytest.raises(ScenarioError, match=r"t\.x and t_x would both be t_x"):
        outer.model()


def test_a_diagram_within_declares_its_inputs() -> None:
    inner = Diagram("inner")
    inner.input("a [m]")
    inner.add("x", Integrator(), "a")
    for given, words in (
        (Constant(1.0, unit="s"), r"c\.y is in s, one\.a takes m: nothing converts"),
        (Constant((1.0, 2.0)), r"c\.y has 2 elements, and one\.(x\.u|a) takes 1"),
    ):
        outer = Diagram("outer")
        outer.add("one", inner, "c")
        outer.add("c", given)
        with pytest.raises(ScenarioError, match=words):
            outer.model()


def test_events_are_no_outputs() -> None:
    d = wired(("x", Integrator(), "x"), ("s", PeriodicSampler(1), "x"))
    d.output("s")
    with pytest.raises(ScenarioError, match="output s of diagram d is an event; hold it"):
        d.model()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sum(""),
        lambda: Product("+"),
        lambda: Saturation(1.0, 1.0),
        lambda: Expression(lambda t: t),
        lambda: TransferFunction([1, 0, 0], [1, 1]),
        lambda: TransferFunction([1], [1]),
        lambda: Integrator(2.0, high=1.0),
        lambda: Integrator((0.0, 0.0), high=1.0),
        lambda: Gain(1.0, unit="m//s"),
    ],
)
def test_blocks_refuse_what_cannot_be_meant(make: object) -> None:
    with pytest.raises(ScenarioError):
        wired(("x", Integrator(unit="m"), "g"), ("g", make(), "x")).model()  # type: ignore[operator]


def test_sizes_have_a_kind_of_error() -> None:
    with pytest.raises(ShapeError):
        wired(("x", Integrator((0.0, 0.0)), "c"), ("c", Constant(1.0))).model()


@pytest.mark.parametrize(
    ("a", "b", "power", "product"),
    [
        ("m", "s", -1, "m/s"),
        ("N", "kg", -1, "m/s^2"),
        ("N m", "rad", 1, "kg m^2/s^2"),
        ("V", "A", 1, "kg m^2/s^3"),
        ("m^0.5", "m", -1, "1/m^0.5"),
        ("m", "m", -1, "1"),
        ("1", "m", 1, "1"),
    ],
)
def test_units_multiply(a: str, b: str, power: int, product: str) -> None:
    assert units.times(a, b, power) == product
    assert units.same("W", "J/s")
    assert not units.same("deg", "rad")


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
