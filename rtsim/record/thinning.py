"""Long traces made short enough to draw, without hiding a spike."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from rtsim.signals import Vector

BUCKETS = 800
_KEPT = 5  # rows that a bucket keeps at most: first, least, greatest, one NaN, last


def thin(t: Vector, y: Vector, buckets: int = BUCKETS) -> tuple[Vector, Vector]:
    """At most about ``5 * buckets`` of the points (t, y), both (n,), in their order.

    The time is cut into equal buckets; of each the first, the last, the least and the greatest
    point are kept, and one NaN, so that extremes and gaps stay visible.
    """
    if len(t) <= _KEPT * buckets:
        return t, y
    keep: list[int] = []
    edges = np.linspace(t.min(), t.max(), buckets + 1)
    bucket = np.clip(np.searchsorted(edges, t, side="right") - 1, 0, buckets - 1)
    for rows in _runs(bucket):
        part = y[rows]
        finite = np.isfinite(part)
        local = {0, len(part) - 1}
        if finite.any():
            inside = np.flatnonzero(finite)
            local |= {int(inside[part[inside].argmin()]), int(inside[part[inside].argmax()])}
        if not finite.all():
            local.add(int(np.argmin(finite)))
        keep += [rows.start + i for i in sorted(local)]
    return t[keep], y[keep]


def _runs(bucket: NDArray[np.intp]) -> list[slice]:
    """Runs of equal values."""
    cuts = np.flatnonzero(np.diff(bucket)) + 1
    ends = [0, *cuts.tolist(), len(bucket)]
    return [slice(a, b) for a, b in itertools.pairwise(ends)]
