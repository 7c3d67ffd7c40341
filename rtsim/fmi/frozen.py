"""A plant or a whole loop in the form that an exported library contains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.components.plant import RunningPlant
from rtsim.components.tasks import Task, TimerTask, UpdateTask
from rtsim.core.clock import VirtualClock
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals
from rtsim.engine.compiled.eligibility import COMPILED, examine
from rtsim.engine.compiled.records import NOTHING, place_of
from rtsim.engine.compiled.table import Table
from rtsim.engine.compiled.transfer import copy_in
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.equations.calls import evaluation_block
from rtsim.equations.reading_functions import direct_inputs
from rtsim.fmi.description import NOBODY, SOURCE, Kind, Variable, elements
from rtsim.fmi.image import Image, arrays_in, freeze
from rtsim.fmi.operations import MODEL
from rtsim.fmi.program import identifier
from rtsim.record.recorders import PooledRecorder, TrackPool
from rtsim.scenario.scenario import Scenario
from rtsim.timing.pacing import Pacer


@dataclass(frozen=True)
class Frozen:
    """The memory image of a model, its variables, and positions that the C code needs.

    ``root`` is the first word of the record MODEL. ``exchange`` is True if an importer can
    integrate the model. ``first`` are the first words of states, derivatives and indicators.
    """

    name: str
    image: Image
    variables: tuple[Variable, ...]
    root: int
    exchange: bool
    first: dict[str, int]
    step: float
    """The step of the fastest plant, s."""
    until: float
    """The end of the scenario, s."""
    text: str


def frozen(scenario: Scenario, plant: str = "") -> Frozen:
    """Return the plant ``plant`` of a scenario alone, or the whole scenario without ``plant``.

    Raises :class:`ScenarioError` for everything that an exported library cannot contain, with the
    name of the component and a remedy.
    """
    system = scenario.build(compile=True)
    try:
        return _frozen(scenario, _only(system, plant) if plant else system, plant)
    finally:
        system.close()


def _only(system: System, name: str) -> System:
    """Return a system with one plant and its own tasks; the plant's inputs keep their values."""
    plants = {one.name: one for one in system.plants}
    if name not in plants:
        raise UnknownName("plant", name, plants, "the scenario")
    plant = plants[name]
    own = [t for t in system.tasks if isinstance(t, TimerTask | UpdateTask) and t.plant is plant]
    if plant.wiring is not None:
        plant.read_wires()
        plant.u[:] = plant.wiring.into
        plant.changed()
    plant.wiring, plant.sources, plant.reads_plants = None, set(), False
    tasks = [_again(task, plant) for task in own]
    return replace(
        system,
        plants=[plant],
        ports={name: plant.port},
        tasks=tasks,
        controllers=[],
        external_inputs=[],
        changes=[c for c in system.changes if c.owner is plant],
        changeable={n: c for n, c in system.changeable.items() if c.owner is plant},
        triggers={},
        listeners={},
        faults=None,
    )


def _again(task: TimerTask | UpdateTask, plant: RunningPlant) -> Task:
    """Return a new task of ``plant``, which reads the inputs of the plant without wires."""
    if isinstance(task, UpdateTask):
        assert task.period is not None
        return UpdateTask(plant, task.period, task.offset_ns, task.priority)
    return TimerTask(plant, task.priority)


def _frozen(scenario: Scenario, system: System, alone: str) -> Frozen:
    trace = Trace(system, PooledRecorder(TrackPool(), None), paced=False)
    pacer = Pacer(VirtualClock())
    eligible = examine(system, trace, pacer, COMPILED, scenario.until_ns, loaded=True)
    outside = [f"another program computes {p.name}" for p in system.plants if p.outside]
    reasons = [*eligible.why_not, *eligible.interpreted, *outside]
    _refuse(list(dict.fromkeys(reasons)), system)
    table = Table(system, trace, eligible.reactions, alone=True)
    _refuse([f"{name} draws random numbers ({what})" for what, name in table.draw_list], system)
    copy_in(table, ())
    table.state["now"] = NOTHING
    table.header["most"] = 2**31
    for track in table.track_states:  # no row is recorded
        track["block"]["length"] = track["spare"]["length"] = 0
        track["block"]["address"] = track["spare"]["address"] = 0
    model = np.zeros(1, MODEL)
    model["header"] = table.entry
    kept: list[Any] = [model, *vars(table).values()]
    kept += [vector for port in system.ports.values() for vector in (port.value, port.early)]
    exchange = len(system.plants) == 1 and bool(alone)
    dx, indicators = np.zeros(0), np.zeros(0)
    if exchange:
        dx, indicators = _exchange(system.plants[0], model, kept)
    image = freeze(arrays_in(kept), lambda address: _unknown(address, scenario))
    listing = _Listing(system, image, alone)
    variables = listing.all(dx, indicators)
    places = {"derivatives": dx, "indicators": indicators, "states": system.plants[0].x}
    first = {n: image.place(a) if exchange and a.size else 0 for n, a in places.items()}
    return Frozen(
        alone or scenario.name, image, tuple(variables), image.place(model), exchange, first,
        min(p.step.seconds for p in system.plants), scenario.until_ns / 1e9, _text(scenario, alone),
    )  # fmt: skip


def _unknown(address: int, scenario: Scenario) -> str:
    return (
        f"scenario {scenario.name} cannot be exported: its compiled code uses memory outside its "
        f"arrays (at {address:#x}); export a plant of the scenario with --plant NAME"
    )


def _text(scenario: Scenario, alone: str) -> str:
    return f"plant {alone} of scenario {scenario.name}" if alone else f"scenario {scenario.name}"


def _exchange(
    plant: RunningPlant, model: NDArray[Any], kept: list[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Add what a Model Exchange needs; return the vectors of derivatives and event indicators."""
    bound, vectors = plant.bound, (plant.x, plant.z, plant.u, plant.p)
    dx, m = np.zeros(plant.x.size), len(bound.model.guards)
    derivative = evaluation_block(bound.derivative, *vectors, dx)
    model["derivative"] = place_of(derivative.words)
    indicators = np.zeros(m)
    kept += [derivative, indicators, dx]
    if m:
        g, sides = np.zeros(m), np.zeros(m)
        guards = evaluation_block(bound.guard, *vectors, g)
        for name, array in (("guards", guards.words), ("g", g), ("sides", sides)):
            model[name] = place_of(array)
        model["indicators"] = place_of(indicators)
        kept += [guards, g, sides]
    return dx, indicators


_REMEDIES = (
    ("reacts in Python", "leave it out (--plant NAME exports one plant)"),
    ("is not compiled", "write its class with compile=True, and its equations in the subset of "
     "docs/compiling.md"),
    ("the solver or the model of", "choose one of rtsim's own solvers, such as rk4, and a model "
     "that compiles"),
    ("has a state", "give a fixed latency"),
    ("draws random numbers", "give a fixed latency, or leave the noise out"),
    ("wait for a medium", "connect the components without a medium"),
    ("faults are declared", "remove the faults from the scenario"),
    ("external inputs", "declare a source in place of the external input"),
    ("another program computes", "give that program itself to the other tool"),
    ("has delays", "replace the delay by a TransportDelay block with samples"),
)  # fmt: skip


def _refuse(reasons: list[str], system: System) -> None:
    """Raise :class:`ScenarioError` if there are reasons against an export."""
    for plant in system.plants:
        if plant.bound.history is not None:
            reasons.append(f"the model of {plant.name} has delays")
    if not reasons:
        return
    remedies = {text for part, text in _REMEDIES if any(part in one for one in reasons)}
    raise ScenarioError(
        f"this scenario cannot be exported: {'; '.join(reasons)}. A library without Python "
        f"contains only compiled code: {'; '.join(sorted(remedies)) or 'see docs/fmi.md'}"
    )


class _Listing:
    """The list of variables of an exported system."""

    def __init__(self, system: System, image: Image, alone: str) -> None:
        self._system, self._image, self._alone = system, image, alone

    def all(self, dx: NDArray[np.float64], indicators: NDArray[np.float64]) -> Iterator[Variable]:
        found = [Variable("time", Kind.TIME, "independent", "continuous", unit="s")]
        for number, plant in enumerate(self._system.plants):
            found += self._plant(plant, number, len(found))
        for name, port in sorted(self._system.ports.items()):
            if name not in {p.name for p in self._system.plants}:
                found += self._port(name, port.signals, port.value)
        found += self._parameters()
        if self._alone:
            found += self._derivatives(self._system.plants[0], dx, indicators)
        found[0] = replace(found[0], name=identifier("time", {one.name: one for one in found[1:]}))
        return iter(found)

    def _named(self, component: str, name: str) -> str:
        return name if component == self._alone else f"{component}.{name}"

    def _of(
        self, component: str, signals: Signals, vector: NDArray[np.float64], kind: Kind,
        causality: str, variability: str, owner: int,
    ) -> list[Variable]:  # fmt: skip
        found = []
        for signal in signals:
            first = signals.slice(signal.name).start
            bounded = kind == Kind.INPUT
            low, high = (signal.low, signal.high) if bounded else (-math.inf, math.inf)
            for i, name in enumerate(elements(signal)):
                place = self._image.place(vector[first + i : first + i + 1])
                also = () if kind == Kind.COMPUTED else self._also(component, signal.name, i, place)
                start = None if kind == Kind.COMPUTED else float(vector[first + i])
                found.append(
                    Variable(
                        self._named(component, name), kind, causality, variability, place,
                        signal.unit, signal.description, start, low=low, high=high,
                        also=also, owner=owner,
                    )
                )  # fmt: skip
        return found

    def _also(self, component: str, name: str, i: int, place: int) -> tuple[int, ...]:
        """Return the places of further vectors that hold element ``i`` of an initial value."""
        initial = self._system.initials.get(f"{component}.{name}")
        if initial is None:
            return ()
        at = initial.signals.slice(name).start + i
        held = [v[at : at + 1] for v in initial.vectors if self._image.holds(v)]
        return tuple(p for p in map(self._image.place, held) if p != place)

    def _plant(self, plant: RunningPlant, number: int, first: int) -> list[Variable]:
        model = plant.bound.model
        name = plant.name
        states = self._of(name, model.states, plant.x, Kind.STATE, "output", "continuous", number)
        discrete = self._of(name, model.discrete, plant.z, Kind.START, "output", "discrete", number)
        inputs = []
        for one in model.inputs:
            where = model.inputs.slice(one.name)
            given = plant.u[where], Signals(one)
            if plant.wiring is None or one.name not in plant.wiring.sources:
                found = self._of(
                    name, given[1], given[0], Kind.INPUT, "input", "continuous", number
                )
                if plant.wiring is not None:
                    into = plant.wiring.into[where]
                    places = (self._image.place(into[i : i + 1]) for i in range(into.size))
                    found = [replace(v, also=(p,)) for v, p in zip(found, places, strict=True)]
            else:
                found = self._of(
                    name, given[1], given[0], Kind.COMPUTED, "local", "discrete", number
                )
            inputs += found
        outputs = self._of(
            name, model.outputs, plant.y, Kind.COMPUTED, "output", "continuous", number
        )
        states = [replace(one, dependencies=(first + i,)) for i, one in enumerate(states)]
        discrete = [replace(one, dependencies=()) for one in discrete]
        known = self._reads(model.output, model, model.outputs.size, first)
        outputs = [
            replace(one, dependencies=None if known is None else known[i])
            for i, one in enumerate(outputs)
        ]
        return [*states, *discrete, *inputs, *outputs]

    def _reads(
        self, function: Any, model: Any, count: int, first: int
    ) -> list[tuple[int, ...]] | None:
        """Return the references of the states and inputs that each result reads.

        FMI does not count discrete values, which change only at events, and the time.
        """
        if function is None or model.origin is not None:
            return None
        found: list[set[int]] = [set() for _ in range(count)]
        inputs_at = first + model.states.size + model.discrete.size
        for position, size, at in (
            (1, model.states.size, first),
            (3, model.inputs.size, inputs_at),
        ):
            read = direct_inputs(function, size, count, position)
            if read is None:
                return None
            for into, numbers in zip(found, read, strict=True):
                into.update(at + i for i in numbers)
        return [tuple(sorted(one)) for one in found]

    def _port(self, name: str, signals: Signals, vector: NDArray[np.float64]) -> list[Variable]:
        source = any(c.owner is self._system.ports[name] for c in self._system.changeable.values())
        if source:
            return self._of(name, signals, vector, Kind.INPUT, "input", "discrete", SOURCE)
        return self._of(name, signals, vector, Kind.COMPUTED, "output", "discrete", NOBODY)

    def _parameters(self) -> list[Variable]:
        plants = {plant.name: i for i, plant in enumerate(self._system.plants)}
        found = []
        for target, one in sorted(self._system.changeable.items()):
            component, _, name = target.partition(".")
            is_plant = component in plants
            if one.owner is not None and not is_plant:
                continue  # a source
            if is_plant:
                model = self._system.plants[plants[component]].bound.model
                if name not in model.parameters:
                    continue  # an input
            if not self._image.holds(one.vector):
                continue  # a parameter that no compiled code reads
            signals, where = Signals(one.signals[name]), one.signals.slice(name)
            owner = plants.get(component, NOBODY)
            found += self._of(
                component, signals, one.vector[where], Kind.INPUT, "parameter", "tunable", owner
            )
        return found

    def _derivatives(
        self, plant: RunningPlant, dx: NDArray[np.float64], indicators: NDArray[np.float64]
    ) -> list[Variable]:
        model, found = plant.bound.model, []
        known = self._reads(model.derivative, model, model.states.size, 1)
        i = 0
        for signal in model.states:
            for name in elements(signal):
                found.append(
                    Variable(
                        f"der({name})", Kind.DERIVATIVE, "local", "continuous",
                        self._image.place(dx[i : i + 1]), f"{signal.unit}/s", state=1 + i,
                        dependencies=None if known is None else known[i],
                    )
                )  # fmt: skip
                i += 1
        for i, guard in enumerate(model.guards):
            found.append(
                Variable(
                    f"guard.{guard.name}", Kind.INDICATOR, "local", "continuous",
                    self._image.place(indicators[i : i + 1]),
                    description=f"event indicator of guard {guard.name}",
                )
            )  # fmt: skip
        return found
