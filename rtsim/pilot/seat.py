"""Control authority: one viewer at a time moves the stick and gives orders; the others watch.

The viewer that wrote the stick's record last has the control authority as long as it renews the
record. A viewer that is stopped loses the authority. A lock would be worse, because a viewer that
hangs would keep the lock.
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
"""The control authority is free if no record came for this time; keep-alives come every 0.1 s."""
_WHO = STICK.index("who")


def new_viewer_number() -> int:
    """Return a random number that identifies a new viewer."""
    return secrets.randbits(62) | 1


class Seat:
    """Finds out from the stick's record whether the control authority is free."""

    def __init__(self, stick: Reader, clock: Callable[[], int] = stopwatch) -> None:
        self._stick, self._clock = stick, clock
        self._number = self._seen_ns = 0
        self._who = NOBODY

    def free_for(self, who: int) -> bool:
        """Return whether the viewer ``who`` has the control authority or can take it."""
        now, number = self._clock(), self._stick.number
        if number != self._number:
            record = self._stick.read()
            if record is not None:
                self._number, self._seen_ns = record.number, now
                self._who = int(record.integers[_WHO])
        return self._who in (NOBODY, who) or now - self._seen_ns >= FREE_NS
