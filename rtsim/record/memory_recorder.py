"""Recorders: the protocol, a recorder that keeps nothing, and one that keeps rows in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.record.event import Event, Value
from rtsim.record.schema import TrackSpec
from rtsim.record.track import NullTrack, Track, Tracks

if TYPE_CHECKING:
    from rtsim.record.reading import Recording


class Recorder(Protocol):
    """The interface through which the executive writes a recording.

    A recorder that uses other processes may list their process numbers in an attribute ``beside``;
    the run keeps these processes off the CPU that is reserved for the loop.  A recorder that may
    fail during the run has an attribute ``on_failure``.  The run assigns a function to it, and the
    recorder calls this function with the cause of the failure; an attribute ``kept_ns`` is then the
    simulated time up to which every row was kept, or ``None``.  A recorder may have a method
    ``caught_up``, which takes many overruns at once; otherwise each is an :meth:`event`.
    """

    def track(
        self,
        name: str,
        integers: tuple[str, ...],
        signals: Signals,
        about: Mapping[str, str] | None = None,
    ) -> Track:
        """Declare a topic and return the track for its rows; only possible before :meth:`start`."""

    def start(self, header: Mapping[str, object]) -> None:
        """Begin the recording with ``header``, plain JSON data; called before the first row."""

    def event(
        self,
        tag: Tag,
        kind: str,
        source: str,
        text: str = "",
        values: Mapping[str, Value] | None = None,
    ) -> None:
        """Record an event, such as an overrun, a late answer, a missed request or a command."""

    def pump(self, wait: bool = False) -> None:
        """Process the recorded data; with ``wait`` this may block until all data is processed."""

    def finish(self, footer: Mapping[str, object]) -> None:
        """Complete the recording with ``footer`` (the certificate), plain JSON data."""


class NullRecorder:
    """A recorder that records nothing."""

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


class MemoryRecorder:
    """A recorder that keeps all rows in memory, for tests and studies.

    recorder = MemoryRecorder()
    simulate(scenario, recorder=recorder)
    altitude = recorder.recording()["f16.altitude"]
    """

    def __init__(self) -> None:
        self._tracks = Tracks()
        self._rows: dict[str, list[NDArray[np.int64]]] = {}
        self._events: list[Event] = []
        self._header: dict[str, object] = {}
        self._footer: dict[str, object] | None = None

    def track(
        self,
        name: str,
        integers: tuple[str, ...],
        signals: Signals,
        about: Mapping[str, str] | None = None,
    ) -> Track:
        self._rows[name] = []
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

    def recording(self) -> Recording:
        """Return a recording of the data so far, which reads like a file."""
        from rtsim.record.reading import Recording, TrackData

        self._collect()
        tracks = {}
        for name, track in self._tracks.by_name.items():
            empty = np.empty((0, track.spec.width), np.int64)
            tracks[name] = TrackData(track.spec, np.concatenate([empty, *self._rows[name]]))
        return Recording("memory", self._header, self._footer, tracks, list(self._events))
