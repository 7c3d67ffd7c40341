# ruff: noqa: ARG001
"""Stiff and other hard problems with published ends: by SciPy's solvers, and by Dormand-Prince.

Sources: Test Set for IVP Solvers (Mazzia, Magherini, Bari); Hairer, Norsett, Wanner, *Solving
Ordinary Differential Equations* I (Pleiades, Arenstorf's orbit) and II.

A tag is a whole ns and a run at most 292 years: where a problem ends elsewhere, ``p[0]`` is how
many of its own seconds pass in one.

Index-1 DAEs against published answers and independent solutions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from constraint_parts import last
from published import figures
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from rtsim.core.signals import Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.model import BoundModel, Equation, Model, bind
from rtsim.solve import (
    BDF,
    DOP853,
    DP54,
    GOOD,
    LSODA,
    RADAU,
    RODAS5P,
    Adaptive,
    Rosenbrock,
    SciPy,
    Stepper,
    adaptive,
    scipy_solvers,
)
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

NONE = np.zeros(0)
EARTH_MOON = 0.012277471
PERIOD = 17.065216560157964
PUBLISHED = figures("ivp_testset")


def _hires(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = -1.71 * x[0] + 0.43 * x[1] + 8.32 * x[2] + 0.0007
    dx[1] = 1.71 * x[0] - 8.75 * x[1]
    dx[2] = -10.03 * x[2] + 0.43 * x[3] + 0.035 * x[4]
    dx[3] = 8.32 * x[1] + 1.71 * x[2] - 1.12 * x[3]
    dx[4] = -1.745 * x[4] + 0.43 * x[5] + 0.43 * x[6]
    dx[5] = -280 * x[5] * x[7] + 0.69 * x[3] + 1.71 * x[4] - 0.43 * x[5] + 0.69 * x[6]
    dx[6] = 280 * x[5] * x[7] - 1.81 * x[6]
    dx[7] = -dx[6]


def _van_der_pol(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[1]
    dx[1] = 1000 * (1 - x[0] ** 2) * x[1] - x[0]


def _singular_van_der_pol(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[1]
    dx[1] = ((1 - x[0] ** 2) * x[1] - x[0]) / 1e-6


def _orego(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = 77.27 * (x[1] + x[0] * (1 - 8.375e-6 * x[0] - x[1]))
    dx[1] = (x[2] - (1 + x[0]) * x[1]) / 77.27
    dx[2] = 0.161 * (x[0] - x[2])


def _rober(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = p[0] * (-0.04 * x[0] + 1e4 * x[1] * x[2])
    dx[2] = p[0] * 3e7 * x[1] ** 2
    dx[1] = -dx[0] - dx[2]


def _pollu(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    """``p`` (25,): the rates of the reactions."""
    r1, r2, r3, r4 = p[0] * x[0], p[1] * x[1] * x[3], p[2] * x[4] * x[1], p[3] * x[6]
    r5, r6, r7, r8 = p[4] * x[6], p[5] * x[6] * x[5], p[6] * x[8], p[7] * x[8] * x[5]
    r9, r10, r11 = p[8] * x[10] * x[1], p[9] * x[10] * x[0], p[10] * x[12]
    r12, r13, r14 = p[11] * x[9] * x[1], p[12] * x[13], p[13] * x[0] * x[5]
    r15, r16, r17, r18 = p[14] * x[2], p[15] * x[3], p[16] * x[3], p[17] * x[15]
    r19, r20, r21, r22 = p[18] * x[15], p[19] * x[16] * x[5], p[20] * x[18], p[21] * x[18]
    r23, r24, r25 = p[22] * x[0] * x[3], p[23] * x[18] * x[0], p[24] * x[19]
    dx[0] = -r1 - r10 - r14 - r23 - r24 + r2 + r3 + r9 + r11 + r12 + r22 + r25
    dx[1] = -r2 - r3 - r9 - r12 + r1 + r21
    dx[2] = -r15 + r1 + r17 + r19 + r22
    dx[3] = -r2 - r16 - r17 - r23 + r15
    dx[4] = -r3 + 2 * r4 + r6 + r7 + r13 + r20
    dx[5] = -r6 - r8 - r14 - r20 + r3 + 2 * r18
    dx[6] = -r4 - r5 - r6 + r13
    dx[7] = r4 + r5 + r6 + r7
    dx[8] = -r7 - r8
    dx[9] = -r12 + r7 + r9
    dx[10] = -r9 - r10 + r8 + r11
    dx[11] = r9
    dx[12] = -r11 + r10
    dx[13] = -r13 + r12
    dx[14] = r14
    dx[15] = -r18 - r19 + r16
    dx[16] = -r20
    dx[17] = r20
    dx[18] = -r21 - r22 - r24 + r23 + r25
    dx[19] = -r25 + r24


def _pleiades(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    """Seven stars of masses 1 to 7 in a plane: all x, all y, and their rates."""
    for i in range(7):
        dx[i], dx[7 + i] = x[14 + i], x[21 + i]
        dx[14 + i], dx[21 + i] = 0.0, 0.0
        for j in range(7):
            if j != i:
                a, b = x[j] - x[i], x[7 + j] - x[7 + i]
                pull = (j + 1) / (a * a + b * b) ** 1.5
                dx[14 + i] += pull * a
                dx[21 + i] += pull * b


@compiled
def _cubed(a: float, b: float) -> float:
    return (a * a + b * b) ** 1.5  # type: ignore[no-any-return]


def _arenstorf(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    moon, earth = EARTH_MOON, 1 - EARTH_MOON
    near, far = _cubed(x[0] + moon, x[1]), _cubed(x[0] - earth, x[1])
    dx[0] = p[0] * x[2]
    dx[1] = p[0] * x[3]
    dx[2] = p[0] * (x[0] + 2 * x[3] - earth * (x[0] + moon) / near - moon * (x[0] - earth) / far)
    dx[3] = p[0] * (x[1] - 2 * x[2] - earth * x[1] / near - moon * x[1] / far)


@dataclass(frozen=True)
class Problem:
    """``end`` (s) where it is not the published one."""

    derivative: Equation
    atol: float | Mapping[str, float]
    unit: float | None = None
    end: float | None = None


PROBLEMS = {
    "HIRES": Problem(_hires, 1e-11),
    "VDPOL": Problem(_van_der_pol, 1e-10),
    "VDPOL eps": Problem(_singular_van_der_pol, 1e-9),
    "OREGO": Problem(_orego, 1e-8),
    "ROBER": Problem(_rober, {"y1": 1e-14, "y2": 1e-20, "y3": 1e-9}, 1e6, 1e5),
    "POLLU": Problem(_pollu, 1e-16),
    "PLEIADES": Problem(_pleiades, 1e-9),
    "ARENSTORF": Problem(_arenstorf, 1e-9, PERIOD / 17, 17.0),
}
_bound: dict[str, BoundModel] = {}


def _ended(name: str, solver: SciPy | Adaptive | Rosenbrock, rtol: float) -> tuple[float, Stepper]:
    """The largest error at the end, each relative to its state; and who made it."""
    problem = PROBLEMS[name]
    given = PUBLISHED["problems"][name]
    start, wanted = np.array(given["y0"]), np.array(given["y_end"])
    p = np.array(PUBLISHED["pollu_k"] if name == "POLLU" else [problem.unit or 1.0])
    if name not in _bound:
        states = Signals(*(f"y{i + 1}" for i in range(start.size)))
        rates = Signals(*(f"p{i}" for i in range(p.size)))
        _bound[name] = bind(Model(name, states, problem.derivative, parameters=rates), x=start, p=p)
    stepper = replace(solver, rtol=rtol, atol=problem.atol).stepper(_bound[name])
    out = start.copy()
    end = round((problem.end or given["t_end"]) * 1e9)
    assert stepper.advance(0, end, start, NONE, NONE, p, out) == GOOD
    stepper.accept()
    scale = np.where(wanted == 0, 1.0, np.abs(wanted))
    return float(np.max(np.abs(out - wanted) / scale)), stepper


ROWS = [
    pytest.param(rtol, loose, tight, marks=marks, id=f"{rtol:g}")
    for rtol, loose, tight, marks in (
        (1e-5, 1e-3, 4e-6, [pytest.mark.full]),  # OREGO: 6e-4, also by solve_ivp
        (1e-7, 2e-5, 1e-7, []),
        (1e-9, 1e-6, 1e-9, [pytest.mark.full]),
    )
]


@pytest.mark.sample(8)
@pytest.mark.parametrize(("rtol", "loose", "tight"), ROWS)
@pytest.mark.parametrize("solver", [RADAU, BDF, LSODA, RODAS5P], ids=lambda s: s.name)
@pytest.mark.parametrize(
    "name",
    [
        "HIRES",
        pytest.param("VDPOL", marks=pytest.mark.full),  # the next one, in other units
        "VDPOL eps",
        "OREGO",
        "ROBER",
        "POLLU",
    ],
)
def test_stiff(
    name: str, solver: SciPy | Rosenbrock, rtol: float, loose: float, tight: float
) -> None:
    """Every state to ``loose`` by the multistep methods, to ``tight`` by Radau.

    The bounds of the Rosenbrock method are between these.
    """
    off, _ = _ended(name, solver, rtol)
    between = {1e-5: 6e-6, 1e-7: 1e-7, 1e-9: 3e-8}[rtol]
    assert off < {RADAU.name: tight, RODAS5P.name: between}.get(solver.name, loose)


@pytest.mark.parametrize("solver", [DP54, DOP853], ids=lambda s: s.name)
@pytest.mark.parametrize(
    ("name", "rtol", "most"),
    [
        ("PLEIADES", 1e-7, 2e-4),
        ("PLEIADES", 1e-9, 1e-6),
        ("ARENSTORF", 1e-7, 1.5e-3),
        ("ARENSTORF", 1e-9, 5e-5),
    ],
)
def test_close_encounters(name: str, solver: SciPy | Adaptive, rtol: float, most: float) -> None:
    """Encounters make what was off thousands of times larger: 1e-9 a step is 1e-5 at the end."""
    assert _ended(name, solver, rtol)[0] < most


def test_what_stiff_means() -> None:
    """An explicit pair comes to the same end with a thousand times the evaluations."""
    off, explicit = _ended("VDPOL eps", replace(DP54, most_steps=10_000_000), 1e-5)
    assert off < 1e-4
    _, implicit = _ended("VDPOL eps", LSODA, 1e-5)
    evaluations = explicit.save()["memory"][adaptive.EVALUATIONS]
    assert evaluations > 1000 * implicit.save()["memory"][scipy_solvers.EVALUATIONS]


@pytest.mark.long
def test_robertson_as_a_dae_up_to_its_published_end() -> None:
    """With a relative tolerance of 1e-8; the absolute one lies below the smallest answer, 8e-14."""
    solver = replace(RADAU, rtol=1e-8, atol=1e-18)
    found = last(ROBERTSON, "1e9", solver, 1e9, compile=False)
    assert found == pytest.approx(ROBERTSON_END, rel=1e-6)
    assert sum(found) == pytest.approx(1.0, abs=1e-10)


@pytest.mark.long
def test_akzo_nobel_agrees_with_the_test_set() -> None:
    assert last(AKZO, "0.05", "rk4", 180) == pytest.approx(AKZO_END, rel=1e-6)
    solver = replace(RADAU, rtol=1e-9, atol=1e-12)
    assert last(AKZO, "180", solver, 180, compile=False) == pytest.approx(AKZO_END, rel=1e-8)
    fast = replace(RODAS5P, rtol=1e-8, atol=1e-12)
    assert last(AKZO, "180", fast, 180) == pytest.approx(AKZO_END, rel=1e-8)


@pytest.mark.sample(1)
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


def implicit(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:
    dx[0] = -y[0]


def cubic(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:
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
