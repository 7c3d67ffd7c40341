"""Estimates from random samples: means, confidence intervals, time averages and warm-up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.extras import needs
from rtsim.core.signals import Vector

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval ``mean`` ± ``half_width`` at confidence ``level``."""

    mean: float
    half_width: float
    level: float
    count: int
    """Number of independent samples."""

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width

    def to_plain(self) -> dict[str, float]:
        """Return mean, limits of the interval and confidence level as plain data."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "level": self.level}

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.mean:.6g} ± {self.half_width:.2g} ({self.level:.6g}, n = {self.count})"


def interval(samples: ArrayLike, level: float = LEVEL) -> Estimate:
    """Return the mean of independent ``samples`` (n,), n >= 2, with Student's confidence interval.

    The samples must be approximately normal, like means of long runs.  Raises
    :class:`ScenarioError` for too few samples, non-finite samples or a ``level`` outside (0, 1).
    """
    values = _finite(samples)
    if values.size < 2:
        raise ScenarioError(f"a confidence interval needs at least 2 samples, got {values.size}")
    if not 0.0 < level < 1.0:
        raise ScenarioError(f"level = {level}; give a number between 0 and 1, such as 0.95")
    half = quantile(values.size - 1, level) * float(values.std(ddof=1)) / values.size**0.5
    return Estimate(float(values.mean()), half, level, values.size)


def stratified(
    strata: Sequence[ArrayLike], shares: Sequence[float], level: float = LEVEL
) -> Estimate:
    """Return the mean of a population with a confidence interval, from samples (n_h,) of strata.

    ``shares`` are the fractions of the population in each stratum and must sum to 1. The number of
    samples from a stratum may differ from the share of the stratum. The variance is the sum of
    share^2 s_h^2 / n_h. The interval is Student's with Satterthwaite's degrees of freedom (Cochran,
    Sampling Techniques, 3rd ed., 1977, sections 5.3 and 5.4). A stratum with equal samples counts
    as exactly known, so each stratum needs enough samples.
    """
    if len(strata) != len(shares) or not strata:
        raise ScenarioError(
            f"got {len(strata)} strata and {len(shares)} shares; give one share per stratum"
        )
    if not all(share >= 0.0 for share in shares) or abs(math.fsum(shares) - 1.0) > 1e-9:
        raise ScenarioError(
            f"the shares {', '.join(f'{one:g}' for one in shares)} sum to "
            f"{math.fsum(shares):.9g}; give shares >= 0 that sum to 1"
        )
    each = [interval(samples, level) for samples in strata]
    mean = math.fsum(share * one.mean for share, one in zip(shares, each, strict=True))
    errors = [
        (share * float(_finite(samples).std(ddof=1))) ** 2 / one.count
        for share, samples, one in zip(shares, strata, each, strict=True)
    ]
    variance, count = math.fsum(errors), sum(one.count for one in each)
    if variance == 0.0:
        return Estimate(mean, 0.0, level, count)
    spread = math.fsum(error**2 / (one.count - 1) for error, one in zip(errors, each, strict=True))
    return Estimate(mean, quantile(variance**2 / spread, level) * variance**0.5, level, count)


def _finite(samples: ArrayLike) -> Vector:
    values = np.asarray(samples, dtype=np.float64).ravel()
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ScenarioError(
            f"{bad.size} of {values.size} samples are not finite; the first is sample {bad[0]} "
            f"({values[bad[0]]}). Leave these samples out, or correct their computation"
        )
    return values


def quantile(freedom: float, level: float) -> float:
    """Return the half-width of Student's confidence interval, in units of the standard error.

    ``freedom`` is the number of degrees of freedom.
    """
    with needs("scipy", "a confidence interval"):
        from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + level / 2.0))


def batch_means(values: ArrayLike, batches: int = 20, level: float = LEVEL) -> Estimate:
    """Return the mean of a long, stationary, autocorrelated series (n,) with a confidence interval.

    The series is split into batches of equal length, and the means of the batches count as
    independent samples. A batch must be much longer than the correlation time. The first ``n %
    batches`` values of the series are ignored.
    """
    series = _finite(values)
    each = series.size // batches
    if batches < 2 or each < 1:
        raise ScenarioError(
            f"cannot split {series.size} values into {batches} batches; give at least 2 batches "
            "and at least one value for each batch"
        )
    cut = series[series.size - each * batches :].reshape(batches, each)
    return interval(cut.mean(axis=1), level)


def time_average(
    ns: NDArray[np.int64], values: Vector, begin_ns: int, end_ns: int, before: float = 0.0
) -> float:
    """Return the time average of a piecewise constant signal from ``begin_ns`` to ``end_ns``.

    Each of ``values`` (n,) holds from its time in ``ns`` (n,) until the next. The times are in
    ascending order, and ``before`` is the value of the signal before the first time.
    """
    if not begin_ns < end_ns:
        raise ScenarioError(
            f"cannot average from {begin_ns} ns to {end_ns} ns: give an end after the beginning"
        )
    times = np.asarray(ns, dtype=np.int64)
    inside = (times > begin_ns) & (times < end_ns)
    earlier = np.flatnonzero(times <= begin_ns)
    first = float(values[earlier[-1]]) if earlier.size else before
    edges = np.concatenate(([begin_ns], times[inside], [end_ns]))
    held = np.concatenate(([first], np.asarray(values, dtype=np.float64)[inside]))
    return float(np.dot(held, np.diff(edges)) / (end_ns - begin_ns))


def line_average(ns: NDArray[np.int64], values: Vector, begin_ns: int, end_ns: int) -> float:
    """Return the time average of a piecewise linear signal from ``begin_ns`` to ``end_ns``.

    The signal has the ``values`` (n,) at the times ``ns`` (n,), in ascending order. Two values at
    the same time describe a jump of the signal.
    """
    times = np.asarray(ns, dtype=np.int64)
    if not (times.size and times[0] <= begin_ns < end_ns <= times[-1]):
        held = f"from {times[0]} ns to {times[-1]} ns" if times.size else "no time"
        raise ScenarioError(
            f"cannot average from {begin_ns} ns to {end_ns} ns: the values cover {held}; "
            "give an interval within these times"
        )
    t = times - begin_ns
    whole = end_ns - begin_ns
    inside = (t >= 0) & (t <= whole)
    first, last = np.interp([0, whole], t, values)
    t = np.concatenate(([0], t[inside], [whole]))
    y = np.concatenate(([first], np.asarray(values, dtype=np.float64)[inside], [last]))
    return float(np.dot(y[1:] + y[:-1], np.diff(t)) / (2 * whole))


def warm_up(values: ArrayLike, batch: int = 5) -> int:
    """Return the number of initial values of a series to discard as warm-up.

    The method is MSER-5 (White, Cobb, Spratt, 2000). The method MSER-5 minimises the standard error
    of the remaining mean, and discards at most half of the values. The method is a rule of thumb. A
    result of half the values means that the run is too short.
    """
    series = _finite(values)
    count = series.size // batch
    if count < 4:
        raise ScenarioError(f"warm_up needs at least {4 * batch} values, got {series.size}")
    means = series[: count * batch].reshape(count, batch).mean(axis=1)
    rest = means[::-1]
    left = np.arange(1, count + 1)
    spread = np.cumsum(rest**2) - np.cumsum(rest) ** 2 / left
    error = (spread / left**2)[::-1][: count // 2 + 1]
    return int(np.argmin(error)) * batch
