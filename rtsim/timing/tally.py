"""Durations counted by link while a run goes on: for a look from outside, not for a verdict.

Classes are a factor of two wide, so that one costs a shift and an addition; exact figures are in
the recording.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CLASSES = 24
"""Class 0 is below 1 us, class k from 2^(k-1) us to 2^k us, the last one everything beyond."""
MOST_LINKS = 64
"""More are not counted."""


class Tally:
    """Counts, one row of :data:`CLASSES` for each link."""

    def __init__(self, links: list[str]) -> None:
        self.links = links[:MOST_LINKS]
        self.counts: NDArray[np.int64] = np.zeros((len(self.links), CLASSES), dtype=np.int64)
        self._rows = dict(zip(self.links, self.counts, strict=True))

    def add(self, link: str, ns: int) -> None:
        """One duration; links that are not counted are none of its business."""
        row = self._rows.get(link)
        if row is not None:
            row[min((max(ns, 0) // 1000).bit_length(), CLASSES - 1)] += 1


def upper_us(index: int) -> int:
    """Where class ``index`` ends, us."""
    return 1 << index


def quantile_us(counts: list[int], p: float) -> int | None:
    """The end of the class that the p-quantile lies in, us; ``None`` where nothing was counted."""
    rank = sum(counts) * p
    seen = 0
    for index, count in enumerate(counts):
        seen += count
        if count and seen >= rank:
            return upper_us(index)
    return None
