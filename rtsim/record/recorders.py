"""The interface of recorders, and recorders that keep rows in memory or discard them.

Several runs of a system can share the buffers of a ``TrackPool``. Each run has its own
:class:`PooledRecorder`. The recording of a run remains valid when the next run begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import RecordingError, UnknownName
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.record.events import Event, Value
from rtsim.record.schema import TrackSpec
from rtsim.record.track import NullTrack, Track, Tracks

if TYPE_CHECKING:
    from rtsim.record.reading import Recording


class Recorder(Protocol):
    """Interface of recorders.

    A recorder may have further attributes:

    - ``beside`` is a collection of process numbers.
    - The recorder calls ``on_failure`` with the cause if the recording fails during the run. The
      run sets this attribute.
    - The recorder calls ``on_watched`` with the robustness of requirements, if another process
      evaluates them. The run sets this attribute.
    - The recorder calls ``on_unwatched`` with the requirements that this process does not evaluate,
      and the reasons. The run sets this attribute before :meth:`start`.
    - ``kept_ns`` is the simulated time up to which all rows are stored, or ``None``.
    - Without the optional method ``caught_up``, each overrun is recorded with ``event``.
    """

    def track(
        self,
        name: str,
        integers: tuple[str, ...],
        signals: Signals,
        about: Mapping[str, str] | None = None,
    ) -> Track:
        """Declare a topic, and return a track for its rows.

        All topics must be declared before :meth:`start`.
        """

    def start(self, header: Mapping[str, object]) -> None:
        """Begin the recording; ``header`` is plain data for JSON."""

    def event(
        self,
        tag: Tag,
        kind: str,
        source: str,
        text: str = "",
        values: Mapping[str, Value] | None = None,
    ) -> None:
        """Record an event, such as an overrun, a late answer or a command."""

    def pump(self, wait: bool = False) -> None:
        """Process recorded data. With ``wait``, the method returns when all data are processed."""

    def finish(self, footer: Mapping[str, object]) -> None:
        """End the recording; ``footer`` is plain data for JSON."""


class NullRecorder:
    """Recorder that discards all data."""

    def track(
        self,
        name: str,
        integers: tuple[str, ...],
        signals: Signals,
        about: Mapping[str, str] | None = None,
    ) -> Track:
        return NullTrack(TrackSpec(name, integers, signals, dict(about or {})), lambda: None)

    def start(self, header: Mapping[str, object]) -> None:
        pass

    def event(
        self,
        tag: Tag,
        kind: str,
        source: str,
        text: str = "",
        values: Mapping[str, Value] | None = None,
    ) -> None:
        pass

    def pump(self, wait: bool = False) -> None:
        pass

    def finish(self, footer: Mapping[str, object]) -> None:
        pass


@dataclass(frozen=True)
class KeptRows:
    """Copies of the rows and events of a ``MemoryRecorder``."""

    rows: Mapping[str, tuple[NDArray[np.int64], ...]] = field(default_factory=dict)
    """Rows (k, width) of each track, in batches."""
    events: tuple[Event, ...] = ()


class MemoryRecorder:
    """Recorder that keeps all rows in memory, for tests and studies.

    ``kept`` contains earlier rows and events of the recording.

    Example:
        recorder = MemoryRecorder()
        simulate(scenario, recorder=recorder)
        altitude = recorder.recording()["f16.altitude"]
    """

    def __init__(self, kept: KeptRows | None = None) -> None:
        self._tracks = Tracks()
        self._before = KeptRows() if kept is None else kept
        self._rows: dict[str, list[NDArray[np.int64]]] = {}
        self._events: list[Event] = list(self._before.events)
        self._header: dict[str, object] = {}
        self._footer: dict[str, object] | None = None

    def track(
        self,
        name: str,
        integers: tuple[str, ...],
        signals: Signals,
        about: Mapping[str, str] | None = None,
    ) -> Track:
        self._rows[name] = list(self._before.rows.get(name, ()))
        return self._tracks.add(name, integers, signals, about)

    def start(self, header: Mapping[str, object]) -> None:
        self._tracks.started = True
        self._header = dict(header)

    def event(
        self,
        tag: Tag,
        kind: str,
        source: str,
        text: str = "",
        values: Mapping[str, Value] | None = None,
    ) -> None:
        self._events.append(Event(tag, kind, source, text, dict(values or {})))

    def pump(self, wait: bool = False) -> None:  # noqa: ARG002
        if self._tracks.due:
            self._collect()

    def finish(self, footer: Mapping[str, object]) -> None:
        self._footer = dict(footer)

    def _collect(self) -> None:
        self._tracks.due = False
        for name, track in self._tracks.by_name.items():
            self._rows[name].extend(words.copy() for words in track.take())

    def kept(self) -> KeptRows:
        self._collect()
        rows = {name: tuple(batches) for name, batches in self._rows.items()}
        return KeptRows(rows, tuple(self._events))

    def recording(self) -> Recording:
        """Return the data so far in the form of a recording file."""
        from rtsim.record.reading import Recording, TrackData

        self._collect()
        tracks = {}
        for name, track in self._tracks.by_name.items():
            empty = np.empty((0, track.spec.width), np.int64)
            tracks[name] = TrackData(track.spec, np.concatenate([empty, *self._rows[name]]))
        return Recording("this run", self._header, self._footer, tracks, list(self._events))


# Recorders of consecutive runs that share memory.

Plain = Mapping[str, object]
Begin = Callable[["TrackPool"], "PooledRecorder"]
"""Function that returns the recorder for one attempt to execute a run.

The data of failed attempts are discarded.
"""


class TrackPool:
    """Buffers that consecutive runs of a system share."""

    def __init__(self) -> None:
        self.kept: dict[str, Track] = {}
        self.specs: dict[str, TrackSpec] = {}

    def check(self, names: Collection[str]) -> None:
        """Raise ``UnknownName`` for a name that is no track of the runs."""
        for name in names:
            if name not in self.specs:
                raise UnknownName("track", name, self.specs, "this run")


class PooledRecorder(MemoryRecorder):
    """Recorder that keeps the rows of one run in memory.

    ``only`` contains the names of the tracks to keep; ``None`` means all tracks.
    """

    def __init__(self, pool: TrackPool, only: Collection[str] | None) -> None:
        super().__init__()
        self._pool, self._only = pool, only
        self.about: Callable[[], tuple[Plain, Plain]] = lambda: (self._header, self._footer or {})
        """Function that returns header and footer.

        The recorder calls this function only when the recording is read. Creating header and footer
        takes longer than a short run.
        """
        self._read: Recording | None = None

    def check(self) -> None:
        """Raise ``UnknownName`` if a track to keep does not exist."""
        self._pool.check(self._only or ())

    def keeps(self, name: str) -> bool:
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
        """Return a function that stores rows (n, width) of a track, or ``None``."""
        if not self.keeps(name):
            return None
        keep = self._rows.setdefault(name, []).append
        return lambda words: keep(words.copy())

    def release(self) -> None:
        """Copy all rows, so that the next run can reuse the buffers."""
        self._collect()

    def recording(self) -> Recording:
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
            self._read = Recording("this run", header, footer, tracks, list(self._events))
            self._rows.clear()
        return self._read


# Recorder that passes rows on during the run, so that the memory use is constant.

TakeRows = Callable[[TrackSpec, NDArray[np.int64]], object]
"""Function that receives new rows (n, width) of a track. The rows are valid only during the call.
"""


class ReducingRecorder(PooledRecorder):
    """Recorder that passes the rows of each track to ``take``.

    With ``keep``, the rows are also kept in memory. ``pool`` contains buffers that all runs of a
    scenario share.
    """

    def __init__(self, take: TakeRows, keep: bool, pool: TrackPool | None = None) -> None:
        super().__init__(pool or TrackPool(), None)
        self._take, self._keep = take, keep
        self._given: set[str] = set()

    def drain(self) -> None:
        """After the end of the run, call ``take`` with the remaining rows.

        For a track without rows, ``take`` receives an empty array.
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
