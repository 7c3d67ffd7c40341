"""A study of the F-16 on one processor: the growth of an oscillation over the processor's speed.

The slowest speed at which the oscillation decays is compared with the delay margin of the loop in
``docs/f16-processor.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rtsim.studies import Grid, Study

if TYPE_CHECKING:
    from rtsim.core.signals import Vector
    from rtsim.record.reading import Recording

BEGIN_S = 1.5
"""Time from which the oscillation is measured, s: after the change of course has ended."""
FREQUENCY = 82.4
"""Frequency of the oscillation at the stability limit, rad/s."""


def growth(recording: Recording) -> float:
    """Return the growth rate of the roll rate between two windows of ten oscillations, 1/s.

    The rate is negative if the oscillation decays. An oscillation that reaches the limits of the
    aileron stops growing, so that a positive rate can be too small.
    """
    time, rate = recording.time, recording["f16.roll_rate"]
    window = 20 * np.pi / FREQUENCY
    last = time[-1] - window
    bends = np.diff(rate, 2)  # slow motions of the aircraft hardly bend the curve
    first, second = (
        np.std(bends[(time[1:-1] >= t) & (time[1:-1] < t + window)]) for t in (BEGIN_S, last)
    )
    return float(np.log(second / first) / (last - BEGIN_S))


def study(times: str = "longest", low: float = 0.155, high: float = 0.175) -> Study:
    """Return a study of five speeds between ``low`` and ``high``."""
    return Study(
        scenario="f16-processor",
        settings={"times": times},
        factors={"speed": (low, high)},
        design=Grid(levels=5),
        results={"growth": growth},
        requirements=["growth < 0"],
    )


def slowest_speed(speeds: Vector, rates: Vector) -> float:
    """Return the slowest speed at which the oscillation decays, between ``speeds`` (n,).

    The ``rates`` (n,) are the growth rates. The speed is interpolated between two neighbours.
    """
    order = np.argsort(speeds)
    speeds, rates = np.asarray(speeds)[order], np.asarray(rates)[order]
    (unstable,) = np.nonzero(rates >= 0)
    if not 0 < len(unstable) < len(rates) or (rates[: len(unstable)] < 0).any():
        raise ValueError(f"the growth rates {rates} do not change their sign once")
    k = len(unstable)
    return float(np.interp(0.0, -rates[k - 1 : k + 1], speeds[k - 1 : k + 1]))
