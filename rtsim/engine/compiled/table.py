"""The table of one run: where the kernel finds each object of the system.

:class:`Table` is made once for a run.  What changes during the run is copied into it and out of it
by :mod:`rtsim.engine.compiled.transfer`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.components.controller_task import ControllerTask
from rtsim.components.latency import Fixed, LatencyModel, draw
from rtsim.components.plant import Plant
from rtsim.components.tasks import CompiledReaction, Task, Ticking
from rtsim.core.random_streams import RandomStreams
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.compiled import layout as at
from rtsim.engine.compiled.layout import LOST
from rtsim.engine.compiled.paced_frames import PacedFrames
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.record.track import Track
from rtsim.solve.guard_watch import NativeGuards
from rtsim.timing.pacing import Pacer

# Random numbers that a stretch may need are drawn before it from the same generators.

Make = Callable[[np.random.Generator, int], NDArray[Any]]


class Draws:
    """Random numbers of one stream, drawn ahead; each use takes ``width`` numbers."""

    def __init__(self, streams: RandomStreams, stream: str, make: Make, width: int = 1) -> None:
        self._streams, self._stream, self._make = streams, stream, make
        self.width = width
        self.values: NDArray[Any] = np.zeros(0)
        """Those that were drawn ahead, in one dimension."""
        self._before: Any = None

    def fill(self, count: int) -> None:
        """Draw the numbers for ``count`` uses."""
        generator = self._streams.stream(self._stream)
        self._before = generator.bit_generator.state
        self.values = np.ascontiguousarray(self._make(generator, count)).reshape(-1)
        self._whole = self.values.size == count * self.width

    def settle(self, used: int) -> None:
        """Move the stream to the position after the numbers of the first ``used`` uses."""
        if used * self.width == self.values.size and self._whole:
            return
        generator = self._streams.stream(self._stream)
        generator.bit_generator.state = self._before
        if used:
            self._make(generator, used)


def normals(size: int) -> Make:
    """Return a function that draws rows of ``size`` numbers from N(0, 1)."""

    def make(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        return generator.standard_normal((count, size))

    return make


def delays(model: LatencyModel, streams: RandomStreams, stream: str, size: int, link: str) -> Make:
    """Return a function that draws delays in ns, and :data:`LOST` for a lost message.

    The function stops before a message with several copies and before an invalid delay; the
    interpreter then draws these delays.
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
"""The kinds of reactions that send messages."""
_MOST_TAGS = 2048
"""In the first call of a run that is not paced."""
_KINDS = {
    "controller": at.CONTROLLER, "sensor": at.SENSOR, "update": at.UPDATE, "noise": at.NOISE,
    "timers": at.TIMERS,
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """The first index of an object's words: of its constant words and of its changing words."""

    at: int
    state: int


class Table:
    """The state of one run as arrays of words, on which compiled code works."""

    def __init__(
        self,
        system: System,
        trace: Trace,
        reactions: dict[str, CompiledReaction],
        pacer: Pacer | None = None,
        inbox: Inbox | None = None,
    ) -> None:
        self.system = system
        self.reactions = reactions
        self.tasks = [t for t in system.tasks if t.name in reactions]
        self.topics = sorted(n for n, r in reactions.items() if r.kind in SENDERS)
        self.tracks: list[Track] = []
        self.links: dict[str, str] = {}
        """Topics by the name of their track."""
        self.tally = trace.tally
        self.frames: PacedFrames | None = None
        """The pacer as words; None if the run is not paced."""
        if pacer is not None:
            self.frames = PacedFrames(pacer, trace, self._jobs(), inbox)
        self.record_in(trace)
        self.noises = [n for n, r in reactions.items() if r.kind == "noise"]
        self.draws = self._all_draws()
        """Random numbers, by what they are drawn for and by whom."""
        self.spans = self._all_spans()
        """Vectors that a tag can change."""
        self._draw_numbers = {key: i for i, key in enumerate(self.draws)}
        self.topic_numbers = {name: i for i, name in enumerate(self.topics)}
        """The row of each topic, by its name."""
        sources = sorted({system.bus.topics[n].source for n in self.topics})
        self._sources = {source: i for i, source in enumerate(sources)}
        self._plant_numbers = {plant.name: i for i, plant in enumerate(system.plants)}
        controllers = [t.name for t in self.tasks if isinstance(t, ControllerTask)]
        self._controller_numbers = {name: i for i, name in enumerate(controllers)}
        self.room = 0
        """Number of messages that may be in transit, times 2."""
        self.alive: list[Any] = []
        """What has an address in the table."""
        self.make_room(0)

    def _jobs(self) -> list[str]:
        """Return the names of the tasks: those of the table in its order, then the others."""
        own = [t.name for t in self.tasks]
        known = set(own)
        return [*own, *(t.name for t in self.system.tasks if t.name not in known)]

    def record_in(self, trace: Trace) -> None:
        """Record the following rows in the tracks of ``trace``."""
        self.tally = trace.tally
        self.links = {trace.topic_track(n).name: n for n in self.topics}
        self.tracks = [
            *(trace.plant_track(p) for p in self.system.plants),
            *(trace.topic_track(n) for n in self.topics),
            *(
                trace.request_track(t.name)
                for t in self.tasks
                if self.reactions[t.name].kind == "controller"
            ),
        ]
        if self.frames is not None:
            assert trace.timing_track is not None
            self.tracks.append(trace.timing_track)

    def make_room(self, messages: int) -> None:
        """Build a larger table if the messages in transit do not fit into this one."""
        needed = 4 * (messages + len(self.topics))
        if self.alive and needed <= self.room:
            return
        self.room = max(64, 2 * needed)
        self.alive.clear()
        self._place()
        self._fill_header()
        for i, (plant, row) in enumerate(zip(self.system.plants, self.plants, strict=True)):
            self._fill_plant(plant, row, i)
        for i, (name, row) in enumerate(zip(self.topics, self.topic_rows, strict=True)):
            self._fill_topic(name, row, i)
        for task, row in zip(self.tasks, self.task_rows, strict=True):
            self._fill_task(task, row)

    # -- places

    def _place(self) -> None:
        """Give each object its words: first those that stay, then those that change."""
        plants, tasks, place = self.system.plants, self.tasks, _Places(at.HEADER)
        self._wires = {p.name: _copies(p.wiring) for p in plants}
        self._wires |= {t.name: _copies(self.reactions[t.name].wiring) for t in tasks}
        self._readers: dict[str, list[int]] = {n: [] for n in (*self.topics, *self.noises)}
        for i, plant in enumerate(plants):
            for name in plant.sources & self._readers.keys():
                self._readers[name].append(i)
        timers = {t.name: len(self.reactions[t.name].timers) for t in tasks}
        kinds = (
            (len(plants), at.PLANT, at.PLANT_STATE),
            (len(self.tracks), at.TRACK, at.TRACK_STATE),
            (len(tasks), at.TASK, at.TASK_STATE),
            (len(self.topics), at.TOPIC, at.TOPIC_STATE),
            (len(self.draws), at.DRAW, at.DRAW_STATE),
        )
        firsts = [[place.take(size) for _ in range(count)] for count, size, _ in kinds]
        self._answers = place.take(len(tasks))
        self._timer_rows = {n: place.take(at.TIMER * c) for n, c in timers.items()}
        self._span_rows = place.take(at.SPAN * len(self.spans))
        self._wire_rows = {n: place.take(at.COPY * len(v)) for n, v in self._wires.items()}
        self._reader_rows = {n: place.take(len(v)) for n, v in self._readers.items()}
        self.changing = place.take(at.HEADER_STATE)
        self.plants, self.track_rows, self.task_rows, self.topic_rows, self.draw_rows = (
            [Row(first, place.take(size)) for first in rows]
            for rows, (_, _, size) in zip(firsts, kinds, strict=True)
        )
        self._plant_words = sum(
            len(r) * size for r, (_, _, size) in zip(firsts[:2], kinds[:2], strict=True)
        )
        self.timer_states = {n: place.take(at.TIMER_STATE * c) for n, c in timers.items()}
        self.slots = place.take(self.room)
        self.flight = place.take(self.room * at.MESSAGE)
        self.w = np.zeros(place.end, np.int64)
        widths = [self.system.bus.topics[n].signals.size for n in self.topics]
        self.payloads = np.zeros((self.room, max(widths, default=1)))
        self.saved = [np.zeros_like(s) for s in self.spans]
        self.saved_words = np.zeros(place.end - self.changing, np.int64)

    def _point(self, i: int, vector: NDArray[Any]) -> None:
        """Words ``i`` and ``i + 1`` are the address and the length of ``vector``."""
        assert vector.flags.c_contiguous or vector.size < 2
        self.alive.append(vector)
        self.w[i], self.w[i + 1] = vector.ctypes.data, vector.size

    # -- contents

    def _fill_header(self) -> None:
        w, system = self.w, self.system
        # a paced run returns by the wall clock
        w[at.MOST] = _MOST_TAGS if self.frames is None else at.FAR
        for first, rows in (
            (at.PLANTS, self.plants), (at.TASKS, self.task_rows), (at.TOPICS, self.topic_rows),
            (at.TRACKS, self.track_rows), (at.DRAWS, self.draw_rows),
        ):  # fmt: skip
            w[first] = rows[0].at if rows else 0
        w[at.PLANT_COUNT], w[at.TASK_COUNT] = len(self.plants), len(self.task_rows)
        w[at.TOPIC_COUNT], w[at.DRAW_COUNT] = len(self.topic_rows), len(self.draw_rows)
        rows_of = {t.name: r.at for t, r in zip(self.tasks, self.task_rows, strict=True)}
        answers = [rows_of[c.name] for c in system.controllers if c.name in rows_of]
        w[at.ANSWERS], w[at.ANSWER_COUNT] = self._answers, len(answers)
        w[self._answers : self._answers + len(answers)] = answers
        w[at.FLIGHT], w[at.FLIGHT_ROOM], w[at.SLOTS] = self.flight, self.room, self.slots
        w[at.PAYLOAD_WIDTH] = self.payloads.shape[1]
        self._point(at.PAYLOADS, self.payloads.reshape(-1))
        self._point(at.CHANGED, w[self.changing :])
        self._point(at.SAVED_WORDS, self.saved_words)
        w[at.CHANGING] = self.changing
        if self.frames is not None:
            self._point(at.PACE, self.frames.words)
            w[at.TIMING] = len(self.tracks) - 1
        w[at.SPANS], w[at.SPAN_COUNT] = self._span_rows, len(self.spans)
        w[at.PLANT_SPANS], w[at.PLANT_WORDS] = (
            self._plant_spans,
            at.HEADER_STATE + self._plant_words,
        )
        for i, (span, saved) in enumerate(zip(self.spans, self.saved, strict=True)):
            self._point(self._span_rows + i * at.SPAN, span)
            self._point(self._span_rows + i * at.SPAN + 2, saved)
        for name, wires in self._wires.items():
            for i, (into, source) in enumerate(wires):
                self._point(self._wire_rows[name] + i * at.COPY, into)
                self._point(self._wire_rows[name] + i * at.COPY + 2, source)
        for name, readers in self._readers.items():
            first = self._reader_rows[name]
            w[first : first + len(readers)] = [self.plants[i].at for i in readers]

    def _fill_topic(self, name: str, row: Row, i: int) -> None:
        w, r, system = self.w, row.at, self.system
        topic, port = system.bus.topics[name], system.ports[name]
        w[r + at.M_STATE], w[r + at.M_SOURCE] = row.state, self._sources[topic.source]
        w[r + at.M_NAME], w[r + at.M_TRACK] = i, len(self.plants) + i
        w[r + at.M_DELAY], w[r + at.M_ORDERED] = _constant(topic.transport), topic.transport.ordered
        w[r + at.M_DRAW], w[r + at.M_IMMEDIATE] = self._draw("transport", name), topic.immediate
        self._point(r + at.M_VALUE, port.value)
        self._point(r + at.M_EARLY, port.early)
        w[r + at.M_READERS], w[r + at.M_READER_COUNT] = self._listed(name)

    def _listed(self, name: str) -> tuple[int, int]:
        """Where the plants are listed that read ``name``, and how many they are."""
        return self._reader_rows[name], len(self._readers[name])

    def _draw(self, what: str, name: str) -> int:
        """The number of the row of these draws; NOTHING if nothing is drawn."""
        return self._draw_numbers.get((what, name), at.NOTHING)

    def _all_spans(self) -> list[NDArray[np.float64]]:
        """The vectors that a tag can change; those of the plants come first."""
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
        for task in self.tasks:
            reaction = self.reactions[task.name]
            if reaction.wiring is not None:
                found.append(reaction.wiring.into)
            if reaction.kind == "controller":
                u, s, _, y = reaction.vectors
                found += [u, s, y]
            if reaction.port is not None:
                found += [reaction.port.value, reaction.port.early]
        for name in self.topics:
            found += [system.ports[name].value, system.ports[name].early]
        return [f for f in found if f.size]

    def _all_draws(self) -> dict[tuple[str, str], Draws]:
        """What is drawn at random, by what for and by whom."""
        found: dict[tuple[str, str], Draws] = {}
        streams, bus = self.system.streams, self.system.bus
        for task in self.tasks:
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
        for name in self.topics:
            topic = bus.topics[name]
            if type(topic.transport) is not Fixed:
                make = delays(topic.transport, streams, topic.stream, topic.size_bytes, topic.link)
                found["transport", name] = Draws(streams, topic.stream, make)
        return found

    def _fill_plant(self, plant: Plant, row: Row, i: int) -> None:
        w, r = self.w, row.at
        step, output = plant.native_step(), plant.native_output()
        assert step is not None
        w[r + at.P_STATE], w[r + at.P_STEP] = row.state, step.handle
        self._point(r + at.P_WORDS, step.words)
        if output is not None:
            self.alive.append(output)
            self._point(r + at.P_OUTPUT, output.words)
        self._point(r + at.P_X, plant.x)
        self._point(r + at.P_NEXT, plant.next_x)
        self._point(r + at.P_MEMORY, step.memory)
        self._point(r + at.P_AFTER, step.after)
        w[r + at.P_KEPT] = step.kept
        self._point(r + at.P_VALUES, plant.values)
        if plant.wiring is not None:
            self._point(r + at.P_U, plant.u)
            self._point(r + at.P_INTO, plant.wiring.into)
        w[r + at.P_COPIES] = self._wire_rows[plant.name]
        w[r + at.P_COPY_COUNT] = len(self._wires[plant.name])
        w[r + at.P_NUMERATOR], w[r + at.P_DENOMINATOR] = plant.step.ratio
        w[r + at.P_COUPLED], w[r + at.P_TRACK] = plant.reads_plants, i
        if plant.watch is not None and (guards := plant.watch.native()) is not None:
            self._fill_guards(r, guards)

    def _fill_guards(self, r: int, guards: NativeGuards) -> None:
        self.w[r + at.P_DRIVE] = guards.handle
        self._point(r + at.P_WORDS, guards.words)
        self._point(r + at.P_GUARD_TABLE, guards.table)
        self.alive.append(guards.block)
        self._point(r + at.P_GUARDS, guards.block.words)
        self._point(r + at.P_G, guards.g)

    def _fill_task(self, task: Task, row: Row) -> None:
        w, r, reaction, name = self.w, row.at, self.reactions[task.name], task.name
        w[r + at.T_STATE], w[r + at.T_KIND] = row.state, _KINDS[reaction.kind]
        w[r + at.T_FUNCTION] = reaction.function
        if isinstance(task, Ticking) and task.period is not None:
            w[r + at.T_NUMERATOR], w[r + at.T_DENOMINATOR] = task.period.ratio
            w[r + at.T_OFFSET] = task.offset_ns
        places = (at.T_FIRST, at.T_SECOND, at.T_THIRD, at.T_FOURTH)
        for place, vector in zip(places, reaction.vectors, strict=False):
            self._point(r + place, vector)
        if reaction.wiring is not None:
            self._point(r + at.T_INTO, reaction.wiring.into)
        w[r + at.T_COPIES], w[r + at.T_COPY_COUNT] = self._wire_rows[name], len(self._wires[name])
        w[r + at.T_DELAY], w[r + at.T_DRAW] = (
            _constant(reaction.compute),
            self._draw("compute", name),
        )
        if name in self.topics:
            w[r + at.T_TOPIC] = self.topic_numbers[name]
        if isinstance(task, ControllerTask):
            w[r + at.T_ORDERED] = bool(task.successors)
            first = len(self.plants) + len(self.topics)
            w[r + at.T_TRACK] = first + self._controller_numbers[name]
        if reaction.plant is not None:
            w[r + at.T_PLANT] = self.plants[self._plant_numbers[reaction.plant.name]].at
            self._point(r + at.T_Z, reaction.plant.z)
        if reaction.port is not None:
            w[r + at.T_DRAW] = self._draw("noise", name)
            self._point(r + at.T_PORT, reaction.port.value)
            self._point(r + at.T_EARLY, reaction.port.early)
            w[r + at.T_READERS], w[r + at.T_READER_COUNT] = self._listed(name)
        if reaction.due is not None:
            self._point(r + at.T_INTO, reaction.due)
            self._fill_timers(task.name, r)
        if reaction.drawn is not None:
            w[r + at.T_DRAW] = self._draw("timers", name)
            self._point(r + at.T_PORT, reaction.drawn[1])

    def _fill_timers(self, name: str, r: int) -> None:
        w, first, state = self.w, self._timer_rows[name], self.timer_states[name]
        timers = self.reactions[name].timers
        w[r + at.T_TIMERS], w[r + at.T_TIMER_COUNT] = first, len(timers)
        for i, (period, offset_ns) in enumerate(timers):
            t = first + i * at.TIMER
            w[t + at.I_STATE], w[t + at.I_OFFSET] = state + i * at.TIMER_STATE, offset_ns
            if period is not None:
                w[t + at.I_NUMERATOR], w[t + at.I_DENOMINATOR] = period.ratio


class _Places:
    """Hands out the words of a table one after another."""

    def __init__(self, first: int) -> None:
        self.end = first

    def take(self, count: int) -> int:
        first = self.end
        self.end += count
        return first


def _constant(model: LatencyModel) -> int:
    """The delay [ns] of a latency that is always the same; 0 for one that is drawn."""
    return model.constant[0] if type(model) is Fixed else 0


def _copies(wiring: Any) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    return [] if wiring is None else wiring.copies()
