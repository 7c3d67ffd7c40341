"""Trim and linear models of plants with algebraic constraints, against formulas by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from rtsim import Model, PythonController, Scenario, Signal, Signals, linearise, simulate, trim
from rtsim.blocks import Diagram, Expression, Integrator, Sum
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.signals import Vector


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


def moves(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, f: Any) -> None:  # noqa: ARG001
    f[0] = x[1]
    f[1] = -math.sin(x[0]) - y[0] + u[0]


def inertia(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, m: Any) -> None:  # noqa: ARG001
    m[0, 0], m[0, 1] = 1.0 + x[0] ** 2, 0.0
    m[1, 0], m[1, 1] = 0.0, 2.0 + y[0]


def drag(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
    r[0] = y[0] - math.exp(-y[0]) * x[1] - x[0]


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
