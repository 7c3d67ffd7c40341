"""Data sources of a page: a run in progress or a recording."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.publishing import MOST_VIEWS, StateTable
from rtsim.record.component_values import MESSAGES
from rtsim.record.jobs import ProcessorHistory, processors_of
from rtsim.record.reading import Recording, TrackData
from rtsim.record.views import Place, places, views_of
from rtsim.timing.frames import NO_SAMPLE

MOST_POINTS = 600
"""Limit of the points of a curve, independent of the length of the run."""
MOST_NAMES = 900
"""Limit of the signals that a page reads at a time."""


@dataclass(frozen=True)
class Look:
    """The present state of a run or recording, with values by name and message times by topic.

    ``watched`` contains the robustness of requirements so far, as plain data. The message times
    (ns) are the initiation, completion and arrival of the latest message.
    """

    state: StateTable
    values: Mapping[str, float]
    stamps: Mapping[str, tuple[int, int, int]]
    watched: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Past:
    """Values of signals over time: ``seconds`` (k,), and one array (k,) per name."""

    seconds: Vector
    values: Mapping[str, Vector]


@dataclass(frozen=True)
class About:
    """Description of a run or recording, with its signals, parameters and topics."""

    title: str
    signals: Mapping[str, str]
    """Unit of each signal, by name."""
    kinds: Mapping[str, str]
    parameters: Sequence[Mapping[str, Any]] = ()
    topics: Mapping[str, Sequence[str]] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    views: Sequence[Mapping[str, Any]] = ()
    """The views as plain data, at most :data:`MOST_VIEWS`."""
    bodies: Sequence[Mapping[str, Any]] = ()
    shown: Mapping[str, Any] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    requirements: Sequence[Mapping[str, Any]] = ()
    """The requirements of a run in progress, as plain data."""
    processors: Sequence[Mapping[str, Any]] = ()
    """The simulated processors as plain data: ``name``, ``policy``, ``cores`` and ``tasks``."""
    ends: tuple[int, int] | None = None
    """Start and end of a recording, ns; ``None`` for a run in progress."""


class Source(Protocol):
    """A run in progress or a recording. All methods are called from one thread."""

    about: About

    def look(self, names: Sequence[str]) -> Look | None:
        """Return the present state and the values of ``names``, or ``None`` without an answer.

        Raises :class:`RtsimError` at the end of the run.
        """
        ...

    def past(self, names: Sequence[str], span_s: float) -> Past:
        """Return the values of the last ``span_s`` s, as at most ``MOST_POINTS`` points."""
        ...

    def schedules(self) -> Sequence[ProcessorHistory]:
        """Return the processors with the states of their tasks, at least up to the present time."""
        ...

    def tell(self, kind: str, **arguments: Any) -> str:
        """Send a command; return when it takes effect, or raise ``RtsimError``."""
        ...

    def close(self) -> None: ...


class History:
    """The latest values of signals, in a ring buffer of ``MOST_POINTS`` rows.

    Rows are at least ``span_s`` / ``MOST_POINTS`` apart.
    """

    def __init__(self, names: Sequence[str], span_s: float, most: int = MOST_POINTS) -> None:
        self.names, self.span_s = tuple(names), span_s
        self._gap_ns = round(span_s * NS_PER_S / most)
        self._rows: NDArray[np.float64] = np.full((most, len(self.names)), np.nan)
        self._ns: NDArray[np.int64] = np.zeros(most, np.int64)
        self._count = 0

    def add(self, ns: int, values: Mapping[str, float]) -> None:
        """Add a row; if the time went back, discard the earlier rows."""
        most = len(self._ns)
        if self._count:
            last = int(self._ns[(self._count - 1) % most])
            if ns < last:
                self._count = 0
            elif ns - last < max(1, self._gap_ns):
                return
        at = self._count % most
        self._ns[at] = ns
        self._rows[at] = [values.get(name, np.nan) for name in self.names]
        self._count += 1

    def past(self, span_s: float) -> Past:
        most = len(self._ns)
        order = np.arange(max(0, self._count - most), self._count) % most
        ns, rows = self._ns[order], self._rows[order]
        if len(ns):
            inside = ns >= ns[-1] - round(span_s * NS_PER_S)
            ns, rows = ns[inside], rows[inside]
        return Past(ns / NS_PER_S, {n: rows[:, k] for k, n in enumerate(self.names)})

    def moved_to(self, names: Sequence[str], span_s: float) -> History:
        """Return a history of the signals ``names``, with the past values that are known."""
        out = History(names, span_s, len(self._ns))
        most = len(self._ns)
        stays = set(self.names) & set(out.names)
        for k in range(max(0, self._count - most), self._count) if stays else ():
            row = dict(zip(self.names, self._rows[k % most].tolist(), strict=True))
            out.add(int(self._ns[k % most]), row)
        return out


# A recording as a source, whose time follows the wall clock.

LEAST_RATE, MOST_RATE = 0.001, 1000.0
_TIMING = "timing"
_REQUESTS = ".inputs"
_BACK = 64
"""Number of messages before the present time among which the latest arrived one is searched."""


class RecordedRun:
    """Playback of a recording on a web page.

    ``now`` returns wall-clock time, ns. Raises :class:`RecordingError` if the recording has no rows
    of signals.
    """

    def __init__(self, recording: Recording, now: Callable[[], int] = stopwatch) -> None:
        self._recording, self._now = recording, now
        found = places(recording.header, recording.tracks)
        self._places = {
            name: place
            for name, place in found.items()
            if place.column in recording.tracks[place.track].signals.columns
            and len(recording.tracks[place.track])
        }
        if not self._places:
            raise RecordingError(f"{recording.source} cannot be shown, because it has no signals")
        self._tracks = {p.track: recording.tracks[p.track] for p in self._places.values()}
        self._times = {name: np.ascontiguousarray(t.ns) for name, t in self._tracks.items()}
        timing = recording.tracks.get(_TIMING)
        self._timing = timing if timing is not None and len(timing) else None
        frames = np.zeros(0, np.int64) if self._timing is None else self._timing.ns
        self._frames: NDArray[np.int64] = np.ascontiguousarray(frames)
        computed = [
            e.tag.ns
            for e in recording.events
            if e.kind == "Overrun" and e.values.get("cause") == "compute"
        ]
        self._computed = np.array(computed, np.int64)
        self._events = {
            kind: np.array([e.tag.ns for e in recording.events if e.kind == kind], np.int64)
            for kind in ("Overrun", "Late", "Missed")
        }
        self._processors = processors_of(recording)
        self._begin = min(int(ns[0]) for ns in self._times.values())
        self._end = recording.end_ns
        self._rate, self._standing = 1.0, False
        self._at, self._since = self._begin, now()
        self.about = self._about()

    def _about(self) -> About:
        header = self._recording.header
        shown = header.get("shown")
        shown = shown if isinstance(shown, Mapping) else {}
        described = {name: _described(self._tracks[p.track], p) for name, p in self._places.items()}
        return About(
            title=Path(self._recording.source).name,
            signals={name: signal.unit for name, signal in described.items()},
            kinds={name: signal.kind for name, signal in described.items()},
            topics={
                name.removeprefix(MESSAGES): track.signals.columns
                for name, track in self._tracks.items()
                if name.startswith(MESSAGES) and not name.endswith(_REQUESTS)
            },
            views=[view.to_dict() for view in views_of(self._recording)[:MOST_VIEWS]],
            bodies=shown.get("bodies") or header.get("bodies") or (),
            shown=shown,
            processors=[{"name": one.name} for one in self._processors],
            ends=(self._begin, self._end),
        )

    # -- time

    @property
    def ns(self) -> int:
        """Simulated time that is shown now, ns."""
        if self._standing:
            return self._at
        return min(self._end, self._at + round((self._now() - self._since) * self._rate))

    def _go_to(self, ns: int) -> None:
        self._at, self._since = min(max(ns, self._begin), self._end), self._now()

    # -- requests of a page

    def look(self, names: Sequence[str]) -> Look:
        ns = self.ns
        if ns >= self._end and not self._standing:
            self._standing, self._at = True, self._end
        values = self._values(names, ns)
        topics = self.about.topics
        stamps = {t: found for t in topics if (found := self._stamps(MESSAGES + t, ns))}
        return Look(self._state(ns), values, stamps)

    def _state(self, ns: int) -> StateTable:
        many = {kind: int(np.searchsorted(at, ns, "right")) for kind, at in self._events.items()}
        compute = int(np.searchsorted(self._computed, ns, "right"))
        frame = int(np.searchsorted(self._frames, ns, "right"))
        lateness, margin = -1, NO_SAMPLE
        if self._timing is not None and frame:
            row = self._timing.words[frame - 1]
            lateness, margin = (
                int(row[1 + self._timing.integers.index(n)]) for n in ("wake_lateness", "margin")
            )
        return StateTable(
            ns, 0, self._rate, self._standing, many["Late"], many["Missed"], compute,
            many["Overrun"] - compute, margin, frame, lateness_ns=lateness,
        )  # fmt: skip

    def _values(self, names: Sequence[str], ns: int) -> dict[str, float]:
        rows: dict[str, tuple[Signals, Vector] | None] = {}
        out = {}
        for name in names:
            if (place := self._places.get(name)) is None:
                continue
            if place.track not in rows:
                rows[place.track] = self._row(place.track, ns)
            if (found := rows[place.track]) is not None:
                signals, values = found
                out[name] = float(values[signals.columns.index(place.column)])
        return out

    def _row(self, track: str, ns: int) -> tuple[Signals, Vector] | None:
        data = self._tracks[track]
        if "arrival" in data.integers:
            row = self._arrived(track, ns)
        else:
            row = int(np.searchsorted(self._times[track], ns, "right")) - 1
        return (data.signals, data.values(row)) if row >= 0 else None

    def _arrived(self, track: str, ns: int) -> int:
        data, behind = self._tracks[track], int(np.searchsorted(self._times[track], ns, "right"))
        first = max(0, behind - _BACK)
        words = np.asarray(data.words[first:behind])
        arrival = words[:, 1 + data.integers.index("arrival")]
        found = np.flatnonzero((arrival >= 0) & (arrival <= ns))
        return first + int(found[-1]) if len(found) else -1

    def _stamps(self, track: str, ns: int) -> tuple[int, int, int] | None:
        data, row = self._tracks[track], self._arrived(track, ns)
        if row < 0:
            return None
        words = data.words[row]
        began, done, arrival = (
            int(words[1 + data.integers.index(n)]) for n in ("initiated", "completed", "arrival")
        )
        return began, done, arrival

    def past(self, names: Sequence[str], span_s: float) -> Past:
        """Return values at equidistant times, each from the latest row before it."""
        end = self.ns
        begin = max(self._begin, end - round(span_s * NS_PER_S))
        times = np.linspace(begin, end, MOST_POINTS).astype(np.int64)
        values = {name: self._held(name, times) for name in names}
        return Past(times / NS_PER_S, values)

    def _held(self, name: str, times: NDArray[np.int64]) -> Vector:
        out: Vector = np.full(len(times), np.nan)
        if (place := self._places.get(name)) is None:
            return out
        data, at = self._tracks[place.track], self._times[place.track]
        first = max(0, int(np.searchsorted(at, times[0], "right")) - _BACK)
        last = int(np.searchsorted(at, times[-1], "right"))
        words = np.asarray(data.words[first:last])
        if not len(words):
            return out
        head = 1 + len(data.integers)
        values = words[:, head + data.signals.columns.index(place.column)].copy().view(np.float64)
        since = words[:, 0]
        if "arrival" in data.integers:
            arrival = words[:, 1 + data.integers.index("arrival")]
            kept = np.flatnonzero(arrival >= 0)
            order = kept[np.argsort(arrival[kept], kind="stable")]
            since, values = arrival[order], values[order]
        rows = np.searchsorted(since, times, "right") - 1
        out[rows >= 0] = values[rows[rows >= 0]]
        return out

    def schedules(self) -> Sequence[ProcessorHistory]:
        return self._processors

    def tell(self, kind: str, **arguments: Any) -> str:
        here = self.ns
        if kind == "pause":
            self._standing, self._at = True, here
        elif kind == "resume":
            self._go_to(self._begin if here >= self._end else here)
            self._standing = False
        elif kind == "step":
            self._go_to(here + round(float(arguments.get("duration", 0.1)) * NS_PER_S))
            self._standing = True
        elif kind == "rate":
            rate = float(arguments["rate"])
            if not LEAST_RATE <= rate <= MOST_RATE or not math.isfinite(rate):
                raise ScenarioError(
                    f"rate {rate:g} is out of range; give {LEAST_RATE:g} to {MOST_RATE:g}"
                )
            self._go_to(here)
            self._rate = rate
        elif kind == "seek":
            self._go_to(int(arguments["ns"]))
        else:
            raise ScenarioError(f"a recording does not take the command {kind}")
        return f"at {self.ns / NS_PER_S:.3f} s"

    def close(self) -> None: ...


def _described(track: TrackData, place: Place) -> Signal:
    return next(signal for signal in track.signals if place.column in signal.columns)
