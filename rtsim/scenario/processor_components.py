"""Processors, and the tasks that run on them: declarations of a scenario."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rtsim.components.latency import ZERO, InTurn, LatencyModel, latency_model
from rtsim.components.processor import Processor
from rtsim.components.processor_tasks import (
    LOCK_PROTOCOLS,
    MISS_POLICIES,
    Needs,
    Segment,
    TaskTiming,
)
from rtsim.components.scheduling import SchedulingPolicy, Server, scheduling_policy
from rtsim.components.tasks import FAR, Environment, Ticking
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration, Period, Tag, declared_ns
from rtsim.engine.system import InitialValue
from rtsim.scenario.component import Built, Component, Others, Settable, Site, start_values
from rtsim.scenario.handles import Handle, Topics, names_of
from rtsim.scenario.measured_execution import is_measured, measured_execution

Execution = LatencyModel | Duration | Callable[..., float]
"""Execution time of a job.

A time in s, a latency model, a text ``from:RUN[:CONTROLLER]`` for measured times, or a function of
the sampled inputs, by name.
"""


@dataclass(frozen=True)
class TaskOptions:
    """What a task on a processor declares beside its period and its priority."""

    processor: str
    segments: tuple[Segment, ...] = ()
    """Parts of a job; empty if the job is one segment, from the sample to the answer."""
    deadline_ns: int = 0
    """Time from the arrival to the deadline, ns; 0 for the period."""
    jitter: LatencyModel = ZERO
    missed: str = "finish"
    core: int | None = None
    """Number of the core, from 1 on."""
    server: Server | None = None
    after: str = ""
    interrupt: bool = False

    def describe(self) -> dict[str, Any]:
        return {
            "processor": self.processor,
            "segments": [
                {**vars(s), "execution": described_execution(s.execution)} for s in self.segments
            ],
            "deadline": self.deadline_ns,
            "jitter": repr(self.jitter),
            "missed": self.missed,
            "core": self.core,
            "server": repr(self.server),
            "after": self.after,
            "interrupt": self.interrupt,
        }

    def timing(
        self,
        name: str,
        period: Period | None,
        offset_ns: int,
        priority: int,
        execution: LatencyModel | Needs | None,
    ) -> TaskTiming:
        """Return the timing of task ``name``; without segments, a job takes ``execution``."""
        segments = self.segments
        if not segments:
            assert execution is not None
            segments = (Segment(execution, reads=True, writes=True),)
        deadline = self.deadline_ns
        if period is not None and deadline in (0, round(period.ns)):
            deadline = int(period.ns)  # not after the next tick, which can be rounded down
        return TaskTiming(
            name, period, deadline, segments, offset_ns, self.jitter, priority, self.interrupt,
            (self.core or 1) - 1, self.server, self.missed, self.after,
        )  # fmt: skip


def task_options(
    name: str,
    processor: str,
    *,
    triggered: bool,
    execution: Execution | None,
    segments: Sequence[Segment],
    deadline: Duration | None,
    jitter: LatencyModel | Duration,
    missed: str,
    core: int | None,
    server: Server | None,
    after: str = "",
    interrupt: bool = False,
    inputs: Signals | None = None,
) -> tuple[TaskOptions, LatencyModel | Needs | None]:
    """Return the options of a task, and the execution time of a job that is one segment.

    ``inputs`` are the inputs of the task's controller. Raises :class:`ScenarioError` for options
    that do not fit together.
    """
    if (execution is None) == (not segments):
        raise ScenarioError(f"{name} on {processor}: give exactly one of execution= and segments=")
    if missed not in MISS_POLICIES:
        raise UnknownName("reaction to a missed deadline", missed, MISS_POLICIES, name)
    if deadline is None and triggered:
        raise ScenarioError(f"{name} has no period, so it needs a deadline: give deadline= in s")
    if server is not None and not isinstance(server, Server):
        raise ScenarioError(
            f"server of {name} is {server!r}; give an object, such as "
            "ConstantBandwidth(budget=0.001, period=0.01)"
        )
    if core is not None and (type(core) is not int or core < 1):
        raise ScenarioError(f"core of {name} is {core!r}; give a whole number from 1 on")
    if not isinstance(segments, Sequence) or not all(isinstance(s, Segment) for s in segments):
        raise ScenarioError(
            f"segments of {name} are {segments!r}; give a list such as "
            "[Segment(0.001, reads=True, writes=True)]"
        )
    deadline_ns = 0 if deadline is None else declared_ns(deadline, f"deadline of {name}")
    if deadline is not None and deadline_ns <= 0:
        raise ScenarioError(f"deadline of {name} is {deadline!r} s; give a time > 0")
    parts = tuple(
        replace(s, execution=_execution(s.execution, f"{name}, segment {k}", inputs))
        for k, s in enumerate(segments, 1)
    )
    if parts:
        _check_segments(name, parts, inputs)
    options = TaskOptions(
        processor, parts, deadline_ns, latency_model(jitter, f"jitter of {name}"), missed, core,
        server, after, interrupt,
    )  # fmt: skip
    if is_measured(execution):
        return options, measured_execution(str(execution), name)
    return options, None if execution is None else _execution(execution, name, inputs)


def measured_times(components: Mapping[str, Component]) -> dict[str, dict[str, list[int]]]:
    """Return the measured execution times of all tasks, ns, for the origin of a scenario."""
    found: dict[str, list[int]] = {}
    for component in components.values():
        model = getattr(component, "execution", None)
        if isinstance(model, InTurn) and is_measured(model.source):
            found[model.source] = list(model.samples)
    return {"executions": found} if found else {}


def check_offset(name: str, offset: Duration, triggered: bool) -> int:
    """Return ``offset`` in ns; a task that is ``triggered`` must not have one."""
    ns = declared_ns(offset, f"offset of {name}")
    if triggered and ns:
        raise ScenarioError(
            f"{name} has no period, so offset= has no effect; give period=, or leave out offset="
        )
    return ns


def check_without_processor(name: str, **given: bool) -> None:
    """Raise :class:`ScenarioError` if a controller has no processor, but one of its options."""
    if any(given.values()):
        options = ", ".join(f"{option}=" for option in given)
        raise ScenarioError(f"controller {name}: {options} need processor=")


def _check_segments(name: str, segments: Sequence[Segment], inputs: Signals | None) -> None:
    reads = [k for k, s in enumerate(segments) if s.reads]
    writes = [k for k, s in enumerate(segments) if s.writes]
    if inputs is None:
        if reads or writes:
            raise ScenarioError(
                f"{name} has no controller, so its segments have no reads or writes"
            )
        return
    if len(reads) != 1 or len(writes) != 1 or reads[0] > writes[0]:
        raise ScenarioError(
            f"the segments of {name} need one reads=True, and one writes=True in the same or a "
            "later segment"
        )
    for k, segment in enumerate(segments):
        if callable(segment.execution) and k < reads[0]:
            raise ScenarioError(
                f"segment {k + 1} of {name} computes its execution time from inputs that are "
                f"sampled only in segment {reads[0] + 1}"
            )


def _execution(given: Execution, where: str, inputs: Signals | None) -> LatencyModel | Needs:
    if callable(given) and not hasattr(given, "delays"):
        return _of_inputs(given, where, inputs)
    model = latency_model(given, f"execution of {where}")  # type: ignore[arg-type]
    if getattr(model, "constant", (1,)) == (0,):
        raise ScenarioError(f"execution of {where} is 0 s; give a time > 0")
    return model


@dataclass(frozen=True)
class _OfInputs:
    """Execution time as a function of inputs, whose names are the arguments of the function."""

    function: Callable[..., float]
    where: tuple[tuple[str, slice, bool], ...]
    """For each argument: name, place in the vector, and whether it is an array."""

    def __call__(self, inputs: Vector) -> float:
        values = {
            name: inputs[where].copy() if array else float(inputs[where][0])
            for name, where, array in self.where
        }
        return float(self.function(**values))


def _of_inputs(function: Callable[..., float], where: str, inputs: Signals | None) -> Needs:
    if inputs is None:
        raise ScenarioError(
            f"{where} has no controller, so its execution time cannot be a function of inputs"
        )
    names = list(inspect.signature(function).parameters)
    for name in names:
        if name not in inputs:
            raise UnknownName("input", name, inputs.names, f"the execution time of {where}")
    return _OfInputs(function, tuple((n, inputs.slice(n), bool(inputs[n].shape)) for n in names))


def described_execution(execution: object) -> str:
    if isinstance(execution, _OfInputs):
        return getattr(execution.function, "__qualname__", "function")
    return repr(execution)


class ReleaseTask(Ticking):
    """Task that releases jobs of a task of a processor when messages arrive or guards fire."""

    release: Callable[[str, int], None]

    def __init__(self, name: str) -> None:
        super().__init__(name, None, 0, 0)
        self._heard = 0

    def listen(self, topics: Mapping[str, Signals]) -> None:
        """Set nothing: the task does not read the messages."""

    def hear(self, name: str, payload: Vector | None) -> None:  # noqa: ARG002
        self._heard += 1

    def react(self, tag: Tag, environment: Environment) -> None:  # noqa: ARG002
        heard, self._heard = self._heard, 0
        for _ in range(heard):
            self.release(self.name, tag.ns)


@dataclass
class TaskComponent(Component):
    """Declaration of a task without a controller, or of an interrupt handler."""

    kind = "task"

    options: TaskOptions
    period: Period | None
    offset_ns: int
    priority: int
    execution: LatencyModel | None
    on: tuple[str, ...] = ()

    def signals(self, others: Others) -> Signals:  # noqa: ARG002
        return Signals()

    def functions(self) -> list[Any]:
        return []

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "period": None if self.period is None else str(self.period.ns),
            "offset": self.offset_ns,
            "priority": self.priority,
            "execution": repr(self.execution),
            "on": list(self.on),
            **self.options.describe(),
        }

    def build(self, name: str, site: Site) -> Built:  # noqa: ARG002
        timing = self.options.timing(
            name, self.period, self.offset_ns, self.priority, self.execution
        )
        built = Built(timing=(self.options.processor, timing))
        if self.on:
            task = ReleaseTask(name)
            built.tasks, built.listener, built.hears = [task], task, self.on
        return built


_SPEED = Signals(Signal("speed", low=1e-9))


@dataclass
class ProcessorComponent(Component):
    """Declaration of a processor."""

    kind = "processor"

    policy: SchedulingPolicy
    cores: int
    migration: bool
    context_switch_ns: int
    locks: str
    values: dict[str, object] = field(default_factory=dict)

    def signals(self, others: Others) -> Signals:
        """Return the state of each task: 0 idle, -1 ready, -2 waits for a lock, k on core k."""
        return Signals(*(Signal(name) for name in others.tasks_of(self)))

    def settable(self) -> list[Settable]:
        return [Settable(self.values, _SPEED)]

    def functions(self) -> list[Any]:
        return [type(self.policy)]

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "policy": self.policy.name,
            "quantum": self.policy.quantum_ns,
            "cores": self.cores,
            "migration": self.migration,
            "context_switch": self.context_switch_ns,
            "locks": self.locks,
            **start_values(_SPEED, self.values),
        }

    def build(self, name: str, site: Site) -> Built:  # noqa: ARG002
        return Built(processor=self)

    def running(
        self,
        name: str,
        tasks: Sequence[TaskTiming],
        controllers: Mapping[str, Any],
        streams: RandomStreams,
    ) -> tuple[Processor, list[InitialValue]]:
        """Return the processor for one run, and its values that can be set before the run.

        Raises :class:`ScenarioError` if the tasks do not fit the processor.
        """
        if not tasks:
            raise ScenarioError(
                f"no task runs on processor {name}; give processor={name!r} to a controller or "
                "a task"
            )
        after = {task.name: task.after for task in tasks}
        for task in tasks:
            chain = [task.name]
            while (before := after.get(chain[-1], "")) and before not in chain:
                chain.append(before)
            if before:
                raise ScenarioError(
                    f"no job of {task.name} is ever released, because after= forms a cycle: "
                    f"{', '.join(chain)}; give one of these tasks period= or on="
                )
            if self.migration and task.core:
                raise ScenarioError(
                    f"jobs migrate between the cores of {name}, so core={task.core + 1} of "
                    f"{task.name} has no effect; leave out core= or migration=True"
                )
            self._check(name, task, {one.name for one in tasks}, task.name in controllers)
        (speed,) = _SPEED.initial(self.values)
        made = Processor(
            name, self.policy, tasks, controllers, streams, cores=self.cores,
            migration=self.migration, context_switch_ns=self.context_switch_ns, speed=speed,
            locks=self.locks,
        )  # fmt: skip
        return made, [InitialValue("speed", _SPEED, (made.speed,))]

    def _check(self, name: str, task: TaskTiming, names: set[str], controls: bool) -> None:
        if not 0 <= task.core < self.cores:
            raise ScenarioError(
                f"{task.name} runs on core {task.core + 1} of {name}, which has {self.cores}"
            )
        if task.offset_ns < 0:
            raise ScenarioError(f"offset of {task.name} is {task.offset_ns} ns; give a time >= 0")
        if type(task.priority) is not int:
            raise ScenarioError(
                f"priority of {task.name} is {task.priority!r}; give a whole number"
            )
        if task.server is not None:
            task.server.check(self.policy, task.name)
            if task.interrupt and not self.policy.fixed_priority:
                raise ScenarioError(
                    f"{task.name} is an interrupt handler, which runs before all deadlines, so its "
                    f"{type(task.server).__name__} server has no effect; leave out server= or "
                    "interrupt=True"
                )
        if self.locks == "ceiling" and task.locks and not self.policy.fixed_priority:
            raise ScenarioError(
                f"locks='ceiling' of {name} needs a policy with fixed priorities, such as 'rm', "
                f"not {self.policy.name!r}; give locks='inheritance'"
            )
        if task.after and task.after not in names:
            raise UnknownName("task", task.after, sorted(names), f"after= of {task.name}")
        if self.policy.logical and task.period is None and controls:
            raise ScenarioError(
                f"{task.name} on {name} has no period; with logical execution time, a controller "
                "needs period=, because each answer leaves before the next sample"
            )
        period = FAR if task.period is None else round(task.period.ns)
        if self.policy.logical and task.deadline_ns > period:
            raise ScenarioError(
                f"{task.name} has a deadline of {task.deadline_ns / 1e6:.9g} ms and a period of "
                f"{period / 1e6:.9g} ms; with logical execution time, a deadline must not exceed "
                "the period"
            )


def processor_component(
    name: str,
    policy: SchedulingPolicy,
    cores: int,
    migration: bool,
    context_switch: Duration,
    speed: float,
    locks: str,
) -> ProcessorComponent:
    """Return the declaration of processor ``name``; wrong values raise :class:`ScenarioError`."""
    if type(cores) is not int or cores < 1:
        raise ScenarioError(f"processor {name} has {cores!r} cores; give a whole number from 1 on")
    if locks not in LOCK_PROTOCOLS:
        raise UnknownName("protocol", locks, LOCK_PROTOCOLS, f"locks= of {name}")
    switch = declared_ns(context_switch, f"context_switch of {name}")
    if switch < 0:
        raise ScenarioError(f"context_switch of {name} is {context_switch!r} s; give a time >= 0")
    made = ProcessorComponent(policy, cores, migration, switch, locks, {"speed": speed})
    _SPEED.initial(made.values)
    return made


class Processors(ABC):
    """Methods that declare processors and their tasks."""

    @abstractmethod
    def add(self, name: str, component: Component) -> None:
        """Add a component."""

    @abstractmethod
    def _handle(self, name: str, part: object = None) -> Handle: ...

    def processor(
        self,
        name: str,
        *,
        policy: str | SchedulingPolicy = "fixed",
        cores: int = 1,
        migration: bool = False,
        context_switch: Duration = 0,
        speed: float = 1.0,
        locks: str = "inheritance",
    ) -> Handle:
        """Declare a processor, on which controllers and tasks compute, and return its handle.

        Args:
            name: Name of the processor.
            policy: Scheduling policy: a name such as ``"fixed"``, ``"rm"``, ``"dm"``, ``"edf"``,
                ``"round_robin"``, ``"cooperative"`` or ``"let"``, or an object such as
                ``RoundRobin(0.001)``.
            cores: Number of cores.
            migration: True if a job can run on any core, False if each task names its core.
            context_switch: Time that a core needs to change to another job, s.
            speed: Factor by which execution times are divided.
            locks: Protocol against the inversion of priorities: ``"inheritance"``, ``"ceiling"`` or
                ``"none"``.
        """
        made = scheduling_policy(policy, f"processor {name}")
        component = processor_component(name, made, cores, migration, context_switch, speed, locks)
        self.add(name, component)
        return self._handle(name)

    def task(
        self,
        name: str,
        processor: str | Handle,
        *,
        period: Duration | Period | None = None,
        on: Topics = (),
        after: str | Handle = "",
        execution: LatencyModel | Duration | None = None,
        segments: Sequence[Segment] = (),
        offset: Duration = 0,
        jitter: LatencyModel | Duration = ZERO,
        deadline: Duration | None = None,
        missed: str = "finish",
        priority: int = 0,
        core: int | None = None,
        server: Server | None = None,
        interrupt: bool = False,
    ) -> Handle:
        """Declare a task without a controller, such as a logger, and return its handle.

        Give exactly one of ``period``, ``on`` and ``after``. The other arguments are those of
        :meth:`controller`.

        Args:
            name: Name of the task.
            processor: Processor on which the task runs.
            period: Period of the releases, s.
            on: Topics whose messages, and guards (``"plant.guard"``) whose crossings release a job.
            after: Task of the same processor whose jobs, when they end, release a job.
            execution: Execution time of a job: s, a latency model, or ``"from:RUN:CONTROLLER"``:
                the times that the steps of a controller took in a recorded run, in turn. The
                default controller has the name of the task.
            segments: Parts of a job, instead of ``execution``.
            offset: Time of the first release, s.
            jitter: Time from the tick to the release of a job: s, or a latency model.
            deadline: Time from the arrival of a job to its deadline, s; the default is the period.
            missed: Reaction to a missed deadline, as in :meth:`controller`.
            priority: Tasks with lower numbers run first, if the policy uses priorities.
            core: Number of the core, from 1 on.
            server: Server that limits the processor time of the task.
            interrupt: True for an interrupt handler, which runs before all tasks.
        """
        topics = names_of(on)
        if sum((period is not None, bool(topics), bool(str(after)))) != 1:
            raise ScenarioError(f"task {name}: give exactly one of period=, on= and after=")
        options, needs = task_options(
            name, str(processor), triggered=period is None, execution=execution, segments=segments,
            deadline=deadline, jitter=jitter, missed=missed, core=core, server=server,
            after=str(after), interrupt=interrupt,
        )  # fmt: skip
        component = TaskComponent(
            options, None if period is None else Period.of(period),
            check_offset(name, offset, period is None), priority, needs, topics,  # type: ignore[arg-type]
        )  # fmt: skip
        self.add(name, component)
        return self._handle(name)
