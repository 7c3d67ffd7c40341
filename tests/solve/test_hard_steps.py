"""Steps that a solver cannot take: what the error says, for planted problems of each kind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.equations.model import Model
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import RADAU, TOO_MANY, Adaptive, Rosenbrock, SciPy, Solver
from rtsim.testing.solvers import FORCED, NONE

FEW = Adaptive(most_steps=1500)


def slide(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -1.0 if x[0] > 0 else 1.0


def stick(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = 0.5 - (1.0 if x[1] > 0 else -1.0)


def belts(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0], dx[2] = x[1], x[3]
    dx[1] = -x[0] + 0.5 * (x[2] - x[0]) + math.copysign(2.0, 1.0 - x[1])
    dx[3] = -x[2] - 0.5 * (x[2] - x[0]) + math.copysign(1.0, 1.0 - x[3])


def switched(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = (1e6 if (t * 1e5) % 1.0 < 0.4 else -1e6) - x[0]


def kick(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1e13 if t > 0.3 else 1.0


def van_der_pol(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = 1e6 * (1 - x[0] * x[0]) * x[1] - x[0]


def decay(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -1e9 * (x[0] - math.cos(t))


def at_once(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -1e19 * (x[0] - math.cos(t))


def robertson(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -0.04 * x[0] + 1e4 * x[1] * x[2]
    dx[2] = 3e7 * x[1] * x[1]
    dx[1] = -dx[0] - dx[2]


def smooth_friction(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = 0.5 - math.tanh(x[1] / 1e-9)


def square(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[0] * x[0]


def hyperbola(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0 / (1.0 - t)


def tangent(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0 + x[0] * x[0]


def cube(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0], dx[1] = -x[0], x[1] * x[1] * x[1]


def falls_in(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -1.0 / x[0]


def oscillator(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0], dx[1] = x[1], -1e12 * x[0]


def both_fast(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0], dx[1] = x[1], -1e12 * x[0]
    dx[2] = -2e6 * (x[2] - x[0])


def tank(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -math.sqrt(x[0])


def explosion(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1000.0 * x[0]


def _error(
    function: Callable[..., None],
    states: str,
    solver: Solver,
    until: int = 2,
    compile: bool = False,
) -> str:
    scenario = Scenario("hard", until=until)
    model = Model(function.__name__, Signals(*states.split(", ")), function)
    scenario.plant("plant", model, step=until, solver=solver)
    with np.errstate(all="ignore"), pytest.raises(ModelError) as told:
        simulate(scenario, compile=compile)
    return str(told.value)


JUMP, STIFF = "a discontinuity that is not a guard", "the equations are stiff"
POLE, NO_FINDING = (
    "grows without bound",
    "no discontinuity, stiffness or pole was found",
)
KINDS = (JUMP, STIFF, POLE, NO_FINDING)
PLANTED: list[tuple[Any, str, str, str]] = [
    (slide, "x = 0.01", JUMP, "derivative of x jumps from"),
    (stick, "x, v = 0.001", JUMP, "derivative of v jumps from"),
    (belts, "x1, v1 = 1, x2, v2 = 0.9", JUMP, "derivative of v1 jumps from"),
    (switched, "v, i", JUMP, "derivative of i jumps from"),
    (kick, "x", JUMP, "derivative of x jumps from 1 to 1e+13 at 0.3 s"),
    (van_der_pol, "x = 2, v", STIFF, 'solver="rodas5p"'),
    (decay, "x = 1", STIFF, 'solver="rodas5p"'),
    (at_once, "x", STIFF, 'solver="rodas5p"'),
    (robertson, "a = 1, b, c", STIFF, 'solver="rodas5p"'),
    (smooth_friction, "x, v", STIFF, 'solver="rodas5p"'),
    (square, "x = 1", POLE, "derivative of x grows without bound at 1"),
    (hyperbola, "x", POLE, "derivative of x grows without bound at 1 s: a pole"),
    (tangent, "x", POLE, "derivative of x grows without bound at 1.57"),
    (cube, "y = 1, x = 1", POLE, "derivative of x grows without bound at 0.5"),
    (falls_in, "x = 1", POLE, "derivative of x grows without bound at 0.5"),
    (oscillator, "x = 1, v", NO_FINDING, "most_steps"),
    (both_fast, "x = 1, v, w", NO_FINDING, "most_steps"),
]


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("function", "states", "kind", "says"), PLANTED, ids=[one[0].__name__ for one in PLANTED]
)
def test_a_step_that_is_too_hard_is_told_by_its_kind_and_no_other(
    function: Any, states: str, kind: str, says: str
) -> None:
    until = 1000 if function is robertson else 2
    text = _error(function, states, FEW, until)
    assert [one for one in KINDS if one in text] == [kind], text
    assert says in text
    assert text.startswith("dp54(most_steps=1500) ")
    assert f"plant (model {function.__name__}) between 0.000000000 s" in text


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("solver", "function", "kind"),
    [
        (SciPy(method="DOP853", most_steps=200), slide, JUMP),
        (SciPy(method="LSODA", most_steps=500), slide, JUMP),
        (SciPy(method="BDF", most_steps=500), slide, JUMP),
        (SciPy(method="Radau", most_steps=30), slide, JUMP),
        (SciPy(method="DOP853", most_steps=200), decay, STIFF),
        (SciPy(method="DOP853"), square, POLE),
        (SciPy(method="LSODA"), square, POLE),
        (SciPy(method="Radau"), square, POLE),
        (Rosenbrock(most_steps=300), slide, JUMP),
        (Rosenbrock(), square, POLE),
    ],
    ids=lambda v: getattr(v, "name", getattr(v, "__name__", "")),
)
def test_other_solvers_tell_it_too(solver: Solver, function: Any, kind: str) -> None:
    text = _error(function, "x = 0.01" if function is slide else "x = 1", solver)
    assert [one for one in KINDS if one in text] == [kind], text


@pytest.mark.parametrize("function", [slide, decay, square], ids=lambda f: f.__name__)
def test_compiled_models_are_examined_too(function: Any) -> None:
    kind = {slide: JUMP, decay: STIFF, square: POLE}[function]
    assert kind in _error(function, "x = 1", FEW, compile=True)


def test_the_error_says_how_many_steps_where_and_how_long() -> None:
    text = _error(slide, "x = 0.01", FEW)
    assert "took too many steps (most_steps = 1500) for plant (model slide)" in text
    assert "; at 0.01" in text
    assert " s they are " in text
    assert "e-08 s long (x = " in text


def test_an_edge_and_an_overflow_are_told() -> None:
    edge = _error(tank, "level = 0.01", Adaptive(), compile=True)
    assert "the derivative of level is nan beyond 0.2" in edge
    over = _error(explosion, "x = 1", Adaptive(), compile=True)
    assert "x is about to exceed the largest floating-point number" in over
    assert not [one for one in KINDS if one in edge or one in over]


def test_a_derivative_that_is_no_function_is_told() -> None:
    calls = [0]

    def drawn(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        calls[0] += 1
        dx[0] = math.sin(1e4 * calls[0])

    assert "it must be a pure function" in _error(drawn, "x", Adaptive(most_steps=300))


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_the_number_of_steps_is_counted_from_tag_to_tag(compile: bool) -> None:
    from rtsim.equations.model import bind

    bound = bind(FORCED, compile=compile)
    p, x, out = FORCED.parameters.initial(), np.zeros(2), np.zeros(2)
    for solver in (Adaptive(rtol=1e-8, most_steps=60), SciPy(rtol=1e-8, most_steps=60)):
        stepper = solver.stepper(bound)
        for k in range(3):
            ends = k * 10**9, (k + 1) * 10**9
            assert stepper.advance(*ends, x, NONE, NONE, p, out) == -1
            stepper.accept()
        assert stepper.advance(3 * 10**9, 90 * 10**9, x, NONE, NONE, p, out) == TOO_MANY
        stall = stepper.stall()  # type: ignore[attr-defined]
        assert stall.tried == 60
        assert 3.0 < stall.t < 90.0


def test_a_number_of_steps_that_cannot_be_meant() -> None:
    for wrong in (0, -5, math.nan):
        with pytest.raises(ScenarioError, match=f"most_steps = {wrong} is not valid"):
            Adaptive(most_steps=wrong)  # type: ignore[arg-type]
    assert Adaptive(most_steps=7).name == "dp54(most_steps=7)"


# -- values that are not finite


def broken(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = math.nan if t > 0.5 else 1.0


def steep(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """The derivative is finite; SciPy's difference quotient of it is not."""
    dx[0] = 1e308 * math.sin(1e8 * x[0]) if t > 0.0 else 0.0


@pytest.mark.parametrize("method", ["Radau", "BDF", "LSODA", "DOP853"])
def test_nan_under_scipys_solvers_names_the_model_and_the_time(method: str) -> None:
    text = _error(broken, "x", SciPy(method=method))
    assert "the derivative of state x of plant (model broken) is not finite between 0.0" in text
    assert "the derivative of x is nan beyond 0.5 s" in text


@pytest.mark.parametrize("method", ["Radau", "BDF"])
def test_an_infinite_jacobian_names_the_model_and_the_time(method: str) -> None:
    text = _error(steep, "x = 1", SciPy(method=method))
    assert " plant (model steep) " in text
    assert " between 0.000000000 s and 2.000000000 s" in text


def test_an_error_of_the_models_own_is_told_as_its_own() -> None:
    def refuses(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        if t > 0.5:
            raise ValueError("no such table")
        dx[0] = 1.0

    assert "no such table" in _error(refuses, "x", RADAU)


def test_a_fixed_step_that_meets_a_pole_or_is_too_long_says_which() -> None:
    from rtsim.solve import RK4

    pole = _error(falls_in, "x = 1", RK4, compile=True)
    assert "the derivative of x grows without bound at 0.5" in pole
    scenario = Scenario("long", until=20)
    scenario.plant("plant", Model("decay", Signals("x = 1"), _fast), step="0.1", solver="rk4")
    with pytest.raises(ModelError, match=r"dp54 covers this interval .* the step is too long"):
        simulate(scenario)


def _fast(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -300.0 * x[0]
