"""Checks with which users verify their own models.

A failed check raises ``AssertionError`` with the found and the allowed value. ``chance`` is the
probability that a check of random outputs fails for a correct model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rtsim.core.errors import ScenarioError, ShapeError
from rtsim.core.estimates import Estimate, interval
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Duration, exact_seconds
from rtsim.record.reading import Recording
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

CHANCE = 1e-4
"""Default probability that a correct model fails a check of a random output."""


def check_mean(
    samples: ArrayLike, expected: float, *, chance: float = CHANCE, what: str = "the mean"
) -> Estimate:
    """Check that independent ``samples`` (n,) have the mean ``expected``.

    Return the estimated mean.

    The check is Student's t-test. For a correct model, the check fails with the probability
    ``chance``. For k checks of the same runs, divide ``chance`` by k. ``what`` describes the value
    in the message.
    """
    if not math.isfinite(expected):
        raise ScenarioError(
            f"{what} cannot be compared with {expected}; give a finite expected value"
        )
    found = interval(samples, 1.0 - chance)
    if expected not in found:
        off = (found.mean - expected) / expected if expected else found.mean
        raise AssertionError(
            f"{what} is {found.mean:.6g} ± {found.half_width:.2g} from {found.count} runs, but "
            f"expected {expected:.6g} ({off:+.2%}); a correct model fails this check about "
            f"once in {1.0 / chance:.3g} runs of the check"
        )
    return found


def check_analytic(
    recording: Recording,
    name: str,
    exact: Callable[[Vector], ArrayLike],
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
) -> float:
    """Check that a signal equals ``exact(t)`` in each row, and return the largest difference.

    ``name`` is ``"plant.signal"``. ``exact`` receives the times (n,) in s and returns the values
    (n,). Raises ``ScenarioError`` for a recording without rows, and if ``exact`` returns a value
    that is not finite.
    """
    _check_allowed(atol, rtol)
    owner, _, signal = name.rpartition(".")
    track = recording.track(owner)
    t = track.ns / NS_PER_S
    found, wanted = track.column(signal), np.asarray(exact(t), dtype=np.float64)
    if not len(found):
        raise ScenarioError(
            f"{name} has no rows to compare with the exact solution; run for longer"
        )
    if wanted.shape not in ((), found.shape):
        raise ShapeError(
            f"the exact solution has shape {wanted.shape}, but {name} has shape {found.shape}; "
            "return one value for each time"
        )
    wanted = np.broadcast_to(wanted, found.shape)
    odd = np.argwhere(~np.isfinite(wanted))
    if len(odd):
        at = tuple(odd[0])
        raise ScenarioError(
            f"the exact solution for {name} is {wanted[at]} at {t[at[0]]:.9g} s; return a finite "
            "value for every row, or end the run earlier"
        )
    error = np.abs(found - wanted)
    allowed = atol + rtol * np.abs(wanted)
    worst = np.unravel_index(int(np.argmax(error - allowed)), error.shape)
    if not error[worst] <= allowed[worst]:
        raise AssertionError(
            f"{name} is {found[worst]:.9g} at {t[worst[0]]:.9g} s, but the exact value is "
            f"{wanted[worst]:.9g}: the error is {error[worst]:.2g}, allowed {allowed[worst]:.2g}"
        )
    return float(error.max())


def _check_allowed(atol: float, rtol: float = 0.0) -> None:
    for name, value in (("atol", atol), ("rtol", rtol)):
        if not (math.isfinite(value) and value >= 0):
            raise ScenarioError(f"{name} = {value} is not valid; give a finite number >= 0")


def _apart(full: ArrayLike, simple: ArrayLike) -> Vector:
    a, b = (np.asarray(values, dtype=np.float64) for values in (full, simple))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(a == b, 0.0, np.abs(a - b)))


def order_of(errors: Sequence[float], steps: Sequence[float]) -> float:
    """Return the observed order of convergence, by a fit of log error over log step."""
    if len(errors) < 2 or len(errors) != len(steps):
        raise ScenarioError(
            f"got {len(errors)} errors for {len(steps)} steps; give one error for each step, and "
            "two or more steps"
        )
    if not all(s > 0 and math.isfinite(s) for s in steps) or len(set(steps)) < 2:
        raise ScenarioError(
            f"got steps {list(steps)}; give finite steps > 0 that are not all equal"
        )
    listed = ", ".join(f"{s:g} s: {e:.3g}" for s, e in zip(steps, errors, strict=True))
    if not all(math.isfinite(e) for e in errors):
        raise AssertionError(
            f"an error is not finite (errors {listed}), so the solution is unstable with that "
            "step; use smaller steps"
        )
    if not all(e > 0 for e in errors):
        raise AssertionError(
            f"an error is 0 (errors {listed}), so the order cannot be observed; use larger steps"
        )
    slope, _ = np.polyfit(np.log(steps), np.log(errors), 1)
    return float(slope)


def check_order(
    make: Callable[[Duration], Scenario],
    name: str,
    exact: float,
    steps: Sequence[Duration],
    order: float,
    *,
    within: float = 0.2,
    **options: Any,
) -> float:
    """Check the order of convergence of a signal's final value; return the observed order.

    ``name`` is ``"plant.signal"``. ``make(step)`` returns the scenario with the step ``step`` (s).
    ``exact`` is the exact final value. The observed order must be ``order`` ± ``within``.
    ``options`` are passed to :func:`rtsim.runs.simulation.simulate`.
    """
    ends = [float(trace_of(make(step), **options)[name][-1]) for step in steps]
    errors = [abs(end - exact) for end in ends]
    found = order_of(errors, [float(exact_seconds(step)) for step in steps])
    if not abs(found - order) <= within:
        listed = ", ".join(f"{s} s: {e:.2g}" for s, e in zip(steps, errors, strict=True))
        raise AssertionError(
            f"{name} converges with order {found:.2f}, expected {order:g} (errors {listed})"
        )
    return found


def check_degenerate(
    measure: Callable[..., float], cases: Sequence[tuple[Mapping[str, Any], float]], *, atol: float
) -> None:
    """Check that ``measure`` returns known outputs for extreme inputs.

    A case consists of inputs by name and the expected output. ``atol`` is the allowed difference.
    """
    _check_allowed(atol)
    if not cases:
        raise ScenarioError("no cases are given; give at least one pair (inputs, expected)")
    for inputs, expected in cases:
        found = measure(**inputs)
        if not _apart(found, expected) <= atol:
            given = ", ".join(f"{k} = {v}" for k, v in inputs.items())
            raise AssertionError(
                f"{given}: the function returned {found:.9g}, expected {expected:.9g} ± {atol:g}"
            )


def check_limit(
    full: ArrayLike, simple: ArrayLike, *, atol: float = 0.0, rtol: float = 0.0, what: str = "value"
) -> float:
    """Check that a model equals a simpler model under limiting conditions.

    ``full`` and ``simple`` (n,) are the outputs of both models. Random models must use the same
    random numbers. The largest difference is returned.
    """
    a, b = np.asarray(full, dtype=np.float64), np.asarray(simple, dtype=np.float64)
    if a.shape != b.shape:
        raise AssertionError(
            f"{what}: shape {a.shape} in the full model, {b.shape} in the simple model"
        )
    _check_allowed(atol, rtol)
    if not a.size:
        raise ScenarioError(f"{what}: there are no values to compare; give one or more values")
    error = _apart(a, b)
    finite = np.where(np.isfinite(b), np.abs(b), 0.0)
    excess = error - atol - rtol * finite
    worst = np.unravel_index(int(np.argmax(excess)), a.shape)
    if not excess[worst] <= 0.0:
        raise AssertionError(
            f"{what} {int(worst[0]) if worst else 0} is {a[worst]:.9g} in the full model, but "
            f"{b[worst]:.9g} in the simple model: the difference is {error[worst]:.2g}"
        )
    return float(error.max())
