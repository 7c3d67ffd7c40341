"""The faults of one run: how they follow simulated time and commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec

from rtsim.components.plant import Plant
from rtsim.components.tasks import Environment
from rtsim.core.errors import UnknownName
from rtsim.core.random_streams import RandomStreams
from rtsim.core.tag import Period, Tag
from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.at_lines import LineFaults
from rtsim.engine.faults.at_loop import UNPACED, LoopFaults
from rtsim.engine.faults.at_messages import FaultyTransport
from rtsim.engine.faults.at_signals import FaultyWiring, SignalFault
from rtsim.engine.faults.kind import Fault, FaultError
from rtsim.engine.faults.present import EventSink, Present
from rtsim.record.events import FAULT_IDLE, Event

_More = ParamSpec("_More")

FIRST = -(2**62)
"""Priority of fault tasks, which run before all readers."""


class FaultTask:
    """Changes faulty inputs of plants at the start and end of a fault and at each of its ticks."""

    period: Period | None = None
    priority = FIRST

    def __init__(
        self, fault: SignalFault, wiring: FaultyWiring, plants: Sequence[Plant], every: Period
    ) -> None:
        described = fault.fault
        self.name = f"fault.{described.name}"
        self._fault, self._wiring, self._plants, self._every = fault, wiring, tuple(plants), every
        self._ticks = fault.changes_alone or any(
            v is not None for v in (described.probability, described.when, described.count)
        )
        self._offset = described.at_ns or 0
        self._k = 0
        self.next_ns = self._offset if self._ticks else self._edge(-1)

    def _edge(self, ns: int) -> int:
        return 0 if ns < self._offset == 0 else self._fault.activity.next_edge(ns)

    def ticked(self) -> None:
        """Do nothing, because :meth:`react` sets the next tick."""

    def told(self, ns: int) -> None:
        """Apply a command to the fault: now, or at the end of the plant's present step."""
        self._offset, self._k = ns, 0  # the ticks of the fault start at this time
        busy = [plant.target_ns for plant in self._plants if plant.ns != ns]
        self.next_ns = min(busy, default=ns)
        if not busy:
            self._look_at(ns)

    def react(self, tag: Tag, environment: Environment) -> None:  # noqa: ARG002
        self._look_at(tag.ns)

    def _look_at(self, ns: int) -> None:
        self._wiring.look(self._fault)
        for plant in self._plants:
            plant.stale = True
        self.next_ns = self._edge(ns)
        if self._ticks:
            while self._every.tick(self._k, self._offset) <= ns:
                self._k += 1
            self.next_ns = min(self.next_ns, self._every.tick(self._k, self._offset))

    def save(self) -> dict[str, Any]:
        return {"k": self._k, "next": self.next_ns, "offset": self._offset}

    def restore(self, saved: dict[str, Any]) -> None:
        self._k, self.next_ns, self._offset = saved["k"], saved["next"], saved["offset"]


class Schedule:
    """All faults of a run, and their shared data."""

    def __init__(self, faults: Sequence[Fault], present: Present) -> None:
        self.faults = tuple(faults)
        self.present = present
        self.signals: list[SignalFault] = []
        self.transports: dict[str, FaultyTransport] = {}
        self.lines: dict[str, LineFaults] = {}
        self.tasks: list[FaultTask] = []
        self.activities: dict[str, Activity] = {}
        self.own_streams: dict[str, RandomStreams] = {}
        """Random streams of the faults that have a seed of their own, by name."""
        self.idle: dict[str, str] = {}
        """Reason why a fault cannot act in this run, by the name of the fault."""
        self.loop: LoopFaults | None = None
        self._fed: list[Event] | None = None
        self._told: list[str] = []

    @property
    def counts(self) -> dict[str, int]:
        """Number of activations so far, by the name of the fault."""
        return {f.name: self.activities[f.name].activations for f in self.faults}

    def check(self, name: str) -> Activity:
        """Return the activity of fault ``name``; raises an error if the fault cannot act."""
        if name not in self.activities:
            raise UnknownName("fault", name, self.activities, "this run")
        if name in self.idle and self._fed is None:
            raise FaultError(f"fault {name} cannot act in this run: {self.idle[name]}")
        return self.activities[name]

    def command(self, name: str, do: str, ns: int) -> None:
        """Start or clear fault ``name`` at ``ns``; :meth:`follow` applies the change to plants."""
        activity = self.check(name)
        if do == "start":
            activity.start(ns)
        else:
            activity.clear()
        self._told.append(name)

    def follow(self, ns: int) -> None:
        """Apply the commands given at ``ns`` to the inputs of plants."""
        if self._told:
            told, self._told = set(self._told), []
            for task in self.tasks:
                if task.name.removeprefix("fault.") in told:
                    task.told(ns)

    def record(self, event: EventSink) -> None:
        self.present.event = event

    def feed(self, events: Sequence[Event]) -> None:
        """Set the recorded ``events`` of line and timing faults, which a replay only repeats."""
        gone = {fault.name for fault in self.faults if fault.kind.level == "line"}
        if self.loop is not None:
            self.loop.told_again = True
            gone |= {fault.name for fault in self.loop.late}
        self._fed = [e for e in events if e.source in gone]

    def unpaced(self) -> None:
        """Mark faults that take time as idle, because the run is not paced."""
        if self.loop is not None:
            self.idle |= {fault.name: UNPACED for fault in self.loop.late}

    def telling(
        self, run: Callable[Concatenate[int, _More], None]
    ) -> Callable[Concatenate[int, _More], None]:
        """Return a function that tells all faults the present time and then calls ``run``."""

        def told(ns: int, /, *more: _More.args, **named: _More.kwargs) -> None:
            first, self.present.ns = self.present.ns < 0, ns
            if self._fed is not None:
                self._say_again(ns)
            elif first:
                self._say_idle(ns)
            run(ns, *more, **named)

        return told

    def over(self, ns: int) -> None:
        """Repeat, at the end of the run, the remaining recorded events up to ``ns``."""
        self._say_again(ns)

    def _say_again(self, ns: int) -> None:
        while self._fed and self._fed[0].tag.ns <= ns:
            event = self._fed.pop(0)
            values = {k: float(v) for k, v in event.values.items()}
            self.present.event(event.tag, event.kind, event.source, event.text, values)

    def _say_idle(self, ns: int) -> None:
        for name, reason in self.idle.items():
            self.present.event(Tag(ns), FAULT_IDLE, name, reason, {})

    def save(self) -> dict[str, Any]:
        return {
            "ns": self.present.ns,
            "signals": [s.save() for s in self.signals],
            "transports": {n: t.save() for n, t in self.transports.items()},
            "lines": {n: line.save() for n, line in self.lines.items()},
            "own": {n: streams.save() for n, streams in self.own_streams.items()},
            **({} if self.loop is None else {"loop": self.loop.save()}),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Restore the data from :meth:`save`, with the same faults."""
        self.present.ns = saved["ns"]
        for fault, state in zip(self.signals, saved["signals"], strict=True):
            fault.restore(state)
        for name, transport in self.transports.items():
            transport.restore(saved["transports"][name])
        for name, line in self.lines.items():
            line.restore(saved["lines"][name])
        for name, streams in self.own_streams.items():
            streams.restore(saved["own"][name])
        if self.loop is not None:
            self.loop.restore(saved["loop"])
