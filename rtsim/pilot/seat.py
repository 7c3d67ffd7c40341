"""Who moves the stick and gives orders: one viewer at a time, the others watch.

No lock, which a viewer that hangs would keep: whoever wrote the stick's record last has the seat
for as long as the record is renewed.  A viewer that was stopped and goes on finds it taken.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.sequence import Reader
from rtsim.pilot.shared import STICK

NOBODY = 0
FREE_NS = NS_PER_S
"""Of silence: a stick at rest is said again ten times as often."""
_WHO = STICK.index("who")


def newcomer() -> int:
    """A number for a viewer, which no other has."""
    return secrets.randbits(62) | 1


class Seat:
    """Looks at the stick's record."""

    def __init__(self, stick: Reader, clock: Callable[[], int] = stopwatch) -> None:
        self._stick, self._clock = stick, clock
        self._number = self._seen_ns = 0
        self._who = NOBODY

    def free_for(self, who: int) -> bool:
        """Whether ``who`` may write: has done so last, or nobody has for a second."""
        now, number = self._clock(), self._stick.number
        if number != self._number:
            record = self._stick.read()
            if record is not None:
                self._number, self._seen_ns = record.number, now
                self._who = int(record.integers[_WHO])
        return self._who in (NOBODY, who) or now - self._seen_ns >= FREE_NS
