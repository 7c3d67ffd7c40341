"""Thins long traces for display without hiding spikes."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector

BUCKETS = 800
_KEPT = 5  # rows that a bucket keeps at most: first, least, greatest, one NaN, last


def thin(t: Vector, y: Vector, buckets: int = BUCKETS) -> tuple[Vector, Vector]:
    """Return at most about ``5 * buckets`` of the points (t, y), both (n,), in order."""
    return Thinning(t, buckets).of(y)


class Thinning:
    """Thins signals whose points are at the times ``t`` (n,).

    The time is divided into equal buckets.  Of each bucket the first, last, least and greatest
    points and one NaN are kept, so that extremes and gaps stay visible.
    """

    def __init__(self, t: Vector, buckets: int = BUCKETS) -> None:
        self._t = t
        self.thins = len(t) > _KEPT * buckets
        """True if points are left out; short traces are not thinned."""
        self._buckets: list[slice] = []
        if self.thins:
            edges = np.linspace(t.min(), t.max(), buckets + 1)
            self._buckets = _runs(_bucket_of(t, edges))

    def of(self, y: Vector) -> tuple[Vector, Vector]:
        """Return the times and values of ``y`` (n,) that are kept."""
        if not self.thins:
            return self._t, y
        keep = self.kept(y)
        return self._t[keep], y[keep]

    def kept(self, *columns: Vector) -> NDArray[np.intp]:
        """Return the rows of ``columns``, each (n,), that are kept, in order."""
        if not self.thins:
            return np.arange(len(self._t))
        keep: set[int] = set()
        for y in columns:
            for rows in self._buckets:
                keep |= _of_bucket(rows, y[rows])
        return np.array(sorted(keep), dtype=np.intp)


def _of_bucket(rows: slice, part: Vector) -> set[int]:
    """Return the rows of a bucket that are kept: first, last, least, greatest and one NaN."""
    finite = np.isfinite(part)
    local = {0, len(part) - 1}
    if finite.any():
        inside = np.flatnonzero(finite)
        local |= {int(inside[part[inside].argmin()]), int(inside[part[inside].argmax()])}
    if not finite.all():
        local.add(int(np.argmin(finite)))
    return {rows.start + i for i in local}


def _bucket_of(t: Vector, edges: Vector) -> NDArray[np.intp]:
    last = len(edges) - 2
    return np.clip(np.searchsorted(edges, t, side="right") - 1, 0, last)


def _runs(bucket: NDArray[np.intp]) -> list[slice]:
    """Return a slice for each run of equal values in ``bucket``."""
    cuts = np.flatnonzero(np.diff(bucket)) + 1
    ends = [0, *cuts.tolist(), len(bucket)]
    return [slice(a, b) for a, b in itertools.pairwise(ends)]
