"""Derivatives by complex step and by central differences, and the estimates of their errors.

trim: solutions, their description, and refusals.

Trim and linear models of plants with algebraic constraints, against formulas by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from rtsim import (
    Model,
    PythonController,
    Scenario,
    Signal,
    Signals,
    compiled,
    linearise,
    simulate,
    trim,
)
from rtsim.blocks import Diagram, Expression, Integrator, Sum
from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.linear import StateSpace
from rtsim.models.f16.stevens_lewis import STEVENS_LEWIS
from rtsim.models.unstable import scenario as unstable

TABLE = np.array([0.0, 1.0, 4.0, 9.0, 16.0])


@compiled
def looked_up(x: float) -> float:
    i = min(max(int(x), 0), 3)
    return TABLE[i] + (x - i) * (TABLE[i + 1] - TABLE[i])  # type: ignore[no-any-return]


def scale(x: float) -> float:
    return abs(x) * math.sqrt(math.hypot(3.0, x))


Scalar = Callable[[float], float]
SMOOTH: list[tuple[Scalar, Scalar]] = [
    (math.sin, math.cos),
    (lambda x: math.atan2(x, 2.0), lambda x: 2.0 / (4.0 + x * x)),
    (lambda x: math.atan2(2.0, x), lambda x: -2.0 / (4.0 + x * x)),
    (lambda x: math.exp(-x) * math.tanh(x),
     lambda x: math.exp(-x) * (1.0 / math.cosh(x) ** 2 - math.tanh(x))),
    (lambda x: math.log(x, 2.0) + math.pow(x, 1.5), lambda x: 1 / (x * math.log(2)) + 1.5 * x**0.5),
    (lambda x: math.asin(0.1 * x) + math.degrees(x), lambda x: 0.1 / math.sqrt(1 - 0.01 * x * x)
     + 180 / math.pi),
    (lambda x: looked_up(x), lambda x: TABLE[int(x) + 1] - TABLE[int(x)]),
    (lambda x: math.fmod(x, 0.7) + math.fabs(-x) + math.copysign(x, -1.0), lambda _: 1.0),
    (lambda x: float(np.sin(x)) * max(x, 0.1), lambda x: math.cos(x) * x + math.sin(x)),
    (scale, lambda x: math.sqrt(math.hypot(3, x)) + 0.5 * x * x / math.hypot(3, x) ** 1.5),
]  # fmt: skip


def model(function: Scalar) -> Model:
    def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = function(x[0]) + u[0]

    return Model("m", Signals("x"), derivative, inputs=Signals("u"))


@pytest.mark.parametrize(("function", "slope"), SMOOTH)
@pytest.mark.parametrize("at", [0.35, 1.3, 2.71])
def test_complex_step_is_exact(function: Scalar, slope: Scalar, at: float) -> None:
    found = linearise(model(function), at={"x": at}, compile=False)
    assert found.method == "complex step"
    assert found.a[0, 0] == pytest.approx(slope(at), rel=1e-14)
    assert found.b[0, 0] == 1.0
    assert found.notes == ()


def test_a_function_without_a_complex_form_is_differenced() -> None:
    found = linearise(model(math.erf), at={"x": 0.4}, compile=False)
    assert found.method == "central differences"
    slope = 2.0 / math.sqrt(math.pi) * math.exp(-0.16)
    assert found.errors is not None
    assert abs(found.a[0, 0] - slope) < found.errors[0, 0] < 1e-10


def test_an_imaginary_part_that_is_lost_is_noticed() -> None:
    def drops(x: float) -> float:
        return x * float(np.real(x)) if isinstance(x, complex) else x * x

    found = linearise(model(drops), at={"x": 3.0}, compile=False)
    assert found.a[0, 0] == pytest.approx(6.0, rel=1e-9)
    assert found.method.startswith("complex step for 1 of 2 variables, central differences")


def test_the_method_does_not_depend_on_the_rounding_of_the_point() -> None:
    """At a trim point, forces cancel: their sum is 0, and its rounding is that of the forces.

    One Python's libraries find another last bit of the point than those of another Python.
    """
    level = {
        "airspeed": 502.0, "throttle": 0.1385349638227, "alpha": 0.03691094113, "cg": 0.35,
        "elevator": -0.7587798674, "pitch": 0.03691094113, "power": 8.99646055,
    }  # fmt: skip
    rng = np.random.default_rng(1)
    found = set[str]()
    for size in (1e-16, 1e-13, 1e-10):
        for _ in range(8):
            at = {name: value * (1 + size * rng.uniform(-8, 8)) for name, value in level.items()}
            found.add(linearise(STEVENS_LEWIS, at=at).method)
    assert found == {"complex step for 16 of 17 variables, central differences for the others"}


def test_a_sum_that_cancels_has_the_error_of_its_terms() -> None:
    """The differences are exactly 0, but 1e6 + 1e-11 is not known better than to 1e-10."""

    def cancelled(x: float) -> float:
        return (1e6 + 1e-11 * x) - 1e6 + 0.0 * math.erf(x)

    def forces(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = 1e6 * x[1] - 1e6 * x[2] + cancelled(float(x[0]))
        dx[1] = dx[2] = 0.0

    at = {"x": 1.0, "a": 1.0, "b": 1.0}
    found = linearise(Model("m", Signals("x", "a", "b"), forces), at=at, compile=False)
    assert found.errors is not None
    assert abs(found.a[0, 0] - 1e-11) <= found.errors[0, 0]


@settings(max_examples=60, deadline=None)
@given(
    a=st.floats(-3, 3), b=st.floats(0.1, 20.0), at=st.floats(-50, 50),
    size=st.sampled_from([1e-3, 1.0, 1e6]),
)  # fmt: skip
def test_errors_of_differences_are_not_underestimated(
    a: float, b: float, at: float, size: float
) -> None:
    def wave(x: float) -> float:
        return size * (a * x + 0.1 * float(np.sin(b * x).real)) + math.erf(0.0) * 0.0

    def plain(x: float) -> float:
        return wave(x) + 0.0 * math.erf(float(x))

    found = linearise(model(plain), at={"x": at}, compile=False)
    assert found.errors is not None
    true = size * (a + 0.1 * b * math.cos(b * at))
    assert abs(found.a[0, 0] - true) <= 10.0 * found.errors[0, 0] + 1e-13 * abs(true)


def test_a_kink_gives_the_mean_and_a_note() -> None:
    found = linearise(model(abs), at={"x": 0.0}, compile=False)
    assert found.a[0, 0] == 0.0
    (note,) = found.notes
    assert (
        "d(x)/dt of m has a kink in x at this point: the slopes on both sides differ by 2" in note
    )


def test_a_value_that_is_not_finite_names_the_variable() -> None:
    def root(x: float) -> float:
        return float(np.sqrt(x)) if x >= 0 else math.nan

    with pytest.raises(ModelError, match="model m: x cannot be varied around 0: a value is not"):
        linearise(model(root), at={"x": 0.0}, compile=False)


def test_wrong_arguments() -> None:
    with pytest.raises(UnknownName, match="unknown value 'y' in model m"):
        linearise(model(math.sin), at={"y": 1.0})
    with pytest.raises(ScenarioError, match="plant= is for a Scenario; leave it out"):
        linearise(model(math.sin), plant="x")


def test_matrices_that_do_not_fit() -> None:
    with pytest.raises(ScenarioError, match=r"A has shape \(1, 2\); it must be square"):
        StateSpace([[1, 2]], 1, 1)
    with pytest.raises(ScenarioError, match="has 1 inputs, but 2 names: a, b"):
        StateSpace(-1, 1, 1, inputs=Signals("a", "b"))


def pendulum(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -p[0] * math.sin(x[0]) - 0.1 * x[1] + u[0] + u[1]


def height(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = 1.0 - math.cos(x[0])


PENDULUM = Model(
    "pendulum",
    states=Signals("angle [rad]", "rate [rad/s]"),
    inputs=Signals(Signal("torque", "1/s^2", low=-5.0, high=5.0), "wind [1/s^2]"),
    outputs=Signals("height [m]"),
    parameters=Signals("stiffness [1/s^2] = 10"),
    derivative=pendulum,
    output=height,
)


def test_the_solution_and_its_description() -> None:
    found = trim(PENDULUM, free={"torque": 1.0}, fixed={"angle": 0.3}, compile=False)
    assert (found["torque"], found["angle"]) == (found.free["torque"], 0.3)
    assert found["height"] == found.outputs["height"]
    with pytest.raises(UnknownName, match=r"unknown value 'torqe' in .*; did you mean torque"):
        found["torqe"]
    assert found.free["torque"] == pytest.approx(10.0 * math.sin(0.3), rel=1e-14)
    assert found.residual < 1e-14
    assert found.unique
    assert found.condition == 1.0
    assert found.outputs["height"] == pytest.approx(1 - math.cos(0.3))
    assert found.values["angle"] == 0.3
    assert list(found.residuals) == ["d(angle)/dt", "d(rate)/dt"]
    assert "torque = 2.955" in str(found)
    linear = linearise(PENDULUM, at=found, compile=False)
    assert linear.a[1, 0] == pytest.approx(-10 * math.cos(0.3), rel=1e-14)
    assert linear.method == "complex step"


def test_an_output_can_be_fixed() -> None:
    found = trim(PENDULUM, free={"torque": 1.0, "angle": 0.5}, fixed={"height": 0.05},
                 compile=False)  # fmt: skip
    assert found.free["angle"] == pytest.approx(math.acos(0.95), rel=1e-9)


def test_rates_need_not_be_zero() -> None:
    found = trim(PENDULUM, free=("torque",), steady={"rate": 0.5}, fixed={"rate": 2.0},
                 compile=False)  # fmt: skip
    assert found.free["torque"] == pytest.approx(0.7, rel=1e-12)


def test_free_values_that_the_equations_do_not_determine() -> None:
    found = trim(PENDULUM, free=("torque", "wind"), fixed={"angle": 0.3}, compile=False)
    assert not found.unique
    (direction,) = found.undetermined
    assert direction["torque"] == pytest.approx(-direction["wind"])
    assert "not unique: the free values can move along" in str(found)


def test_another_solution_from_another_start() -> None:
    bounds = {"angle": (0.0, 3.0)}
    found = trim(PENDULUM, free={"angle": 0.1}, fixed={"torque": 2.0}, steady=("rate",),
                 bounds=bounds, starts=6, compile=False)  # fmt: skip
    assert found.free["angle"] == pytest.approx(math.asin(0.2))
    assert [other["angle"] for other in found.others] == pytest.approx([math.pi - math.asin(0.2)])
    assert not found.unique


def test_a_value_at_its_bound_is_named() -> None:
    found = trim(PENDULUM, free={"torque": 0.0}, fixed={"angle": math.asin(0.5)}, tolerance=1e-6,
                 compile=False)  # fmt: skip
    assert found.at_bounds == ("torque",)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"free": ("torque",), "fixed": {"angle": 1.0}},
         r"no trim of pendulum found: at best d\(rate\)/dt is off by -3\.41, allowed 1e-08, at "
         "torque = 5; start the search"),
        ({"free": ("torque",), "fixed": {"rate": 1.0}},
         r"d\(angle\)/dt is 1 whatever the free values"),
        ({"free": ("torqe",)},
         "unknown state, input or parameter 'torqe' in free= of pendulum; did"),
        ({"free": ("torque",), "steady": ("rat",)}, "unknown state 'rat' in steady= of pendulum"),
        ({"free": ("torque",), "fixed": {"heigt": 1}},
         "unknown value 'heigt' in fixed= of pendulum"),
        ({"free": ("torque",), "fixed": {"torque": 1}}, "torque is in free= and in fixed="),
        ({"free": {}}, "free= is empty"),
        ({"free": ("torque",), "bounds": {"torque": (1, 1)}}, "give low < high"),
        ({"free": ("torque",), "bounds": {"wind": (0, 1)}}, "unknown free value 'wind' in bounds="),
        ({"free": ("wind",), "starts": 3}, "starts= needs bounds= of all free values"),
        ({"free": ("torque",), "plant": "x"}, "are for a Scenario; leave them out for a model"),
    ],
)  # fmt: skip
def test_refusals(arguments: dict[str, object], problem: str) -> None:
    with pytest.raises((ModelError, ScenarioError, UnknownName), match=problem):
        trim(PENDULUM, compile=False, **arguments)  # type: ignore[arg-type]


def test_something_else_is_no_model() -> None:
    with pytest.raises(ScenarioError, match="int is not a model; give a Model, a Diagram or"):
        trim(3, free=("x",))


def test_of_a_scenario() -> None:
    out = Scenario("swing", until=1)
    out.plant("swing", PENDULUM, step=0.01, inputs={"torque": 0.0, "wind": 0.0})
    found = trim(out, free=("torque",), fixed={"angle": 0.4}, compile=False)
    found.set_in(out)
    plant = simulate(out, compile=False).system.plants[0]
    assert plant.x[0] == pytest.approx(0.4, abs=1e-12)
    rest = trim(unstable(), free=("x", "v", "force"), fixed={}, compile=False)
    assert not rest.unique
    assert rest.free["force"] == pytest.approx(-2.0 * rest.free["x"], abs=1e-9)


def fills(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = u[0] - y[0]
    dx[1] = y[0] - x[1]


def pipe(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
    r[0] = y[0] * abs(y[0]) + y[0] - (x[0] - x[1])


def doubled(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = 2.0 * y[0]


TANKS = Model(
    "tanks", Signals("h1 = 4", "h2"), fills,
    inputs=Signals(Signal("inflow", initial=0.5, optional=True)),
    outputs=Signals("twice"), output=doubled, algebraic=Signals("flow"), residual=pipe,
)  # fmt: skip
"""The flow from the first tank to the second follows from a residual: dq/dh = 1 / (2 q + 1)."""


def test_a_trim_has_the_algebraic_values_and_the_linear_model_there_is_exact() -> None:
    level = trim(TANKS, free=("h1", "h2"), fixed={"inflow": 0.5})
    assert level.values["flow"] == pytest.approx(0.5, abs=1e-9)
    assert level.free["h1"] == pytest.approx(1.25, abs=1e-9)
    assert level.outputs["twice"] == pytest.approx(1.0, abs=1e-9)
    found = linearise(TANKS, at=level)
    assert np.abs(found.a - [[-0.5, 0.5], [0.5, -1.5]]).max() < 1e-9
    assert found.b.tolist() == [[1.0], [0.0]]
    assert np.abs(found.c - [[1.0, -1.0]]).max() < 1e-9
    assert found.method == "complex step"
    assert found.errors is not None
    assert found.errors.max() < 1e-12


def test_an_output_of_an_algebraic_variable_can_be_fixed_the_variable_itself_cannot() -> None:
    found = trim(TANKS, free=("h1", "h2", "inflow"), fixed={"twice": 1.4})
    assert found.values["flow"] == pytest.approx(0.7, abs=1e-9)
    with pytest.raises(ScenarioError, match="flow in fixed= of tanks is an algebraic variable"):
        trim(TANKS, free=("h1", "h2"), fixed={"flow": 0.5})


def test_a_plant_of_a_scenario_is_trimmed_and_linearised_but_a_loop_through_it_is_refused() -> None:
    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        y[0] = 0.5 - 0.1 * (u[0] - 1.25)

    scenario = Scenario("tanks", until=3)
    scenario.plant("tanks", TANKS, step=0.1, inputs={"inflow": "pump.flow"})
    pump = PythonController(law, Signals("level"), Signals("flow"))
    scenario.controller("pump", pump, period=0.1, inputs={"level": "tanks.h1"})
    level = trim(scenario, plant="tanks", free=("h1", "h2"), fixed={"inflow": 0.5})
    level.set_in(scenario)
    assert simulate(scenario).final("tanks.h1") == pytest.approx(1.25, abs=1e-9)
    found = linearise(scenario, plant="tanks", time=1)
    assert np.abs(found.a - [[-0.5, 0.5], [0.5, -1.5]]).max() < 1e-6
    with pytest.raises(ModelError, match="which an open loop of a scenario cannot have"):
        linearise(scenario, start="pump.flow")


def moves(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -math.sin(x[0]) - y[0] + u[0]


def inertia(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, m: Any) -> None:  # noqa: ARG001
    m[0, 0], m[0, 1] = 1.0 + x[0] ** 2, 0.0
    m[1, 0], m[1, 1] = 0.0, 2.0 + y[0]


def drag(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
    r[0] = y[0] - math.exp(-y[0]) * x[1] - x[0]


@pytest.mark.long
def test_a_mass_matrix_that_depends_on_states_and_algebraic_variables() -> None:
    model = Model(
        "heavy", Signals("q = 0.3", "v = 0.2"), moves, inputs=Signals("u = 0.1"),
        algebraic=Signals("f"), residual=drag, mass=inertia,
    )  # fmt: skip
    q, v, u = 0.3, 0.2, 0.1
    y = brentq(lambda y: y - math.exp(-y) * v - q, -5, 5, xtol=1e-15)
    slope = 1.0 + math.exp(-y) * v  # of the residual by y
    by = np.array([1.0 / slope, math.exp(-y) / slope])  # of y by q and v
    force = -math.sin(q) - y + u
    a = np.array([[-2 * q * v / (1 + q * q) ** 2, 1 / (1 + q * q)], [0.0, 0.0]])
    a[1] = (np.array([-math.cos(q), 0.0]) - by) / (2 + y) - force * by / (2 + y) ** 2
    found = linearise(model)
    assert np.abs(found.a - a).max() < 1e-9
    assert np.abs(found.b - [[0.0], [1 / (2 + y)]]).max() < 1e-9


@pytest.mark.long
def test_a_diagram_with_a_solved_loop() -> None:
    loop = Diagram("loop")
    loop.add("x", Integrator(1.0), "sum")
    loop.add("sum", Sum("--"), "x", "friction")
    loop.add("friction", Expression(lambda v: math.tanh(3.0 * v)), "sum")
    loop.solve("friction", initial=0.0)
    rate = brentq(lambda s: s + 1.0 + math.tanh(3.0 * s), -2.0, 2.0, xtol=1e-15)
    exact = -1.0 / (1.0 + 3.0 / math.cosh(3.0 * rate) ** 2)
    assert linearise(loop).a[0, 0] == pytest.approx(exact, abs=1e-9)


def square(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
    r[0] = y[0] ** 2 - x[0]


def root(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = y[0]


@pytest.mark.long
def test_a_singular_jacobian_names_residuals_and_variables() -> None:
    model = Model("root", Signals("x"), root, algebraic=Signals("a"), residual=square)
    with pytest.raises(ModelError, match=r"model root is singular at this point: residual\[0\]"):
        linearise(model)
    assert linearise(model, at={"x": 4.0, "a": 1.0}).a[0, 0] == pytest.approx(0.25, abs=1e-9)
    assert linearise(model, at={"x": 4.0, "a": -1.0}).a[0, 0] == pytest.approx(-0.25, abs=1e-9)


def never(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[0] ** 2 + 1.0 + u[0] ** 2


def test_a_trim_without_solution_does_not_say_that_nothing_matters() -> None:
    model = Model("never", Signals("x"), never, inputs=Signals("u"))
    with pytest.raises(ModelError, match=r"no solution: d\(x\)/dt does not fall below 1 near x"):
        trim(model, free=("x", "u"))
