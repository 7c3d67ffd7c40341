"""Scenario: plants, controllers and the links between them, declared by name.

Parts may be declared in any order: names and declared priorities decide what comes first, never
the order of the lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from itertools import pairwise
from typing import Any

import numpy as np

from rtsim.components.allowed_latency import Allowed, allowing, to_plain
from rtsim.components.controller import Controller
from rtsim.components.external_inputs import ExternalInput, InputDevice
from rtsim.components.latency import ZERO, LatencyModel
from rtsim.components.ports import Source
from rtsim.core.clock import Wake
from rtsim.core.errors import ScenarioError
from rtsim.core.old_names import OldName
from rtsim.core.signals import Signals
from rtsim.core.tag import Duration, Period, to_ns
from rtsim.discrete import Processes
from rtsim.engine.faults import Fault
from rtsim.engine.faults.reading import Given, all_different, gather
from rtsim.engine.system import System
from rtsim.equations.compiling import Compilation
from rtsim.equations.model import Model
from rtsim.scenario.builder import Builder
from rtsim.scenario.component import Values
from rtsim.scenario.controller_component import ControllerComponent, taking_over
from rtsim.scenario.named_components import NamedComponents
from rtsim.scenario.shown import Presented
from rtsim.scenario.standard_components import (
    ExternalInputComponent,
    NoiseComponent,
    PlantComponent,
    ProcessesComponent,
    SensorComponent,
    SourceComponent,
    check_plant,
    stated,
)
from rtsim.solve import Solver, solver_named


class Scenario(NamedComponents, Presented):
    """One experiment; ``build`` makes a fresh system of it as often as wanted.

    ``assumptions`` and ``limits`` are stated in every recording, with those of its models.
    """

    def __init__(
        self,
        name: str,
        *,
        until: Duration = 10,
        assumptions: Sequence[str] = (),
        limits: Sequence[str] = (),
    ) -> None:
        super().__init__(name)
        self.until_ns = to_ns(until, "until")
        if self.until_ns <= 0:
            raise ScenarioError(f"until = {until!r} s; a run must last longer than 0 s")
        self.assumptions = tuple(assumptions)
        self.limits = tuple(limits)
        self._orders: list[tuple[str, str]] = []
        self._changes: list[tuple[int, str, object]] = []
        self._faults: tuple[Fault, ...] = ()
        self.origin: dict[str, Any] = {}
        """Where it was loaded from, so that a replay can load it again."""

    def copy(self) -> Scenario:
        """One that can be changed by itself; models, laws and devices are the same objects."""
        out = copy(self)
        out.components = {name: part.copy() for name, part in self.components.items()}
        out._orders, out._changes = list(self._orders), list(self._changes)
        out.origin = deepcopy(self.origin)
        return out

    # -- parts ---------------------------------------------------------------------------------

    def plant(
        self,
        name: str,
        model: Model,
        *,
        step: Duration | Period,
        solver: str | Solver = "rk4",
        states: Values | None = None,
        inputs: Mapping[str, Source] | None = None,
        parameters: Values | None = None,
        discrete: Values | None = None,
        update_period: Duration | Period | None = None,
        update_offset: Duration = 0,
        priority: int = 0,
    ) -> None:
        """Declare a plant: a model with its solver and its step (s).

        ``inputs`` gives for each input of the model ``"component.signal"`` or a number.
        """
        check_plant(name, model, solver, update_period)
        self.add(
            name,
            PlantComponent(
                model,
                Period.of(step),
                solver_named(solver),
                dict(states or {}),
                dict(inputs or {}),
                dict(parameters or {}),
                dict(discrete or {}),
                None if update_period is None else Period.of(update_period),
                to_ns(update_offset),
                priority,
            ),
        )

    def controller(
        self,
        name: str,
        controller: Controller,
        *,
        period: Duration | Period | None = None,
        offset: Duration = 0,
        inputs: Mapping[str, Source] | None = None,
        compute: LatencyModel = ZERO,
        transport: LatencyModel = ZERO,
        late: str = "hold",
        failure: str = "end",
        priority: int = 0,
        on: Sequence[str] = (),
    ) -> None:
        """A controller sampled each ``period`` s, or whenever a message of a topic in ``on`` comes.

        Its answer leaves ``compute`` after the sample and has its effect ``transport`` later.
        ``late``: what follows an answer that is not there (hold, fail, stretch); ``failure``: what
        follows a controller that died or lied (end the run, or hold its last outputs).
        """
        if (period is None) == (not on):
            raise ScenarioError(f"controller {name}: give either period= or on=, one of the two")
        self.add(
            name,
            ControllerComponent(
                controller,
                None if period is None else Period.of(period),
                to_ns(offset),
                priority,
                dict(inputs or {}),
                compute,
                transport,
                late,
                tuple(on),
                failure,
            ),
        )

    def replace_controller(
        self,
        name: str,
        controller: Controller,
        *,
        latency: Allowed | None = None,
        late: str | None = None,
        failure: str | None = None,
    ) -> None:
        """Another controller in the place of ``name``, such as the C of a design.

        Its signals must be those of the one before, in any order; parameters that both have are
        handed on.  ``latency`` (s, or measured) is what it is allowed to answer in; what is not
        given stays.
        """
        part = self.controller_component(
            name, f"{name} is not a controller; nothing can take its place"
        )
        part.controller = taking_over(name, part.controller, controller)
        if latency is not None:
            part.compute = allowing(latency)
        part.late = part.late if late is None else late
        part.failure = part.failure if failure is None else failure
        self.origin.setdefault("replaced", {})[name] = {
            "latency": None if latency is None else to_plain(latency),
            "late": part.late,
            "failure": part.failure,
        }

    def allow(self, name: str, latency: Allowed) -> None:
        """Controller ``name`` answers ``latency`` (s, or measured) after it sampled its inputs."""
        problem = f"{name} is not a controller; it computes nothing that takes time"
        self.controller_component(name, problem).compute = allowing(latency)
        self.origin.setdefault("latencies", {})[name] = to_plain(latency)

    def sensor(
        self,
        name: str,
        sources: Mapping[str, str],
        *,
        period: Duration | Period,
        offset: Duration = 0,
        transport: LatencyModel = ZERO,
        priority: int = 0,
    ) -> None:
        """Samples ``{signal: "component.signal"}`` each ``period`` s and sends it as a message.

        Units and kinds are those of what it samples.
        """
        part = SensorComponent(dict(sources), Period.of(period), to_ns(offset), priority, transport)
        self.add(name, part)

    def noise(
        self,
        name: str,
        signals: Signals,
        *,
        deviation: float,
        period: Duration | Period,
        mean: float = 0.0,
    ) -> None:
        """White noise held over each ``period`` s: N(mean, deviation^2 / period)."""
        self.add(name, NoiseComponent(signals, mean, deviation, Period.of(period)))

    def source(self, name: str, signals: Signals, values: Values | None = None) -> None:
        """Named values, such as an autopilot's commands, that :meth:`at` changes."""
        self.add(name, SourceComponent(signals, dict(values or {})))

    def processes(
        self,
        name: str,
        processes: Processes,
        *,
        inputs: Mapping[str, Source] | None = None,
        parameters: Values | None = None,
        on: Sequence[str] = (),
        transport: LatencyModel = ZERO,
        priority: int = 0,
    ) -> None:
        """Discrete events (SimPy) in this run; ``on``: topics and ``"plant.guard"`` they wait for.

        Their outputs and each topic of theirs are messages, ``transport`` on the way.
        """
        part = ProcessesComponent(
            processes, dict(inputs or {}), dict(parameters or {}), tuple(on), transport, priority
        )
        self.add(name, part)

    def external_input(
        self, name: str, signals: Signals, device: InputDevice, *, wake: Wake | None = None
    ) -> None:
        """An outside input: latched at each tag, recorded, fed again in a replay."""
        self.add(name, ExternalInputComponent(ExternalInput(name, signals, device, wake)))

    inlet = OldName("external_input")

    # -- relations and settings ------------------------------------------------------------------

    def order(self, *names: str) -> None:
        """These react one after the other in a microstep, each seeing the answer of those before.

        Only within one process: an answer that takes no time arrives in the same microstep.
        """
        for name in names:
            self.controller_component(name, f"order() takes controllers; {name} is not one")
        self._orders.extend(pairwise(names))

    def at(self, time: Duration, target: str, value: object) -> None:
        """At ``time`` s, ``component.name`` (a source's value, a parameter) becomes ``value``."""
        ns = to_ns(time, "time of a change")
        if ns < 0:
            raise ScenarioError(f"change of {target} at {time!r} s is before the start")
        if not self.settable_of(target).live:
            raise ScenarioError(
                f"{target} cannot change while running: parameters and a source's values can; "
                "wire the input to a source, and change that"
            )
        if any((ns, target) == (other, name) for other, name, _ in self._changes):
            raise ScenarioError(f"{target} is changed twice at {time!r} s; which is meant?")
        self._changes.append((ns, target, value))

    def faults(self, *given: Given) -> None:
        """What goes wrong on purpose: fault files, or the entries of faults as dicts.

        ``docs/faults.md`` has the entries.  Raises :class:`FaultError`.
        """
        self._faults = all_different((*self._faults, *gather(given)))

    @property
    def declared_faults(self) -> tuple[Fault, ...]:
        """Checked by themselves; whether they fit the parts is known when it is built."""
        return self._faults

    def only_faults(self, *given: Given) -> None:
        """These, and none that were declared before: a replay flies with the recorded ones."""
        self._faults = gather(given)

    def set(self, target: str, value: object) -> None:
        """Set the initial value of ``"component.name"``.

        This is a parameter, a state or a value of a source.
        """
        values, signals, _ = self.settable_of(target)
        name = target.partition(".")[2]
        signals.initial({name: value})
        values[name] = value

    # -- building --------------------------------------------------------------------------------

    def build(
        self,
        seed: int = 0,
        *,
        compile: Compilation = True,
        external_inputs: Mapping[str, ExternalInput] | None = None,
        controllers: Mapping[str, Controller] | None = None,
    ) -> System:
        """A fresh system, every part at its start.

        ``external_inputs`` and ``controllers`` take the place of declared ones in a replay.
        """
        return Builder(
            self.components,
            self._orders,
            self._changes,
            seed,
            compile,
            external_inputs or {},
            controllers or {},
            self._faults,
        ).system()

    def functions(self) -> list[Any]:
        """Every function that the run computes with, for the fingerprint."""
        parts = [part for _, part in sorted(self.components.items())]
        return [function for part in parts for function in part.functions()]

    def describe(self) -> dict[str, Any]:
        """The scenario as plain data, for the recording."""
        parts = dict(sorted(self.components.items()))
        valid = [part.validity() for part in parts.values()]
        return {
            "name": self.name,
            "until": self.until_ns,
            "origin": self.origin,
            "assumptions": stated(self.assumptions, [v.assumptions for v in valid]),
            "limits": stated(self.limits, [v.limits for v in valid]),
            "parts": {name: part.describe() for name, part in parts.items()},
            "order": [list(pair) for pair in sorted(self._orders)],
            "changes": [
                {"ns": ns, "target": target, "value": np.asarray(value, dtype=float).tolist()}
                for ns, target, value in sorted(self._changes, key=lambda c: c[:2])
            ],
            **({"faults": [fault.describe() for fault in self._faults]} if self._faults else {}),
        }
