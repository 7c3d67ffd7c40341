"""A recorder that gives its rows away as they come: memory stays flat, however long the run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rtsim.record.memory_recorder import MemoryRecorder
from rtsim.record.schema import TrackSpec

TakeRows = Callable[[TrackSpec, NDArray[np.int64]], object]
"""Takes new rows (n, width) of a track; the array is valid during the call only."""


class ReducingRecorder(MemoryRecorder):
    """Calls ``take`` with the rows of each track, in their order.

    ``keep``: keep the rows in memory too, so that :meth:`recording` can return them.
    """

    def __init__(self, take: TakeRows, keep: bool) -> None:
        super().__init__()
        self._take, self._keep = take, keep

    def drain(self) -> None:
        """Give the rows that have not been given yet; call it when the run has ended.

        A track without any row is given as an array of no rows.
        """
        self._collect()
        for track in self._tracks.by_name.values():
            self._take(track.spec, np.empty((0, track.spec.width), np.int64))

    def _collect(self) -> None:
        self._tracks.due = False
        for name, track in self._tracks.by_name.items():
            for words in track.take():
                self._take(track.spec, words)
                if self._keep:
                    self._rows[name].append(words.copy())
