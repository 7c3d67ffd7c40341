"""Identification of the pilot-vehicle system from one tracking task.

All spectra are taken over whole periods of every sine of the target.  At the frequencies of the
sines, the ratio of two spectra is therefore a describing function, without leakage and without a
window.  Everything else in the pilot's stick is remnant.

Sources: D. T. McRuer and H. R. Jex, "A Review of Quasi-Linear Pilot Models", IEEE Transactions on
Human Factors in Electronics, HFE-8 (1967); D. T. McRuer and E. S. Krendel, "Mathematical Models of
Human Pilot Behavior", AGARDograph 188 (1974).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.extras import needs
from rtsim.core.signals import Vector
from rtsim.models.piloting.pilot_model import PilotModel

Spectrum = NDArray[np.complex128]
_COHERENT = 4.0
"""The power at a frequency of the target, in powers of the remnant beside it, that counts."""
_BESIDE = 6
"""Lines of the spectrum on each side from which the remnant beside a frequency is taken."""


@dataclass(frozen=True)
class Crossing:
    """Where the open loop has the magnitude 1: frequency (rad/s) and phase margin (deg).

    ``between`` are the trusted frequencies between which both are interpolated.  ``sure`` is false
    if a frequency between them was left out.
    """

    frequency: float
    phase_margin: float
    between: tuple[float, float]
    sure: bool


@dataclass(frozen=True)
class DescribingFunctions:
    """The describing functions at the frequencies (k,), rad/s, of the target.

    ``open_loop`` is answer / error, ``pilot`` is stick / error, ``vehicle`` is answer / stick.
    ``trusted`` (k,) marks the frequencies at which error and stick exceed the remnant beside them.
    """

    frequencies: Vector
    open_loop: Spectrum
    pilot: Spectrum
    vehicle: Spectrum
    trusted: NDArray[np.bool_]
    spread: Vector
    """The relative standard deviation (k,) of the pilot's describing function by the remnant."""
    remnant: float
    """The remnant: the share of the power of the stick that no frequency of the target has."""
    own_error: float
    """The RMS of the error that the remnant causes, in the unit of the error."""

    def crossing(self) -> Crossing | None:
        """Return the crossover of the open loop, or ``None`` if it is not within the frequencies.

        Magnitude and phase are interpolated over the logarithm of the frequency.
        """
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
        # A delay turns the phase in proportion to the frequency, so this interpolation is linear.
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
    """Return the phases (k,), rad, without jumps, from -180 deg +- 180 deg at the first one."""
    phase = np.unwrap(np.angle(values))
    while phase[0] > 0.5 * math.pi:
        phase = phase - math.tau
    out: Vector = phase
    return out


def describing_functions(
    error: Vector, stick: Vector, answer: Vector, multiples: NDArray[np.int64], seconds: float,
    others: NDArray[np.int64] | None = None,
) -> DescribingFunctions:  # fmt: skip
    """Return the describing functions of signals (n,) over ``seconds`` s, without the last sample.

    ``multiples`` (k,) are the target's sines in periods per interval, ``others`` those of the
    targets of other axes, which are no remnant of this axis.
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
    """Return the mean power of the lines beside ``at`` that belong to no target."""
    first, last = max(1, at - _BESIDE), min(len(power), at + _BESIDE + 1)
    lines = power[first:last][~aside[first:last]]
    return float(lines.mean()) if len(lines) else 0.0


@dataclass(frozen=True)
class PilotFit:
    """The parameters of a pilot who fits the measured describing function."""

    model: PilotModel
    error: float
    """RMS of the relative error of the describing function; surer frequencies count more."""


_STRUCTURES = ((False, False), (True, False), (False, True))
"""Whether the pilot leads, and whether the pilot lags."""
_SURE = 0.02
"""Below this relative standard deviation, all frequencies count the same in the fit."""
_BETTER = 0.7
"""A structure with more parameters must reduce the RMS of the error to this share."""


def fit_pilot(found: DescribingFunctions) -> PilotFit | None:
    """Return the pilot who fits the trusted frequencies, or ``None`` if they are fewer than five.

    A pilot without lead and lag is preferred, unless lead or lag fits clearly better.
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
    """Return the best pilot of one structure, from several starts."""
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
    """Return the RMS error of a linear loop (k,) for a target with ``amplitudes`` (k,)."""
    return math.sqrt(0.5 * float((np.abs(amplitudes / (1.0 + loop)) ** 2).sum()))
