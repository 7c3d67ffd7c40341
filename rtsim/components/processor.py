"""A simulated processor: tasks, jobs, preemption, locks and deadlines.

Each release of a task is a *job*.  A job runs its segments one after the other, whenever the
scheduling policy gives it a core.  The processor computes its own events: releases, ends of
segments, preemptions, deadlines.  An event is a tag of the run only if other components can notice
it: a job samples inputs, a job answers, a deadline is missed.  All other events are recorded at
their time.

The processor simulates its own events up to the next tag that is known.  If an unforeseen tag comes
first, such as the crossing of a guard, the processor goes back to its state at the last tag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

from rtsim.components.latency import (
    Fixed,
    LatencyModel,
    draw,
    for_one_run,
    latency_state,
    put_latency_back,
)
from rtsim.components.processor_tasks import ABORT, END, SKIP, Counts, FinishedJob, Job, TaskTiming
from rtsim.components.scheduling import Order, SchedulingPolicy, Server
from rtsim.components.tasks import FAR, Environment
from rtsim.core.errors import DeadlineError, LatencyError, ScenarioError
from rtsim.core.raised import attribute_to
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Vector
from rtsim.core.tag import LONGEST_NS, NS_PER_S, Tag

MISSED, SKIPPED = "DeadlineMissed", "Skipped"
"""Kinds of events."""
IDLE, WAITING, BLOCKED = 0, -1, -2
"""States of a task: no job, a job that waits for a core, a job that waits for a lock.

A positive state is the number of the core on which the job runs, from 1 on.
"""
MOST_JOBS = 10_000
"""Limit of the unfinished jobs of one task; more indicate an overload."""
_MOST_KEPT = 256
"""Number of jobs whose random values are kept before those of ended jobs are removed."""
_FINISHED, _MISSED, _SKIPPED, _ABORTED, _LONGEST = range(5)


class Controlled(Protocol):
    """A controller whose computation is a task of the processor."""

    def start_job(self, tag: Tag, environment: Environment) -> Vector:
        """Sample the inputs at ``tag``, and return them (m,)."""
        ...

    def finish_job(self, tag: Tag, environment: Environment) -> None:
        """Compute the answer from the sampled inputs, and send it at ``tag``."""
        ...

    def drop_job(self) -> None:
        """Discard the sampled inputs, because the job was aborted."""
        ...


@dataclass
class _State:
    """All data of a processor that change during a run. Tasks are given by their positions."""

    queues: list[list[Job]]
    """Unfinished jobs of each task, in the order of their arrival. Only the first job changes."""
    numbers: list[int]
    """Number of the next job of each task."""
    running: list[int]
    """Task that runs on each core, or -1."""
    last: list[tuple[int, int]]
    """Task and number of the last job on each core."""
    servers: list[Server | None]
    counts: list[list[int]]
    """Counts of the jobs of each task, in the order of :class:`Counts`."""
    now: int = -1
    turn: int = 0
    releases: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Coming releases: time, task, number of the job, time of its arrival."""
    deadlines: list[tuple[int, int, int]] = field(default_factory=list)
    """Coming deadlines: time, task, number of the job."""
    answers: list[tuple[int, int]] = field(default_factory=list)
    """Answers that wait for the deadline of their job: time, task (logical execution time)."""
    holders: dict[str, int] = field(default_factory=dict)
    """Task that holds each lock."""
    shown: tuple[int, ...] = ()
    """State of each task in the last row."""
    waiting: list[int] = field(default_factory=list)
    """State of each task, as if no core ran a job: :data:`IDLE` or :data:`WAITING`."""

    def copy(self) -> _State:
        queues = [[queue[0].fresh(), *queue[1:]] if queue else [] for queue in self.queues]
        return _State(
            queues, self.numbers[:], self.running[:], self.last[:],
            [s and s.fresh() for s in self.servers], [row[:] for row in self.counts],
            self.now, self.turn,
            self.releases[:], self.deadlines[:], self.answers[:], dict(self.holders), self.shown,
            self.waiting[:],
        )  # fmt: skip


_order = attrgetter("order")


class Processor:
    """The processor ``name`` of one run, with its ``tasks`` sorted by name.

    At each tag, the run calls :meth:`begin`, then :meth:`release` for each task that an event of
    the tag releases, and :meth:`dispatch` at the end of the instant.
    """

    def __init__(
        self,
        name: str,
        policy: SchedulingPolicy,
        tasks: Sequence[TaskTiming],
        controllers: Mapping[str, Controlled],
        streams: RandomStreams,
        *,
        cores: int = 1,
        migration: bool = False,
        context_switch_ns: int = 0,
        speed: float = 1.0,
        locks: str = "inheritance",
    ) -> None:
        self.name = name
        self.policy = policy
        self.tasks = tuple(tasks)
        self.speed: Vector = np.array([speed])
        """Factor by which the processor is faster than the execution times say, shape (1,)."""
        self.states: Vector = np.zeros(len(tasks))
        """State of each task in the last recorded row, shape (n,), which clients of a run read."""
        self.cores, self.migration, self.locks = cores, migration, locks
        self.context_switch_ns = context_switch_ns
        self._streams = streams
        self._index = {task.name: i for i, task in enumerate(self.tasks)}
        self._controllers = [controllers.get(task.name) for task in self.tasks]
        self._controlling = bool(controllers)
        self._ranks = [policy.rank(task) for task in self.tasks]
        self._after: list[list[int]] = [
            [i for i, other in enumerate(self.tasks) if other.after == task.name]
            for task in self.tasks
        ]
        """Tasks that are released when a job of a task ends."""
        self._ceilings: dict[str, Order] = {}
        for task, rank in zip(self.tasks, self._ranks, strict=True):
            own = (0, task.priority) if task.interrupt else (2, rank)
            for lock in {s.lock for s in task.segments if s.lock}:
                self._ceilings[lock] = min(own, self._ceilings.get(lock, own))
        self._locking = any(task.locks for task in self.tasks)
        self._served = [i for i, task in enumerate(self.tasks) if task.server is not None]
        """Tasks that have a server."""
        stays = policy.preemptive or not any(task.server for task in self.tasks)
        self._first_runs = cores == 1 and stays and not self._locking
        """True if the job with the smallest sort key always runs."""
        self._jitters = [for_one_run(t.jitter, f"the jitter of {t.name}") for t in self.tasks]
        self._executions = [
            [
                s.execution
                if callable(s.execution)
                else for_one_run(s.execution, f"the execution of {t.name}")
                for s in t.segments
            ]
            for t in self.tasks
        ]
        self._clear()
        for i, task in enumerate(self.tasks):
            if task.period is not None:
                heappush(self._state.releases, self._coming(i))
        self._base = self._state.copy()

    def _clear(self) -> None:
        """Set the state without jobs and without coming releases."""
        n = len(self.tasks)
        servers = [task.server and task.server.fresh() for task in self.tasks]
        self._state = _State(
            [[] for _ in range(n)], [0] * n, [-1] * self.cores, [(-1, -1)] * self.cores, servers,
            [[0] * len(Counts._fields) for _ in range(n)], shown=(IDLE,) * n, waiting=[IDLE] * n,
        )  # fmt: skip
        self._drawn: dict[tuple[int, int], tuple[int, list[int]]] = {}
        """Jitter and execution times of jobs by task and number; they survive a step back."""
        self._constant: list[tuple[int, list[int]] | None] = [None] * n
        """Jitter and execution times of the tasks for which they are constant, once drawn."""
        self._draws = [0] * n
        """Number of the next job of each task to draw."""
        self._open = False
        """True if the events at the present time were taken, and no jobs were started since."""
        self._due = False
        """True if the open events at the present time need a tag."""
        self._choice: tuple[list[int], list[int]] | None = None
        """Result of :meth:`_choose` for the present time, or None if it is not known."""
        self._answering: list[int] = []
        """Tasks whose jobs answer at the present time."""
        self._dropping: list[int] = []
        """Tasks whose jobs were aborted at the present time."""
        self._events: list[tuple[str, int, int]] = []
        """Kind, task and job of each event at the present time."""
        self._rows: list[tuple[int, tuple[int, ...]]] = []
        """States of the tasks that are not recorded yet, with their times, ns."""
        self._ended: list[FinishedJob] = []
        """Jobs that ended and are not recorded yet."""
        self._recorded_ns = -1
        """Time up to which rows were recorded, ns."""

    @property
    def counts(self) -> dict[str, Counts]:
        """Counts of the jobs of each task, up to the last tag of the processor."""
        rows = zip(self.tasks, self._state.counts, strict=True)
        return {task.name: Counts(*row) for task, row in rows}

    # -- what the run calls

    def next_ns(self, limit_ns: int, most: int = 0) -> int:
        """Return the time of the next tag, not after ``limit_ns``, ns, or :data:`FAR`.

        ``limit_ns`` is the next tag that is known. ``most`` limits the number of events for which
        no tag is needed; with 0, there is no limit.
        """
        events = 0
        while not (self._open and self._due):
            if self._open:
                if self._state.now >= limit_ns:
                    return FAR
                self._start()
                events += 1
                if events == most:
                    break
            ns = self._next_event()
            if ns > limit_ns:
                return FAR
            self._take(ns)
            self._due = self._noticed()
        return self._state.now

    def begin(self, tag: Tag, environment: Environment) -> None:
        """Let the jobs answer that do so at ``tag``, and record events."""
        if self._state.now < tag.ns:
            self._reach(tag.ns)
        if not self._open or self._state.now > tag.ns:
            return
        for i in self._answering:
            self._controlled(i).finish_job(tag, environment)
        for i in self._dropping:
            self._controlled(i).drop_job()
        self._answering.clear()
        self._dropping.clear()
        self._report(tag, environment)

    def _report(self, tag: Tag, environment: Environment) -> None:
        """Record the events of the present time."""
        events, self._events = self._events, []
        for kind, i, number in events:
            name, deadline = self.tasks[i].name, self.tasks[i].deadline_ns
            text = f"job {number} of {name} on {self.name}: "
            text += (
                f"unfinished at its deadline, {deadline} ns after its arrival"
                if kind == MISSED
                else "not released, because an earlier job is unfinished"
            )
            values = {"job": float(number), "deadline": float(deadline)}
            environment.event(tag, kind, name, text, values)
            if kind == MISSED and self.tasks[i].missed == END:
                raise DeadlineError(f"{text}; give missed='finish' to continue after a miss")

    def release(self, task: str, ns: int) -> None:
        """Release a job of ``task`` at ``ns``, because a message or a guard requires it."""
        self._reach(ns)
        if self._state.now < ns:
            self._take(ns)
        self._arrive(self._index[task], ns)
        self._release_due(ns)
        self._choice = None

    def dispatch(self, tag: Tag, environment: Environment) -> None:
        """Start, resume and preempt jobs at the end of the instant of ``tag``."""
        if self._open and self._state.now == tag.ns:
            self._report(tag, environment)  # a release of this tag can have been skipped
            self._start(tag, environment)
            self._base = self._state.copy()
            if len(self._drawn) > 4 * len(self.tasks) + _MOST_KEPT:
                self._forget_draws()

    def _forget_draws(self) -> None:
        """Remove the random values of jobs that no step back can release again."""
        first = dict(enumerate(self._base.numbers))
        for _, i, number, _ in self._base.releases:
            first[i] = min(number, first[i])
        self._drawn = {(i, k): drawn for (i, k), drawn in self._drawn.items() if k >= first[i]}

    def take_rows(self, ns: int) -> tuple[list[tuple[int, tuple[int, ...]]], list[FinishedJob]]:
        """Remove and return the rows and the ended jobs up to the time ``ns``, which is over."""
        if self._open and not self._due and self._state.now <= ns:
            self._start()
        if not (self._rows or self._ended):
            return [], []
        rows = [row for row in self._rows if row[0] <= ns]
        ended = [job for job in self._ended if job.ns <= ns]
        del self._rows[: len(rows)], self._ended[: len(ended)]
        self._recorded_ns = ns
        if rows:
            self.states[:] = rows[-1][1]
        return rows, ended

    def save(self) -> dict[str, Any]:
        """Return the state as plain data, as of the last tag at which jobs were chosen."""
        base, drawn = self._base, sorted(self._drawn.items())
        return {
            "now": base.now,
            "turn": base.turn,
            "queues": [[job.save() for job in queue] for queue in base.queues],
            "numbers": base.numbers[:],
            "running": base.running[:],
            "last": list(map(list, base.last)),
            "servers": [server and server.save() for server in base.servers],
            "counts": [row[:] for row in base.counts],
            "releases": list(map(list, base.releases)),
            "deadlines": list(map(list, base.deadlines)),
            "answers": list(map(list, base.answers)),
            "holders": dict(base.holders),
            "shown": list(base.shown),
            "drawn": [[i, k, jitter, times[:]] for (i, k), (jitter, times) in drawn],
            "draws": self._draws[:],
            "recorded": self._recorded_ns,
            "models": [latency_state(model) for model in self._models()],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._clear()
        servers = [server and server.fresh() for server in self._state.servers]
        for server, values in zip(servers, saved["servers"], strict=True):
            if server is not None:
                server.restore(values)
        self._state = _State(
            [[Job.restored(job) for job in queue] for queue in saved["queues"]],
            list(saved["numbers"]), list(saved["running"]),
            [(i, k) for i, k in saved["last"]], servers,
            [list(row) for row in saved["counts"]], saved["now"], saved["turn"],
            [(a, b, c, d) for a, b, c, d in saved["releases"]],
            [(a, b, c) for a, b, c in saved["deadlines"]], [(a, b) for a, b in saved["answers"]],
            dict(saved["holders"]), tuple(saved["shown"]),
            [WAITING if queue else IDLE for queue in saved["queues"]],
        )  # fmt: skip
        self._drawn = {(i, k): (jitter, list(times)) for i, k, jitter, times in saved["drawn"]}
        self._draws = list(saved["draws"])
        self._recorded_ns = saved["recorded"]
        self.states[:] = saved["shown"]
        for queue in self._state.queues:
            self._place(queue)
        for model, state in zip(self._models(), saved["models"], strict=True):
            put_latency_back(model, state)
        self._base = self._state.copy()

    def _models(self) -> list[LatencyModel]:
        executions = [m for models in self._executions for m in models if not callable(m)]
        return [*self._jitters, *executions]

    def _controlled(self, task: int) -> Controlled:
        controller = self._controllers[task]
        assert controller is not None
        return controller

    # -- the present time

    def _reach(self, ns: int) -> None:
        """Take all events up to the time ``ns``, at which the run has a tag."""
        closed = not self._open and self._state.now == ns > self._base.now
        if closed or self._state.now > ns:  # an unforeseen tag, before or at events already taken
            self._state, self._open = self._base.copy(), False
            self._rows.clear()
            self._ended.clear()
            for found in (self._answering, self._dropping, self._events):
                found.clear()
        if self._open and self._state.now < ns:
            self._start()
        while not self._open and (coming := self._next_event()) <= ns:
            self._take(coming)
            if coming < ns:
                self._start()

    def _next_event(self) -> int:
        """Return the time of the next event of the processor, ns."""
        state = self._state
        ns = state.releases[0][0] if state.releases else FAR
        deadlines = state.deadlines
        while deadlines:
            _, i, number = deadlines[0]
            queue = state.queues[i]
            if queue and queue[0].number <= number:
                break
            heappop(deadlines)  # the job has ended
        if deadlines and deadlines[0][0] < ns:
            ns = deadlines[0][0]
        if state.answers and state.answers[0][0] < ns:
            ns = state.answers[0][0]
        for i in state.running:
            if i < 0:
                continue
            job = state.queues[i][0]
            left = job.left_ns
            if job.slice_ns and job.slice_ns < left:
                left = job.slice_ns
            if self._served and (server := state.servers[i]) is not None and server.left_ns < left:
                left = server.left_ns
            if (end := state.now + job.switch_ns + left) < ns:
                ns = end
        for i in self._served:
            server = state.servers[i]
            if server is not None and (due := server.next_ns) is not None and due < ns:
                ns = max(due, state.now)
        return ns

    def _is_over(self, task: int, number: int) -> bool:
        queue = self._state.queues[task]
        return not queue or queue[0].number > number

    def _take(self, ns: int) -> None:
        """Let jobs run until ``ns``, and take the events at ``ns``."""
        state = self._state
        before, state.now, self._choice = state.now, ns, None
        self._open = self._due = True
        for core, i in enumerate(state.running):
            if i >= 0:
                self._run(core, i, before, ns)
        answers, deadlines, releases = state.answers, state.deadlines, state.releases
        while answers and answers[0][0] <= ns:
            self._answering.append(heappop(answers)[1])
        while deadlines and deadlines[0][0] <= ns:
            _, i, number = heappop(deadlines)
            if not self._is_over(i, number):
                self._miss(i, number)
        for i in self._served:
            server = state.servers[i]
            if server is not None:
                server.at(ns)
                if state.queues[i]:
                    head = state.queues[i][0]
                    head.deadline_ns = server.deadline_ns(head.limit_ns)
                    self._place(state.queues[i])
        if releases and releases[0][0] <= ns:
            self._release_due(ns)

    def _run(self, core: int, i: int, before: int, ns: int) -> None:
        """Let the job of task ``i`` run on ``core`` from ``before`` to ``ns``."""
        state = self._state
        job, server, ran = state.queues[i][0], state.servers[i], ns - before
        if job.switch_ns:
            switched = min(job.switch_ns, ran)
            job.switch_ns -= switched
            ran -= switched
        job.left_ns -= ran
        job.executed_ns += ran
        if server is not None and ran:
            server.ran(ns - ran, ns)
        if job.slice_ns and ran:
            job.slice_ns -= ran
            if not job.slice_ns:
                job.turn, job.slice_ns = state.turn, self.policy.quantum_ns
                state.turn += 1
                self._place(state.queues[i])
        if job.left_ns or job.switch_ns:
            return
        segments, at = self.tasks[i].segments, job.segment + 1
        segment = segments[at - 1]
        job.segment = at
        over = at == len(segments)
        if segment.lock and (over or segments[at].lock != segment.lock):
            del state.holders[segment.lock]
        if segment.writes and self._controllers[i] is not None:
            if self.policy.logical and job.limit_ns > ns:
                heappush(state.answers, (job.limit_ns, i))
            else:
                self._answering.append(i)
        if over:
            state.running[core] = -1
            self._end(i, job, ns, aborted=False)
        else:
            job.left_ns = job.durations[at]

    def _end(self, i: int, job: Job, ns: int, aborted: bool) -> None:
        state = self._state
        queue = state.queues[i]
        del queue[0]
        if queue:
            queue[0] = queue[0].fresh()  # a saved state has the same job
            self._place(queue)
        else:
            state.waiting[i] = IDLE
        counts, response = state.counts[i], ns - job.arrival_ns
        counts[_ABORTED if aborted else _FINISHED] += 1
        if response > counts[_LONGEST] and not aborted:
            counts[_LONGEST] = response
        if ns > self._recorded_ns:
            self._ended.append(
                FinishedJob(
                    ns, i, job.number, job.arrival_ns, job.started_ns, job.limit_ns,
                    job.executed_ns, job.preempted, int(aborted),
                )
            )  # fmt: skip
        server = state.servers[i]
        if server is not None and not queue:
            server.rests()
        if not aborted:
            for other in self._after[i]:
                self._arrive(other, ns)

    def _miss(self, i: int, number: int) -> None:
        state, missed = self._state, self.tasks[i].missed
        state.counts[i][_MISSED] += 1
        self._events.append((MISSED, i, number))
        queue = state.queues[i]
        (at,) = (k for k, one in enumerate(queue) if one.number == number)
        job = queue[at] = queue[at].fresh()  # a saved state has the same job
        job.missed = True
        if missed != ABORT:
            return
        if i in state.running:
            state.running[state.running.index(i)] = -1
        for lock in [lock for lock, holder in state.holders.items() if holder == i]:
            del state.holders[lock]
        if job.sampled and self._controllers[i] is not None:
            self._dropping.append(i)
        self._end(i, job, state.now, aborted=True)

    # -- releases

    def _coming(self, i: int) -> tuple[int, int, int, int]:
        """Return the next release of a periodic task."""
        task, numbers = self.tasks[i], self._state.numbers
        assert task.period is not None
        number = numbers[i]
        numbers[i] = number + 1
        ns = task.period.tick(number, task.offset_ns)
        return ns + (self._constant[i] or self._draw(i, number))[0], i, number, ns

    def _arrive(self, i: int, ns: int) -> None:
        """Schedule the release of the next job of task ``i``, which arrives at ``ns``."""
        state = self._state
        number = state.numbers[i]
        state.numbers[i] += 1
        due = ns + self._draw(i, number)[0]  # jobs are released in the order of their arrival
        due = max([due, *(coming for coming, task, _, _ in state.releases if task == i)])
        heappush(state.releases, (due, i, number, ns))

    def _release_due(self, ns: int) -> None:
        state = self._state
        releases = state.releases
        while releases and releases[0][0] <= ns:
            _, i, number, arrival = releases[0]
            task, queue = self.tasks[i], state.queues[i]
            if task.period is None:
                heappop(releases)
            else:
                heapreplace(releases, self._coming(i))
            if queue and queue[0].missed and task.missed == SKIP:
                state.counts[i][_SKIPPED] += 1
                self._events.append((SKIPPED, i, number))
                continue
            if len(queue) >= MOST_JOBS:
                raise DeadlineError(
                    f"{MOST_JOBS} jobs of {task.name} wait for processor {self.name}, which is "
                    "overloaded; give missed='abort' or 'skip', longer periods, or a higher speed"
                )
            limit = arrival + task.deadline_ns
            durations = (self._constant[i] or self._draw(i, number))[1]
            job = Job(
                i, number, arrival, ns, limit, limit, durations, state.turn, durations[0],
                self._controllers[i] is None, 0, 0, self.policy.quantum_ns,
            )  # fmt: skip
            state.turn += 1
            queue.append(job)
            if len(queue) == 1:
                state.waiting[i] = WAITING
                server = state.servers[i]
                if server is not None:
                    server.ready(ns)
                    job.deadline_ns = server.deadline_ns(limit)
                self._place(queue)
            if limit > ns:
                heappush(state.deadlines, (limit, i, number))
            else:  # the jitter is longer than the deadline
                self._miss(i, number)

    def _draw(self, i: int, number: int) -> tuple[int, list[int]]:
        """Return the release jitter and the execution times of a job, ns."""
        constant = self._constant[i]
        if constant is not None:
            return constant
        task = self.tasks[i]
        models = [self._jitters[i], *self._executions[i]]
        if all(type(model) is Fixed for model in models):
            delays = [model.constant[0] for model in models if isinstance(model, Fixed)]
            constant = delays[0], [self._scaled(ns) for ns in delays[1:]]
            self._constant[i] = constant
            return constant
        while self._draws[i] <= number:
            jitter = self._drawn_ns(self._jitters[i], "jitter", task.name)
            times = [
                -1
                if callable(model)
                else self._scaled(self._drawn_ns(model, "execution", task.name))
                for model in self._executions[i]
            ]
            self._drawn[i, self._draws[i]] = jitter, times
            self._draws[i] += 1
        return self._drawn[i, number]

    def _drawn_ns(self, model: LatencyModel, what: str, task: str) -> int:
        link = f"the {what} of {task}"
        delays = draw(model, self._streams, f"{what}/{task}", 0, link)
        if len(delays) != 1:
            raise LatencyError(
                f"the latency model of {link} gave {len(delays)} times; a job needs exactly one, "
                "so give a model without losses and duplicates"
            )
        return delays[0]

    def _scaled(self, ns: int) -> int:
        return max(1, round(ns / float(self.speed[0])))

    # -- choosing jobs

    def _place(self, queue: list[Job]) -> None:
        """Compute the sort key of the first job of a task."""
        if not queue:
            return
        job = queue[0]
        i = job.task
        task = self.tasks[i]
        if task.interrupt:
            job.order = (0, task.priority, job.release_ns, i)
        elif not self.policy.preemptive and job.started_ns >= 0:
            job.order = (1, i)
        else:
            job.order = (2, *self.policy.order(job, self._ranks[i]))

    def _wanted_lock(self, i: int) -> str:
        job, segments = self._state.queues[i][0], self.tasks[i].segments
        lock = segments[job.segment].lock
        return "" if self._state.holders.get(lock) == i else lock

    def _choose(self) -> tuple[list[int], list[int]]:
        """Return the task for each core, or -1, and the tasks that wait for a lock."""
        state = self._state
        if self._served:
            ready = [
                queue[0]
                for queue, server in zip(state.queues, state.servers, strict=True)
                if queue and (server is None or server.available)
            ]
        else:
            ready = [queue[0] for queue in state.queues if queue]
        if self._first_runs:
            first = ready[0] if len(ready) == 1 else min(ready, key=_order, default=None)
            return [-1 if first is None else first.task], []
        orders = {job.task: job.order for job in ready}
        if not self.policy.preemptive:
            for i in state.running:
                if i in orders and not self.tasks[i].interrupt:
                    orders[i] = (1, -1)
        locking = [i for i in orders if self.tasks[i].locks]
        if locking:
            self._raise_holders(orders, locking)
        chosen, taken, waiting = [-1] * self.cores, dict(state.holders), []
        found: list[int] = []
        for i in sorted(orders, key=orders.__getitem__):
            core = self.tasks[i].core
            if len(found) == self.cores:
                break
            if not self.migration and chosen[core] >= 0:
                continue
            lock = self._wanted_lock(i) if i in locking else ""
            if lock in taken:
                waiting.append(i)
                continue
            if lock:
                taken[lock] = i
            found.append(i)
            if not self.migration:
                chosen[core] = i
        if self.migration:
            for core, i in enumerate(state.running):
                if i in found:
                    chosen[core] = i
            rest = iter([i for i in found if i not in chosen])
            chosen = [next(rest, -1) if i < 0 else i for i in chosen]
        return chosen, waiting

    def _raise_holders(self, orders: dict[int, Order], locking: list[int]) -> None:
        """Give the tasks that hold locks the order that the protocol against inversion demands."""
        if self.locks == "ceiling":
            for lock, i in self._state.holders.items():
                if i in orders:
                    orders[i] = min(orders[i], (*self._ceilings[lock], -1, i))
        elif self.locks == "inheritance":
            for i in locking:
                holder = self._state.holders.get(self._wanted_lock(i))
                if holder in orders and orders[i] < orders[holder]:
                    orders[holder] = orders[i]

    def _noticed(self) -> bool:
        """Return whether other components notice the events at the present time."""
        if self._answering or self._events:
            return True
        self._choice = self._choose()
        return self._controlling and bool(self._sampling(self._choice[0]))

    def _sampling(self, chosen: list[int]) -> list[int]:
        """Return the tasks whose jobs sample their inputs at the present time."""
        queues = self._state.queues
        if self.policy.logical:
            return [i for i, queue in enumerate(queues) if queue and not queue[0].sampled]
        return [
            i
            for i in chosen
            if i >= 0
            and not (job := queues[i][0]).sampled
            and self.tasks[i].segments[job.segment].reads
        ]

    def _start(self, tag: Tag | None = None, environment: Environment | None = None) -> None:
        """Start or resume the jobs that run from now on.

        Jobs sample their inputs at ``tag``; without a tag, no job may sample now.
        """
        state = self._state
        chosen, waiting = self._choice or self._choose()
        for core, i in enumerate(chosen):
            before = state.running[core]
            if before == i and not self._locking:
                continue  # no task, or the same job goes on
            if before >= 0 and before not in chosen:
                state.queues[before][0].preempted += 1
            if i < 0:
                continue
            job = state.queues[i][0]
            if job.started_ns < 0:
                job.started_ns = state.now
                if not self.policy.preemptive:
                    self._place(state.queues[i])
            if state.last[core] != (i, job.number):
                job.switch_ns = self.context_switch_ns
                state.last[core] = (i, job.number)
            if self._locking and (lock := self._wanted_lock(i)):
                state.holders[lock] = i
        sampling = self._sampling(chosen) if self._controlling else ()
        state.running, self._open = chosen, False
        for i in sampling:
            assert tag is not None
            assert environment is not None
            self._sample(i, tag, environment)
        self._show(waiting)

    def _sample(self, i: int, tag: Tag, environment: Environment) -> None:
        job = self._state.queues[i][0]
        inputs = self._controlled(i).start_job(tag, environment)
        job.sampled = True
        job.durations = job.durations[:]
        for k, model in enumerate(self._executions[i]):
            if callable(model):
                try:
                    seconds = model(inputs)
                except BaseException as error:
                    what = f"the execution time of {self.tasks[i].name}"
                    attribute_to(what, tag, error, ScenarioError, sure=True)
                if not 0 < seconds < LONGEST_NS / NS_PER_S:
                    raise ScenarioError(
                        f"the execution time of {self.tasks[i].name} at {tag} is {seconds!r} s; "
                        "the function must return a time > 0"
                    )
                job.durations[k] = self._scaled(round(seconds * NS_PER_S))
        if job.left_ns < 0:
            job.left_ns = job.durations[job.segment]

    def _show(self, waiting: list[int]) -> None:
        """Add a row with the state of each task, if a state has changed."""
        state = self._state
        shown = state.waiting[:]
        for i in waiting:
            shown[i] = BLOCKED
        for core, i in enumerate(state.running):
            if i >= 0:
                shown[i] = core + 1
        row = tuple(shown)
        if row != state.shown:
            state.shown = row
            if state.now > self._recorded_ns:
                self._rows.append((state.now, row))
