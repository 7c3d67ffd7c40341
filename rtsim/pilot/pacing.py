"""Wait for the deadlines of video frames, and poll devices between frames.

The deadlines are multiples of a rational period, counted from the start. A late frame does not
delay later frames. A frame that is late by more than its period is dropped.
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
    """Deadlines of video frames at ``rate_hz`` on ``clock``.

    ``idle`` is a clock for the waits between polls, without busy-waiting.
    """

    def __init__(self, rate_hz: float, clock: Clock, idle: Clock | None = None) -> None:
        if not 1.0 <= rate_hz <= 1000.0:
            raise ScenarioError(
                f"the window cannot draw {rate_hz:g} pictures per second; give 1 to 1000"
            )
        self.period = Period(NS_PER_S / exact_seconds(rate_hz, "rate"))
        self.number = 0
        """Number of the frame that is due next, from 0."""
        self.dropped = 0
        """Number of frames that were not drawn because an earlier frame took too long."""
        self.intervals = Durations()
        """Times between the starts of successive frames, ns."""
        self._clock, self._idle = clock, idle or clock
        clock.anchor(0)
        if idle is not None:
            idle.anchor(0)
        self._began: int | None = None

    def wait(self, poll: Callable[[], object]) -> int:
        """Wait for the next frame, and return its deadline in wall-clock time, ns.

        During the wait, ``poll`` is called about once per millisecond.
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
    """Quantiles, count and maximum of durations (ns), in constant memory."""

    def __init__(self) -> None:
        self._spread = Spread()
        self._block = np.zeros(_BLOCK, dtype=np.int64)
        self._filled = 0

    def add(self, ns: int) -> None:
        if self._filled == _BLOCK:
            self.count_buffered()
        self._block[self._filled] = ns
        self._filled += 1

    def count_buffered(self) -> None:
        """Add the buffered durations to the statistics, which takes about 20 us.

        The method ``add`` does this automatically after 64 durations. Call this method earlier when
        time is available.
        """
        self._spread.add(self._block[: self._filled])
        self._filled = 0

    def quantile(self, p: float) -> int:
        """Return a quantile in ns, or 0 without durations."""
        self.count_buffered()
        found = self._spread.quantile(p)
        return (self._spread.max or 0) if found is None else found

    @property
    def count(self) -> int:
        return self._spread.count + self._filled

    @property
    def greatest(self) -> int:
        self.count_buffered()
        return self._spread.max or 0
