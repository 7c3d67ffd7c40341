"""Is the model what it was meant to be?  Checks that users call on their own models.

Each raises :class:`AssertionError` with what was found and what was allowed.  A check of a random
output says beforehand how often it fails by chance where nothing is wrong.
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
"""How often a right model fails a check of a random output."""


def check_mean(
    samples: ArrayLike, expected: float, *, chance: float = CHANCE, what: str = "the mean"
) -> Estimate:
    """Independent ``samples`` (n,) have the mean ``expected``, by Student's t-test.

    A right model fails with probability ``chance``; several checks of one run share it among them.
    """
    if not math.isfinite(expected):
        raise ScenarioError(f"{what} cannot be held against {expected}; give a finite number")
    found = interval(samples, 1.0 - chance)
    if expected not in found:
        off = (found.mean - expected) / expected if expected else found.mean
        raise AssertionError(
            f"{what} is {found.mean:.6g} ± {found.half_width:.2g} from {found.count} runs, and "
            f"{expected:.6g} is outside ({off:+.2%}): a right model comes to that once in "
            f"{1.0 / chance:.3g} checks"
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
    """``"plant.signal"`` is ``exact(t)`` at every row, t in s; returns the largest difference.

    Raises :class:`ScenarioError` where that cannot be decided: without rows, or where the exact
    solution is not finite at one of them.
    """
    _check_allowed(atol, rtol)
    rows = recording.rows(name.rpartition(".")[0])
    t = rows.ns / NS_PER_S
    found, wanted = recording[name], np.asarray(exact(t), dtype=np.float64)
    if not len(found):
        raise ScenarioError(f"{name} has no rows to hold against the exact solution; run longer")
    if wanted.shape not in ((), found.shape):
        raise ShapeError(
            f"the exact solution has the shape {wanted.shape}, and {name} {found.shape}; return "
            "one value for each time"
        )
    wanted = np.broadcast_to(wanted, found.shape)
    odd = np.argwhere(~np.isfinite(wanted))
    if len(odd):
        at = tuple(odd[0])
        raise ScenarioError(
            f"the exact solution is {wanted[at]} at {t[at[0]]:.9g} s, which no value of {name} can "
            "be held against; give one that is finite at every row, or end the run before that"
        )
    error = np.abs(found - wanted)
    allowed = atol + rtol * np.abs(wanted)
    worst = np.unravel_index(int(np.argmax(error - allowed)), error.shape)
    if not error[worst] <= allowed[worst]:
        raise AssertionError(
            f"{name} is {found[worst]:.9g} at {t[worst[0]]:.9g} s, and exactly "
            f"{wanted[worst]:.9g}: off by {error[worst]:.2g}, allowed {allowed[worst]:.2g}"
        )
    return float(error.max())


def _check_allowed(atol: float, rtol: float = 0.0) -> None:
    """A tolerance that is infinite would pass anything, and one that is NaN nothing."""
    for name, value in (("atol", atol), ("rtol", rtol)):
        if not (math.isfinite(value) and value >= 0):
            raise ScenarioError(f"{name} = {value}; give a finite number >= 0")


def _apart(full: ArrayLike, simple: ArrayLike) -> Vector:
    """How far the two are from each other; an infinity is no distance from itself."""
    a, b = (np.asarray(values, dtype=np.float64) for values in (full, simple))
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(a == b, 0.0, np.abs(a - b)))


def order_of(errors: Sequence[float], steps: Sequence[float]) -> float:
    """The observed order: the slope of log error over log step, by least squares."""
    if len(errors) < 2 or len(errors) != len(steps):
        raise ScenarioError(f"{len(errors)} errors of {len(steps)} steps; give two or more of each")
    if not all(s > 0 and math.isfinite(s) for s in steps) or len(set(steps)) < 2:
        raise ScenarioError(f"steps {list(steps)}; give finite steps > 0 that are not all the same")
    listed = ", ".join(f"{s:g} s: {e:.3g}" for s, e in zip(steps, errors, strict=True))
    if not all(math.isfinite(e) for e in errors):
        raise AssertionError(
            f"an error is not finite (errors {listed}): the solution does not stay bounded with "
            "such a step, take smaller steps"
        )
    if not all(e > 0 for e in errors):
        raise AssertionError(
            f"an error is not above 0 (errors {listed}): nothing is left to converge, take larger "
            "steps"
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
    """The error of ``"plant.signal"`` at the end falls with the step as it should.

    ``make(step)`` is the scenario with that step (s); returns the observed order.
    """
    ends = [float(trace_of(make(step), **options)[name][-1]) for step in steps]
    errors = [abs(end - exact) for end in ends]
    found = order_of(errors, [float(exact_seconds(step)) for step in steps])
    if not abs(found - order) <= within:
        listed = ", ".join(f"{s} s: {e:.2g}" for s, e in zip(steps, errors, strict=True))
        raise AssertionError(
            f"{name} converges with order {found:.2f}, not {order:g} (errors {listed})"
        )
    return found


def check_degenerate(
    measure: Callable[..., float], cases: Sequence[tuple[Mapping[str, Any], float]], *, atol: float
) -> None:
    """Extreme inputs have the outputs that everybody can foretell: nothing in, nothing out."""
    _check_allowed(atol)
    if not cases:
        raise ScenarioError("no cases compare nothing; give one or more of (inputs, expected)")
    for inputs, expected in cases:
        found = measure(**inputs)
        if not _apart(found, expected) <= atol:
            given = ", ".join(f"{k} = {v}" for k, v in inputs.items())
            raise AssertionError(f"{given}: {found:.9g}, expected {expected:.9g} ± {atol:g}")


def check_limit(
    full: ArrayLike, simple: ArrayLike, *, atol: float = 0.0, rtol: float = 0.0, what: str = "value"
) -> float:
    """A model under limiting conditions is its simpler counterpart; returns the difference.

    Both (n,), of the same random numbers where there are any: streams of the same names.
    """
    a, b = np.asarray(full, dtype=np.float64), np.asarray(simple, dtype=np.float64)
    if a.shape != b.shape:
        raise AssertionError(f"{what}: shape {a.shape} in full, {b.shape} in the simple model")
    _check_allowed(atol, rtol)
    if not a.size:
        raise ScenarioError(f"{what}: no values to compare; give one or more")
    error = _apart(a, b)
    finite = np.where(np.isfinite(b), np.abs(b), 0.0)
    excess = error - atol - rtol * finite
    worst = np.unravel_index(int(np.argmax(excess)), a.shape)
    if not excess[worst] <= 0.0:
        raise AssertionError(
            f"{what} {int(worst[0]) if worst else 0} is {a[worst]:.9g} in full and {b[worst]:.9g} "
            f"in the simple model: off by {error[worst]:.2g}"
        )
    return float(error.max())
