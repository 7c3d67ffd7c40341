"""What the block bench runs: examples of PathSim and bdsim as diagrams, and their exact ends.

The loops are run to where they still move: at rest everybody is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.linalg import expm

from rtsim.blocks import (
    PID,
    Constant,
    Diagram,
    Expression,
    Gain,
    Integrator,
    LevelCrossing,
    Sampler,
    Step,
    Sum,
    TransferFunction,
)
from rtsim.solve import Adaptive, Solver

Array = NDArray[np.float64]

MASS, DAMPING, STIFFNESS = 0.8, 0.2, 1.5
KP, KI, KD, FILTER, PLANT = 3.0, 2.0, 0.1, 10.0, 0.3
GRAVITY, BOUNCE, FRICTION = 9.81, 0.95, 0.2
DROP, RESTITUTION = 10.0, 0.8
PID_UNTIL, PI_UNTIL = 52.0, 2.0


@dataclass(frozen=True)
class Case:
    """``end``: the exact value of ``watched`` at ``until``.

    ``floor``: errors below it count as none: a bounce of ours is at a whole ns.
    """

    name: str
    opponents: tuple[str, ...]
    diagram: Callable[[], Diagram]
    end: Callable[[], float]
    watched: str
    until: float
    step: float
    solver: str | Solver = "rk4"
    floor: float = 1e-12


# -- a mass on a spring ----------------------------------------------------------------------------


def oscillator() -> Diagram:
    d = Diagram("oscillator")
    d.add("v", Integrator(5.0), "a")
    d.add("x", Integrator(2.0), "v")
    d.add("c", Gain(DAMPING), "v")
    d.add("k", Gain(STIFFNESS), "x")
    d.add("f", Sum("++"), "c", "k")
    d.add("a", Gain(-1 / MASS), "f")
    return d


@cache
def oscillator_end() -> float:
    a = np.array([[0.0, 1.0], [-STIFFNESS / MASS, -DAMPING / MASS]])
    return float((expm(a * 25.0) @ [2.0, 5.0])[0])


# -- PID loops -------------------------------------------------------------------------------------


def pid_loop() -> Diagram:
    """PathSim's: an integrating plant, set point up at 10 s and half down at 50 s."""
    d = Diagram("pid")
    d.add("up", Step(10, 0.0, 1.0))
    d.add("down", Step(50, 0.0, -0.5))
    d.add("error", Sum("++-"), "up", "down", "y")
    d.add("pid", PID(KP, KI, KD, filter=FILTER), "error")
    d.add("x", Integrator(), "pid")
    d.add("y", Gain(PLANT), "x")
    d.output("y")
    return d


def _affine(a: Array, b: Array, pieces: Sequence[tuple[float, float]]) -> Array:
    """x' = a x + b r from 0, through pieces of so many s with so large an r."""
    n = len(b)
    x = np.zeros(n)
    for seconds, r in pieces:
        whole = np.zeros((n + 1, n + 1))
        whole[:n, :n], whole[:n, n] = a, b * r
        x = (expm(whole * seconds) @ np.append(x, 1.0))[:n]
    return x


@cache
def pid_end() -> float:
    b = np.array([FILTER, 1.0, KP + KD * FILTER])  # of the error: lag, integral, plant
    a = np.outer(b, [0.0, 0.0, -PLANT])
    a[0, 0] -= FILTER
    a[2, 0] -= KD * FILTER
    a[2, 1] += KI
    return float(PLANT * _affine(a, b, ((10.0, 0.0), (40.0, 1.0), (PID_UNTIL - 50.0, 0.5)))[2])


def pi_loop() -> Diagram:
    """bdsim's: 0.5/(2 s + 1) under PI control, set point up at 1 s."""
    d = Diagram("pi")
    d.add("demand", Step(1, 0.0, 1.0))
    d.add("error", Sum("+-"), "demand", "plant")
    d.add("pid", PID(10.0, 3.0, 0.0), "error")
    d.add("plant", TransferFunction([0.5], [2, 1]), "pid")
    d.output("plant", name="y")
    return d


@cache
def pi_end() -> float:
    b = np.array([1.0, 2.5])  # integral, plant
    a = np.array([[0.0, -1.0], [0.75, -0.5 - 2.5]])
    return float(_affine(a, b, ((1.0, 0.0), (PI_UNTIL - 1.0, 1.0)))[1])


# -- bouncing balls --------------------------------------------------------------------------------


def _ball(name: str, x0: float, v0: float, bounce: float, friction: float) -> Diagram:
    d = Diagram(name)
    d.add("gravity", Constant(-GRAVITY))
    d.add("x", Integrator(x0), "v")
    if friction:
        d.add("friction", Expression(lambda v: -FRICTION * abs(v) * v), "v")
        d.add("a", Sum("++"), "gravity", "friction")
    d.add("v", Integrator(v0), "a" if friction else "gravity", reset="up")
    d.add("floor", LevelCrossing(0.0, -1), "x")
    d.add("back", Gain(-bounce), "v")
    d.add("up", Sampler(), "back", "floor")
    return d


def ball_with_friction() -> Diagram:
    return _ball("ball with friction", 1.0, 5.0, BOUNCE, FRICTION)


def ball() -> Diagram:
    return _ball("ball", DROP, 0.0, RESTITUTION, 0.0)


def _bounces(t: float, x: Array) -> float:  # noqa: ARG001
    return float(x[0])


_bounces.terminal = True  # type: ignore[attr-defined]
_bounces.direction = -1.0  # type: ignore[attr-defined]


@cache
def ball_with_friction_end() -> float:
    def falls(t: float, x: Array) -> list[float]:  # noqa: ARG001
        return [x[1], -GRAVITY - FRICTION * abs(x[1]) * x[1]]

    t, x = 0.0, np.array([1.0, 5.0])
    while True:
        found = solve_ivp(
            falls, (t, 8.0), x, method="DOP853", rtol=1e-12, atol=1e-13, events=_bounces
        )
        if found.status == 0:
            return float(found.y[0, -1])
        t, x = float(found.t[-1]), np.array([0.0, -BOUNCE * found.y[1, -1]])


def ball_end() -> float:
    t, v = math.sqrt(2 * DROP / GRAVITY), math.sqrt(2 * DROP * GRAVITY)
    while True:
        v *= RESTITUTION
        if t + 2 * v / GRAVITY > 5.0:
            return v * (5.0 - t) - GRAVITY * (5.0 - t) ** 2 / 2
        t += 2 * v / GRAVITY


CASES = (
    Case("oscillator", ("PathSim",), oscillator, oscillator_end, "x", 25.0, 0.1),
    Case("oscillator", ("bdsim",), oscillator, oscillator_end, "x", 25.0, 0.02),
    Case(
        "PID loop", ("PathSim",), pid_loop, pid_end, "y", PID_UNTIL, 1.0,
        Adaptive(rtol=1e-7, atol=1e-10),
    ),
    Case(
        "PI loop", ("bdsim",), pi_loop, pi_end, "y", PI_UNTIL, 0.1,
        Adaptive(rtol=1e-11, atol=1e-13),
    ),
    Case(
        "ball with friction", ("PathSim",), ball_with_friction, ball_with_friction_end,
        "x", 8.0, 4.0, Adaptive(rtol=1e-3, atol=1e-5),
    ),
    Case("ball", ("bdsim",), ball, ball_end, "x", 5.0, 0.25, floor=1e-6),
)  # fmt: skip
