"""Small parts that the tests of the semantics are made of."""

from __future__ import annotations

from collections.abc import Callable

from rtsim.components.controller import PythonController
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model
from rtsim.record.reading import Recording

MS = 1_000_000
X, U = Signals("x [1]"), Signals(Signal("u", optional=True))


def integrate(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = u[0]


INTEGRATOR = Model("integrator", X, integrate, inputs=U)


def law_of(step: Callable[..., None], memory: str = "s [1]") -> PythonController:
    return PythonController(step, U, Signals("y [1]"), memory=Signals(memory))


def copy_input(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = u[0]


def count(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    s[0] += 1.0
    y[0] = s[0]


def add_one(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = u[0] + 1.0


def rows(recording: Recording, track: str) -> list[tuple[int, ...]]:
    """(ns, integers...) of each row."""
    found = recording.track(track).rows
    return [(int(ns), *map(int, ints)) for ns, ints in zip(found.ns, found.integers, strict=True)]
