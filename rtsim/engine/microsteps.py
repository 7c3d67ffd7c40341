"""Execute the microsteps of one instant (docs/semantics.md, "The step")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rtsim.components.bus import Message
from rtsim.components.controller_task import ControllerTask
from rtsim.components.plant import RunningPlant
from rtsim.components.ports import SignalPort
from rtsim.components.tasks import Environment, Task
from rtsim.core.clock import Clock
from rtsim.core.errors import ScenarioError, ZenoError
from rtsim.core.raised import attribute_to
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag
from rtsim.engine.system import Change, System
from rtsim.engine.trace import INSERTED, Trace
from rtsim.equations.delays import Guard
from rtsim.record.events import Event

ENDED = "Ended"
"""Kind of the event of a plant that ended its simulation."""
MAX_MICROSTEPS = 1000
MOST_REPORTED = 1000
"""Limit of the number of microsteps at one time; more raise a Zeno error."""


Write = tuple[Vector, Vector, RunningPlant | SignalPort]
"""A vector, its new values, and its owner."""


class _Surroundings:
    """The environment of tasks, which records their messages and events."""

    def __init__(
        self,
        system: System,
        trace: Trace,
        clock: Clock,
        stretch: Callable[[int], None],
        writes: list[Write],
    ) -> None:
        self.streams = system.streams
        self._bus = system.bus
        self._trace = trace
        self._clock = clock
        self._writes = writes
        self.stretch = stretch
        self.now, self.wall, self.event = clock.now, clock.wall, trace.event
        self.sampled, self.measured = trace.request, trace.measured

    @property
    def paced(self) -> bool:
        return self._clock.paced

    def send(self, topic: str, initiated: Tag, completed: Tag, payload: Vector) -> None:
        for message in self._bus.send(topic, initiated, completed, payload):
            self._trace.message(message)

    def write(self, vector: Vector, new: Vector, owner: RunningPlant | SignalPort) -> None:
        self._writes.append((vector, new, owner))


class Microsteps:
    """Executor of the microsteps of one instant.

    In a microstep, messages arrive, tasks react, and changes take effect.
    """

    def __init__(
        self,
        system: System,
        trace: Trace,
        clock: Clock,
        stretch: Callable[[int], None],
        lap: Callable[[str], None],
        latch: Callable[[Tag], list[Change]] | None = None,
    ) -> None:
        self._system = system
        self._trace = trace
        self._lap: Callable[[str], None] | None = lap if clock.paced or latch else None
        loop = None if system.faults is None else system.faults.loop
        self._lose = loop.lose if loop is not None and loop.loses else None
        self._commands = latch
        """Function that returns the changes by commands at a tag."""
        self._writes: list[Write] = []
        self._guarded = any(p.watch is not None for p in system.plants)
        self._readers: dict[str, list[RunningPlant]] = {}
        """Plants whose inputs read a port, by name of the port."""
        for plant in system.plants:
            for port in plant.sources:
                self._readers.setdefault(port, []).append(plant)
        self.ended_by = ""
        """Name of the terminal guard that fired, or of the plant that ended its simulation."""
        self.plant_ended = False
        """True if a plant ended its simulation before the end of the run."""
        self.failure = ""
        """Reason why the run counts as failed, from the terminal guard or the plant."""
        self.reported: list[Event] = []
        """Events with values that guards reported, at most :data:`MOST_REPORTED`."""
        self.behind = True
        """True if a plant may have to read a message that arrived between two of its tags."""
        self._triggered: set[str] = set()
        """Names of tasks that a message of this microstep triggers."""
        self._set_off_next: set[str] = set()
        """Names of tasks that a message of the next microstep triggers."""
        self._happened: list[tuple[str, Vector | None]] = []
        """Messages and fired guards for listeners, which react in the next microstep."""
        self._environment: Environment = _Surroundings(system, trace, clock, stretch, self._writes)

    def run(self, ns: int, discrete: bool) -> None:
        tag = Tag(ns)
        system = self._system
        if discrete and system.take_inserted(ns):
            self._trace.event(tag, INSERTED, "wake", "", {})
        if system.external_inputs:
            self._latch(tag)
        if system.postponed:
            postponed, system.postponed = system.postponed, []
            self._apply_changes(tag, postponed)
        self._apply_changes(tag, system.take_changes(ns))
        if self._commands is not None and (changes := self._commands(tag)):
            self._apply_changes(tag, changes)
        # A command can send a message.
        self._repeat(tag, discrete or system.bus.next_ns <= ns)

    def sample(self, ns: int) -> None:
        """Read the inputs of the plants at ``ns`` if nothing else is due.

        If the new inputs move a guard across zero, the guard fires in the next microstep.
        """
        self._refresh(Tag(ns))
        if self._fires(ns):
            self._repeat(Tag(ns, 1), discrete=False)
        elif self.behind:
            self.behind = any(p.behind for p in self._system.plants)

    def _fires(self, ns: int) -> bool:
        return self._guarded and any(p.ns == ns and p.fires for p in self._system.plants)

    def _repeat(self, tag: Tag, discrete: bool) -> None:
        """Execute microsteps until no event remains at the time of ``tag``."""
        system, ns = self._system, tag.ns
        while True:
            if self._guarded:
                self._fire(tag)
            if discrete:
                self._react(tag)
            if self._writes:
                self._apply_writes(tag)
            self._refresh(tag)
            if self._happened:
                self._tell()
                discrete = True
            if not self._fires(ns) and not (
                discrete and (self._set_off_next or system.bus.next_ns <= ns)
            ):
                if system.bus.next_transmission_ns <= ns:
                    self._transmit(ns)
                for processor in system.processors:
                    processor.dispatch(tag, self._environment)
                self.behind = any(p.behind for p in system.plants)
                return
            tag = Tag(ns, tag.step + 1)
            if tag.step > MAX_MICROSTEPS:
                self._complain_of_zeno(tag)

    def _fire(self, tag: Tag) -> None:
        """Run the resets of fired guards.

        A reset reads the values before the microstep.
        """
        for plant in self._system.plants:
            watch = plant.watch
            if watch is None or plant.ns != tag.ns or not watch.fired:
                continue
            self._ended(plant, watch.terminal)
            x, z = plant.x.copy(), plant.z.copy()
            try:
                happened = watch.fire(tag.ns, x, z, plant.u, plant.p)
            except BaseException as error:
                attribute_to(f"reset of {plant.name} (model {plant.bound.model.name})", tag, error)
            self._ended(plant, watch.accumulated)
            for kind, guard, text, values in happened:
                name = f"{plant.name}.{guard}"
                self._trace.event(tag, kind, name, text, values)
                if values and len(self.reported) < MOST_REPORTED:
                    self.reported.append(Event(tag, kind, name, text, values))
                if name in self._system.listeners:
                    self._happened.append((name, None))
            self._writes += [(plant.x, x, plant), (plant.z, z, plant)]

    def _ended(self, plant: RunningPlant, guard: Guard | None) -> None:
        if guard is not None and not self.ended_by:
            self.ended_by, self.failure = f"{plant.name}.{guard.name}", guard.failure

    def end_of_plants(self, ns: int, early: bool) -> None:
        """Record each plant that has ended its simulation; with ``early``, the run ends too."""
        for plant in self._system.plants:
            if not plant.ended:
                continue
            self._trace.event(Tag(ns), ENDED, plant.name, plant.ended, {})
            if early and not self.ended_by:
                self.ended_by, self.failure, self.plant_ended = plant.name, plant.ended, True

    def _tell(self) -> None:
        for name, payload in self._happened:
            for listener in self._system.listeners[name]:
                listener.hear(name, payload)
                self._set_off_next.add(listener.name)
        self._happened.clear()

    def _latch(self, tag: Tag) -> None:
        for external in self._system.external_inputs:
            try:
                value = external.read(tag.ns)
            except BaseException as error:
                # rtsim.record.events recognises this message in recordings.
                attribute_to(f"the device of input {external.name}", tag, error)
            if value is None:
                continue
            external.signals.check(value, f"input {external.name}")
            if not np.isfinite(value).all():
                raise ScenarioError(
                    f"external input {external.name} gave {value} at {tag}; "
                    "its device must give finite values"
                )
            self._system.ports[external.name].put(value)
            self._trace.external_input(external.name, tag, value)
            if external.stamped:
                self._trace.stamps(external.name, tag, external.stamps)
            self._wrote(external.name)

    def _apply_changes(self, tag: Tag, changes: list[Change]) -> None:
        for change in changes:
            if isinstance(change.owner, RunningPlant) and change.owner.ns != tag.ns:
                self._system.postponed.append(
                    change
                )  # the plant's step has begun; the change waits for its end
                continue
            change.vector[change.where] = change.value
            self._trace.change(tag, change)
            if isinstance(change.owner, RunningPlant):
                change.owner.changed()
                self._trace.x_plus(change.owner, tag)
            elif change.owner is not None:
                change.owner.put(change.owner.value)
                self._wrote(change.owner.name)

    def _react(self, tag: Tag) -> None:
        """Send due answers, deliver messages, and execute tasks in their order."""
        system = self._system
        if tag.step == 0:
            for processor in system.processors:
                processor.begin(tag, self._environment)
            for controller in system.controllers:
                if controller.request is not None and controller.due_ns <= tag.ns:
                    controller.answer(self._environment)
        if self._triggered or self._set_off_next:
            self._triggered, self._set_off_next = self._set_off_next, set()
        self._deliver(tag)
        if tag.step and not self._triggered:
            return
        for task in system.tasks:
            ticks = tag.step == 0 and task.next_ns == tag.ns
            if ticks or task.name in self._triggered:
                self._run_task(task, tag, ticks)

    def _deliver(self, tag: Tag) -> None:
        if self._system.bus.next_ns > tag.ns:
            return
        for message in self._system.bus.due(tag):
            self._system.ports[message.topic].put(message.payload)
            self._wrote(message.topic)
            self._triggered.update(self._system.triggers.get(message.topic, ()))
            for listener in self._system.listeners.get(message.topic, ()):
                listener.hear(message.topic, message.payload)
                self._triggered.add(listener.name)

    def _transmit(self, ns: int) -> None:
        for message in self._system.bus.transmit(ns):
            self._trace.message(message)

    def _run_task(self, task: Task, tag: Tag, ticks: bool) -> None:
        if ticks:
            task.ticked()
            lost = self._lose is not None and self._lose(task.name, tag.ns)
            if lost and task.name not in self._triggered:
                return
        try:
            task.react(tag, self._environment)
        except BaseException as error:
            attribute_to(task.name, tag, error)
        if isinstance(task, ControllerTask) and task.successors:
            for message in self._system.bus.due(tag):
                self._answer_in_order(task, message)
        if self._lap is not None:
            self._lap(task.name)

    def _answer_in_order(self, task: ControllerTask, message: Message) -> None:
        """Deliver an answer to later controllers in a declared order.

        Other components receive the answer in the next microstep.
        """
        port = self._system.ports[message.topic]
        port.put_early(message.payload)
        self._writes.append((port.value, message.payload, port))
        for name in self._system.triggers.get(message.topic, ()):
            (self._triggered if name in task.successors else self._set_off_next).add(name)
        if message.topic in self._system.listeners:
            self._happened.append((message.topic, message.payload))

    def _apply_writes(self, tag: Tag) -> None:
        before: dict[int, Vector] = {}
        for vector, new, owner in self._writes:
            if isinstance(owner, RunningPlant):
                old = before.get(id(vector))
                first = old is None
                if old is None:
                    old = before[id(vector)] = vector.copy()
                if old.tobytes() != new.tobytes():
                    if first:
                        vector[:] = new
                    else:  # another write can have set elements that this write leaves alone
                        np.copyto(vector, new, where=old.view(np.int64) != new.view(np.int64))
                    owner.touched = True
            else:
                vector[:] = new
                owner.put(owner.value)
                self._trace.given(owner, tag)
                self._wrote(owner.name)
        self._writes.clear()

    def _wrote(self, port: str) -> None:
        for plant in self._readers.get(port, ()):
            plant.stale = True

    def _refresh(self, tag: Tag) -> None:
        """Read the inputs of all plants at ``tag``, and record each plant that has changed.

        The order of plants has no effect, because all read their inputs before any of them changes.
        """
        here = [
            p
            for p in self._system.plants
            if p.ns == tag.ns and (p.stale or p.touched or p.reads_plants or p.unsettled)
        ]
        for plant in here:
            plant.read_wires()
        for plant in here:
            if plant.settle():
                self._trace.x_plus(plant, tag)

    def _complain_of_zeno(self, tag: Tag) -> None:
        waiting = self._system.bus.due(Tag(tag.ns + 1))
        guards = {
            f"{plant.name}.{guard}"
            for plant in self._system.plants
            if plant.watch is not None and plant.ns == tag.ns
            for guard in plant.watch.names
        }
        names = sorted({m.topic for m in waiting} | self._set_off_next | guards)
        raise ZenoError(
            f"more than {MAX_MICROSTEPS} microsteps at {Tag(tag.ns)}: {', '.join(names)} trigger "
            "each other endlessly without delay; give one of them a transport or compute "
            "latency > 0"
            + (", or let the reset of a guard set values that trigger no guard" if guards else "")
        )
