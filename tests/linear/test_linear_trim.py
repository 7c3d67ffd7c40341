"""trim: solutions, their description, and refusals."""

from __future__ import annotations

import math

import pytest

from rtsim import Model, Scenario, Signal, Signals, linearise, simulate, trim
from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.models.unstable import scenario as unstable


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
