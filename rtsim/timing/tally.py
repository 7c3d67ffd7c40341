"""Live counts of message latencies for each link, for display during a run.

Each class is a factor of two wide, so that counting costs a shift and an addition.  The recording
holds the exact values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CLASSES = 24
"""Class 0 is below 1 us, class k from 2^(k-1) us to 2^k us, the last one everything beyond."""
MOST_LINKS = 64
"""Links beyond this number are not counted."""


class Tally:
    """Counts of durations; ``counts`` is (links, :data:`CLASSES`)."""

    def __init__(self, links: list[str]) -> None:
        self.links = links[:MOST_LINKS]
        self.counts: NDArray[np.int64] = np.zeros((len(self.links), CLASSES), dtype=np.int64)
        self._rows = dict(zip(self.links, self.counts, strict=True))

    def add(self, link: str, ns: int) -> None:
        """Count a duration [ns] of ``link``; a link that is not counted is ignored."""
        row = self._rows.get(link)
        if row is not None:
            row[min((max(ns, 0) // 1000).bit_length(), CLASSES - 1)] += 1


def upper_us(index: int) -> int:
    """The upper end of class ``index`` [us]."""
    return 1 << index


def quantile_us(counts: list[int], p: float) -> int | None:
    """Upper end [us] of the class with the p-quantile; ``None`` if nothing was counted."""
    rank = sum(counts) * p
    seen = 0
    for index, count in enumerate(counts):
        seen += count
        if count and seen >= rank:
            return upper_us(index)
    return None
