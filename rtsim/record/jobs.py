"""Tasks of simulated processors in a recording: their states over time, and their jobs.

A recording has a track ``values/PROCESSOR`` with the state of each task, and a track ``jobs/TASK``
with the ended jobs of each task.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.record.markup import mapping
from rtsim.record.reading import Recording, TrackData
from rtsim.record.recent_jobs import AT_DEADLINE, ENDED, RecentJobs

Integers = NDArray[np.int64]

IDLE, WAITING, BLOCKED = 0, -1, -2
"""States of a task: no job, a job that waits for a core, a job that waits for a lock.

A positive state is the number of the core on which the job runs, from 1 on.
"""
JOBS, STATES = "jobs/", "values/"
"""Prefixes of the names of tracks with the ended jobs of a task, and with the states of tasks."""
MISSED, SKIPPED = "DeadlineMissed", "Skipped"
"""Kinds of the events of tasks."""


class Pieces(NamedTuple):
    """Parts of a task's time in which one job has one state, each array (k,)."""

    begin: Integers
    """First time, ns."""
    end: Integers
    state: Integers
    job: Integers
    """Row of the job in the table of ended jobs; the number of rows for an unfinished job."""

    def within(self, first_ns: int, last_ns: int) -> Pieces:
        """Return the pieces of a time span, cut at its ends."""
        kept = (self.end > first_ns) & (self.begin < last_ns)
        begin, end, state, job = (column[kept] for column in self)
        return Pieces(np.maximum(begin, first_ns), np.minimum(end, last_ns), state, job)


@dataclass(frozen=True, eq=False)
class TaskHistory:
    """One task of a processor in a recording."""

    name: str
    pieces: Pieces
    """All times at which the task has a job."""
    track: TrackData | None
    """Ended jobs, or None for a recording without them."""
    missed: Integers
    """Times of missed deadlines, ns."""
    skipped: int
    """Number of releases that were left out."""

    @cached_property
    def ended(self) -> Integers:
        """Times at which jobs ended, ns, shape (n,)."""
        return np.zeros(0, np.int64) if self.track is None else np.asarray(self.track.ns)

    def jobs(self, column: str) -> Integers:
        """Return a column of the ended jobs, such as ``deadline``, shape (n,)."""
        return np.zeros(0, np.int64) if self.track is None else self.track.integer(column)

    @cached_property
    def responses(self) -> Integers:
        """Time from the arrival to the end of each job that was not aborted, ns."""
        found: Integers = (self.ended - self.jobs("arrival"))[self.jobs("aborted") == 0]
        return found


@dataclass(frozen=True, eq=False)
class ProcessorHistory:
    """One processor in a recording."""

    name: str
    policy: str
    cores: int
    tasks: tuple[TaskHistory, ...]
    since_ns: int = 0
    """Time from which on the states are known, ns."""

    @property
    def first_missed_ns(self) -> int | None:
        """Time of the first missed deadline, ns, or None."""
        return min((int(task.missed[0]) for task in self.tasks if len(task.missed)), default=None)


def processors_of(recording: Recording) -> list[ProcessorHistory]:
    """Return the processors of a recording, or an empty list."""
    parts = mapping(mapping(recording.header.get("scenario")).get("parts"))
    found = []
    for name, part in parts.items():
        track = recording.tracks.get(f"{STATES}{name}")
        if mapping(part).get("kind") != "processor" or track is None:
            continue
        end = recording.span_ns[1]
        tasks = tuple(_task(recording, track, task, end) for task in track.signals.columns)
        about = mapping(part)
        policy, cores = str(about.get("policy", "")), int(about.get("cores", 1))
        found.append(ProcessorHistory(name, policy, cores, tasks))
    return found


def recent_history(name: str, policy: str, cores: int, recent: RecentJobs) -> ProcessorHistory:
    """Return the latest states of a processor of a run in progress."""
    rows = recent.states()
    tasks = []
    for k, task in enumerate(recent.tasks):
        ended, missed = recent.marks(k, ENDED), recent.marks(k, AT_DEADLINE)
        pieces = _pieces(rows[:, 0], rows[:, 1 + k], ended, recent.until_ns)
        tasks.append(TaskHistory(task, pieces, None, missed, 0))
    return ProcessorHistory(name, policy, cores, tuple(tasks), max(0, recent.since_ns))


def _task(recording: Recording, track: TrackData, name: str, end_ns: int) -> TaskHistory:
    jobs = recording.tracks.get(f"{JOBS}{name}")
    ended = np.zeros(0, np.int64) if jobs is None else np.asarray(jobs.ns)
    events = [e for e in recording.events if e.source == name and e.kind in (MISSED, SKIPPED)]
    missed = np.array([e.tag.ns for e in events if e.kind == MISSED], dtype=np.int64)
    pieces = _pieces(np.asarray(track.ns), track.column(name), ended, end_ns)
    return TaskHistory(name, pieces, jobs, missed, len(events) - len(missed))


def _pieces(ns: Integers, states: Vector | Integers, ended: Integers, end_ns: int) -> Pieces:
    """Return the pieces of a task whose ``states`` (n,) hold from the times ``ns`` (n,) on."""
    if not len(ns):
        none = np.zeros(0, np.int64)
        return Pieces(none, none, none, none)
    cuts = np.unique(np.r_[ns, ended[ended > ns[0]]])
    begin, end = cuts, np.r_[cuts[1:], max(end_ns, int(cuts[-1]))]
    state = states[np.searchsorted(ns, begin, side="right") - 1].astype(np.int64)
    job = np.searchsorted(ended, begin, side="right")
    same = (state[1:] == state[:-1]) & (job[1:] == job[:-1])  # another task has changed its state
    first = np.r_[True, ~same]
    last = np.r_[~same, True]
    begin, end, state, job = begin[first], end[last], state[first], job[first]
    kept = (state != IDLE) & (end > begin)
    return Pieces(begin[kept], end[kept], state[kept], job[kept].astype(np.int64))
