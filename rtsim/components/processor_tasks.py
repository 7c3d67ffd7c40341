"""Tasks of simulated processors: their declaration, and the record of their jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rtsim.components.latency import ZERO, LatencyModel
from rtsim.components.scheduling import Order, Server
from rtsim.core.signals import Vector
from rtsim.core.tag import Period

FINISH, ABORT, SKIP, END = MISS_POLICIES = ("finish", "abort", "skip", "end")
"""Reactions to a missed deadline, by name."""
LOCK_PROTOCOLS = ("inheritance", "ceiling", "none")
"""Protocols against the inversion of priorities, by name."""

Needs = Callable[[Vector], float]
"""Function that returns the execution time of a job, s, for the sampled inputs (m,)."""


@dataclass(frozen=True)
class Segment:
    """Part of a job, with an execution time of its own.

    Args:
        execution: Execution time: a latency model, or a function of the sampled inputs.
        reads: True if the job samples its inputs when this segment starts.
        writes: True if the job sends its answer when this segment ends.
        lock: Name of the lock that the job holds from the start to the end of the segment. If the
            next segment has the same lock, the job keeps it.
    """

    execution: LatencyModel | Needs
    reads: bool = False
    writes: bool = False
    lock: str = ""


@dataclass(frozen=True)
class TaskTiming:
    """Declaration of a task of a processor."""

    name: str
    period: Period | None
    """Period of the releases, or None if messages, guards or another task release the task."""
    deadline_ns: int
    """Time from the arrival of a job to its deadline, ns."""
    segments: tuple[Segment, ...]
    offset_ns: int = 0
    jitter: LatencyModel = ZERO
    """Time from the arrival of a job to its release."""
    priority: int = 0
    """Lower numbers run first."""
    interrupt: bool = False
    """True for an interrupt handler, which runs before all tasks."""
    core: int = 0
    """Core of the task, from 0 on; ignored if jobs can migrate."""
    server: Server | None = None
    missed: str = FINISH
    """Reaction to a missed deadline, one of :data:`MISS_POLICIES`."""
    after: str = ""
    """Task whose jobs, when they end, release this task."""
    locks: bool = field(init=False, repr=False, compare=False)
    """True if a segment of the task holds a lock."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "locks", any(segment.lock for segment in self.segments))

    @property
    def period_ns(self) -> int:
        """Period, ns; for a task without a period, its deadline."""
        return self.deadline_ns if self.period is None else round(self.period.ns)


class Counts(NamedTuple):
    """Counts of the jobs of one task in a run."""

    finished: int = 0
    missed: int = 0
    """Jobs that were unfinished at their deadline."""
    skipped: int = 0
    aborted: int = 0
    longest_ns: int = 0
    """Longest time from the arrival to the end of a job, ns."""


class FinishedJob(NamedTuple):
    """A job that has ended. All times are in ns."""

    ns: int
    task: int
    number: int
    arrival: int
    """Time of the tick, event or message that released the job."""
    started: int
    deadline: int
    executed: int
    preempted: int
    """Number of times that another job took the core."""
    aborted: int
    """1 if the job was aborted at its deadline."""


JOB_COLUMNS = FinishedJob._fields[2:]
"""Columns of the record of a finished job."""


@dataclass(slots=True)
class Job:
    """An unfinished job."""

    task: int
    number: int
    arrival_ns: int
    release_ns: int
    limit_ns: int
    """Deadline of the job, ns."""
    deadline_ns: int
    """Deadline with which the job competes, which a server can change, ns."""
    durations: list[int]
    """Execution time of each segment, ns; -1 until the inputs determine it."""
    turn: int
    left_ns: int
    """Rest of the present segment, ns."""
    sampled: bool
    segment: int = 0
    switch_ns: int = 0
    """Rest of the context switch, ns."""
    slice_ns: int = 0
    """Rest of the quantum, ns."""
    started_ns: int = -1
    executed_ns: int = 0
    preempted: int = 0
    missed: bool = False
    order: Order = ()
    """Sort key of the job while it is the first of its task, without locks."""

    def fresh(self) -> Job:
        return Job(
            self.task, self.number, self.arrival_ns, self.release_ns, self.limit_ns,
            self.deadline_ns, self.durations, self.turn, self.left_ns, self.sampled, self.segment,
            self.switch_ns, self.slice_ns, self.started_ns, self.executed_ns, self.preempted,
            self.missed, self.order,
        )  # fmt: skip

    def save(self) -> list[Any]:
        return [getattr(self, name) for name in self.__slots__[:-1]]

    @classmethod
    def restored(cls, saved: list[Any]) -> Job:
        return cls(**dict(zip(cls.__slots__[:-1], saved, strict=True)))
