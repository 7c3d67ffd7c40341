"""Diagrams: what they become, and how they are drawn.

One system, said in several ways: what comes out is the same.

Crossings of a diagram that accumulate: what comes to rest, and what is refused.

Algebraic loops of diagrams that are declared to be solved.
"""

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
from constraint_parts import TANK, last, scenario_of

from rtsim.blocks import (
    Constant,
    Diagram,
    Differential,
    EventAt,
    Expression,
    Gain,
    Integrator,
    LevelCrossing,
    PeriodicSampler,
    Product,
    Sampler,
    SquareClock,
    StateSpace,
    Sum,
    TransferFunction,
    ZeroOrderHold,
    source,
)
from rtsim.blocks.source import LINES
from rtsim.core.errors import ModelError, ScenarioError, ZenoError
from rtsim.core.signals import Signals, Vector
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Model
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import Adaptive, Solver
from tools.bench.constraint_problems import PENDULUM


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
    x, v = recording.track("d").column("x"), recording.track("d").column("v")
    assert np.array_equal(recording.track("d").column("acceleration"), -4.0 * x + -0.2 * v)


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
    assert np.array_equal(plain.track("d").rows.floats, native.track("d").rows.floats)


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
    assert np.array_equal(recording.track("d").column("last"), -recording.track("d").column("x"))


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


def test_a_transfer_function_is_what_its_integrators_make() -> None:
    """(2 s^2 + s + 3) / (s^3 + 2 s^2 + 5 s + 4) of a square wave, and the same in controllable form

    of integrators, gains and sums: each state the integral of the one before.
    """
    d = Diagram("side by side")
    d.add("wave", SquareClock(period=2, low=-2.0, high=2.0))
    d.add("whole", TransferFunction([2, 1, 3], [1, 2, 5, 4]), "wave")
    d.add("top", Sum("+---"), "wave", "a2", "a1", "a0")
    for k, (a, b) in enumerate(((4.0, 3.0), (5.0, 1.0), (2.0, 2.0))):
        d.add(f"x{k}", Integrator(), f"x{k + 1}" if k < 2 else "top")
        d.add(f"a{k}", Gain(a), f"x{k}")
        d.add(f"b{k}", Gain(b), f"x{k}")
    d.add("parts", Sum("+++"), "b0", "b1", "b2")
    d.output("whole")
    d.output("parts")
    recording = flown(d, 6)
    assert np.abs(recording.track("d").column("whole")).max() > 1.0
    assert (
        np.abs(recording.track("d").column("whole") - recording.track("d").column("parts")).max()
        < 1e-13
    )


def lorenz(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 10.0 * (x[1] - x[0])
    dx[1] = x[0] * (28.0 - x[2]) - x[1]
    dx[2] = x[0] * x[1] - 8.0 / 3.0 * x[2]


LORENZ = Model("lorenz", Signals("x = 1", "y = 1", "z = 1"), lorenz)


def of_blocks() -> Diagram:
    d = Diagram("lorenz")
    d.add("x", Integrator(1.0), "dx")
    d.add("y", Integrator(1.0), "dy")
    d.add("z", Integrator(1.0), "dz")
    d.add("apart", Sum("+-"), "y", "x")
    d.add("dx", Gain(10.0), "apart")
    d.add("rho", Constant(28.0))
    d.add("below", Sum("+-"), "rho", "z")
    d.add("turned", Product("**"), "x", "below")
    d.add("dy", Sum("+-"), "turned", "y")
    d.add("xy", Product("**"), "x", "y")
    d.add("damped", Gain(8.0 / 3.0), "z")
    d.add("dz", Sum("+-"), "xy", "damped")
    return d


def as_one_block() -> Diagram:
    d = Diagram("lorenz")
    d.add("one", Differential(LORENZ))
    return d


@pytest.mark.parametrize("compile", [False, True], ids=["plain", "compiled"])
def test_lorenz_of_blocks_is_the_model(compile: bool) -> None:
    """Bit for bit: the same operations in the same order."""
    scenario = Scenario("lorenz", until=5)
    scenario.plant("d", LORENZ, step="1/200")
    recorder = MemoryRecorder()
    simulate(scenario, recorder=recorder, compile=False)
    model = recorder.recording()
    blocks = flown(of_blocks(), 5, step="1/200", compile=compile)
    one = flown(as_one_block(), 5, step="1/200", compile=compile)
    for name in "xyz":
        assert np.array_equal(blocks[f"d.{name}"], model[f"d.{name}"])
        assert np.array_equal(one[f"d.one_{name}"], model[f"d.{name}"])
    assert np.ptp(model["d.x"]) > 20.0


def test_a_feedback_of_state_spaces_is_one_state_space() -> None:
    """x' = -2 x + 3 - y, y' = x: two in a loop, and the loop taken together by hand."""
    d = Diagram("loop")
    d.add("three", Constant(3.0))
    d.add("u", Sum("+-"), "three", "inner")
    d.add("outer", StateSpace(-2, 1, 1), "u")
    d.add("inner", StateSpace(0, 1, 1), "outer")
    d.add("whole", StateSpace([[-2, -1], [1, 0]], [1, 0], [[1, 0], [0, 1]]), "three")
    d.output("outer")
    d.output("inner")
    d.output("whole")
    recording = flown(d, 4)
    apart = np.stack(
        (recording.track("d").column("outer"), recording.track("d").column("inner")), axis=1
    )
    assert np.abs(apart - recording.track("d").column("whole")).max() < 1e-14
    assert recording["d.inner"][-1] > 2.0


S = 1_000_000_000
G = 9.81


def ball(d: Diagram, name: str, restitution: float, rest: float | None = 0.0) -> None:
    """``{name}_h`` from 1 m on, and ``{name}_v``."""
    d.add(f"{name}_h", Integrator(1.0), f"{name}_v")
    d.add(f"{name}_v", Integrator(rest=rest), "gravity", reset=f"{name}_back")
    d.add(f"{name}_floor", LevelCrossing(0.0, -1), f"{name}_h")
    d.add(f"{name}_hit", Sampler(), f"{name}_v", f"{name}_floor")
    d.add(f"{name}_back", Gain(-restitution), f"{name}_hit")


def balls(**restitution: float) -> Diagram:
    d = Diagram("balls")
    d.add("gravity", Constant(-G))
    for name, e in restitution.items():
        ball(d, name, e)
    return d


def stopped(recording: Recording) -> dict[str, float]:
    """s, by the guard."""
    return {e.source[2:]: e.tag.ns / S for e in recording.events if e.kind == "Stopped"}


def zeno(e: float) -> float:
    """Of a ball from 1 m on."""
    return math.sqrt(2 / G) * (1 + e) / (1 - e)


@pytest.mark.parametrize("compile", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize(("solver", "step"), [("rk4", "1/100"), (Adaptive(rtol=1e-9), 1)])
def test_a_ball_comes_to_rest_at_its_zeno_time(
    solver: str | Solver, step: str, compile: bool
) -> None:
    recording = flown(balls(a=0.7), 4, solver, step, compile=compile)
    assert abs(stopped(recording)["a_floor"] - zeno(0.7)) < 2e-6
    behind = recording.track("d").ns / S > zeno(0.7) + 1e-5
    assert behind.any()
    assert set(recording.track("d").column("a_v")[behind].tolist()) == {0.0}
    assert np.abs(recording.track("d").column("a_h")[behind]).max() < 1e-7


def test_each_comes_to_rest_by_itself() -> None:
    recording = flown(balls(a=0.7, b=0.8), 5)
    found = stopped(recording)
    assert abs(found["a_floor"] - zeno(0.7)) < 2e-6
    assert abs(found["b_floor"] - zeno(0.8)) < 2e-6
    between = np.abs(recording.track("d").ns / S - 3.0) < 0.4
    assert np.abs(recording.track("d").column("b_v")[between]).max() > 0.1


def test_one_without_a_rest_is_a_zeno_error_beside_one_that_has() -> None:
    d = balls(a=0.7)
    ball(d, "b", 0.8, rest=None)
    assert [guard.stops for guard in d.model().guards] == [True, False]
    with pytest.raises(ZenoError, match=r"guard b_floor of d .* in a diagram, rest= of the Integ"):
        flown(d, 5)
    without = Diagram("without")
    without.add("gravity", Constant(-G))
    ball(without, "b", 0.8, rest=None)
    assert without.model().stop is None


def test_what_sets_it_takes_it_from_its_rest() -> None:
    d = balls(a=0.7)
    d.add("kick", EventAt(3, 2.0))
    d.wire("kick", "a_v.impulse")
    recording = flown(d, 3.3)
    times = [e.tag.ns / S for e in recording.events if e.kind == "Stopped"]
    assert abs(times[0] - zeno(0.7)) < 2e-6
    assert recording.at(3, "+")["d.a_v"] == 2.0
    assert abs(recording["d.a_v"][-1] - (2.0 - 0.3 * G)) < 1e-9


def test_it_rests_at_a_value_and_in_all_its_elements() -> None:
    d = Diagram("d")
    d.add("down", Constant((-1.0, -2.0)))
    d.add("v", Integrator((0.0, 0.0), rest=0.25), "down", reset="back")
    d.add("first", StateSpace(0, [[1, 0]], 1, initial=0.5), "v")
    d.add("floor", LevelCrossing(0.0, -1), "first")
    d.add("hit", Sampler(), "v", "floor")
    d.add("back", Gain(-0.5), "hit")
    recording = flown(d, 4)
    assert recording["d.v"][-1].tolist() == [0.25, 0.25]


def test_it_goes_on_from_a_checkpoint_at_rest() -> None:
    ring = Ring(8)
    whole = flown(balls(a=0.7), 3, checkpoints=CheckpointSchedule(ring, every="1/2"))
    kept = ring.before(5 * S // 2)
    assert kept is not None
    words = flown(balls(a=0.7), 3, start=kept).tracks["d"].words
    assert np.array_equal(words, whole.tracks["d"].words[-len(words) :])


def test_a_rest_that_cannot_be_meant() -> None:
    d = wired(("x", Integrator(rest=0.0), "c"), ("c", Constant()))
    with pytest.raises(
        ScenarioError, match="x has rest=, but no event can set its state; wire its"
    ):
        d.model()
    with pytest.raises(ScenarioError, match="cannot have both limits and rest="):
        Integrator(low=0.0, rest=0.0)


def bend(v: float) -> float:
    return 0.5 * v + 0.1 * v**3


def loop(*solved: str) -> Diagram:
    """``x' = s`` with ``s = -x - bend(s)``: the loop is sum -> bent -> sum."""
    out = Diagram("loop")
    out.add("x", Integrator(1.0), "sum")
    out.add("sum", Sum("--"), "x", "bent")
    out.add("bent", Expression(bend), "sum")
    out.output("sum")
    for block in solved:
        out.solve(block)
    return out


@pytest.mark.sample(1)
@pytest.mark.parametrize("source", ["sum", "bent", "bent.y"])
def test_a_declared_loop_is_solved_wherever_it_is_cut(source: str) -> None:
    with pytest.raises(ScenarioError, match=r"algebraic loop.*to be solved: solve\('(sum|bent)"):
        loop().model()
    model = loop(source).model()
    assert model.algebraic.names == (f"{source.partition('.')[0]}_y",)
    recorder = MemoryRecorder()
    simulate(scenario_of(model, "0.01", "rk4", 1), recorder=recorder, compile=source == "sum")
    track = recorder.recording().tracks["plant"]
    x, s = track.column("x"), track.column("sum" if source != "sum" else "sum_y")
    assert np.abs(s + x + 0.5 * s + 0.1 * s**3).max() < 1e-9
    assert x[-1] == pytest.approx(0.518809023, abs=1e-8)


def test_a_loop_within_a_diagram_and_one_across_two_diagrams() -> None:
    inner = loop("sum")
    outer = Diagram("outer")
    outer.add("inside", inner)
    outer.add("difference", Sum("+-"), "inside.sum", "half")
    outer.add("half", Gain(0.5), "difference")
    outer.output("half")
    outer.solve("half", initial=-0.3)
    model = outer.model()
    assert model.algebraic.names == ("half_y", "inside_sum_y")
    assert model.algebraic["half_y"].initial == -0.3
    found = last(model, "0.01", "rk4", 1, compile=False)
    assert found[0] == pytest.approx(0.518809023, abs=1e-8)
    assert found[1] == pytest.approx(found[2] / 3.0, rel=1e-9)


def test_a_loop_of_vectors_has_an_unknown_for_each_element() -> None:
    out = Diagram("vector")
    out.add("drive", Constant((1.0, 2.0)))
    out.add("x", Integrator((0.0, 0.0)), "sum")
    out.add("sum", Sum("++"), "drive", "back")
    out.add("back", Gain(-1.0), "sum")
    with pytest.raises(
        ScenarioError, match="gives 1 initial values, but the output has 2 elements"
    ):
        _with(out, 0.0).model()
    out.solved.clear()
    found = last(_with(out, (0.0, 0.0)).model(), "0.1", "rk4", 1, compile=False)
    assert found == pytest.approx([0.5, 1.0, 0.5, 1.0])


def _with(diagram: Diagram, initial: float | tuple[float, ...]) -> Diagram:
    diagram.solve("sum", initial=initial)
    return diagram


def test_a_loop_without_a_solution_is_refused_by_name() -> None:
    out = Diagram("positive")
    out.add("x", Integrator(1.0), "sum")
    out.add("sum", Sum("++"), "x", "same")
    out.add("same", Gain(1.0), "sum")
    out.solve("sum")
    with pytest.raises(ModelError, match=r"residual\[0\] depends on no unknown.*determines sum_y"):
        last(out.model(), "0.1", "rk4", 1, compile=False)


def test_what_cannot_be_meant() -> None:
    with pytest.raises(ScenarioError, match=r"solve\('sum'\) is declared twice"):
        loop("sum", "sum")
    with pytest.raises(ScenarioError, match="unknown block or input 'gone'"):
        loop("gone").model()
    with pytest.raises(ScenarioError, match="give a finite number for each element"):
        loop().solve("sum", initial=float("nan"))
    with pytest.raises(ScenarioError, match="has algebraic variables or a mass matrix"):
        Differential(PENDULUM)
    with pytest.raises(ScenarioError, match="model tank has update"):
        Differential(TANK)
    d = loop()
    d.input("force")
    d.solve("force")
    with pytest.raises(ScenarioError, match="force is an input of the diagram; name the output"):
        d.model()
