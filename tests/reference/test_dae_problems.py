"""Index-1 DAEs against published answers and independent solutions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from constraint_parts import last
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from rtsim.solve import RADAU, RODAS5P
from tools.bench.constraint_problems import (
    AKZO,
    AKZO_END,
    BRIDGE,
    CAPACITY,
    LEAK,
    LOAD,
    PENDULUM,
    ROBERTSON,
    ROBERTSON_END,
    SATURATION,
    SOURCE,
    THERMAL,
)


def test_robertson_as_a_dae_up_to_its_published_end() -> None:
    """With a relative tolerance of 1e-8; the absolute one lies below the smallest answer, 8e-14."""
    solver = replace(RADAU, rtol=1e-8, atol=1e-18)
    found = last(ROBERTSON, "1e9", solver, 1e9, compile=False)
    assert found == pytest.approx(ROBERTSON_END, rel=1e-6)
    assert sum(found) == pytest.approx(1.0, abs=1e-10)


def test_akzo_nobel_agrees_with_the_test_set() -> None:
    assert last(AKZO, "0.05", "rk4", 180) == pytest.approx(AKZO_END, rel=1e-6)
    solver = replace(RADAU, rtol=1e-9, atol=1e-12)
    assert last(AKZO, "180", solver, 180, compile=False) == pytest.approx(AKZO_END, rel=1e-8)
    fast = replace(RODAS5P, rtol=1e-8, atol=1e-12)
    assert last(AKZO, "180", fast, 180) == pytest.approx(AKZO_END, rel=1e-8)


@pytest.mark.parametrize("solver", ["rk4", "dp54", "radau"])
def test_the_length_of_the_pendulum_drifts_as_stated(solver: str) -> None:
    """Index 1 fixes only the second derivative of the length: docs/equations.md has the drift."""
    x, y, vx, vy, tension = last(PENDULUM, "0.01", solver, 5)
    bound = {"rk4": 3e-5, "dp54": 1e-7, "radau": 3e-5}[solver]
    assert abs(math.hypot(x, y) - 1.0) < bound
    assert abs(0.5 * (vx**2 + vy**2) + 9.81 * y) < 30 * bound
    assert tension == pytest.approx((vx**2 + vy**2 - 9.81 * y) / (x**2 + y**2), rel=1e-9)


def test_the_drift_falls_with_the_fourth_power_of_the_step() -> None:
    far, near = (
        abs(math.hypot(*last(PENDULUM, step, "rk4", 5)[:2]) - 1.0) for step in ("0.01", "0.005")
    )
    assert 12.0 < far / near < 40.0


def test_a_diode_bridge_agrees_with_an_independent_solution() -> None:
    """The bridge is symmetric, so one unknown remains: bisection finds it in each evaluation."""

    def diode(v: float) -> float:
        return SATURATION * (math.exp(min(v / THERMAL, 700.0)) - 1.0) + LEAK * v

    def left(t: float, x: float) -> float:
        source = 10.0 * math.sin(2.0 * math.pi * 50.0 * t)

        def current(v: float) -> float:
            return (source - 2.0 * v + x) / SOURCE - diode(v - x) + diode(-v)

        return float(brentq(current, -20.0, 20.0, xtol=1e-14, rtol=1e-14))

    def rates(t: float, x: Any) -> list[float]:
        v = left(t, x[0])
        return [(diode(v - x[0]) + diode(-v) - x[0] / LOAD) / CAPACITY]

    wanted = solve_ivp(rates, (0.0, 0.02), [0.0], method="LSODA", rtol=1e-9, atol=1e-11).y[0, -1]
    found = last(BRIDGE, "0.0005", "dp54", 0.02, compile=False)
    assert found[0] == pytest.approx(wanted, rel=1e-5)
    assert found[1] + found[2] == pytest.approx(found[0], abs=1e-8)  # the symmetry
    assert found[1] == pytest.approx(left(0.02, found[0]), abs=1e-8)


def implicit(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = -y[0]


def cubic(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
    r[0] = y[0] + y[0] ** 3 - x[0]


@pytest.mark.parametrize(
    ("solver", "order"), [("euler", 1), ("midpoint", 2), ("rk4", 4), ("abm4", 4)]
)
def test_a_constraint_keeps_the_order_of_a_solver(solver: str, order: int) -> None:
    """``x' = -y, x = y + y^3`` has the solution ``ln y + 1.5 y^2 = 1.5 - t`` from x = 2, y = 1."""
    from rtsim import Model, Signals

    model = Model(
        "implicit", Signals("x = 2"), implicit, algebraic=Signals("y = 1"), residual=cubic
    )
    off = []
    for step in ("0.1", "0.05"):
        y = last(model, step, solver, 1, compile=False)[1]
        off.append(abs(math.log(y) + 1.5 * y**2 - 0.5))
    assert np.log2(off[0] / off[1]) == pytest.approx(order, abs=0.35)
