"""Which tolerance does it take for an end that is off by so much at most?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rtsim.core.errors import ModelError, ScenarioError, ShapeError
from rtsim.core.signals import Vector

RUNGS = 3
"""A rung, and the two finer ones that say how far it is off: two alone may agree by accident."""

FINEST = 2.3e-14
"""SciPy's solvers take no finer relative tolerance than 100 times the spacing of doubles at 1."""


@dataclass(frozen=True)
class Sufficient:
    """The largest ``tolerance`` of the ladder that suffices.

    ``end`` (n,) is the solution with it and ``off`` (n,) the estimate of its error, both in the
    states' units; ``tried`` are all tolerances solved with, the last two finer than ``tolerance``.
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
    """The largest tolerance whose end is off by ``atol + rtol * abs(end)`` at most, by estimate.

    ``end(tolerance)`` solves with that tolerance of a step, relative and absolute, and returns
    the states at the end (n,).  ``atol`` is in the states' units, one for all or (n,).  Tolerances
    tried are ``start``, ``start / factor``, ... down to ``finest``.

    A tolerance bounds the error of a step; that of the end falls in proportion to it, so that
    solutions with finer ones say how far off a coarse one is.  Off by: what the next rung
    but one differs by, and what the next differs from that; where two agree by accident, the third
    says so.  What no rung sees, such as a short pulse between two steps, stays unseen.

    :class:`AssertionError` where no rung suffices; :class:`~rtsim.core.errors.ScenarioError`
    where the tolerance has no effect.  Source: reintegration, Shampine, Error Estimation and
    Control for ODEs, J. Sci. Comput. 25, 2005, p. 3; proportionality, Higham, IMA J. Numer. Anal.
    11, 1991, p. 457.
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
            f"the end is the same to the bit at each tolerance from {start:.3g} to "
            f"{ladder[-1]:.3g}; pass the tolerance to the solver: Adaptive(rtol=tolerance, "
            "atol=tolerance)"
        )
    off, allowed = _judged(ends, absolute, rtol)
    worst = int(np.argmax(off - allowed))
    more = f"go on with finest={FINEST}" if finest > FINEST else "take a solver of higher order"
    raise AssertionError(
        f"no tolerance suffices: at {ladder[-RUNGS]:.2g} element {worst} of the end is off by "
        f"about {off[worst]:.2g}, allowed {allowed[worst]:.2g}; allow more, or {more}"
    )


def _judged(ends: list[Vector], absolute: Vector, rtol: float) -> tuple[Vector, Vector]:
    """How far the third last is off, and what is allowed, (n,) each."""
    coarse, near, fine = ends[-RUNGS:]
    off = np.abs(coarse - fine) + np.abs(near - fine)
    return off, absolute + rtol * np.abs(fine)


def _same(ends: list[Vector]) -> bool:
    return all((one == ends[0]).all() for one in ends)


def _check_sizes(ends: list[Vector], absolute: Vector) -> None:
    size, before = ends[-1].size, ends[0].size
    if size != before:
        raise ShapeError(
            f"the end has {size} elements at one tolerance and {before} at another; return the "
            "same states each time"
        )
    if absolute.size not in (1, size):
        raise ShapeError(
            f"atol has {absolute.size} elements and the end {size}; give one for all, or one for "
            "each"
        )


def _solved(end: Callable[[float], ArrayLike], tolerance: float, finer: float) -> Vector:
    """A copy: a plant's state is overwritten by the next run."""
    out = np.array(end(tolerance), dtype=np.float64, ndmin=1)
    if out.ndim != 1 or not out.size:
        raise ShapeError(f"the end has the shape {out.shape}; return the states at the end (n,)")
    if not np.isfinite(out).all():
        raise ModelError(
            f"the end at tolerance {tolerance:.3g} is not finite; begin finer: start={finer:.3g}"
        )
    return out


def _allowed(atol: ArrayLike, rtol: float) -> Vector:
    """``atol``, (1,) or (n,)."""
    absolute = np.array(atol, dtype=np.float64, ndmin=1)
    given = np.append(absolute, rtol)
    if not (np.isfinite(given).all() and (given >= 0).all() and given.any()):
        raise ScenarioError(
            f"atol = {atol!r}, rtol = {rtol!r}; say how far the end may be off: atol=1e-6, or rtol="
        )
    if absolute.ndim != 1:
        raise ShapeError(f"atol has the shape {absolute.shape}; give one for all, or (n,)")
    return absolute


def _ladder(start: float, factor: float, finest: float) -> tuple[float, ...]:
    """From ``start`` down to ``finest``; nearer ones say too little of each other."""
    if not (math.isfinite(factor) and factor >= 3):
        raise ScenarioError(f"factor = {factor}; give 3 or more, by which each rung is finer")
    if not (math.isfinite(start) and 0 < finest <= start):
        raise ScenarioError(f"start = {start}, finest = {finest}; give 0 < finest <= start")
    rungs = 1 + math.floor(math.log(start / finest, factor) + 1e-9)
    if rungs < RUNGS:
        raise ScenarioError(
            f"start = {start}, factor = {factor}, finest = {finest}: the first rung is "
            f"judged by two finer ones; give finest={start / factor**2:.10g} or less"
        )
    return tuple(start / factor**k for k in range(rungs))
