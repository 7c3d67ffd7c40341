"""Measures and charts of a tracking task, and the detection of pilot-induced oscillations.

**Identification of the pilot-vehicle system.** The spectra are computed over whole periods of each
sine. At the frequencies of the sines, the ratio of two spectra is therefore a describing function
without leakage. The pilot's remnant is the stick's power at frequencies without a target. Sources:
D. T. McRuer and H. R. Jex, "A Review of Quasi-Linear Pilot Models", IEEE Transactions on Human
Factors in Electronics, HFE-8 (1967); D. T. McRuer and E. S. Krendel, "Mathematical Models of Human
Pilot Behavior", AGARDograph 188 (1974).

**Detection of pilot-induced oscillations.** In an oscillation, both the error and the stick swing
back and forth. The detection uses consecutive extremes of the error, as the method ROVER does.
Source: D. G. Mitchell, A. J. Arencibia and S. Munoz, "Real-Time Detection of Pilot-Induced
Oscillations", AIAA 2004-4700. An extreme belongs to an oscillation if the preceding half period has
a suitable length and amplitude. In a detected oscillation, the error is so large that the pilot
would do better without moving the stick.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.extras import needs
from rtsim.core.signals import Vector
from rtsim.models.piloting.findings import Findings, Row, TaskError, parameters_of
from rtsim.models.piloting.pilot_model import PilotModel
from rtsim.record.reports.charts import COMMAND, RESPONSE, Chart, Line, thin
from rtsim.record.table import signal_table

if TYPE_CHECKING:
    from rtsim.record.reading import Recording


Spectrum = NDArray[np.complex128]
_COHERENT = 4.0
"""Least ratio of the power at a target frequency to the remnant beside it.

Frequencies with a smaller ratio are not trusted.
"""
_BESIDE = 6
"""Number of spectral lines on each side of a frequency that estimate its remnant."""


@dataclass(frozen=True)
class Crossing:
    """Crossover of the open loop, with its frequency (rad/s) and the phase margin (deg).

    Both numbers are interpolated between the two reliable frequencies in ``between``. ``sure`` is
    False if an unreliable frequency lies between these two frequencies.
    """

    frequency: float
    phase_margin: float
    between: tuple[float, float]
    sure: bool


@dataclass(frozen=True)
class DescribingFunctions:
    """Describing functions at the frequencies (k,) of the target, rad/s.

    ``open_loop`` is answer / error, ``pilot`` is stick / error, ``vehicle`` is answer / stick.
    ``trusted`` (k,) marks the frequencies at which error and stick have clearly more power than the
    noise.
    """

    frequencies: Vector
    open_loop: Spectrum
    pilot: Spectrum
    vehicle: Spectrum
    trusted: NDArray[np.bool_]
    spread: Vector
    """Relative standard deviation (k,) of the pilot's describing function due to the remnant."""
    remnant: float
    """Share of the stick's power that is at no frequency of the targets."""
    own_error: float
    """RMS of the error that the remnant causes, in the unit of the error."""

    def crossing(self) -> Crossing | None:
        """Return the crossover of the open loop, or ``None`` if no crossover was found."""
        w, loop = self.frequencies[self.trusted], self.open_loop[self.trusted]
        if len(w) < 2:
            return None
        size, phase = np.log(np.abs(loop)), unwrapped(loop)
        down = np.flatnonzero((size[:-1] >= 0.0) & (size[1:] < 0.0))
        if not len(down):
            return None
        i = int(down[-1])
        share = size[i] / (size[i] - size[i + 1])
        at = math.exp((1.0 - share) * math.log(w[i]) + share * math.log(w[i + 1]))
        # The phase of a delay is proportional to the frequency, so the phase is interpolated
        # linearly.
        part = (at - w[i]) / (w[i + 1] - w[i])
        found = float(phase[i] + part * (phase[i + 1] - phase[i]))
        ends = float(w[i]), float(w[i + 1])
        doubted = self.frequencies[~self.trusted]
        sure = not ((doubted > ends[0]) & (doubted < ends[1])).any()
        return Crossing(at, 180.0 + math.degrees(found), ends, bool(sure))

    def crossover_model(self) -> tuple[float, float] | None:
        """Return w_c (rad/s) and tau (s) of w_c exp(-tau s) / s, fitted around the crossover."""
        found = self.crossing()
        if found is None:
            return None
        w, loop = self.frequencies[self.trusted], self.open_loop[self.trusted]
        distance = np.abs(np.log(w / found.frequency))
        near = np.sort(np.argsort(distance)[:4])
        size, phase = np.log(np.abs(loop[near])), unwrapped(loop)[near]
        gain = float(np.exp(np.mean(size + np.log(w[near]))))
        lag = -(phase + 0.5 * math.pi)
        tau = float((lag * w[near]).sum() / (w[near] ** 2).sum())
        return gain, tau


def unwrapped(values: Spectrum) -> Vector:
    """Return the phases (k,), rad, without jumps; the first is between -270 and 90 deg."""
    phase = np.unwrap(np.angle(values))
    while phase[0] > 0.5 * math.pi:
        phase = phase - math.tau
    out: Vector = phase
    return out


def describing_functions(
    error: Vector, stick: Vector, answer: Vector, multiples: NDArray[np.int64], seconds: float,
    others: NDArray[np.int64] | None = None,
) -> DescribingFunctions:  # fmt: skip
    """Return the describing functions of signals (n,) over an interval of ``seconds`` s.

    ``multiples`` (k,) contains the number of periods of each target sine in the interval.
    ``others`` contains the numbers of periods of the sines of other axes, which do not count as
    remnant.
    """
    n = len(error)
    spectra = [np.fft.rfft(v - v.mean())[: n // 2] * (2.0 / n) for v in (error, stick, answer)]
    known = np.zeros(n // 2, bool)
    known[multiples] = True
    aside = known.copy()
    if others is not None:
        aside[others] = True
    aside[0] = True
    power = [np.abs(v) ** 2 for v in spectra]
    trusted = np.ones(len(multiples), bool)
    spread: Vector = np.zeros(len(multiples))
    for values in power[:2]:
        beside = np.array([_floor(values, aside, int(m)) for m in multiples])
        trusted &= values[multiples] > _COHERENT * beside
        spread += beside / np.maximum(values[multiples], 1e-300)
    spread = np.asarray(np.sqrt(spread), np.float64)
    e, c, m = (v[multiples] for v in spectra)
    with np.errstate(all="ignore"):
        loop, pilot, vehicle = m / e, c / e, m / c
    for ratio in (loop, pilot, vehicle):
        trusted &= np.isfinite(ratio) & (np.abs(ratio) > 0.0)
    whole = float(power[1][1:].sum())
    return DescribingFunctions(
        np.asarray(multiples * (math.tau / seconds), np.float64),
        loop,
        pilot,
        vehicle,
        trusted,
        spread,
        float(power[1][~aside].sum()) / whole if whole > 0.0 else 0.0,
        math.sqrt(0.5 * float(power[0][~aside].sum())),
    )


def _floor(power: Vector, aside: NDArray[np.bool_], at: int) -> float:
    first, last = max(1, at - _BESIDE), min(len(power), at + _BESIDE + 1)
    lines = power[first:last][~aside[first:last]]
    return float(lines.mean()) if len(lines) else 0.0


@dataclass(frozen=True)
class PilotFit:
    """Pilot model with parameters that fit the measured describing function."""

    model: PilotModel
    error: float
    """RMS of the relative error of the describing function, weighted by certainty."""


_STRUCTURES = ((False, False), (True, False), (False, True))
"""Structures of the fit: whether the pilot has a lead, and whether the pilot has a lag."""
_SURE = 0.02
"""Relative standard deviation below which all frequencies have the same weight in the fit."""
_BETTER = 0.7
"""Factor by which a structure with more parameters must reduce the RMS of the error."""


def fit_pilot(found: DescribingFunctions) -> PilotFit | None:
    """Fit a pilot model to the reliable frequencies; return ``None`` if there are fewer than five.

    Lead and lag are added to the model only if they improve the fit clearly.
    """
    w, measured = found.frequencies[found.trusted], found.pilot[found.trusted]
    weight = _SURE / np.hypot(_SURE, found.spread[found.trusted])
    if len(w) < 5:
        return None
    best: PilotFit | None = None
    for leads, lags in _STRUCTURES:
        fit = _fitted(w, measured, weight, leads, lags)
        if best is None or fit.error < _BETTER * best.error:
            best = fit
    return best


def _fitted(w: Vector, measured: Spectrum, weight: Vector, leads: bool, lags: bool) -> PilotFit:
    with needs("scipy", "the identification of a pilot"):
        from scipy.optimize import least_squares
    sign = 1.0 if np.cos(np.angle(measured[0])) >= 0.0 else -1.0
    start = abs(measured[len(w) // 3])

    def made(v: Vector) -> PilotModel:
        rest = iter(np.exp(v).tolist())
        gain, delay, muscles, damping = (next(rest) for _ in range(4))
        lead = next(rest) if leads else 0.0
        lag = next(rest) if lags else 0.0
        return PilotModel(sign * gain, lead, lag, delay, muscles, damping)

    def misses(v: Vector) -> Vector:
        ratio = made(v).response(w) / measured
        off = np.concatenate(((ratio.real - 1.0) * weight, ratio.imag * weight))
        out: Vector = np.clip(off, -1e3, 1e3)
        return out

    shaped = [0.3, 1.0, 3.0] if leads or lags else [0.0]
    fits: list[Any] = []
    for shape in shaped:
        first = [start, 0.15, 15.0, 0.7] + ([shape] if leads else []) + ([shape] if lags else [])
        low = [1e-9, 1e-3, 3.0, 0.2] + [1e-2] * (leads + lags)
        high = [1e9, 1.5, 60.0, 2.0] + [50.0] * (leads + lags)
        fits.append(
            least_squares(misses, np.log(first), bounds=(np.log(low), np.log(high)), x_scale=0.3)
        )
    best = min(fits, key=lambda fit: float(fit.cost))
    return PilotFit(made(best.x), math.sqrt(float((best.fun**2).sum() / (weight**2).sum())))


Response = Callable[[Vector], Spectrum]


def closed_loop_error(loop: Spectrum, amplitudes: Vector) -> float:
    """Return the RMS error of a linear closed loop (k,) for a target with ``amplitudes`` (k,)."""
    return math.sqrt(0.5 * float((np.abs(amplitudes / (1.0 + loop)) ** 2).sum()))


SLOWEST, FASTEST = 1.0, 15.0
"""Range of frequencies of pilot-induced oscillations, rad/s."""
HALF_PERIODS = 4
"""Number of consecutive half periods after which an interval is marked."""
_STICK_SIGNAL = 0.1
"""Least swing of the stick, as a share of its whole travel."""


@dataclass(frozen=True)
class Oscillation:
    """An oscillation: first and last time (s), mean frequency (rad/s), largest swing, and lag.

    ``swing`` is the peak-to-peak error. ``lag`` is the phase (deg) of the aircraft's motion behind
    the stick.
    """

    first: float
    last: float
    frequency: float
    swing: float
    lag: float

    def to_plain(self) -> Mapping[str, Any]:
        return {
            "first_s": self.first, "last_s": self.last, "frequency_rad_s": self.frequency,
            "swing": self.swing, "lag_deg": self.lag if math.isfinite(self.lag) else None,
        }  # fmt: skip


def oscillations(
    time: Vector, error: Vector, stick: Vector, answer: Vector, swing: float, travel: float
) -> list[Oscillation]:
    """Return the oscillations in the signals (n,) at ``time`` (n,), s.

    ``swing`` is the smallest peak-to-peak error of an oscillation. ``travel`` is the full range of
    the stick.
    """
    at = extremes(error, 0.5 * swing)
    out, run = [], [at[0]] if len(at) else []
    for before, now in pairwise(at):
        half = time[now] - time[before]
        moved = np.ptp(stick[before : now + 1]) if now > before else 0.0
        good = (
            math.pi / FASTEST <= half <= math.pi / SLOWEST
            and abs(error[now] - error[before]) >= swing
            and moved >= _STICK_SIGNAL * travel
        )
        if good:
            run.append(now)
            continue
        out += _marked(run, time, error, stick, answer)
        run = [now]
    return out + _marked(run, time, error, stick, answer)


def _marked(
    run: list[int], time: Vector, error: Vector, stick: Vector, answer: Vector
) -> list[Oscillation]:
    if len(run) - 1 < HALF_PERIODS:
        return []
    first, last = run[0], run[-1] + 1
    frequency = math.pi * (len(run) - 1) / (time[run[-1]] - time[run[0]])
    swing = max(abs(error[b] - error[a]) for a, b in pairwise(run))
    wave = np.exp(-1j * frequency * time[first:last])
    c, m = (((v[first:last] - v[first:last].mean()) * wave).sum() for v in (stick, answer))
    lag = math.degrees(-np.angle(m / c)) if abs(c) > 0.0 and abs(m) > 0.0 else math.nan
    return [
        Oscillation(float(time[run[0]]), float(time[run[-1]]), frequency, float(swing), lag % 360.0)
    ]


def extremes(values: Vector, least: float) -> list[int]:
    """Return the indices of alternating maxima and minima that differ by at least ``least``."""
    out: list[int] = []
    if not len(values):
        return out
    low = high = 0
    rising = 0
    for i, value in enumerate(values.tolist()):
        if value > values[high]:
            high = i
        if value < values[low]:
            low = i
        if rising >= 0 and values[high] - value >= least:
            out.append(high)
            rising, low = -1, i
        elif rising <= 0 and value - values[low] >= least:
            out.append(low)
            rising, high = 1, i
    return out


@dataclass(frozen=True)
class TrackedAxis:
    name: str
    unit: str
    rms_error: float
    rms_target: float
    rms_stick: float
    found: DescribingFunctions | None
    fit: PilotFit | None
    marks: tuple[Oscillation, ...]
    time: Vector
    target: Vector
    error: Vector
    stick: Vector


_STICK, _MARKED = 2, 3
"""Colour numbers of the stick and of marked oscillations."""
_HIGH = 300


def axis_charts(axis: TrackedAxis) -> list[Chart]:
    """Return charts of target, error and stick over time, and of the open loop over frequency."""
    found = axis.found
    loop = (
        []
        if found is None or not found.trusted.any()
        else [_gain_chart(axis), _phase_lag_chart(axis)]
    )
    return [_error(axis), _stick(axis), *loop]


def _error(axis: TrackedAxis) -> Chart:
    target = axis.target - axis.target[0]
    lines = [
        Line("error", *thin(axis.time, axis.error), RESPONSE),
        Line("target", *thin(axis.time, target), COMMAND),
    ]
    if axis.marks:
        spans = [(m.first, m.last, m.last) for m in axis.marks]
        x = np.array([t for span in spans for t in span])
        y = np.array([v for _ in spans for v in (0.0, 0.0, np.nan)])
        lines.append(Line("oscillation", x, y, _MARKED, wide=True))
    return Chart(f"{axis.name}: target and error [{axis.unit}]", lines, height=_HIGH)


def _stick(axis: TrackedAxis) -> Chart:
    line = Line("stick", *thin(axis.time, axis.stick), _STICK)
    return Chart(f"{axis.name}: stick", [line], height=_HIGH)


def _gain_chart(axis: TrackedAxis) -> Chart:
    found = axis.found
    assert found is not None
    w, loop = found.frequencies[found.trusted], found.open_loop[found.trusted]
    lines = [Line("measured", w, np.abs(loop), RESPONSE, points=True)]
    if (model := found.crossover_model()) is not None:
        lines.append(Line(_said(model), w, model[0] / w, COMMAND))
    title = f"{axis.name}: magnitude of the open loop"
    return Chart(title, lines, "frequency [rad/s]", log=True, timed=False, height=_HIGH)


def _phase_lag_chart(axis: TrackedAxis) -> Chart:
    found = axis.found
    assert found is not None
    w, loop = found.frequencies[found.trusted], found.open_loop[found.trusted]
    lag = -np.degrees(unwrapped(loop))
    lag[lag <= 0.0] = np.nan  # a logarithmic axis has no 0
    lines = [Line("measured", w, lag, RESPONSE, points=True)]
    if (model := found.crossover_model()) is not None:
        lines.append(Line(_said(model), w, 90.0 + np.degrees(model[1] * w), COMMAND))
    title = f"{axis.name}: phase lag of the open loop [deg]"
    return Chart(title, lines, "frequency [rad/s]", log=True, timed=False, height=_HIGH)


def _said(model: tuple[float, float]) -> str:
    return f"crossover model, {model[0]:.3g} rad/s, {model[1]:.3g} s"


_RATE = 100.0
_SWINGS = 4.0
"""Least swing of an oscillation, peak to peak, as a multiple of the target's RMS.

A sine with this swing has 1.4 times the RMS of the target.
"""


def tracked_axes(recording: Recording, name: str) -> tuple[list[TrackedAxis], bool]:
    """Return the measures of all axes.

    The second result is True if the run contains the complete measured interval.
    """
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
"""Track with the stick as the link sampled it, from a person or a script."""


def _stick_of(recording: Recording, axis: str) -> str:
    track = recording.tracks.get(_SAMPLED)
    names = [] if track is None else list(track.signals.columns)
    if axis in names:
        return f"link.inputs.{axis}"
    if len(names) == 1:
        return f"link.inputs.{names[0]}"
    raise TaskError(
        f"{recording.source} contains no stick signal for the axis {axis}: the link has the inputs "
        f"{', '.join(names) or 'none'}; call add_flying, which adds the stick and the link "
        "(docs/tasks.md)"
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
    e = target - m  # both at one tag, unlike the error that the task records
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
    found = recording.track(_SAMPLED).signals[stick.rpartition(".")[2]]
    finite = math.isfinite(found.low) and math.isfinite(found.high)
    return (found.low, found.high) if finite else (-1.0, 1.0)


def _rms(values: Vector) -> float:
    return math.sqrt(float(np.mean(values**2))) if len(values) else math.nan


def latencies(recording: Recording) -> list[tuple[float, float]]:
    """Return times (s) and latencies (s) of the link, at the start and after each change."""
    if "messages/link" not in recording.tracks:
        return []
    table = signal_table(recording, ("link.used_latency",))
    values = table["link.used_latency"]
    if not len(values):
        return []
    at = np.r_[0, np.flatnonzero(np.diff(values)) + 1]
    return [(float(table.time[i]), float(values[i])) for i in at]


def latency_rows(recording: Recording, end: float = math.inf) -> tuple[list[Row], list[str]]:
    """Return a row with the initial latency, and a sentence on each change before ``end`` s."""
    found = latencies(recording)
    if not found:
        return [], []
    first = Row("latency", found[0][1], "s", "latency between stick and aircraft")
    return [first], [
        f"The latency was changed to {value:g} s at {at:g} s, so the figures mix several latencies."
        for at, value in found[1:]
        if at < end
    ]


def tracked(recording: Recording, name: str) -> Findings:
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
    more, remarks = latency_rows(recording, p["begin"] + p["measured"])
    rows += more
    notes += remarks
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
            frequencies = ", ".join(f"{w:.2g}" for w in doubted)
            out.append(
                f"{axis.name}: error or stick do not exceed the remnant at {frequencies} rad/s; "
                "these frequencies are left out."
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
