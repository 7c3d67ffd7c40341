"""Statistics from a recording: latencies of a controller, and averages of outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.components.latency import Empirical
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.core.estimates import Estimate, batch_means, time_average
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.markup import duration, mapping, table
from rtsim.record.reading import Recording, TrackData

PREFIX = "measured/"
ARRIVED, TAKEN = "arrived", "taken"
"""Meanings of a controller's time stamp ``received``. The header contains one of the two."""
FEWEST = 100
"""Minimum number of answers. With fewer answers, no answer is beyond the 99th percentile."""
MOST = 4096
"""Maximum number of samples in a model. More samples are reduced to evenly spaced quantiles."""


@dataclass(frozen=True)
class MeasuredLatency:
    """The latencies of a controller's answers. A latency begins when the request is sent."""

    controller: str
    source: str
    answers: int
    late: int
    """Number of late answers, whose latencies are unknown."""
    to: str
    """Event at which a latency ends.

    ``"answer"``: the answer arrives in this process. ``"end"``: the controller's step ends.
    ``"wire"``: like ``"end"``, plus the transmission time of the answer on the line.
    ``"firmware"``: like ``"wire"``, plus the time that the firmware needs outside the step.
    """
    model: Empirical

    @property
    def in_words(self) -> str:
        model = self.model
        late = f"; {self.late} more were Late and are not included" if self.late else ""
        to = _IN_WORDS[self.to]
        return (
            f"n {self.answers}, median {duration(model.quantile(0.5))}, "
            f"p99 {duration(model.quantile(0.99))}, maximum {duration(max(model.samples))}"
            f"{to} ({self.controller} in {self.source}{late})"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "controller": self.controller,
            "recording": self.source,
            "n": self.answers,
            "late": self.late,
            "to": self.to,
            "median_ns": self.model.quantile(0.5),
            "p99_ns": self.model.quantile(0.99),
            "max_ns": max(self.model.samples),
        }


ANSWER, END, WIRE, FIRMWARE = "answer", "end", "wire", "firmware"
_IN_WORDS = {
    ANSWER: "",
    END: " to the end of the step",
    WIRE: " by execution and wire time",
    FIRMWARE: " by execution, firmware and wire time",
}


def measured_latency(recording: Recording, controller: str) -> MeasuredLatency:
    """Return the latencies of a controller's answers in a recorded run.

    Normally, a latency is the time from ``sent`` to ``received``.

    If the run read answers only when they were due, ``received`` is not the time of arrival. In
    this case, a latency is the time from ``sent`` to ``ended``. ``reply_ns`` (transmission of the
    answer) and ``handling_ns`` (the board's time outside the step) in the header are added to each
    latency.

    Raises ``RecordingError`` for fewer than 100 answers, and if ``ended`` is a time of another
    machine's clock.
    """
    track = _track(recording, controller)
    took, to = _took(recording, controller, track)
    if len(took) < FEWEST:
        cut = f" (it was cut off: {recording.truncated})" if recording.truncated else ""
        raise RecordingError(
            f"{recording.source} contains {len(took)} measured answers of {controller}{cut}; at "
            f"least {FEWEST} are needed: record a longer run"
        )
    if took.min() < 0:
        row = int(took.argmin())
        raise RecordingError(
            f"{recording.source}: in row {row} of {track.name} the time of the answer is "
            f"{-int(took[row])} ns before that of its request; the file is damaged"
        )
    late = sum(e.kind == "Late" and e.source == controller for e in recording.events)
    model = Empirical.of(_thinned(took).tolist(), f"{controller} in {recording.source}")
    return MeasuredLatency(controller, recording.source, len(took), late, to, model)


MOST_IN_TURN = 100_000
"""Maximum number of execution times that a scenario takes from a recording in turn."""


def measured_executions(recording: Recording, controller: str) -> tuple[int, ...]:
    """Return the execution time of each step of ``controller``, ns, in the order of its answers.

    A board measures these times by its own clock, and a controller in another process by the clock
    of its machine.

    Raises :class:`RecordingError` for a controller without measurements, and for more than
    :data:`MOST_IN_TURN` of them.
    """
    track = _track(recording, controller)
    took = track.integer("ended") - track.integer("begun")
    if not len(took) or not took.any() or took.min() < 0:
        raise RecordingError(
            f"{recording.source} has no usable execution times of {controller}: {len(took)} steps "
            f"took {f'{took.min()} to {took.max()} ns' if len(took) else 'no time'}"
        )
    if len(took) > MOST_IN_TURN:
        raise RecordingError(
            f"{recording.source} has {len(took)} execution times of {controller}, but at most "
            f"{MOST_IN_TURN} are kept in a recording; record a shorter run"
        )
    return tuple(took.tolist())


def _track(recording: Recording, controller: str) -> TrackData:
    known = [name.removeprefix(PREFIX) for name in recording.tracks if name.startswith(PREFIX)]
    if not known:
        raise RecordingError(
            f"{recording.source} contains no measured latencies: only external controllers are "
            "measured; run one with 'rtsim sil run' or 'rtsim pitl'"
        )
    if controller not in known:
        raise RecordingError(
            f"{recording.source} contains measured latencies of {', '.join(known)}, but not of "
            f"{controller}; type from:{recording.source}:{known[0]}"
        )
    return recording.track(PREFIX + controller)


def _took(recording: Recording, controller: str, track: TrackData) -> tuple[NDArray[np.int64], str]:
    sent, about = track.integer("sent"), _about(recording, controller)
    if about.get("received") == ARRIVED or _waited_for(recording, controller):
        return track.integer("received") - sent, ANSWER
    if "stamps" in about:
        raise RecordingError(
            f"{recording.source} does not contain the latencies of {controller}: the run read the "
            "answers only when they were due, and the ends of the steps were measured by the clock "
            "of another machine; record a run with --pace max and without --latency"
        )
    reply_ns, handling_ns = (int(about.get(key, 0)) for key in ("reply_ns", "handling_ns"))
    to = FIRMWARE if handling_ns else WIRE if reply_ns else END
    return track.integer("ended") - sent + reply_ns + handling_ns, to


def _waited_for(recording: Recording, controller: str) -> bool:
    answers = recording.track(f"messages/{controller}")
    at_once = bool((answers.integer("completed") == answers.ns).all())
    return at_once and recording.header.get("pace") == "max"


def _about(recording: Recording, controller: str) -> Mapping[str, Any]:
    part: Mapping[str, Any] = recording.header.get("scenario", {}).get("parts", {}).get(controller)
    return part or {}


def _thinned(took: NDArray[np.int64]) -> NDArray[np.int64]:
    if len(took) <= MOST:
        return took
    return np.sort(took)[np.linspace(0, len(took) - 1, MOST).round().astype(np.int64)]


# Averages of the outputs and messages of discrete-event components.

BATCHES = 20
_FEWEST = 10 * BATCHES


class Output(NamedTuple):
    """Statistics of an output over a run, after the warm-up."""

    name: str
    unit: str
    average: float
    """Average over time.

    The output has its declared initial value until the first message, and then the value of the
    latest message.
    """
    least: float
    greatest: float
    last: float


class PrintedOutput(NamedTuple):
    """Statistics of a signal of a topic, from all messages after the warm-up."""

    name: str
    unit: str
    messages: int
    least: float
    greatest: float
    estimate: Estimate | None
    """Estimate of the mean from batch means.

    The estimate is ``None`` if there are too few messages or a value is not finite.
    """
    mean: float


def outputs(recording: Recording, after_ns: int = 0) -> list[Output]:
    """Return statistics of the outputs of discrete-event components after ``after_ns`` (ns)."""
    return [
        _output(track, column, recording, after_ns)
        for name, _ in _processes(recording)
        if (track := recording.tracks.get(f"messages/{name}")) is not None
        if len(track) or not recording.continues
        for column in track.signals.columns
    ]


def said(recording: Recording, after_ns: int = 0) -> list[PrintedOutput]:
    """Return statistics of the messages of discrete-event components after ``after_ns`` (ns)."""
    return [
        _said(track, column, later)
        for _, part in _processes(recording)
        for topic in part.get("messages", ())
        for track in _output_tracks(recording, str(topic))
        if (later := track.ns >= after_ns).any()
        for column in track.signals.columns
    ]


def check_after(recording: Recording, after_ns: int) -> None:
    """Raise ``ScenarioError`` if the recording has no data after ``after_ns``."""
    if after_ns and not any(_processes(recording)):
        raise ScenarioError(
            f"{recording.source} has no discrete-event component, so rtsim computes no "
            "averages; leave --after out"
        )
    end = _end(recording)
    if after_ns and not 0 < after_ns < end:
        raise ScenarioError(
            f"--after {after_ns / NS_PER_S:g} s is outside {recording.source}, which ends at "
            f"{end / NS_PER_S:g} s; give an earlier time > 0"
        )


def _processes(recording: Recording) -> Iterator[tuple[str, Mapping[str, Any]]]:
    parts = mapping(mapping(recording.header.get("scenario")).get("parts"))
    for name, part in parts.items():
        if mapping(part).get("kind") == "processes":
            yield str(name), mapping(part)


def _output_tracks(recording: Recording, topic: str) -> Iterator[TrackData]:
    track = recording.tracks.get(f"messages/{topic}")
    if track is not None and len(track):
        yield track


def _end(recording: Recording) -> int:
    return max(int(mapping(recording.footer).get("ended", 0)), recording.end_ns)


def single(track: TrackData, column: str) -> Vector:
    """Return a column (n,); raise ``ScenarioError`` for an array signal."""
    values = track.column(column)
    if values.ndim > 1:
        names = track.signals[column].columns
        raise ScenarioError(
            f"{column} of {track.name} is an array; name one element: {names[0]} … {names[-1]}"
        )
    return values


def average(
    recording: Recording,
    track: TrackData,
    column: str,
    begin_ns: int = 0,
    before: float | None = None,
) -> float:
    """Return the time average of a column whose values are constant between rows.

    The average starts at ``begin_ns``. ``before`` is the value before the first row. The default is
    the declared initial value. Without ``before``, the average of a continued recording begins at
    the first row.
    """
    ns, values = _held(track, column)
    columns = track.signals.columns
    if recording.continues and before is None and len(ns):
        begin_ns = max(begin_ns, int(ns[0]))
    if before is None:
        before = float(track.signals.initial()[columns.index(column)]) if column in columns else 0.0
    return time_average(ns, values, begin_ns, _end(recording), before)


def _held(track: TrackData, column: str) -> tuple[NDArray[np.int64], Vector]:
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
    if recording.continues:  # the value before the first row is unknown
        after_ns = max(after_ns, int(ns[0]))
    first, behind = np.searchsorted(ns, (after_ns, _end(recording)), side="right")
    held = np.insert(values, 0, start)[
        first : behind + 1
    ]  # without messages that were in transit at the end
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
    """Return HTML tables with statistics of outputs and messages."""
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
        warm = "The averages include the warm-up; rtsim report --after SECONDS leaves it out."
        if after_ns:
            warm = f"The averages begin at {after_ns / NS_PER_S:g} s."
        out += f"<p class=soft>{warm}</p>"
    if held:
        heads = ("output", "time average", "least", "greatest", "final value", "unit")
        out += table(heads, held, numeric=1)
    if said_:
        names = ("message", "count", "mean", "± 95 %", "least", "greatest", "unit")
        out += "<h3>Values in messages</h3>" + table(names, said_, numeric=1)
        out += (
            f"<p class=soft>± is the half-width of a 95 % interval from {BATCHES} batch means."
            " For reliable intervals run replications: rtsim.testing.determinism.</p>"
        )
    return out


def as_json(recording: Recording, after_ns: int = 0) -> dict[str, Any]:
    """Return statistics of outputs and messages as plain data."""
    said_ = {s.name: s._asdict() for s in said(recording, after_ns)}
    for one in said_.values():
        estimate = one.pop("estimate")
        if estimate is not None:
            one |= {"half_width": estimate.half_width, "level": estimate.level}
    held = {o.name: o._asdict() for o in outputs(recording, after_ns)}
    for row in (*held.values(), *said_.values()):
        del row["name"]
    return {"after_s": after_ns / NS_PER_S, "outputs": held, "messages": said_}
