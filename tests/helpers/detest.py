# ruff: noqa: ARG001
"""DETEST: 30 non-stiff problems of six classes over 20 s, as models.

Source: Hull, Enright, Fellen, Sedgwick, SIAM J. Numer. Anal. 9, 1972, p. 603; class F and the
numbering: Enright, Pryce, ACM TOMS 13, 1987, p. 1 (algorithm 648).  Class F has discontinuities:
what differs between two of them is in z, so that an interval is smooth up to and with its end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rtsim.core.signals import Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Equation, Model

MASSES = (0.954786104043e-3, 0.285583733151e-3, 0.437273164546e-4, 0.517759138449e-4,
          0.277777777778e-5)  # fmt: skip
SUN, GRAVITY = 1.00000597682, 2.95912208286
DUFFING = 2.78535


@dataclass(frozen=True)
class Problem:
    """``model``, and where it is not smooth: z is ``branch(k)`` after k of ``tags`` (s)."""

    model: Model
    tags: tuple[int, ...] = ()
    branch: Callable[[int], float] | None = None


def _a1(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = -x[0]


def _a2(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = -(x[0] ** 3) / 2


def _a3(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[0] * math.cos(t)


def _a4(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[0] / 4 * (1 - x[0] / 20)


def _a5(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = (x[0] - t) / (x[0] + t)


def _b1(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = 2 * (x[0] - x[0] * x[1])
    dx[1] = -(x[1] - x[0] * x[1])


def _b2(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = -x[0] + x[1]
    dx[1] = x[0] - 2 * x[1] + x[2]
    dx[2] = x[1] - x[2]


def _b3(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = -x[0]
    dx[1] = x[0] - x[1] ** 2
    dx[2] = x[1] ** 2


def _b4(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    d = math.sqrt(x[0] ** 2 + x[1] ** 2)
    dx[0] = -x[1] - x[0] * x[2] / d
    dx[1] = x[0] - x[1] * x[2] / d
    dx[2] = x[0] / d


def _b5(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[1] * x[2]
    dx[1] = -x[0] * x[2]
    dx[2] = -0.51 * x[0] * x[1]


def _c1(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = -x[0]
    for i in range(1, 9):
        dx[i] = x[i - 1] - x[i]
    dx[9] = x[8]


def _c2(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = -x[0]
    for i in range(1, 9):
        dx[i] = i * x[i - 1] - (i + 1) * x[i]
    dx[9] = 9 * x[8]


def _c34(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    n = x.size
    dx[0] = -2 * x[0] + x[1]
    for i in range(1, n - 1):
        dx[i] = x[i - 1] - 2 * x[i] + x[i + 1]
    dx[n - 1] = x[n - 2] - 2 * x[n - 1]


@compiled
def _cubed(x: Vector, i: int, j: int) -> float:
    """The cubed distance from planet i to planet j, or to the sun with j = -1."""
    total = 0.0
    for axis in range(3):
        other = x[3 * j + axis] if j >= 0 else 0.0
        total += (other - x[3 * i + axis]) ** 2
    return total * math.sqrt(total)


def _c5(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    for i in range(5):
        sun = _cubed(x, i, -1)
        for axis in range(3):
            at = 3 * i + axis
            dx[at] = x[15 + at]
            pull = -(SUN + MASSES[i]) * x[at] / sun
            for j in range(5):
                if j != i:
                    there = x[3 * j + axis]
                    near = (there - x[at]) / _cubed(x, i, j)
                    pull += MASSES[j] * (near - there / _cubed(x, j, -1))
            dx[15 + at] = GRAVITY * pull


def _kepler(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    r = math.sqrt(x[0] ** 2 + x[1] ** 2)
    dx[0] = x[2]
    dx[1] = x[3]
    dx[2] = -x[0] / r**3
    dx[3] = -x[1] / r**3


def _e1(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[1]
    dx[1] = -(x[1] / (t + 1) + (1 - 0.25 / (t + 1) ** 2) * x[0])


def _e2(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[1]
    dx[1] = (1 - x[0] ** 2) * x[1] - x[0]


def _e3(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[1]
    dx[1] = x[0] ** 3 / 6 - x[0] + 2 * math.sin(DUFFING * t)


def _e4(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[1]
    dx[1] = 0.032 - 0.4 * x[1] ** 2


def _e5(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[1]
    dx[1] = math.sqrt(1 + x[1] ** 2) / (25 - t)


def _f1(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[1]
    dx[1] = 0.2 * x[1] - (math.pi**2 + 0.01) * x[0] + z[0]


def _f2(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = 55 - z[0] * x[0]


def _f3(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[1]
    dx[1] = 0.01 * x[1] * (1 - x[0] ** 2) - x[0] - z[0] * math.sin(math.pi * t)


def _f4(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    if z[0] == 0:
        dx[0] = -2 / 21 - 120 * (t - 5) / (1 + 4 * (t - 5) ** 2) ** 16
    else:
        dx[0] = -2 * x[0]


def _f5(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    rate, scale = 0.0, 0.0
    for i in range(1, 20):
        root = abs(t - i) ** (1 / 3)
        rate += root if i <= z[0] else -root
        scale += i ** (4 / 3)
    dx[0] = x[0] * 4 / (3 * scale) * rate


def _alternating(even: float, odd: float) -> Callable[[int], float]:
    return lambda k: odd if k % 2 else even


def _model(name: str, states: int, derivative: Equation, discrete: str = "") -> Model:
    names = Signals(*(f"y{i + 1}" for i in range(states)))
    return Model(name, names, derivative, discrete=Signals(discrete) if discrete else Signals())


SIZES = {"C1": 10, "C2": 10, "C3": 10, "C4": 51, "C5": 30, "B1": 2, "F2": 1, "F4": 1, "F5": 1}
BY_CLASS = {"A": 1, "B": 3, "D": 4, "E": 2, "F": 2}
EQUATIONS: dict[str, Equation] = {
    "A1": _a1,
    "A2": _a2,
    "A3": _a3,
    "A4": _a4,
    "A5": _a5,
    "B1": _b1,
    "B2": _b2,
    "B3": _b3,
    "B4": _b4,
    "B5": _b5,
    "C1": _c1,
    "C2": _c2,
    "C3": _c34,
    "C4": _c34,
    "C5": _c5,
    **{f"D{i}": _kepler for i in range(1, 6)},
    "E1": _e1,
    "E2": _e2,
    "E3": _e3,
    "E4": _e4,
    "E5": _e5,
    "F1": _f1,
    "F2": _f2,
    "F3": _f3,
    "F4": _f4,
    "F5": _f5,
}
WHOLE = tuple(range(1, 20))
TAGS: dict[str, tuple[tuple[int, ...], Callable[[int], float]]] = {
    "F1": (WHOLE, _alternating(1.0, -1.0)),
    "F2": (WHOLE, _alternating(1.5, 0.5)),
    "F3": (WHOLE, _alternating(1.0, -1.0)),
    "F4": ((10,), float),
    "F5": (WHOLE, float),
}


def _problem(name: str) -> Problem:
    tags, branch = TAGS.get(name, ((), None))
    size = SIZES.get(name, BY_CLASS.get(name[0], 0))
    return Problem(_model(name, size, EQUATIONS[name], "branch" if branch else ""), tags, branch)


PROBLEMS = {name: _problem(name) for name in EQUATIONS}


def intervals(problem: Problem, end: float) -> list[tuple[int, int, Vector]]:
    """From, to (ns) and z (d,) of each smooth piece."""
    edges = (0.0, *problem.tags, end)
    return [
        (
            round(a * 1e9),
            round(b * 1e9),
            np.array([problem.branch(k)]) if problem.branch else np.zeros(0),
        )
        for k, (a, b) in enumerate(itertools.pairwise(edges))
    ]
