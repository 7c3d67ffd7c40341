"""The frame under way: when its tag began, its compute time so far, and the time of each job."""

from __future__ import annotations

from rtsim.timing.frames import NO_SAMPLE, FrameLog, WorstFrame

REST = "(not in a job)"
NEXT = "propagate"
"""The job between ``ready`` and ``wait``: the provisional step towards the next tag."""
RECORDING = "recording"
"""The job of handing the tag's rows to the recorder."""


class Frame:
    """The present frame of a :class:`rtsim.timing.pacing.Pacer`; all times are wall-clock ns.

    The compiled engine continues a frame that the pacer began, and the pacer one of the compiled
    engine; both therefore read and write these attributes.
    """

    __slots__ = (
        "began_late", "closed", "culprit", "culprit_ns", "jobs", "jobs_before", "lap_at",
        "late_by_wake", "next", "resumed", "spent", "stood", "tag_ns", "woke_late",
    )  # fmt: skip

    def __init__(self) -> None:
        self.jobs: dict[str, int] = {}
        self.jobs_before: dict[str, int] = {}
        self.reset(0, 0)

    def reset(self, ns: int, now: int) -> None:
        """Start at the tag at simulated ``ns``: nothing is late, nothing was computed."""
        self.tag_ns = ns
        self.resumed = self.lap_at = now  # start of the present period of computing
        self.spent = 0  # compute time of this frame before that period
        self.next = False  # True from ready() on
        self.began_late = 0
        self.late_by_wake = 0  # the share of the present lateness that late wakes caused
        self.stood: int | None = None  # waiting for the CPU, in the wait that ended late
        self.woke_late = NO_SAMPLE
        self.closed = False  # True if this frame is in the log and the next has not begun
        self.culprit, self.culprit_ns = "", -1  # of the longest frame since last on time
        self.jobs.clear()

    def begin(self, ns: int, now: int) -> None:
        """Begin the frame of the tag at simulated ``ns``."""
        self.tag_ns = ns
        self.resumed = self.lap_at = now
        self.spent = 0
        self.closed = self.next = False
        self.jobs, self.jobs_before = self.jobs_before, self.jobs
        self.jobs.clear()

    def go_back(self, ns: int, spent: int, ready: bool, woke_late: int) -> None:
        """Return to the frame before the latest :meth:`begin`."""
        self.tag_ns, self.spent, self.next, self.woke_late = ns, spent, ready, woke_late
        self.jobs, self.jobs_before = self.jobs_before, self.jobs
        self.closed = False

    def note_compute(self, now: int) -> None:
        """Add the time since computing resumed to the compute time."""
        self.spent += now - self.resumed
        self.resumed = now
        if self.next:
            self.jobs[NEXT] = self.jobs.get(NEXT, 0) + now - self.lap_at
            self.lap_at = now

    def lap(self, name: str, now: int) -> None:
        """Assign the time since the last lap to the job ``name``."""
        self.jobs[name] = self.jobs.get(name, 0) + now - self.lap_at
        self.lap_at = now

    def close(self, log: FrameLog, margin: int) -> None:
        """Log the frame as finished; :meth:`go_back` undoes this if the next wait ends early."""
        if self.closed:  # a freeze has closed the frame
            return
        self.closed = True
        spent = self.spent
        log.add(self.woke_late, spent, margin)
        if log.is_among_worst(self.began_late + spent):
            log.keep(WorstFrame(self.tag_ns, self.began_late, spent, dict(self.jobs)))
        self.woke_late = NO_SAMPLE

    def accuse(self) -> None:
        """Note the longest job of this frame, if the frame is the longest since last on time."""
        if self.spent > self.culprit_ns:
            self.culprit, self.culprit_ns = self.longest_job(), self.spent

    def longest_job(self) -> str:
        """Return the job with the most time in the frame; :data:`REST` if it has no name."""
        if not self.jobs:
            return ""
        name = max(self.jobs, key=self.jobs.__getitem__)
        return name if self.jobs[name] >= self.spent - sum(self.jobs.values()) else REST
