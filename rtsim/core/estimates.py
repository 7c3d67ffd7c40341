"""Estimates from random outputs: means and their intervals, strata, averages, warm-up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Vector

LEVEL = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean and its confidence interval."""

    mean: float
    half_width: float
    level: float
    count: int
    """Independent samples that it is from."""

    @property
    def low(self) -> float:
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        return self.mean + self.half_width

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.mean:.6g} ± {self.half_width:.2g} ({self.level:.6g}, n = {self.count})"


def interval(samples: ArrayLike, level: float = LEVEL) -> Estimate:
    """Student's interval of the mean of independent ``samples`` (n,).

    Their distribution has to be near a normal one, as that of means of long runs is.
    """
    values = _finite(samples)
    if values.size < 2:
        raise ScenarioError(f"an interval from {values.size} samples; give at least 2")
    if not 0.0 < level < 1.0:
        raise ScenarioError(f"a level of {level}; give one between 0 and 1, such as 0.95")
    half = quantile(values.size - 1, level) * float(values.std(ddof=1)) / values.size**0.5
    return Estimate(float(values.mean()), half, level, values.size)


def stratified(
    strata: Sequence[ArrayLike], shares: Sequence[float], level: float = LEVEL
) -> Estimate:
    """The mean of a population from samples of each of its strata, (n_h,) each.

    ``shares``: how much of the population each stratum is, whatever was sampled of it; they come to
    1.  The variance is the sum of share^2 s_h^2 / n_h, Student's interval with Satterthwaite's
    degrees of freedom: Cochran, Sampling Techniques, 3rd ed., 1977, sections 5.3 and 5.4.  A
    stratum whose samples are all alike adds nothing to the interval: sample enough of each.
    """
    if len(strata) != len(shares) or not strata:
        raise ScenarioError(f"{len(strata)} strata and {len(shares)} shares; give one for each")
    if not all(share >= 0.0 for share in shares) or abs(math.fsum(shares) - 1.0) > 1e-9:
        raise ScenarioError(
            f"shares {', '.join(f'{one:g}' for one in shares)} come to {math.fsum(shares):.9g}; "
            "give shares of 0 or more that come to 1"
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
    """(n,); one that is none would make a mean and an interval that say nothing."""
    values = np.asarray(samples, dtype=np.float64).ravel()
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ScenarioError(
            f"{bad.size} of {values.size} samples are not finite, the first of them "
            f"sample {bad[0]} ({values[bad[0]]}); leave them out, or find what made them"
        )
    return values


def quantile(freedom: float, level: float) -> float:
    """Student's t: so many standard errors to either side hold a share ``level``."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.5 + level / 2.0))


def batch_means(values: ArrayLike, batches: int = 20, level: float = LEVEL) -> Estimate:
    """The mean of one long, stationary series whose neighbours depend on each other.

    It is cut into equal batches, whose means are taken as independent: that holds where a batch
    is much longer than the dependence.  Values left over at the start are not used.
    """
    series = _finite(values)
    each = series.size // batches
    if batches < 2 or each < 1:
        raise ScenarioError(
            f"{series.size} values in {batches} batches; give 2 or more values each"
        )
    cut = series[series.size - each * batches :].reshape(batches, each)
    return interval(cut.mean(axis=1), level)


def time_average(
    ns: NDArray[np.int64], values: Vector, begin_ns: int, end_ns: int, before: float = 0.0
) -> float:
    """The average over time from ``begin_ns`` to ``end_ns`` of a value that holds until the next.

    ``values`` (n,) hold from ``ns`` (n,) on, in order; ``before`` is what held before the first.
    """
    if not begin_ns < end_ns:
        raise ScenarioError(f"an average from {begin_ns} ns to {end_ns} ns; the end is later")
    times = np.asarray(ns, dtype=np.int64)
    inside = (times > begin_ns) & (times < end_ns)
    earlier = np.flatnonzero(times <= begin_ns)
    first = float(values[earlier[-1]]) if earlier.size else before
    edges = np.concatenate(([begin_ns], times[inside], [end_ns]))
    held = np.concatenate(([first], np.asarray(values, dtype=np.float64)[inside]))
    return float(np.dot(held, np.diff(edges)) / (end_ns - begin_ns))


def line_average(ns: NDArray[np.int64], values: Vector, begin_ns: int, end_ns: int) -> float:
    """The average over time of what goes in straight lines from each of ``values`` to the next.

    ``values`` (n,) stand at ``ns`` (n,), in order; two of one time are a jump.
    """
    times = np.asarray(ns, dtype=np.int64)
    if not (times.size and times[0] <= begin_ns < end_ns <= times[-1]):
        held = f"{times[0]} to {times[-1]} ns" if times.size else "no time at all"
        raise ScenarioError(f"an average from {begin_ns} ns to {end_ns} ns of values of {held}")
    t = times - begin_ns
    whole = end_ns - begin_ns
    inside = (t >= 0) & (t <= whole)
    first, last = np.interp([0, whole], t, values)
    t = np.concatenate(([0], t[inside], [whole]))
    y = np.concatenate(([first], np.asarray(values, dtype=np.float64)[inside], [last]))
    return float(np.dot(y[1:] + y[:-1], np.diff(t)) / (2 * whole))


def warm_up(values: ArrayLike, batch: int = 5) -> int:
    """How many of the first values to leave out: MSER-5 (White, Cobb and Spratt, 2000).

    The cut that leaves the least standard error of the mean of batches, looked for in the first
    half.  It is a rule of thumb: where it answers the half, the run is too short to tell.
    """
    series = _finite(values)
    count = series.size // batch
    if count < 4:
        raise ScenarioError(f"{series.size} values are too few for a warm-up; give {4 * batch}")
    means = series[: count * batch].reshape(count, batch).mean(axis=1)
    rest = means[::-1]
    left = np.arange(1, count + 1)
    spread = np.cumsum(rest**2) - np.cumsum(rest) ** 2 / left
    error = (spread / left**2)[::-1][: count // 2 + 1]
    return int(np.argmin(error)) * batch
