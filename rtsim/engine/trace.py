"""The tracks of a recording: one for each plant, topic and external input."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from rtsim.components.bus import LOST, STAMPS, Message
from rtsim.components.plant import RunningPlant
from rtsim.components.ports import SignalPort
from rtsim.components.processor_tasks import JOB_COLUMNS
from rtsim.components.protocols import Stamped
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Tag
from rtsim.engine.system import Change, System
from rtsim.record.events import CHANGE, Value, overrun_event
from rtsim.record.recorders import Recorder
from rtsim.record.track import Track
from rtsim.timing.frames import FRAME_COLUMNS, Tally
from rtsim.timing.policy import CaughtUp, Overrun

JOBS = "jobs/"
"""Prefix of the names of tracks with the ended jobs of a task of a processor."""
X_PLUS = 1
_X_MINUS = (0, 0)
"""Microstep and side of the row of x-, which is recorded once per tag; x+ has side 1."""
INSERTED = "Inserted"
"""Kind of the event that marks a tag inserted by an event input."""
COMMAND = "Command"
"""Kind of the event that records a command; the text of the event is the command."""
RESTORED = "Restored"
"""Kind of the last event of a recording whose run continues from a checkpoint."""
UNBOUNDED = "Unbounded"
"""Kind of the event for a solver with a budget that reached a tag without an error bound."""
TIMING = "timing"
_MEASURED = ("step", "sent", "begun", "ended", "received")
_STAMPED = ("step", "initiated", "completed", "latched")
NOT_DETERMINISTIC = {"deterministic": "no"}


REQUESTS = ".inputs"


def request_topic(controller: str) -> str:
    """Return the name of the track that records the sampled inputs of ``controller``."""
    return f"{controller}{REQUESTS}"


class Trace:
    """The tracks of one run, with all signals of each component."""

    def __init__(self, system: System, recorder: Recorder, paced: bool) -> None:
        self._recorder = recorder
        self.events = 0
        """Number of recorded events."""
        self.tally: Tally | None = None
        """Statistics of latencies for clients; None without clients."""
        self._plants = {
            p.name: recorder.track(p.name, ("step", "side"), p.signals) for p in system.plants
        }
        self._topics: dict[str, Track] = {}
        for name, topic in sorted(system.bus.topics.items()):
            self._topic(name, topic.source, topic.signals)
        for task in system.controllers:
            self._topic(request_topic(task.name), "sampling", task.controller.inputs)
        self._external_inputs = {
            i.name: recorder.track(f"inputs/{i.name}", ("step",), i.signals)
            for i in system.external_inputs
        }
        self._given = {
            name: recorder.track(f"values/{name}", ("step",), system.ports[name].signals)
            for name in _unseen(system)
        }
        self._processors = system.processors
        self._schedules = {
            p.name: recorder.track(
                f"values/{p.name}", ("step",), Signals(*(Signal(t.name) for t in p.tasks))
            )
            for p in system.processors
        }
        self._jobs = {
            p.name: [recorder.track(f"{JOBS}{t.name}", JOB_COLUMNS, Signals()) for t in p.tasks]
            for p in system.processors
        }
        self._stamped = {
            i.name: recorder.track(f"stamps/{i.name}", _STAMPED, Signals(), NOT_DETERMINISTIC)
            for i in system.external_inputs
            if i.stamped
        }
        self._timing = (
            recorder.track(TIMING, tuple(FRAME_COLUMNS), Signals(), NOT_DETERMINISTIC)
            if paced
            else None
        )
        self._measured = {
            t.name: recorder.track(f"measured/{t.name}", _MEASURED, Signals(), NOT_DETERMINISTIC)
            for t in system.controllers
            if isinstance(t.controller, Stamped)
        }

    def event(
        self,
        tag: Tag,
        kind: str,
        source: str,
        text: str = "",
        values: Mapping[str, Value] | None = None,
    ) -> None:
        self.events += 1
        self._recorder.event(tag, kind, source, text, values)

    def links(self) -> list[str]:
        """Return the links: topics, and controllers that measure response times."""
        topics = [n for n in self._topics if not n.endswith(REQUESTS)]
        return [*topics, *(f"measured/{name}" for name in self._measured)]

    def position(self) -> dict[str, int]:
        """Return the number of rows in each track that a replay records again."""
        tracks = (
            *self._plants.values(), *self._topics.values(), *self._external_inputs.values(),
            *self._given.values(), *self._schedules.values(),
            *(track for tracks in self._jobs.values() for track in tracks),
        )  # fmt: skip
        return {track.name: track.rows for track in tracks}

    def _topic(self, name: str, source: str, signals: Signals) -> None:
        about = {"source": source}
        self._topics[name] = self._recorder.track(f"messages/{name}", STAMPS, signals, about)

    def plant_track(self, plant: RunningPlant) -> Track:
        return self._plants[plant.name]

    def topic_track(self, name: str) -> Track:
        return self._topics[name]

    def request_track(self, controller: str) -> Track:
        return self._topics[request_topic(controller)]

    def x_minus(self, plant: RunningPlant) -> None:
        """Record states, inputs and outputs before the discrete changes at a tag."""
        self._plants[plant.name].append(plant.ns, _X_MINUS, plant.values)

    def unbounded(self, plant: RunningPlant, steps: int) -> None:
        """Record that ``steps`` steps of a solver have no error bound."""
        text = f"{plant.solver.name} exceeded its budget: the error of {steps} steps is unbounded"
        self.event(Tag(plant.ns), UNBOUNDED, plant.name, text, {"steps": float(steps)})

    def x_minus_many(
        self, plant: RunningPlant, ns: NDArray[np.int64], values: NDArray[np.float64]
    ) -> None:
        """Record x- at several tags: ``ns`` (k,), ``values`` (k, n)."""
        self._plants[plant.name].append_many(ns, _X_MINUS, values)

    def x_plus(self, plant: RunningPlant, tag: Tag) -> None:
        """Record states, inputs and outputs after the changes of a microstep."""
        self._plants[plant.name].append(tag.ns, (tag.step, X_PLUS), plant.values)

    def message(self, message: Message) -> None:
        if self.tally is not None and message.status != LOST:
            began, done, arrival = message.initiated.ns, message.completed.ns, message.arrival.ns
            self.tally.add(message.topic, arrival - began)
            self.tally.stamp(message.topic, began, done, arrival)
        track = self._topics[message.topic]
        track.append(message.initiated.ns, message.stamps(), message.payload)

    def messages_at_once(
        self, topic: str, sequence: int, ns: NDArray[np.int64], payloads: NDArray[np.float64]
    ) -> None:
        """Record k messages of one topic, sent without latency.

        The first message has the number ``sequence``. Message i is sent at the time ``ns[i]`` and
        at microstep 0. ``payloads`` (k, n) contains the values.
        """
        stamps = np.zeros((len(ns), len(STAMPS)), np.int64)
        stamps[:, 0] = np.arange(sequence, sequence + len(ns))
        stamps[:, 1:7:2] = ns[:, None]
        stamps[:, 6] = 1  # they arrive one microstep later
        self._topics[topic].append_many(ns, stamps, payloads)

    def request(self, controller: str, tag: Tag, inputs: Vector, sequence: int) -> None:
        """Record the inputs (m,) that a controller sampled."""
        stamps = (sequence, *tag, *tag, *tag, 0)
        self._topics[request_topic(controller)].append(tag.ns, stamps, inputs)

    def measured(self, controller: str, tag: Tag, stamps: tuple[int, ...]) -> None:
        """Record when a request was sent, begun, ended and received (ns)."""
        if self.tally is not None:
            self.tally.add(f"measured/{controller}", stamps[-1] - stamps[0])
        self._measured[controller].append(tag.ns, (tag.step, *stamps))

    def external_input(self, name: str, tag: Tag, values: Vector) -> None:
        self._external_inputs[name].append(tag.ns, (tag.step,), values)

    def given(self, port: SignalPort, tag: Tag) -> None:
        """Record the values of a port that a fault changes for its readers."""
        if port.name in self._given:
            self._given[port.name].append(tag.ns, (tag.step,), port.value)

    def schedules(self, ns: int) -> None:
        """Record the states of the tasks of all processors, and their ended jobs, up to ``ns``."""
        for processor in self._processors:
            rows, ended = processor.take_rows(ns)
            track, jobs = self._schedules[processor.name], self._jobs[processor.name]
            if rows:
                times, states = zip(*rows, strict=True)
                track.append_many(np.array(times), (0,), np.array(states, dtype=float))
            for job in ended:
                jobs[job.task].append(job.ns, job[2:])

    def stamps(self, name: str, tag: Tag, stamps: tuple[int, int, int]) -> None:
        """Record when an external input was read, decoded and used (ns)."""
        self._stamped[name].append(tag.ns, (tag.step, *stamps))

    def change(self, tag: Tag, change: Change) -> None:
        self.event(tag, CHANGE, change.name, "", values_of(change))

    def command(self, tag: Tag, kind: str, text: str, stamps: dict[str, int]) -> None:
        """Record a command that takes effect at ``tag``; ``stamps`` are wall-clock times (ns)."""
        self._recorder.event(tag, COMMAND, kind, text, stamps)

    def overrun(self, overrun: Overrun) -> None:
        event = overrun_event(overrun)
        self.event(event.tag, event.kind, event.source, event.text, event.values)

    def caught_up(self, overruns: CaughtUp) -> None:
        """Record overruns of compiled code, if possible all at once."""
        many: Callable[[CaughtUp], None] | None = getattr(self._recorder, "caught_up", None)
        if many is None or not _takes_many(self._recorder):
            for overrun in overruns:
                self.overrun(overrun)
        elif len(overruns):
            self.events += len(overruns)
            many(overruns)

    @property
    def timing_track(self) -> Track | None:
        return self._timing

    def frame(self, ns: int, measured: tuple[int, ...]) -> None:
        """Record the timing of the frame at ``ns``."""
        if self._timing is not None:
            self._timing.append(ns, measured)


def values_of(change: Change) -> dict[str, float]:
    """Return the values of a change by name, as a recording contains them."""
    return {
        f"{change.name}_{i}" if change.value.size > 1 else change.name: float(v)
        for i, v in enumerate(change.value)
    }


def _unseen(system: System) -> list[str]:
    """Return the ports of faulty inputs whose values no other track contains.

    The values of a source are in the header and in the recorded changes.
    """
    if system.faults is None:
        return []
    sources = {c.owner.name for c in system.changeable.values() if isinstance(c.owner, SignalPort)}
    tracked = {
        *(p.name for p in system.plants), *system.bus.topics,
        *(i.name for i in system.external_inputs),
    }  # fmt: skip
    return sorted((system.faults.read & system.ports.keys()) - tracked - sources)


def _takes_many(recorder: Recorder) -> bool:
    """Return False if a subclass must receive each overrun separately."""
    kinds = (vars(kind) for kind in type(recorder).__mro__)
    return "caught_up" in next((k for k in kinds if "event" in k or "caught_up" in k), ())
