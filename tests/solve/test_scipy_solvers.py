"""SciPy's solvers behind the contract: accuracy, memory, and what goes wrong."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import BoundModel, Model, bind
from rtsim.solve import BDF, DOP853, GOOD, LSODA, RADAU, TOO_SMALL, SciPy, Stepper
from rtsim.solve.scipy_solvers import EVALUATIONS, STEP, STEPS
from rtsim.testing.solvers import END_NS, FORCED, NONE

P0 = FORCED.parameters.initial()
EXACT = np.array([10 * math.sin(10), math.sin(10) + 10 * math.cos(10)])
ALL = pytest.mark.parametrize("solver", [DOP853, RADAU, BDF, LSODA], ids=lambda s: s.name)
BOTH = pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])


def _memory(stepper: Stepper) -> list[float]:
    memory: list[float] = stepper.save()["memory"]
    return memory


def _run(stepper: Stepper, tags: int, first: int = 0, x: Vector | None = None) -> Vector:
    """``FORCED`` from the ``first`` of so many equal tags to the last (2,)."""
    x = np.zeros(2) if x is None else x
    for k in range(first, tags):
        out = np.full(2, np.nan)
        a, b = (END_NS * i // tags for i in (k, k + 1))
        assert stepper.advance(a, b, x, NONE, NONE, P0, out) == GOOD
        stepper.accept()
        x = out
    return x


@ALL
@BOTH
@pytest.mark.parametrize("tags", [1, 100])
def test_a_tolerance_is_met(solver: SciPy, compile: bool, tags: int) -> None:
    end = _run(replace(solver, rtol=1e-7, atol=1e-7).stepper(bind(FORCED, compile=compile)), tags)
    assert np.linalg.norm(end - EXACT) < 5e-5


@ALL
def test_a_run_restored_at_a_tag_is_the_same_bit_for_bit(solver: SciPy) -> None:
    bound = bind(FORCED)
    whole = _run(solver.stepper(bound), 40)
    stepper = solver.stepper(bound)
    x = np.zeros(2)
    for k in range(17):
        out = np.zeros(2)
        stepper.advance(END_NS * k // 40, END_NS * (k + 1) // 40, x, NONE, NONE, P0, out)
        stepper.accept()
        x = out
    other = solver.stepper(bound)
    other.restore(stepper.save())
    assert _run(other, 40, 17, x).tolist() == whole.tolist()
    other = solver.stepper(bound)  # and without its memory it is not
    assert _run(other, 40, 17, x).tolist() != whole.tolist()


@ALL
def test_it_remembers_how_long_a_step_was(solver: SciPy) -> None:
    stepper = solver.stepper(bind(FORCED))
    x, out = np.zeros(2), np.zeros(2)
    stepper.advance(0, END_NS, x, NONE, NONE, P0, out)
    assert _memory(stepper) == [0, 0, 0, 0], "not before it is committed"
    other = solver.stepper(bind(FORCED))
    for _ in range(2):  # the first is thrown away
        other.advance(0, END_NS, x, NONE, NONE, P0, out)
    stepper.accept()
    other.accept()
    assert _memory(stepper) == _memory(other)
    assert {type(value) for value in _memory(stepper)} == {float}, "plain data, for a checkpoint"
    step = _memory(stepper)[STEP]
    assert 10 / _memory(stepper)[STEPS] < 3 * step < 30
    stepper.advance(END_NS, END_NS + 1, out.copy(), NONE, NONE, P0, out)
    stepper.accept()
    assert _memory(stepper)[STEP] == step, "a step cut by a tag does not shorten the next"
    stepper.forget()
    assert _memory(stepper)[STEP] == 0
    assert _memory(stepper)[EVALUATIONS] > 0, "counts are of the whole run"


@ALL
@BOTH
def test_what_cannot_be_solved_is_said(solver: SciPy, compile: bool) -> None:
    """x' = x^2 has a pole at 1 s."""

    def pole(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = x[0] * x[0]

    bound = bind(Model("pole", Signals(Signal("x", initial=1.0)), pole), compile=compile)
    x, out = np.ones(1), np.zeros(1)
    stepper = solver.stepper(bound)
    assert stepper.advance(0, 2_000_000_000, x, NONE, NONE, NONE, out) in (TOO_SMALL, 0)
    assert stepper.advance(0, 900_000_000, x, NONE, NONE, NONE, out) == GOOD
    assert out[0] == pytest.approx(10, rel=1e-3)


def _fails(name: str, bound: BoundModel, x: Vector) -> int:
    solver = SciPy(method=name)
    return solver.stepper(bound).advance(0, END_NS, x, NONE, NONE, NONE, x.copy())


@BOTH
@pytest.mark.parametrize("name", ["DOP853", "Radau", "BDF", "LSODA"])
def test_what_is_not_finite_is_named(name: str, compile: bool) -> None:
    """At once, and where it comes to that on the way, be the derivative or the state so."""

    def edge(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = 1.0
        dx[1] = math.nan if x[0] > 5 else -x[1]

    bound = bind(Model("edge", Signals("x", "y"), edge), compile=compile)
    assert _fails(name, bound, np.array([0.0, 1.0])) in (1, TOO_SMALL)
    assert _fails(name, bound, np.array([6.0, 1.0])) == 1
    assert _fails(name, bound, np.array([math.inf, 1.0])) == 0


@ALL
def test_an_error_in_a_plain_model_is_not_swallowed(solver: SciPy) -> None:
    def root(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        if x[0] < 0.0:
            raise ValueError("the tank is empty")
        dx[0] = -1.0

    bound = bind(Model("root", Signals(Signal("x", initial=1.0)), root), compile=False)
    with pytest.raises(ValueError, match="the tank is empty"):
        solver.stepper(bound).advance(0, END_NS, np.ones(1), NONE, NONE, NONE, np.ones(1))


@ALL
@BOTH
def test_the_state_is_put_back_on_its_manifold(solver: SciPy, compile: bool) -> None:
    def turn(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = -x[1]
        dx[1] = x[0]

    def normal(x: Vector) -> None:
        size = math.sqrt(x[0] ** 2 + x[1] ** 2)
        x[0] /= size
        x[1] /= size

    circle = Signals(Signal("c", initial=1.0), "s")
    loose = replace(solver, rtol=1e-3, atol=1e-3)
    off = []
    for project in (None, normal):
        bound = bind(Model("circle", circle, turn, project=project), compile=compile)
        out = np.zeros(2)
        loose.stepper(bound).advance(0, END_NS, circle.initial(), NONE, NONE, NONE, out)
        off.append(abs(math.hypot(*out) - 1))
    assert off[0] > 1e-6
    assert off[1] < 1e-15


@pytest.mark.parametrize("solver", [RADAU, BDF, LSODA], ids=lambda s: s.name)
def test_a_first_step_that_is_far_too_long_is_taken_back(solver: SciPy) -> None:
    """From slow to fast without being told: 1e8 times stiffer than what the memory is of."""

    def relax(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = -z[0] * (x[0] - math.cos(t)) * (1 + x[0] ** 2)

    bound = bind(Model("relax", Signals("x"), relax, discrete=Signals("rate = 1")))
    stepper, x, out = solver.stepper(bound), np.zeros(1), np.zeros(1)
    assert stepper.advance(0, END_NS, x, np.array([1e-3]), NONE, NONE, out) == GOOD
    stepper.accept()
    x = out + 100
    assert stepper.advance(END_NS, 2 * END_NS, x, np.array([1e5]), NONE, NONE, out) == GOOD
    assert out[0] == pytest.approx(math.cos(20), abs=1e-4)


def test_tolerances_by_state_and_longest_step() -> None:
    bound, steps = bind(FORCED), []
    for solver in (
        SciPy(rtol=1e-12, atol={"x": 1e-3, "v": 1e-3}),
        SciPy(rtol=1e-12, atol={"x": 1e-3}),
        SciPy(rtol=1e-3, atol=1e-3, most=0.01),
    ):
        stepper = solver.stepper(bound)
        _run(stepper, 1)
        steps.append(_memory(stepper)[STEPS])
    assert steps[1] > 2 * steps[0]
    assert steps[2] >= 1000
    with pytest.raises(UnknownName, match="unknown state 'w'"):
        SciPy(atol={"w": 1.0}).stepper(bound)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"method": "RK45"}, "give one of DOP853, Radau"),
        ({"rtol": 1e-15}, "SciPy's solvers need"),
        ({"atol": -1.0}, "a finite number > 0"),
        ({"most": 0.0}, "give a longest step > 0 s"),
        ({"most": math.nan}, "give a longest step > 0 s"),
    ],
)
def test_what_cannot_be_meant(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        SciPy(**wrong)


def test_a_name_says_what_is_not_the_default() -> None:
    assert [s.name for s in (DOP853, RADAU, BDF, LSODA)] == ["dop853", "radau", "bdf", "lsoda"]
    assert SciPy(method="BDF", rtol=1e-8, most=0.5).name == "bdf(rtol=1e-08, most=0.5)"


def test_scipys_integrators_are_loaded_where_they_are_used() -> None:
    code = "import sys, rtsim.solve; sys.exit('scipy.integrate' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
