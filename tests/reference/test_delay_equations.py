"""Delay differential equations against independent computations.

No figure is copied: the Mackey-Glass equation is solved again by the method of steps, with SciPy's
DOP853 and its dense output on each interval between two breaks.
"""

# ruff: noqa: ARG001

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from delay_parts import S, ran, single
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from rtsim import Delayed, Model, Signals
from rtsim.blocks import (
    Constant,
    Diagram,
    Expression,
    Gain,
    Integrator,
    Product,
    Step,
    Sum,
    TransportDelay,
)
from rtsim.core.signals import Vector
from rtsim.solve import Adaptive, Solver

LAG, END = 17.0, 100.0


def mackey_glass(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = 0.2 * u[0] / (1.0 + u[0] ** 10) - 0.1 * x[0]


MACKEY_GLASS = Model(
    "mackey_glass",
    states=Signals("x = 1.2"),
    derivative=mackey_glass,
    delays=(Delayed("x", LAG, before=1.2),),
)
"""x' = 0.2 x(t - 17) / (1 + x(t - 17)^10) - 0.1 x, with x = 1.2 for t <= 0.

Source of the equation: M. C. Mackey and L. Glass, Science 197, 1977, p. 287."""


@pytest.fixture(scope="module")
def by_steps() -> NDArray[np.float64]:
    """x at 0, 1, …, 100 s, by the method of steps."""
    pieces: list[Callable[[float], NDArray[np.float64]]] = []

    def before(t: float) -> float:
        return 1.2 if t <= 0 else float(pieces[int(t // LAG)](t)[0])

    def rate(t: float, x: NDArray[np.float64], k: int) -> list[float]:
        s = t - LAG
        late = 1.2 if k == 0 else float(pieces[k - 1](s)[0])
        return [0.2 * late / (1.0 + late**10) - 0.1 * float(x[0])]

    at, first = [1.2], 1.2
    for k in range(6):
        begin = k * LAG
        found = solve_ivp(
            rate, (begin, begin + LAG), [first], "DOP853", dense_output=True, args=(k,),
            rtol=1e-12, atol=1e-13,
        )  # fmt: skip
        assert found.sol is not None
        sol = found.sol
        pieces.append(sol)
        first = float(found.y[0, -1])
        at += [float(sol(t)[0]) for t in range(int(begin) + 1, int(begin + LAG) + 1)]
    return np.array(at[: int(END) + 1])


@pytest.mark.parametrize(
    ("solver", "step", "error"),
    [
        ("rk4", "1/4", 2e-6),
        (Adaptive(rtol=1e-6, atol=1e-8), "1", 2e-5),
        (Adaptive(rtol=1e-10, atol=1e-12), "1", 1e-8),
    ],
)
def test_mackey_glass(
    solver: Solver | str, step: str, error: float, by_steps: NDArray[np.float64]
) -> None:
    recording = ran(single(MACKEY_GLASS, END, solver, step))
    t = recording.time("a")
    x = recording["a.x"][t % S == 0]
    assert len(x) == len(by_steps)
    assert np.abs(x - by_steps).max() < error


def test_mackey_glass_as_a_diagram(by_steps: NDArray[np.float64]) -> None:
    """The delay is the block TransportDelay."""
    d = Diagram("mackey_glass")
    d.add("x", Integrator(1.2), "rate")
    d.add("late", TransportDelay(LAG, initial=1.2), "x")
    d.add("feed", Expression(lambda a: 0.2 * a / (1.0 + a**10)), "late")
    d.add("decay", Gain(0.1), "x")
    d.add("rate", Sum("+-"), "feed", "decay")
    recording = ran(single(d.model(), END, Adaptive(rtol=1e-9, atol=1e-11), "1"))
    assert np.abs(recording["a.x"] - by_steps).max() < 1e-7


def test_a_delay_of_a_jump_and_of_a_delay() -> None:
    """The first delay passes the step on as a jump; the second one delays it again."""
    d = Diagram("line")
    d.add("step", Step("1/3", 0.0, 2.0))
    d.add("first", TransportDelay("1/7"), "step")
    d.add("second", TransportDelay("1/11", initial=-1.0), "first")
    d.add("x", Integrator(), "first")
    d.add("y", Integrator(), "second")
    d.output("first")
    d.output("second")
    model = d.model()
    assert [p.name for p in model.parameters if p.name.endswith("delay")] == [
        "first_delay",
        "second_delay",
    ]
    recording = ran(single(model, 1, "rk4", "1/10"))
    ns = 1e-9  # the lags are whole ns
    assert abs(recording["a.x"][-1] - 2 * (1 - 1 / 3 - 1 / 7)) < 4 * ns
    assert abs(recording["a.y"][-1] - (2 * (1 - 1 / 3 - 1 / 7 - 1 / 11) - 1 / 11)) < 4 * ns
    assert set(np.unique(recording["a.second"]).round(12)) == {-1.0, 0.0, 2.0}


def test_a_product_of_a_delayed_signal_in_a_loop() -> None:
    """x' = -x(t - 1) by blocks, with the lag as a parameter of the plant."""
    d = Diagram("decay")
    d.add("x", Integrator(1.0), "rate")
    d.add("late", TransportDelay(2, initial=1.0), "x")
    d.add("minus", Constant(-1.0))
    d.add("rate", Product("**"), "minus", "late")
    scenario = single(d.model(), 3, "dp54", "1/2")
    scenario.set("a.late_delay", 1.0)
    assert abs(ran(scenario)["a.x"][-1] + 1 / 6) < 1e-14
