"""Statistics of any number of samples, in constant memory.

A histogram has logarithmic bins with a width of 1 %, and the exact minimum and maximum. A
percentile is the middle of its bin, and therefore accurate to 0.5 %. A percentile is only computed
if at least one sample lies beyond it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int64]

RATIO = 1.01
LOG_RATIO = math.log(RATIO)
SIDE = math.ceil(math.log(2.0**63) / LOG_RATIO) + 1  # bins on each side of zero

QUANTILES = {"p0_1": 0.001, "p1": 0.01, "median": 0.5, "p99": 0.99, "p99_9": 0.999}


@dataclass(frozen=True)
class Summary:
    """Statistics of one quantity, ns. A value is ``None`` if there are too few samples."""

    count: int
    min: int | None
    p0_1: int | None
    p1: int | None
    median: int | None
    p99: int | None
    p99_9: int | None
    max: int | None
    histogram: tuple[tuple[int, int, int], ...]
    """(low, high, count) of each bin that is not empty. ``low`` and ``high`` are the limits of the
    bin.
    """


class Spread:
    """A histogram of samples (ns), which takes about 70 kB."""

    def __init__(self) -> None:
        self.bins = np.zeros(2 * SIDE + 1, dtype=np.int64)
        """Number of samples in each bin. Bin 0 is in the middle."""
        self.totals = np.array([0, 2**63 - 1, -(2**63)], dtype=np.int64)
        """Number of samples, least and greatest sample. Compiled code updates both arrays."""

    @property
    def count(self) -> int:
        return int(self.totals[0])

    @property
    def min(self) -> int | None:
        return int(self.totals[1]) if self.totals[0] else None

    @property
    def max(self) -> int | None:
        return int(self.totals[2]) if self.totals[0] else None

    def add(self, samples: Samples) -> None:
        """Add samples (n,); 256 samples take about 20 us."""
        if samples.size == 0:
            return
        size = np.abs(samples).astype(np.float64)
        bins = (np.log(np.maximum(size, 1.0)) / LOG_RATIO).astype(np.int64) + 1
        np.add.at(self.bins, SIDE + np.sign(samples) * bins, 1)
        totals = self.totals
        totals[0] += samples.size
        totals[1], totals[2] = min(totals[1], samples.min()), max(totals[2], samples.max())

    def quantile(self, p: float) -> int | None:
        """Return a quantile (ns), or ``None`` if too few samples lie beyond it."""
        if self.count == 0 or self.min is None or self.max is None:
            return None
        beyond = min(p, 1.0 - p)
        if p != 0.5 and self.count * beyond < 1.0 - 1e-9:
            return None
        rank = max(1, math.ceil(p * self.count - 1e-9))
        index = int(np.searchsorted(np.cumsum(self.bins), rank))
        low, high = _bounds(index - SIDE)
        middle = round(math.copysign(math.sqrt(low * high), low + high))
        return min(max(middle, self.min), self.max)

    def summary(self) -> Summary:
        bins = tuple(
            (*self._edges(int(i) - SIDE), int(self.bins[i])) for i in np.flatnonzero(self.bins)
        )
        quantiles = {name: self.quantile(p) for name, p in QUANTILES.items()}
        return Summary(self.count, self.min, max=self.max, histogram=bins, **quantiles)

    def _edges(self, k: int) -> tuple[int, int]:
        assert self.min is not None
        assert self.max is not None
        low, high = _bounds(k)
        return max(math.floor(low), self.min), min(math.ceil(high), self.max)


def _bounds(k: int) -> tuple[float, float]:
    if k == 0:
        return 0.0, 0.0
    low, high = RATIO ** (abs(k) - 1), RATIO ** abs(k)
    return (low, high) if k > 0 else (-high, -low)
