"""A run's table, and the stretches that are run on it.

:class:`Stretches` copies what changes from the system's objects into the table, lets the kernel run
tags, and copies it back: between two stretches the objects say all, as they do without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.components.bus import DELIVERED, Message
from rtsim.components.compiled_reaction import CompiledReaction
from rtsim.components.controller_task import ControllerRequest, ControllerTask
from rtsim.components.latency import Fixed, LatencyModel
from rtsim.components.plant import NONE_NS, Plant
from rtsim.components.tasks import FAR, Task, Ticking, TimerTask
from rtsim.core.clock import Clock
from rtsim.core.tag import Period, Tag
from rtsim.engine.compiled import layout as at
from rtsim.engine.compiled.draws import Draws, delays, remembers_nothing
from rtsim.engine.compiled.kernel import stretch
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.equations.addresses import WORDS
from rtsim.equations.compiling import Native, compile_function
from rtsim.record.memory_recorder import Track
from rtsim.solve.guard_watch import NativeGuards

_MOST_DRAWS = 512
_MOST_TAGS = 2048
"""In one call: an interrupt and the progress line wait for no more."""
_SENDERS = ("controller", "sensor")
_KINDS = {
    "controller": at.CONTROLLER, "sensor": at.SENSOR, "update": at.UPDATE, "noise": at.NOISE,
    "timers": at.TIMERS,
}  # fmt: skip


@cache
def _kernel() -> Native:
    return compile_function(stretch, (WORDS,), "the compiled engine")


@dataclass
class _Row:
    """A system's object, and where its words are."""

    at: int
    state: int


class Stretches:
    """The compiled engine for one system; :attr:`why_not` says what keeps a run off it."""

    def __init__(self, system: System, trace: Trace, clock: Clock) -> None:
        self._system, self._trace, self._clock = system, trace, clock
        self.why_not: list[str] = []
        self.tags = 0
        """So many tags were run in stretches."""
        self._reactions: dict[str, CompiledReaction] = {}
        self._survey()
        if self.why_not or (not self._reactions and not system.plants):
            self.usable = False
            return
        self.usable = True
        self._table: _Table | None = None

    def _survey(self) -> None:
        """Find the tasks that run in compiled code, and what forbids it for the whole run."""
        system = self._system
        for plant in system.plants:
            if plant.native_step() is None:
                self.why_not.append(f"{plant.name} has a solver that is not compiled")
        if system.faults is not None:
            self.why_not.append("faults are declared")
        if system.external_inputs:
            self.why_not.append("external inputs are read at each tag")
        for task in system.tasks:
            found = task.compiled() if hasattr(task, "compiled") else f"{task.name} is Python"
            if isinstance(found, CompiledReaction):
                found = self._fit(task, found)
            if isinstance(found, CompiledReaction):
                self._reactions[task.name] = found

    def _fit(self, task: Task, found: CompiledReaction) -> CompiledReaction | str:
        system = self._system
        periods = [p for p, _ in found.timers if p is not None] if found.timers else [task.period]
        if any(p is None or not _exact(p) for p in periods):
            return f"{task.name} has no period, or a long one"
        if found.kind in _SENDERS:
            topic = system.bus.topics[task.name]
            for model in (topic.transport, found.compute):
                if not remembers_nothing(model):
                    return f"the latency model {type(model).__name__} of {task.name} has a memory"
            if system.triggers.get(task.name) or system.listeners.get(task.name):
                return f"messages of {task.name} trigger other components"
        return found

    def run(self, limit_ns: int) -> bool:
        """Run tags before ``limit_ns``; False if there was none that could be."""
        system = self._system
        limit = min(limit_ns, *(ns for ns in self._bounds()), FAR)
        shortest = min((p.step.ns for p in system.plants), default=0)
        if limit - system.ns < 8 * shortest:
            return False
        if self._table is None:
            self._table = _Table(system, self._trace, self._reactions)
        ran = self._table.run(limit, self._clock)
        self.tags += ran
        return ran > 0

    def _bounds(self) -> list[int]:
        """When something happens that is not compiled."""
        system, native = self._system, self._reactions
        found = [FAR]
        for task in system.tasks:
            if task.name not in native or not task.checked:  # type: ignore[attr-defined]
                found.append(task.next_ns)
        found += [c.due_ns for c in system.controllers if c.name not in native]
        found += [
            c.request.due.ns for c in system.controllers if c.request is not None and c.request.late
        ]
        if system.next_change < len(system.changes):
            found.append(system.changes[system.next_change].ns)
        found += system.inserted[:1]
        found += system.bus.arrivals_except(native.keys())
        return found


def _exact(period: Period) -> bool:
    """Its ticks can be computed in 64 bits."""
    return max(period.ratio) < 2**40


class _Table:
    """The words of one run."""

    def __init__(
        self, system: System, trace: Trace, reactions: dict[str, CompiledReaction]
    ) -> None:
        self._system = system
        self._reactions = reactions
        self._tasks = [t for t in system.tasks if t.name in reactions]
        self._topics = sorted(n for n, r in reactions.items() if r.kind in _SENDERS)
        self._tracks: list[Track] = [
            *(trace.plant_track(p) for p in system.plants),
            *(trace.topic_track(n) for n in self._topics),
            *(
                trace.request_track(t.name)
                for t in self._tasks
                if reactions[t.name].kind == "controller"
            ),
        ]
        self._alive: list[Any] = []
        """What has an address in the table."""
        self._room = 0
        self._build(max(64, 4 * len(self._topics)))

    # -- building

    def _build(self, room: int) -> None:
        system = self._system
        plants, tasks, topics = system.plants, self._tasks, self._topics
        self._alive.clear()
        self._room = room
        widths = [system.bus.topics[n].signals.size for n in topics]
        spans = self._spans()
        copies = {id(p): _copies(p.wiring) for p in plants}
        copies |= {id(t): _copies(self._reactions[t.name].wiring) for t in tasks}
        noises = [t.name for t in tasks if self._reactions[t.name].kind == "noise"]
        readers = {n: [p for p in plants if n in p.sources] for n in (*topics, *noises)}
        self._draws = self._all_draws()
        controllers = [t for t in system.controllers if t.name in self._reactions]
        place = _Places(at.HEADER)
        plant_rows = [place.take(at.PLANT) for _ in plants]
        task_rows = [place.take(at.TASK) for _ in tasks]
        topic_rows = [place.take(at.TOPIC) for _ in topics]
        track_rows = [place.take(at.TRACK) for _ in self._tracks]
        answers = place.take(len(controllers))
        draw_rows = [place.take(at.DRAW) for _ in self._draws]
        timers = {t.name: len(self._reactions[t.name].timers) for t in tasks}
        timer_rows = {n: place.take(at.TIMER * c) for n, c in timers.items()}
        span_rows = place.take(2 * len(spans))
        copy_rows = {k: place.take(at.COPY * len(v)) for k, v in copies.items()}
        reader_rows = {n: place.take(len(v)) for n, v in readers.items()}
        changing = place.take(at.HEADER_STATE)
        self._plants = [_Row(r, place.take(at.PLANT_STATE)) for r in plant_rows]
        self._task_rows = [_Row(r, place.take(at.TASK_STATE)) for r in task_rows]
        self._topic_rows = [_Row(r, place.take(at.TOPIC_STATE)) for r in topic_rows]
        self._track_rows = [_Row(r, place.take(at.TRACK_STATE)) for r in track_rows]
        self._draw_rows = [_Row(r, place.take(at.DRAW_STATE)) for r in draw_rows]
        self._timer_states = {n: place.take(at.TIMER_STATE * c) for n, c in timers.items()}
        self._slots = place.take(room)
        self._flight = place.take(room * at.MESSAGE)
        self._changing = changing
        w = self._w = np.zeros(place.end, np.int64)
        self._width = max(widths, default=1)
        self._payloads = np.zeros((room, self._width))
        self._spans_list = spans
        self._saved = np.zeros(max(1, sum(s.size for s in spans)))
        self._saved_words = np.zeros(place.end - changing, np.int64)
        w[at.MOST] = _MOST_TAGS
        w[at.PLANTS], w[at.PLANT_COUNT] = at.HEADER, len(plants)
        w[at.TASKS], w[at.TASK_COUNT] = _first(task_rows), len(tasks)
        w[at.ANSWERS], w[at.ANSWER_COUNT] = answers, len(controllers)
        w[at.TOPICS], w[at.TRACKS] = _first(topic_rows), _first(track_rows)
        w[at.TOPIC_COUNT] = len(topics)
        w[at.DRAWS], w[at.DRAW_COUNT] = _first(draw_rows), len(draw_rows)
        numbers = {name: i for i, name in enumerate(self._draws)}
        w[at.FLIGHT], w[at.FLIGHT_ROOM], w[at.SLOTS] = self._flight, room, self._slots
        w[at.PAYLOAD_WIDTH] = self._width
        self._point(at.PAYLOADS, self._payloads.reshape(-1))
        self._point(at.SAVED, self._saved)
        self._point(at.SAVED_WORDS, self._saved_words)
        w[at.SPANS], w[at.SPAN_COUNT] = span_rows, len(spans)
        w[at.CHANGING] = changing
        w[at.COUPLED] = any(p.reads_plants for p in plants)
        for i, span in enumerate(spans):
            self._point(span_rows + 2 * i, span)
        for key, rows in copies.items():
            for i, (into, source) in enumerate(rows):
                self._point(copy_rows[key] + i * at.COPY, into)
                self._point(copy_rows[key] + i * at.COPY + 2, source)
        for i, plant in enumerate(plants):
            self._plant(self._plants[i], plant, i, copy_rows[id(plant)], len(copies[id(plant)]))
        row_of = {t.name: r.at for t, r in zip(tasks, self._task_rows, strict=True)}
        for i, controller in enumerate(controllers):
            w[answers + i] = row_of[controller.name]
        ranks = {n: i for i, n in enumerate(topics)}
        sources = sorted({system.bus.topics[n].source for n in topics})
        for row, name in zip(self._topic_rows, topics, strict=True):
            topic, port, r = system.bus.topics[name], system.ports[name], row.at
            w[r + at.M_STATE], w[r + at.M_ORDERED] = row.state, topic.transport.ordered
            w[r + at.M_DRAW] = numbers.get(("transport", name), at.NOTHING)
            w[r + at.M_SOURCE], w[r + at.M_NAME] = sources.index(topic.source), ranks[name]
            w[r + at.M_DELAY] = _constant(topic.transport)
            self._point(r + at.M_VALUE, port.value)
            self._point(r + at.M_EARLY, port.early)
            w[r + at.M_READERS], w[r + at.M_READER_COUNT] = reader_rows[name], len(readers[name])
            for j, plant in enumerate(readers[name]):
                w[reader_rows[name] + j] = plant_rows[plants.index(plant)]
            w[r + at.M_IMMEDIATE] = topic.immediate
            w[r + at.M_TRACK] = len(plants) + ranks[name]
        requests = len(plants) + len(topics)
        for task, row in zip(tasks, self._task_rows, strict=True):
            count = len(copies[id(task)])
            self._task(row, task, copy_rows[id(task)], count, ranks, plant_rows)
            draw = numbers.get(("compute", task.name), at.NOTHING)
            w[row.at + at.T_DRAW] = numbers.get(("noise", task.name), draw)
            w[row.at + at.T_TIMERS] = timer_rows[task.name]
            w[row.at + at.T_TIMER_COUNT] = timers[task.name]
            self._timers(task, timer_rows[task.name])
            if task.name in noises:
                first, listed = reader_rows[task.name], readers[task.name]
                w[row.at + at.T_READERS], w[row.at + at.T_READER_COUNT] = first, len(listed)
                for j, plant in enumerate(listed):
                    w[first + j] = plant_rows[plants.index(plant)]
            if self._reactions[task.name].kind == "controller":
                w[row.at + at.T_TRACK] = requests
                requests += 1

    def _spans(self) -> list[NDArray[np.float64]]:
        """The vectors that a tag can change."""
        system, found = self._system, []
        for plant in system.plants:
            step = plant.native_step()
            assert step is not None
            found += [plant.values, step.memory]
            if plant.watch is not None and (guards := plant.watch.native()) is not None:
                found.append(guards.drive.here.reshape(-1))
            if plant.wiring is not None:
                found.append(plant.wiring.into)
        for task in self._tasks:
            reaction = self._reactions[task.name]
            if reaction.wiring is not None:
                found.append(reaction.wiring.into)
            if reaction.kind == "controller":
                u, s, _, y = reaction.vectors
                found += [u, s, y]
            if reaction.port is not None:
                found += [reaction.port.value, reaction.port.early]
        for name in self._topics:
            found += [system.ports[name].value, system.ports[name].early]
        return [f for f in found if f.size]

    def _all_draws(self) -> dict[tuple[str, str], Draws]:
        """What is drawn at random, by what for and by whom."""
        found: dict[tuple[str, str], Draws] = {}
        streams, bus = self._system.streams, self._system.bus
        for task in self._tasks:
            reaction = self._reactions[task.name]
            if reaction.draws is not None and reaction.port is not None:
                width = reaction.port.value.size
                stream = f"noise/{task.name}"
                found["noise", task.name] = Draws(streams, stream, reaction.draws, width)
            if isinstance(task, ControllerTask) and type(task.compute) is not Fixed:
                size, link = 8 * task.wiring.into.size, f"the computation of {task.name}"
                make = delays(task.compute, streams, f"compute/{task.name}", size, link)
                found["compute", task.name] = Draws(streams, f"compute/{task.name}", make)
        for name in self._topics:
            topic = bus.topics[name]
            if type(topic.transport) is not Fixed:
                make = delays(topic.transport, streams, topic.stream, topic.size_bytes, topic.link)
                found["transport", name] = Draws(streams, topic.stream, make)
        return found

    def _timers(self, task: Task, first: int) -> None:
        w, state = self._w, self._timer_states[task.name]
        for i, (period, offset_ns) in enumerate(self._reactions[task.name].timers):
            r = first + i * at.TIMER
            w[r + at.I_STATE], w[r + at.I_OFFSET] = state + i * at.TIMER_STATE, offset_ns
            if period is not None:
                w[r + at.I_NUMERATOR], w[r + at.I_DENOMINATOR] = period.ratio

    def _point(self, i: int, vector: NDArray[Any]) -> None:
        assert vector.flags.c_contiguous or vector.size < 2
        self._alive.append(vector)
        self._w[i], self._w[i + 1] = vector.ctypes.data, vector.size

    def _plant(self, row: _Row, plant: Plant, i: int, copies: int, count: int) -> None:
        w, r = self._w, row.at
        step, output = plant.native_step(), plant.native_output()
        assert step is not None
        w[r + at.P_STATE], w[r + at.P_STEP] = row.state, step.handle
        self._point(r + at.P_WORDS, step.words)
        if output is not None:
            self._alive.append(output)
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
        w[r + at.P_COPIES], w[r + at.P_COPY_COUNT] = copies, count
        w[r + at.P_NUMERATOR], w[r + at.P_DENOMINATOR] = plant.step.ratio
        w[r + at.P_COUPLED], w[r + at.P_TRACK] = plant.reads_plants, i
        if plant.watch is not None and (guards := plant.watch.native()) is not None:
            self._guards(r, guards)

    def _guards(self, r: int, guards: NativeGuards) -> None:
        w, drive = self._w, guards.drive
        w[r + at.P_DRIVE] = drive.handle
        w[r + at.P_LEG], w[r + at.P_RETAKE], w[r + at.P_BETWEEN] = drive.functions
        self._point(r + at.P_WORDS, drive.words)
        self._point(r + at.P_LOOK, drive.look)
        self._point(r + at.P_KNOWN, drive.here.reshape(-1))
        self._point(r + at.P_AHEAD, drive.there.reshape(-1))
        self._point(r + at.P_DIRECTIONS, drive.directions)
        self._point(r + at.P_FIRED, drive.fired)
        self._point(r + at.P_REACHED, drive.reached)
        self._alive.append(guards.block)
        self._point(r + at.P_GUARDS, guards.block.words)
        self._point(r + at.P_G, guards.g)

    def _task(
        self, row: _Row, task: Task, copies: int, count: int, ranks: dict[str, int],
        plant_rows: Sequence[int],
    ) -> None:  # fmt: skip
        w, r, reaction = self._w, row.at, self._reactions[task.name]
        w[r + at.T_STATE], w[r + at.T_KIND] = row.state, _KINDS[reaction.kind]
        w[r + at.T_FUNCTION] = reaction.function
        if isinstance(task, Ticking) and task.period is not None:
            w[r + at.T_NUMERATOR], w[r + at.T_DENOMINATOR] = task.period.ratio
            w[r + at.T_OFFSET] = task.offset_ns
        if reaction.due is not None:
            self._point(r + at.T_INTO, reaction.due)
        if reaction.port is not None:
            self._point(r + at.T_PORT, reaction.port.value)
            self._point(r + at.T_EARLY, reaction.port.early)
        for place, vector in zip(
            (at.T_FIRST, at.T_SECOND, at.T_THIRD, at.T_FOURTH), reaction.vectors, strict=False
        ):
            self._point(r + place, vector)
        if reaction.wiring is not None:
            self._point(r + at.T_INTO, reaction.wiring.into)
        w[r + at.T_ORDERED] = isinstance(task, ControllerTask) and bool(task.successors)
        w[r + at.T_COPIES], w[r + at.T_COPY_COUNT] = copies, count
        w[r + at.T_TOPIC], w[r + at.T_DELAY] = ranks.get(task.name, 0), _constant(reaction.compute)
        if reaction.plant is not None:
            plants = self._system.plants
            w[r + at.T_PLANT] = plant_rows[plants.index(reaction.plant)]
            self._point(r + at.T_Z, reaction.plant.z)

    # -- running

    def run(self, limit_ns: int, clock: Clock) -> int:
        """Tags before ``limit_ns``; returns how many."""
        flight = self._system.bus.take(set(self._topics))
        if 4 * (len(flight) + len(self._topics)) > self._room:
            self._build(8 * (len(flight) + len(self._topics)))
        w, state = self._w, self._changing
        self._copy_in(flight)
        self._draw_ahead(limit_ns)
        w[at.LIMIT] = limit_ns
        tags, problem = 0, None
        try:
            tags = _kernel().call(w)
        except BaseException as error:  # the interpreter meets it again, and says where it is
            problem = error
        if w[state + at.IN_TAG]:
            self._undo()
        for row, draws in zip(self._draw_rows, self._draws.values(), strict=True):
            draws.settle(int(w[row.state + at.C_NEXT]))
        self._copy_out(clock)
        if isinstance(problem, KeyboardInterrupt):
            raise problem
        return tags

    def _draw_ahead(self, limit_ns: int) -> None:
        """As much as the ticks before ``limit_ns`` can use."""
        if not self._draws:
            return
        w, span = self._w, limit_ns - self._system.ns
        by_name = {t.name: t for t in self._tasks}
        for row, ((_, name), draws) in zip(self._draw_rows, self._draws.items(), strict=True):
            period = by_name[name].period
            assert period is not None
            draws.fill(min(int(span // period.ns) + 2, _MOST_DRAWS))
            w[row.at + at.D_STATE], w[row.at + at.D_WIDTH] = row.state, draws.width
            w[row.state + at.C_NEXT] = 0
            w[row.at + at.D_VALUES] = draws.values.ctypes.data
            w[row.at + at.D_VALUES_LENGTH] = draws.values.size

    def _undo(self) -> None:
        """The tag under way did not happen."""
        first = 0
        for span in self._spans_list:
            span[:] = self._saved[first : first + span.size]
            first += span.size
        w, start = self._w, self._changing
        in_flight = int(self._saved_words[at.IN_FLIGHT])
        end = self._flight + in_flight * at.MESSAGE
        w[start:end] = self._saved_words[: end - start]

    def _copy_in(self, flight: Sequence[Message]) -> None:
        system, w, state = self._system, self._w, self._changing
        w[state : state + at.HEADER_STATE] = 0
        w[state + at.NOW] = system.ns
        for row, plant in zip(self._plants, system.plants, strict=True):
            s = row.state
            w[s + at.S_NS], w[s + at.S_K] = plant.position
            w[s + at.S_GRID] = plant.step.tick(plant.position[1])
            w[s + at.S_TARGET] = NONE_NS
            w[s + at.S_STALE], w[s + at.S_TOUCHED] = plant.stale, plant.touched
            w[s + at.S_UNSETTLED] = plant.unsettled
        for row, task in zip(self._task_rows, self._tasks, strict=True):
            s = row.state
            w[s + at.K_NEXT], w[s + at.K_WRITES] = task.next_ns, 0
            if isinstance(task, Ticking):
                w[s + at.K_TICKS] = task.k
            if isinstance(task, TimerTask):
                first = self._timer_states[task.name]
                for i, (k, ns) in enumerate(zip(task.ticks, task.coming, strict=True)):
                    j = first + i * at.TIMER_STATE
                    w[j + at.J_TICKS], w[j + at.J_NEXT] = k, ns
            if isinstance(task, ControllerTask):
                request = task.request
                w[s + at.K_SEQUENCE], w[s + at.K_OPEN] = task.sequence, request is not None
                if request is not None:
                    w[s + at.K_TAG], w[s + at.K_TAG_STEP] = request.tag
                    w[s + at.K_DUE], w[s + at.K_DUE_STEP] = request.due
        ranks = {}
        for row, name in zip(self._topic_rows, self._topics, strict=True):
            sequence, last = system.bus.position(name)
            s = row.state
            w[s + at.Q_SEQUENCE], (w[s + at.Q_LAST], w[s + at.Q_LAST_STEP]) = sequence, last
            ranks[name] = len(ranks)
        for row, track in zip(self._track_rows, self._tracks, strict=True):
            self._lend(row, track)
        w[self._slots : self._slots + self._room] = 0
        for i, message in enumerate(flight):  # in order, which is a heap
            self._message_in(i, message, ranks[message.topic])
        w[state + at.IN_FLIGHT] = w[state + at.NEXT_SLOT] = len(flight)

    def _lend(self, row: _Row, track: Track) -> None:
        w, lent, s = self._w, track.lend(), row.state
        w[row.at + at.R_STATE], w[row.at + at.R_WIDTH] = s, lent.width
        w[row.at + at.R_CAPACITY] = lent.capacity
        w[s + at.B_BLOCK], w[s + at.B_BLOCK_LENGTH] = lent.block.ctypes.data, lent.block.size
        w[s + at.B_SPARE], w[s + at.B_SPARE_LENGTH] = lent.spare.ctypes.data, lent.spare.size
        w[s + at.B_ROW], w[s + at.B_ROLLED] = lent.row, 0

    def _message_in(self, i: int, message: Message, topic: int) -> None:
        w, f = self._w, self._flight + i * at.MESSAGE
        r = self._topic_rows[topic].at
        w[f + at.F_NS], w[f + at.F_STEP] = message.arrival
        w[f + at.F_SOURCE], w[f + at.F_NAME] = w[r + at.M_SOURCE], w[r + at.M_NAME]
        w[f + at.F_SEQUENCE], w[f + at.F_TOPIC], w[f + at.F_SLOT] = message.sequence, topic, i
        w[f + at.F_INITIATED], w[f + at.F_INITIATED_STEP] = message.initiated
        w[f + at.F_COMPLETED], w[f + at.F_COMPLETED_STEP] = message.completed
        w[self._slots + i] = 1
        self._payloads[i, : message.payload.size] = message.payload

    def _copy_out(self, clock: Clock) -> None:
        system, w, state = self._system, self._w.tolist(), self._changing
        for row, plant in zip(self._plants, system.plants, strict=True):
            s = row.state
            plant.go_on(w[s + at.S_NS], w[s + at.S_K])
            plant.stale, plant.touched = bool(w[s + at.S_STALE]), bool(w[s + at.S_TOUCHED])
            plant.unsettled = bool(w[s + at.S_UNSETTLED])
        for row, task in zip(self._task_rows, self._tasks, strict=True):
            s = row.state
            if isinstance(task, ControllerTask):
                request = None
                if w[s + at.K_OPEN]:
                    tag = Tag(w[s + at.K_TAG], w[s + at.K_TAG_STEP])
                    due = Tag(w[s + at.K_DUE], w[s + at.K_DUE_STEP])
                    request = ControllerRequest(tag, due, clock.now())
                task.go_on(w[s + at.K_TICKS], w[s + at.K_SEQUENCE], request)
            elif isinstance(task, TimerTask):
                first, count = self._timer_states[task.name], len(task.ticks)
                step = at.TIMER_STATE
                task.go_on([w[first + i * step + at.J_TICKS] for i in range(count)])
            else:
                assert isinstance(task, Ticking)
                task.go_to(w[s + at.K_TICKS])
        for row, name in zip(self._topic_rows, self._topics, strict=True):
            s = row.state
            last = Tag(w[s + at.Q_LAST], w[s + at.Q_LAST_STEP])
            system.bus.go_on(name, w[s + at.Q_SEQUENCE], last)
        for row, track in zip(self._track_rows, self._tracks, strict=True):
            track.returned(w[row.state + at.B_ROW], bool(w[row.state + at.B_ROLLED]))
        system.bus.put(self._message_out(w, i) for i in range(w[state + at.IN_FLIGHT]))
        system.ns = w[state + at.NOW]

    def _message_out(self, w: list[int], i: int) -> Message:
        f = self._flight + i * at.MESSAGE
        name = self._topics[w[f + at.F_TOPIC]]
        topic = self._system.bus.topics[name]
        payload = self._payloads[w[f + at.F_SLOT], : topic.signals.size].copy()
        payload.setflags(write=False)
        return Message(
            name, topic.source, w[f + at.F_SEQUENCE],
            Tag(w[f + at.F_INITIATED], w[f + at.F_INITIATED_STEP]),
            Tag(w[f + at.F_COMPLETED], w[f + at.F_COMPLETED_STEP]),
            Tag(w[f + at.F_NS], w[f + at.F_STEP]), payload, DELIVERED,
        )  # fmt: skip


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


def _first(rows: Sequence[int]) -> int:
    return rows[0] if rows else 0


def _copies(wiring: Any) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    return [] if wiring is None else wiring.copies()
