"""The table of a run, through which compiled code accesses all objects.

:class:`Table` is made once for a run. :mod:`rtsim.engine.compiled.transfer` copies the values that
change during the run into the table and back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.components.controller_task import ControllerTask
from rtsim.components.latency import Fixed, LatencyModel, draw
from rtsim.components.plant import RunningPlant
from rtsim.components.tasks import CompiledReaction, Task, Ticking
from rtsim.core.random_streams import RandomStreams
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.compiled.pace import PacedFrames
from rtsim.engine.compiled.records import (
    CHANGE,
    CONTROLLER,
    COPY,
    DRAW,
    DRAW_STATE,
    FAR,
    HEADER,
    LOST,
    MESSAGE,
    NOISE,
    NOTHING,
    PLANT,
    PLANT_STATE,
    SENSOR,
    STATE,
    TASK,
    TASK_STATE,
    TIMER,
    TIMER_STATE,
    TIMERS,
    TOPIC,
    TOPIC_STATE,
    TRACK,
    TRACK_STATE,
    UPDATE,
    place_of,
)
from rtsim.engine.compiled.resets import watch_of
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.record.track import Track
from rtsim.timing.pacing import Pacer

# Random numbers for a stretch are drawn in advance, from the same generators.

Make = Callable[[np.random.Generator, int], NDArray[Any]]


class Draws:
    """Random numbers of one stream, drawn in advance. Each use takes ``width`` numbers."""

    def __init__(self, streams: RandomStreams, stream: str, make: Make, width: int = 1) -> None:
        self._streams, self._stream, self._make = streams, stream, make
        self.width = width
        self.values: NDArray[Any] = np.zeros(0)
        """Numbers drawn in advance, as a one-dimensional array."""
        self._before: Any = None

    def fill(self, count: int) -> None:
        generator = self._streams.stream(self._stream)
        self._before = generator.bit_generator.state
        self.values = np.ascontiguousarray(self._make(generator, count)).reshape(-1)
        self._whole = self.values.size == count * self.width

    def settle(self, used: int) -> None:
        """Set the random stream to the position after ``used`` draws."""
        if used * self.width == self.values.size and self._whole:
            return
        generator = self._streams.stream(self._stream)
        generator.bit_generator.state = self._before
        if used:
            self._make(generator, used)


def normals(size: int) -> Make:
    """Return a function that draws rows of ``size`` random numbers from N(0, 1)."""

    def make(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        return generator.standard_normal((count, size))

    return make


def delays(model: LatencyModel, streams: RandomStreams, stream: str, size: int, link: str) -> Make:
    """Return a function that draws delays in ns, or ``LOST``.

    The result ends before a message with several copies, which the interpreter handles.
    """

    def make(_: np.random.Generator, count: int) -> NDArray[np.int64]:
        found: list[int] = []
        while len(found) < count:
            try:
                drawn = draw(model, streams, stream, size, link)
            except Exception:
                break
            if len(drawn) > 1:
                break
            found.append(drawn[0] if drawn else LOST)
        return np.array(found, dtype=np.int64)

    return make


SENDERS = ("controller", "sensor")
"""Kinds of reactions that send messages."""
_MOST_TAGS = 2048
"""Number of tags in the first call of a run that is not paced."""
_KINDS = {
    "controller": CONTROLLER, "sensor": SENSOR, "update": UPDATE, "noise": NOISE, "timers": TIMERS,
}  # fmt: skip


class Table:
    """The state of a run as arrays of records for compiled code.

    The arrays have the names of fields of ``rtsim.engine.compiled.records.HEADER``.
    """

    def __init__(
        self,
        system: System,
        trace: Trace,
        reactions: dict[str, CompiledReaction],
        pacer: Pacer | None = None,
        inbox: Inbox | None = None,
        alone: bool = False,
    ) -> None:
        """With ``alone``, compiled code also executes resets and scheduled changes."""
        self.system = system
        self._alone = alone
        self.reactions = reactions
        self.task_list = [t for t in system.tasks if t.name in reactions]
        self.topic_list = sorted(n for n, r in reactions.items() if r.kind in SENDERS)
        self.track_list: list[Track] = []
        self.links: dict[str, str] = {}
        """Topics by the name of their track."""
        self.tally = trace.tally
        self.frames: PacedFrames | None = None
        """The pacer as a record, or None if the run is not paced."""
        if pacer is not None:
            self.frames = PacedFrames(pacer, trace, self._jobs(), inbox)
        self.record_in(trace)
        self.noises = [n for n, r in reactions.items() if r.kind == "noise"]
        self.draw_list = self._all_draws()
        """Random numbers by purpose and name of the user, such as ``("noise", "gusts")``."""
        self.span_list = self._all_spans()
        """Vectors that a tag can change."""
        self._draw_numbers = {key: i for i, key in enumerate(self.draw_list)}
        self.topic_numbers = {name: i for i, name in enumerate(self.topic_list)}
        """Index of each topic by its name."""
        sources = sorted({system.bus.topics[n].source for n in self.topic_list})
        self._sources = {source: i for i, source in enumerate(sources)}
        self._plant_numbers = {plant.name: i for i, plant in enumerate(system.plants)}
        self.task_numbers = {t.name: i for i, t in enumerate(self.task_list)}
        controllers = [t.name for t in self.task_list if isinstance(t, ControllerTask)]
        self._controller_numbers = {name: i for i, name in enumerate(controllers)}
        self.room = 0
        """Capacity for messages in transit, times 2."""
        self.make_room(0)

    def _jobs(self) -> list[str]:
        """Return the names of all tasks, with those in ``task_list`` first."""
        own = [t.name for t in self.task_list]
        known = set(own)
        return [*own, *(t.name for t in self.system.tasks if t.name not in known)]

    def record_in(self, trace: Trace) -> None:
        """Record all further rows in the tracks of ``trace``."""
        self.tally = trace.tally
        self.links = {trace.topic_track(n).name: n for n in self.topic_list}
        self.track_list = [
            *(trace.plant_track(p) for p in self.system.plants),
            *(trace.topic_track(n) for n in self.topic_list),
            *(
                trace.request_track(t.name)
                for t in self.task_list
                if self.reactions[t.name].kind == "controller"
            ),
        ]
        if self.frames is not None:
            assert trace.timing_track is not None
            self.track_list.append(trace.timing_track)

    def make_room(self, messages: int) -> None:
        """Build a larger table if the messages in transit need more space."""
        needed = 4 * (messages + len(self.topic_list))
        if self.room and needed <= self.room:
            return
        self.room = max(64, 2 * needed)
        self.alive: list[Any] = []
        """Objects whose addresses are in the table; stored here so that they are not freed."""
        self._make_arrays()
        self._fill_header()
        self._fill_ranges()
        for i, plant in enumerate(self.system.plants):
            self._fill_plant(plant, self.plants[i], i)
        for i, name in enumerate(self.topic_list):
            self._fill_topic(name, self.topics[i], i)
        for task, row in zip(self.task_list, self.tasks, strict=True):
            self._fill_task(task, row)

    def _make_arrays(self) -> None:
        """Allocate arrays of constant records, and one block of memory for all changing records."""
        plants, tasks, topics = len(self.system.plants), len(self.task_list), len(self.topic_list)
        tracks, draws = len(self.track_list), len(self.draw_list)
        timers = sum(len(self.reactions[t.name].timers) for t in self.task_list)
        self.plants, self.tasks = np.zeros(plants, PLANT), np.zeros(tasks, TASK)
        self.topics, self.tracks = np.zeros(topics, TOPIC), np.zeros(tracks, TRACK)
        self.draws, self.timers = np.zeros(draws, DRAW), np.zeros(timers, TIMER)
        block = (
            (1, STATE), (plants, PLANT_STATE), (tracks, TRACK_STATE), (tasks, TASK_STATE),
            (topics, TOPIC_STATE), (draws, DRAW_STATE), (timers, TIMER_STATE),
            (self.room, np.dtype(np.int64)), (self.room, MESSAGE),
        )  # fmt: skip
        ends = np.cumsum([0, *(count * kind.itemsize // 8 for count, kind in block)])
        self.changing = np.zeros(ends[-1], np.int64)
        """The words that change: all states, the slots and the messages in transit."""
        parts = [
            self.changing[a:b].view(kind)
            for a, b, (_, kind) in zip(ends[:-1], ends[1:], block, strict=True)
        ]
        first, self.plant_states, self.track_states, self.task_states, *rest = parts
        self.topic_states, self.draw_states, self.timer_states, self.slots, self.flight = rest
        self._first = first
        self.state: Any = first[0]
        self.plant_words, self.flight_at = int(ends[3]), int(ends[-2])
        self.track_words = slice(int(ends[2]), int(ends[3]))
        """Position of the tracks' states among the words that change."""
        widths = [self.system.bus.topics[n].signals.size for n in self.topic_list]
        self.payloads = np.zeros((self.room, max(widths, default=1)))
        self.saved_spans = [np.zeros_like(s) for s in self.span_list]
        self.saved = np.zeros_like(self.changing)

    def lend_draws(self, i: int, draws: Draws) -> None:
        """Connect row ``i`` of the random numbers with ``draws``."""
        self.draws[i]["width"], self.draws[i]["values"] = draws.width, place_of(draws.values)
        self.draw_states[i]["next"] = 0

    def settle_draws(self) -> None:
        """Set all random streams to the positions after the used numbers."""
        for state, draws in zip(self.draw_states, self.draw_list.values(), strict=True):
            draws.settle(int(state["next"]))

    # Contents of the table

    def _place(self, vector: NDArray[Any]) -> tuple[int, int]:
        self.alive.append(vector)
        return place_of(vector)

    def _fill_header(self) -> None:
        headers = np.zeros(1, HEADER)
        header = self.header = headers[0]
        # A paced run returns after a wall-clock time instead.
        header["most"] = _MOST_TAGS if self.frames is None else FAR
        for name in (
            "plants", "plant_states", "tracks", "track_states", "tasks", "task_states", "topics",
            "topic_states", "draws", "draw_states", "timers", "timer_states", "changing", "saved",
            "slots", "flight",
        ):  # fmt: skip
            header[name] = place_of(getattr(self, name))
        header["state"], header["payloads"] = place_of(self._first), place_of(self.payloads[0])
        header["payloads"]["length"] = self.payloads.size
        header["flight_room"], header["flight_at"] = self.room, self.flight_at
        header["payload_width"] = self.payloads.shape[1]
        header["plant_spans"], header["plant_words"] = self._plant_spans, self.plant_words
        if self.frames is not None:
            header["pace"], header["timing"] = place_of(self.frames.record), len(self.tracks) - 1
        controllers = (c.name for c in self.system.controllers)
        answers = [self.task_numbers[name] for name in controllers if name in self.task_numbers]
        header["answers"] = self._place(np.array(answers, np.int64))
        spans = np.zeros(len(self.span_list), COPY)
        for row, span, saved in zip(spans, self.span_list, self.saved_spans, strict=True):
            row["source"], row["into"] = self._place(span), place_of(saved)
        header["spans"] = self._place(spans)
        self.alive.append(headers)
        self.entry = np.array([headers.ctypes.data], np.int64)
        """Array with the address of the header, for the kernel."""
        header["own"] = place_of(self.entry)

    def _fill_ranges(self) -> None:
        """Fill the arrays of all wires, and of the plants that read each topic or noise source."""
        wires: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._wires: dict[str, tuple[int, int]] = {}
        wirings = [(p.name, p.wiring) for p in self.system.plants]
        wirings += [(t.name, self.reactions[t.name].wiring) for t in self.task_list]
        for name, wiring in wirings:
            own = [] if wiring is None else wiring.copies()
            self._wires[name] = len(wires), len(own)
            wires += own
        self._held: dict[str, list[tuple[int, int]]] = {}
        for name in self.topic_list:
            port = self.system.ports[name]
            self._held[name] = []
            for source, readers in ((port.value, port.held), (port.early, port.held_early)):
                self._held[name].append((len(wires), len(readers)))
                wires += [(held, source) for held in readers]
        rows = np.zeros(len(wires), COPY)
        for row, (into, source) in zip(rows, wires, strict=True):
            row["into"], row["source"] = self._place(into), self._place(source)
        self.header["wires"] = self._place(rows)
        plants: list[int] = []
        self._readers: dict[str, tuple[int, int]] = {}
        for name in (*self.topic_list, *self.noises):
            found = [i for i, plant in enumerate(self.system.plants) if name in plant.sources]
            self._readers[name] = len(plants), len(found)
            plants += found
        self.header["readers"] = self._place(np.array(plants, np.int64))
        if self._alone:
            self.fill_changes()
        first = 0
        self.timer_ranges: dict[str, tuple[int, int]] = {}
        for task in self.task_list:
            count = len(self.reactions[task.name].timers)
            self.timer_ranges[task.name] = first, count
            first += count

    def fill_changes(self) -> None:
        """Let compiled code execute the scheduled changes that the system has not executed yet."""
        changes = self.system.changes[self.system.next_change :]
        rows = np.zeros(len(changes), CHANGE)
        self._changes = rows, changes
        for row, change in zip(rows, changes, strict=True):
            owner = change.owner
            row["ns"], row["plant"] = change.ns, NOTHING
            row["into"] = place_of(change.vector[change.where])
            row["value"] = place_of(change.value)
            if isinstance(owner, RunningPlant):
                row["plant"] = self._plant_numbers[owner.name]
            elif owner is not None:
                row["early"] = place_of(owner.early[change.where])
        self.header["changes"] = place_of(rows)

    def _fill_topic(self, name: str, row: Any, i: int) -> None:
        topic, port = self.system.bus.topics[name], self.system.ports[name]
        row["source"], row["name"] = self._sources[topic.source], i
        row["track"] = len(self.plants) + i
        row["delay"], row["ordered"] = _constant(topic.transport), topic.transport.ordered
        row["draw"], row["immediate"] = self._draw("transport", name), topic.immediate
        row["value"], row["early"] = self._place(port.value), self._place(port.early)
        row["readers"] = self._readers[name]
        row["held"], row["held_early"] = self._held[name]

    def _draw(self, what: str, name: str) -> int:
        return self._draw_numbers.get((what, name), NOTHING)

    def _all_spans(self) -> list[NDArray[np.float64]]:
        """Return the vectors that a tag can change, beginning with the vectors of plants."""
        system, found = self.system, []
        for plant in system.plants:
            step = plant.native_step()
            assert step is not None
            found += [plant.values, step.memory]
            if plant.watch is not None and (guards := plant.watch.native()) is not None:
                found.append(guards.here.reshape(-1))
            if plant.wiring is not None:
                found.append(plant.wiring.into)
        self._plant_spans = sum(f.size > 0 for f in found)
        for task in self.task_list:
            reaction = self.reactions[task.name]
            if reaction.wiring is not None:
                found.append(reaction.wiring.into)
            if reaction.kind == "controller":
                u, s, _, y = reaction.vectors
                found += [u, s, y]
            if reaction.port is not None:
                found += [reaction.port.value, reaction.port.early]
        for name in self.topic_list:
            port = system.ports[name]
            found += [port.value, port.early, *port.held, *port.held_early]
        return [f for f in found if f.size]

    def _all_draws(self) -> dict[tuple[str, str], Draws]:
        """Return all random numbers that tasks and topics draw, by purpose and name."""
        found: dict[tuple[str, str], Draws] = {}
        streams, bus = self.system.streams, self.system.bus
        for task in self.task_list:
            reaction = self.reactions[task.name]
            if reaction.draws is not None and reaction.port is not None:
                width = reaction.port.value.size
                stream = f"noise/{task.name}"
                found["noise", task.name] = Draws(streams, stream, reaction.draws, width)
            if reaction.drawn is not None:
                stream, into = reaction.drawn
                found["timers", task.name] = Draws(streams, stream, normals(into.size), into.size)
            if isinstance(task, ControllerTask) and type(task.compute) is not Fixed:
                size, link = 8 * task.wiring.into.size, f"the computation of {task.name}"
                make = delays(task.compute, streams, f"compute/{task.name}", size, link)
                found["compute", task.name] = Draws(streams, f"compute/{task.name}", make)
        for name in self.topic_list:
            topic = bus.topics[name]
            if type(topic.transport) is not Fixed:
                make = delays(topic.transport, streams, topic.stream, topic.size_bytes, topic.link)
                found["transport", name] = Draws(streams, topic.stream, make)
        return found

    def _fill_plant(self, plant: RunningPlant, row: Any, i: int) -> None:
        step, output = plant.native_step(), plant.native_output()
        assert step is not None
        row["step"], row["kept"] = step.handle, step.kept
        self.alive.append(step.block)
        vectors = {
            "words": step.words, "memory": step.memory, "after": step.after, "x": plant.x,
            "next": plant.next_x, "values": plant.values,
        }  # fmt: skip
        if output is not None:
            self.alive.append(output)
            vectors["output"] = output.words
        if plant.wiring is not None:
            vectors |= {"u": plant.u, "into": plant.wiring.into}
        row["copies"] = self._wires[plant.name]
        row["numerator"], row["denominator"] = plant.step.ratio
        row["coupled"], row["track"] = plant.reads_plants, i
        if plant.watch is not None and (guards := plant.watch.native()) is not None:
            row["drive"] = guards.handle
            self.alive += [guards.block, guards.table]
            vectors |= {
                "words": guards.words, "guard_table": guards.table.words,
                "guards": guards.block.words, "g": guards.g,
            }  # fmt: skip
            if self._alone:
                vectors["watch"], alive = watch_of(plant)
                self.alive += alive
        for name, vector in vectors.items():
            row[name] = self._place(vector)

    def _fill_task(self, task: Task, row: Any) -> None:
        reaction, name = self.reactions[task.name], task.name
        row["kind"], row["function"] = _KINDS[reaction.kind], reaction.function
        if isinstance(task, Ticking) and task.period is not None:
            row["numerator"], row["denominator"] = task.period.ratio
            row["offset"] = task.offset_ns
        places = ("first", "second", "third", "fourth")
        for place, vector in zip(places, reaction.vectors, strict=False):
            row[place] = self._place(vector)
        if reaction.wiring is not None:
            row["into"] = self._place(reaction.wiring.into)
        row["copies"] = self._wires[name]
        row["delay"], row["draw"] = _constant(reaction.compute), self._draw("compute", name)
        if name in self.topic_numbers:
            row["topic"] = self.topic_numbers[name]
        if isinstance(task, ControllerTask):
            row["ordered"] = bool(task.successors)
            first = len(self.plants) + len(self.topics)
            row["track"] = first + self._controller_numbers[name]
        if reaction.plant is not None:
            row["plant"] = self._plant_numbers[reaction.plant.name]
            row["z"] = self._place(reaction.plant.z)
        if reaction.port is not None:
            row["draw"], row["readers"] = self._draw("noise", name), self._readers[name]
            row["port"] = self._place(reaction.port.value)
            row["early"] = self._place(reaction.port.early)
        if reaction.due is not None:
            row["into"], row["timers"] = self._place(reaction.due), self.timer_ranges[name]
            for i, (period, offset_ns) in enumerate(reaction.timers, row["timers"]["first"]):
                self.timers[i]["offset"] = offset_ns
                if period is not None:
                    self.timers[i]["numerator"], self.timers[i]["denominator"] = period.ratio
        if reaction.drawn is not None:
            row["draw"] = self._draw("timers", name)
            row["port"] = self._place(reaction.drawn[1])


def _constant(model: LatencyModel) -> int:
    """Return the delay (ns) of a constant latency, or 0 for a latency that is drawn."""
    return model.constant[0] if type(model) is Fixed else 0
