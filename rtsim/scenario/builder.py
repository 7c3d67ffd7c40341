"""Build a system from the components of a scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from rtsim.components.bus import Bus
from rtsim.components.controller import ControllerProtocol
from rtsim.components.controller_task import ControllerTask
from rtsim.components.external_inputs import ExternalInput
from rtsim.components.latency import for_one_run
from rtsim.components.plant import RunningPlant
from rtsim.components.ports import SignalPort, Wiring
from rtsim.components.processor import Processor
from rtsim.components.processor_tasks import TaskTiming
from rtsim.components.tasks import Task
from rtsim.core.clock import Wake
from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.raised import NOT_FOR_PARTS, attribute_to, interrupt, on_ctrl_c
from rtsim.core.random_streams import RandomStreams
from rtsim.engine.faults import Fault
from rtsim.engine.faults.at_signals import FaultyWiring
from rtsim.engine.faults.schedule import Installer, Schedule
from rtsim.engine.system import (
    Change,
    Changeable,
    InitialValue,
    MessageListener,
    System,
    reaction_order,
)
from rtsim.equations.compiling import Compilation, shared
from rtsim.scenario.component import Built, Component, ProcessorDeclaration, Site


class Builder:
    def __init__(
        self,
        components: Mapping[str, Component],
        orders: Sequence[tuple[str, str]],
        changes: Sequence[tuple[int, str, object]],
        seed: int,
        compile: Compilation,
        external_inputs: Mapping[str, ExternalInput],
        controllers: Mapping[str, ControllerProtocol],
        faults: Sequence[Fault] = (),
        inserted: Sequence[int] = (),
    ) -> None:
        self.components = components
        self.orders = orders
        self.scheduled = changes
        self.inserted = sorted(inserted)
        self.streams = RandomStreams(seed)
        self.before = predecessors(orders)
        self.faults = Installer(faults, self.streams) if faults else None
        self.site = Site(
            components,
            seed,
            self.streams,
            compile,
            external_inputs,
            controllers,
            self.before,
            self.faults,
        )
        self.bus = Bus(self.streams)
        self.ports: dict[str, SignalPort] = {}
        self.plants: dict[str, RunningPlant] = {}
        self.tasks: list[Task] = []
        self.controllers: dict[str, ControllerTask] = {}
        self.external_inputs: list[ExternalInput] = []
        self.wirings: dict[str, Wiring] = {}
        self.listening: dict[str, tuple[MessageListener, Sequence[str]]] = {}
        self.triggers: dict[str, Sequence[str]] = {}
        self.initials: dict[str, InitialValue] = {}
        self.timings: dict[str, list[TaskTiming]] = {}
        """Timings of the tasks on each processor, by name of the processor."""
        self.declared_processors: dict[str, ProcessorDeclaration] = {}

    def system(self) -> System:
        """Return the system.

        If a component fails, all controllers are closed.
        """
        with on_ctrl_c(interrupt), shared():
            try:
                return self._system()
            except BaseException as error:
                for controller in self.site.started.values():
                    with suppress(RtsimError):
                        controller.close()
                if isinstance(error, NOT_FOR_PARTS):
                    attribute_to("a component of the scenario", "the start", error, ScenarioError)
                raise

    def _system(self) -> System:
        for name, component in sorted(self.components.items()):
            self._put(name, component.build(name, self.site))
        for name, wiring in self.wirings.items():
            read = wiring.connect(self.ports, self.before.get(name, frozenset()))
            if name in self.plants:
                self.plants[name].reads(read, self.plants)
        processors = self._processors()
        faults = None if self.faults is None else self._install(self.faults)
        return System(
            plants=[self.plants[n] for n in sorted(self.plants)],
            ports=self.ports,
            tasks=reaction_order(self.tasks, self.orders),
            controllers=[self.controllers[n] for n in sorted(self.controllers)],
            external_inputs=self.external_inputs,
            bus=self.bus,
            streams=self.streams,
            changes=self._changes(self.site.changeable),
            changeable=self.site.changeable,
            initials=self.initials,
            triggers=self._triggers(),
            listeners=self._listeners(),
            inserted=self.inserted,
            wake=self._wake(),
            faults=faults,
            processors=processors,
        )

    def _processors(self) -> list[Processor]:
        for name in self.timings:
            if name not in self.declared_processors:
                user = self.timings[name][0].name
                known = sorted(self.declared_processors)
                raise UnknownName("processor", name, known, f"processor= of {user}")
        made = []
        for name, declared in sorted(self.declared_processors.items()):
            tasks = self.timings.get(name, [])
            names = {task.name for task in tasks}
            controllers = {n: task for n, task in self.controllers.items() if n in names}
            processor, values = declared.running(name, tasks, controllers, self.streams)
            made.append(processor)
            self.initials.update({f"{name}.{value.name}": value for value in values})
            for task in self.tasks:
                if task.name in names and hasattr(type(task), "react"):
                    task.release = processor.release  # type: ignore[attr-defined]
        return made

    def _put(self, name: str, built: Built) -> None:
        check_built(name, built)
        if built.port is not None:
            built.port.awaited = built.topic is not None or built.external is not None
            self.ports[name] = built.port
        if built.topic is not None:
            transport = for_one_run(built.topic.transport, built.topic.link)
            self.bus.add(replace(built.topic, transport=transport))
        if built.wiring is not None:
            self.wirings[name] = built.wiring
        if built.plant is not None:
            self.plants[name] = built.plant
        if built.controller is not None:
            self.controllers[name] = built.controller
        if built.external is not None:
            self.external_inputs.append(built.external)
        if built.listener is not None:
            self.listening[name] = (built.listener, built.hears)
        if built.timing is not None:
            self.timings.setdefault(built.timing[0], []).append(built.timing[1])
        if built.processor is not None:
            self.declared_processors[name] = built.processor
        if built.triggers:
            self.triggers[name] = built.triggers
        self.tasks.extend(built.tasks)
        self.site.changeable.update({one.target: one for one in built.changeable})
        for initial in built.initials:
            self.initials.setdefault(f"{name}.{initial.name}", initial)

    def _install(self, installer: Installer) -> Schedule:
        wirings = {n: w for n, w in self.wirings.items() if isinstance(w, FaultyWiring)}
        controllers = {name: task.controller for name, task in self.controllers.items()}
        tasks = [task.name for task in self.tasks if task.name not in self.listening]
        scheduled = [timing.name for timings in self.timings.values() for timing in timings]
        faults = installer.install(
            self.ports, wirings, self.plants, self.bus, controllers, tasks, scheduled
        )
        self.tasks.extend(faults.tasks)
        return faults

    def _wake(self) -> Wake | None:
        wakes = {id(i.wake): i.wake for i in self.external_inputs if i.wake is not None}
        if len(wakes) > 1:
            names = ", ".join(i.name for i in self.external_inputs if i.wake is not None)
            raise ScenarioError(
                f"event inputs {names} have different Wake objects; "
                "give all of them the same Wake object"
            )
        return next(iter(wakes.values()), None)

    def _triggers(self) -> dict[str, list[str]]:
        out: dict[str, list[str]] = {}
        for name, topics in self.triggers.items():
            for topic in topics:
                if topic not in self.bus.topics:
                    raise UnknownName("topic", topic, sorted(self.bus.topics), f"on= of {name}")
                out.setdefault(topic, []).append(name)
        return out

    def _listeners(self) -> dict[str, list[MessageListener]]:
        guards = {
            f"{name}.{guard.name}"
            for name, plant in self.plants.items()
            for guard in plant.bound.model.guards
        }
        topics = self.bus.topics
        out: dict[str, list[MessageListener]] = {}
        for name, (listener, hears) in self.listening.items():
            for heard in hears:
                if heard not in topics and heard not in guards:
                    known = sorted(guards) if "." in heard else sorted(topics)
                    what = "guard" if "." in heard else "topic"
                    raise UnknownName(what, heard, known, f"on= of {name}")
                out.setdefault(heard, []).append(listener)
            listener.listen({n: topics[n].signals for n in hears if n in topics})
        return out

    def _changes(self, changeable: Mapping[str, Changeable]) -> list[Change]:
        changes = [_known(changeable, target).change(ns, v) for ns, target, v in self.scheduled]
        return sorted(changes, key=lambda c: (c.ns, c.name))


def check_built(name: str, built: object) -> None:
    """Raise ``ScenarioError`` unless a component has returned a valid ``Built``."""
    if not isinstance(built, Built):
        raise ScenarioError(
            f"build() of {name} returned a {type(built).__name__}; return "
            "rtsim.scenario.Built(port=..., tasks=[...])"
        )
    named: list[tuple[str, str]] = []
    if built.port is not None:
        named.append(("port", built.port.name))
    if built.topic is not None:
        named.append(("topic", built.topic.name))
    if built.plant is not None:
        named.append(("plant", built.plant.name))
    if built.controller is not None:
        named.append(("controller", built.controller.name))
    for what, given in named:
        if given != name:
            raise ScenarioError(
                f"build() of {name} returned a {what} with the name {given}; give it the name "
                f"{name}"
            )


def _known(changeable: Mapping[str, Changeable], target: str) -> Changeable:
    if target not in changeable:
        raise ScenarioError(
            f"{target} cannot change during a run; only parameters and values of sources can"
        )
    return changeable[target]


def predecessors(orders: Sequence[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """Return, for each controller, all controllers that must react before it."""
    direct: dict[str, set[str]] = {}
    for first, later in orders:
        direct.setdefault(later, set()).add(first)

    def all_before(name: str, path: tuple[str, ...]) -> frozenset[str]:
        found = direct.get(name, set()) - set(path)
        return frozenset(found).union(*(all_before(n, (*path, name)) for n in found))

    return {name: all_before(name, ()) for name in direct}
