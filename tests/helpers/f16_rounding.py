"""What single precision may cost the F-16's control law: running error analysis of its design.

A float32 keeps 24 bits: an input x is off by |x| 2^-24 at most, and so is every result.  The gains
carry that to the surfaces; the largest inputs cost most:

- 50,000 ft are off by 0.002 ft in both altitudes; times 0.05 deg/ft and 3.15 per deg of 25 deg of
  elevator that is 0.016 deg; times 0.209 per deg of throttle, 0.004 %.
- 180 deg are off by 8e-6 deg in course and yaw, and in the sums that the error of course takes,
  5e-5 deg in all; times 10 deg/deg and 3.08 per deg of 21.5 deg of aileron that is 0.035 deg;
  times 0.706 per deg of 30 deg of rudder, 0.011 deg.
- 800 kt are off by 3e-5 kt in both airspeeds; times 0.997 per kt that is 0.006 % of power.

:class:`Rounded` follows all of it through the law, operation by operation.
Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms (2002), section 3.3.
"""

from __future__ import annotations

import struct

UNIT = 2.0**-24 * (1.0 + 1e-6)
"""Largest relative error of one rounding to float32; with room for the bound's own rounding."""
TINY = 2.0**-149


class Undecided(Exception):
    """A comparison that rounding may turn around."""


class Rounded:
    """A value, and how far the same computation in float32 may be from it."""

    __slots__ = ("error", "value")

    def __init__(self, value: float, error: float) -> None:
        self.value = value
        self.error = error

    def __add__(self, other: Rounded | float) -> Rounded:
        b = rounded(other)
        return _stored(self.value + b.value, self.error + b.error)

    def __sub__(self, other: Rounded | float) -> Rounded:
        b = rounded(other)
        return _stored(self.value - b.value, self.error + b.error)

    def __mul__(self, other: Rounded | float) -> Rounded:
        b = rounded(other)
        error = abs(self.value) * b.error + abs(b.value) * self.error + self.error * b.error
        return _stored(self.value * b.value, error)

    def __rsub__(self, other: float) -> Rounded:
        return rounded(other) - self

    __radd__ = __add__
    __rmul__ = __mul__

    def __gt__(self, other: float) -> bool:
        if abs(self.value - other) <= self.error:
            raise Undecided
        return self.value > other

    def __lt__(self, other: float) -> bool:
        if abs(self.value - other) <= self.error:
            raise Undecided
        return self.value < other


def _stored(value: float, error: float) -> Rounded:
    return Rounded(value, error + UNIT * (abs(value) + error) + TINY)


def rounded(value: Rounded | float) -> Rounded:
    """An input or a constant, as float32 holds it."""
    if isinstance(value, Rounded):
        return value
    (single,) = struct.unpack("f", struct.pack("f", value))
    return Rounded(value, abs(single - value))


def limited(value: Rounded | float, low: float, high: float) -> Rounded:
    """The law's limiter: beyond a limit by more than the error there is no error left."""
    v = rounded(value)
    if v.value + v.error < low:
        return Rounded(low, 0.0)
    if v.value - v.error > high:
        return Rounded(high, 0.0)
    return Rounded(max(low, min(high, v.value)), v.error)
