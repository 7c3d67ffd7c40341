"""Conformance checks for solvers, those of rtsim and your own."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Guard, Model, bind
from rtsim.solve import GOOD, Solver, Stepper
from rtsim.solve.adaptive import StepTolerance
from rtsim.testing.allocations import allocations
from rtsim.testing.pairs import Pair, check_pair, one_step, without_budget
from rtsim.testing.problems import END_NS, FORCED, NONE, exact

__all__ = [
    "END_NS", "FORCED", "NONE", "check_allocations", "check_contract", "check_memory",
    "check_order", "check_pair", "check_solver", "check_still", "check_tolerance", "convergence",
    "exact", "propagate",
]  # fmt: skip

_ROUNDING = 1e-10
"""Errors below this value may be rounding errors."""
_OFF = 0.1
"""Allowed difference between observed and declared order."""
TOLERANCES = (1e-4, 1e-6, 1e-8)
PER_TOLERANCE = 500


def propagate(solver: Solver, steps: int, compile: bool = True) -> Vector:
    """Solve ``FORCED`` over 10 s in equal steps; return x and v at the end (2,)."""
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


def convergence(solver: Solver, steps: tuple[int, int], compile: bool = True) -> float:
    """Return the observed order, from the final errors with two different numbers of ``steps``."""
    coarse, fine = (_off(solver, n, compile) for n in steps)
    return math.log(coarse / fine) / math.log(steps[1] / steps[0])


def _off(solver: Solver, steps: int, compile: bool) -> float:
    return float(np.linalg.norm(propagate(solver, steps, compile) - exact(END_NS / 1e9)))


def check_solver(solver: Solver, *, compile: bool = True) -> None:
    """Assert the contract of :class:`rtsim.solve.base.Stepper`, and the solver's declarations.

    The declared order is checked in equal steps. For an :class:`Adaptive` or :class:`Rosenbrock`
    solver, the embedded method and the tolerance are checked too. For another solver with a
    :class:`StepTolerance`, only the tolerance is checked.
    """
    check_contract(solver, compile=compile)
    check_memory(solver, compile=compile)
    if isinstance(solver, Pair):
        check_pair(solver)
        check_tolerance(without_budget(solver), compile=compile)
        check_order(one_step(solver), compile=compile)
    elif isinstance(solver, StepTolerance):
        check_tolerance(solver, compile=compile)
    else:
        check_order(solver, compile=compile)
    check_still(solver, compile=compile)
    if compile:
        check_allocations(solver)


def check_order(solver: Solver, *, compile: bool = True) -> None:
    """Assert the declared order on ``FORCED``, in steps whose errors exceed rounding errors."""
    found, steps = [_off(solver, 10, compile)], 10
    while steps < (5120 if compile else 1280):
        error = _off(solver, 2 * steps, compile)
        if not error > _ROUNDING:
            break
        found.append(error)
        steps *= 2
    assert len(found) > 1, (
        f"{solver.name}: the order cannot be observed, because errors {found} are rounding errors"
    )
    observed = math.log2(found[-2] / found[-1])
    assert abs(observed - solver.order) < _OFF, (
        f"{solver.name}: observed order {observed:.2f}, declared {solver.order}"
    )


def check_tolerance(solver: Solver, *, compile: bool = True) -> None:
    """Assert that the final error is proportional to the tolerance."""
    assert isinstance(solver, StepTolerance), f"{solver.name} has no tolerance"
    found = []
    for tolerance in TOLERANCES:
        tried: Any = replace(solver, rtol=tolerance, atol=tolerance)
        found.append(_off(tried, 1, compile))
        assert found[-1] < PER_TOLERANCE * tolerance, (
            f"{tried.name}: the error is {found[-1]:.2g} at a tolerance of {tolerance}; expected "
            f"less than {PER_TOLERANCE * tolerance:.2g}"
        )
    assert found[-1] < 0.01 * found[0], (
        f"{solver.name}: the errors {found} at tolerances {TOLERANCES} fall less than 100-fold"
    )


def _never(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] - 1e6


def _nothing(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
    pass


WATCHED = replace(FORCED, guards=(Guard("far"),), guard=_never, reset=_nothing)


def check_allocations(solver: Solver) -> None:
    """Assert that compiled steps with and without guards allocate no memory."""
    for model in (FORCED, WATCHED):
        found = allocations(solver, model)
        assert not found, f"{solver.name}: {found} allocations per step of {model.name}; expected 0"


def check_contract(solver: Solver, *, compile: bool = True) -> None:
    """Assert the contract of :class:`rtsim.solve.base.Stepper`."""
    stepper = solver.stepper(bind(FORCED, compile=compile))
    p, x = FORCED.parameters.initial(), np.array([0.5, -0.25])
    before, out, again = x.copy(), np.full(2, np.nan), np.full(2, np.nan)

    def advance(to_ns: int, result: Vector) -> int:
        return stepper.advance(0, to_ns, x, NONE, NONE, p, result)

    assert advance(10_000_000, out) == -1, "advance() must return -1 for a finite step"
    assert (x == before).all(), "advance() must not change x"
    assert advance(20_000_000, again) == -1, "a step that was not accepted must be repeatable"
    assert (advance(10_000_000, again), again.tolist()) == (-1, out.tolist()), (
        "a repeated step must be equal bit for bit"
    )
    saved = stepper.save()
    stepper.accept()
    stepper.forget()
    stepper.restore(saved)
    assert (advance(10_000_000, again), again.tolist()) == (-1, out.tolist()), (
        "after restore() the step must be the same"
    )
    small = 0.01 * np.array([x[1], -x[0] + 2.0 - 0.3 * x[1]])
    assert np.allclose(out - x, small, atol=2e-4), "a step must follow the derivative"
    x[0] = np.nan
    assert advance(10_000_000, out) in (0, 1), (
        "advance() must return the index of a state that is not finite"
    )


STILL = Model("still", Signals(Signal("x", initial=3.0), Signal("v", derivative_of="x")))
"""States without a derivative."""
STATELESS = Model("stateless")


def check_still(solver: Solver, *, compile: bool = True) -> None:
    """Assert that states without a derivative are constant, and that a model may have no states."""
    for model in (STILL, STATELESS):
        stepper = solver.stepper(bind(model, compile=compile))
        x, frame = model.states.initial(), getattr(stepper, "new_frame", None)
        for k in range(3):
            if frame is not None:
                frame()
            out = np.full(x.size, np.nan)
            answer = stepper.advance(k * 10**7, (k + 1) * 10**7, x, NONE, NONE, NONE, out)
            assert answer == GOOD, f"{solver.name}: advance() of model {model.name} gave {answer}"
            stepper.accept()
            assert out.tolist() == x.tolist(), "a state without a derivative must be constant"


def check_memory(solver: Solver, *, compile: bool = True) -> None:
    """Assert that a stepper's memory can be saved, and that ``forget`` discards it."""
    stepper = solver.stepper(bind(FORCED, compile=compile))
    frame = getattr(stepper, "new_frame", None)
    p, x = FORCED.parameters.initial(), np.array([0.5, -0.25])
    out, again = x.copy(), x.copy()
    for k in range(4):
        if frame is not None:
            frame()
        x[:], ends = out, (k * 10_000_000, (k + 1) * 10_000_000)
        assert stepper.advance(*ends, x, NONE, NONE, p, out) == GOOD
        stepper.accept()
    new = solver.stepper(bind(FORCED, compile=compile))
    new.restore(stepper.save())
    x[:] = out
    for to_ns in (50_000_000, 3_000_000_000):  # an equal step, then a long step
        answers = [
            s.advance(40_000_000, to_ns, x, NONE, NONE, p, o)
            for s, o in ((stepper, out), (new, again))
        ]
        assert answers[0] == answers[1]
        assert out.tolist() == again.tolist(), "a restored stepper must be equal bit for bit"
    ends = 40_000_000, 50_000_000
    x += [1.0, -2.0]
    stepper.forget()
    new = solver.stepper(bind(FORCED, compile=compile))
    assert stepper.advance(*ends, x, NONE, NONE, p, out) == GOOD
    assert new.advance(*ends, x, NONE, NONE, p, again) == GOOD
    assert np.allclose(out, again, rtol=0, atol=1e-7), (
        "after forget() a step must not depend on the steps before"
    )
