"""What every solver keeps, checked on one that anybody brings."""

from __future__ import annotations

import math

import numpy as np

from rtsim.model import Model, bind
from rtsim.signals import Signal, Signals, Vector
from rtsim.solve import Solver, Stepper


def _forced(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -x[0] + 2.0 * math.cos(t) - p[0] * (x[1] - math.sin(t) - t * math.cos(t))


FORCED = Model(
    name="forced oscillator",
    states=Signals(Signal("x", "m"), Signal("v", "m/s", derivative_of="x")),
    parameters=Signals("damping [1/s] = 0.3"),
    derivative=_forced,
)
"""x'' = -x + 2 cos t - c (x' - sin t - t cos t); exactly x = t sin t from rest: it depends on t,
x and x', so that a wrong node or weight shows."""

END_NS = 10_000_000_000
NONE = np.zeros(0)


def propagate(solver: Solver, steps: int, compile: bool = True) -> Vector:
    """``FORCED`` over 10 s in equal steps; (2,): x and v."""
    return _propagate(solver.stepper(bind(FORCED, compile=compile)), steps)


def _propagate(stepper: Stepper, steps: int) -> Vector:
    p = FORCED.parameters.initial()
    x = FORCED.states.initial()
    out = x.copy()
    for k in range(steps):
        stepper.advance(END_NS * k // steps, END_NS * (k + 1) // steps, x, NONE, NONE, p, out)
        stepper.accept()
        x, out = out, x
    return x


def convergence(solver: Solver, steps: tuple[int, int]) -> float:
    """The observed order: log2 of the ratio of the errors at the end."""
    t = END_NS / 1e9
    exact = np.array([t * math.sin(t), math.sin(t) + t * math.cos(t)])
    coarse, fine = (float(np.linalg.norm(propagate(solver, n) - exact)) for n in steps)
    return math.log(coarse / fine) / math.log(steps[1] / steps[0])


def check_solver(solver: Solver, *, compile: bool = True) -> None:
    """Assert the contract of :class:`rtsim.solve.base.Stepper`."""
    stepper = solver.stepper(bind(FORCED, compile=compile))
    p, x = FORCED.parameters.initial(), np.array([0.5, -0.25])
    before, out, again = x.copy(), np.full(2, np.nan), np.full(2, np.nan)

    def advance(to_ns: int, result: Vector) -> int:
        return stepper.advance(0, to_ns, x, NONE, NONE, p, result)

    assert advance(10_000_000, out) == -1, "a finite step answers -1"
    assert (x == before).all(), "x is not touched"
    assert advance(20_000_000, again) == -1, "a step may be thrown away and taken otherwise"
    assert (advance(10_000_000, again), again.tolist()) == (-1, out.tolist()), "bit for bit"
    saved = stepper.save()
    stepper.accept()
    stepper.forget()
    stepper.restore(saved)
    assert (advance(10_000_000, again), again.tolist()) == (-1, out.tolist()), "restored"
    small = 0.01 * np.array([x[1], -x[0] + 2.0 - 0.3 * x[1]])
    assert np.allclose(out - x, small, atol=2e-4), "goes along the derivative"
    x[0] = np.nan
    assert advance(10_000_000, out) in (0, 1), "what is not finite is named by its index"
