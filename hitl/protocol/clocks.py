"""Offset and drift of a board's clock against the host's, from round trips.

The board's stamp lies somewhere between sending and receiving.  A trip that took longer than the
shortest was held up on one of its ways, and nobody knows which: its midpoint is uncertain by half
of the excess.  Trips are weighted by that and fitted by a straight line.  What no round trip shows
is a lasting difference between both ways; it is at most half of the shortest trip, stated apart.

D. L. Mills, IEEE Transactions on Communications 39 (1991), 1482: the clock filter.
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
"""micros() of a 16 MHz board counts in fours."""
FEWEST = 3


class RoundTrip(NamedTuple):
    """Host's times of sending and receiving, and the board's micros() in between."""

    sent_ns: int
    received_ns: int
    micros: int

    @property
    def delay_ns(self) -> int:
        return self.received_ns - self.sent_ns


@dataclass(frozen=True)
class ClockFit:
    """``board = host + offset + drift * (host - reference)``, in ns; uncertainties are one sigma.

    ``asymmetry_ns`` bounds what the offset may be wrong by beside its uncertainty.
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
        """What the board's clock, counted on over its wraps, shows at this time of the host."""
        return host_ns + self.offset_ns + self.drift * (host_ns - self.reference_ns)

    def host_ns(self, board_ns: float) -> float:
        since = board_ns - self.reference_ns - self.offset_ns
        return self.reference_ns + since / (1.0 + self.drift)


def unrolled(trips: Sequence[RoundTrip]) -> list[int]:
    """The board's microseconds, counted on over the wraps of 32 bits; the first is as it is.

    The host's clock tells how many wraps lie in a gap, so that gaps may be longer than one.
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
    """The clock of these trips, in the order of their sending; raises ControllerError."""
    if len(trips) < FEWEST:
        raise ControllerError(f"{len(trips)} round trips; a clock needs at least {FEWEST}")
    reference = _middle_twice(trips[len(trips) // 2]) // 2
    host = np.array([_middle_twice(t) / 2 - reference for t in trips])
    board = np.array([1000 * m - reference for m in unrolled(trips)], float) + tick_ns / 2
    delays = np.array([t.delay_ns for t in trips], float)
    if delays.min() < 0:
        raise ControllerError("a reply that came before its request: not one clock on the host")
    # The shortest trip was held up too: by about as much as the next ones are longer.
    shortest = np.sort(delays)[: FEWEST + 1]
    excess = (delays - shortest[0] + shortest[-1] - shortest[0]) / 2
    return _line(reference, host, board - host, excess, tick_ns, float(delays.min() / 2))


def _line(
    reference: int, x: Vector, y: Vector, excess: Vector, tick_ns: int, asymmetry: float
) -> ClockFit:
    """Weighted least squares ``y = offset + drift x``.

    The counter's steps and a hold-up that is always on the same way do not average out: their
    parts of the uncertainties do not shrink with the number of trips.
    """
    step = tick_ns / math.sqrt(12.0)
    weight = 1.0 / (step**2 + excess**2)
    total = weight.sum()
    centre = (weight * x).sum() / total
    spread = (weight * (x - centre) ** 2).sum()
    if spread == 0.0:
        raise ControllerError("all round trips at one time; a clock's drift needs some apart")
    level = (weight * y).sum() / total
    slope = (weight * (x - centre) * y).sum() / spread
    residual = y - level - slope * (x - centre)
    # Where the trips scatter more than was assumed, so do the results.
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
