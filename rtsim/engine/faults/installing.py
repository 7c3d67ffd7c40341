"""Install the declared faults of a run at its signals, messages, serial lines and loop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rtsim.components.bus import Bus
from rtsim.components.controller import Controller
from rtsim.components.plant import Plant
from rtsim.components.ports import SignalPort
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals
from rtsim.engine.faults.activity import Activity
from rtsim.engine.faults.at_lines import HasLine, LineFaults
from rtsim.engine.faults.at_loop import LoopFault, LoopFaults
from rtsim.engine.faults.at_messages import FaultyTransport, MessageFault
from rtsim.engine.faults.at_signals import FaultyWiring, SignalFault
from rtsim.engine.faults.kind import Fault, Places
from rtsim.engine.faults.present import Present
from rtsim.engine.faults.schedule import FaultTask, Schedule


class Installer(Places):
    """Installs the faults of one run; raises an error for an unknown name."""

    _bus: Bus

    def __init__(self, faults: Sequence[Fault], streams: RandomStreams) -> None:
        self.present = Present()
        self._faults = faults
        self._streams = streams
        self._schedule = Schedule(faults, self.present)
        self._ports: Mapping[str, SignalPort] = {}
        self._wirings: Mapping[str, FaultyWiring] = {}
        self._plants: Mapping[str, Plant] = {}
        self._controllers: Mapping[str, Controller] = {}
        self._tasks: Sequence[str] = ()
        self._messages: defaultdict[str, list[MessageFault]] = defaultdict(list)
        self._lines: defaultdict[str, list[Activity]] = defaultdict(list)
        self._loop: list[LoopFault] = []

    def install(
        self,
        ports: Mapping[str, SignalPort],
        wirings: Mapping[str, FaultyWiring],
        plants: Mapping[str, Plant],
        bus: Bus,
        controllers: Mapping[str, Controller],
        tasks: Sequence[str] = (),
    ) -> Schedule:
        """Install all faults; call it after all components are built.

        Raises :class:`FaultError`.
        """
        self._ports, self._wirings, self._plants = ports, wirings, plants
        self._bus, self._controllers, self._tasks = bus, controllers, tasks
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
            reason = f"messages of {fault.where} travel on no bus: {kind.name} acts on frames"
            self._schedule.idle[fault.name] = f"{reason} of a CanBus"
            self._activity(fault)
            return
        self._messages[fault.where].append(kind(self._activity(fault)))

    def in_loop(self, fault: Fault, kind: type[LoopFault]) -> None:
        kind.check_job(fault, self._tasks)
        self._loop.append(kind(self._activity(fault)))

    def at_line(self, fault: Fault) -> None:
        if fault.part not in self._controllers:
            raise UnknownName("controller", fault.part, sorted(self._controllers))
        self._lines[fault.part].append(self._activity(fault))

    def _activity(self, fault: Fault) -> Activity:
        streams = self._streams
        if fault.seed is not None:
            streams = self._schedule.own_streams[fault.name] = RandomStreams(fault.seed)
        holds = None if fault.when is None else fault.when.bind(self._ports)
        activity = Activity(fault, streams.stream(f"fault/{fault.name}"), holds)
        self._schedule.activities[fault.name] = activity
        return activity

    def at_signal(self, fault: Fault, kind: type[SignalFault]) -> None:
        """Install a fault at one input, or at all readers of another signal."""
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
            start = wiring.signals.slice(name).start
            wiring.spoil(made, slice(start + where.start, start + where.stop))
        self._look_for_plants(fault, made, [owner for owner, *_ in readers])

    def _look_for_plants(self, fault: Fault, made: SignalFault, owners: Sequence[str]) -> None:
        """Add a task that makes items of the fault, because a plant reads at irregular times."""
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

    def _line(self, name: str, controller: Controller, activities: Sequence[Activity]) -> None:
        if isinstance(controller, HasLine):
            line = LineFaults(activities, self.present)
            self._schedule.lines[name] = line
            controller.spoil(line)
            return
        for activity in activities:
            reason = f"{name} has no line here: {activity.fault.kind.name} acts on a board's bytes"
            self._schedule.idle[activity.fault.name] = reason


def _names(signals: Signals, name: str) -> bool:
    return name in signals or name in signals.columns


def _element(signals: Signals, name: str) -> tuple[str, slice]:
    """Return the signal and the slice of its elements to which ``name`` (``position_1``) refers."""
    if name in signals:
        return name, slice(0, signals[name].size)
    for signal in signals:
        if name in signal.columns:
            k = signal.columns.index(name)
            return signal.name, slice(k, k + 1)
    raise UnknownName("signal", name, signals.names)
