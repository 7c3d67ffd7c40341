"""Estimate offset and drift of a board's clock from round trips.

The board takes its time stamp after the host has sent the request and before the host receives the
answer. In a longer round trip, one of the two directions was delayed. The midpoint of a round trip
is therefore uncertain by half of its additional time. The fit of a straight line weights the round
trips accordingly.

Round trips cannot show a constant difference between both directions. Such a difference shifts the
offset by at most half of the shortest round trip. The field ``asymmetry_ns`` contains this limit.

Source: D. L. Mills, IEEE Transactions on Communications 39 (1991), 1482 (the clock filter).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector

WRAP = 2**32
TICK_NS = 4_000
"""Resolution of micros() on a 16 MHz board: 4 microseconds."""
FEWEST = 3


class RoundTrip(NamedTuple):
    """A round trip: the host's times of sending and receiving (ns), and the board's micros()."""

    sent_ns: int
    received_ns: int
    micros: int

    @property
    def delay_ns(self) -> int:
        return self.received_ns - self.sent_ns


@dataclass(frozen=True)
class ClockFit:
    """A linear model of the board's clock, with all times in ns.

    The model is ``board = host + offset + drift * (host - reference)``.  Fields named ``..._sigma``
    are standard deviations. ``asymmetry_ns`` is the largest possible error from unequal delays of
    both directions.
    """

    reference_ns: int
    offset_ns: float
    drift: float
    offset_sigma_ns: float
    drift_sigma: float
    asymmetry_ns: float
    trips: int

    @property
    def drift_ppm(self) -> float:
        return 1e6 * self.drift

    def board_ns(self, host_ns: int) -> float:
        """Convert a host time (ns) to the board's time (ns)."""
        return host_ns + self.offset_ns + self.drift * (host_ns - self.reference_ns)

    def host_ns(self, board_ns: float) -> float:
        """Convert a board time (ns) to the host's time (ns)."""
        since = board_ns - self.reference_ns - self.offset_ns
        return self.reference_ns + since / (1.0 + self.drift)


def unrolled(trips: Sequence[RoundTrip]) -> list[int]:
    """Return the board's times in microseconds without overflows of the 32-bit counter.

    The first time is unchanged. The counter may overflow several times between two round trips. The
    host's clock shows how often.
    """
    counted: list[int] = []
    before: RoundTrip | None = None
    for trip in trips:
        if before is None:
            counted.append(trip.micros)
        else:
            expected = counted[-1] + (_middle_twice(trip) - _middle_twice(before)) // 2000
            counted.append(trip.micros + WRAP * round((expected - trip.micros) / WRAP))
        before = trip
    return counted


def _middle_twice(trip: RoundTrip) -> int:
    return trip.sent_ns + trip.received_ns


def fit(trips: Sequence[RoundTrip], tick_ns: int = TICK_NS) -> ClockFit:
    """Fit the board's clock to round trips in the order of sending.

    ``tick_ns`` is the resolution of the board's clock, ns. Raises ``ControllerError`` for fewer
    than 3 round trips, and for impossible times.
    """
    if len(trips) < FEWEST:
        raise ControllerError(
            f"the fit of a clock needs at least {FEWEST} round trips, got {len(trips)}"
        )
    reference = _middle_twice(trips[len(trips) // 2]) // 2
    host = np.array([_middle_twice(t) / 2 - reference for t in trips])
    board = np.array([1000 * m - reference for m in unrolled(trips)], float) + tick_ns / 2
    delays = np.array([t.delay_ns for t in trips], float)
    if delays.min() < 0:
        raise ControllerError(
            "a reply arrived before its request was sent: take both times from the same clock "
            "of the host"
        )
    # The shortest trip was also delayed.  The next longer trips estimate this delay.
    shortest = np.sort(delays)[: FEWEST + 1]
    excess = (delays - shortest[0] + shortest[-1] - shortest[0]) / 2
    return _line(reference, host, board - host, excess, tick_ns, float(delays.min() / 2))


def _line(
    reference: int, x: Vector, y: Vector, excess: Vector, tick_ns: int, asymmetry: float
) -> ClockFit:
    step = tick_ns / math.sqrt(12.0)
    weight = 1.0 / (step**2 + excess**2)
    total = weight.sum()
    centre = (weight * x).sum() / total
    spread = (weight * (x - centre) ** 2).sum()
    if spread == 0.0:
        raise ControllerError(
            "all round trips have the same time; the fit of a drift needs different times"
        )
    level = (weight * y).sum() / total
    slope = (weight * (x - centre) * y).sum() / spread
    residual = y - level - slope * (x - centre)
    # If the trips scatter more than assumed, enlarge the uncertainties accordingly.
    chi = max(1.0, float((weight * residual**2).sum() / max(len(x) - 2, 1)))
    lever = (weight * abs(x - centre)).sum() / spread
    slope_sigma = math.hypot(math.sqrt(chi / spread), step * lever)
    lasting = (weight * excess).sum() / total
    level_sigma = math.hypot(math.sqrt(chi / total), step, lasting)
    return ClockFit(
        reference_ns=reference,
        offset_ns=float(level - slope * centre),
        drift=float(slope),
        offset_sigma_ns=math.hypot(level_sigma, slope_sigma * centre),
        drift_sigma=slope_sigma,
        asymmetry_ns=asymmetry,
        trips=len(x),
    )
