"""Numbers for the report on a study: quantiles, distributions, convergence and ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.estimates import LEVEL, Estimate
from rtsim.core.signals import Vector
from rtsim.studies.designs import Design
from rtsim.studies.designs.base import Columns, Integers, Marks, Share
from rtsim.studies.folder import Folder
from rtsim.studies.measures import OK, Limit, Required, decided, margin_name
from rtsim.studies.summary import quantiles, summarise


@dataclass(frozen=True)
class Series:
    """Completed runs that form one series of a plot."""

    label: str
    columns: Columns
    """Numbers, results, margins and marks of these runs, each (n,)."""
    where: Integers
    """Indices (n,) of these runs among all completed runs."""
    design: Design

    def __len__(self) -> int:
        return len(self.where)

    def kept(self, which: Marks) -> Columns:
        return {name: column[which] for name, column in self.columns.items()}

    def finite(self, name: str) -> tuple[Columns, Vector]:
        """Return columns and results (m,) of the runs with a finite result."""
        values = numbers(self.columns[name])
        finite = np.isfinite(values)
        return self.kept(finite), values[finite]


class Runs:
    def __init__(self, folder: Folder) -> None:
        self.folder, self.plan = folder, folder.plan
        self.found = summarise(folder)
        names = ["run", "state", "cause", *self.plan.results, *self.plan.margins]
        first = self.plan.example
        table = folder.table(*names, *first.marks, *first.values)
        self.columns: dict[str, Any] = {n: np.asarray(table[n]) for n in table.column_names}
        ended = decided(self.columns["state"])
        self.ended = {name: column[ended] for name, column in self.columns.items()}

    @property
    def level(self) -> float:
        return self.plan.level

    @property
    def percent(self) -> str:
        return f"{100.0 * self.level:.4g} %"

    @cached_property
    def factors(self) -> list[str]:
        return list(self.plan.example.values)

    @cached_property
    def series(self) -> list[Series]:
        plan, design = self.plan, self.plan.sampled
        names = ("run", *plan.example.marks, *plan.results, *plan.margins)
        return [
            Series(label, {n: self.ended[n][which] for n in names}, np.flatnonzero(which), design)
            for label, which in design.series(self.ended).items()
        ]

    @cached_property
    def missed(self) -> Marks:
        """Mask (n,) of the completed runs that violate a requirement."""
        out = np.zeros(len(self.ended["run"]), np.bool_)
        for one in self.plan.job.required:
            margins = numbers(self.ended[margin_name(one)])
            # The negation is True for NaN, which is an undecided requirement or a missed limit.
            out |= ~(margins >= 0.0) if isinstance(one, Limit) else margins < 0.0
        return out

    def worst(self, most: int) -> list[Worst]:
        """Return at most ``most`` runs with the smallest margins.

        To compare different requirements, each margin is divided by its standard deviation over the
        runs. A margin that is NaN comes first.
        """
        required = self.plan.job.required
        if not required or not len(self.ended["run"]):
            return []
        margins = np.stack([numbers(self.ended[margin_name(one)]) for one in required])
        scaled = np.stack([_scaled(row) for row in margins])
        least = scaled.argmin(axis=0)
        order = np.argsort(scaled.min(axis=0), kind="stable")[:most]
        return [
            Worst(int(k), int(self.ended["run"][k]), required[least[k]].name, margins[least[k], k])
            for k in order
        ]

    def causes(self) -> list[tuple[str, str, int, int]]:
        """Return why runs lack results, with the most frequent causes first.

        An entry contains the state, the cause, the number of runs and the first run.
        """
        counts: dict[tuple[str, str], list[int]] = {}
        columns = (self.columns[name] for name in ("run", "state", "cause"))
        for run, state, cause in zip(*columns, strict=True):
            if state != OK:
                counts.setdefault((state, cause or ""), []).append(int(run))
        rows = [(*key, len(runs), runs[0]) for key, runs in counts.items()]
        return sorted(rows, key=lambda row: (-row[2], row[3]))


@dataclass(frozen=True)
class Worst:
    place: int
    """Index of the run among all completed runs."""
    run: int
    requirement: str
    margin: float


def numbers(column: NDArray[Any]) -> Vector:
    return np.asarray(column, dtype=np.float64)


def _scaled(margins: Vector) -> Vector:
    finite = margins[np.isfinite(margins)]
    spread = float(finite.std()) if len(finite) else 0.0
    return np.where(np.isnan(margins), -np.inf, margins / (spread or 1.0))


def steps(design: Design, count: int, most: int) -> Iterator[int]:
    """Yield at most ``most`` numbers up to ``count``, equally spaced on a logarithmic scale.

    The result is empty for a design that is not random.
    """
    if design.random and count > 1:
        yield from np.unique(
            np.round(np.geomspace(min(10, 1 + count // 2), count, most)).astype(int)
        ).tolist()


QUANTILES = (0.05, 0.5, 0.95)
_MOST_STEPS = 40
_MOST_VALUES = 8_000_000


@dataclass(frozen=True)
class Quantile:
    """A quantile with its confidence interval; ``low`` and ``high`` can be NaN."""

    at: float
    value: float
    low: float
    high: float


def quantiles_of(series: Series, name: str, level: float = LEVEL) -> list[Quantile]:
    """Return quantiles of a result, with confidence intervals if all runs have equal weights.

    Quantiles may be infinite; NaN results are ignored. With too few runs, the end of an interval is
    NaN. A search has no quantiles.
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
    from scipy.stats import quantile_test

    found: Any = quantile_test(values, p=at).confidence_interval(level)
    return float(found.low), float(found.high)


def infinite(runs: Runs, name: str) -> tuple[int, int]:
    values = numbers(runs.ended[name])
    return int(np.isinf(values).sum()), int((~np.isnan(values)).sum())


def distribution(series: Series, name: str, most: int) -> tuple[Vector, Vector]:
    """Return the empirical distribution: values (m,) and cumulative fractions (m,).

    NaN is left out.
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
    """Estimates (n,) with confidence intervals after the first ``runs`` (n,) runs."""

    title: str
    label: str
    runs: Integers
    value: Vector
    low: Vector
    high: Vector


def convergence(runs: Runs) -> list[Convergence]:
    """Return the convergence of the mean of each result and of each pass rate.

    The intervals have the corrected confidence level of the study. The list is empty for a design
    that is not random.
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


def _rate(required: Required, level: float) -> Callable[[Series], Share | None]:
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
    label: str
    low: Vector
    middle: Vector
    high: Vector
    count: Integers


def fans(runs: Runs, signal: str, lines: Sequence[int]) -> tuple[list[Fan], list[Vector]]:
    """Return quantiles over time for each series, and selected runs.

    ``lines`` contains the indices of the selected runs. The values are read in parts, so that
    memory does not grow with the number of runs.
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
    known = runs.ended["run"]
    width = len(runs.plan.job.grid[times])
    out = np.full((len(known), width), np.nan)
    for numbers_, values in runs.folder.histories(signal):
        place = np.searchsorted(known, numbers_)
        there = (place < len(known)) & (known[np.minimum(place, len(known) - 1)] == numbers_)
        out[place[there]] = values[there, times]
    return out


def _across(series: Series, column: Vector) -> Vector:
    """Return the quantiles 0.05, 0.5 and 0.95 of a column (n,), and the number of finite values."""
    there = np.isfinite(column)
    if not there.any():
        return np.array([np.nan, np.nan, np.nan, 0.0])
    equal = series.design.weights(series.columns) is None
    weights = None if equal else series.design.weights(series.kept(there))
    return np.array([*quantiles(column[there], weights), there.sum()])


def ranked(runs: Runs) -> list[tuple[str, str]]:
    """Return pairs (result, factor), the strongest rank correlation first."""
    drawn = [name for name in runs.plan.results if np.isfinite(numbers(runs.ended[name])).any()]
    pairs = [(result, factor) for result in drawn for factor in runs.factors]
    strength = {pair: correlation(runs.ended[pair[1]], runs.ended[pair[0]]) for pair in pairs}
    return sorted(pairs, key=lambda pair: -strength[pair])


def correlation(factor: NDArray[np.generic], result: NDArray[np.generic]) -> float:
    """Return the absolute rank correlation (Spearman) of factor and result.

    Only runs with a finite result count. Texts are ranked alphabetically.
    """
    y = numbers(result)
    finite = np.isfinite(y)
    x = _ranks(factor[finite])
    y = _ranks(y[finite])
    if len(x) < 2 or not np.ptp(x) or not np.ptp(y):
        return 0.0
    return float(abs(np.corrcoef(x, y)[0, 1]))


def _ranks(values: NDArray[np.generic]) -> Vector:
    from scipy.stats import rankdata

    texts = values.astype(str) if values.dtype == object else values
    _, which = np.unique(texts, return_inverse=True)
    return np.asarray(rankdata(which))
