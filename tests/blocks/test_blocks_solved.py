"""Algebraic loops of diagrams that are declared to be solved."""

from __future__ import annotations

import numpy as np
import pytest
from constraint_parts import TANK, last, scenario_of

from rtsim import simulate
from rtsim.blocks import Constant, Diagram, Expression, Gain, Integrator, Sum
from rtsim.blocks.continuous import Differential
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.record.recorders import MemoryRecorder
from tools.bench.constraint_problems import PENDULUM


def bend(v: float) -> float:
    return 0.5 * v + 0.1 * v**3


def loop(*solved: str) -> Diagram:
    """``x' = s`` with ``s = -x - bend(s)``: the loop is sum -> bent -> sum."""
    out = Diagram("loop")
    out.add("x", Integrator(1.0), "sum")
    out.add("sum", Sum("--"), "x", "bent")
    out.add("bent", Expression(bend), "sum")
    out.output("sum")
    for source in solved:
        out.solve(source)
    return out


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
    with pytest.raises(ScenarioError, match="gives 1 initial values, but the output is of size 2"):
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
