"""Time histories: signals of a run at times that are common to all runs of a study."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.record.schema import TrackSpec
from rtsim.studies.columns import Series

POINTS = 200
"""The largest number of times."""


def grid_of(until_ns: int) -> NDArray[np.int64]:
    """Return the times (n,) in ns, n <= ``POINTS``, from 0 to ``until_ns``."""
    return np.unique(np.round(np.linspace(0, until_ns, POINTS)).astype(np.int64))


class History:
    """One signal of one run at the times ``grid`` (n,) in ns.

    The value at a time is that of the last row at or before it.  A signal of messages has its
    declared initial value until the first message arrives.
    """

    def __init__(self, signal: str, grid: NDArray[np.int64]) -> None:
        self.signal, self._series = signal, Series(signal)
        self.column = self._series.column
        self._grid, self._out = grid, np.full(len(grid), np.nan)
        self._next, self._last = 0, np.nan

    def take(self, spec: TrackSpec, words: NDArray[np.int64]) -> None:
        """Take further rows (n, width) of the signal's track, in their order."""
        self._take(*self._series.take(spec, words))

    def _take(self, ns: NDArray[np.int64], values: Vector) -> None:
        if not len(ns):
            return
        # A later point may have the time of the last one, so only earlier times are decided.
        end = int(np.searchsorted(self._grid, ns[-1], side="left"))
        if end > self._next:
            row = np.searchsorted(ns, self._grid[self._next : end], side="right") - 1
            self._out[self._next : end] = np.where(row < 0, self._last, values[row])
            self._next = end
        self._last = float(values[-1])

    def values(self, ended_ns: int) -> Vector:
        """Return the values (n,) of a run that ended at ``ended_ns``; later times have NaN.

        Call this once, after the last row.
        """
        self._take(*self._series.end(ended_ns))
        out = self._out.copy()
        out[self._next :] = self._last
        out[self._grid > ended_ns] = np.nan
        return out
