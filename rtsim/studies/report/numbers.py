"""Figures that the page computes from the results: quantiles, distributions, convergence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.core.estimates import LEVEL, Estimate
from rtsim.core.signals import Vector
from rtsim.studies.designs.base import Columns, Integers
from rtsim.studies.measures import margin_name
from rtsim.studies.rates import Share
from rtsim.studies.report.runs import Runs, Series, numbers, steps
from rtsim.studies.requirements import Requirement
from rtsim.studies.summary import quantiles

QUANTILES = (0.05, 0.5, 0.95)
_MOST_STEPS = 40
_MOST_VALUES = 8_000_000
"""Values of time histories that are in memory at a time: 64 MB."""


@dataclass(frozen=True)
class Quantile:
    """A quantile with its interval; without an interval, ``low`` and ``high`` are NaN."""

    at: float
    value: float
    low: float
    high: float


def quantiles_of(series: Series, name: str, level: float = LEVEL) -> list[Quantile]:
    """Return quantiles of the results, with intervals if all runs have the same weight.

    Infinite results count, so that a quantile or an end of its interval may be infinite; NaN is
    left out.  An end of an interval that too few runs determine is NaN.  The runs of a search have
    none.
    """
    values = numbers(series.columns[name])
    known = ~np.isnan(values)
    columns, values = series.kept(known), values[known]
    if not len(values) or not series.design.planned:
        return []
    weights = series.design.weights(columns)
    found = quantiles(values, weights)
    unknown = (math.nan, math.nan)
    ends = [_interval(values, at, level) if weights is None else unknown for at in QUANTILES]
    return [
        Quantile(at, float(value), *between)
        for at, value, between in zip(QUANTILES, found, ends, strict=True)
    ]


def _interval(values: Vector, at: float, level: float) -> tuple[float, float]:
    """Return the interval of a quantile between two order statistics, of any distribution."""
    from scipy.stats import quantile_test

    found: Any = quantile_test(values, p=at).confidence_interval(level)
    return float(found.low), float(found.high)


def infinite(runs: Runs, name: str) -> tuple[int, int]:
    """Return the number of runs with an infinite result, and of runs with a result."""
    values = numbers(runs.ended[name])
    return int(np.isinf(values).sum()), int((~np.isnan(values)).sum())


def distribution(series: Series, name: str, most: int) -> tuple[Vector, Vector]:
    """Return at most ``most`` points of the empirical distribution: values and shares (m,).

    Values that are infinite have their shares, but no points.  NaN is left out.
    """
    values = numbers(series.columns[name])
    known = ~np.isnan(values)
    weights = series.design.weights(series.kept(known))
    values = values[known]
    order = np.argsort(values, kind="stable")
    each = np.full(len(values), 1.0 / max(1, len(values))) if weights is None else weights[order]
    share, values = np.cumsum(each), values[order]
    finite = np.isfinite(values)
    values, share = values[finite], share[finite]
    if len(values) > most:
        rows = np.unique(np.linspace(0, len(values) - 1, most).astype(int))
        values, share = values[rows], share[rows]
    return values, share


@dataclass(frozen=True)
class Convergence:
    """Estimates with their intervals after ``runs`` (n,) runs."""

    title: str
    label: str
    runs: Integers
    value: Vector
    low: Vector
    high: Vector


def convergence(runs: Runs) -> list[Convergence]:
    """Return how the mean of each result, and each pass rate, converged.

    The intervals have the level of the study, which is corrected if the study may stop early.

    A design that chooses its runs together has no such estimates.
    """
    out = []
    for name in runs.plan.results:
        out += [_converged(f"mean of {name}", one, _mean(name, runs.level)) for one in runs.series]
    for required in runs.plan.job.required:
        title = f"pass rate of {required.name}"
        out += [_converged(title, one, _rate(required, runs.level)) for one in runs.series]
    return [one for one in out if len(one.runs) > 1]


def _mean(name: str, level: float) -> Callable[[Series], Estimate | None]:
    def estimate(series: Series) -> Estimate | None:
        return series.design.mean(*series.finite(name), level)

    return estimate


def _rate(required: Requirement, level: float) -> Callable[[Series], Share | None]:
    def estimate(series: Series) -> Share | None:
        met = numbers(series.columns[margin_name(required)]) >= 0.0
        return series.design.share(series.columns, met, level)

    return estimate


def _converged(
    title: str, series: Series, estimate: Callable[[Series], Estimate | Share | None]
) -> Convergence:
    order = series.design.order(series.columns)
    found: list[tuple[float, ...]] = []
    for count in steps(series.design, len(series), _MOST_STEPS):
        first = np.sort(order[:count])
        columns: Columns = {n: c[first] for n, c in series.columns.items()}
        one = estimate(Series(series.label, columns, series.where[first], series.design))
        if one is not None:
            value = one.share if isinstance(one, Share) else one.mean
            found.append((count, value, one.low, one.high))
    table = np.array(found, np.float64).reshape(-1, 4).T
    return Convergence(title, series.label, table[0].astype(np.int64), *table[1:])


@dataclass(frozen=True)
class Fan:
    """Quantiles of a signal over time, (points,) each, and the signal in single runs."""

    label: str
    low: Vector
    middle: Vector
    high: Vector
    count: Integers
    """Number of runs that have a value at each time."""


def fans(runs: Runs, signal: str, lines: Sequence[int]) -> tuple[list[Fan], list[Vector]]:
    """Return the fan of each series, and the histories (points,) of the runs at places ``lines``.

    The histories are read in blocks of times, so that the memory does not grow with the runs.
    """
    count, points = len(runs.ended["run"]), len(runs.plan.job.grid)
    width = max(1, _MOST_VALUES // max(1, count))
    parts = [[np.empty((4, 0))] for _ in runs.series]
    single = [[np.empty(0)] for _ in lines]
    for first in range(0, points, width):
        block = _block(runs, signal, slice(first, first + width))
        for out, series in zip(parts, runs.series, strict=True):
            out.append(np.stack([_across(series, column) for column in block[series.where].T], 1))
        for line, place in zip(single, lines, strict=True):
            line.append(block[place])
    found = [np.concatenate(out, axis=1) for out in parts]
    made = [
        Fan(one.label, rows[0], rows[1], rows[2], rows[3].astype(np.int64))
        for one, rows in zip(runs.series, found, strict=True)
    ]
    return made, [np.concatenate(line) for line in single]


def _block(runs: Runs, signal: str, times: slice) -> Vector:
    """Return a block of times (n, width) of all runs that came to their end, NaN where unknown."""
    known = runs.ended["run"]
    width = len(runs.plan.job.grid[times])
    out = np.full((len(known), width), np.nan)
    for numbers_, values in runs.folder.histories(signal):
        place = np.searchsorted(known, numbers_)
        there = (place < len(known)) & (known[np.minimum(place, len(known) - 1)] == numbers_)
        out[place[there]] = values[there, times]
    return out


def _across(series: Series, column: Vector) -> Vector:
    """Return quantiles 0.05, 0.5 and 0.95 over the runs (n,) at one time, and their number."""
    there = np.isfinite(column)
    if not there.any():
        return np.array([np.nan, np.nan, np.nan, 0.0])
    equal = series.design.weights(series.columns) is None
    weights = None if equal else series.design.weights(series.kept(there))
    return np.array([*quantiles(column[there], weights), there.sum()])
