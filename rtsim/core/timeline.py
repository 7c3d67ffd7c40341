"""The exact map between simulated time and the own time of a clock."""

from __future__ import annotations

import math
from fractions import Fraction

from rtsim.core.errors import ScenarioError

SLOWEST, FASTEST = Fraction(1, 10**6), Fraction(10**9)
"""A frame of 1 h takes 114 years at the lowest rate, and times in ns have 64 bits."""


def exact_rate(rate: float | Fraction) -> Fraction:
    """Return ``rate`` exactly (0.1 is one tenth); ScenarioError if no clock can keep it."""
    if isinstance(rate, Fraction):
        exact = rate
    else:
        exact = Fraction(repr(float(rate))) if math.isfinite(rate) else Fraction(0)
    if exact <= 0:
        raise ScenarioError(
            f"rate {rate} is not a finite number > 0; type --pace 1.0 for real time, "
            "or --pace max to run without waiting"
        )
    if not SLOWEST <= exact <= FASTEST:
        raise ScenarioError(
            f"rate {float(exact):g} is out of range; give a rate from {float(SLOWEST):g} to "
            f"{float(FASTEST):g}, or --pace max to run without waiting"
        )
    return exact


class Timeline:
    """The exact map between simulated time and a clock's own time, used by every paced clock.

    It uses integers and a rational rate: :meth:`wall` is off by less than 1 ns after any number of
    months.  It rounds up, so that a deadline is never early.
    """

    __slots__ = ("_denominator", "_numerator", "_own", "_simulated")

    def __init__(self, rate: float | Fraction, own: int) -> None:
        self._simulated, self._own = 0, own
        self.rate = exact_rate(rate)

    @property
    def rate(self) -> Fraction:
        return Fraction(self._numerator, self._denominator)

    @rate.setter
    def rate(self, rate: Fraction) -> None:
        self._numerator, self._denominator = rate.numerator, rate.denominator

    def anchor(self, ns: int, own: int) -> None:
        self._simulated, self._own = ns, own

    @property
    def words(self) -> tuple[int, int, int, int]:
        """Reference point (simulated ns, own ns), numerator and denominator of the rate."""
        return self._simulated, self._own, self._numerator, self._denominator

    def wall(self, ns: int) -> int:
        return self._own - (self._simulated - ns) * self._denominator // self._numerator

    def simulated(self, own: int) -> int:
        return self._simulated + (own - self._own) * self._numerator // self._denominator
