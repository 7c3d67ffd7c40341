"""Install the faults of a run, and start and end them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec

from rtsim.components.bus import Bus
from rtsim.components.controller import ControllerProtocol
from rtsim.components.plant import RunningPlant
from rtsim.components.ports import SignalPort
from rtsim.components.tasks import Environment
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals
from rtsim.core.tag import Period, Tag
from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.at_loop import UNPACED, LoopFault, LoopFaults
from rtsim.engine.faults.at_messages import FaultyTransport, MessageFault
from rtsim.engine.faults.at_signals import FaultyWiring, SignalFault
from rtsim.engine.faults.kind import EventSink, Fault, FaultError, Places, Present
from rtsim.engine.faults.line_kinds import BOARD_ENDS, HasLine, LineFaults
from rtsim.record.events import FAULT_IDLE, Event

_More = ParamSpec("_More")

FIRST = -(2**62)
"""Priority of fault tasks, which run before all readers."""


class FaultTask:
    """Task that updates faulty inputs of plants.

    The task runs when the fault begins or ends, and at each of its ticks.
    """

    period: Period | None = None
    priority = FIRST

    def __init__(
        self,
        fault: SignalFault,
        wiring: FaultyWiring,
        plants: Sequence[RunningPlant],
        every: Period,
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
        """Apply a command to the fault."""
        self._offset, self._k = ns, 0  # the ticks of the fault restart at this time
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
    """All faults of a run."""

    def __init__(self, faults: Sequence[Fault], present: Present) -> None:
        self.faults = tuple(faults)
        self.present = present
        self.signals: list[SignalFault] = []
        self.read: set[str] = set()
        """Names of the ports whose readers receive changed values."""
        self.transports: dict[str, FaultyTransport] = {}
        self.lines: dict[str, LineFaults] = {}
        self.at_lines: set[str] = set()
        """Names of the faults on lines."""
        self.tasks: list[FaultTask] = []
        self.activities: dict[str, Activity] = {}
        self.own_streams: dict[str, RandomStreams] = {}
        """Random streams of faults with their own seed, by name of the fault."""
        self.idle: dict[str, str] = {}
        """Reason why a fault cannot act in this run, by name of the fault."""
        self.loop: LoopFaults | None = None
        self._fed: list[Event] | None = None
        self._told: list[str] = []

    @property
    def counts(self) -> dict[str, int]:
        """Number of activations by name of the fault."""
        return {f.name: self.activities[f.name].activations for f in self.faults}

    def check(self, name: str) -> Activity:
        """Return the state of a fault; raise an error if it cannot act."""
        if name not in self.activities:
            raise UnknownName("fault", name, self.activities, "this run")
        if name in self.idle and self._fed is None:
            raise FaultError(f"fault {name} cannot act in this run: {self.idle[name]}")
        return self.activities[name]

    def command(self, name: str, do: str, ns: int) -> None:
        """Start or clear the fault ``name`` at ``ns``; call :meth:`follow` to update plants."""
        activity = self.check(name)
        if do == "start":
            activity.start(ns)
        else:
            activity.clear()
        self._told.append(name)

    def follow(self, ns: int) -> None:
        """Update the inputs of plants after commands at ``ns``."""
        if self._told:
            told, self._told = set(self._told), []
            for task in self.tasks:
                if task.name.removeprefix("fault.") in told:
                    task.told(ns)

    def record(self, event: EventSink) -> None:
        self.present.event = event

    def feed(self, events: Sequence[Event]) -> None:
        """Set the recorded ``events`` for a replay.

        A replay only repeats the events of faults on lines and of timing faults.
        """
        gone = set(self.at_lines)
        if self.loop is not None:
            self.loop.told_again = True
            gone |= {fault.name for fault in self.loop.late}
        self._fed = [e for e in events if e.source in gone]

    def unpaced(self) -> None:
        """Note that timing faults have no effect in a run without real time."""
        if self.loop is not None:
            self.idle |= {fault.name: UNPACED for fault in self.loop.late}

    def telling(
        self, run: Callable[Concatenate[int, _More], None]
    ) -> Callable[Concatenate[int, _More], None]:
        """Return a function that sets the time of all faults and then calls ``run``."""

        def told(ns: int, /, *more: _More.args, **named: _More.kwargs) -> None:
            first, self.present.ns = self.present.ns < 0, ns
            if self._fed is not None:
                self._say_again(ns)
            elif first:
                self._say_idle(ns)
            run(ns, *more, **named)

        return told

    def over(self, ns: int) -> None:
        """Repeat the remaining recorded events at the end of the run."""
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


class Installer(Places):
    """Install the faults of a run."""

    _bus: Bus

    def __init__(self, faults: Sequence[Fault], streams: RandomStreams) -> None:
        self.present = Present()
        self._faults = faults
        self._streams = streams
        self._schedule = Schedule(faults, self.present)
        self._ports: Mapping[str, SignalPort] = {}
        self._wirings: Mapping[str, FaultyWiring] = {}
        self._plants: Mapping[str, RunningPlant] = {}
        self._controllers: Mapping[str, ControllerProtocol] = {}
        self._tasks: Sequence[str] = ()
        self._scheduled: Collection[str] = ()
        self._messages: defaultdict[str, list[MessageFault]] = defaultdict(list)
        self._lines: defaultdict[str, list[Activity]] = defaultdict(list)
        self._loop: list[LoopFault] = []

    def install(
        self,
        ports: Mapping[str, SignalPort],
        wirings: Mapping[str, FaultyWiring],
        plants: Mapping[str, RunningPlant],
        bus: Bus,
        controllers: Mapping[str, ControllerProtocol],
        tasks: Sequence[str] = (),
        scheduled: Collection[str] = (),
    ) -> Schedule:
        """Install all faults after all components are built.

        ``scheduled`` are the names of the tasks that run on simulated processors. Raises
        :class:`FaultError` on failure.
        """
        self._ports, self._wirings, self._plants = ports, wirings, plants
        self._bus, self._controllers, self._tasks = bus, controllers, tasks
        self._scheduled = scheduled
        for fault in self._faults:
            try:
                fault.kind.put(fault, self)
            except ScenarioError as error:
                raise fault.error(error) from None
        for name, faults in self._messages.items():
            transport = FaultyTransport(bus.topics[name].transport, faults, self.present)
            bus.topics[name] = replace(bus.topics[name], transport=transport)
            self._schedule.transports[name] = transport
        for name, activities in self._lines.items():
            self._line(name, controllers[name], activities)
        if self._loop:
            self._schedule.loop = LoopFaults(self._loop, self.present, tasks)
        return self._schedule

    def at_messages(self, fault: Fault, kind: type[MessageFault]) -> None:
        self._check_topic(fault, self._bus)
        if kind.needs_medium and not self._bus.on_medium(fault.where):
            reason = f"messages of {fault.where} travel on no medium: {kind.name} acts on frames"
            self._schedule.idle[fault.name] = f"{reason} of a medium such as a CanBus"
            self._activity(fault)
            return
        self._messages[fault.where].append(kind(self._activity(fault)))

    def in_loop(self, fault: Fault, kind: type[LoopFault]) -> None:
        kind.check_job(fault, self._tasks)
        if kind.moment == "tick" and fault.signal in self._scheduled:
            raise ScenarioError(
                f"{fault.signal} runs on a simulated processor, which has no {kind.name}; give "
                "another kind of fault, or missed='skip' and a longer execution time"
            )
        self._loop.append(kind(self._activity(fault)))

    def at_line(self, fault: Fault) -> None:
        if fault.part not in self._controllers:
            raise UnknownName("controller", fault.part, sorted(self._controllers))
        self._lines[fault.part].append(self._activity(fault))
        self._schedule.at_lines.add(fault.name)

    def _activity(self, fault: Fault) -> Activity:
        streams = self._streams
        if fault.seed is not None:
            streams = self._schedule.own_streams[fault.name] = RandomStreams(fault.seed)
        holds = None if fault.when is None else fault.when.bind(self._ports)
        activity = Activity(fault, streams.stream(f"fault/{fault.name}"), holds)
        self._schedule.activities[fault.name] = activity
        return activity

    def at_signal(self, fault: Fault, kind: type[SignalFault]) -> None:
        """Install a fault at one input, or at all readers of a signal."""
        sampled = self._wirings.get(fault.part)
        if sampled is not None and _names(sampled.signals, fault.signal):
            base, at = _element(sampled.signals, fault.signal)
            readers = [(fault.part, sampled, base, at)]
            signals = sampled.signals
        else:
            if fault.part not in self._ports:
                raise UnknownName("component", fault.part, sorted(self._ports))
            signals = self._ports[fault.part].signals
            if not _names(signals, fault.signal):
                known = [*(sampled.signals.names if sampled else ()), *signals.names]
                raise UnknownName("signal", fault.signal, dict.fromkeys(known), fault.part)
            base, at = _element(signals, fault.signal)
            readers = [
                (owner, wiring, name, at)
                for owner, wiring in sorted(self._wirings.items())
                for name, source in sorted(wiring.sources.items())
                if source == f"{fault.part}.{base}"
            ]
            if not readers:
                self._schedule.idle[fault.name] = f"nobody reads {fault.where}"
        first = signals.slice(base).start
        columns = signals.columns[first + at.start : first + at.stop]
        made = kind(self._activity(fault), self.present, columns)
        self._schedule.signals.append(made)
        for _, wiring, name, where in readers:
            self._schedule.read.add(str(wiring.sources.get(name, "")).partition(".")[0])
            start = wiring.signals.slice(name).start
            wiring.spoil(made, slice(start + where.start, start + where.stop))
        self._look_for_plants(fault, made, [owner for owner, *_ in readers])

    def _look_for_plants(self, fault: Fault, made: SignalFault, owners: Sequence[str]) -> None:
        """Add a task for a faulty signal that plants read."""
        plants = [self._plants[name] for name in dict.fromkeys(owners) if name in self._plants]
        if plants:
            every = plants[0].step if fault.period is None else fault.period
            wiring = self._wirings[plants[0].name]
            self._schedule.tasks.append(FaultTask(made, wiring, plants, every))

    def _check_topic(self, fault: Fault, bus: Bus) -> None:
        if fault.where in bus.topics:
            return
        if fault.where in self._ports:
            raise ScenarioError(
                f"{fault.where} sends no messages, because its signals are read directly; add a "
                f"sensor, or name one of its signals: where = '{fault.where}.NAME'"
            )
        raise UnknownName("sender of messages", fault.where, sorted(bus.topics))

    def _line(
        self, name: str, controller: ControllerProtocol, activities: Sequence[Activity]
    ) -> None:
        line = controller if isinstance(controller, HasLine) else None
        ends = () if line is None else getattr(line, "ends", BOARD_ENDS)
        fit = [activity for activity in activities if activity.fault.signal in ends]
        for activity in activities:
            if activity not in fit:
                kind = activity.fault.kind.name
                what = "packets" if "program" in activity.fault.signal else "a board's bytes"
                reason = f"{name} has no line here: {kind} acts on {what}"
                self._schedule.idle[activity.fault.name] = reason
        if fit and line is not None:
            self._schedule.lines[name] = LineFaults(fit, self.present)
            line.spoil(self._schedule.lines[name])


def _names(signals: Signals, name: str) -> bool:
    return name in signals or name in signals.columns


def _element(signals: Signals, name: str) -> tuple[str, slice]:
    if name in signals:
        return name, slice(0, signals[name].size)
    for signal in signals:
        if name in signal.columns:
            k = signal.columns.index(name)
            return signal.name, slice(k, k + 1)
    raise UnknownName("signal", name, signals.names)
