"""Marks of pilot-induced oscillation: stretches in which error and stick swing against each other.

The rule looks at consecutive extremes of the error, as ROVER does: D. G. Mitchell, A. J. Arencibia
and S. Munoz, "Real-Time Detection of Pilot-Induced Oscillations", AIAA 2004-4700.  An extreme
belongs to an oscillation if the half period before it and its swing are within limits, and the
stick swings too.  The limit of the swing is the task's own: an error whose RMS is larger than that
of the target, so that the pilot would do better without the stick.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from rtsim.core.signals import Vector

SLOWEST, FASTEST = 1.0, 15.0
"""The frequencies of pilot-induced oscillations, rad/s."""
HALF_PERIODS = 4
"""Consecutive half periods after which a stretch is marked."""
_STICK = 0.1
"""The swing of the stick that counts, as a share of its whole travel."""


@dataclass(frozen=True)
class Oscillation:
    """A marked stretch: first and last time (s), mean frequency (rad/s), largest swing, and lag.

    ``swing`` is peak to peak, in the unit of the error.  ``lag`` is the phase (deg) by which the
    aircraft's answer follows the stick.
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
    """Return the marked stretches of signals (n,) at ``time`` (n,), s.

    ``swing``: the least swing of the error, peak to peak; ``travel``: of the stick, end to end.
    """
    at = extremes(error, 0.5 * swing)
    out, run = [], [at[0]] if len(at) else []
    for before, now in pairwise(at):
        half = time[now] - time[before]
        moved = np.ptp(stick[before : now + 1]) if now > before else 0.0
        good = (
            math.pi / FASTEST <= half <= math.pi / SLOWEST
            and abs(error[now] - error[before]) >= swing
            and moved >= _STICK * travel
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
    """Return the stretch of the extremes ``run``, if they are enough half periods."""
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
    """Return the indices of alternating extremes that differ from each other by ``least``."""
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
