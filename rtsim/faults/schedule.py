"""The faults of one run: told of each instant before anything reacts in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rtsim.faults.activity import Activity
from rtsim.faults.at_lines import LineFaults
from rtsim.faults.at_messages import FaultyTransport
from rtsim.faults.at_signals import FaultyWiring, SignalFault
from rtsim.faults.description import Fault
from rtsim.faults.present import EventSink, Present
from rtsim.plant import Plant
from rtsim.random_streams import RandomStreams
from rtsim.record.event import Event
from rtsim.record.fault_marks import FAULT_IDLE
from rtsim.tag import Period, Tag
from rtsim.tasks import Environment

FIRST = -(2**62)
"""Priority: a fault is decided before anybody reads."""


class FaultTask:
    """Looks at a fault of what plants read: at its edges and, where it needs it, at its ticks."""

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
        """The next is known when this one has been looked at."""

    def react(self, tag: Tag, environment: Environment) -> None:  # noqa: ARG002
        self._wiring.look(self._fault)
        for plant in self._plants:
            plant.stale = True
        self.next_ns = self._edge(tag.ns)
        if self._ticks:
            while self._every.tick(self._k, self._offset) <= tag.ns:
                self._k += 1
            self.next_ns = min(self.next_ns, self._every.tick(self._k, self._offset))

    def save(self) -> dict[str, Any]:
        return {"k": self._k, "next": self.next_ns}

    def restore(self, saved: dict[str, Any]) -> None:
        self._k, self.next_ns = saved["k"], saved["next"]


class Schedule:
    """All faults of a run, and what they share."""

    def __init__(self, faults: Sequence[Fault], present: Present) -> None:
        self.faults = tuple(faults)
        self.present = present
        self.signals: list[SignalFault] = []
        self.transports: dict[str, FaultyTransport] = {}
        self.lines: dict[str, LineFaults] = {}
        self.tasks: list[FaultTask] = []
        self.activities: dict[str, Activity] = {}
        self.own_streams: dict[str, RandomStreams] = {}
        """Of the faults that have a seed of their own."""
        self.idle: dict[str, str] = {}
        """Why a fault does nothing in this run, by its name."""
        self._fed: list[Event] | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Activations so far, by the name of the fault."""
        return {f.name: self.activities[f.name].activations for f in self.faults}

    def record(self, event: EventSink) -> None:
        self.present.event = event

    def feed(self, events: Sequence[Event]) -> None:
        """Replay: what happened at the bytes is said again, where the bytes are not there."""
        at_lines = {fault.name for fault in self.faults if fault.kind.level == "line"}
        self._fed = [e for e in events if e.source in at_lines]

    def telling(self, run: Callable[[int, bool], None]) -> Callable[[int, bool], None]:
        """``run`` of an instant, with the faults told of it before."""

        def told(ns: int, discrete: bool) -> None:
            first, self.present.ns = self.present.ns < 0, ns
            if self._fed is not None:
                self._say_again(ns)
            elif first:
                self._say_idle(ns)
            run(ns, discrete)

        return told

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
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Back to what :meth:`save` saw, with the same faults."""
        self.present.ns = saved["ns"]
        for fault, state in zip(self.signals, saved["signals"], strict=True):
            fault.restore(state)
        for name, transport in self.transports.items():
            transport.restore(saved["transports"][name])
        for name, line in self.lines.items():
            line.restore(saved["lines"][name])
        for name, streams in self.own_streams.items():
            streams.restore(saved["own"][name])
