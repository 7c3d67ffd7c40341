"""From declared parts to a system that runs: names resolved, vectors laid out, functions bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from rtsim.components.bus import Bus, Topic
from rtsim.components.controller import Controller, PythonController
from rtsim.components.controller_task import ControllerTask
from rtsim.components.external_inputs import ExternalInput
from rtsim.components.plant import Plant
from rtsim.components.ports import SignalPort, Source, Wiring, check_wired
from rtsim.components.tasks import NoiseTask, SensorTask, Task, TimerTask, UpdateTask
from rtsim.core.clock import Wake
from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.raised import NOT_FOR_PARTS, blame, interrupt, on_ctrl_c
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.engine.faults import Fault
from rtsim.engine.faults.at_signals import FaultyWiring
from rtsim.engine.faults.installing import Installer
from rtsim.engine.faults.schedule import Schedule
from rtsim.engine.system import Change, Changeable, MessageListener, System, reaction_order
from rtsim.equations.compiling import Compilation
from rtsim.equations.model import bind
from rtsim.scenario.parts import (
    ControllerPart,
    ExternalInputPart,
    NoisePart,
    Part,
    PlantPart,
    ProcessesPart,
    SensorPart,
    SourcePart,
    TopicPart,
    Values,
    readable,
)

if TYPE_CHECKING:
    from rtsim.discrete.task import ProcessesTask


class Builder:
    """Makes one system of a scenario."""

    def __init__(
        self,
        parts: Mapping[str, Part],
        orders: Sequence[tuple[str, str]],
        changes: Sequence[tuple[int, str, object]],
        seed: int,
        compile: Compilation,
        inlets: Mapping[str, ExternalInput],
        controllers: Mapping[str, Controller],
        faults: Sequence[Fault] = (),
    ) -> None:
        self.parts = parts
        self.orders = orders
        self.scheduled = changes
        self.compile = compile
        self.replaced = inlets
        self.instead = controllers
        self.seed = seed
        self.streams = RandomStreams(seed)
        self.bus = Bus(self.streams)
        self.ports: dict[str, SignalPort] = {}
        self.plants: dict[str, Plant] = {}
        self.tasks: list[Task] = []
        self.controllers: dict[str, ControllerTask] = {}
        self.processes: dict[str, ProcessesTask] = {}
        self.inlets: list[ExternalInput] = []
        self.wirings: dict[str, Wiring] = {}
        self.faults = Installer(faults, self.streams) if faults else None

    def system(self) -> System:
        """Everything, or nothing: what was started before an error is closed again."""
        with on_ctrl_c(interrupt):
            try:
                return self._system()
            except BaseException as error:
                for task in self.controllers.values():
                    with suppress(RtsimError):
                        task.controller.close()
                if isinstance(error, NOT_FOR_PARTS):
                    blame("a part of the scenario", "the start", error, ScenarioError)
                raise

    def _system(self) -> System:
        for name, part in sorted(self.parts.items()):
            if isinstance(part, PlantPart):
                self._plant(name, part)
            elif isinstance(part, ControllerPart):
                self._controller(name, part)
            elif isinstance(part, SensorPart):
                self._sensor(name, part)
            elif isinstance(part, ProcessesPart):
                self._processes(name, part)
            elif isinstance(part, TopicPart):
                self._port(name, part.signals)
                self.bus.add(Topic(name, part.sender, part.signals, part.transport))
            else:
                self._source(name, part)
        before = predecessors(self.orders)
        for name, wiring in self.wirings.items():
            read = wiring.connect(self.ports, before.get(name, frozenset()))
            if name in self.plants:
                plant = self.plants[name]
                plant.sources = read
                plant.reads_plants = any(n in self.plants for n in read)
        for name, controller in self.controllers.items():
            controller.successors = frozenset(n for n, firsts in before.items() if name in firsts)
        faults = None if self.faults is None else self._install(self.faults)
        changeable = self._changeable()
        for task in self.processes.values():
            task.changeable = changeable
        return System(
            plants=[self.plants[n] for n in sorted(self.plants)],
            ports=self.ports,
            tasks=reaction_order(self.tasks, self.orders),
            controllers=[self.controllers[n] for n in sorted(self.controllers)],
            inlets=self.inlets,
            bus=self.bus,
            streams=self.streams,
            changes=self._changes(changeable),
            changeable=changeable,
            triggers=self._triggers(),
            listeners=self._listeners(),
            wake=self._wake(),
            faults=faults,
        )

    def _install(self, installer: Installer) -> Schedule:
        wirings = {n: w for n, w in self.wirings.items() if isinstance(w, FaultyWiring)}
        controllers = {name: task.controller for name, task in self.controllers.items()}
        tasks = [task.name for task in self.tasks if task.name not in self.processes]
        faults = installer.install(self.ports, wirings, self.plants, self.bus, controllers, tasks)
        self.tasks.extend(faults.tasks)
        return faults

    def _wiring(
        self, into: Vector, signals: Signals, sources: Mapping[str, Source], owner: str
    ) -> Wiring:
        """A plain one, unless something is to go wrong in this run."""
        check_wired(signals, sources, owner)
        if self.faults is None:
            return Wiring(into, signals, sources, owner)
        items = owner not in self.plants
        return FaultyWiring(into, signals, sources, owner, self.faults.present, items)

    def _port(self, name: str, signals: Signals, values: Values | None = None) -> SignalPort:
        port = SignalPort(name, signals, signals.initial(values))
        self.ports[name] = port
        return port

    def _plant(self, name: str, part: PlantPart) -> None:
        model = part.model
        constants = {k: v for k, v in part.inputs.items() if not isinstance(v, str)}
        x = model.states.initial(part.states)
        z = model.discrete.initial(part.discrete)
        u = model.inputs.initial(constants)
        p = model.parameters.initial(part.parameters)
        bound = bind(model, compile=self.compile, x=x, p=p, u=u)
        plant = Plant(name, bound, part.solver, part.step, (x, z, u, p))
        self.plants[name], self.ports[name] = plant, plant.port
        plant.wiring = self._wiring(u.copy(), model.inputs, part.inputs, name)
        self.wirings[name] = plant.wiring
        if part.update_period is not None:
            task = UpdateTask(plant, part.update_period, part.update_offset_ns, part.priority)
            self.tasks.append(task)
        if model.timers:
            self.tasks.append(TimerTask(plant, part.priority))

    def _controller(self, name: str, part: ControllerPart) -> None:
        controller = self._fresh(name, part)
        wiring = self._wiring(controller.inputs.initial(), controller.inputs, part.inputs, name)
        task = ControllerTask(
            name,
            controller,
            wiring,
            part.period,
            part.offset_ns,
            part.priority,
            part.compute,
            part.late,
            part.failure,
        )
        self.wirings[name], self.controllers[name] = wiring, task
        self._port(name, controller.outputs)
        immediate = any(first == name for first, _ in self.orders)
        self.bus.add(Topic(name, name, controller.outputs, part.transport, immediate))
        self.tasks.append(task)

    def _sensor(self, name: str, part: SensorPart) -> None:
        signals = readable(part, self.parts)
        wiring = self._wiring(signals.initial(), signals, part.sources, name)
        self._port(name, signals)
        self.wirings[name] = wiring
        self.bus.add(Topic(name, name, signals, part.transport))
        self.tasks.append(SensorTask(name, wiring, part.period, part.offset_ns, part.priority))

    def _processes(self, name: str, part: ProcessesPart) -> None:
        from rtsim.discrete.task import ProcessesTask  # and SimPy, where somebody needs it

        processes = part.processes
        wiring = self._wiring(processes.inputs.initial(), processes.inputs, part.inputs, name)
        p = processes.parameters.initial(part.parameters)
        task = ProcessesTask(name, processes, wiring, p, part.on, self.seed, part.priority)
        self.wirings[name], self.processes[name] = wiring, task
        self._port(name, processes.outputs)
        if processes.outputs.size:
            self.bus.add(Topic(name, name, processes.outputs, part.transport))
        self.tasks.append(task)

    def _source(self, name: str, part: NoisePart | SourcePart | ExternalInputPart) -> None:
        if isinstance(part, SourcePart):
            self._port(name, part.signals, part.values)
        elif isinstance(part, NoisePart):
            port = self._port(name, part.signals)
            self.tasks.append(NoiseTask(port, part.mean, part.deviation, part.period))
        else:
            inlet = self.replaced.get(name, part.inlet)
            self._port(name, inlet.signals)
            self.inlets.append(inlet)

    def _fresh(self, name: str, part: ControllerPart) -> Controller:
        """What runs as controller ``name``: a law of its own, or the one object that is outside."""
        if name in self.instead:
            return self.instead[name]
        ready = getattr(part.controller, "ready", None)
        if ready is not None:
            law: Controller = ready(self.compile)
            return law
        fresh = getattr(part.controller, "fresh", None)
        if fresh is not None:
            made: Controller = fresh()
            return made
        for other, task in self.controllers.items():
            if task.controller is part.controller:
                raise ScenarioError(
                    f"controllers {other} and {name} are one object; make one for each"
                )
        return part.controller

    def _wake(self) -> Wake | None:
        wakes = {id(i.wake): i.wake for i in self.inlets if i.wake is not None}
        if len(wakes) > 1:
            names = ", ".join(i.name for i in self.inlets if i.wake is not None)
            raise ScenarioError(f"event inputs {names} have several wakes; give them one Wake()")
        return next(iter(wakes.values()), None)

    def _triggers(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for name, part in sorted(self.parts.items()):
            for topic in part.on if isinstance(part, ControllerPart) else ():
                if topic not in self.bus.topics:
                    raise UnknownName("topic", topic, sorted(self.bus.topics), f"on= of {name}")
                out.setdefault(topic, []).append(name)
        return out

    def _listeners(self) -> dict[str, list[MessageListener]]:
        """Who is told of which topics and guards."""
        guards = {
            f"{name}.{guard.name}"
            for name, plant in self.plants.items()
            for guard in plant.bound.model.guards
        }
        out: dict[str, list[MessageListener]] = {}
        for name, task in sorted(self.processes.items()):
            part = self.parts[name]
            assert isinstance(part, ProcessesPart)
            for heard in part.on:
                if heard not in self.bus.topics and heard not in guards:
                    known = sorted(guards) if "." in heard else sorted(self.bus.topics)
                    what = "guard" if "." in heard else "topic"
                    raise UnknownName(what, heard, known, f"on= of {name}")
                out.setdefault(heard, []).append(task)
            task.listen({n: self.bus.topics[n].signals for n in part.on if n in self.bus.topics})
        return out

    def _changes(self, changeable: Mapping[str, Changeable]) -> list[Change]:
        changes = [_known(changeable, target).change(ns, v) for ns, target, v in self.scheduled]
        return sorted(changes, key=lambda c: (c.ns, c.name))

    def _changeable(self) -> dict[str, Changeable]:
        """Parameters of plants and laws, values of sources."""
        out: dict[str, Changeable] = {}

        def add(
            part: str, signals: Signals, vector: Vector, owner: Plant | SignalPort | None
        ) -> None:
            for signal in signals:
                target = f"{part}.{signal.name}"
                out[target] = Changeable(target, signal.name, signals, vector, owner)

        for name, part in sorted(self.parts.items()):
            if isinstance(part, PlantPart):
                add(name, part.model.parameters, self.plants[name].p, self.plants[name])
            elif isinstance(part, ControllerPart):
                controller = self.controllers[name].controller
                if isinstance(controller, PythonController):
                    add(name, controller.parameters, controller.p, None)
            elif isinstance(part, ProcessesPart):
                add(name, part.processes.parameters, self.processes[name].p, None)
            elif isinstance(part, SourcePart):
                port = self.ports[name]
                add(name, port.signals, port.value, port)
        return out


def _known(changeable: Mapping[str, Changeable], target: str) -> Changeable:
    if target not in changeable:
        raise ScenarioError(
            f"{target} cannot change while running; a source's values and parameters can"
        )
    return changeable[target]


def predecessors(orders: Sequence[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """For each controller in a declared order, all that come before it, however far."""
    direct: dict[str, set[str]] = {}
    for first, later in orders:
        direct.setdefault(later, set()).add(first)

    def all_before(name: str, path: tuple[str, ...]) -> frozenset[str]:
        found = direct.get(name, set()) - set(path)
        return frozenset(found).union(*(all_before(n, (*path, name)) for n in found))

    return {name: all_before(name, ()) for name in direct}
