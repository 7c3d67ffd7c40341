"""Latencies of a controller, measured in a recorded run, as a latency model for another run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.components.latency import Empirical
from rtsim.core.errors import RecordingError
from rtsim.record.markup import duration
from rtsim.record.reading import Recording, TrackData

PREFIX = "measured/"
ARRIVED, TAKEN = "arrived", "taken"
"""Meanings of a controller's time stamp ``received``, one of which the header states."""
FEWEST = 100
"""Least number of answers: with fewer answers, none lies beyond the 99th percentile."""
MOST = 4096
"""Greatest number of samples in a model; from more answers, evenly spaced quantiles are taken."""


@dataclass(frozen=True)
class MeasuredLatency:
    """The latencies of a controller's ``answers``, measured from the sending of each request."""

    controller: str
    source: str
    answers: int
    late: int
    """Number of answers that were late; their latency is not known."""
    to: str
    """Up to which event a latency is measured.  ``"answer"``: the answer arrives in this process;
    ``"end"``: the controller's step ends; ``"wire"``: as ``"end"``, plus the time of the answer on
    the line; ``"firmware"``: as ``"wire"``, plus the firmware's time outside the step."""
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
    """Return the latencies of ``controller``'s answers in a recorded run.

    If the run waited for the answers, or if ``received`` is the arrival of the answer, a latency is
    the time from ``sent`` to ``received``.  If the run took answers only when they were due,
    ``received`` is not the time of arrival.  Then a latency is the time from ``sent`` to ``ended``,
    plus ``reply_ns`` (the answer's time on the line) and ``handling_ns`` (the board's time outside
    the step) if the header contains them.

    Raises :class:`RecordingError` if the controller was not measured, if there are fewer than 100
    answers, or if ``ended`` is of another machine's clock.
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


def _track(recording: Recording, controller: str) -> TrackData:
    known = [name.removeprefix(PREFIX) for name in recording.tracks if name.startswith(PREFIX)]
    if not known:
        raise RecordingError(
            f"{recording.source} contains no measured latencies: only external controllers are "
            "measured; run one with 'rtsim sil fly' or 'rtsim pitl'"
        )
    if controller not in known:
        raise RecordingError(
            f"{recording.source} contains measured latencies of {', '.join(known)}, but not of "
            f"{controller}; type from:{recording.source}:{known[0]}"
        )
    return recording.track(PREFIX + controller)


def _took(recording: Recording, controller: str, track: TrackData) -> tuple[NDArray[np.int64], str]:
    """Return the latency of each answer [ns], and the event up to which it is measured."""
    sent, about = track.integer("sent"), _about(recording, controller)
    if about.get("received") == ARRIVED or _waited_for(recording, controller):
        return track.integer("received") - sent, ANSWER
    if "stamps" in about:
        raise RecordingError(
            f"{recording.source} does not contain the latencies of {controller}: the run took its "
            "answers when they were due, and its other time stamps are of another machine's clock; "
            "record a run with --pace max and without --latency"
        )
    reply_ns, handling_ns = (int(about.get(key, 0)) for key in ("reply_ns", "handling_ns"))
    to = FIRMWARE if handling_ns else WIRE if reply_ns else END
    return track.integer("ended") - sent + reply_ns + handling_ns, to


def _waited_for(recording: Recording, controller: str) -> bool:
    """Return True if the run waited for each answer."""
    answers = recording.track(f"messages/{controller}")
    at_once = bool((answers.integer("completed") == answers.ns).all())
    return at_once and recording.header.get("pace") == "max"


def _about(recording: Recording, controller: str) -> Mapping[str, Any]:
    part: Mapping[str, Any] = recording.header.get("scenario", {}).get("parts", {}).get(controller)
    return part or {}


def _thinned(took: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all latencies, or ``MOST`` quantiles of them including the least and the greatest."""
    if len(took) <= MOST:
        return took
    return np.sort(took)[np.linspace(0, len(took) - 1, MOST).round().astype(np.int64)]
