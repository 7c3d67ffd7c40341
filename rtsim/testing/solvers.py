"""Conformance checks for solvers of rtsim and of users."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.components.plant import RunningPlant
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S, Period
from rtsim.equations.model import Guard, Model, bind
from rtsim.equations.numba_private import counting_allocations
from rtsim.solve import GOOD, Adaptive, Rosenbrock, Solver, Stepper
from rtsim.solve.adaptive import StepTolerance
from rtsim.solve.internal_steps import within

# Memory allocations per compiled step, which must be 0 for real time.

STEP = Period.of("1/100")
FEW, MANY = 11, 51


def allocations(solver: Solver, model: Model) -> float | None:
    """Return the number of memory allocations in a compiled step of 10 ms.

    The function compares calls with few and many steps, because the call itself also allocates
    memory. Allocations in numpy do not count. The result is ``None`` for a solver without compiled
    steps.
    """
    signals = (model.states, model.discrete, model.inputs, model.parameters)
    x, z, u, p = (s.initial() for s in signals)
    plant = RunningPlant("plant", bind(model), solver, STEP, (x, z, u, p))
    if plant.watch is not None:
        plant.watch.begin()
    with counting_allocations() as count:
        found = []
        for steps in (FEW, FEW, MANY):  # Only the first call allocates memory for its setup.
            before = count()
            taken = plant.take_steps(plant.ns + steps * STEP.tick(1))
            if taken is None or len(taken[1]) < steps - 1:
                return None
            found.append(count() - before)
    return float((found[2] - found[1]) / (MANY - FEW))


def forced(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -x[0] + 2.0 * math.cos(t) - p[0] * (x[1] - math.sin(t) - t * math.cos(t))


FORCED = Model(
    name="forced oscillator",
    states=Signals(Signal("x", "m"), Signal("v", "m/s", derivative_of="x")),
    parameters=Signals("damping [1/s] = 0.3"),
    derivative=forced,
)
"""Equation x'' = -x + 2 cos t - c (x' - sin t - t cos t). From rest, its solution is x = t sin t.

The equation depends on t, x and x', so that every wrong node or weight of a solver changes the
solution.
"""
END_NS = 10_000_000_000
NONE = np.zeros(0)


def exact(t: float, from_s: float = 0.0, x: Vector | None = None) -> Vector:
    """Return the exact solution (2,) of ``FORCED`` at ``t`` s.

    ``x`` (2,) is the state at ``from_s`` s. By default, the motion begins at rest.
    """
    now = np.array([t * math.sin(t), math.sin(t) + t * math.cos(t)])
    if x is None:
        return now
    half = FORCED.parameters.initial()[0] / 2
    # The solution minus t sin t is a damped oscillation.
    away, speed = x - exact(from_s)
    rate, since = math.sqrt(1 - half**2), t - from_s
    c, s = math.cos(rate * since), math.sin(rate * since)
    other = (speed + half * away) / rate
    off = away * c + other * s
    slope = rate * (other * c - away * s) - half * off
    return now + math.exp(-half * since) * np.array([off, slope])


Pair = Adaptive | Rosenbrock
"""Solver with an embedded method and dense output."""
FROM_S, START = 1.0, np.array([0.5, -0.25])
PARTS = (0.1, 0.25, 0.5, 0.75, 0.9)
_FLOOR = 1e-11
_PAIR_OFF = 0.25


def without_budget(pair: Pair) -> Pair:
    return replace(pair, budget=None) if isinstance(pair, Adaptive) else pair


def one_step(pair: Pair) -> Pair:
    """Return a copy of ``pair`` that takes one step in each ``advance``."""
    limits: dict[str, float] = {"least": 0.0, "most": math.inf, "safety": 0.9}
    out: Pair = replace(without_budget(pair), rtol=1e9, atol=1e9, first=1e9, **limits)  # type: ignore[arg-type]
    return out


def check_pair(pair: Pair) -> None:
    """Assert that a method has the properties that its tableau declares."""
    table = pair.tableau
    observed = exponent(lambda h: off(_step(pair, h)[1], h))
    assert abs(observed - table.order - 1) < _PAIR_OFF, (
        f"{table.name}: the error of a step falls with h^{observed:.2f}; expected "
        f"h^{table.order + 1} for the declared order {table.order}"
    )
    observed = exponent(lambda h: float(np.linalg.norm(_estimate(pair, h))))
    assert abs(observed - table.lower - 1) < _PAIR_OFF, (
        f"{table.name}: the error estimate falls with h^{observed:.2f}; expected "
        f"h^{table.lower + 1} for the declared order {table.lower} of the embedded method"
    )
    _check_dense(pair)
    if table.first_same_as_last:
        _check_same_as_last(pair)


def exponent(error: Callable[[float], float]) -> float:
    """Return the exponent p for which ``error(h)`` is proportional to ``h**p``.

    The smallest h whose error exceeds rounding errors is used.
    """
    found: list[float] = []
    for k in range(8):
        value = error(0.5**k)
        if not value > _FLOOR:
            break
        found.append(value)
    assert len(found) > 1, (
        f"the order cannot be observed, because the errors {found} from h = 1 s on are too small"
    )
    return math.log2(found[-2] / found[-1])


def off(y: Vector, h: float) -> float:
    """Return the distance of ``y`` (2,) from the exact solution at ``h`` s."""
    return float(np.linalg.norm(y - exact(FROM_S + h, FROM_S, START)))


def _step(pair: Pair, h: float) -> tuple[Vector, Vector, NDArray[np.float64]]:
    stepper: Any = one_step(pair).stepper(bind(FORCED, compile=False))
    out, p = np.zeros(2), FORCED.parameters.initial()
    internal = stepper.internal_steps(START, NONE, NONE, p, out)
    ends = round(FROM_S * NS_PER_S), round((FROM_S + h) * NS_PER_S)
    assert stepper.advance(*ends, START, NONE, NONE, p, out) == GOOD
    return internal.k, out, internal.dense


def _estimate(pair: Pair, h: float) -> Vector:
    weights: Vector = pair.tableau.error_weights
    return h * (weights @ _step(pair, h)[0])


def _check_dense(pair: Pair) -> None:
    table, y = pair.tableau, np.zeros(2)
    for h in (1.0, 0.1):
        k, end, dense = _step(pair, h)
        for part, there in ((0.0, START), (1.0, end)):
            within(y, START, k, dense, part, h)
            assert np.allclose(y, there, rtol=0, atol=1e-12), (
                f"{table.name}: the dense output differs from the states at the ends of a step"
            )
    for part in PARTS:

        def error(h: float, part: float = part) -> float:
            k, _, dense = _step(pair, h)
            within(y, START, k, dense, part, h)
            return off(y, part * h)

        observed = exponent(error)
        assert observed > table.order - _PAIR_OFF, (
            f"{table.name}: at {part} of a step the error of the dense output falls with "
            f"h^{observed:.2f}; guards need h^{table.order}"
        )


def _check_same_as_last(pair: Pair) -> None:
    calls, stages = 0, len(pair.tableau.b)

    def counted(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
        nonlocal calls
        calls += 1
        forced(t, x, z, u, p, dx)

    model = Model("counted", FORCED.states, counted, parameters=FORCED.parameters)
    p, step_ns = FORCED.parameters.initial(), 125_000_000
    ends, seen = [], []
    for forgetful in (False, True):
        stepper = one_step(pair).stepper(bind(model, compile=False))
        x, out = START.copy(), np.zeros(2)
        for k in range(3):
            if forgetful:
                stepper.forget()
            calls = 0
            ends_ns = k * step_ns, (k + 1) * step_ns
            assert stepper.advance(*ends_ns, x, NONE, NONE, p, out) == GOOD
            stepper.accept()
            seen.append(calls)
            x[:] = out
        ends.append(x)
    assert seen == [stages, stages - 1, stages - 1, *(3 * [stages])], (
        f"{pair.name}: {seen} evaluations in three steps and in three steps after forget(); "
        f"expected {stages - 1} where the last stage is reused, {stages} in all other steps"
    )
    assert np.allclose(ends[0], ends[1], rtol=0, atol=1e-13), (
        f"{pair.name}: the reused stage is not the derivative at the end of the last step"
    )


__all__ = [
    "END_NS", "FORCED", "NONE", "check_allocations", "check_contract", "check_memory",
    "check_order", "check_pair", "check_solver", "check_still", "check_tolerance", "convergence",
    "exact", "propagate",
]  # fmt: skip

_ROUNDING = 1e-10
_OFF = 0.1
TOLERANCES = (1e-4, 1e-6, 1e-8)
PER_TOLERANCE = 500


def propagate(solver: Solver, steps: int, compile: bool = True) -> Vector:
    """Solve ``FORCED`` over 10 s in equal steps, and return the final x and v."""
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
    """Return the observed order of convergence, from two different numbers of ``steps``."""
    coarse, fine = (_off(solver, n, compile) for n in steps)
    return math.log(coarse / fine) / math.log(steps[1] / steps[0])


def _off(solver: Solver, steps: int, compile: bool) -> float:
    return float(np.linalg.norm(propagate(solver, steps, compile) - exact(END_NS / 1e9)))


def check_solver(solver: Solver, *, compile: bool = True) -> None:
    """Check that a solver obeys the rules of ``rtsim.solve.base.Stepper``.

    The observed order, with steps of equal length, must be the declared order. For an
    :class:`Adaptive` or :class:`Rosenbrock` solver, the embedded method and the tolerance are
    checked too. For other solvers with a :class:`StepTolerance`, the tolerance is checked instead
    of the order.
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
    """Assert the declared order of convergence for ``FORCED``."""
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
    """Assert that the final error is about proportional to the tolerance."""
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
    """Assert that compiled steps allocate no memory."""
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
STATELESS = Model("stateless")


def check_still(solver: Solver, *, compile: bool = True) -> None:
    """Assert that states without a derivative stay constant."""
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
    """Assert that a stepper's memory can be saved, and that ``forget`` clears it."""
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
    for to_ns in (50_000_000, 3_000_000_000):
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
