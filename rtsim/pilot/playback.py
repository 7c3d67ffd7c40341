"""A recording as pictures see it: every plant at any moment, and what went before.

Nothing is simulated: between two recorded states the same interpolation is used as in flight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rtsim.core.errors import RecordingError, RtsimError
from rtsim.pilot.cues import checked
from rtsim.pilot.flights import seen_as
from rtsim.pilot.interpolation import Interpolation, StatePair
from rtsim.pilot.scenes.scene import SceneMoment, ScenePast, Shown
from rtsim.record.reading import Recording, TrackData
from rtsim.scenario.shown import Cue

LEAST_RATE, MOST_RATE = 1.0 / 1024.0, 65536.0
_POINTS = 1000
"""Of a trace: more than a strip has pixels."""
_INPUTS = "inputs/"


class Playback:
    """``first_ns`` to ``end_ns`` of a recording; :class:`RecordingError` where there is nothing."""

    def __init__(self, recording: Recording) -> None:
        self._plants = {
            name: _Plant(track)
            for name, track in sorted(recording.tracks.items())
            if "side" in track.integers and len(track)
        }
        if not self._plants:
            raise RecordingError(f"nothing to show: {recording.source} holds no state of a plant")
        self._inputs = [
            track for name, track in sorted(recording.tracks.items()) if name.startswith(_INPUTS)
        ]
        self.about = _about(recording.header)
        if self.about.get("plant", "") not in ("", *self._plants):  # its scene would look in vain
            self.about.pop("scene", None)
        self.cues = _cues(recording, self._plants)
        self.first_ns = min(plant.first_ns for plant in self._plants.values())
        self.end_ns = max(plant.end_ns for plant in self._plants.values())

    def at(self, ns: int, span: int) -> SceneMoment:
        """As of ``ns``, and traces of ``span`` ns up to then."""
        return SceneMoment(
            {name: plant.at(ns) for name, plant in self._plants.items()},
            stick=self._stick(ns),
            past={name: plant.past(ns, span) for name, plant in self._plants.items()},
        )

    def _stick(self, ns: int) -> dict[str, float]:
        """What stood at the external inputs."""
        out: dict[str, float] = {}
        for track in self._inputs:
            row = int(np.searchsorted(track.ns, ns, side="right")) - 1
            values = track.rows.floats[row] if row >= 0 else track.signals.initial()
            out.update(zip(track.signals.columns, values.tolist(), strict=True))
        return out


def _about(header: Mapping[str, Any]) -> dict[str, Any]:
    """What a window is told; a recording of version 0.1 does not name its scene."""
    reference = str(header.get("scenario", {}).get("origin", {}).get("reference", ""))
    shown = header.get("shown")
    if isinstance(shown, Mapping):
        return {**shown, "scenario": reference}
    return seen_as(reference)


def _cues(recording: Recording, plants: Mapping[str, _Plant]) -> tuple[Cue, ...]:
    """What warned in flight; without those of a recording that was changed by hand."""
    try:
        cues = [Cue.from_plain(plain) for plain in recording.header.get("cues", ())]
        return checked(cues, {name: plant.signals for name, plant in plants.items()})
    except (RtsimError, TypeError, AttributeError):
        return ()


class _Plant:
    """Its rows: x- and x+ of a tag lie side by side, in this order."""

    def __init__(self, track: TrackData) -> None:
        rows = track.rows
        self._ns, self._values = np.ascontiguousarray(rows.ns), rows.floats
        self._between = Interpolation(track.signals)
        self.signals = track.signals
        self.first_ns, self.end_ns = int(self._ns[0]), int(self._ns[-1])

    def at(self, ns: int) -> Shown:
        """From the state after the last tag to the one before the changes of the next."""
        ns = min(max(ns, self.first_ns), self.end_ns)
        behind = int(np.searchsorted(self._ns, ns, side="right"))
        last, next_ = behind - 1, min(behind, len(self._ns) - 1)
        ends = int(self._ns[last]), int(self._ns[next_])
        pair = StatePair(*ends, *ends, False, self._values[last], self._values[next_])
        share = 0.0 if ends[0] == ends[1] else (ns - ends[0]) / (ends[1] - ends[0])
        between = self._between
        return Shown(between.signals, between.at(pair, share), between.slope(pair), ns)

    def past(self, ns: int, span: int) -> ScenePast:
        """Rows from ``span`` before ``ns`` to there; every k-th of many, the same at each look."""
        ns = min(max(ns, self.first_ns), self.end_ns)
        first, behind = (int(np.searchsorted(self._ns, at, side="right")) for at in (ns - span, ns))
        every = 1
        while (behind - first) // every > _POINTS:
            every *= 2
        rows = np.arange(-(-max(0, first - 1) // every) * every, behind, every)
        times = np.append(self._ns[rows], ns)
        values = np.vstack((self._values[rows], self.at(ns).values))
        return ScenePast(times, values, span)
