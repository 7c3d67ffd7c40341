"""A recorder for runs that follow each other: it keeps the rows of one run, and shares the memory.

The tracks belong to a :class:`TrackPool`; each run has a :class:`RunRecorder` of its own, whose
recording stays valid when the next run begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import RecordingError, UnknownName
from rtsim.core.signals import Signals
from rtsim.record.memory_recorder import MemoryRecorder
from rtsim.record.schema import TrackSpec
from rtsim.record.track import NullTrack, Track

if TYPE_CHECKING:
    from rtsim.record.reading import Recording

Plain = Mapping[str, object]
Begin = Callable[["TrackPool"], "RunRecorder"]
"""Returns the recorder of one attempt to run; what an attempt that failed recorded is dropped."""


class TrackPool:
    """The tracks of the runs of one system."""

    def __init__(self) -> None:
        self.kept: dict[str, Track] = {}
        self.specs: dict[str, TrackSpec] = {}

    def check(self, names: Collection[str]) -> None:
        """Raise :class:`UnknownName` if no run has a track of one of these names."""
        for name in names:
            if name not in self.specs:
                raise UnknownName("track", name, self.specs, "this run")


class RunRecorder(MemoryRecorder):
    """Keeps the rows of one run in memory.

    ``only``: the names of the tracks to keep; ``None``: all.
    """

    def __init__(self, pool: TrackPool, only: Collection[str] | None) -> None:
        super().__init__()
        self._pool, self._only = pool, only
        self.about: Callable[[], tuple[Plain, Plain]] = lambda: (self._header, self._footer or {})
        """Returns header and footer.  It is called when the recording is read, because making
        both takes longer than a short run."""
        self._read: Recording | None = None

    def check(self) -> None:
        """Raise :class:`UnknownName` if a track to keep is not a track of these runs."""
        self._pool.check(self._only or ())

    def keeps(self, name: str) -> bool:
        """Return whether the rows of the track ``name`` are kept."""
        return self._only is None or name in self._only

    def track(
        self,
        name: str,
        integers: tuple[str, ...],
        signals: Signals,
        about: Mapping[str, str] | None = None,
    ) -> Track:
        if not self.keeps(name):
            spec = TrackSpec(name, integers, signals, dict(about or {}))
            self._pool.specs[name] = spec
            return NullTrack(spec, lambda: None)
        pooled = self._pool.kept.get(name)
        if pooled is None:
            pooled = self._pool.kept[name] = super().track(name, integers, signals, about)
            self._pool.specs[name] = pooled.spec
            return pooled
        self._rows[name] = []
        return self._tracks.reuse(pooled)

    def sink(self, name: str) -> Callable[[NDArray[np.int64]], object] | None:
        """Return the function that takes rows (n, width) of a track; ``None`` if none are kept."""
        if not self.keeps(name):
            return None
        keep = self._rows.setdefault(name, []).append
        return lambda words: keep(words.copy())

    def release(self) -> None:
        """Take all rows, so that the next run can use the memory of the tracks."""
        self._collect()

    def recording(self) -> Recording:
        """Return the recording; raises :class:`RecordingError` if the run kept no rows."""
        from rtsim.record.reading import Recording, TrackData

        if self._only is not None and not self._only:
            raise RecordingError("the run was not recorded; call run() without record=False")
        if self._read is None:
            header, footer = self.about()
            tracks = {}
            for name, spec in self._pool.specs.items():
                if self.keeps(name):
                    empty = np.empty((0, spec.width), np.int64)
                    words = np.concatenate([empty, *self._rows.get(name, [])])
                    tracks[name] = TrackData(spec, words)
            self._read = Recording("memory", header, footer, tracks, list(self._events))
            self._rows.clear()
        return self._read
