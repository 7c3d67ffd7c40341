"""From descriptions to faults in place: names resolved, wirings and links spoiled."""

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
from rtsim.engine.faults.at_loop import LoopFaults
from rtsim.engine.faults.at_messages import FaultyTransport
from rtsim.engine.faults.at_signals import KINDS, FaultyWiring, SignalFault
from rtsim.engine.faults.description import Fault
from rtsim.engine.faults.present import Present
from rtsim.engine.faults.schedule import FaultTask, Schedule
from rtsim.timing.pacing import NEXT, RECORDING


class Installer:
    """Puts the faults of one run in place; every name is resolved, or it is an error."""

    def __init__(self, faults: Sequence[Fault], streams: RandomStreams) -> None:
        self.present = Present()
        self._faults = faults
        self._streams = streams
        self._schedule = Schedule(faults, self.present)
        self._ports: Mapping[str, SignalPort] = {}
        self._wirings: Mapping[str, FaultyWiring] = {}
        self._plants: Mapping[str, Plant] = {}

    def install(
        self,
        ports: Mapping[str, SignalPort],
        wirings: Mapping[str, FaultyWiring],
        plants: Mapping[str, Plant],
        bus: Bus,
        controllers: Mapping[str, Controller],
        tasks: Sequence[str] = (),
    ) -> Schedule:
        """Once all parts are there.  Raises :class:`FaultError`."""
        self._ports, self._wirings, self._plants = ports, wirings, plants
        messages: defaultdict[str, list[Activity]] = defaultdict(list)
        lines: defaultdict[str, list[Activity]] = defaultdict(list)
        loop: list[Activity] = []
        for fault in self._faults:
            try:
                if fault.kind.level == "signal":
                    self._signal(fault)
                elif fault.kind.level == "message":
                    self._check_topic(fault, bus)
                    messages[fault.where].append(self._activity(fault))
                elif fault.kind.level == "loop":
                    _check_job(fault, tasks)
                    loop.append(self._activity(fault))
                else:
                    if fault.part not in controllers:
                        raise UnknownName("controller", fault.part, sorted(controllers))
                    lines[fault.part].append(self._activity(fault))
            except ScenarioError as error:
                raise fault.error(error) from None
        for name, activities in messages.items():
            transport = FaultyTransport(bus.topics[name].transport, activities, self.present)
            bus.topics[name] = replace(bus.topics[name], transport=transport)
            self._schedule.transports[name] = transport
        for name, activities in lines.items():
            self._line(name, controllers[name], activities)
        if loop:
            self._schedule.loop = LoopFaults(loop, self.present, tasks)
        return self._schedule

    def _activity(self, fault: Fault) -> Activity:
        streams = self._streams
        if fault.seed is not None:
            streams = self._schedule.own_streams[fault.name] = RandomStreams(fault.seed)
        holds = None if fault.when is None else fault.when.bind(self._ports)
        activity = Activity(fault, streams.stream(f"fault/{fault.name}"), holds)
        self._schedule.activities[fault.name] = activity
        return activity

    def _signal(self, fault: Fault) -> None:
        """An input is spoiled on its way in, anything else on each way out."""
        sampled = self._wirings.get(fault.part)
        if sampled is not None and _names(sampled.signals, fault.signal):
            base, at = _element(sampled.signals, fault.signal)
            readers = [(fault.part, sampled, base, at)]
            signals = sampled.signals
        else:
            if fault.part not in self._ports:
                raise UnknownName("part", fault.part, sorted(self._ports))
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
        made = KINDS[fault.kind.name](self._activity(fault), self.present, columns)
        self._schedule.signals.append(made)
        for _, wiring, name, where in readers:
            start = wiring.signals.slice(name).start
            wiring.spoil(made, slice(start + where.start, start + where.stop))
        self._look_for_plants(fault, made, [owner for owner, *_ in readers])

    def _look_for_plants(self, fault: Fault, made: SignalFault, owners: Sequence[str]) -> None:
        """Plants read when their solver needs it: the fault has ticks of its own for them."""
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
                f"{fault.where} sends no messages, its signals are read where they stand; "
                f"put a sensor between, or spoil a signal: where = '{fault.where}.NAME'"
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


def _check_job(fault: Fault, tasks: Sequence[str]) -> None:
    others = () if fault.kind.name == "lost_tick" else (NEXT, RECORDING)
    if fault.signal and fault.signal not in (*tasks, *others):
        raise UnknownName("job", fault.signal, sorted((*tasks, *others)))


def _names(signals: Signals, name: str) -> bool:
    return name in signals or name in signals.columns


def _element(signals: Signals, name: str) -> tuple[str, slice]:
    """The signal, and which of its elements ``name`` means: all, or one, as ``position_1``."""
    if name in signals:
        return name, slice(0, signals[name].size)
    for signal in signals:
        if name in signal.columns:
            k = signal.columns.index(name)
            return signal.name, slice(k, k + 1)
    raise UnknownName("signal", name, signals.names)
