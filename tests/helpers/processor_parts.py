"""Processors without a scenario, and random sets of tasks."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from rtsim.components.latency import Fixed, LatencyModel
from rtsim.components.processor import Processor
from rtsim.components.processor_tasks import FinishedJob, Segment, TaskTiming
from rtsim.components.scheduling import SchedulingPolicy
from rtsim.core.random_streams import RandomStreams
from rtsim.core.tag import Period, Tag

MS = 1_000_000


class Events:
    """The environment of tests, which keeps the events."""

    def __init__(self) -> None:
        self.found: list[tuple[int, str, str]] = []

    def event(
        self, tag: Tag, kind: str, source: str, text: str, values: Mapping[str, float]
    ) -> None:
        assert text
        assert values
        self.found.append((tag.ns, kind, source))


class Run:
    """A processor without a scenario, run up to ``until`` (ms)."""

    def __init__(
        self,
        policy: SchedulingPolicy,
        tasks: Sequence[TaskTiming],
        until: float,
        releases: Mapping[float, str] | None = None,
        **options: Any,
    ) -> None:
        self.events = Events()
        self.jobs: list[FinishedJob] = []
        self.rows: list[tuple[float, dict[str, int]]] = []
        tasks = sorted(tasks, key=lambda task: task.name)
        self.names = [task.name for task in tasks]
        self.processor = Processor("mcu", policy, tasks, {}, RandomStreams(1), **options)
        coming = sorted((round(ms * MS), name) for ms, name in (releases or {}).items())
        end = round(until * MS)
        while True:
            known = min([end, *(ns for ns, _ in coming)])
            ns = min(known, self.processor.next_ns(known))
            tag, environment = Tag(ns), self.events
            self.processor.begin(tag, environment)  # type: ignore[arg-type]
            while coming and coming[0][0] == ns:
                self.processor.release(coming.pop(0)[1], ns)
            self.processor.dispatch(tag, environment)  # type: ignore[arg-type]
            rows, jobs = self.processor.take_rows(ns)
            self.rows += [(t / MS, dict(zip(self.names, row, strict=True))) for t, row in rows]
            self.jobs += jobs
            if ns >= end:
                break

    def ends(self, name: str) -> list[float]:
        """Return the time at which each job of task ``name`` ended, ms."""
        task = self.names.index(name)
        return [job.ns / MS for job in self.jobs if job.task == task]

    def starts(self, name: str) -> list[float]:
        task = self.names.index(name)
        return [job.started / MS for job in self.jobs if job.task == task]

    def of(self, name: str, kind: str) -> list[float]:
        """Return the times of the events of task ``name``, ms."""
        return [ns / MS for ns, k, n in self.events.found if (k, n) == (kind, name)]


def task(
    name: str,
    period: float | None = None,
    execution: float | LatencyModel = 1.0,
    deadline: float | None = None,
    segments: Sequence[tuple[float, str]] = (),
    **more: Any,
) -> TaskTiming:
    """Return a task; all times are in ms.  ``segments`` has an execution time and a lock each."""
    model = execution if not isinstance(execution, int | float) else Fixed(execution / 1000)
    parts = [Segment(Fixed(ms / 1000), lock=lock) for ms, lock in segments] or [Segment(model)]
    ticks = None if period is None else Period.of(period / 1000)
    limit = deadline if deadline is not None else period
    assert limit is not None
    more["offset_ns"] = round(more.pop("offset", 0) * MS)
    return TaskTiming(name, ticks, round(limit * MS), tuple(parts), **more)


def exactly(ns: int) -> LatencyModel:
    return Fixed(Fraction(ns, 10**9))


def uunifast(rng: random.Random, n: int, load: float) -> list[float]:
    """Return n random loads with the sum ``load``.

    Source: E. Bini and G. Buttazzo, Real-Time Systems 30 (2005), pp. 129-154.
    """
    loads, rest = [], load
    for i in range(n - 1):
        left = rest * rng.random() ** (1 / (n - 1 - i))
        loads.append(rest - left)
        rest = left
    return [*loads, rest]


def random_set(seed: int) -> list[tuple[int, int, int]]:
    rng = random.Random(seed)
    n = rng.randint(2, 8)
    out = []
    for load in uunifast(rng, n, rng.uniform(0.3, 1.1)):
        period = round(math.exp(rng.uniform(math.log(10), math.log(300))))
        execution = max(1, min(period, round(load * period)))
        out.append((period, execution, rng.randint(max(execution, period // 2), period)))
    return out
