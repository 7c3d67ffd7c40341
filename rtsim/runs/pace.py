"""How simulated time follows the wall clock."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rtsim.core.clock import Clock, VirtualClock, WallClock
from rtsim.core.errors import ScenarioError
from rtsim.timing.policy import CatchUp, Policy
from rtsim.timing.scheduling import SchedulingRequest

MAX = "max"
"""The pace of a run that never waits for the wall clock."""


@dataclass(frozen=True)
class Pace:
    """How simulated time follows the wall clock; ``rate`` is ``None`` for as fast as possible."""

    rate: float | Fraction | None = None
    policy: Policy = CatchUp()
    scheduling: SchedulingRequest = SchedulingRequest()

    @classmethod
    def of(cls, pace: Pace | str | float | Fraction, **rest: Any) -> Pace:
        """Return the pace for ``"max"``, ``"1.0"`` or ``"1/3"``, or a :class:`Pace` as it is.

        A fraction is exact.  Raises :class:`ScenarioError` for any other text.
        """
        if isinstance(pace, Pace):
            return pace
        if pace == MAX:
            return cls(None, **rest)
        try:
            fraction = isinstance(pace, Fraction) or (isinstance(pace, str) and "/" in pace)
            rate = Fraction(pace) if fraction else float(pace)
        except (ValueError, ZeroDivisionError):
            raise ScenarioError(
                f"pace is {pace!r}; give 'max' or a rate such as 1.0, 0.25, 1/3 or 3600"
            ) from None
        return cls(rate, **rest)

    def clock(self, told: bool = False) -> Clock:
        """Return the clock of a run; ``told``: commands may change the rate during the run."""
        return VirtualClock() if self.rate is None and not told else WallClock(self.rate)

    def __str__(self) -> str:
        if isinstance(self.rate, Fraction):
            return str(self.rate)
        return MAX if self.rate is None else f"{self.rate:g}"
