"""Play back a recording: states of all plants and their past values.

Nothing is simulated. States between recorded rows are interpolated as in a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rtsim.core.errors import RecordingError, RtsimError
from rtsim.pilot.cues import checked_signals
from rtsim.pilot.interpolation import Interpolation, StatePair
from rtsim.pilot.scenes.scene import SceneMoment, ScenePast, Shown
from rtsim.pilot.views import default_scene, with_views
from rtsim.record.reading import Recording, TrackData
from rtsim.scenario.shown import BODIES, Cue

LEAST_RATE, MOST_RATE = 1.0 / 1024.0, 65536.0
_POINTS = 1000
"""Limit of the points of a trace. A strip chart has fewer pixels."""
_INPUTS = "inputs/"


class Playback:
    """The states in a recording from ``first_ns`` to ``end_ns`` (simulated ns).

    Raises :class:`RecordingError` if the recording contains no state of a plant.
    """

    def __init__(self, recording: Recording) -> None:
        self._plants = {
            name: _Plant(track)
            for name, track in sorted(recording.tracks.items())
            if "side" in track.integers and len(track)
        }
        if not self._plants:
            raise RecordingError(
                f"{recording.source} cannot be shown in a window, because it contains no state of "
                "a plant"
            )
        self._inputs = [
            track for name, track in sorted(recording.tracks.items()) if name.startswith(_INPUTS)
        ]
        self.about = _about(recording.header)
        if self.about.get("plant", "") not in ("", *self._plants):  # the scene needs this plant
            self.about.pop("scene", None)
        self.cues = _cues(recording, self._plants)
        self.first_ns = min(plant.first_ns for plant in self._plants.values())
        self.end_ns = max(plant.end_ns for plant in self._plants.values())

    def at(self, ns: int, span: int) -> SceneMoment:
        """Return the states at the simulated time ``ns``, with past values over ``span`` ns."""
        return SceneMoment(
            {name: plant.at(ns) for name, plant in self._plants.items()},
            stick=self._stick(ns),
            past={name: plant.past(ns, span) for name, plant in self._plants.items()},
        )

    def _stick(self, ns: int) -> dict[str, float]:
        out: dict[str, float] = {}
        for track in self._inputs:
            row = int(np.searchsorted(track.ns, ns, side="right")) - 1
            values = track.rows.floats[row] if row >= 0 else track.signals.initial()
            out.update(zip(track.signals.columns, values.tolist(), strict=True))
        return out


def _about(header: Mapping[str, Any]) -> dict[str, Any]:
    reference = str(header.get("scenario", {}).get("origin", {}).get("reference", ""))
    shown = header.get("shown")
    found = dict(shown) if isinstance(shown, Mapping) else default_scene(reference)
    if not found.get("scene") and header.get("bodies"):  # recordings of version 0.1
        found |= {"scene": BODIES, "bodies": header["bodies"]}
    views = header.get("views")
    found = with_views(found, views if isinstance(views, list) else ())
    return {**found, "scenario": reference} if isinstance(shown, Mapping) else found


def _cues(recording: Recording, plants: Mapping[str, _Plant]) -> tuple[Cue, ...]:
    try:
        cues = [Cue.from_plain(plain) for plain in recording.header.get("cues", ())]
        known = {name: plant.signals for name, plant in plants.items()}
        return checked_signals(cues, known)
    except (RtsimError, TypeError, AttributeError):
        return ()


class _Plant:
    """The recorded rows of a plant.

    At a tag, the row before the changes (x-) precedes the row after the changes (x+).
    """

    def __init__(self, track: TrackData) -> None:
        rows = track.rows
        self._ns, self._values = np.ascontiguousarray(rows.ns), rows.floats
        self._between = Interpolation(track.signals)
        self.signals = track.signals
        self.first_ns, self.end_ns = int(self._ns[0]), int(self._ns[-1])

    def at(self, ns: int) -> Shown:
        ns = min(max(ns, self.first_ns), self.end_ns)
        behind = int(np.searchsorted(self._ns, ns, side="right"))
        last, next_ = behind - 1, min(behind, len(self._ns) - 1)
        ends = int(self._ns[last]), int(self._ns[next_])
        pair = StatePair(*ends, *ends, False, self._values[last], self._values[next_])
        share = 0.0 if ends[0] == ends[1] else (ns - ends[0]) / (ends[1] - ends[0])
        between = self._between
        return Shown(between.signals, between.at(pair, share), between.slope(pair), ns)

    def past(self, ns: int, span: int) -> ScenePast:
        ns = min(max(ns, self.first_ns), self.end_ns)
        first, behind = (int(np.searchsorted(self._ns, at, side="right")) for at in (ns - span, ns))
        every = 1
        while (behind - first) // every > _POINTS:
            every *= 2
        rows = np.arange(-(-max(0, first - 1) // every) * every, behind, every)
        times = np.append(self._ns[rows], ns)
        values = np.vstack((self._values[rows], self.at(ns).values))
        return ScenePast(times, values, span)
