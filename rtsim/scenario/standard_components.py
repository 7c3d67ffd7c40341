"""The components of rtsim: plants, sensors, sources, controllers and processes.

To add a kind of component, derive a class from :class:`rtsim.scenario.component.Component`, like
the classes in this module.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar, runtime_checkable

from rtsim.components.bus import Topic
from rtsim.components.controller import ControllerProtocol
from rtsim.components.controller_task import ControllerTask, ScheduledController
from rtsim.components.external_inputs import ExternalInput
from rtsim.components.latency import ZERO, LatencyModel, for_one_run
from rtsim.components.plant import RunningPlant
from rtsim.components.ports import SignalPort, Source, check_units
from rtsim.components.processor_tasks import Needs
from rtsim.components.protocols import (
    Assignable,
    Described,
    Interfaced,
    Resettable,
    Savable,
    Tunable,
    check_controller,
    functions_of,
    own_time,
    parameters_of,
    values_of,
)
from rtsim.components.tasks import NoiseTask, SensorTask, Task, TimerTask, UpdateTask
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals
from rtsim.core.tag import Period
from rtsim.discrete import Processes
from rtsim.engine.system import Changeable
from rtsim.equations.compiling import LATER
from rtsim.equations.model import Model, bind
from rtsim.scenario.component import (
    Built,
    Component,
    Others,
    Settable,
    Site,
    Validity,
    before_messages,
    changeable,
    initials,
    start_values,
)
from rtsim.scenario.processor_components import TaskOptions, described_execution
from rtsim.solve import SOLVER_PARTS, SOLVERS, Solver


@dataclass
class PlantComponent(Component):
    """Declaration of a plant, with model, solver, step and initial values."""

    kind = "plant"

    model: Model
    step: Period
    solver: Solver
    states: dict[str, object]
    inputs: dict[str, Source]
    parameters: dict[str, object]
    discrete: dict[str, object]
    update_period: Period | None
    update_offset_ns: int
    priority: int
    initial_inputs: dict[str, object] = field(default_factory=dict)
    """Values of inputs before the first message, by name. They override the declared values."""

    def signals(self, others: Others) -> Signals:  # noqa: ARG002
        return self.model.readable

    def settable(self) -> list[Settable]:
        return [
            Settable(self.parameters, self.model.parameters, live=True),
            Settable(self.states, self.model.states),
            Settable(self.inputs, self.model.inputs),
            Settable(self.discrete, self.model.discrete),
        ]

    def number(self, name: str, text: str) -> object:
        """Return the number of the value ``name`` for ``text``, such as the name of a mode.

        The text is returned if the value has no names. Raises :class:`UnknownName`.
        """
        return mode_number(self.model, name, text)

    def validity(self) -> Validity:
        return Validity(self.model.assumptions, self.model.limits)

    def functions(self) -> list[Any]:
        model = self.model
        found = (
            *(model.derivative, model.output, model.update, model.project),
            *(model.guard, model.reset, model.stop, model.tick, model.line, model.jacobian),
            *(() if model.sparsity is None else (model.sparsity.starts, model.sparsity.rows)),
            *(how for delayed in model.delays for how in delayed.functions),
        )
        return [function for function in found if function is not None]

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "model": self.model.name,
            "solver": self.solver.name,
            "step": str(self.step.ns),
            "update_period": None if self.update_period is None else str(self.update_period.ns),
            "update_offset": self.update_offset_ns,
            "priority": self.priority,
            "discrete": start_values(self.model.discrete, self.discrete),
            "inputs": {k: str(v) for k, v in sorted(self.inputs.items())},
            **before_messages(self.model.inputs, self.inputs, self.initial_inputs),
            "states": start_values(self.model.states, self.states),
            "parameters": start_values(self.model.parameters, self.parameters),
            **({"delays": list(map(str, self.model.delays))} if self.model.delays else {}),
        }

    def resettable(self) -> bool:
        return True

    def build(self, name: str, site: Site) -> Built:
        model = self.model
        constants = {k: v for k, v in self.inputs.items() if not isinstance(v, str)}
        x = model.states.initial(self.states)
        z = model.discrete.initial(self.discrete)
        u = model.inputs.initial({**self.initial_inputs, **constants})
        p = model.parameters.initial(self.parameters)
        later = site.compile == LATER and getattr(self.solver, "plain_bits", False)
        compile = site.compile if later or site.compile != LATER else True
        bound = bind(model, compile=compile, x=x, p=p, u=u, z=z)
        wiring = site.wiring(
            u.copy(), model.inputs, self.inputs, name, items=False, initial=self.initial_inputs
        )
        plant = RunningPlant(name, bound, self.solver, self.step, (x, z, u, p), wiring)
        tasks: list[Task] = []
        if self.update_period is not None:
            offset = self.update_offset_ns
            tasks.append(UpdateTask(plant, self.update_period, offset, self.priority))
        if model.timers:
            tasks.append(TimerTask(plant, self.priority))
        return Built(
            port=plant.port,
            tasks=tasks,
            wiring=wiring,
            plant=plant,
            changeable=changeable(name, model.parameters, plant.p, plant),
            initials=[
                *initials(model.parameters, plant.p),
                *initials(model.states, plant.x),
                *initials(model.inputs, plant.u, wiring.into, sources=self.inputs),
                *initials(model.discrete, plant.z),
            ],
        )


def mode_number(model: Model, name: str, value: object) -> object:
    if not isinstance(value, str) or not model.modes or name != model.discrete.names[-1]:
        return value
    if value not in model.modes:
        raise UnknownName("mode", value, model.modes, f"{model.name}.{name}")
    return float(model.modes.index(value))


@runtime_checkable
class PlantSource(Protocol):
    """A model with a component class of its own, such as an FMU."""

    def model(self) -> Model: ...

    def check_options(self, plant: str, given: Collection[str]) -> None:
        """Raise ``ScenarioError`` if an option in ``given`` has no effect on the plant."""
        ...

    def component(self, *arguments: Any) -> PlantComponent:
        """Return the component; the arguments are those of ``PlantComponent``."""
        ...


MEANT = {"rk45": "dp54", "ode45": "dp54", "dopri5": "dp54", "rk23": "bs32", "ode23": "bs32"}
"""Solvers with other names in other tools: the name in rtsim for each of these names."""


def check_plant(
    name: str, model: object, solver: object, update_period: object, update_offset: object
) -> None:
    """Raise ``ScenarioError`` for an object that is no model or no solver."""
    if not isinstance(model, Model):
        ready = callable(getattr(model, "model", None)) and not isinstance(model, type)
        remedy = "give its .model()" if ready else "give a Model"
        if isinstance(model, str) and model.endswith(".fmu"):
            remedy = f"give rtsim.fmi.Fmu({model!r})"
        raise ScenarioError(f"plant {name} is a {type(model).__name__}; {remedy}")
    if model.update is not None and update_period is None:
        raise ScenarioError(
            f"plant {name}: model {model.name} has an update function; give update_period="
        )
    for option, value in (("update_period", update_period), ("update_offset", update_offset)):
        if model.update is None and value:
            raise ScenarioError(
                f"plant {name}: model {model.name} has no update function; omit {option}="
            )
    if isinstance(solver, type):
        raise ScenarioError(
            f"solver of plant {name} is the class {solver.__name__}; give an object: "
            f"{solver.__name__}()"
        )
    if not (isinstance(solver, str) or all(hasattr(solver, part) for part in SOLVER_PARTS)):
        raise ScenarioError(
            f"solver of plant {name} is {solver!r}; give the name of a solver, such as "
            '"rk4" or "dp54", or an object with name, order and stepper (rtsim.solve.Solver)'
        )
    if isinstance(solver, str) and solver not in SOLVERS and solver.lower() in MEANT:
        raise ScenarioError(
            f"plant {name}: solver {solver} is called {MEANT[solver.lower()]} in rtsim; use "
            "that name"
        )


class _Plain(Component):
    def functions(self) -> list[Any]:
        return []


class _Declared(_Plain):
    declared: Signals

    def signals(self, others: Others) -> Signals:  # noqa: ARG002
        return self.declared

    def port(self, name: str, values: Mapping[str, object] | None = None) -> SignalPort:
        return SignalPort(name, self.declared, self.declared.initial(values))


@dataclass
class SensorComponent(_Plain):
    """Declaration of a sensor, which samples signals and sends them in messages."""

    kind = "sensor"

    sources: dict[str, str]
    period: Period
    offset_ns: int
    priority: int
    transport: LatencyModel

    def signals(self, others: Others) -> Signals:
        sampled = [
            (name, others.signal(source, f"sensor signal {name}"))
            for name, source in sorted(self.sources.items())
        ]
        return Signals(*(replace(signal, name=n, derivative_of="") for n, signal in sampled))

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "period": str(self.period.ns),
            "offset": self.offset_ns,
            "priority": self.priority,
            "sources": {k: str(v) for k, v in sorted(self.sources.items())},
            "transport": repr(self.transport),
        }

    def resettable(self) -> bool:
        return True

    def build(self, name: str, site: Site) -> Built:
        signals = site.signals(self)
        wiring = site.wiring(signals.initial(), signals, self.sources, name)
        return Built(
            port=SignalPort(name, signals, signals.initial()),
            topic=Topic(name, name, signals, self.transport),
            tasks=[SensorTask(name, wiring, self.period, self.offset_ns, self.priority)],
            wiring=wiring,
        )


@dataclass
class NoiseComponent(_Declared):
    """Declaration of a noise component."""

    kind = "noise"

    declared: Signals
    mean: float
    deviation: float
    period: Period

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "mean": self.mean,
            "deviation": self.deviation,
            "period": str(self.period.ns),
        }

    def resettable(self) -> bool:
        return True

    def build(self, name: str, site: Site) -> Built:  # noqa: ARG002
        port = self.port(name)
        return Built(port, tasks=[NoiseTask(port, self.mean, self.deviation, self.period)])


@dataclass
class SourceComponent(_Declared):
    """Declaration of a source, whose values change only by scheduled changes and commands."""

    kind = "source"

    declared: Signals
    values: dict[str, object] = field(default_factory=dict)

    def settable(self) -> list[Settable]:
        return [Settable(self.values, self.declared, live=True)]

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "values": start_values(self.declared, self.values)}

    def resettable(self) -> bool:
        return True

    def build(self, name: str, site: Site) -> Built:  # noqa: ARG002
        port = self.port(name, self.values)
        return Built(
            port,
            changeable=changeable(name, port.signals, port.value, port),
            initials=initials(port.signals, port.value, port.early),
        )


@dataclass
class ExternalInputComponent(_Plain):
    """Declaration of an external input."""

    kind = "inlet"

    external_input: ExternalInput

    @property
    def external(self) -> ExternalInput:
        return self.external_input

    def signals(self, others: Others) -> Signals:  # noqa: ARG002
        return self.external_input.signals

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "signals": self.external_input.signals.to_json()}

    def build(self, name: str, site: Site) -> Built:
        external = site.external(self.external_input)
        return Built(
            SignalPort(name, external.signals, external.signals.initial()), external=external
        )


@dataclass
class ProcessesComponent(Component):
    """Declaration of discrete-event processes."""

    kind = "processes"

    processes: Processes
    inputs: dict[str, Source]
    parameters: dict[str, object]
    on: tuple[str, ...]
    transport: LatencyModel
    priority: int

    def signals(self, others: Others) -> Signals:  # noqa: ARG002
        return self.processes.outputs

    def settable(self) -> list[Settable]:
        return [
            Settable(self.parameters, self.processes.parameters, live=True),
            Settable(self.inputs, self.processes.inputs),
        ]

    def validity(self) -> Validity:
        return Validity(self.processes.assumptions, self.processes.limits)

    def functions(self) -> list[Any]:
        return [self.processes.setup]

    def companions(self, name: str) -> Mapping[str, Component]:
        messages = self.processes.messages
        return {topic: TopicComponent(name, s, self.transport) for topic, s in messages.items()}

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "setup": getattr(self.processes.setup, "__qualname__", "?"),
            "inputs": {k: str(v) for k, v in sorted(self.inputs.items())},
            "on": list(self.on),
            "messages": sorted(self.processes.messages),
            "transport": repr(self.transport),
            "priority": self.priority,
            "parameters": start_values(self.processes.parameters, self.parameters),
        }

    def build(self, name: str, site: Site) -> Built:
        from rtsim.discrete.task import ProcessesTask  # few scenarios need SimPy

        processes, outputs = self.processes, self.processes.outputs
        wiring = site.wiring(processes.inputs.initial(), processes.inputs, self.inputs, name)
        p = processes.parameters.initial(self.parameters)
        task = ProcessesTask(
            name, processes, wiring, p, self.on, site.seed, site.changeable, self.priority
        )
        return Built(
            port=SignalPort(name, outputs, outputs.initial()),
            topic=Topic(name, name, outputs, self.transport) if outputs.size else None,
            tasks=[task],
            wiring=wiring,
            changeable=changeable(name, processes.parameters, task.p),
            listener=task,
            hears=self.on,
        )


@dataclass
class TopicComponent(_Declared):
    """A topic on which processes send messages."""

    kind = "topic"

    sender: str
    declared: Signals
    transport: LatencyModel

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "sender": self.sender, "transport": repr(self.transport)}

    def build(self, name: str, site: Site) -> Built:  # noqa: ARG002
        topic = Topic(name, self.sender, self.declared, self.transport)
        return Built(port=self.port(name), topic=topic)


def stated(own: Sequence[str], theirs: Sequence[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(sentence for some in (own, *theirs) for sentence in some))


A = TypeVar("A", bound=Assignable)


@dataclass
class ControllerComponent(Component):
    """Declaration of a controller, with sample period, inputs, latencies and policies."""

    kind = "controller"

    controller: ControllerProtocol
    period: Period | None
    offset_ns: int
    priority: int
    inputs: dict[str, Source]
    compute: LatencyModel
    transport: LatencyModel
    late: str
    on: tuple[str, ...]
    failure: str = "end"
    initial_inputs: dict[str, object] = field(default_factory=dict)
    """Values of inputs before the first message, by name. They override the declared values."""
    initial_outputs: dict[str, object] = field(default_factory=dict)
    """Values of outputs before the first message, by name. They override the declared values."""
    options: TaskOptions | None = None
    """Options of the task of a processor on which the controller computes."""
    execution: LatencyModel | Needs | None = None
    """Execution time on the processor, if a job is one segment."""

    def signals(self, others: Others) -> Signals:  # noqa: ARG002
        return self.controller.outputs

    @property
    def outside(self) -> bool:
        return self.controller.outside

    def settable(self) -> list[Settable]:
        wired = Settable(self.inputs, self.controller.inputs)
        controller = self.controller
        if isinstance(controller, Tunable):
            return [Settable(controller.values, controller.parameters, live=True), wired]
        return [wired]

    def copy(self) -> ControllerComponent:
        out = super().copy()
        if isinstance(out.controller, Tunable):
            out.controller = with_values(out.controller, out.controller.values)
        return out

    def functions(self) -> list[Any]:
        return functions_of(self.controller)

    def describe(self) -> dict[str, Any]:
        parameters, values = parameters_of(self.controller), values_of(self.controller)
        return {
            "kind": self.kind,
            **about_controller(self.controller),
            "period": None if self.period is None else str(self.period.ns),
            "offset": self.offset_ns,
            "priority": self.priority,
            "on": list(self.on),
            "inputs": {k: str(v) for k, v in sorted(self.inputs.items())},
            **before_messages(self.controller.inputs, self.inputs, self.initial_inputs),
            "compute": repr(self.compute),
            "transport": repr(self.transport),
            "late": self.late,
            "failure": self.failure,
            **(
                {}
                if self.options is None
                else {**self.options.describe(), "execution": described_execution(self.execution)}
            ),
            "parameters": start_values(parameters, values),
        }

    def resettable(self) -> bool:
        own = self.controller
        return isinstance(own, Savable) and isinstance(own, Resettable) and own.resettable

    def build(self, name: str, site: Site) -> Built:
        after, options, timing = site.successors(name), self.options, None
        if options is not None:  # before a board starts
            check_on_processor(name, self.controller, self.compute, self.late, bool(after))
        controller = site.controller(name, self.controller)
        inputs = controller.inputs
        outputs = controller.outputs.beginning_with(self.initial_outputs)
        wiring = site.wiring(
            inputs.initial(self.initial_inputs), inputs, self.inputs, name,
            initial=self.initial_inputs,
        )  # fmt: skip
        if options is None:
            task = ControllerTask(
                name,
                controller,
                wiring,
                self.period,
                self.offset_ns,
                self.priority,
                for_one_run(self.compute, f"the computation of {name}"),
                self.late,
                self.failure,
                after,
            )
        else:
            made = options.timing(name, self.period, self.offset_ns, self.priority, self.execution)
            timing = options.processor, made
            task = ScheduledController(
                name, controller, wiring, None, priority=self.priority, failure=self.failure
            )
        live: Sequence[Changeable] = ()
        first = initials(inputs, wiring.into, sources=self.inputs)
        if isinstance(controller, Tunable):
            live = changeable(name, controller.parameters, controller.tunable())
            first = [*initials(controller.parameters, controller.tunable()), *first]
        return Built(
            port=SignalPort(name, outputs, outputs.initial()),
            topic=Topic(name, name, outputs, self.transport, immediate=bool(after)),
            tasks=[task],
            wiring=wiring,
            controller=task,
            changeable=live,
            initials=first,
            triggers=self.on,
            timing=timing,
        )


def check_on_processor(
    name: str, controller: ControllerProtocol, compute: LatencyModel, late: str, ordered: bool
) -> None:
    """Raise :class:`ScenarioError` if ``controller`` cannot compute on a simulated processor."""
    if compute != ZERO:
        raise ScenarioError(
            f"{name} runs on a processor, which determines when its answer is ready; give "
            "execution= instead of compute= or --latency"
        )
    if late != "hold":
        raise ScenarioError(
            f"{name} runs on a processor, which has no late answers, so late={late!r} has no "
            "effect; give deadline= and missed='finish', 'abort', 'skip' or 'end' instead of late= "
            "or --late"
        )
    if ordered:
        raise ScenarioError(
            f"{name} runs on a processor, so Scenario.order has no effect on it; give priority="
        )
    if own_time(controller) is not None:
        raise ScenarioError(
            f"{name} is a {type(controller).__name__}, which has a processor of its own; remove "
            "processor="
        )


def taking_over(
    name: str, design: ControllerProtocol, controller: ControllerProtocol
) -> ControllerProtocol:
    """Return a controller with the parameter values of the controller ``design``.

    Values that ``controller`` itself sets are kept. Raises ``ScenarioError`` if both controllers
    have different signals. For a controller in C, the message contains file and line of the signal.
    """
    check_controller(name, controller)
    place = controller.interface.place if isinstance(controller, Interfaced) else None
    instead = f"the replacement of {name}"
    for what, ours, theirs in (
        ("input", design.inputs, controller.inputs),
        ("output", design.outputs, controller.outputs),
    ):
        for signal in theirs:
            if signal.name not in ours:
                at = "" if place is None else f"{place(f'{what}s', signal.name)}: "
                raise ScenarioError(f"{at}{UnknownName(what, signal.name, ours.names, instead)}")
        for signal in ours:
            at = "" if place is None else f"{place(f'{what}s', signal.name)}: "
            if signal.name not in theirs:
                raise ScenarioError(
                    f"{at}{instead} has no {what} {signal.name}; its {what}s are "
                    f"{', '.join(theirs.names) or 'none'}"
                )
            check_units(f"{name}.{signal.name}", signal, theirs[signal.name], instead)
            if signal.shape != theirs[signal.name].shape:
                raise ScenarioError(
                    f"{at}{what} {signal.name} of {name} has shape {signal.shape}, but shape "
                    f"{theirs[signal.name].shape} in its replacement"
                )
    given = parameters_of(design)
    if isinstance(controller, Assignable) and len(given):
        known = controller.parameters
        vector = given.initial(values_of(design))
        shared = [s for s in given if s.name in known]
        for signal in shared:
            check_units(f"{name}.{signal.name}", signal, known[signal.name], instead)
        handed: dict[str, object] = {s.name: vector[given.slice(s.name)].tolist() for s in shared}
        return with_values(controller, {**handed, **controller.values})
    return controller


def with_values(controller: A, values: Mapping[str, object]) -> A:
    """Return a copy of a controller with other parameter values."""
    out = copy(controller)
    out.values = dict(values)
    return out


def about_controller(controller: ControllerProtocol) -> dict[str, Any]:
    """Return a description of a controller, or its type."""
    if not isinstance(controller, Described):
        return {"type": type(controller).__name__}
    about = controller.describe()
    return {**about, "about": sorted(about)}
