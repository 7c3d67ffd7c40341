"""The tolerance for an end: found where solutions say enough, refused with a reason elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from numpy.typing import ArrayLike

from rtsim.core.errors import ModelError, RtsimError, ScenarioError, ShapeError
from rtsim.core.signals import Vector
from rtsim.solve import BS32, DP54, Adaptive, SciPy
from rtsim.testing.solvers import END_NS, propagate
from rtsim.testing.tolerances import FINEST, sufficient_tolerance

EXACT = np.array([2.0, -3.0])


def carried(tolerance: float) -> Vector:
    """Off by 5 tolerances, and by 100."""
    return EXACT + tolerance * np.array([5.0, -100.0])


def scripted(*errors: float) -> Callable[[float], float]:
    """Off by the next of ``errors`` each time, whatever the tolerance."""
    rest = iter(errors)
    return lambda _: next(rest)


# -- what is found ---------------------------------------------------------------------------------


def test_the_largest_tolerance_of_the_ladder_that_suffices() -> None:
    found = sufficient_tolerance(carried, atol=1.2e-4)
    assert found.tolerance == 1e-3 / 4**5  # off by 0.98e-4; the rung above is off by 3.9e-4
    assert found.end.tolist() == carried(found.tolerance).tolist()
    error = np.abs(found.end - EXACT)
    assert (error < found.off).all()
    assert (found.off < 1.2 * error).all()
    assert found.tried == tuple(1e-3 / 4**k for k in range(8))  # and not one more than it takes


def test_the_ladder_is_the_users() -> None:
    found = sufficient_tolerance(carried, atol=1.2e-4, start=1e-2, factor=10)
    assert found.tolerance == pytest.approx(1e-6)
    assert found.tried == pytest.approx([10.0**-k for k in range(2, 9)])
    to_the_last = sufficient_tolerance(carried, atol=0.02, factor=10, finest=1e-6)
    assert to_the_last.tried[-1] == 1e-6  # log10 of 1000 is less than 3 in floating point
    assert sufficient_tolerance(carried, atol=1.0, finest=1e-3 / 16).tolerance == 1e-3


def test_the_finest_is_one_that_scipy_takes() -> None:
    assert 100 * np.finfo(float).eps < FINEST < 110 * np.finfo(float).eps


@pytest.mark.parametrize(
    ("allowed", "tolerance"),
    [
        ({"atol": 1e-2}, 1e-3 / 4**2),  # of both: the second is off by 6.2e-3
        ({"atol": [1e-2, 1.0]}, 1e-3),  # one for each: off by 5e-3, by 0.1
        ({"rtol": 1e-2}, 1e-3 / 4),  # 0.03 of the second, off by 0.025
        ({"rtol": 1e-2, "atol": [0.0, 0.1]}, 1e-3),
    ],
)
def test_what_is_allowed_is_absolute_and_relative(
    allowed: dict[str, float], tolerance: float
) -> None:
    assert sufficient_tolerance(carried, **allowed).tolerance == tolerance


@pytest.mark.parametrize(
    "errors",
    [
        (10, 10, 0.01, 0.002, 0.001),  # the first two agree
        (0, 10, 0, 0.01, 0.001),  # the first is right, by accident
        (0, 0.9, -0.9, 0.01, 0.001),  # as far on both sides
        (10, 10, 10, 0.01, 0.002),  # three are the same: the tolerance had no effect yet
    ],
)
def test_an_accident_is_seen_through(errors: tuple[float, ...]) -> None:
    found = sufficient_tolerance(scripted(*errors, 0.0005), atol=1.0)
    assert found.tolerance == 1e-3 / 4 ** (3 if errors[2] == 10 else 2)


def test_a_state_that_the_next_run_overwrites_is_copied() -> None:
    state = np.zeros(2)

    def end(tolerance: float) -> Vector:
        state[:] = carried(tolerance)
        return state

    found = sufficient_tolerance(end, atol=1.2e-4)
    assert found.tolerance == 1e-3 / 4**5
    assert found.end.tolist() == carried(found.tolerance).tolist()


@pytest.mark.parametrize(
    "solver",
    [DP54, BS32, SciPy(method="DOP853"), SciPy(method="Radau"), SciPy(method="LSODA")],
    ids=lambda solver: solver.name,
)
def test_an_end_is_as_exact_as_was_asked(solver: Adaptive | SciPy) -> None:
    """x = t sin t, of which a solver knows nothing, by each of them."""

    def end(tolerance: float) -> Vector:
        return propagate(replace(solver, rtol=tolerance, atol=tolerance), steps=1)

    t = END_NS / 1e9
    exact = np.array([t * np.sin(t), np.sin(t) + t * np.cos(t)])
    found = sufficient_tolerance(end, atol=1e-5)
    assert (np.abs(found.end - exact) < 1e-5).all()


def test_what_is_off_by_just_what_is_allowed_suffices() -> None:
    found = sufficient_tolerance(scripted(3, 1, 1, 1, 1, 1), atol=2.0)
    assert (found.tolerance, found.off.tolist(), len(found.tried)) == (1e-3, [2.0], 3)
    with pytest.raises(FrozenInstanceError):
        found.tolerance = 1.0  # type: ignore[misc]


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finest", "do"),
    [(1e-6, "or give finest=2.3e-14"), (FINEST, "or use a solver of higher order")],
)
def test_where_no_rung_suffices_it_says_which_state_and_what_to_do(finest: float, do: str) -> None:
    noise = np.random.Generator(np.random.Philox(1))
    with pytest.raises(AssertionError) as refused:
        sufficient_tolerance(
            lambda _: EXACT + [0, 1e-3] * noise.standard_normal(2), atol=1e-6, finest=finest
        )
    said = str(refused.value)
    assert (
        f"at {1e-3 / 4**2 if finest == 1e-6 else 1e-3 / 4**15:.2g} the error of element 1 of the"
        in said
    )
    assert "final state is about 0.00" in said
    assert "only 1e-06 is allowed; allow a larger" in said
    assert do in said


def test_a_tolerance_that_has_no_effect_is_no_proof() -> None:
    with pytest.raises(ScenarioError, match=r"same bit for bit from 0.001 to .*rtol=tolerance"):
        sufficient_tolerance(lambda _: EXACT, atol=1.0)


@pytest.mark.parametrize(
    ("end", "error", "said"),
    [
        (lambda _: [1.0, np.nan], ModelError, r"with tolerance 0.001 is not finite.*start=0.00025"),
        (lambda _: [[1.0]], ShapeError, r"shape \(1, 1\); return a vector"),
        (lambda _: [], ShapeError, r"shape \(0,\)"),
        (
            lambda e: [0.0] * (2 if e < 1e-3 else 1),
            ShapeError,
            "2 elements with .* and 1 with another",
        ),
    ],
)
def test_an_end_that_is_none(
    end: Callable[[float], ArrayLike], error: type[RtsimError], said: str
) -> None:
    with pytest.raises(error, match=said):
        sufficient_tolerance(end, atol=1.0)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({}, "give the allowed error of the final state, such as atol=1e-6"),
        ({"atol": -1.0}, "atol = -1.0 and rtol = 0.0 are not valid; give the allowed"),
        ({"atol": 1.0, "rtol": np.nan}, "rtol = nan are not valid; give the allowed"),
        ({"atol": np.inf}, "give the allowed error"),
        ({"atol": [[1.0]]}, r"atol has shape \(1, 1\)"),
        (
            {"atol": [1.0, 1.0, 1.0]},
            "atol has 3 elements, but the final state has 2; give one number",
        ),
        (
            {"atol": 1.0, "factor": 2.9},
            "factor = 2.9 is too small; give the ratio of successive tolerances, 3 or more",
        ),
        ({"atol": 1.0, "factor": np.inf}, "factor = inf is too small; give the ratio"),
        ({"atol": 1.0, "start": 1e-14}, "give 0 < finest <= start"),
        ({"atol": 1.0, "start": np.inf}, "give 0 < finest <= start"),
        ({"atol": 1.0, "finest": 0.0}, "give 0 < finest <= start"),
        ({"atol": 1.0, "finest": 7e-5}, "give finest=6.25e-05 or less"),
        ({"atol": 1.0, "finest": 1e-3}, "at least 3 tolerances are needed, and this range has 1"),
    ],
)
def test_a_question_that_is_none(how: dict[str, float], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        sufficient_tolerance(carried, **how)
