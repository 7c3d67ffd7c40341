"""How long a controller's answers took in a recorded run, as a latency model of the next one."""

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
"""What a controller's header says of the stamp ``received``."""
FEWEST = 100
"""Below that, none of them lies beyond a p99."""
MOST = 4096
"""Samples of a model; of more answers, as many evenly spread order statistics are kept."""


@dataclass(frozen=True)
class MeasuredLatency:
    """What ``answers`` of a controller took, from the sending of each request."""

    controller: str
    source: str
    answers: int
    late: int
    """Answers that were not there when due: how long they took is not known."""
    to: str
    """Up to what: the ``"answer"`` here, the ``"end"`` of its step over there, or that and the
    answer's time on the ``"wire"``, with what the ``"firmware"`` takes beside the step."""
    model: Empirical

    @property
    def in_words(self) -> str:
        model = self.model
        late = f"; {self.late} more were Late, and are not in it" if self.late else ""
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
    """The latencies of ``controller``'s answers; :class:`RecordingError` where there are too few.

    A request that was waited for took from ``sent`` to ``received``; so did one whose controller
    says that ``received`` is when the answer ``arrived``.  Where answers are taken when they are
    due, ``received`` says no more than that; then ``ended`` counts, unless it is of another
    machine's clock, and ``reply_ns`` and ``handling_ns`` are added where the controller knows them:
    an answer's time on the wire, and what a board takes beside the step that it reports.
    """
    track = _track(recording, controller)
    took, to = _took(recording, controller, track)
    if len(took) < FEWEST:
        cut = f" (it is cut off: {recording.truncated})" if recording.truncated else ""
        raise RecordingError(
            f"{recording.source} measured {len(took)} answers of {controller}{cut}; "
            f"{FEWEST} are needed: fly longer"
        )
    if took.min() < 0:
        row = int(took.argmin())
        raise RecordingError(
            f"{recording.source}: row {row} of {track.name} says that an answer was there "
            f"{-int(took[row])} ns before it was asked for; the file is damaged"
        )
    late = sum(e.kind == "Late" and e.source == controller for e in recording.events)
    model = Empirical.of(_thinned(took).tolist(), f"{controller} in {recording.source}")
    return MeasuredLatency(controller, recording.source, len(took), late, to, model)


def _track(recording: Recording, controller: str) -> TrackData:
    known = [name.removeprefix(PREFIX) for name in recording.tracks if name.startswith(PREFIX)]
    if not known:
        raise RecordingError(
            f"{recording.source} measured nothing: only a controller that runs outside is; "
            "fly one with 'rtsim sil fly' or 'rtsim pitl'"
        )
    if controller not in known:
        raise RecordingError(
            f"{recording.source} measured {', '.join(known)}, not {controller}; "
            f"type from:{recording.source}:{known[0]}"
        )
    return recording.track(PREFIX + controller)


def _took(recording: Recording, controller: str, track: TrackData) -> tuple[NDArray[np.int64], str]:
    """Of each answer [ns], and up to what."""
    sent, about = track.integer("sent"), _about(recording, controller)
    if about.get("received") == ARRIVED or _waited_for(recording, controller):
        return track.integer("received") - sent, ANSWER
    if "stamps" in about:
        raise RecordingError(
            f"{recording.source}: the answers of {controller} were taken when they were due, and "
            "its other stamps are of another clock, so how long they took is not in it; "
            "fly it with --pace max and no --latency"
        )
    reply_ns, handling_ns = (int(about.get(key, 0)) for key in ("reply_ns", "handling_ns"))
    to = FIRMWARE if handling_ns else WIRE if reply_ns else END
    return track.integer("ended") - sent + reply_ns + handling_ns, to


def _waited_for(recording: Recording, controller: str) -> bool:
    """Whether somebody stood there when the answers came."""
    answers = recording.track(f"messages/{controller}")
    at_once = bool((answers.integer("completed") == answers.ns).all())
    return at_once and recording.header.get("pace") == "max"


def _about(recording: Recording, controller: str) -> Mapping[str, Any]:
    part: Mapping[str, Any] = recording.header.get("scenario", {}).get("parts", {}).get(controller)
    return part or {}


def _thinned(took: NDArray[np.int64]) -> NDArray[np.int64]:
    """As they are, or ``MOST`` of them in order, the least and the greatest among them."""
    if len(took) <= MOST:
        return took
    return np.sort(took)[np.linspace(0, len(took) - 1, MOST).round().astype(np.int64)]
