"""Find the solver tolerance for an allowed error of the final state."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rtsim.core.errors import ModelError, ScenarioError, ShapeError
from rtsim.core.signals import Vector

RUNGS = 3
"""Number of successive tolerances in an estimate. Two could agree by chance, so it is 3."""

FINEST = 2.3e-14
"""Smallest relative tolerance of SciPy's solvers: 100 times the spacing of doubles at 1."""


@dataclass(frozen=True)
class Sufficient:
    """The largest tolerance with a sufficiently small error, and the results with it.

    ``end`` (n,) is the final state with this tolerance. ``off`` (n,) is the estimated error of the
    final state, in the units of the states. ``tried`` contains all tolerances of the search.
    """

    tolerance: float
    end: Vector
    off: Vector
    tried: tuple[float, ...]


def sufficient_tolerance(
    end: Callable[[float], ArrayLike],
    *,
    atol: ArrayLike = 0.0,
    rtol: float = 0.0,
    start: float = 1e-3,
    factor: float = 4.0,
    finest: float = FINEST,
) -> Sufficient:
    """Return the largest tolerance whose estimated final error is small enough.

    The allowed error is ``atol + rtol * abs(end)``. A tolerance limits the error of each step; the
    final error is about proportional to it. The function estimates the final error from solutions
    with smaller tolerances. For final states c, b and a with three successive tolerances, the
    estimated error of c is ``abs(c - a) + abs(b - a)``. An effect that all solutions miss, such as
    a short pulse, remains undetected.

    The source of the estimate (reintegration) is Shampine, Error Estimation and Control for ODEs,
    J. Sci. Comput. 25, 2005, p. 3. The source of the proportionality of error and tolerance is
    Higham, IMA J. Numer. Anal. 11, 1991, p. 457.

    Args:
        end: Function that solves with the given step tolerance, relative and absolute, and returns
            the final states (n,).
        atol: Allowed absolute error in the units of the states, as one number or (n,).
        rtol: Allowed relative error.
        start: Largest tolerance to try.
        factor: Ratio of successive tolerances.
        finest: Smallest tolerance to try.

    Raises:
        AssertionError: No tolerance suffices.
        ScenarioError: The tolerance has no effect, or an argument is not valid.
    """
    absolute = _allowed(atol, rtol)
    ladder = _ladder(start, factor, finest)
    ends: list[Vector] = []
    for tolerance in ladder:
        ends.append(_solved(end, tolerance, tolerance / factor))
        _check_sizes(ends, absolute)
        if len(ends) < RUNGS or _same(ends[-RUNGS:]):
            continue
        off, allowed = _judged(ends, absolute, rtol)
        if (off <= allowed).all():
            at = len(ends) - RUNGS
            return Sufficient(ladder[at], ends[at], off, ladder[: len(ends)])
    if _same(ends):
        raise ScenarioError(
            f"the tolerance has no effect: the final state is the same bit for bit from "
            f"{start:.3g} to {ladder[-1]:.3g}; pass the tolerance to the solver: "
            "Adaptive(rtol=tolerance, atol=tolerance)"
        )
    off, allowed = _judged(ends, absolute, rtol)
    worst = int(np.argmax(off - allowed))
    more = f"give finest={FINEST}" if finest > FINEST else "use a solver of higher order"
    raise AssertionError(
        f"no tolerance is sufficient: at {ladder[-RUNGS]:.2g} the error of element {worst} of "
        f"the final state is about {off[worst]:.2g}, but only {allowed[worst]:.2g} is allowed; "
        f"allow a larger error, or {more}"
    )


def _judged(ends: list[Vector], absolute: Vector, rtol: float) -> tuple[Vector, Vector]:
    coarse, near, fine = ends[-RUNGS:]
    off = np.abs(coarse - fine) + np.abs(near - fine)
    return off, absolute + rtol * np.abs(fine)


def _same(ends: list[Vector]) -> bool:
    return all((one == ends[0]).all() for one in ends)


def _check_sizes(ends: list[Vector], absolute: Vector) -> None:
    size, before = ends[-1].size, ends[0].size
    if size != before:
        raise ShapeError(
            f"the final state has {size} elements with one tolerance and {before} with another; "
            "return the same states each time"
        )
    if absolute.size not in (1, size):
        raise ShapeError(
            f"atol has {absolute.size} elements, but the final state has {size}; give one "
            "number for all elements, or one number for each"
        )


def _solved(end: Callable[[float], ArrayLike], tolerance: float, finer: float) -> Vector:
    out = np.array(end(tolerance), dtype=np.float64, ndmin=1)
    if out.ndim != 1 or not out.size:
        raise ShapeError(f"the final state has shape {out.shape}; return a vector (n,)")
    if not np.isfinite(out).all():
        raise ModelError(
            f"the final state with tolerance {tolerance:.3g} is not finite; start with a smaller "
            f"tolerance: start={finer:.3g}"
        )
    return out


def _allowed(atol: ArrayLike, rtol: float) -> Vector:
    absolute = np.array(atol, dtype=np.float64, ndmin=1)
    given = np.append(absolute, rtol)
    if not (np.isfinite(given).all() and (given >= 0).all() and given.any()):
        raise ScenarioError(
            f"atol = {atol!r} and rtol = {rtol!r} are not valid; give the allowed error of the "
            "final state, such as atol=1e-6 or rtol=1e-6"
        )
    if absolute.ndim != 1:
        raise ShapeError(
            f"atol has shape {absolute.shape}; give one number for all elements, or a vector of "
            "shape (n,)"
        )
    return absolute


def _ladder(start: float, factor: float, finest: float) -> tuple[float, ...]:
    if not (math.isfinite(factor) and factor >= 3):  # A smaller factor gives poor estimates.
        raise ScenarioError(
            f"factor = {factor} is too small; give the ratio of successive tolerances, 3 or more"
        )
    if not (math.isfinite(start) and 0 < finest <= start):
        raise ScenarioError(
            f"start = {start} and finest = {finest} are not valid; give 0 < finest <= start"
        )
    rungs = 1 + math.floor(math.log(start / finest, factor) + 1e-9)
    if rungs < RUNGS:
        raise ScenarioError(
            f"start = {start}, factor = {factor}, finest = {finest}: at least {RUNGS} "
            f"tolerances are needed, and this range has {rungs}; give "
            f"finest={start / factor**2:.10g} or less"
        )
    return tuple(start / factor**k for k in range(rungs))
