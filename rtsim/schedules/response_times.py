"""Worst response times of the tasks of a processor, by analysis.

A response time is the time from the arrival of a job, such as its tick, to its end.  If an
assumption of an analysis does not hold, the result is a reason instead of a figure.  All times are
in ns.

Sources:
    Fixed priorities: M. Joseph and P. Pandya, The Computer Journal 29 (1986), pp. 390-395.
    Jitter, deadlines beyond the period: K. Tindell, A. Burns and A. Wellings, Real-Time Systems 6
    (1994), pp. 133-151.
    Locks: L. Sha, R. Rajkumar and J. Lehoczky, IEEE Transactions on Computers 39 (1990), pp.
    1175-1185.
    No preemption: R. Davis, A. Burns, R. Bril and J. Lukkien, Real-Time Systems 35 (2007), pp.
    239-272.
    Processor demand: S. Baruah, L. Rosier and R. Howell, Real-Time Systems 2 (1990), pp. 301-324.
    Responses under EDF: M. Spuri, INRIA report 2772 (1996).
    Interrupts under EDF: K. Jeffay and D. Stone, Proc. 14th IEEE Real-Time Systems Symposium
    (1993), pp. 212-221.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

from rtsim.components.latency import (
    Empirical,
    Fixed,
    LatencyModel,
    SerialLine,
    TruncatedNormal,
    Uniform,
)
from rtsim.components.processor import Processor
from rtsim.components.processor_tasks import Needs, TaskTiming
from rtsim.components.scheduling import (
    Cooperative,
    EarliestDeadlineFirst,
    FixedPriority,
    LogicalExecutionTime,
    SchedulingPolicy,
)
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S

_MOST_STEPS = 100_000
"""Limit of the steps of the analysis of one task."""


@dataclass(frozen=True)
class Bounds:
    """Shortest and longest execution time, ns; ``longest`` is None if there is no limit."""

    shortest: int
    longest: int | None


@dataclass(frozen=True)
class TaskAnalysis:
    """Result of the analysis of one task. All times are in ns."""

    name: str
    period: int | None
    """Period, or None for a task that messages, guards or another task release."""
    deadline: int
    execution: Bounds
    load: float | None
    """Largest share of the processor time, or None if it has no limit."""
    response: int | None
    """Longest response time, or None if it is not known."""
    reason: str = ""
    """Reason why the longest response time is not known."""
    blocking: int = 0
    """Longest time for which tasks of lower priority delay a job."""


def execution_bounds(model: LatencyModel | Needs, speed: float = 1.0) -> Bounds:
    """Return the shortest and the longest time that ``model`` can draw, at the given speed."""
    low, high = _bounds(model)

    def scaled(ns: int) -> int:
        return max(1, round(ns / speed))

    return Bounds(scaled(low), None if high is None else scaled(high))


def latency_bounds(model: LatencyModel) -> Bounds:
    """Return the shortest and the longest latency that ``model`` can draw."""
    return Bounds(*_bounds(model))


def _bounds(model: object) -> tuple[int, int | None]:
    if isinstance(model, Fixed):
        return model.constant[0], model.constant[0]
    if isinstance(model, Uniform):
        return _ns(model.low), _ns(model.high)
    if isinstance(model, TruncatedNormal):
        return _ns(model.low), None if model.high == float("inf") else _ns(model.high)
    if isinstance(model, Empirical):
        return min(model.samples), max(model.samples)
    if isinstance(model, SerialLine):
        return 0, None
    limits = getattr(model, "bounds_ns", None)
    if limits is not None:
        low, high = limits
        return int(low), None if high is None else int(high)
    return 0, None


def _ns(seconds: float) -> int:
    return round(seconds * NS_PER_S)


@dataclass(frozen=True)
class _Task:
    """A task in the notation of the sources."""

    name: str
    rank: tuple[int, int]
    """Interrupt handlers first, then by priority; lower ranks run first."""
    c: int
    """Longest execution time, with context switches."""
    t: int
    d: int
    j: int
    """Longest release jitter."""
    index: int

    @property
    def handler(self) -> bool:
        """True for an interrupt handler."""
        return self.rank[0] == 0


def analyse(processor: Processor) -> list[TaskAnalysis]:
    """Return the analysis of each task of ``processor``, in the order of their names."""
    speed = float(processor.speed[0])
    found = []
    for task in processor.tasks:
        parts = [execution_bounds(s.execution, speed) for s in task.segments]
        longest = (
            None if any(p.longest is None for p in parts) else sum(p.longest or 0 for p in parts)
        )
        execution = Bounds(sum(p.shortest for p in parts), longest)
        period = None if task.period is None else round(task.period.ns)
        load = None if period is None or longest is None else longest / period
        found.append(TaskAnalysis(task.name, period, task.deadline_ns, execution, load, None))
    if processor.migration and processor.cores > 1:
        reason = "jobs migrate between cores"
        return [replace(one, reason=reason) for one in found]
    out: list[TaskAnalysis] = []
    for core in range(processor.cores):
        here = [
            (task, one)
            for task, one in zip(processor.tasks, found, strict=True)
            if task.core == core
        ]
        out += _analyse_core(processor, here)
    return sorted(out, key=lambda one: one.name)


def load_of(processor: Processor) -> list[float | None]:
    """Return the largest load of each core; None if the load of a task has no limit.

    With migration, the list has one element: the load of all cores together.
    """
    rows = analyse(processor)
    cores = {task.name: 0 if processor.migration else task.core for task in processor.tasks}
    out: list[float | None] = []
    for core in range(1 if processor.migration else processor.cores):
        loads = [row.load for row in rows if cores[row.name] == core]
        known = [load for load in loads if load is not None]
        out.append(sum(known) if len(known) == len(loads) else None)
    return out


def _analyse_core(
    processor: Processor, here: Sequence[tuple[TaskTiming, TaskAnalysis]]
) -> list[TaskAnalysis]:
    policy, switch = processor.policy, processor.context_switch_ns
    analysis = _ANALYSES.get(policy_class(policy))
    tasks: list[_Task] = []
    reasons: dict[str, str] = {}
    unlimited: dict[str, str] = {}
    """Reason why it is not known how long a task delays others, by name of the task."""
    for index, (task, one) in enumerate(here):
        reason = _why_not(task, one)
        if reason:
            reasons[task.name] = reason
        if task.server is not None and switch:
            unlimited[task.name] = "no analysis of context switches with servers"
        elif task.server is None and reason:
            unlimited[task.name] = reason
        longest = one.execution.longest or 0
        jitter = _bounds(task.jitter)[1] or 0
        # Ticks of a rational period are rounded, so some come 1 ns earlier than others.
        shortest = 0 if task.period is None else int(task.period.ns)
        c, t, d = longest + 2 * switch, shortest, task.deadline_ns
        if task.server is not None:
            c, t, d = task.server.budget_ns, task.server.period_ns, task.server.period_ns
        tasks.append(_Task(task.name, _rank(task, policy), c, t, d, jitter, index))
    why = _why_none(processor, [task for task, _ in here])
    if why or analysis is None:
        why = why or f"no analysis for policy {policy.name!r}"
        return [replace(one, reason=reasons.get(one.name, why)) for _, one in here]
    out = []
    for i, ((task, one), own) in enumerate(zip(here, tasks, strict=True)):
        reason = reasons.get(task.name, "") or analysis.why_not(own, tasks, unlimited)
        wait: int | str = _longest_lower(i, tasks)
        if policy.preemptive:
            wait = _blocking(task, [other for other, _ in here], processor)
        if isinstance(wait, str):
            reason, wait = reason or wait, 0
        response = None
        if not reason:
            try:
                response = analysis.response(own, tasks, wait)
                reason = "" if response else "the load of the tasks that run first is 1 or more"
            except _TooManySteps as error:
                reason = str(error)
        out.append(replace(one, response=response, reason=reason, blocking=wait))
    return out


def _rank(task: TaskTiming, policy: SchedulingPolicy) -> tuple[int, int]:
    return (0, task.priority) if task.interrupt else (1, policy.rank(task))


def _why_none(processor: Processor, tasks: Sequence[TaskTiming]) -> str:
    """Return the reason why no task of a core can be analysed, or ""."""
    if not any(task.locks for task in tasks):
        return ""
    if processor.locks == "none":
        return "locks without a protocol can block a task without limit"
    if not processor.policy.fixed_priority:
        return f"no analysis of locks for policy {processor.policy.name!r}"
    if processor.cores > 1:
        return "no analysis of locks between cores"
    for task in tasks:
        if task.locks and task.server is not None:
            return f"{task.name} can hold a lock while its server has no budget"
    return ""


def policy_class(policy: SchedulingPolicy) -> type[SchedulingPolicy]:
    """Return the class of rtsim whose analysis applies to ``policy``, or its own class."""
    for kind in (EarliestDeadlineFirst, Cooperative, LogicalExecutionTime):
        if isinstance(policy, kind):
            return kind
    return FixedPriority if type(policy).order is FixedPriority.order else type(policy)


def _why_not(task: TaskTiming, one: TaskAnalysis) -> str:
    if task.server is not None:
        return "a server limits the task"
    if one.period is None:
        released = "after=" if task.after else "on="
        return (
            "the shortest time between two releases is not known; for the analysis, give it as "
            f"period= instead of {released}"
        )
    if one.execution.longest is None:
        return "the execution time has no limit"
    if _bounds(task.jitter)[1] is None:
        return "the jitter has no limit"
    return ""


def _longest_lower(i: int, tasks: Sequence[_Task]) -> int:
    """Return the longest time that a job, started 1 ns earlier, runs without preemption."""
    return max([0, *(one.c - 1 for one in tasks if one.rank > tasks[i].rank)])


def _blocking(task: TaskTiming, tasks: Sequence[TaskTiming], processor: Processor) -> int | str:
    """Return the longest time for which locks of tasks with lower priority delay a job.

    The result is a reason instead if this time is not known.
    """
    policy = processor.policy
    own = _rank(task, policy)
    ceilings: dict[str, tuple[int, int]] = {}
    for other in tasks:
        for lock in {s.lock for s in other.segments if s.lock}:
            ceilings[lock] = min(_rank(other, policy), ceilings.get(lock, (2, 0)))
    by_task: list[int] = []
    by_lock: dict[str, int] = {}
    for other in tasks:
        if _rank(other, policy) <= own:
            continue
        longest = 0
        for lock, ns in _sections(other, float(processor.speed[0])):
            if ceilings[lock] > own:
                continue
            if ns is None:
                return f"{other.name} can hold lock {lock!r} without limit"
            ns += 2 * processor.context_switch_ns  # to the holder and back
            longest = max(longest, ns)
            by_lock[lock] = max(ns, by_lock.get(lock, 0))
        by_task.append(longest)
    if processor.locks == "ceiling":
        return max([0, *by_task])
    return min(sum(by_task), sum(by_lock.values()))


def _sections(task: TaskTiming, speed: float) -> list[tuple[str, int | None]]:
    """Return lock and longest duration of each critical section of ``task``; None: no limit."""
    out: list[tuple[str, int | None]] = []
    before = ""
    for segment in task.segments:
        ns = execution_bounds(segment.execution, speed).longest
        if segment.lock and segment.lock == before:
            held = out[-1][1]
            out[-1] = (segment.lock, None if held is None or ns is None else held + ns)
        elif segment.lock:
            out.append((segment.lock, ns))
        before = segment.lock
    return out


# -- fixed priorities -----------------------------------------------------------------------------


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _first(own: _Task, tasks: Sequence[_Task]) -> list[_Task]:
    """Return the tasks that can delay ``own``: those of higher and of equal priority."""
    return [one for one in tasks if one.rank <= own.rank and one is not own]


def _load(tasks: Sequence[_Task]) -> Fraction:
    return sum((Fraction(one.c, one.t) for one in tasks if one.t), Fraction(0))


def _unknown(tasks: Sequence[_Task], unlimited: dict[str, str]) -> str:
    for one in tasks:
        if one.name in unlimited:
            return f"{one.name} can delay the task: {unlimited[one.name]}"
    return ""


class _TooManySteps(ScenarioError):
    """The analysis of a task needs more than :data:`_MOST_STEPS` steps."""


class _Steps:
    """Fixed points of one analysis, with a limited number of steps."""

    def __init__(self) -> None:
        self._left = _MOST_STEPS

    def take(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise _TooManySteps(f"the analysis needs more than {_MOST_STEPS} steps")

    def settled(self, demand: Callable[[int], int], t: int) -> int:
        """Return the least fixed point of ``demand``; ``t`` is not above this point."""
        while (after := demand(t)) != t:
            t = after
            self.take(1)
        return t


def _busy(own: _Task, first: Sequence[_Task], demand: Callable[[int, int], int]) -> int | None:
    """Return the longest response of the jobs of ``own`` in its longest busy period.

    ``demand(q, w)`` is the time that job q of the busy period needs, if it waits until w.
    """
    if _load([own, *first]) > 1:
        return None
    longest = q = w = 0
    steps = _Steps()
    while True:
        w = steps.settled(partial(demand, q), w)
        longest = max(longest, own.j + w - q * own.t)
        if w + own.j <= (q + 1) * own.t:
            return longest
        q += 1
        w += own.c  # job q ends at least its execution time after the job before
        steps.take(1)


class _Fixed:
    """Preemptive scheduling by fixed priorities."""

    def why_not(self, own: _Task, tasks: Sequence[_Task], unlimited: dict[str, str]) -> str:
        return _unknown(_first(own, tasks), unlimited)

    def response(self, own: _Task, tasks: Sequence[_Task], blocking: int) -> int | None:
        first = _first(own, tasks)

        def demand(q: int, w: int) -> int:
            others = sum(_ceil(max(w, 1) + one.j, one.t) * one.c for one in first)
            return blocking + (q + 1) * own.c + others

        return _busy(own, first, demand)


class _Cooperative:
    """Scheduling by fixed priorities without preemption."""

    def why_not(self, own: _Task, tasks: Sequence[_Task], unlimited: dict[str, str]) -> str:
        if any(one.handler for one in tasks):
            return "no analysis of interrupts that preempt cooperative tasks"
        return _unknown([one for one in tasks if one is not own], unlimited)

    def response(self, own: _Task, tasks: Sequence[_Task], blocking: int) -> int | None:
        first = _first(own, tasks)
        if _load([own, *first]) > 1:
            return None

        def start(q: int, w: int) -> int:
            others = sum(((w + one.j) // one.t + 1) * one.c for one in first)
            return blocking + q * own.c + others

        longest = q = w = 0
        steps = _Steps()
        while True:
            w = steps.settled(partial(start, q), w)
            longest = max(longest, own.j + w + own.c - q * own.t)
            if w + own.c + own.j <= (q + 1) * own.t and q + 1 >= self._jobs(
                own, first, blocking, steps
            ):
                return longest
            q += 1
            w += own.c
            steps.take(1)

    @staticmethod
    def _jobs(own: _Task, first: Sequence[_Task], blocking: int, steps: _Steps) -> int:
        """Return the number of jobs in the longest busy period of the priority of ``own``."""

        def demand(t: int) -> int:
            return blocking + sum(_ceil(t + one.j, one.t) * one.c for one in (own, *first))

        return _ceil(steps.settled(demand, blocking + own.c) + own.j, own.t)


class _Logical(_Fixed):
    """Logical execution time: an answer leaves at the deadline, if the job has ended by then."""

    def response(self, own: _Task, tasks: Sequence[_Task], blocking: int) -> int | None:
        response = super().response(own, tasks, blocking)
        return None if response is None else max(response, own.d)


class _EarliestDeadline:
    """Earliest deadline first, preemptive, without locks; interrupt handlers run before tasks."""

    def why_not(self, own: _Task, tasks: Sequence[_Task], unlimited: dict[str, str]) -> str:
        if own.handler:
            return _unknown(_first(own, tasks), unlimited)
        if any(one.j for one in tasks if not one.handler):
            return "no analysis of release jitter under earliest deadline first"
        return _unknown([one for one in tasks if one is not own], unlimited)

    def response(self, own: _Task, tasks: Sequence[_Task], blocking: int) -> int | None:
        if own.handler:
            return _Fixed().response(own, tasks, blocking)
        if _load(tasks) > 1:
            return None
        steps = _Steps()
        longest_busy = self._busy_period(tasks, steps)
        competing = [one for one in tasks if not one.handler]
        steps.take(sum(_ceil(longest_busy, one.t) + 1 for one in competing))
        starts = {
            k * one.t + one.d - own.d
            for one in competing
            for k in range(_ceil(longest_busy, one.t) + 1)
        }
        candidates = sorted(a for a in starts if 0 <= a < longest_busy)
        return max([own.c, *(self._at(a, own, tasks, steps) for a in candidates)])

    @staticmethod
    def _busy_period(tasks: Sequence[_Task], steps: _Steps) -> int:
        def demand(t: int) -> int:
            return sum(_ceil(t + one.j, one.t) * one.c for one in tasks)

        return steps.settled(demand, sum(one.c for one in tasks))

    @staticmethod
    def _at(a: int, own: _Task, tasks: Sequence[_Task], steps: _Steps) -> int:
        """Return the response of a job that is released at ``a`` in a deadline busy period."""
        before = (1 + a // own.t) * own.c
        handlers = [one for one in tasks if one.handler]
        others = [one for one in tasks if one is not own and not one.handler and one.d <= a + own.d]

        def demand(t: int) -> int:
            competing = sum(
                min(_ceil(t, one.t), 1 + (a + own.d - one.d) // one.t) * one.c for one in others
            )
            return before + competing + sum(_ceil(t + h.j, h.t) * h.c for h in handlers)

        first = before + sum(one.c for one in (*others, *handlers))
        return max(own.c, steps.settled(demand, first) - a)


def meets_demand(tasks: Sequence[tuple[int, int, int]]) -> bool:
    """Return whether tasks (period, execution, deadline) meet all deadlines under EDF.

    Source: Baruah, Rosier and Howell 1990. The tasks are released together at 0. Raises
    :class:`ScenarioError` if this needs too many steps.
    """
    made = [_Task(str(i), (1, 0), c, t, d, 0, i) for i, (t, c, d) in enumerate(tasks)]
    if _load(made) > 1:
        return False
    steps = _Steps()
    end = _EarliestDeadline._busy_period(made, steps)
    steps.take(sum(_ceil(end, t) + 1 for t, _, _ in tasks))
    points = {k * t + d for t, _, d in tasks for k in range(_ceil(end, t) + 1) if k * t + d <= end}
    return all(sum(max(0, (p - d) // t + 1) * c for t, c, d in tasks) <= p for p in sorted(points))


_ANALYSES: dict[type[SchedulingPolicy], _Fixed | _Cooperative | _EarliestDeadline] = {
    FixedPriority: _Fixed(), Cooperative: _Cooperative(), LogicalExecutionTime: _Logical(),
    EarliestDeadlineFirst: _EarliestDeadline(),
}  # fmt: skip
