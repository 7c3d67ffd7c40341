"""The measures of a tracking task: error, crossover, phase margin, pilot, remnant, oscillations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rtsim.core.signals import Vector
from rtsim.models.piloting.axis import TrackedAxis
from rtsim.models.piloting.charts import axis_charts
from rtsim.models.piloting.findings import Findings, Row, TaskError, parameters_of
from rtsim.models.piloting.identification import (
    describing_functions,
    fit_pilot,
)
from rtsim.models.piloting.oscillation import oscillations
from rtsim.record.table import signal_table

if TYPE_CHECKING:
    from rtsim.record.reading import Recording

_RATE = 100.0
_SWINGS = 4.0
"""The swing of an oscillation, peak to peak, in RMS of the target.

A sine of this swing has an RMS of 1.4 RMS of the target.
"""


def tracked_axes(recording: Recording, name: str) -> tuple[list[TrackedAxis], bool]:
    """Return the measures of all axes, and whether the run has the whole measured interval."""
    p = parameters_of(recording, name)
    inputs = recording.header["scenario"]["parts"][name]["inputs"]
    order = [s.name.removesuffix("_target") for s in recording.track(name).signals
             if s.name.endswith("_target")]  # fmt: skip
    begin, measured = float(p["begin"]), float(p["measured"])
    start = float(recording.track(name).ns[0]) * 1e-9
    complete = start <= begin and recording.end_ns * 1e-9 >= begin + measured - 1e-9
    count = len(p["frequencies"]) // len(order)
    multiples = np.rint(np.array(p["frequencies"]) * measured / math.tau).astype(int)
    sines = multiples.reshape(len(order), count)
    out = []
    for i, axis in enumerate(order):
        others = np.delete(sines, i, axis=0).ravel()
        out.append(
            _axis(
                recording, name, axis, inputs[axis], (begin, measured), sines[i], others, complete
            )
        )
    return out, complete


_SAMPLED = "messages/link.inputs"
"""The track of what the link sampled: the stick, whoever moved it."""


def _stick_of(recording: Recording, axis: str) -> str:
    """Return the signal of the stick that moves ``axis``: of the same name, or the only one."""
    track = recording.tracks.get(_SAMPLED)
    names = [] if track is None else list(track.signals.columns)
    if axis in names:
        return f"link.inputs.{axis}"
    if len(names) == 1:
        return f"link.inputs.{names[0]}"
    raise TaskError(
        f"{recording.source} has no stick for the axis {axis}: the link has the inputs "
        f"{', '.join(names) or 'none'}; add stick and link by add_flying (docs/tasks.md)"
    )


def _axis(
    recording: Recording,
    name: str,
    axis: str,
    answer: str,
    interval: tuple[float, float],
    sines: Any,
    others: Any,
    complete: bool,
) -> TrackedAxis:
    begin, measured = interval
    stick = _stick_of(recording, axis)
    wanted = f"{name}.{axis}_target"
    ns = np.rint(np.arange(round((recording.end_ns * 1e-9) * _RATE) + 1) * 1e9 / _RATE)
    table = signal_table(recording, (wanted, answer, stick), ns=ns.astype(np.int64))
    known = np.isfinite(table[wanted]) & np.isfinite(table[answer])  # not before a checkpoint
    time = table.time
    c = np.nan_to_num(table[stick])
    here = (time >= begin - 1e-9) & (time < begin + measured - 1e-9) & known
    target, m = table[wanted], table[answer]
    e = target - m  # both at one tag; the task itself holds the answer of its last step
    found = fit = None
    if complete:
        found = describing_functions(e[here], c[here], m[here], sines, measured, others)
        fit = fit_pilot(found)
    if not here.any():
        raise TaskError(
            f"{recording.source} ends at {recording.end_ns * 1e-9:g} s, but the measured interval "
            f"of its task begins at {begin:g} s; fly longer"
        )
    low, high = _travel(recording, stick)
    rms_target = _rms(target[here] - target[here].mean())
    marks = oscillations(
        time[known], e[known], c[known], m[known], _SWINGS * rms_target, high - low
    )
    return TrackedAxis(
        axis,
        table.units[wanted],
        _rms(e[here]),
        rms_target,
        _rms(c[here] - c[here].mean()),
        found,
        fit,
        tuple(marks),
        time,
        target,
        e,
        c,
    )


def _travel(recording: Recording, stick: str) -> tuple[float, float]:
    """Return the ends of the stick's travel; -1 and 1 if the signal declares no limits."""
    found = recording.track(_SAMPLED).signals[stick.rpartition(".")[2]]
    finite = math.isfinite(found.low) and math.isfinite(found.high)
    return (found.low, found.high) if finite else (-1.0, 1.0)


def _rms(values: Vector) -> float:
    return math.sqrt(float(np.mean(values**2))) if len(values) else math.nan


def latencies(recording: Recording) -> list[tuple[float, float]]:
    """Return the latency of the link at the start and after each change: time (s), latency (s)."""
    if "messages/link" not in recording.tracks:
        return []
    table = signal_table(recording, ("link.used_latency",))
    values = table["link.used_latency"]
    if not len(values):
        return []
    at = np.r_[0, np.flatnonzero(np.diff(values)) + 1]
    return [(float(table.time[i]), float(values[i])) for i in at]


def latency_rows(recording: Recording, end: float = math.inf) -> tuple[list[Row], list[str]]:
    """Return the first latency as a measure, and a remark on each change before ``end`` s."""
    flown = latencies(recording)
    if not flown:
        return [], []
    first = Row("latency", flown[0][1], "s", "latency between stick and aircraft")
    return [first], [
        f"The latency was changed to {value:g} s at {at:g} s, so the figures mix several latencies."
        for at, value in flown[1:]
        if at < end
    ]


def tracked(recording: Recording, name: str) -> Findings:
    """Return the findings of the tracking task ``name`` in ``recording``."""
    axes, complete = tracked_axes(recording, name)
    p = parameters_of(recording, name)
    rows: list[Row] = []
    notes: list[str] = []
    marks: list[Mapping[str, Any]] = []
    if not complete:
        notes.append(
            f"The recording ends at {recording.end_ns * 1e-9:g} s, and does not have the whole "
            f"measured interval from {p['begin']:g} to {p['begin'] + p['measured']:g} s. The RMS "
            "values are those of the part that was flown, and nothing is identified."
        )
    more, told = latency_rows(recording, p["begin"] + p["measured"])
    rows += more
    notes += told
    for axis in axes:
        rows += _rows(axis)
        notes += _remarks(axis, complete)
        marks += [
            {"what": "oscillation", "axis": axis.name, **mark.to_plain()} for mark in axis.marks
        ]
    charts = tuple(chart for axis in axes for chart in axis_charts(axis))
    return Findings(
        "tracking", complete, tuple(rows), tuple(notes), tuple(marks), charts, tuple(axes)
    )


def _rows(axis: TrackedAxis) -> list[Row]:
    a, u = axis.name, axis.unit
    found, fit = axis.found, axis.fit
    crossing = None if found is None else found.crossing()
    model = None if found is None else found.crossover_model()
    frequency = None if crossing is None else crossing.frequency
    margin = None if crossing is None else crossing.phase_margin
    delay = None if model is None else model[1]
    misfit = None if fit is None else fit.error

    def pilot(name: str) -> float | None:
        value: float | None = None if fit is None else getattr(fit.model, name)
        return value

    remnant = None if found is None else found.remnant
    own = None if found is None else found.own_error
    return [
        Row(f"{a}_rms_error", axis.rms_error, u, f"{a}: RMS of the error"),
        Row(f"{a}_rms_own_error", own, u, f"{a}: RMS of the error by the remnant"),
        Row(f"{a}_rms_target", axis.rms_target, u, f"{a}: RMS of the target"),
        Row(f"{a}_rms_stick", axis.rms_stick, "1", f"{a}: RMS of the stick"),
        Row(f"{a}_crossover", frequency, "rad/s", f"{a}: crossover"),
        Row(f"{a}_phase_margin", margin, "deg", f"{a}: phase margin"),
        Row(f"{a}_effective_delay", delay, "s", f"{a}: effective delay of the loop"),
        Row(f"{a}_remnant", remnant, "1", f"{a}: share of the stick's power that is remnant"),
        Row(f"{a}_pilot_gain", pilot("gain"), f"1/{u}", f"{a}: gain of the pilot"),
        Row(f"{a}_pilot_lead", pilot("lead"), "s", f"{a}: lead of the pilot"),
        Row(f"{a}_pilot_lag", pilot("lag"), "s", f"{a}: lag of the pilot"),
        Row(f"{a}_pilot_delay", pilot("delay"), "s", f"{a}: delay of the pilot"),
        Row(f"{a}_pilot_neuromuscular", pilot("neuromuscular"), "rad/s",
            f"{a}: neuromuscular frequency of the pilot"),
        Row(f"{a}_pilot_misfit", misfit, "1", f"{a}: misfit of the pilot's model"),
        Row(f"{a}_oscillations", float(len(axis.marks)), "", f"{a}: oscillations"),
    ]  # fmt: skip


def _remarks(axis: TrackedAxis, complete: bool) -> list[str]:
    out = []
    found = axis.found
    if complete and found is not None:
        doubted = found.frequencies[~found.trusted]
        if len(doubted):
            told = ", ".join(f"{w:.2g}" for w in doubted)
            out.append(
                f"{axis.name}: error or stick do not exceed the remnant at {told} rad/s; these "
                "frequencies are left out."
            )
        margin = found.crossing()
        if margin is None:
            out.append(
                f"{axis.name}: the open loop does not cross the magnitude 1 within the measured "
                "frequencies, so there is no crossover frequency and no phase margin."
            )
        if margin is not None and not margin.sure:
            out.append(
                f"{axis.name}: crossover frequency and phase margin are uncertain: they are "
                f"interpolated between {margin.between[0]:.2g} and {margin.between[1]:.2g} rad/s, "
                "because a sine between these was left out."
            )
        if margin is not None and margin.phase_margin <= 0.0:
            out.append(f"{axis.name}: the phase margin is not positive; the loop is unstable.")
    for mark in axis.marks:
        out.append(
            f"{axis.name}: pilot-induced oscillation from {mark.first:.1f} to {mark.last:.1f} s, "
            f"{mark.frequency:.1f} rad/s, {mark.swing:.3g} {axis.unit} peak to peak; the aircraft "
            f"follows the stick by {mark.lag:.0f} deg."
        )
    if complete and axis.rms_stick > 0.0 and axis.rms_error > axis.rms_target:
        out.append(
            f"{axis.name}: the RMS of the error exceeds that of the target; without the stick the "
            "error would be smaller."
        )
    return out
