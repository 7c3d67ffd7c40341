"""Timing of all frames of a run."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtsim.timing.statistics import Spread

BLOCK = 4096
"""Maximum number of buffered frames.

When the buffer is full, the loop must update the statistics at once, which takes about 0.3 ms.
"""
ENOUGH = 256
NO_SAMPLE = -(2**63)
UNACCOUNTED = "unaccounted"
FRAME_COLUMNS = {"wake_lateness": "woke_late", "compute": "spent", "margin": "margin"}
"""Columns of the recorded track ``timing``, wall-clock ns, and the attributes of :class:`Frame`
with their values.

The statistics of a run use the first three columns.
"""


@dataclass(frozen=True)
class WorstFrame:
    """One of the frames that took longest."""

    tag_ns: int
    late_ns: int
    compute_ns: int
    jobs: dict[str, int]

    @property
    def response_ns(self) -> int:
        return self.late_ns + self.compute_ns

    @property
    def unaccounted_ns(self) -> int:
        """Compute time outside the jobs, ns.

        Between two jobs, the loop does its own work, or another process uses the CPU.
        """
        return max(0, self.compute_ns - sum(self.jobs.values()))

    @property
    def shares(self) -> list[tuple[str, int]]:
        """Durations (ns) of the jobs and of the remaining time, the longest first."""
        parts = [*self.jobs.items(), (UNACCOUNTED, self.unaccounted_ns)]
        return sorted(((job, ns) for job, ns in parts if ns), key=lambda part: -part[1])


class FrameLog:
    """Statistics of all frames, and the worst frames with their jobs.

    A frame is added at its end, before the wait for the next frame. If the wait ends early,
    ``reopen`` removes the frame, which then continues.
    """

    def __init__(self, keep_worst: int = 10) -> None:
        self.frames = 0
        self.lateness, self.compute, self.margin = Spread(), Spread(), Spread()
        self._worst: list[WorstFrame] = []
        # one of the worst frames, unless reopen() removes it
        self._latest: WorstFrame | None = None
        self.keeps_worst = keep_worst
        self._least = -1 if keep_worst else 2**63
        self._rows = tuple(array("q", bytes(8 * BLOCK)) for _ in range(3))
        self._late, self._compute, self._margin = self._rows
        self._row = 0
        more = len(FRAME_COLUMNS) - 3
        self.last: tuple[int, ...] = (NO_SAMPLE, 0, NO_SAMPLE, *more * (0,))
        """The :data:`FRAME_COLUMNS` of the latest frame."""

    @property
    def spreads(self) -> tuple[Spread, Spread, Spread]:
        """Statistics of the first three :data:`FRAME_COLUMNS`."""
        return self.lateness, self.compute, self.margin

    @property
    def buffered(self) -> int:
        return self._row

    @property
    def worst(self) -> list[WorstFrame]:
        """The frames that took longest, in descending order."""
        latest = [] if self._latest is None else [self._latest]
        frames = sorted(self._worst + latest, key=lambda f: -f.response_ns)
        return frames[: self.keeps_worst]

    @property
    def least(self) -> int:
        """Least duration (ns) of a frame that counts as one of the worst."""
        self._settle_latest()
        return self._least

    def returned(self, frames: int, last: tuple[int, ...], worst: Iterable[WorstFrame]) -> None:
        """Add frames whose statistics compiled code has already updated.

        ``frames`` is the number of frames. ``last`` contains the ``FRAME_COLUMNS`` of the last
        frame. ``worst`` contains candidates for the worst frames, the oldest first.
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
        """Add a frame to the buffer.

        ``woke_late_ns`` is ``NO_SAMPLE`` if the loop did not wait before the frame. ``margin_ns``
        is ``NO_SAMPLE`` without a next deadline.
        """
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
        self._latest = frame

    def reopen(self) -> int:
        """Remove the latest frame, which continues; return its ``woke_late_ns``."""
        self._latest = None
        self.frames -= 1
        self._row -= 1
        return self._late[self._row]

    def add_wake(self, late_ns: int) -> None:
        """Add the lateness (ns) of a wake-up without a frame."""
        if late_ns != NO_SAMPLE:
            self.lateness.add(np.array([late_ns], dtype=np.int64))

    def count(self) -> None:
        """Add the buffered frames to the statistics, which takes about 100 us for 256 frames.

        Do not call this method between :meth:`add` and :meth:`reopen`.
        """
        for rows, spread in zip(self._rows, self.spreads, strict=True):
            samples = np.frombuffer(rows, dtype=np.int64)[: self._row]
            spread.add(samples[samples != NO_SAMPLE])
        self._row = 0


# The current frame: start of its tag, its compute time so far, and the time of each job.

REST = "(not in a job)"
NEXT = "propagate"
"""The job between ``ready`` and ``wait``: the provisional step towards the next tag."""
RECORDING = "recording"


class Frame:
    """The present frame of a ``rtsim.timing.pacing.Pacer``; all times are wall-clock ns.

    The compiled engine and the pacer can each continue a frame that the other has begun.
    """

    __slots__ = (
        "began_late", "closed", "culprit", "culprit_ns", "jobs", "jobs_before", "lap_at",
        "late_by_wake", "margin", "next", "resumed", "spent", "stood", "tag_ns", "woke_late",
    )  # fmt: skip

    def __init__(self) -> None:
        self.jobs: dict[str, int] = {}
        self.jobs_before: dict[str, int] = {}
        self.reset(0, 0)

    def reset(self, ns: int, now: int) -> None:
        """Begin at the simulated time ``ns``, without lateness."""
        self.tag_ns = ns
        self.resumed = self.lap_at = now  # start of the present period of computing
        self.spent = 0  # compute time of this frame before `resumed`
        self.next = False  # True from ready() on
        self.began_late = 0
        self.late_by_wake = 0  # part of the current lateness that late wakes caused
        self.stood: int | None = (
            None  # time for which the loop waited for a CPU, in a wait that ended late
        )
        self.woke_late = self.margin = NO_SAMPLE
        self.closed = False  # True if this frame is in the log and the next has not begun
        # of the longest frame since the loop was last on time
        self.culprit, self.culprit_ns = "", -1
        self.jobs.clear()

    def begin(self, ns: int, now: int) -> None:
        """Begin the frame of the tag at the simulated time ``ns``."""
        self.tag_ns = ns
        self.resumed = self.lap_at = now
        self.spent = 0
        self.closed = self.next = False
        self.jobs, self.jobs_before = self.jobs_before, self.jobs
        self.jobs.clear()

    def go_back(self, ns: int, spent: int, ready: bool, woke_late: int) -> None:
        self.tag_ns, self.spent, self.next, self.woke_late = ns, spent, ready, woke_late
        self.jobs, self.jobs_before = self.jobs_before, self.jobs
        self.closed = False

    def note_compute(self, now: int) -> None:
        """Add the time since the last call to the frame's computing time."""
        self.spent += now - self.resumed
        self.resumed = now
        if self.next:
            self.jobs[NEXT] = self.jobs.get(NEXT, 0) + now - self.lap_at
            self.lap_at = now

    def lap(self, name: str, now: int) -> None:
        """Count the time since the last call as time of the job ``name``."""
        self.jobs[name] = self.jobs.get(name, 0) + now - self.lap_at
        self.lap_at = now

    def close(self, log: FrameLog, margin: int) -> None:
        """Add the frame to the log. If the wait ends early, ``go_back`` restores the frame."""
        if self.closed:  # a freeze has closed the frame
            return
        self.closed, self.margin = True, margin
        spent = self.spent
        log.add(self.woke_late, spent, margin)
        if len(FRAME_COLUMNS) > 3:
            log.last = tuple(getattr(self, name) for name in FRAME_COLUMNS.values())
        if log.is_among_worst(self.began_late + spent):
            log.keep(WorstFrame(self.tag_ns, self.began_late, spent, dict(self.jobs)))
        self.woke_late = NO_SAMPLE

    def accuse(self) -> None:
        """Store the longest job of the longest late frame."""
        if self.spent > self.culprit_ns:
            self.culprit, self.culprit_ns = self.longest_job(), self.spent

    def longest_job(self) -> str:
        """Return the longest job of the frame.

        The result is ``REST`` if the time outside all jobs is longer than each job.
        """
        if not self.jobs:
            return ""
        name = max(self.jobs, key=self.jobs.__getitem__)
        return name if self.jobs[name] >= self.spent - sum(self.jobs.values()) else REST


# Histograms of message latencies, and the latest time stamps of each link, for live display.

CLASSES = 24
"""Number of classes. Class 0 ends at 1 us, class k at 2^k us, and the last class has no end."""
MOST_LINKS = 64
"""Maximum number of links. Further links are ignored."""


STAMPS = 3


class Tally:
    """For each link, a histogram of durations and the times of the latest message.

    The histograms ``counts`` have the shape (links, ``CLASSES``). ``latest`` has the shape (links,
    :data:`STAMPS`), in simulated ns. A link without a message has -1.
    """

    def __init__(self, links: list[str]) -> None:
        self.links = links[:MOST_LINKS]
        self.counts: NDArray[np.int64] = np.zeros((len(self.links), CLASSES), dtype=np.int64)
        self.latest: NDArray[np.int64] = np.full((len(self.links), STAMPS), -1, dtype=np.int64)
        self._rows = dict(zip(self.links, self.counts, strict=True))
        self._stamps = dict(zip(self.links, self.latest, strict=True))

    def stamp(self, link: str, initiated: int, completed: int, arrival: int) -> None:
        """Store the times (ns) of the latest message of a link."""
        row = self._stamps.get(link)
        if row is not None:
            row[0], row[1], row[2] = initiated, completed, arrival

    def add(self, link: str, ns: int) -> None:
        """Add a duration (ns) to the histogram of a link. Unknown links are ignored."""
        row = self._rows.get(link)
        if row is not None:
            row[min((max(ns, 0) // 1000).bit_length(), CLASSES - 1)] += 1

    def add_many(self, link: str, ns: NDArray[np.int64]) -> None:
        """Add durations ``ns`` (k,) to the histogram of a link."""
        row = self._rows.get(link)
        if row is not None:
            classes = np.frexp(np.maximum(ns, 0) // 1000)[1]  # the number of bits
            row += np.bincount(np.minimum(classes, CLASSES - 1), minlength=CLASSES)


def upper_us(index: int) -> int:
    """Return the upper limit (us) of a class of the histogram."""
    return 1 << index


def quantile_us(counts: list[int], p: float) -> int | None:
    """Return the upper limit (us) of the class with the p-quantile, or ``None``."""
    rank = sum(counts) * p
    seen = 0
    for index, count in enumerate(counts):
        seen += count
        if count and seen >= rank:
            return upper_us(index)
    return None
