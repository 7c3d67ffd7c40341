"""What discrete-event parts came to: averages of their outputs, and of what their messages say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from rtsim.estimates import Estimate, batch_means, time_average
from rtsim.record.markup import mapping
from rtsim.record.reading import Recording, TrackData

BATCHES = 20
_FEWEST = 10 * BATCHES
"""Messages below which no interval is given."""


class Output(NamedTuple):
    """One output over a run, from its start."""

    name: str
    unit: str
    average: float
    """Over time: each value holds until the next message arrives."""
    least: float
    greatest: float
    last: float


class Said(NamedTuple):
    """One signal of a topic, over all messages that were sent."""

    name: str
    unit: str
    messages: int
    least: float
    greatest: float
    estimate: Estimate | None
    """Of the mean, from batches of neighbours; none where there are too few, or none varies."""
    mean: float


def outputs(recording: Recording) -> list[Output]:
    """Of every discrete-event part, by ``part.column``."""
    return [
        _output(track, column, recording)
        for name, _ in _processes(recording)
        for track in _track(recording, name)
        for column in track.signals.columns
    ]


def said(recording: Recording) -> list[Said]:
    """Of every topic of theirs, by ``topic.column``."""
    return [
        _said(track, column)
        for _, part in _processes(recording)
        for topic in part.get("messages", ())
        for track in _track(recording, str(topic))
        for column in track.signals.columns
    ]


def _processes(recording: Recording) -> Iterator[tuple[str, Mapping[str, Any]]]:
    parts = mapping(mapping(recording.header.get("scenario")).get("parts"))
    for name, part in parts.items():
        if mapping(part).get("kind") == "processes":
            yield str(name), mapping(part)


def _track(recording: Recording, topic: str) -> Iterator[TrackData]:
    track = recording.tracks.get(f"messages/{topic}")
    if track is not None and len(track):
        yield track


def _output(track: TrackData, column: str, recording: Recording) -> Output:
    arrival = track.integer("arrival")
    there = arrival >= 0
    values = track.column(column)[there]
    start = float(track.signals.initial()[track.signals.columns.index(column)])
    end = max(int(mapping(recording.footer).get("ended", 0)), recording.end_ns)
    name = f"{track.name.removeprefix('messages/')}.{column}"
    every = np.append(values, start)
    average = time_average(arrival[there], values, 0, end, start) if end > 0 else start
    last = float(values[-1]) if len(values) else start
    unit = track.spec.units[column]
    return Output(name, unit, average, float(every.min()), float(every.max()), last)


def _said(track: TrackData, column: str) -> Said:
    values = track.column(column)
    name = f"{track.name.removeprefix('messages/')}.{column}"
    estimate = batch_means(values, BATCHES) if len(values) >= _FEWEST else None
    least, greatest = float(values.min()), float(values.max())
    unit = track.spec.units[column]
    return Said(name, unit, len(values), least, greatest, estimate, float(values.mean()))
