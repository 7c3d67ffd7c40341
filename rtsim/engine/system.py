"""The complete state of a run, which checkpoints save and restore."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rtsim.components.bus import Bus
from rtsim.components.controller_task import ControllerTask
from rtsim.components.external_inputs import ExternalInput
from rtsim.components.plant import RunningPlant
from rtsim.components.ports import SignalPort
from rtsim.components.processor import Processor
from rtsim.components.tasks import Task
from rtsim.core.clock import Wake
from rtsim.core.errors import ScenarioError, ShapeError, UnknownName
from rtsim.core.raised import from_outside
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.engine.faults.schedule import Schedule

_MOST_EVENTS = 1_000
"""Number of events of a processor between two tags of a run without plants."""


@dataclass(frozen=True)
class Change:
    """A scheduled change of elements of a vector at the time ``ns``.

    ``owner`` is the plant or port with this vector. For parameters of a controller, ``owner`` is
    ``None``, and the change takes effect at the next tick.
    """

    ns: int
    name: str
    vector: Vector
    where: slice
    value: Vector
    owner: RunningPlant | SignalPort | None


@dataclass(frozen=True)
class Changeable:
    """A value that can change during a run.

    The value is the signal ``name`` of ``signals``, and is stored in ``vector``. ``owner`` is as in
    :class:`Change`.
    """

    target: str
    name: str
    signals: Signals
    vector: Vector
    owner: RunningPlant | SignalPort | None

    def change(self, ns: int, value: object) -> Change:
        """Return a change to ``value`` at ``ns``; raise an error for a wrong shape or range."""
        checked = self.signals.initial({self.name: value})
        where = self.signals.slice(self.name)
        return Change(ns, self.target, self.vector, where, checked[where].copy(), self.owner)


@dataclass(frozen=True)
class InitialValue:
    """Initial value of a signal, which can be set before the run."""

    name: str
    signals: Signals
    vectors: tuple[Vector, ...]
    """All vectors (n,) of the layout ``signals`` that hold the value when the run begins."""

    def write(self, value: object) -> None:
        """Write ``value``; errors are those of :meth:`Signals.initial`."""
        where = self.signals.slice(self.name)
        checked = self.signals.initial({self.name: value})[where]
        for vector in self.vectors:
            vector[where] = checked


class MessageListener(Protocol):
    """A task that reacts to messages and to guards."""

    @property
    def name(self) -> str: ...

    def listen(self, topics: Mapping[str, Signals]) -> None:
        """Before the run, set the signals of each topic that the task receives."""
        ...

    def hear(self, name: str, payload: Vector | None) -> None:
        """Receive a message of a topic; ``payload=None`` means that a guard has fired."""
        ...


@dataclass
class System:
    """The state of a run: plants, tasks, ports and messages in transit.

    Lists have a fixed order.
    """

    plants: list[RunningPlant]
    ports: dict[str, SignalPort]
    tasks: list[Task]
    """Tasks in reaction order: by declared order, then priority, then name."""
    controllers: list[ControllerTask]
    external_inputs: list[ExternalInput]
    bus: Bus
    streams: RandomStreams
    changes: list[Change]
    changeable: dict[str, Changeable] = field(default_factory=dict)
    """Values that can change during the run, by ``component.name``."""
    initials: dict[str, InitialValue] = field(default_factory=dict)
    """Initial values that can be set, by ``component.name``."""
    triggers: dict[str, list[str]] = field(default_factory=dict)
    """Names of the tasks that react when a message of a topic arrives."""
    listeners: dict[str, list[MessageListener]] = field(default_factory=dict)
    """Tasks that receive the messages of a topic or a fired guard (``plant.guard``)."""
    inserted: list[int] = field(default_factory=list)
    """Tags to insert for event inputs, ns: the next tag, or all tags in a replay."""
    wake: Wake | None = None
    """Object that event inputs set."""
    faults: Schedule | None = None
    """Injected faults of the run."""
    processors: list[Processor] = field(default_factory=list)
    next_change: int = 0
    postponed: list[Change] = field(default_factory=list)
    """Changes by commands that take effect at the end of a plant's present step."""
    ns: int = 0

    def insert(self, ns: int) -> None:
        if ns not in self.inserted:
            self.inserted.append(ns)
            self.inserted.sort()

    def take_inserted(self, ns: int) -> bool:
        """Remove an inserted tag at ``ns``; return False if there is none."""
        if not self.inserted or self.inserted[0] > ns:
            return False
        del self.inserted[0]
        return True

    def next_discrete_ns(self, until_ns: int, but: Collection[Task] = ()) -> int:
        """Return the time (ns) of the next event that is no grid step of a plant.

        The tasks in ``but`` are ignored.
        """
        ns = min(self.bus.next_ns, self.bus.next_transmission_ns)
        if until_ns < ns:
            ns = until_ns
        for task in self.tasks:
            if task.next_ns < ns and task not in but:
                ns = task.next_ns
        for controller in self.controllers:
            if controller.request is not None and controller.due_ns < ns:
                ns = controller.due_ns
        if self.next_change < len(self.changes) and self.changes[self.next_change].ns < ns:
            ns = self.changes[self.next_change].ns
        if self.inserted and self.inserted[0] < ns:
            ns = self.inserted[0]
        return ns if not self.processors else self._next_of_processors(ns)

    def _next_of_processors(self, ns: int) -> int:
        """Return the time of the next tag of a processor, or ``ns``, whichever is earlier."""
        known = min([ns, *(plant.next_tag_ns for plant in self.plants)])
        most = 0 if self.plants else _MOST_EVENTS
        return min([ns, *(one.next_ns(known, most) for one in self.processors)])

    def take_changes(self, ns: int) -> list[Change]:
        first = self.next_change
        if first >= len(self.changes) or self.changes[first].ns > ns:
            return []
        while self.next_change < len(self.changes) and self.changes[self.next_change].ns <= ns:
            self.next_change += 1
        return self.changes[first : self.next_change]

    def change(self, ns: int, target: str, value: object) -> Change:
        """Return a change that sets ``target`` to ``value`` at ``ns``.

        Raises ``ScenarioError`` for a wrong target or a value out of range.
        """
        if target not in self.changeable:
            component, _, name = target.partition(".")
            if component in self.ports and name in self.ports[component].signals.columns:
                raise ScenarioError(
                    f"{target} is computed and cannot be set; only parameters and values of "
                    "sources can be set (rtsim ctl parameters lists them)"
                )
            raise UnknownName("value", target, self.changeable, "this run")
        return self.changeable[target].change(ns, value)

    def values(self) -> dict[str, Any]:
        """Return the present value of each parameter and source."""
        return {
            target: float(found[0]) if not one.signals[one.name].shape else found.tolist()
            for target, one in self.changeable.items()
            for found in (one.vector[one.signals.slice(one.name)],)
        }

    def _postponed(self, target: str, values: list[float]) -> Change:
        known = self.changeable[target]
        scalar = not known.signals[known.name].shape
        return known.change(self.ns, values[0] if scalar else values)

    def check_message(self, topic: str, payload: Vector) -> None:
        """Raise an error unless ``payload`` (n,) is a valid message of a topic."""
        if topic not in self.bus.topics:
            raise UnknownName("topic", topic, self.bus.topics, "this run")
        signals = self.bus.topics[topic].signals
        if payload.size != signals.size:
            raise ShapeError(
                f"a message on {topic} needs {signals.size} values ({', '.join(signals.columns)}), "
                f"got {payload.size}"
            )
        for signal in signals:
            signals.initial({signal.name: payload[signals.slice(signal.name)]})

    def next_tick(self, task: str, after_ns: int) -> int:
        """Return the time (ns) of a task's next tick after ``after_ns``."""
        known = {t.name: t for t in self.tasks if t.period is not None}
        if task not in known:
            raise UnknownName("task", task, known, "this run")
        found = known[task]
        assert found.period is not None
        ns = found.next_ns
        return ns if ns > after_ns else ns + round(found.period.ns)

    def close(self) -> None:
        """Close all plants and controllers, then raise the first error."""
        first: BaseException | None = None
        closers = [(f"controller {task.name}", task.controller.close) for task in self.controllers]
        closers += [(f"plant {plant.name}", plant.close) for plant in self.plants]
        for what, close in closers:
            try:
                close()
            except BaseException as error:
                if from_outside(error):
                    raise
                error.add_note(f"while closing {what}")
                first = first or error
        if first is not None:
            raise first

    def save(self) -> dict[str, Any]:
        """Return the state of the run as plain data."""
        return {
            "ns": self.ns,
            "next_change": self.next_change,
            "plants": {p.name: p.save() for p in self.plants},
            "ports": {n: p.value.tolist() for n, p in self.ports.items()},
            **({"held": held} if (held := self._held()) else {}),
            "tasks": {t.name: t.save() for t in self.tasks},
            "inserted": list(self.inserted),
            "postponed": [[change.name, change.value.tolist()] for change in self.postponed],
            "bus": self.bus.save(),
            "streams": self.streams.save(),
            **(
                {"processors": {p.name: p.save() for p in self.processors}}
                if self.processors
                else {}
            ),
            **({} if self.faults is None else {"faults": self.faults.save()}),
        }

    def _held(self) -> dict[str, list[list[float]]]:
        """Return the values of ports for readers with an own initial value."""
        return {
            name: [vector.tolist() for vector in (*port.held, *port.held_early)]
            for name, port in self.ports.items()
            if port.held or port.held_early
        }

    def restore(self, saved: Mapping[str, Any], inserted: Sequence[int] = ()) -> None:
        """Restore saved data in a system from the same scenario.

        In a replay, ``inserted`` contains the recorded tags (ns) of event inputs.
        """
        if set(saved["plants"]) != {p.name for p in self.plants} or set(saved["tasks"]) != {
            t.name for t in self.tasks
        }:
            raise ScenarioError(
                "the checkpoint and this scenario have different components; use the scenario "
                "of the saved run"
            )
        self.ns, self.next_change = saved["ns"], saved["next_change"]
        for name, value in saved["ports"].items():
            self.ports[name].put(np.array(value))
        for name, values in saved.get("held", {}).items():
            port = self.ports[name]
            for vector, value in zip((*port.held, *port.held_early), values, strict=True):
                vector[:] = value
        for plant in self.plants:
            plant.restore(saved["plants"][plant.name])
        for task in self.tasks:
            task.restore(saved["tasks"][task.name])
        for external in self.external_inputs:
            external.go_to(self.ns)
        self.inserted = list(inserted or saved["inserted"])
        self.postponed = [self._postponed(*row) for row in saved["postponed"]]
        self.bus.restore(saved["bus"])
        self.streams.restore(saved["streams"])
        for processor in self.processors:
            processor.restore(saved["processors"][processor.name])
        if self.faults is not None:
            self.faults.restore(saved["faults"])


def reaction_order(tasks: Iterable[Task], orders: Iterable[tuple[str, str]]) -> list[Task]:
    """Return tasks sorted by declared order, priority and name.

    Raises ``ScenarioError`` for a cycle in the declared order.
    """
    by_name = {t.name: t for t in tasks}
    after: dict[str, set[str]] = {n: set() for n in by_name}
    waiting = dict.fromkeys(by_name, 0)
    for before, later in orders:
        if later not in after[before]:
            after[before].add(later)
            waiting[later] += 1
    ready = [(by_name[n].priority, n) for n, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    out: list[Task] = []
    while ready:
        _, name = heapq.heappop(ready)
        out.append(by_name[name])
        for later in after[name]:
            waiting[later] -= 1
            if waiting[later] == 0:
                heapq.heappush(ready, (by_name[later].priority, later))
    if len(out) != len(by_name):
        stuck = sorted(n for n, count in waiting.items() if count > 0)
        raise ScenarioError(
            f"the declared order of controllers has a cycle through {', '.join(stuck)}"
        )
    return out
