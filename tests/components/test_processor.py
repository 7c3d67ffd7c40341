"""Simulated processors: schedules against a textbook simulator, and cases computed by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from processor_parts import MS, Events, Run, exactly, random_set, task

from rtsim.components.latency import Uniform
from rtsim.components.processor import Processor
from rtsim.components.processor_tasks import FinishedJob, Segment, TaskTiming
from rtsim.components.scheduling import (
    SCHEDULING_POLICIES,
    ConstantBandwidth,
    Cooperative,
    DeadlineMonotonic,
    EarliestDeadlineFirst,
    FixedPriority,
    RateMonotonic,
    ReadyJob,
    RoundRobin,
    SchedulingPolicy,
    Sporadic,
    add_scheduling_policy,
)
from rtsim.core.errors import DeadlineError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.tag import Period, Tag
from rtsim.testing import check_scheduling_policy

# -- against a textbook simulator -----------------------------------------------------------------


def textbook(
    tasks: Sequence[tuple[int, int, int]], key: Any, until: int
) -> dict[tuple[int, int], int]:
    """Return the end of each job by task and number: time passes in units of 1.

    Each of ``tasks`` has period, execution time and relative deadline.
    """
    ready: list[list[int]] = []  # key, release, task, number, rest
    ends = {}
    for now in range(until):
        for i, (period, execution, deadline) in enumerate(tasks):
            if now % period == 0:
                ready.append([key(period, deadline, now), now, i, now // period, execution])
        if ready:
            job = min(ready)
            job[4] -= 1
            if not job[4]:
                ready.remove(job)
                ends[job[2], job[3]] = now + 1
    return ends


POLICIES = {
    "rm": (RateMonotonic, lambda period, _deadline, _now: period),
    "dm": (DeadlineMonotonic, lambda _period, deadline, _now: deadline),
    "edf": (EarliestDeadlineFirst, lambda _period, deadline, now: now + deadline),
}
SETS = 50


@pytest.mark.sample(2)
@pytest.mark.parametrize("first", range(0, 1000, SETS))
@pytest.mark.parametrize("policy", POLICIES)
def test_responses_equal_those_of_a_textbook_simulator(policy: str, first: int) -> None:
    made, key = POLICIES[policy]
    unit, until = 1_237, 1_200  # ns; units
    for seed in range(first, first + SETS):
        tasks = random_set(seed)
        timings = [
            TaskTiming(f"t{i}", Period(Fraction(p * unit)), d * unit, (Segment(exactly(c * unit)),))
            for i, (p, c, d) in enumerate(tasks)
        ]
        run = Run(made(), timings, until * unit / MS)
        ends = {(j.task, j.number): j.ns for j in run.jobs}
        wanted = {k: ns * unit for k, ns in textbook(tasks, key, until).items()}
        assert ends == wanted, seed
        assert ends


# -- cases computed by hand -----------------------------------------------------------------------


def test_the_task_with_the_longest_period_is_preempted_under_rate_monotonic_priorities() -> None:
    """Liu and Layland 1973: T = 2.5 and 5 ms, C = 1 and 2 ms."""
    run = Run(RateMonotonic(), [task("fast", 2.5, 1), task("slow", 5, 2)], 5)
    assert (run.ends("fast"), run.ends("slow")) == ([1, 3.5], [4])
    assert run.rows == [
        (0, {"fast": 1, "slow": -1}),
        (1, {"fast": 0, "slow": 1}),
        (2.5, {"fast": 1, "slow": -1}),
        (3.5, {"fast": 0, "slow": 1}),
        (4, {"fast": 0, "slow": 0}),
        (5, {"fast": 1, "slow": -1}),
    ]
    (slow,) = (job for job in run.jobs if job.task == 1)
    assert (slow.preempted, slow.executed, slow.started) == (1, 2 * MS, 1 * MS)


def test_earliest_deadline_first_schedules_a_load_of_one() -> None:
    """T = 5 and 7 ms, C = 2 and 4 ms: fixed priorities miss a deadline, EDF does not."""
    tasks = [task("a", 5, 2), task("b", 7, 4)]
    assert Run(RateMonotonic(), tasks, 35).of("b", "DeadlineMissed") == [7]
    assert not Run(EarliestDeadlineFirst(), tasks, 35).events.found


def test_jobs_of_a_cooperative_processor_run_to_their_end() -> None:
    run = Run(Cooperative(), [task("a", 5, 1, priority=1), task("b", 20, 7, priority=2)], 10)
    assert (run.ends("a"), run.ends("b")) == ([1, 9], [8])


def test_jobs_take_turns_under_round_robin() -> None:
    tasks = [task("a", 20, 3), task("b", 20, 2), task("c", 20, 1)]
    run = Run(RoundRobin(0.001), tasks, 10)
    assert [run.ends(name) for name in "abc"] == [[6], [5], [3]]


def test_an_interrupt_handler_preempts_each_policy() -> None:
    for policy in (Cooperative(), EarliestDeadlineFirst(), RoundRobin(0.001)):
        handler = task("irq", None, 0.5, deadline=1, interrupt=True)
        run = Run(policy, [task("a", 20, 3), handler], 10, {1.2: "irq", 2: "irq"})
        assert (run.ends("irq"), run.ends("a")) == ([1.7, 2.5], [4]), policy.name


# Mars Pathfinder, 1997: the bus task waits for a lock that the weather task holds, while the
# communication task runs.  Source: G. Reeves, "What really happened on Mars", 1997.
PATHFINDER = [
    task("weather", 100, segments=[(1, ""), (4, "bus"), (1, "")], priority=3),
    task("bus", 20, segments=[(0.5, ""), (1, "bus")], priority=1, offset=2),
    task("communication", 100, 12, priority=2, offset=3),
]


@pytest.mark.parametrize(
    ("locks", "bus", "communication"),
    # weather holds the lock from 1 to 5 ms of its own time; bus arrives at 2, wants the lock at 2.5
    [("none", 18.5, 15.0), ("inheritance", 6.5, 18.5), ("ceiling", 6.5, 18.5)],
)
def test_priority_inversion_of_mars_pathfinder(
    locks: str, bus: float, communication: float
) -> None:
    run = Run(FixedPriority(), PATHFINDER, 30, locks=locks)
    assert run.ends("bus")[0] == bus
    assert run.ends("communication")[0] == communication


def test_a_task_that_waits_for_a_lock_is_shown_as_blocked() -> None:
    run = Run(FixedPriority(), PATHFINDER, 30)
    blocked = [ms for ms, states in run.rows if states["bus"] == -2]
    assert blocked == [2.5, 3]


def test_a_lock_is_kept_over_segments_with_the_same_lock() -> None:
    keeps = task("keeps", 50, segments=[(1, "a"), (1, "a"), (1, "")], priority=2)
    wants = task("wants", 50, segments=[(1, "a")], priority=1, offset=0.5)
    run = Run(FixedPriority(), [keeps, wants], 10)
    assert (run.ends("wants"), run.ends("keeps")) == ([3], [4])


def test_a_constant_bandwidth_server_delays_only_its_own_task() -> None:
    """Budget 2 ms per 7 ms; the job needs 4 ms, so its second half has the deadline 14 ms."""
    hog = task("hog", 28, 4, server=ConstantBandwidth(0.002, 0.007))
    run = Run(EarliestDeadlineFirst(), [hog, task("loop", 8, 5)], 28)
    assert run.ends("hog") == [9]  # 0 to 2, and 7 to 9 (deadline 14 before 16)
    assert run.ends("loop") == [7, 14, 21]
    assert not run.of("loop", "DeadlineMissed")


def test_a_sporadic_server_returns_its_budget_one_period_after_its_use() -> None:
    """Budget 1 ms per 10 ms: jobs at 1 and 1.5 ms need 1.5 ms in total."""
    served = task("served", None, 0.75, deadline=50, server=Sporadic(0.001, 0.01), priority=0)
    run = Run(
        FixedPriority(),
        [served, task("loop", 40, 30, priority=1)],
        40,
        {1: "served", 1.5: "served"},
    )
    assert run.ends("served") == [1.75, 11.5]


def test_context_switches_take_time() -> None:
    tasks = [task("a", 10, 1, priority=1), task("b", 20, 12, priority=2)]
    run = Run(FixedPriority(), tasks, 20, context_switch_ns=MS // 10)
    assert (run.ends("a"), run.ends("b")) == ([1.1, 11.1], [14.4])
    assert all(job.executed == (1 if job.task == 0 else 12) * MS for job in run.jobs)


def test_the_speed_of_a_processor_divides_execution_times() -> None:
    assert Run(FixedPriority(), [task("a", 10, 3)], 10, speed=2.0).ends("a") == [1.5]
    assert Run(FixedPriority(), [task("a", 10, 3)], 10, speed=0.5).ends("a") == [6]


@pytest.mark.parametrize(
    ("missed", "ends", "misses"),
    [
        ("finish", [6, 12, 18, 24, 30], [4, 8, 12, 16, 20, 24, 28]),
        ("abort", [4, 8, 12, 16, 20, 24, 28], [4, 8, 12, 16, 20, 24, 28]),
        ("skip", [6, 14, 22, 30], [4, 12, 20, 28]),
    ],
)
def test_reactions_to_a_missed_deadline(
    missed: str, ends: list[float], misses: list[float]
) -> None:
    run = Run(FixedPriority(), [task("late", 4, 6, missed=missed)], 30)
    assert run.ends("late") == ends
    assert run.of("late", "DeadlineMissed") == misses
    counts = run.processor.counts["late"]
    assert counts.missed == len(misses)
    assert counts.aborted == (len(ends) if missed == "abort" else 0)
    assert counts.skipped == len(run.of("late", "Skipped")) == (4 if missed == "skip" else 0)


def test_a_missed_deadline_can_end_the_run() -> None:
    with pytest.raises(DeadlineError, match="job 0 of late on mcu: unfinished at its deadline"):
        Run(FixedPriority(), [task("late", 4, 6, missed="end")], 30)


def test_an_overloaded_processor_is_named_before_its_memory_is_full() -> None:
    with pytest.raises(DeadlineError, match="10000 jobs of late wait for processor mcu"):
        Run(FixedPriority(), [task("late", 1, 6)], 12_100)


def test_each_core_runs_its_own_tasks() -> None:
    tasks = [task("a", 10, 4, core=0), task("b", 10, 4, core=1), task("c", 10, 4, core=1)]
    run = Run(FixedPriority(), tasks, 10, cores=2)
    assert [run.ends(name) for name in "abc"] == [[4], [4], [8]]
    assert run.rows[0] == (0, {"a": 1, "b": 2, "c": -1})


def test_a_job_that_may_migrate_runs_on_the_first_core_that_is_free() -> None:
    tasks = [
        task("a", 20, 2, priority=1),
        task("b", 20, 4, priority=2),
        task("c", 20, 4, priority=3),
    ]
    run = Run(FixedPriority(), tasks, 10, cores=2, migration=True)
    assert [run.ends(name) for name in "abc"] == [[2], [4], [6]]


def test_a_task_after_another_is_released_when_its_job_ends() -> None:
    after = task("post", None, 1, deadline=5, after="pre")
    run = Run(FixedPriority(), [task("pre", 10, 2), after], 20)
    assert (run.starts("post"), run.ends("post")) == ([2, 12], [3, 13])


def test_jitter_delays_the_release_but_not_the_deadline() -> None:
    run = Run(FixedPriority(), [task("a", 10, 1, jitter=Uniform(0.0, 0.002))], 1000)
    delays = [start % 10 for start in run.starts("a")]
    assert 0 <= min(delays) < 0.2
    assert 1.8 < max(delays) <= 2
    assert {job.deadline - job.arrival for job in run.jobs} == {10 * MS}


def test_a_job_that_is_released_after_its_deadline_misses_it_at_its_release() -> None:
    late = task("a", 10, 1, jitter=Uniform(0.0125, 0.0125))
    run = Run(FixedPriority(), [late, task("b", 10, 3, priority=1)], 40)
    assert run.of("a", "DeadlineMissed") == [12.5, 22.5, 32.5]
    assert run.ends("a") == [13.5, 23.5, 33.5]
    assert run.ends("b") == [3, 14, 24, 34]
    assert [ms for ms, _ in run.rows] == sorted(ms for ms, _ in run.rows)
    aborted = Run(FixedPriority(), [replace(late, missed="abort")], 40)
    assert aborted.processor.counts["a"].aborted == 3


def test_jobs_that_messages_release_keep_their_order_in_spite_of_jitter() -> None:
    served = task("irq", None, 0.1, deadline=2.5, jitter=Uniform(0, 0.002), missed="abort")
    arrivals = {1 + 5 * (k // 2) + 0.2 * (k % 2): "irq" for k in range(200)}
    run = Run(FixedPriority(), [served], 600, arrivals)
    assert [job.number for job in run.jobs] == list(range(200))
    assert not run.events.found


def test_a_job_of_a_cooperative_processor_is_not_preempted_when_a_budget_returns() -> None:
    served = task("a", 100, 4, server=Sporadic(0.002, 0.01))
    run = Run(Cooperative(), [served, task("b", 100, 20, priority=5)], 90)
    assert (run.ends("b"), run.ends("a")) == ([22], [24])


def test_a_missed_deadline_of_a_waiting_job_skips_releases_when_this_job_runs() -> None:
    """Deadlines are 7 ms; job 1 misses its own at 11 ms and runs from 7 to 14 ms."""
    run = Run(FixedPriority(), [task("a", 4, 7, deadline=7, missed="skip")], 15)
    assert run.of("a", "DeadlineMissed") == [11, 15]
    assert run.of("a", "Skipped") == [12]
    late = task("late", None, 6, deadline=7, missed="skip")
    run = Run(FixedPriority(), [late], 40, {0: "late", 0.5: "late", 1: "late", 12.5: "late"})
    # job 2 misses its deadline at 8 ms, while job 1 runs; job 3 comes while job 2 runs
    assert run.of("late", "Skipped") == [12.5]


# -- unforeseen tags ------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_schedule_does_not_depend_on_how_far_it_was_computed_in_advance(seed: int) -> None:
    rng = random.Random(seed)
    tasks = [
        task("a", 4, Uniform(0.0005, 0.0015), priority=2, jitter=Uniform(0, 0.0005)),
        task("b", 7, 2, priority=3),
        task("irq", None, 0.3, deadline=5, interrupt=True),
        task("post", None, 0.2, deadline=9, after="irq", priority=1),
    ]
    releases = {round(rng.uniform(0, 100), 3): "irq" for _ in range(20)}
    foreseen = Run(FixedPriority(), tasks, 120, releases)
    processor = Processor(
        "mcu", FixedPriority(), sorted(tasks, key=lambda t: t.name), {}, RandomStreams(1)
    )
    jobs: list[FinishedJob] = []
    counts, events = processor.counts, Events()
    for ms in sorted({*releases, 120}):
        ns, end = round(ms * MS), 120 * MS
        processor.next_ns(min(end, ns + rng.randint(0, 30 * MS)))  # too far: the tag is unforeseen
        processor.begin(Tag(ns), events)  # type: ignore[arg-type]
        if ms in releases:
            processor.release("irq", ns)
        processor.dispatch(Tag(ns), events)  # type: ignore[arg-type]
        jobs += processor.take_rows(ns)[1]
        saved, counts = processor.save(), processor.counts
        processor.restore(saved)
        assert processor.save() == saved
    assert jobs == foreseen.jobs
    assert counts == foreseen.processor.counts


# -- the contract of policies ----------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SCHEDULING_POLICIES])
def test_each_policy_meets_its_contract(name: str) -> None:
    check_scheduling_policy(SCHEDULING_POLICIES[name]())


class Newest(SchedulingPolicy):
    """The job that was released last runs first."""

    name = "newest"

    def order(self, job: ReadyJob, rank: int) -> tuple[int, ...]:  # noqa: ARG002
        return -job.release_ns, job.task


class Forgetful(Newest):
    """A policy with a state of its own, which no checkpoint contains."""

    name = "forgetful"

    def __init__(self) -> None:
        self.asked = 0

    def order(self, job: ReadyJob, rank: int) -> tuple[int, ...]:
        self.asked += 1
        return self.asked % 3, *super().order(job, rank)


def test_a_policy_from_outside_is_one_class_and_one_registration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SCHEDULING_POLICIES, "_added", {})
    add_scheduling_policy(Newest)
    check_scheduling_policy(Newest())
    run = Run(Newest(), [task("a", 20, 4), task("b", 20, 1, offset=1)], 10)
    assert (run.ends("b"), run.ends("a")) == ([2], [5])
    add_scheduling_policy(Forgetful)
    with pytest.raises(AssertionError, match="forgetful keeps a state that is not saved"):
        check_scheduling_policy(Forgetful())
