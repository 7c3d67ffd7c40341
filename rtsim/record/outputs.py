"""What discrete-event parts came to: averages of their outputs, and of what their messages say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.estimates import Estimate, batch_means, time_average
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.markup import mapping, table
from rtsim.record.reading import Recording, TrackData

BATCHES = 20
_FEWEST = 10 * BATCHES
"""Messages below which no interval is given."""


class Output(NamedTuple):
    """One output over a run, without its warm-up."""

    name: str
    unit: str
    average: float
    """Over time: each value holds until the next message arrives."""
    least: float
    greatest: float
    last: float


class PrintedOutput(NamedTuple):
    """One signal of a topic, over all messages that were sent when the run had warmed up."""

    name: str
    unit: str
    messages: int
    least: float
    greatest: float
    estimate: Estimate | None
    """Of the mean, from batches of neighbours; none where there are too few, or none varies."""
    mean: float


def outputs(recording: Recording, after_ns: int = 0) -> list[Output]:
    """Of every discrete-event part, by ``part.column``, from ``after_ns`` on."""
    return [
        _output(track, column, recording, after_ns)
        for name, _ in _processes(recording)
        for track in _track(recording, name)
        for column in track.signals.columns
    ]


def said(recording: Recording, after_ns: int = 0) -> list[PrintedOutput]:
    """Of every topic of theirs, by ``topic.column``: messages initiated from ``after_ns`` on."""
    return [
        _said(track, column, later)
        for _, part in _processes(recording)
        for topic in part.get("messages", ())
        for track in _track(recording, str(topic))
        if (later := track.ns >= after_ns).any()
        for column in track.signals.columns
    ]


def check_after(recording: Recording, after_ns: int) -> None:
    """Raise :class:`ScenarioError` where nothing would be left, or nothing can be left out."""
    if after_ns and not any(_processes(recording)):
        raise ScenarioError(
            f"{recording.source} has no discrete-event part, so no averages; leave --after out"
        )
    end = _end(recording)
    if after_ns and not 0 < after_ns < end:
        raise ScenarioError(
            f"averages after {after_ns / NS_PER_S:g} s of {recording.source}, which ends at "
            f"{end / NS_PER_S:g} s; give --after a time within it"
        )


def _processes(recording: Recording) -> Iterator[tuple[str, Mapping[str, Any]]]:
    parts = mapping(mapping(recording.header.get("scenario")).get("parts"))
    for name, part in parts.items():
        if mapping(part).get("kind") == "processes":
            yield str(name), mapping(part)


def _track(recording: Recording, topic: str) -> Iterator[TrackData]:
    track = recording.tracks.get(f"messages/{topic}")
    if track is not None and len(track):
        yield track


def _end(recording: Recording) -> int:
    return max(int(mapping(recording.footer).get("ended", 0)), recording.end_ns)


def single(track: TrackData, column: str) -> Vector:
    """One column (n,); :class:`ScenarioError` for all of an array."""
    values = track.column(column)
    if values.ndim > 1:
        names = track.signals[column].columns
        raise ScenarioError(
            f"{column} of {track.name} is an array; ask for one element: {names[0]} … {names[-1]}"
        )
    return values


def average(
    recording: Recording,
    track: TrackData,
    column: str,
    begin_ns: int = 0,
    before: float | None = None,
) -> float:
    """Over time, of a column that holds from each row, or each message's arrival, to the next.

    ``before`` held before the first; as declared, where it is not given.  Of a recording that goes
    on from a checkpoint nobody knows it: there the average begins with the first.
    """
    ns, values = _held(track, column)
    columns = track.signals.columns
    if recording.continues and before is None and len(ns):
        begin_ns = max(begin_ns, int(ns[0]))
    if before is None:
        before = float(track.signals.initial()[columns.index(column)]) if column in columns else 0.0
    return time_average(ns, values, begin_ns, _end(recording), before)


def _held(track: TrackData, column: str) -> tuple[NDArray[np.int64], Vector]:
    """From when [ns] each value holds: a row's time, or a message's arrival, where it had one."""
    values = single(track, column)
    if "arrival" not in track.integers:
        return track.ns, values
    arrival = track.integer("arrival")
    order = np.argsort(arrival, kind="stable")
    order = order[arrival[order] >= 0]
    return arrival[order], values[order]


def _output(track: TrackData, column: str, recording: Recording, after_ns: int) -> Output:
    ns, values = _held(track, column)
    start = float(track.signals.initial()[track.signals.columns.index(column)])
    name = f"{track.name.removeprefix('messages/')}.{column}"
    held = np.insert(values, 0, start)[np.searchsorted(ns, after_ns, side="right") :]
    over = average(recording, track, column, after_ns) if _end(recording) > 0 else start
    unit = track.spec.units[column]
    return Output(name, unit, over, float(held.min()), float(held.max()), float(held[-1]))


def _said(track: TrackData, column: str, later: NDArray[np.bool_]) -> PrintedOutput:
    values = track.column(column)[later]
    name = f"{track.name.removeprefix('messages/')}.{column}"
    many = len(values) >= _FEWEST and np.isfinite(values).all()
    estimate = batch_means(values, BATCHES) if many else None
    least, greatest = float(values.min()), float(values.max())
    unit = track.spec.units[column]
    return PrintedOutput(name, unit, len(values), least, greatest, estimate, float(values.mean()))


def section(recording: Recording, after_ns: int = 0) -> str:
    """Both as tables of the report; empty where there are no such parts."""
    held = [
        (o.name, *(f"{v:.6g}" for v in (o.average, o.least, o.greatest, o.last)), o.unit)
        for o in outputs(recording, after_ns)
    ]
    said_ = [
        (s.name, s.messages, f"{s.mean:.6g}", "" if s.estimate is None else
         f"{s.estimate.half_width:.3g}", f"{s.least:.6g}", f"{s.greatest:.6g}", s.unit)
        for s in said(recording, after_ns)
    ]  # fmt: skip
    out = ""
    if held or said_:
        warm = "The warm-up is in it; rtsim report --after SECONDS leaves it out."
        if after_ns:
            warm = f"From {after_ns / NS_PER_S:g} s on, without what was before."
        out += f"<p class=soft>{warm}</p>"
    if held:
        heads = ("output", "average over time", "least", "greatest", "at the end", "unit")
        out += table(heads, held, numeric=1)
    if said_:
        names = ("message", "count", "mean", "± 95 %", "least", "greatest", "unit")
        out += "<h3>What messages say</h3>" + table(names, said_, numeric=1)
        out += (
            f"<p class=soft>± from {BATCHES} batches of neighbours."
            " For an answer that is to hold, replications: rtsim.testing.replications.</p>"
        )
    return out


def as_json(recording: Recording, after_ns: int = 0) -> dict[str, Any]:
    """Both by name, and the s from which on."""
    said_ = {s.name: s._asdict() for s in said(recording, after_ns)}
    for one in said_.values():
        estimate = one.pop("estimate")
        if estimate is not None:
            one |= {"half_width": estimate.half_width, "level": estimate.level}
    held = {o.name: o._asdict() for o in outputs(recording, after_ns)}
    for row in (*held.values(), *said_.values()):
        del row["name"]
    return {"after_s": after_ns / NS_PER_S, "outputs": held, "messages": said_}
