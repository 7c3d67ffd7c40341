"""What a scenario declares of each part, before anything is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any

from rtsim.components.controller import Controller, FedController, PythonController
from rtsim.components.external_inputs import ExternalInput
from rtsim.components.latency import LatencyModel
from rtsim.components.ports import Source, check_units
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Period
from rtsim.discrete import Processes
from rtsim.equations.model import Model
from rtsim.solve import SOLVERS, Solver

Values = Mapping[str, object]


@dataclass
class PlantPart:
    """What was declared of a plant."""

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


MEANT = {"rk45": "dp54", "ode45": "dp54", "dopri5": "dp54", "rk23": "bs32", "ode23": "bs32"}
"""What solvers of other tools are called here."""


def check_plant(name: str, model: object, solver: object, update_period: object) -> None:
    """Raise :class:`ScenarioError` for what is no model, or no solver."""
    if not isinstance(model, Model):
        ready = callable(getattr(model, "model", None)) and not isinstance(model, type)
        remedy = "give its .model()" if ready else "give a Model"
        raise ScenarioError(f"plant {name} is a {type(model).__name__}; {remedy}")
    if model.update is not None and update_period is None:
        raise ScenarioError(f"plant {name}: {model.name} has an update; give update_period=")
    if isinstance(solver, type):
        raise ScenarioError(
            f"solver of plant {name} is the class {solver.__name__}; write {solver.__name__}()"
        )
    if isinstance(solver, str) and solver not in SOLVERS and solver.lower() in MEANT:
        raise ScenarioError(
            f"plant {name}: what others call {solver} is {MEANT[solver.lower()]} here; give that"
        )


@dataclass
class ControllerPart:
    """What was declared of a controller."""

    controller: Controller
    period: Period | None
    offset_ns: int
    priority: int
    inputs: dict[str, Source]
    compute: LatencyModel
    transport: LatencyModel
    late: str
    on: tuple[str, ...]
    failure: str = "end"


@dataclass
class SensorPart:
    """What was declared of a sensor: its signals are those of its sources, under its own names."""

    sources: dict[str, str]
    period: Period
    offset_ns: int
    priority: int
    transport: LatencyModel


@dataclass
class NoisePart:
    """What was declared of a noise."""

    signals: Signals
    mean: float
    deviation: float
    period: Period


@dataclass
class SourcePart:
    """Named values that only scheduled changes write."""

    signals: Signals
    values: dict[str, object] = field(default_factory=dict)


@dataclass
class ExternalInputPart:
    """What was declared of an outside input."""

    inlet: ExternalInput


@dataclass
class ProcessesPart:
    """What was declared of processes."""

    processes: Processes
    inputs: dict[str, Source]
    parameters: dict[str, object]
    on: tuple[str, ...]
    transport: LatencyModel
    priority: int

    @property
    def signals(self) -> Signals:
        return self.processes.outputs


@dataclass
class TopicPart:
    """A topic on which processes send."""

    sender: str
    signals: Signals
    transport: LatencyModel


Part = (
    PlantPart
    | ControllerPart
    | SensorPart
    | NoisePart
    | SourcePart
    | ExternalInputPart
    | ProcessesPart
    | TopicPart
)


def own_copy(part: Part) -> Part:
    """One whose declared values can be changed by themselves."""
    out = copy(part)
    for declared in fields(part):
        value = getattr(part, declared.name)
        if isinstance(value, dict):
            setattr(out, declared.name, dict(value))
    if isinstance(out, ControllerPart) and isinstance(out.controller, PythonController):
        out.controller = copy(out.controller)
        out.controller.values = dict(out.controller.values)
    return out


def readable(part: Part, parts: Mapping[str, Part], asked: tuple[Part, ...] = ()) -> Signals:
    """What others can read of ``part``, by name; ``parts`` are all parts, for what it forwards.

    ``asked`` are the sensors that lead here.
    """
    if isinstance(part, PlantPart):
        model = part.model
        return model.states + model.discrete + model.inputs + model.outputs
    if isinstance(part, ControllerPart):
        return part.controller.outputs
    if isinstance(part, ExternalInputPart):
        return part.inlet.signals
    if isinstance(part, SensorPart):
        if any(part is one for one in asked):
            raise ScenarioError(
                "sensors sample each other in a circle; sample a plant or controller"
            )
        asked = (*asked, part)
        return Signals(*(_forwarded(n, s, parts, asked) for n, s in sorted(part.sources.items())))
    return part.signals


def _forwarded(
    name: str, source: str, parts: Mapping[str, Part], asked: tuple[Part, ...]
) -> Signal:
    """The signal that ``source`` names, called ``name``; units and kinds go with it."""
    part, dot, signal = source.partition(".")
    if not dot:
        raise ScenarioError(
            f"sensor signal {name}: {source!r} names no signal; write 'part.signal'"
        )
    if part not in parts:
        raise UnknownName("part", part, sorted(parts), f"sensor signal {name}")
    known = readable(parts[part], parts, asked)
    if signal not in known:
        raise UnknownName("signal", signal, known.names, f"{part} (sensor signal {name})")
    return replace(known[signal], name=name, derivative_of="")


def settable(part: Part) -> list[tuple[dict[str, Any], Signals]]:
    """Where declared values of ``part`` are kept, and the signals that name them."""
    if isinstance(part, PlantPart):
        return [
            (part.parameters, part.model.parameters),
            (part.states, part.model.states),
            (part.inputs, part.model.inputs),
            (part.discrete, part.model.discrete),
        ]
    if isinstance(part, ProcessesPart):
        return [
            (part.parameters, part.processes.parameters),
            (part.inputs, part.processes.inputs),
        ]
    if isinstance(part, ControllerPart):
        controller = part.controller
        if isinstance(controller, PythonController):
            own = [(controller.values, controller.parameters)]
            return [*own, (part.inputs, controller.inputs)]
        return [(part.inputs, controller.inputs)]
    return [(part.values, part.signals)] if isinstance(part, SourcePart) else []


def part_parameters(part: Part) -> dict[str, Any] | None:
    """Where declared parameter values are kept; ``None`` where it has none, or keeps its own."""
    if isinstance(part, PlantPart | ProcessesPart):
        return part.parameters
    if isinstance(part, ControllerPart) and isinstance(part.controller, PythonController):
        return part.controller.values
    return None


def taking_over(name: str, design: Controller, controller: Controller) -> Controller:
    """``controller`` in the place of ``design``: signals checked, parameters set.

    Errors begin with ``controller.interface.place(table, key)`` where there is such a thing.
    """
    place = getattr(getattr(controller, "interface", None), "place", None)
    instead = f"what takes the place of {name}"
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
                    f"{at}no {what} {signal.name}, which {name} has; there is "
                    f"{', '.join(theirs.names) or 'none'}"
                )
            check_units(f"{name}.{signal.name}", signal, theirs[signal.name], instead)
            if signal.shape != theirs[signal.name].shape:
                raise ScenarioError(
                    f"{at}{what} {signal.name} of {name} has shape {signal.shape}, of what takes "
                    f"its place {theirs[signal.name].shape}"
                )
    values: dict[str, object] | None = getattr(controller, "values", None)
    known = getattr(controller, "parameters", Signals())
    given = getattr(design, "parameters", Signals())
    if values is not None and len(given):
        vector = given.initial(getattr(design, "values", {}))
        shared = [s for s in given if s.name in known]
        for signal in shared:
            check_units(f"{name}.{signal.name}", signal, known[signal.name], instead)
        handed: dict[str, object] = {s.name: vector[given.slice(s.name)].tolist() for s in shared}
        controller = copy(controller)
        controller.values = {**handed, **values}  # type: ignore[attr-defined]
    return controller


def functions_of(part: Part) -> list[Any]:
    """What a run computes with; ``None`` for those that a model does not have."""
    if isinstance(part, PlantPart):
        model = part.model
        return [
            *(model.derivative, model.output, model.update, model.project),
            *(model.guard, model.reset, model.stop, model.tick),
        ]
    if isinstance(part, ProcessesPart):
        return [part.processes.setup]
    if isinstance(part, ControllerPart):
        controller = part.controller
        if not (controller.outside or isinstance(controller, FedController)):
            return [getattr(controller, "law", type(controller))]
    return []


def stated(own: Sequence[str], parts: Mapping[str, Part], what: str) -> list[str]:
    """A scenario's ``assumptions`` or ``limits`` and those of its models, each once."""
    models = [getattr(part, "model", getattr(part, "processes", None)) for part in parts.values()]
    theirs = [getattr(model, what) for model in models if model is not None]
    return list(dict.fromkeys(sentence for some in (own, *theirs) for sentence in some))


def describe_part(part: Part) -> dict[str, Any]:
    """One part as plain data."""
    if isinstance(part, PlantPart):
        return {
            "kind": "plant",
            "model": part.model.name,
            "solver": part.solver.name,
            "step": str(part.step.ns),
            "update_period": None if part.update_period is None else str(part.update_period.ns),
            "update_offset": part.update_offset_ns,
            "priority": part.priority,
            "discrete": _numbers(part.model.discrete, part.discrete),
            "inputs": {k: str(v) for k, v in sorted(part.inputs.items())},
            "states": _numbers(part.model.states, part.states),
            "parameters": _numbers(part.model.parameters, part.parameters),
        }
    if isinstance(part, ControllerPart):
        parameters = getattr(part.controller, "parameters", Signals())
        return {
            "kind": "controller",
            **about_controller(part.controller),
            "period": None if part.period is None else str(part.period.ns),
            "offset": part.offset_ns,
            "priority": part.priority,
            "on": list(part.on),
            "inputs": {k: str(v) for k, v in sorted(part.inputs.items())},
            "compute": repr(part.compute),
            "transport": repr(part.transport),
            "late": part.late,
            "failure": part.failure,
            "parameters": _numbers(parameters, getattr(part.controller, "values", {})),
        }
    if isinstance(part, SensorPart):
        return {
            "kind": "sensor",
            "period": str(part.period.ns),
            "offset": part.offset_ns,
            "priority": part.priority,
            "sources": {k: str(v) for k, v in sorted(part.sources.items())},
            "transport": repr(part.transport),
        }
    if isinstance(part, NoisePart):
        return {
            "kind": "noise",
            "mean": part.mean,
            "deviation": part.deviation,
            "period": str(part.period.ns),
        }
    if isinstance(part, SourcePart):
        return {"kind": "source", "values": _numbers(part.signals, part.values)}
    if isinstance(part, ProcessesPart):
        return {
            "kind": "processes",
            "setup": getattr(part.processes.setup, "__qualname__", "?"),
            "inputs": {k: str(v) for k, v in sorted(part.inputs.items())},
            "on": list(part.on),
            "messages": sorted(part.processes.messages),
            "transport": repr(part.transport),
            "priority": part.priority,
            "parameters": _numbers(part.processes.parameters, part.parameters),
        }
    if isinstance(part, TopicPart):
        return {"kind": "topic", "sender": part.sender, "transport": repr(part.transport)}
    return {"kind": "inlet", "signals": part.inlet.signals.to_json()}


def about_controller(controller: Controller) -> dict[str, Any]:
    """What it is, and where the C of one outside came from."""
    describe = getattr(controller, "describe", None)
    if describe is None:
        return {"type": type(controller).__name__}
    about = describe()
    return {**about, "about": sorted(about)}


def _numbers(signals: Signals, values: Values) -> dict[str, Any]:
    """Each signal's value at the start, with its unit in the key's signal declaration."""
    vector = signals.initial(values)
    return {
        s.name: vector[signals.slice(s.name)].tolist()
        if s.shape
        else float(vector[signals.slice(s.name)][0])
        for s in signals
    }
