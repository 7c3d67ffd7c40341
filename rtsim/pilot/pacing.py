"""When to draw: absolute deadlines, and what is done while waiting for one.

As in the simulation, deadlines are ticks of a rational period from the start, so that lateness of
one frame is not handed on to the next; whoever waits by intervals draws too slowly, and at
wandering intervals.  A frame that was missed altogether is dropped and counted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rtsim.core.clock import Clock
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S, Period, exact_seconds
from rtsim.timing.statistics import Spread

POLL_NS = 1_000_000
_BLOCK = 64


class VideoFrames:
    """Deadlines at ``rate_hz`` on ``clock``, whose own time starts with this object.

    ``idle`` is the clock of the polls between frames: on a real machine one that does not spin.
    """

    def __init__(self, rate_hz: float, clock: Clock, idle: Clock | None = None) -> None:
        if not 1.0 <= rate_hz <= 1000.0:
            raise ScenarioError(f"{rate_hz:g} frames a second; give 1 to 1000")
        self.period = Period(NS_PER_S / exact_seconds(rate_hz, "rate"))
        self.number = 0
        """Of the frame that is due next; the one at the start is 0."""
        self.dropped = 0
        """Frames that were never drawn: the one before took until the next one was due."""
        self.intervals = Durations()
        """Between the moments at which two frames in a row began, own ns."""
        self._clock, self._idle = clock, idle or clock
        clock.anchor(0)
        if idle is not None:
            idle.anchor(0)
        self._began: int | None = None

    def wait(self, poll: Callable[[], object]) -> int:
        """Until the next frame is due; polls about each millisecond, and once just before.

        Returns the clock's own time [ns] of the deadline: what is drawn should be as of then.
        """
        clock, tick = self._clock, self.period.tick
        number = self.number
        now = clock.simulated(clock.now())
        if now >= tick(number + 1):
            number = self.period.index_after(now) - 1
            self.dropped += number - self.number
        due = tick(number)
        while True:
            poll()
            now = clock.simulated(clock.now())
            if now + POLL_NS >= due:
                break
            self._idle.wait_until(now + POLL_NS)
        clock.wait_until(due)
        poll()
        began = clock.now()
        if self._began is not None:
            self.intervals.add(began - self._began)
        self._began = began
        self.number = number + 1
        return clock.wall(due)


class Durations:
    """Median, 95th percentile and greatest of any number of durations [ns]."""

    def __init__(self) -> None:
        self._spread = Spread()
        self._block = np.zeros(_BLOCK, dtype=np.int64)
        self._filled = 0

    def add(self, ns: int) -> None:
        if self._filled == _BLOCK:
            self.count_in()
        self._block[self._filled] = ns
        self._filled += 1

    def count_in(self) -> None:
        """Some 20 us; by itself at every 64th duration, or when it suits the owner."""
        self._spread.add(self._block[: self._filled])
        self._filled = 0

    def quantile(self, p: float) -> int:
        """ns; 0 where nothing was counted, the greatest where the samples are too few for ``p``."""
        self.count_in()
        found = self._spread.quantile(p)
        return (self._spread.max or 0) if found is None else found

    @property
    def count(self) -> int:
        return self._spread.count + self._filled

    @property
    def greatest(self) -> int:
        self.count_in()
        return self._spread.max or 0
