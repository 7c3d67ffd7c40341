"""Record the timing of every frame: buffer it in the loop, and count it when there is time."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rtsim.timing.statistics import Spread

BLOCK = 4096
"""The most frames that are buffered.  A loop without spare time must count them (about 0.3 ms) each
time the buffer is full."""
ENOUGH = 256
NO_SAMPLE = -(2**63)
UNACCOUNTED = "unaccounted"
FRAME_COLUMNS = ("wake_lateness", "compute", "margin")
"""The columns of the recorded track ``timing``, wall-clock ns, as in :attr:`FrameLog.last`."""


@dataclass(frozen=True)
class WorstFrame:
    """One of the frames with the longest time from its due time to the end of its work."""

    tag_ns: int
    late_ns: int
    compute_ns: int
    jobs: dict[str, int]
    """Time of each named job [ns]."""

    @property
    def response_ns(self) -> int:
        return self.late_ns + self.compute_ns

    @property
    def unaccounted_ns(self) -> int:
        """Compute time outside the jobs [ns]: the loop's own work, and time in which another
        process had the CPU between two jobs."""
        return max(0, self.compute_ns - sum(self.jobs.values()))

    @property
    def shares(self) -> list[tuple[str, int]]:
        """The time of each job [ns] and of :data:`UNACCOUNTED`; the longest first."""
        parts = [*self.jobs.items(), (UNACCOUNTED, self.unaccounted_ns)]
        return sorted(((job, ns) for job, ns in parts if ns), key=lambda part: -part[1])


class FrameLog:
    """Statistics of all frames, in fixed memory, and the worst frames with their jobs.

    A frame is added before the wait for the next one, when there is time.  If that wait ends early,
    :meth:`reopen` removes the frame again.
    """

    def __init__(self, keep_worst: int = 10) -> None:
        self.frames = 0
        self.lateness, self.compute, self.margin = Spread(), Spread(), Spread()
        self._worst: list[WorstFrame] = []
        self._latest: WorstFrame | None = None  # one of the worst, unless removed again
        self.keeps_worst = keep_worst
        """The number of worst frames to keep."""
        self._least = -1 if keep_worst else 2**63
        self._rows = tuple(array("q", bytes(8 * BLOCK)) for _ in range(3))
        self._late, self._compute, self._margin = self._rows
        self._row = 0
        self.last: tuple[int, ...] = (NO_SAMPLE, 0, NO_SAMPLE)
        """The :data:`FRAME_COLUMNS` of the latest frame."""

    @property
    def buffered(self) -> int:
        return self._row

    @property
    def worst(self) -> list[WorstFrame]:
        """The frames with the longest response; the worst is first."""
        latest = [] if self._latest is None else [self._latest]
        frames = sorted(self._worst + latest, key=lambda f: -f.response_ns)
        return frames[: self.keeps_worst]

    @property
    def least(self) -> int:
        """The response [ns] above which a frame is among the worst."""
        self._settle_latest()
        return self._least

    def returned(self, frames: int, last: tuple[int, ...], worst: Iterable[WorstFrame]) -> None:
        """Take over ``frames`` that compiled code has counted.

        ``last``: the columns of the last one; ``worst``: candidates, oldest first.
        """
        self.frames += frames
        self.last = last
        for frame in worst:
            self._settle_latest()
            if self.is_among_worst(frame.response_ns):
                self.keep(frame)

    def _settle_latest(self) -> None:
        if self._latest is not None:
            self._worst, self._latest = self.worst, None
            if len(self._worst) == self.keeps_worst:
                self._least = self._worst[-1].response_ns

    def add(self, woke_late_ns: int, compute_ns: int, margin_ns: int) -> None:
        """Add a frame; a time is :data:`NO_SAMPLE` if there was no wake, or no next deadline."""
        if self._row == BLOCK:
            self.count()
        self._settle_latest()
        row = self._row
        self._late[row], self._compute[row], self._margin[row] = woke_late_ns, compute_ns, margin_ns
        self.last = (woke_late_ns, compute_ns, margin_ns)
        self.frames += 1
        self._row = row + 1

    def is_among_worst(self, response_ns: int) -> bool:
        return response_ns > self._least

    def keep(self, frame: WorstFrame) -> None:
        """Keep ``frame``, the latest frame, as one of the worst."""
        self._latest = frame

    def reopen(self) -> int:
        """Remove the latest frame, which has not ended yet; return its ``woke_late_ns``."""
        self._latest = None
        self.frames -= 1
        self._row -= 1
        return self._late[self._row]

    def add_wake(self, late_ns: int) -> None:
        """Count a wake that no frame follows."""
        if late_ns != NO_SAMPLE:
            self.lateness.add(np.array([late_ns], dtype=np.int64))

    def count(self) -> None:
        """Count the buffered frames (about 100 us for 256); not allowed between add and reopen."""
        spreads = (self.lateness, self.compute, self.margin)
        for rows, spread in zip(self._rows, spreads, strict=True):
            samples = np.frombuffer(rows, dtype=np.int64)[: self._row]
            spread.add(samples[samples != NO_SAMPLE])
        self._row = 0
