"""Scheduling policies of simulated processors, and servers that limit the processor time of a task.

A policy orders the jobs that are ready.  A server gives a task a budget of processor time per
period.  The jobs themselves run in :mod:`rtsim.components.processor`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, Self

from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint
from rtsim.core.tag import Duration, declared_ns

Order = tuple[int, ...]
"""Sort key of a job: the ready job with the smallest key runs first."""


class ReadyJob(Protocol):
    """The properties of a job that a policy can use. All times are in ns."""

    @property
    def task(self) -> int:
        """Position of the job's task among the tasks of the processor, sorted by name."""
        ...

    @property
    def release_ns(self) -> int: ...
    @property
    def deadline_ns(self) -> int:
        """Absolute deadline of the job, or of its server."""
        ...

    @property
    def turn(self) -> int:
        """Position in the ready queue; a job whose quantum has expired goes to the end."""
        ...


class TimedTask(Protocol):
    """The properties of a task that a policy can use."""

    @property
    def priority(self) -> int: ...
    @property
    def period_ns(self) -> int:
        """Period, ns; for a task without a period, its deadline."""
        ...

    @property
    def deadline_ns(self) -> int:
        """Time from the release to the deadline, ns."""
        ...


class SchedulingPolicy(ABC):
    """Order in which a processor runs the jobs that are ready.

    To add a policy, derive a class and register it with :func:`add_scheduling_policy`, or as an
    entry point of the group ``rtsim.scheduling_policies``.
    """

    name: ClassVar[str]
    """Name of the policy, as in ``processor("mcu", policy=NAME)``."""
    preemptive: ClassVar[bool] = True
    """False if a job, once started, runs to its end. Interrupts always preempt."""
    fixed_priority: ClassVar[bool] = False
    """True if the order depends only on the tasks, as ceilings and sporadic servers need it."""
    logical: ClassVar[bool] = False
    """True if jobs sample at their release, and answer exactly at their deadline."""
    quantum_ns: int = 0
    """Longest time that a job runs before the next job has its turn, ns; 0 for no limit."""

    def rank(self, task: TimedTask) -> int:
        """Return the fixed priority of a task for this policy; lower numbers run first."""
        return task.priority

    @abstractmethod
    def order(self, job: ReadyJob, rank: int) -> Order:
        """Return the sort key of a job, whose task has the fixed priority ``rank``."""


class FixedPriority(SchedulingPolicy):
    """Preemptive scheduling by the declared priorities."""

    name = "fixed"
    fixed_priority = True

    def order(self, job: ReadyJob, rank: int) -> Order:
        return rank, job.release_ns, job.task


class RateMonotonic(FixedPriority):
    """Preemptive scheduling in which the task with the shortest period runs first.

    Source: C. L. Liu and J. W. Layland, Journal of the ACM 20 (1973), pp. 46-61.
    """

    name = "rm"

    def rank(self, task: TimedTask) -> int:
        return task.period_ns


class DeadlineMonotonic(FixedPriority):
    """Preemptive scheduling in which the task with the shortest relative deadline runs first.

    Source: J. Y.-T. Leung and J. Whitehead, Performance Evaluation 2 (1982), pp. 237-250.
    """

    name = "dm"

    def rank(self, task: TimedTask) -> int:
        return task.deadline_ns


class EarliestDeadlineFirst(SchedulingPolicy):
    """Preemptive scheduling in which the job with the earliest absolute deadline runs first.

    Source: C. L. Liu and J. W. Layland, Journal of the ACM 20 (1973), pp. 46-61.
    """

    name = "edf"

    def order(self, job: ReadyJob, rank: int) -> Order:  # noqa: ARG002
        return job.deadline_ns, job.release_ns, job.task


class Cooperative(FixedPriority):
    """Scheduling by the declared priorities without preemption: each job runs to its end."""

    name = "cooperative"
    preemptive = False


class RoundRobin(SchedulingPolicy):
    """Scheduling in turns: each job runs for at most one quantum, and then waits for its next turn.

    Args:
        quantum: Length of a turn, s.
    """

    name = "round_robin"

    def __init__(self, quantum: Duration = 0.001) -> None:
        self.quantum_ns = declared_ns(quantum, "the quantum of round_robin")
        if self.quantum_ns <= 0:
            raise ScenarioError(f"the quantum of round_robin is {quantum!r} s; give a time > 0")

    def order(self, job: ReadyJob, rank: int) -> Order:  # noqa: ARG002
        return job.turn, job.task

    def __repr__(self) -> str:
        return f"RoundRobin({self.quantum_ns} ns)"


class LogicalExecutionTime(FixedPriority):
    """Logical execution time: inputs are sampled at the release, answers sent at the deadline.

    Between release and deadline, the jobs run by their declared priorities.  The timing of inputs
    and outputs then depends neither on execution times nor on other tasks.

    Source: T. A. Henzinger, B. Horowitz and C. M. Kirsch, Proceedings of the IEEE 91 (2003),
    pp. 84-99.
    """

    name = "let"
    logical = True


def _checked(name: str, made: object) -> type[SchedulingPolicy]:
    if not (isinstance(made, type) and issubclass(made, SchedulingPolicy)):
        raise ScenarioError(
            f"scheduling policy {name!r} is {made!r}; expected a subclass of "
            "rtsim.extend.SchedulingPolicy"
        )
    if getattr(made, "name", None) != name:
        raise ScenarioError(f"scheduling policy {name!r}: give {made.__name__} name = {name!r}")
    return made


_OWN = (
    FixedPriority, RateMonotonic, DeadlineMonotonic, EarliestDeadlineFirst, Cooperative, RoundRobin,
    LogicalExecutionTime,
)  # fmt: skip
SCHEDULING_POLICIES: ExtensionPoint[type[SchedulingPolicy]] = ExtensionPoint(
    "rtsim.scheduling_policies", "scheduling policy", {p.name: p for p in _OWN}, _checked
)
"""The class of each scheduling policy, by name."""


def add_scheduling_policy(policy: type[SchedulingPolicy]) -> type[SchedulingPolicy]:
    """Register a policy class for this process. The function can be used as a class decorator."""
    SCHEDULING_POLICIES.add(policy.name, policy)
    return policy


def scheduling_policy(given: str | SchedulingPolicy, where: str) -> SchedulingPolicy:
    """Return the policy called ``given``, or ``given`` itself; ``where`` is part of errors."""
    if isinstance(given, str):
        return SCHEDULING_POLICIES.get_or_raise(given, where)()
    if not isinstance(given, SchedulingPolicy):
        raise ScenarioError(
            f"the policy of {where} is {given!r}; give a name, such as 'rm' or 'edf', or an object "
            "such as RoundRobin(0.001)"
        )
    return given


# -- servers --------------------------------------------------------------------------------------


@dataclass
class Server(ABC):
    """Budget of processor time for one task.

    A declared server is a template: each run uses a copy.  To add a server, derive a class.

    Args:
        budget: Processor time that the task may use per ``period``, s.
        period: Period of the server, s.
    """

    budget: Duration
    period: Duration
    budget_ns: int = field(init=False, repr=False)
    period_ns: int = field(init=False, repr=False)
    left_ns: int = field(init=False, repr=False)
    """Budget that is left, ns."""

    def __post_init__(self) -> None:
        name = type(self).__name__
        self.budget_ns = declared_ns(self.budget, f"budget of {name}")
        self.period_ns = declared_ns(self.period, f"period of {name}")
        if not 0 < self.budget_ns <= self.period_ns:
            raise ScenarioError(
                f"{name} has a budget of {self.budget!r} s and a period of {self.period!r} s; give "
                "0 < budget <= period"
            )
        self.left_ns = self.budget_ns

    @abstractmethod
    def check(self, policy: SchedulingPolicy, task: str) -> None:
        """Raise :class:`ScenarioError` if the server does not work with ``policy``."""

    def fresh(self) -> Self:
        return copy(self)

    def ready(self, ns: int) -> None:  # noqa: B027
        """Take note that the task has a job that is ready, after it had none."""

    def deadline_ns(self, job_deadline_ns: int) -> int:
        """Return the deadline with which the jobs of the task compete, ns."""
        return job_deadline_ns

    @property
    def available(self) -> bool:
        """True if the task may run now."""
        return self.left_ns > 0

    def ran(self, since_ns: int, ns: int) -> None:
        """Charge the time from ``since_ns`` to ``ns``, during which the task ran."""
        self.left_ns -= ns - since_ns

    @property
    def next_ns(self) -> int | None:
        """Time of the next replenishment, ns, or None."""
        return None

    def at(self, ns: int) -> None:  # noqa: B027 - not every server has something to do
        """Replenish the budget if this is due at ``ns``, or if the budget is used up."""

    def rests(self) -> None:  # noqa: B027
        """Take note that the task has no job that is ready."""

    @abstractmethod
    def save(self) -> list[int]:
        """Return the state as a list of integers."""

    @abstractmethod
    def restore(self, saved: list[int]) -> None: ...


@dataclass
class ConstantBandwidth(Server):
    """Constant bandwidth server, for the policy ``edf``.

    If the budget is used up, the server's deadline moves one period back, and the budget is full
    again.  A task that computes longer than declared then delays only itself.

    Source: L. Abeni and G. Buttazzo, Proc. 19th IEEE Real-Time Systems Symposium (1998), pp. 4-13.
    """

    _deadline_ns: int = field(default=0, init=False, repr=False)

    def check(self, policy: SchedulingPolicy, task: str) -> None:
        if not isinstance(policy, EarliestDeadlineFirst):
            raise ScenarioError(
                f"{task} has a ConstantBandwidth server, which needs policy='edf'; the processor "
                f"has {policy.name!r}"
            )

    def ready(self, ns: int) -> None:
        if self.left_ns * self.period_ns >= (self._deadline_ns - ns) * self.budget_ns:
            self._deadline_ns, self.left_ns = ns + self.period_ns, self.budget_ns

    def deadline_ns(self, job_deadline_ns: int) -> int:  # noqa: ARG002
        return self._deadline_ns

    def at(self, ns: int) -> None:  # noqa: ARG002
        if self.left_ns <= 0:
            self.left_ns += self.budget_ns
            self._deadline_ns += self.period_ns

    def save(self) -> list[int]:
        return [self.left_ns, self._deadline_ns]

    def restore(self, saved: list[int]) -> None:
        self.left_ns, self._deadline_ns = saved


@dataclass
class Sporadic(Server):
    """Sporadic server, for policies with fixed priorities.

    Time that the task uses is returned one period after the task became active.  A task without
    budget waits.

    Source: B. Sprunt, L. Sha and J. Lehoczky, Real-Time Systems 1 (1989), pp. 27-60.
    """

    _active_ns: int = field(default=-1, init=False, repr=False)
    """Time at which the task became active, ns; -1 if the task is not active."""
    _used_ns: int = field(default=0, init=False, repr=False)
    _returns: tuple[tuple[int, int], ...] = field(default=(), init=False, repr=False)
    """Time and amount of each coming replenishment, ns."""

    def check(self, policy: SchedulingPolicy, task: str) -> None:
        if not policy.fixed_priority:
            raise ScenarioError(
                f"{task} has a Sporadic server, which needs a policy with fixed priorities, such "
                f"as 'rm'; the processor has {policy.name!r}"
            )

    def ran(self, since_ns: int, ns: int) -> None:
        if self._active_ns < 0:
            self._active_ns = since_ns
        self.left_ns -= ns - since_ns
        self._used_ns += ns - since_ns

    def rests(self) -> None:
        """Schedule the return of the used budget: the task has finished, or has no budget left."""
        if self._used_ns:
            self._returns += ((self._active_ns + self.period_ns, self._used_ns),)
        self._active_ns, self._used_ns = -1, 0

    @property
    def next_ns(self) -> int | None:
        return self._returns[0][0] if self._returns else None

    def at(self, ns: int) -> None:
        if self.left_ns <= 0:
            self.rests()
        while self._returns and self._returns[0][0] <= ns:
            self.left_ns += self._returns[0][1]
            self._returns = self._returns[1:]

    def save(self) -> list[int]:
        flat = [value for pair in self._returns for value in pair]
        return [self.left_ns, self._active_ns, self._used_ns, *flat]

    def restore(self, saved: list[int]) -> None:
        self.left_ns, self._active_ns, self._used_ns, *flat = saved
        self._returns = tuple(zip(flat[::2], flat[1::2], strict=True))
