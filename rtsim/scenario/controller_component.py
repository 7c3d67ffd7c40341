"""A controller of a scenario, and its replacement by another controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, TypeVar

from rtsim.components.bus import Topic
from rtsim.components.controller import Controller
from rtsim.components.controller_task import ControllerTask
from rtsim.components.latency import LatencyModel, for_one_run
from rtsim.components.ports import SignalPort, Source, check_units
from rtsim.components.protocols import (
    Assignable,
    Described,
    Interfaced,
    Resettable,
    Savable,
    Tunable,
    check_controller,
    functions_of,
    parameters_of,
    values_of,
)
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals
from rtsim.core.tag import Period
from rtsim.engine.system import Changeable
from rtsim.scenario.component import (
    Built,
    Component,
    Others,
    Settable,
    Site,
    changeable,
    initials,
    start_values,
)

A = TypeVar("A", bound=Assignable)


@dataclass
class ControllerComponent(Component):
    """A controller as declared: its sample period, inputs, latency and policies."""

    kind = "controller"

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
            "compute": repr(self.compute),
            "transport": repr(self.transport),
            "late": self.late,
            "failure": self.failure,
            "parameters": start_values(parameters, values),
        }

    def resettable(self) -> bool:
        own = self.controller
        return isinstance(own, Savable) and isinstance(own, Resettable) and own.resettable

    def build(self, name: str, site: Site) -> Built:
        controller = site.controller(name, self.controller)
        inputs, outputs = controller.inputs, controller.outputs
        wiring = site.wiring(inputs.initial(), inputs, self.inputs, name)
        after = site.successors(name)
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
        )


def taking_over(name: str, design: Controller, controller: Controller) -> Controller:
    """Return ``controller`` with the parameter values of ``design``, which it replaces.

    Raises :class:`ScenarioError` if their signals differ.  If the controller has an interface
    file, an error begins with the file and line of the signal.
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
    """Return a copy of ``controller`` with the parameter values ``values``, by name."""
    out = copy(controller)
    out.values = dict(values)
    return out


def about_controller(controller: Controller) -> dict[str, Any]:
    """Return the controller's type, or the controller's own description (:class:`Described`)."""
    if not isinstance(controller, Described):
        return {"type": type(controller).__name__}
    about = controller.describe()
    return {**about, "about": sorted(about)}
