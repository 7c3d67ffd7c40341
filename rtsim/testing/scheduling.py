"""Conformance check for scheduling policies of rtsim and of other packages."""

from __future__ import annotations

import random
from collections.abc import Mapping

from rtsim.components.latency import Fixed
from rtsim.components.processor import Processor
from rtsim.components.processor_tasks import FinishedJob, Segment, TaskTiming
from rtsim.components.scheduling import SCHEDULING_POLICIES, SchedulingPolicy
from rtsim.core.random_streams import RandomStreams
from rtsim.core.tag import Period, Tag

_UNTIL_NS = 200_000_000
_SETS = 20


def check_scheduling_policy(policy: SchedulingPolicy) -> None:
    """Assert the contract of :class:`rtsim.schedules.SchedulingPolicy` for a registered policy.

    The check runs random sets of tasks on one processor, and asserts that:

    - each job runs for exactly its execution time, and not before its release;
    - the processor is never idle while a job is ready;
    - without preemption, no job is preempted;
    - runs that are saved and restored are equal to whole runs.
    """
    name = type(policy).name
    assert SCHEDULING_POLICIES.get(name) is type(policy), (
        f"{name} is not registered; see docs/extending.md"
    )
    for seed in range(_SETS):
        tasks = _tasks(random.Random(seed))
        jobs = _run(policy, tasks, saved=False)
        assert jobs == _run(policy, tasks, saved=True), f"{name} keeps a state that is not saved"
        _check_jobs(policy, tasks, jobs)


class _Silent:
    """An environment that ignores events."""

    def event(
        self, tag: Tag, kind: str, source: str, text: str, values: Mapping[str, float]
    ) -> None:
        pass


def _tasks(rng: random.Random) -> list[TaskTiming]:
    out = []
    for i in range(rng.randint(2, 5)):
        period = rng.randint(4, 20) * 1_000_000
        execution = Fixed(period / 1e9 * rng.uniform(0.02, 0.25))
        timing = TaskTiming(
            f"task{i}", Period.of(period / 1e9), period, (Segment(execution),), priority=i % 3,
            offset_ns=rng.randint(0, 5) * 1_000_000,
        )  # fmt: skip
        out.append(timing)
    return out


def _run(policy: SchedulingPolicy, tasks: list[TaskTiming], saved: bool) -> list[FinishedJob]:
    processor = Processor("processor", policy, tasks, {}, RandomStreams(0))
    jobs: list[FinishedJob] = []
    step = 3_700_000
    for ns in range(step, _UNTIL_NS + step, step):
        while (due := processor.next_ns(ns)) < ns:
            _instant(processor, due)
        _instant(processor, ns)
        jobs += processor.take_rows(ns)[1]
        if saved:
            state = processor.save()
            processor = Processor("processor", policy, tasks, {}, RandomStreams(0))
            processor.restore(state)
    return jobs


def _instant(processor: Processor, ns: int) -> None:
    tag = Tag(ns)
    processor.begin(tag, _Silent())  # type: ignore[arg-type]
    processor.dispatch(tag, _Silent())  # type: ignore[arg-type]


def _check_jobs(policy: SchedulingPolicy, tasks: list[TaskTiming], jobs: list[FinishedJob]) -> None:
    name = policy.name
    for job in jobs:
        wanted = Fixed.delays(tasks[job.task].segments[0].execution, None, 0)[0]  # type: ignore[arg-type]
        assert job.executed == max(1, wanted), f"{name}: a job did not run for its execution time"
        assert job.arrival <= job.started < job.ns, f"{name}: a job ran before its arrival"
        if not policy.preemptive:
            assert job.preempted == 0, f"{name} is not preemptive, but a job was preempted"
    ends = sorted((job.arrival, job.executed) for job in jobs)
    busy = 0
    for arrival, executed in ends:  # the end of all work does not depend on the order
        busy = max(busy, arrival) + executed
    last = max(job.ns for job in jobs)
    assert last <= busy, f"{name}: the processor was idle while a job was ready"
