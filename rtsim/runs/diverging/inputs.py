"""Find the inputs of the first computation whose results differ in two recordings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rtsim.components.bus import LOST
from rtsim.core.tag import Tag
from rtsim.engine.trace import request_topic
from rtsim.record.events import CHANGE
from rtsim.record.reading import Recording, TrackData
from rtsim.runs.diverging.first import (
    Order,
    Place,
    Value,
    ValuePair,
    columns,
    compared_events,
    in_words,
)

Named = dict[str, tuple[Value, str]]
"""Values by name, each with its source."""


class Teller:
    """Find the inputs of components in one of the two runs."""

    def __init__(self, recording: Recording, before: Mapping[str, Any] | None = None) -> None:
        self.recording = recording
        self._before = before
        """State at the last tag at which both runs agreed; used for values that are not
        recorded."""
        self._order = Order.of(recording)
        self._parts: Mapping[str, Any] = recording.header.get("scenario", {}).get("parts", {})

    def part(self, name: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._parts.get(name, {})
        return found

    def wires(self, name: str, tag: Tag) -> Named:
        """Return the input values of a component at ``tag``, before the reactions."""
        part = self.part(name)
        out: Named = {}
        for sink, source in sorted((part.get("sources") or part.get("inputs") or {}).items()):
            first = (part.get("before_messages") or {}).get(sink)
            for column, value in self._said(str(source), tag, name, first):
                out[column.replace(str(source), f"{name}.{sink}", 1)] = (value, str(source))
        return out

    def _said(
        self, source: str, tag: Tag, reader: str, first: float | list[float] | None
    ) -> list[tuple[str, Value]]:
        try:
            return [(source, float(source))]  # a constant
        except ValueError:
            part, _, signal = source.partition(".")
        kind = self.part(part).get("kind")
        if kind == "source":
            return self._value_of_source_or_parameter(part, signal, tag)
        if kind == "noise":
            return self._held(source)
        if kind == "inlet":
            given = self._row(f"inputs/{part}", tag, True)
            return self._in_row(f"inputs/{part}", source, given, first)
        if kind == "plant":
            return self._in_row(part, source, self._row(part, tag, False))
        arrived = self._arrived_last(part, tag, reader)
        return self._in_row(f"messages/{part}", source, arrived, first)

    def _value_of_source_or_parameter(
        self, part: str, signal: str, tag: Tag
    ) -> list[tuple[str, Value]]:
        name = f"{part}.{signal}"
        about = self.part(part)
        given = (about.get("values") or about.get("parameters") or {}).get(signal)
        values = [given] if isinstance(given, float | int) else list(given or ())
        for event in self.recording.events:
            if event.kind == CHANGE and event.source == name and event.tag <= tag:
                values = list(event.values.values())
        names = columns(name, len(values))
        return [(n, float(v)) for n, v in zip(names, values, strict=True)]

    def _held(self, source: str) -> list[tuple[str, Value]]:
        part, _, _ = source.partition(".")
        values = [] if self._before is None else self._before["ports"].get(part, [])
        if len(values) != 1:
            return [(source, None)]
        return [(source, float(values[0]))]

    def _track(self, name: str) -> TrackData | None:
        return self.recording.tracks.get(name)

    def _row(self, name: str, tag: Tag, after: bool) -> int | None:
        track = self._track(name)
        if track is None:
            return None
        ns, steps = track.ns, track.integer("step")
        here = steps <= tag.step if after else steps < tag.step
        if not after and "side" in track.integers:
            here |= track.integer("side") == 0
        rows = np.flatnonzero((ns < tag.ns) | ((ns == tag.ns) & here))
        return int(rows[-1]) if len(rows) else None

    def _arrived_last(self, topic: str, tag: Tag, reader: str) -> int | None:
        track = self._track(f"messages/{topic}")
        if track is None:
            return None
        ns, steps = track.integer("arrival"), track.integer("arrival_step")
        there = (ns < tag.ns) | ((ns == tag.ns) & (steps <= tag.step))
        if topic not in self._order.before.get(reader, ()):  # exclude an answer of this microstep
            at_once = (track.integer("initiated") == tag.ns) & (ns == tag.ns)
            there &= ~(at_once & (track.integer("initiated_step") == tag.step))
        rows = np.flatnonzero(there & (track.integer("status") != LOST))
        if not len(rows):
            return None
        return int(rows[np.lexsort((steps[rows], ns[rows]))[-1]])

    def _in_row(
        self, name: str, source: str, row: int | None, first: float | list[float] | None = None
    ) -> list[tuple[str, Value]]:
        track = self._track(name)
        part, _, signal = source.partition(".")
        if track is None or signal not in track.signals:
            return [(source, None)]
        where = track.signals.slice(signal)
        values = track.signals.initial() if row is None else track.values(row)
        found = values[where] if row is not None or first is None else np.ravel(first)
        names = (f"{part}.{column}" for column in track.signals[signal].columns)
        return [(n, float(v)) for n, v in zip(names, found, strict=True)]

    def row_before(self, plant: str, tag: Tag) -> tuple[Tag | None, Named]:
        """Return the last recorded row of a plant before ``tag``."""
        track = self._track(plant)
        if track is None:
            return None, {}
        rows = np.flatnonzero(track.ns < tag.ns)
        if not len(rows):
            return None, {}
        return track.tag(int(rows[-1])), self._all_of(track, plant, int(rows[-1]))

    def row_at(self, plant: str, tag: Tag, known: frozenset[str]) -> Named:
        """Return a plant's values before the changes at ``tag``, except those in ``known``."""
        track, row = self._track(plant), self._row(plant, tag, False)
        if track is None or row is None:
            return {}
        found = self._all_of(track, plant, row)
        return {n: v for n, v in found.items() if n.partition(".")[2] not in known}

    def _all_of(self, track: TrackData, plant: str, row: int) -> Named:
        values = track.values(row)
        sources: Mapping[str, str] = self.part(plant).get("inputs", {})
        return {
            f"{plant}.{column}": (float(v), str(sources.get(signal, "")))
            for (column, signal), v in zip(_signals(track).items(), values, strict=True)
        }

    def are_outputs(self, plant: str, columns: frozenset[str]) -> bool:
        track, part = self._track(plant), self.part(plant)
        known = {} if track is None else _signals(track)
        held = {n for kind in ("states", "discrete", "inputs") for n in part.get(kind, ())}
        return columns <= known.keys() and not held & {known[column] for column in columns}

    def request(self, controller: str, tag: Tag) -> Named:
        track = self._track(f"messages/{request_topic(controller)}")
        if track is None:
            return {}
        ns, steps = track.integer("initiated"), track.integer("initiated_step")
        rows = np.flatnonzero((ns == tag.ns) & (steps == tag.step))
        if not len(rows):
            return {}
        wired: Mapping[str, str] = self.part(controller).get("inputs", {})
        values = track.values(int(rows[-1]))
        return {
            f"{controller}.{column}": (float(v), str(wired.get(signal, "")))
            for (column, signal), v in zip(_signals(track).items(), values, strict=True)
        }

    def parameters(self, part: str, tag: Tag) -> Named:
        given: Mapping[str, Any] = self.part(part).get("parameters", {})
        return {
            column: (value, "parameter")
            for name in given
            for column, value in self._value_of_source_or_parameter(part, name, tag)
        }

    def arrived(self, tag: Tag) -> list[str]:
        out = []
        for name, track in sorted(self.recording.tracks.items()):
            topic = name.removeprefix("messages/")
            if topic == name or "." in topic:
                continue
            here = (track.integer("arrival") == tag.ns) & (track.integer("status") != LOST)
            out += [f"{topic} #{int(track.integer('sequence')[r])}" for r in np.flatnonzero(here)]
        return out

    def happened(self, tag: Tag) -> list[str]:
        """Return commands, changes, faults and controller failures at the time of ``tag``."""
        return [
            in_words(event) for event in compared_events(self.recording) if event.tag.ns == tag.ns
        ]


@dataclass(frozen=True)
class Feeding:
    """The inputs of the component in which two runs first differ."""

    at: Tag
    how: str
    """Text that names the computation which made the differing values from these inputs."""
    inputs: tuple[ValuePair, ...]
    arrived: tuple[list[str], list[str]]
    happened: tuple[list[str], list[str]]

    @property
    def equal(self) -> bool:
        """True if all inputs are equal, so that the component itself caused the difference."""
        return (
            all(pair.equal for pair in self.inputs)
            and self.arrived[0] == self.arrived[1]
            and self.happened[0] == self.happened[1]
        )


def fed(place: Place, a: Teller, b: Teller) -> Feeding:
    """Return the inputs of the computation at ``place`` in both runs."""
    at, how = place.tag, ""
    named: list[Named] = []
    for teller in (a, b):
        at, how, one = _of(place, teller)
        named.append(one)
    names = [*named[0], *(n for n in named[1] if n not in named[0])]
    pairs = tuple(
        ValuePair(n, named[0].get(n, (None,))[0], named[1].get(n, (None,))[0],
             (named[0].get(n) or named[1][n])[1])
        for n in names
    )  # fmt: skip
    return Feeding(at, how, pairs, (a.arrived(at), b.arrived(at)), (a.happened(at), b.happened(at)))


def _of(place: Place, run: Teller) -> tuple[Tag, str, Named]:
    name, tag = place.name, place.tag
    kind = run.part(name).get("kind")
    if kind == "plant" and place.moment == "x+":
        parameters = run.parameters(name, tag)
        now = {**run.wires(name, tag), **run.row_at(name, tag, frozenset()), **parameters}
        return tag, f"the inputs and state of {name} at {tag}", now
    if kind == "plant":
        differ = frozenset(pair.name for pair in place.pairs)
        if place.what == "plant" and run.are_outputs(name, differ):
            now = run.row_at(name, tag, differ)
            return tag, f"the outputs of {name}, computed from its state at {tag}", {
                **now, **run.parameters(name, tag),
            }  # fmt: skip
        before, held = run.row_before(name, tag)
        at = tag if before is None else before
        return at, f"the step of {name} from {at} to {tag}", {**held, **run.parameters(name, at)}
    if place.what in ("message", "memory") and kind == "controller":
        initiated = place.initiated or tag
        inputs = {**run.request(name, initiated), **run.parameters(name, initiated)}
        if place.moment == "on its way":
            return tag, f"the transport of a message of {name}, sent at {tag}", inputs
        return initiated, f"the computation of {name} from its samples at {initiated}", inputs
    if kind in ("controller", "sensor"):
        wires = run.wires(name, place.initiated or tag)
        if place.moment == "on its way":
            return tag, f"the transport of a message of {name}, sent at {tag}", wires
        return tag, f"the samples of {name} at {tag}", wires
    if place.what == "input":
        return tag, f"the value that the device of {name} gave at {tag}", {}
    return tag, f"the events at {tag}", {}


def _signals(track: TrackData) -> dict[str, str]:
    return {column: signal.name for signal in track.signals for column in signal.columns}
