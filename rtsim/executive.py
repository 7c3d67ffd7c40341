"""The loop: docs/semantics.md, section "The step", in code, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from rtsim.bus import STAMPS, Message
from rtsim.clock import Clock, Wake
from rtsim.errors import ZenoError
from rtsim.plant import NONE_NS, Plant
from rtsim.ports import Port
from rtsim.record.tape import Recorder, Track
from rtsim.signals import Signals, Vector
from rtsim.system import System
from rtsim.tag import Tag
from rtsim.tasks import ControllerTask, Environment, Task
from rtsim.timing.pacing import Pacer

MAX_MICROSTEPS = 1000
"""More than this at one instant is a Zeno error."""
X_MINUS, X_PLUS = 0, 1


class Publisher(Protocol):
    """Who draws: gets both ends of each step before its end happens."""

    def publish(self, plant: str, ns: int, x: Vector, next_ns: int, next_x: Vector) -> None: ...

    def withdraw(self, plant: str) -> None:
        """The last pair will not happen."""
        ...


@dataclass
class Tracks:
    """Where each part's rows go."""

    plants: dict[str, Track]
    topics: dict[str, Track]
    inlets: dict[str, Track]


class Executive:
    """Runs a :class:`System` to ``until_ns`` on the pacer's clock."""

    def __init__(
        self,
        system: System,
        pacer: Pacer,
        recorder: Recorder,
        until_ns: int,
        publisher: Publisher | None = None,
        observe: Callable[[int], None] | None = None,
    ) -> None:
        self.system = system
        self.until_ns = until_ns
        self.stop_ns = until_ns
        """Leave after the first tag at or after this; unlike the end it makes no tag of its own."""
        self._pacer = pacer
        self._clock: Clock = pacer.clock
        self._paced = pacer.clock.paced
        self._recorder = recorder
        self._publisher = publisher
        self._observe = observe
        self._inserted: int | None = None
        self._wake: Wake | None = next((i.wake for i in system.inlets if i.wake), None)
        self._writes: list[tuple[Vector, Vector, Plant | Port]] = []
        self._tracks = open_tracks(system, recorder)
        self._timing = open_timing(recorder) if self._paced else None
        system.bus.record = self._record_message
        self._environment = Environment(
            bus=system.bus,
            streams=system.streams,
            event=recorder.event,
            now=self._clock.now,
            paced=self._paced,
            stretch=pacer.anchor,
            write=lambda vector, new, owner: self._writes.append((vector, new, owner)),
            sampled=self._record_request,
        )

    # -- the loop ------------------------------------------------------------------------------

    def run(self) -> None:
        """From where the system stands to the end; raises what parts raise, as it comes."""
        system, pacer = self.system, self._pacer
        pacer.start(system.ns)
        if system.ns == 0:
            self._first_instant()
        while system.ns < min(self.until_ns, self.stop_ns):
            discrete = self._next_discrete_ns()
            ns = self._propagate(discrete)
            due = pacer.wait(ns, self._wake)
            if pacer.overrun is not None:
                self._record_overrun(ns)
            if not due:
                self._look_again(ns)
                continue
            self._commit(ns)
            if ns == discrete or system.inlets:
                self._instant(ns, discrete=ns == discrete)
            else:
                self._refresh(Tag(ns))
            if self._timing is not None:
                self._timing.append(system.ns, pacer.log.last)
            system.ns = ns
            self._recorder.pump(wait=not self._paced)
            if self._paced:
                pacer.lap("recording")
            if self._observe is not None:
                self._observe(ns)
            pacer.ready(ns)

    def _first_instant(self) -> None:
        for plant in self.system.plants:
            plant.settle()
            self._record(plant, 0, 0, X_MINUS)
        self._instant(0, discrete=True)

    def _next_discrete_ns(self) -> int:
        ns = self.system.next_discrete_ns(self.until_ns)
        return ns if self._inserted is None else min(ns, self._inserted)

    def _propagate(self, discrete: int) -> int:
        """Provisional steps towards the next discrete instant; returns the next tag's ns."""
        tag_ns = discrete
        for plant in self.system.plants:
            if plant.target_ns > discrete:
                self._discard(plant)
            if plant.target_ns == NONE_NS:
                plant.propagate(discrete)
                if self._publisher is not None:
                    self._publisher.publish(
                        plant.name, plant.ns, plant.x, plant.target_ns, plant.next_x
                    )
            if plant.target_ns < tag_ns:
                tag_ns = plant.target_ns
        return tag_ns

    def _discard(self, plant: Plant) -> None:
        plant.discard()
        if self._publisher is not None:
            self._publisher.withdraw(plant.name)

    def _look_again(self, ns: int) -> None:
        """The wait was cut short: by a freeze, or by an event input, whose instant is now."""
        if self._wake is None or not self._wake.is_set():
            return
        self._wake.clear()
        now = self._clock.simulated(self._clock.now())
        self._inserted = max(self.system.ns + 1, min(now, ns))

    def _commit(self, ns: int) -> None:
        for plant in self.system.plants:
            if plant.target_ns == ns:
                plant.commit()
                self._record(plant, ns, 0, X_MINUS)

    # -- one instant ---------------------------------------------------------------------------

    def _instant(self, ns: int, discrete: bool) -> None:
        """Microsteps at ``ns`` until nothing is left."""
        self._inserted = None
        step = 0
        while True:
            tag = Tag(ns, step)
            if step == 0:
                self._latch(ns)
                self._apply_changes(ns)
            if discrete:
                self._react(tag, self._deliver(tag))
            self._apply_writes()
            self._refresh(tag)
            if not discrete or self.system.bus.next_arrival().ns > ns:
                return
            step += 1
            if step > MAX_MICROSTEPS:
                self._complain_of_zeno(tag)

    def _latch(self, ns: int) -> None:
        for inlet in self.system.inlets:
            value = inlet.read(ns)
            if value is not None:
                port = self.system.ports[inlet.name]
                port.value[:] = inlet.signals.check(value, f"input {inlet.name}")
                self._tracks.inlets[inlet.name].append(ns, (0,), port.value)
                self._wrote(port.name)

    def _apply_changes(self, ns: int) -> None:
        for change in self.system.take_changes(ns):
            change.vector[change.where] = change.value
            values = {
                f"{change.name}_{i}" if change.value.size > 1 else change.name: float(v)
                for i, v in enumerate(change.value)
            }
            self._recorder.event(Tag(ns), "Change", change.name, "", values)
            if isinstance(change.owner, Plant):
                change.owner.changed()
                self._record(change.owner, ns, 0, X_PLUS)
            elif change.owner is not None:
                self._wrote(change.owner.name)

    def _deliver(self, tag: Tag) -> set[str]:
        """Answers that are due go on the bus; what arrives at ``tag`` takes effect."""
        if tag.step == 0:
            for controller in self.system.controllers:
                if controller.due_ns <= tag.ns:
                    controller.answer(self._environment)
        return self._arrivals(tag)

    def _arrivals(self, tag: Tag) -> set[str]:
        if self.system.bus.next_arrival() > tag:
            return set()
        written = self.system.deliver(self.system.bus.due(tag))
        for name in written:
            self._wrote(name)
        return written

    def _react(self, tag: Tag, arrived: set[str]) -> None:
        system = self.system
        triggered = (
            {id(t) for name in arrived for t in system.triggers.get(name, ())} if arrived else ()
        )
        for task in system.tasks:
            if (tag.step == 0 and task.next_ns == tag.ns) or id(task) in triggered:
                self._run_task(task, tag)

    def _run_task(self, task: Task, tag: Tag) -> None:
        if task.next_ns == tag.ns:
            task.ticked()
        task.react(tag, self._environment)
        if isinstance(task, ControllerTask) and task.immediate:
            self._arrivals(tag)
        if self._paced:
            self._pacer.lap(task.name)

    def _apply_writes(self) -> None:
        if not self._writes:
            return
        for vector, new, owner in self._writes:
            vector[:] = new
            if isinstance(owner, Plant):
                owner.touched = True
            else:
                self._wrote(owner.name)
        self._writes.clear()

    def _wrote(self, port: str) -> None:
        for plant in self.system.plants:
            if port in plant.sources:
                plant.stale = True

    def _refresh(self, tag: Tag) -> None:
        """Plants that stand at this instant read their wires; what changed is x+."""
        for plant in self.system.plants:
            if plant.ns == tag.ns and plant.settle():
                self._record(plant, tag.ns, tag.step, X_PLUS)

    def _complain_of_zeno(self, tag: Tag) -> None:
        waiting = self.system.bus.due(Tag(tag.ns + 1))
        names = sorted({m.topic for m in waiting}) or ["nothing on the bus"]
        raise ZenoError(
            f"more than {MAX_MICROSTEPS} microsteps at {Tag(tag.ns)}: {', '.join(names)} answer "
            "each other without delay; give one of them a transport or compute latency > 0"
        )

    # -- recording -----------------------------------------------------------------------------

    def _record(self, plant: Plant, ns: int, step: int, side: int) -> None:
        self._tracks.plants[plant.name].append(ns, (step, side), plant.values)

    def _record_overrun(self, ns: int) -> None:
        overrun = self._pacer.overrun
        assert overrun is not None
        values = {"amount": float(overrun.amount_ns), "consecutive": float(overrun.consecutive)}
        source = overrun.job or overrun.cause
        self._recorder.event(Tag(ns), "Overrun", source, str(overrun), values)

    def _record_message(self, message: Message) -> None:
        """Called by the bus once for each message, when its stamps are known."""
        self._tracks.topics[message.topic].append(
            message.initiated.ns, message.stamps(), message.payload
        )

    def _record_request(self, name: str, tag: Tag, inputs: Vector, sequence: int) -> None:
        stamps = (sequence, *tag, *tag, *tag, 0)
        self._tracks.topics[request_topic(name)].append(tag.ns, stamps, inputs)


def request_topic(controller: str) -> str:
    """The topic on which a controller's sampled inputs are recorded."""
    return f"{controller}.inputs"


def open_timing(recorder: Recorder) -> Track:
    """The track of each frame's wake lateness, compute time and margin, in ns of the wall."""
    integers = ("wake_lateness", "compute", "margin")
    return recorder.track("timing", integers, Signals(), {"deterministic": "no"})


def open_tracks(system: System, recorder: Recorder) -> Tracks:
    """Declare every track of a run: what stands in a part's Signals is recorded."""
    topics: dict[str, Track] = {}

    def topic(name: str, source: str, signals: Signals) -> None:
        about = {"source": source}
        topics[name] = recorder.track(f"messages/{name}", STAMPS, signals, about)

    plants = {p.name: recorder.track(p.name, ("step", "side"), p.signals) for p in system.plants}
    for name, known in sorted(system.bus.topics.items()):
        topic(name, known.source, known.signals)
    for controller in system.controllers:
        topic(request_topic(controller.name), "sampling", controller.controller.inputs)
    return Tracks(
        plants,
        topics,
        {i.name: recorder.track(f"inputs/{i.name}", ("step",), i.signals) for i in system.inlets},
    )
