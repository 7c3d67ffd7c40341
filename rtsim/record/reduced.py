"""A recorder that gives its rows away as they come: memory stays flat, however long the run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rtsim.record.reused import RunRecorder, TrackPool
from rtsim.record.schema import TrackSpec

TakeRows = Callable[[TrackSpec, NDArray[np.int64]], object]
"""Takes new rows (n, width) of a track; the array is valid during the call only."""


class ReducingRecorder(RunRecorder):
    """Calls ``take`` with the rows of each track, in their order.

    ``keep``: keep the rows in memory too, so that :meth:`recording` can return them.  ``pool``: the
    tracks that the runs of a prepared scenario share.
    """

    def __init__(self, take: TakeRows, keep: bool, pool: TrackPool | None = None) -> None:
        super().__init__(pool or TrackPool(), None)
        self._take, self._keep = take, keep
        self._given: set[str] = set()

    def drain(self) -> None:
        """Give the rows that have not been given yet; call it when the run has ended.

        A track without any row is given as an array of no rows.
        """
        self._collect()
        for name, spec in self._pool.specs.items():
            if name not in self._given:
                self._take(spec, np.empty((0, spec.width), np.int64))

    def sink(self, name: str) -> Callable[[NDArray[np.int64]], object]:
        spec = self._pool.specs[name]

        def give(words: NDArray[np.int64]) -> None:
            self._give(spec, words)

        return give

    def _give(self, spec: TrackSpec, words: NDArray[np.int64]) -> None:
        self._given.add(spec.name)
        self._take(spec, words)
        if self._keep:
            self._rows.setdefault(spec.name, []).append(words.copy())

    def _collect(self) -> None:
        self._tracks.due = False
        for track in self._tracks.by_name.values():
            for words in track.take():
                self._give(track.spec, words)
