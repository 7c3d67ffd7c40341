"""Live counts of message latencies and the latest time stamps of each link, for display.

Each class is a factor of two wide, so that counting costs a shift and an addition.  The recording
holds the exact values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CLASSES = 24
"""Number of classes: class 0 ends at 1 us, class k at 2^k us, and the last class has no end."""
MOST_LINKS = 64
"""The most links; further links are not counted."""


STAMPS = 3
"""Number of time stamps of a message: initiated, completed, arrival."""


class Tally:
    """Counts of durations, (links, :data:`CLASSES`), and the stamps of the latest messages.

    ``latest`` is (links, :data:`STAMPS`), ns of simulated time; -1 before the first message.
    """

    def __init__(self, links: list[str]) -> None:
        self.links = links[:MOST_LINKS]
        self.counts: NDArray[np.int64] = np.zeros((len(self.links), CLASSES), dtype=np.int64)
        self.latest: NDArray[np.int64] = np.full((len(self.links), STAMPS), -1, dtype=np.int64)
        self._rows = dict(zip(self.links, self.counts, strict=True))
        self._stamps = dict(zip(self.links, self.latest, strict=True))

    def stamp(self, link: str, initiated: int, completed: int, arrival: int) -> None:
        """Keep the stamps [ns] of the latest message of ``link``; other links are ignored."""
        row = self._stamps.get(link)
        if row is not None:
            row[0], row[1], row[2] = initiated, completed, arrival

    def add(self, link: str, ns: int) -> None:
        """Count a duration [ns] of ``link``; a link that is not counted is ignored."""
        row = self._rows.get(link)
        if row is not None:
            row[min((max(ns, 0) // 1000).bit_length(), CLASSES - 1)] += 1

    def add_many(self, link: str, ns: NDArray[np.int64]) -> None:
        """Count the durations ``ns`` (k,) of ``link``."""
        row = self._rows.get(link)
        if row is not None:
            classes = np.frexp(np.maximum(ns, 0) // 1000)[1]  # the number of bits
            row += np.bincount(np.minimum(classes, CLASSES - 1), minlength=CLASSES)


def upper_us(index: int) -> int:
    """Return the upper limit of class ``index`` [us]."""
    return 1 << index


def quantile_us(counts: list[int], p: float) -> int | None:
    """Return the upper limit [us] of the p-quantile's class; ``None`` if all counts are 0."""
    rank = sum(counts) * p
    seen = 0
    for index, count in enumerate(counts):
        seen += count
        if count and seen >= rank:
            return upper_us(index)
    return None
