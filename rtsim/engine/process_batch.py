"""Execute many reactions of processes at once, while nothing else can happen.

At many instants, processes react only to their own events. Messages that processes send at
microstep 0 arrive at microstep 1. If no component reacts to these messages, the instant is
complete. ``ProcessBatch`` executes many such instants in one call, and records all their messages
together. All other instants are executed by ``rtsim.engine.microsteps.Microsteps``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeGuard

import numpy as np

from rtsim.components.latency import Fixed
from rtsim.components.ports import Wiring
from rtsim.components.tasks import Task
from rtsim.core.tag import Tag
from rtsim.engine.advance import Loop
from rtsim.engine.system import System
from rtsim.engine.trace import Trace

MOST_REACTIONS = 1000
"""Limit of reactions per call; between two calls, the rows go to the recorder."""

RecordEvent = Callable[[Tag, str, str, str, Mapping[str, float]], None]


Messages = list[tuple[bytes, bytes, int]]
"""Topic (UTF-8), values (float64) and time (ns) of each message."""


class Ran(NamedTuple):
    """Result of a batch: messages, number of reactions, and time (ns) of the last one."""

    messages: Messages
    reactions: int
    ns: int


class BatchedTask(Task, Protocol):
    """A task that can run several reactions in one call."""

    wiring: Wiring
    sends: Mapping[bytes, str]
    """Topics on which the task sends messages, by their names in UTF-8."""

    def can_run_batch(self) -> bool:
        """Return whether :meth:`run_batch` can run the next reactions."""
        ...

    def run_batch(self, limit_ns: int, most: int, loop: Loop, event: RecordEvent) -> Ran:
        """Execute at most ``most`` reactions before ``limit_ns``.

        ``event`` records the events of the reactions.
        """
        ...


class ProcessBatch:
    """Execute reactions of ``tasks`` in batches."""

    def __init__(self, system: System, trace: Trace, tasks: tuple[BatchedTask, ...]) -> None:
        self._system = system
        self._trace = trace
        self._tasks = tasks
        self._sent: dict[str, tuple[list[int], list[bytes]]] = {
            topic: ([], []) for task in tasks for topic in task.sends.values()
        }
        """Times and values of messages that are not recorded yet, by topic."""

    @classmethod
    def of(cls, system: System, trace: Trace) -> ProcessBatch | None:
        """Return an object for batches, or None if no task can use them.

        Batches are impossible in real time, and with plants, faults or external inputs.
        """
        if system.plants or system.faults or system.external_inputs or system.wake is not None:
            return None
        if system.processors:
            return None
        tasks = tuple(t for t in system.tasks if _has_batches(t) and _unheard(t, system))
        return cls(system, trace, tasks) if tasks else None

    def advance(self, loop: Loop) -> bool:
        """Execute the reactions before the next event of another component."""
        system, tasks, left = self._system, self._tasks, MOST_REACTIONS
        limit_ns = system.next_discrete_ns(loop.limit_ns(), tasks)
        ns = system.ns
        try:
            while left > 0 and not loop.stopping:
                task, before_ns = _earliest(tasks, limit_ns)
                if task.next_ns >= before_ns or not task.can_run_batch():
                    break
                ran = task.run_batch(before_ns, left, loop, self._trace.event)
                if not ran.reactions:
                    break
                left -= ran.reactions
                ns = ran.ns
                self._deliver(task, ran.messages)
        finally:
            self._record()
            system.ns = ns
        if left == MOST_REACTIONS:
            return False
        loop.between(ns)
        return True

    def _deliver(self, task: BatchedTask, messages: Messages) -> None:
        """Keep messages for the recording, and write the last values to the ports."""
        for key, topic in task.sends.items():
            mine = [m for m in messages if m[0] == key]
            if mine:
                times, payloads = self._sent[topic]
                times.extend([m[2] for m in mine])
                payloads.extend([m[1] for m in mine])
                self._system.ports[topic].put(np.frombuffer(mine[-1][1]))

    def _record(self) -> None:
        bus = self._system.bus
        for topic, (times, payloads) in self._sent.items():
            if not times:
                continue
            sequence, _ = bus.position(topic)
            values = np.array(np.frombuffer(b"".join(payloads))).reshape(len(times), -1)
            self._trace.messages_at_once(topic, sequence, np.array(times), values)
            bus.adopt_position(topic, sequence + len(times), Tag(times[-1], 1))
            times.clear()
            payloads.clear()


def _earliest(tasks: tuple[BatchedTask, ...], limit_ns: int) -> tuple[BatchedTask, int]:
    """Return the task that reacts first, and the time (ns) of the next other event."""
    first = tasks[0]
    for task in tasks[1:]:
        if task.next_ns < first.next_ns:
            first = task
    for task in tasks:
        if task is not first and task.next_ns < limit_ns:
            limit_ns = task.next_ns
    return first, limit_ns


def _has_batches(task: Task) -> TypeGuard[BatchedTask]:
    return hasattr(task, "run_batch")


def _unheard(task: BatchedTask, system: System) -> bool:
    """Return True if no component reacts to the messages of a task.

    The messages must arrive in the microstep after the reaction.
    """
    topics = [system.bus.topics[name] for name in task.sends.values()]
    read = {s.partition(".")[0] for s in task.wiring.sources.values() if isinstance(s, str)}
    return type(task.wiring) is Wiring and not any(
        type(topic.transport) is not Fixed
        or topic.transport.constant != (0,)
        or topic.immediate
        or topic.name in read
        or system.triggers.get(topic.name)
        or system.listeners.get(topic.name)
        for topic in topics
    )
