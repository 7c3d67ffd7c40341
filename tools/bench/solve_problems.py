"""Problems on which solvers are compared: Lorenz, Arenstorf's orbit, the F-16 with its stick."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.equations.model import BoundModel, Model, bind
from rtsim.models.f16.plant import F16
from tools.bench.step import Flight

EARTH_MOON = 0.012277471
NONE = np.zeros(0)


def _lorenz(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 10.0 * (x[1] - x[0])
    dx[1] = x[0] * (28.0 - x[2]) - x[1]
    dx[2] = x[0] * x[1] - 8.0 / 3.0 * x[2]


def _lorenz_list(t: float, x: Any) -> list[float]:  # noqa: ARG001
    a, b, c = x
    return [10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c]


def _arenstorf(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    m, n = EARTH_MOON, 1.0 - EARTH_MOON
    near, far = (x[0] + m) ** 2 + x[1] ** 2, (x[0] - n) ** 2 + x[1] ** 2
    near, far = near * math.sqrt(near), far * math.sqrt(far)
    dx[0] = x[2]
    dx[1] = x[3]
    dx[2] = x[0] + 2.0 * x[3] - n * (x[0] + m) / near - m * (x[0] - n) / far
    dx[3] = x[1] - 2.0 * x[2] - n * x[1] / near - m * x[1] / far


def _arenstorf_list(t: float, x: Any) -> list[float]:  # noqa: ARG001
    q, r, v, w = x
    m, n = EARTH_MOON, 1.0 - EARTH_MOON
    near, far = (q + m) ** 2 + r**2, (q - n) ** 2 + r**2
    near, far = near * math.sqrt(near), far * math.sqrt(far)
    return [
        *(v, w),
        q + 2.0 * w - n * (q + m) / near - m * (q - n) / far,
        r - 2.0 * v - n * r / near - m * r / far,
    ]


LORENZ = Model("lorenz", Signals("x = 1", "y = 1", "z = 1"), _lorenz)
ARENSTORF = Model(
    "arenstorf",
    Signals("x = 0.994", "y", "u", Signal("v", initial=-2.00158510637908)),
    _arenstorf,
)


@dataclass(frozen=True)
class Problem:
    """A model with its start, and what SciPy is given: what its users would write."""

    name: str
    model: Model
    x: Vector
    u: Vector
    p: Vector
    end_s: float
    rtol: float
    written: Callable[[float, Any], Any] | None
    """For SciPy in plain Python; ``None``: the model's own."""
    times: float
    """How many times faster a compiled run has to be."""

    def bound(self, compile: bool) -> BoundModel:
        return bind(self.model, compile=compile, x=self.x, p=self.p, u=self.u)

    def scipys(self, compile: bool) -> Callable[[float, Any], Any]:
        """The derivative as SciPy calls it; compiled, it is the very function that rtsim calls."""
        if not compile and self.written is not None:
            return self.written
        call, u, p = self.bound(compile).derivative.call, self.u, self.p

        def slope(t: float, x: Vector) -> Vector:
            dx = np.empty(x.size)
            call(t, x, NONE, u, p, dx)
            return dx

        return slope

    @property
    def end_ns(self) -> int:
        return round(self.end_s * NS_PER_S)

    def exact(self) -> Vector:
        """By DOP853, as fine as it goes."""
        solved = solve_ivp(
            self.scipys(True), (0.0, self.end_ns / NS_PER_S), self.x, method="DOP853",
            rtol=1e-13, atol=1e-14,
        )  # fmt: skip
        end: Vector = solved.y[:, -1]
        return end


def problems(quick: bool) -> tuple[Problem, ...]:
    """Lorenz while a reference can be had, an orbit of Arenstorf's, and an F-16 with its stick."""
    flight = Flight.trimmed()
    u = flight.u + np.array([0.5, 0.5, 0.0, 0.0])
    short = 0.2 if quick else 1.0
    return (
        Problem("Lorenz", LORENZ, LORENZ.states.initial(), NONE, NONE, 15.0 * short, 1e-8,
                _lorenz_list, 50.0),
        Problem("Arenstorf", ARENSTORF, ARENSTORF.states.initial(), NONE, NONE,
                17.065216560157964 * short, 1e-8, _arenstorf_list, 50.0),
        Problem("F-16", F16, flight.x, u, flight.p, 20.0 * short, 1e-8, None, 20.0),
    )  # fmt: skip
