"""``Stepper.advance`` of compiled solvers: times that 64 bits round, and errors of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rtsim.core.signals import Signals, Vector
from rtsim.equations.compiling import CHECKED
from rtsim.equations.model import Model, bind
from rtsim.solve import solver_named
from rtsim.solve.resident import EXACT_NS


def clock(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """The end of a step has all bits of the time at its beginning."""
    dx[0] = t


def outside(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    place = 0
    while place < 1000 * u[0]:
        place += 1
    dx[place] = 1.0


def stepped(compile: Any, begin: int, end: int) -> float:
    model = Model("clock", Signals("x"), clock)
    vectors = [np.zeros(n) for n in (1, 0, 0, 0, 1)]
    stepper = solver_named("euler").stepper(bind(model, compile=compile))
    for _ in range(2):  # the second call finds the vectors of the first one
        stepper.advance(begin, end, *vectors)
    return float(vectors[-1][0])


@pytest.mark.parametrize("begin", [0, 3, EXACT_NS - 3, EXACT_NS + 1, EXACT_NS + 3, 2**60 + 129])
def test_a_compiled_step_divides_times_as_python_does(begin: int) -> None:
    for end in (begin + 1, begin + 5_000_001):
        assert stepped(True, begin, end) == stepped(False, begin, end)


def test_an_index_outside_its_array_is_raised_by_the_step() -> None:
    model = Model("outside", Signals("x"), outside, inputs=Signals("u"))
    stepper = solver_named("rk4").stepper(bind(model, compile=CHECKED))
    x, z, u, p, out = (np.zeros(n) for n in (1, 0, 1, 0, 1))
    assert stepper.advance(0, 10**9, x, z, u, p, out) == -1
    assert out[0] == pytest.approx(1.0)
    u[0] = 1.0
    for _ in range(2):
        with pytest.raises(IndexError):
            stepper.advance(0, 10**9, x, z, u, p, out)
