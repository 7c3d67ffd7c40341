"""Values of all components in a recording.

Plants, controllers, sensors, processes and external inputs have tracks. Values of sources and
parameters are taken from the header and from the recorded changes. Any other component, such as
noise, has a track only if a fault changes its values. The values of a component without a track are
taken from the recorded inputs of another component.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.record.events import Event
from rtsim.record.schema import TrackSpec

MESSAGES = "messages/"
"""Prefix of the names of tracks with messages."""
INPUTS = "inputs/"
"""Prefix of the names of tracks with external inputs."""
GIVEN = "values/"
"""Prefix of the names of tracks with a component's own values, used in runs with faults."""
SAMPLED = ".inputs"
"""Suffix of the names of tracks with the inputs of a controller."""
PARAMETERS = ".parameters"
"""Suffix of the name that groups the parameters of a component."""
_BEFORE_THE_RUN = -1
_OTHER = ("measured/", "stamps/", "jobs/")


class Rows(Protocol):
    """Rows of a component: times (n,) in ns, and columns by name."""

    @property
    def spec(self) -> TrackSpec: ...

    @property
    def integers(self) -> tuple[str, ...]: ...

    @property
    def signals(self) -> Signals: ...

    @property
    def ns(self) -> NDArray[np.int64]: ...

    def column(self, name: str) -> Vector: ...

    def integer(self, name: str) -> NDArray[np.int64]: ...


class Recorded(Protocol):
    """Interface of recordings for ``values_of``."""

    @property
    def header(self) -> Mapping[str, Any]: ...

    @property
    def tracks(self) -> Mapping[str, Rows]: ...

    @property
    def changes(self) -> Sequence[Event]:
        """All changes of values since the start of the run."""
        ...


class Values(NamedTuple):
    """Values of a component. The values of a row are valid until the time of the next row."""

    name: str
    """Prefix of the column names: ``cart``, ``brake.inputs`` or ``cart.parameters``."""
    rows: Rows
    listed: bool = True
    """True if a table without names includes these signals."""
    timed: bool = True
    """True if a table includes the times of these rows.

    Values that change only by recorded changes are valid at all times, so their times are not
    included.
    """
    begins: bool = False
    """True if the signals have their declared initial values before the first row."""
    read: bool = False
    """True if the values are those that another component read."""


@dataclass(frozen=True)
class _Set:
    """Values that change only by recorded changes: ``values`` (k, n) from ``ns`` (k,) on."""

    spec: TrackSpec
    ns: NDArray[np.int64]
    values: NDArray[np.float64]

    integers = ()

    @property
    def signals(self) -> Signals:
        return self.spec.signals

    def column(self, name: str) -> Vector:
        if name in self.signals and self.signals[name].shape:
            return self.values[:, self.signals.slice(name)]
        found: Vector = self.values[:, self.signals.columns.index(name)]
        return found

    def integer(self, name: str) -> NDArray[np.int64]:
        raise UnknownName("integer column", name, (), self.spec.name)


@dataclass(frozen=True)
class _Read:
    spec: TrackSpec
    of: Rows
    sinks: Mapping[str, str]
    """For each column of the signal, the column of the component that read it."""

    @property
    def integers(self) -> tuple[str, ...]:
        return self.of.integers

    @property
    def signals(self) -> Signals:
        return self.spec.signals

    @property
    def ns(self) -> NDArray[np.int64]:
        return self.of.ns

    def column(self, name: str) -> Vector:
        return self.of.column(self.sinks[name])

    def integer(self, name: str) -> NDArray[np.int64]:
        return self.of.integer(name)


def values_of(recording: Recorded) -> list[Values]:
    """Return the values of all components. Components with a track come first."""
    out = [
        Values(
            owner,
            recording.tracks[name],
            listed=not name.endswith(SAMPLED),
            begins=name.startswith((MESSAGES, INPUTS, GIVEN)) and not name.endswith(SAMPLED),
        )
        for owner, name in owners(recording.tracks)
    ]
    out += _set(recording)
    known = {one.name for one in out}
    return out + [one for one in _read(recording) if one.name not in known]


def owners(tracks: Mapping[str, Rows]) -> Iterator[tuple[str, str]]:
    """Yield the component and the name of each track.

    The track ``c.inputs`` contains the sampled inputs of the controller ``c``.
    """
    for name, track in tracks.items():
        if track.signals.size and not name.startswith(_OTHER):
            yield name.removeprefix(MESSAGES).removeprefix(INPUTS).removeprefix(GIVEN), name


def described(header: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    parts = _mapping(_mapping(header.get("scenario")).get("parts"))
    return {name: part for name, part in parts.items() if isinstance(part, Mapping)}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


# Values of sources and parameters, which change only by recorded changes.


def _set(recording: Recorded) -> Iterator[Values]:
    changeable = _mapping(recording.header.get("changeable"))
    begun = _mapping(_mapping(recording.header.get("continues")).get("values"))
    tracks = {owner for owner, _ in owners(recording.tracks)}
    changes: dict[str, list[Event]] = {}
    for event in recording.changes:
        changes.setdefault(event.source, []).append(event)
    for name, part in described(recording.header).items():
        source = part.get("kind") == "source" and name not in tracks
        given = _mapping(part.get("values" if source else "parameters"))
        first: dict[Signal, Vector] = {}
        for key, value in given.items():
            about = changeable.get(f"{name}.{key}")
            values = _numbers(begun.get(f"{name}.{key}", value))
            if isinstance(about, Mapping) and values is not None:
                signal = Signal(key, str(about["unit"]), shape=tuple(map(int, about["shape"])))
                if values.size == signal.size:
                    first[signal] = values.ravel()
        if first:
            title = name if source else name + PARAMETERS
            yield Values(title, _rows(name, first, changes), listed=source, timed=False)


def _rows(
    name: str, first: Mapping[Signal, Vector], changes: Mapping[str, Sequence[Event]]
) -> _Set:
    layout = Signals(*first)
    told = sorted(
        (
            (event.tag, order, signal.name, values)
            for signal in layout
            for order, event in enumerate(changes.get(f"{name}.{signal.name}", ()))
            if (values := _changed(event, signal)) is not None
        ),
        key=lambda one: one[:2],
    )
    out = np.empty((1 + len(told), layout.size))
    out[0] = np.concatenate(list(first.values()))
    for row, (_, _, signal_name, values) in enumerate(told, start=1):
        out[row] = out[row - 1]
        out[row, layout.slice(signal_name)] = values
    ns = np.array([_BEFORE_THE_RUN, *(tag.ns for tag, *_ in told)], np.int64)
    return _Set(TrackSpec(name, (), layout), ns, out)


def _numbers(value: object) -> NDArray[np.float64] | None:
    if value is None:
        return None
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return found if found.size else None


def _changed(event: Event, signal: Signal) -> Vector | None:
    values = _numbers(list(event.values.values()))
    return values if values is not None and values.size == signal.size else None


# Signals of components without a track, such as noise, as recorded by other components.


class _Wire(NamedTuple):
    source: str
    rows: Rows
    sink: str


def _wires(recording: Recorded) -> Iterator[_Wire]:
    tracks = recording.tracks
    parts = described(recording.header)
    for kind in ("plant", "controller", "sensor"):
        for name, part in parts.items():
            if part.get("kind") != kind:
                continue
            track = {"plant": name, "sensor": MESSAGES + name}.get(kind, MESSAGES + name + SAMPLED)
            wires = part.get("sources" if kind == "sensor" else "inputs")
            if track in tracks and isinstance(wires, Mapping):
                for sink, source in wires.items():
                    if isinstance(source, str) and sink in tracks[track].signals:
                        yield _Wire(source, tracks[track], sink)


def _read(recording: Recorded) -> Iterator[Values]:
    found: dict[tuple[str, str], dict[str, _Wire]] = {}
    seen: set[str] = set()
    parts = described(recording.header)
    for wire in _wires(recording):
        owner = wire.source.partition(".")[0]
        if owner in parts and wire.source not in seen:  # a source can be a number
            seen.add(wire.source)
            found.setdefault((owner, wire.rows.spec.name), {})[wire.source] = wire
    for (owner, _), wires in found.items():
        signals: list[Signal] = []
        sinks: dict[str, str] = {}
        for source, wire in wires.items():
            sink = wire.rows.signals[wire.sink]
            signal = replace(sink, name=source.partition(".")[2])
            if sinks.keys().isdisjoint(
                signal.columns
            ):  # the elements of an array may be read separately
                signals.append(signal)
                sinks |= {signal.name: sink.name}
                sinks |= dict(zip(signal.columns, sink.columns, strict=True))
        rows = next(iter(wires.values())).rows
        spec = TrackSpec(owner, rows.integers, Signals(*signals))
        yield Values(owner, _Read(spec, rows, sinks), read=True)


def names_of(values: Iterable[Values]) -> dict[str, list[str]]:
    """Return the names of the signals of each component, with inputs and parameters."""
    out: dict[str, list[str]] = {}
    for one in values:
        owner = one.name.removesuffix(SAMPLED).removesuffix(PARAMETERS)
        known = out.setdefault(owner, [])
        known += [name for name in one.rows.signals.names if name not in known]
    return out
