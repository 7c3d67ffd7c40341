"""The measures of gates, approach and formation, from the values that the task itself recorded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rtsim.core.signals import Vector
from rtsim.models.piloting.findings import Findings, Row, parameters_of
from rtsim.models.piloting.tracking_measures import latency_rows

if TYPE_CHECKING:
    from rtsim.record.reading import Recording


def _last(recording: Recording, name: str) -> dict[str, float]:
    """Return the last values of the plant ``name`` by column."""
    track = recording.track(name)
    return {c: float(track.column(c)[-1]) for c in track.signals.columns}


def _elements(values: dict[str, float], name: str, count: int) -> Vector:
    return np.array([values[f"{name}_{i}"] for i in range(count)])


def _rms(values: Vector) -> float | None:
    """Return the RMS of ``values`` (n,), or ``None`` if there are none."""
    return math.sqrt(float(np.mean(values**2))) if len(values) else None


def gates_flown(recording: Recording, name: str) -> Findings:
    """Return passed and missed gates, the time from the first to the last, and how exactly."""
    n = len(parameters_of(recording, name)["along"])
    last = _last(recording, name)
    passed = _elements(last, "passed", n) > 0.5
    at = _elements(last, "passed_at", n)[passed]
    off = np.hypot(_elements(last, "lateral", n), _elements(last, "vertical", n))[passed]
    rows = [
        Row("gates", float(n), "", "gates of the course"),
        Row("passed", float(passed.sum()), "", "gates passed"),
        Row("missed", last["missed"], "", "gates missed"),
        Row("seconds", float(at[-1] - at[0]) if len(at) > 1 else None, "s",
            "time from the first to the last passed gate"),
        Row("rms_off_middle", math.sqrt(float(np.mean(off**2))) if len(off) else None, "m",
            "RMS of the distance from the middle of the passed gates"),
    ]  # fmt: skip
    complete = last["next"] >= n
    notes = [] if complete else ["The run ends before the last gate."]
    more, told = latency_rows(recording)
    return Findings("gates", complete, (*rows, *more), (*notes, *told))


def approach_flown(recording: Recording, name: str) -> Findings:
    """Return the deviations from the glide path, and the place and speed of the touchdown."""
    last = _last(recording, name)
    touched = last["touched_at"] >= 0.0
    p = parameters_of(recording, name)
    table = recording.table(name)
    before = table[f"{name}.distance"]
    on = (before <= p["entry"]) & (before >= p["exit"])
    if touched:
        on &= table.time < last["touched_at"]

    def rms(error: str) -> float | None:
        return _rms(table[f"{name}.{error}"][on])

    def there(value: str) -> float | None:
        return last[value] if touched else None

    rows = [
        Row("rms_glide", rms("glide_error"), "deg", "RMS of the deviation from the glide path"),
        Row("rms_course", rms("course_error"), "deg", "RMS of the deviation from the course"),
        Row("rms_speed", rms("speed_error"), "m/s", "RMS of the deviation from the speed"),
        Row("touched_at", there("touched_at"), "s", "time of the touchdown"),
        Row("touched_along", there("touched_along"), "m", "touchdown beyond the aim point"),
        Row("touched_across", there("touched_across"), "m", "touchdown to the right of the course"),
        Row("touched_sink", there("touched_sink"), "m/s", "sink rate at the touchdown"),
        Row("touched_speed", there("touched_speed"), "m/s", "airspeed at the touchdown"),
    ]
    passed = last["distance"] <= p["exit"]
    notes = []
    if not on.any():
        notes.append("The aircraft never was between entry and exit of the glide path.")
    elif not (passed or touched):
        notes.append("The run ends on the glide path, so the deviations are those of a part.")
    if not touched:
        notes.append("The aircraft did not touch down.")
    more, told = latency_rows(recording)
    return Findings("approach", touched and bool(on.any()), (*rows, *more), (*notes, *told))


def formation_flown(recording: Recording, name: str) -> Findings:
    """Return the RMS errors of the place beside the lead."""
    p = parameters_of(recording, name)
    end = recording.end_ns * 1e-9
    table = recording.table(name)
    on = (table.time >= p["begin"]) & (table.time < p["begin"] + p["measured"])
    complete = end >= p["begin"] + p["measured"] - 1e-9

    def rms(axis: str) -> float | None:
        return _rms(table[f"{name}.{axis}_error"][on])

    told = {"along": "along the course", "across": "across the course", "above": "in height"}
    rows = [Row(f"rms_{a}", rms(a), "m", f"RMS of the error {text}") for a, text in told.items()]
    notes = () if complete else (f"The run ends at {end:g} s, before the end of the task.",)
    more, changed = latency_rows(recording)
    return Findings("formation", complete, (*rows, *more), (*notes, *changed))
