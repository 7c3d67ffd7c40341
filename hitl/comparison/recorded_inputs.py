"""Reads from a recording the inputs of a controller, and the signals to compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rtsim.components.controller import Controller
from rtsim.core.errors import RecordingError
from rtsim.core.signals import Signals
from rtsim.engine.trace import request_topic
from rtsim.record.reading import Recording, TrackData


def inputs_of(
    recording: Recording, name: str, layout: Signals, until_ns: int | None = None
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the inputs of controller ``name`` up to ``until_ns``: (k, m), ordered as ``layout``.

    The second result (k, 2) has the tag of each step: ns and microstep.  Raises
    :class:`RecordingError` if the recording does not have these inputs.
    """
    topic = f"messages/{request_topic(name)}"
    track = recording.tracks.get(topic)
    if track is None:
        known = [
            t.removeprefix("messages/").removesuffix(".inputs")
            for t in recording.tracks
            if t.startswith("messages/") and t.endswith(".inputs")
        ]
        raise RecordingError(
            f"{recording.source} contains no inputs of a controller {name}, but only of: "
            f"{', '.join(known) or 'none'}"
        )
    for column in layout.columns:
        if column not in track.signals.columns:
            raise RecordingError(
                f"{recording.source} has no input {column} of {name}; it has: "
                f"{', '.join(track.signals.columns)}"
            )
    order = [track.signals.columns.index(c) for c in layout.columns]
    tags = np.stack([track.integer("initiated"), track.integer("initiated_step")], axis=1)
    inside = np.ones(len(tags), np.bool_) if until_ns is None else tags[:, 0] <= until_ns
    if not inside.any():
        raise RecordingError(
            f"{recording.source} contains no inputs of {name} before the end time of the comparison"
        )
    return track.rows.floats[inside][:, order], tags[inside]


def signals_of(recording: Recording) -> list[str]:
    """Return the names of all signals that a comparison compares."""
    return [
        f"{t.name}.{s.name}"
        for t in recording.tracks.values()
        if t.spec.deterministic
        for s in t.signals
    ]


def in_terms_of(designs: Mapping[str, Controller], recording: Recording) -> Recording:
    """Return ``recording`` with units and kinds of the reference models where C states none."""
    tracks = dict(recording.tracks)
    for name, design in designs.items():
        for topic, layout in ((name, design.outputs), (request_topic(name), design.inputs)):
            track = tracks.get(f"messages/{topic}")
            if track is not None:
                tracks[track.name] = _relabelled(track, layout)
    return replace(recording, tracks=tracks)


def _relabelled(track: TrackData, layout: Signals) -> TrackData:
    signals = [
        replace(s, unit=layout[s.name].unit, kind=layout[s.name].kind) if s.name in layout else s
        for s in track.signals
    ]
    return replace(track, spec=replace(track.spec, signals=Signals(*signals)))
