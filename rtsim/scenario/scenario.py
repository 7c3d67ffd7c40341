"""Scenario: plants, controllers and the links between them, declared by name.

Components can be declared in any order: a run depends on their names and priorities, and not on the
order of the lines.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

import numpy as np

from rtsim.components.allowed_latency import Allowed, allowing, to_plain
from rtsim.components.controller import ControllerProtocol
from rtsim.components.external_inputs import ExternalInput, InputDevice
from rtsim.components.latency import ZERO, LatencyModel, latency_model
from rtsim.components.ports import Source
from rtsim.core.clock import Wake
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals
from rtsim.core.tag import Duration, Period, declared_ns
from rtsim.discrete import Processes
from rtsim.engine.faults import Fault
from rtsim.engine.faults.description import Given, all_different, gather
from rtsim.engine.system import (
    System,
)
from rtsim.equations.compiling import Compilation
from rtsim.equations.constraints import explicit
from rtsim.equations.model import Model
from rtsim.named.controller import Controller
from rtsim.named.fields import ALGEBRAIC, INPUT, MEMORY, PARAMETER, STATE, NamedSignals
from rtsim.named.plant import Plant
from rtsim.record.views import Viewed
from rtsim.scenario.builder import Builder
from rtsim.scenario.component import (
    Component,
    Settable,
    Values,
    check_component,
    readable,
)
from rtsim.scenario.handles import (
    Handle,
    SignalName,
    check_connection,
    refused,
    warn_if_hidden,
)
from rtsim.scenario.shown import Presented
from rtsim.scenario.standard_components import (
    ControllerComponent,
    ExternalInputComponent,
    NoiseComponent,
    PlantComponent,
    ProcessesComponent,
    SensorComponent,
    SourceComponent,
    check_plant,
    stated,
    taking_over,
)
from rtsim.solve import Solver, solver_named

if TYPE_CHECKING:
    from rtsim.record.reports.drawing import Drawing


# The components of a scenario by name.

C = TypeVar("C", bound=Component)
P = TypeVar("P", bound=Plant)
N = TypeVar("N", bound=Controller)

RESERVED = frozenset(("timing", "messages", "inputs", "events", "measured", "stamps"))
"""Names of tracks that every recording has, which a component must not have."""


class NamedComponents:
    """The components of a scenario, by name; all names differ."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.components: dict[str, Component] = {}

    def add(self, name: str, component: Component) -> None:
        """Add a component of any kind, such as your own (``docs/extending-components.md``).

        Warns if results have an attribute of this name: ``run["speed.x"]`` reads the component
        then, but not ``run.speed.x``.

        Raises :class:`ScenarioError` if ``name`` is reserved, in use, or not an identifier.
        """
        if name in RESERVED:
            raise ScenarioError(
                f"component name {name!r} is reserved, because every recording has a track of "
                "this name; choose another name"
            )
        if not name.isidentifier():
            raise ScenarioError(
                f"component name {name!r} is not an identifier; use letters, digits, _"
            )
        if name in self.components:
            raise ScenarioError(
                f"component {name} is declared twice; give one of the two components another name"
            )
        check_component(name, component)
        warn_if_hidden(name)
        self.components[name] = component
        for other, companion in component.companions(name).items():
            self.add(other, companion)

    def of(self, kind: type[C]) -> dict[str, C]:
        """Return the components of class ``kind`` by name, in the order of their declaration."""
        return {name: one for name, one in self.components.items() if isinstance(one, kind)}

    def component(self, name: str) -> Component:
        """Return component ``name``; raises :class:`UnknownName` for an unknown name."""
        if name not in self.components:
            raise UnknownName("component", name, sorted(self.components), f"scenario {self.name}")
        return self.components[name]

    def readable(self) -> dict[str, Signals]:
        """Return the signals of each component that inputs and views can read, by its name."""
        return {name: readable(one, self.components) for name, one in self.components.items()}

    def adjustable(self) -> dict[str, str]:
        """Return the unit of each element of a parameter that can change during a run."""
        return {
            f"{name}.{column}": signal.unit
            for name, component in self.components.items()
            for values in component.settable()
            if values.live
            for signal in values.signals
            for column in signal.columns
        }

    def changeable(self) -> dict[str, dict[str, Any]]:
        """Return unit and shape of each value that can change during a run, for a recording."""
        return {
            f"{name}.{signal.name}": {"unit": signal.unit, "shape": list(signal.shape)}
            for name, component in self.components.items()
            for values in component.settable()
            if values.live
            for signal in values.signals
        }

    def plant_names(self) -> list[str]:
        """Return the names of the plants, sorted."""
        return sorted(self.of(PlantComponent))

    def controller_component(self, name: str, problem: str) -> ControllerComponent:
        """Return the declaration of controller ``name``.

        Raises :class:`ScenarioError` with the text ``problem`` if ``name`` is not a controller.
        """
        controllers = self.of(ControllerComponent)
        if name not in controllers:
            self.component(name)
            raise ScenarioError(problem)
        return controllers[name]

    def settable_of(self, target: SignalName) -> Settable:
        """Return the declared values that contain ``target``, ``"component.name"``.

        Raises :class:`UnknownName` if no component has such a value.
        """
        owner, dot, name = str(target).partition(".")
        if not dot:
            raise ScenarioError(f"{target!r} is not the name of a value; write 'component.name'")
        choices = self.component(owner).settable()
        for choice in choices:
            if name in choice.signals:
                return choice
        known = [n for choice in choices for n in choice.signals.names]
        raise UnknownName("value", name, known, owner)


# The drawing of a scenario, and what a notebook shows of it.


class Drawn:
    """The methods of a scenario that draw it."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the scenario as plain data."""

    def draw(self) -> Drawing:
        """Return a drawing of the components, their wires and their latencies.

        A notebook shows it.  ``draw().svg`` is a picture as text, and ``draw().save("x.svg")``
        writes it.  A scenario that is not complete can be drawn too.
        """
        from rtsim.record.reports.drawing import drawn  # a run draws nothing

        return drawn(self.describe())

    def _repr_html_(self) -> str:
        from rtsim.record.reports.drawing import component_table

        return self.draw().html() + component_table(self.describe())


class PlantOptions(TypedDict, total=False):
    """Options of a plant, for type checkers; :meth:`Scenario.plant` has their defaults."""

    solver: str | Solver
    inputs: Mapping[str, Source] | None
    update_period: Duration | Period | None
    update_offset: Duration
    priority: int


class ControllerOptions(TypedDict, total=False):
    """Options of a controller, for type checkers; :meth:`Scenario.controller` has the defaults."""

    period: Duration | Period | None
    offset: Duration
    inputs: Mapping[str, Source] | None
    compute: LatencyModel | Duration
    transport: LatencyModel | Duration
    late: str
    failure: str
    priority: int
    on: Sequence[str]


def _named(name: Any, part: Any, kind: str) -> tuple[str, Any]:
    """Return the name and the object of a component, whose class can give its name."""
    if part is not None or isinstance(name, str):
        if part is None:
            raise ScenarioError(f"{kind} {name} has no model; give scenario.{kind}({name!r}, ...)")
        return str(name), part
    if isinstance(name, type) and issubclass(name, NamedSignals):
        raise ScenarioError(f"{name.__name__} is a class; give an object: {name.__name__}()")
    if not isinstance(name, NamedSignals):
        raise ScenarioError(f"{name!r} is not a {kind}; give its name first: {kind}('name', ...)")
    return name.default_name(), name


def mode_number(model: Model, name: str, value: object) -> object:
    """Return the number of the mode ``value`` of the signal ``name``; other values unchanged."""
    if not isinstance(value, str) or not model.modes or name != model.discrete.names[-1]:
        return value
    if value not in model.modes:
        raise UnknownName("mode", value, model.modes, f"{model.name}.{name}")
    return float(model.modes.index(value))


class Scenario(NamedComponents, Presented, Drawn):
    """One experiment: its components, their links, and what changes during a run.

    :meth:`build` makes a new system each time.  ``until``: end of a run, s.  ``assumptions`` and
    ``limits`` are sentences for every recording, in addition to the sentences of the models.

    Example:
        room = Scenario("room", until=60)
        room.plant("heater", heater, step=0.1, inputs={"supply": "thermostat.supply"})
        room.controller(
            "thermostat", thermostat, period=1, inputs={"temperature": "heater.temperature"}
        )
        simulate(room)
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
        self.until_ns = declared_ns(until, "until")
        if self.until_ns <= 0:
            raise ScenarioError(f"until is {until!r} s, but a run must last longer than 0 s")
        self.assumptions = tuple(assumptions)
        self.limits = tuple(limits)
        self._orders: list[tuple[str, str]] = []
        self._changes: list[tuple[int, str, object]] = []
        self._faults: tuple[Fault, ...] = ()
        self.origin: dict[str, Any] = {}
        """The file or name from which the scenario was loaded; a replay loads it again."""

    def copy(self) -> Scenario:
        """Return an independent copy; it shares only models, controllers and devices."""
        out = copy(self)
        out.components = {name: component.copy() for name, component in self.components.items()}
        out._orders, out._changes = list(self._orders), list(self._changes)
        out.origin = deepcopy(self.origin)
        return out

    # -- components ----------------------------------------------------------------------------

    def _handle(self, name: str, part: object = None) -> Handle:
        """Return the handle of component ``name``; ``part`` can have fields."""

        def names() -> list[str]:
            component = self.components[name]
            settable = [n for values in component.settable() for n in values.signals.names]
            return list(dict.fromkeys((*readable(component, self.components).names, *settable)))

        return Handle(name, names, part.aliases() if isinstance(part, NamedSignals) else {})

    @overload
    def plant(
        self,
        name: str,
        model: Model,
        *,
        step: Duration | Period,
        states: Values | None = None,
        parameters: Values | None = None,
        discrete: Values | None = None,
        algebraic: Values | None = None,
        **options: Unpack[PlantOptions],
    ) -> Handle: ...
    @overload
    def plant(self, name: P, *, step: Duration | Period, **options: Unpack[PlantOptions]) -> P: ...
    @overload
    def plant(
        self, name: str, model: P, *, step: Duration | Period, **options: Unpack[PlantOptions]
    ) -> P: ...
    def plant(
        self,
        name: str | Plant,
        model: Model | Plant | None = None,
        *,
        step: Duration | Period,
        solver: str | Solver = "rk4",
        states: Values | None = None,
        inputs: Mapping[str, Source] | None = None,
        parameters: Values | None = None,
        discrete: Values | None = None,
        algebraic: Values | None = None,
        update_period: Duration | Period | None = None,
        update_offset: Duration = 0,
        priority: int = 0,
    ) -> Any:
        """Declare a plant with its solver and its step (s), and return its handle.

        The plant is an object of a class of plants, ``plant(Cart(), step=0.01)``, with its name in
        front if it is not that of the class: ``plant("left", Cart(), step=0.01)``.  Or it is a
        :class:`Model` with its name.

        ``inputs`` gives for each input of the model ``"component.signal"`` or a number.
        ``algebraic`` gives the values at which the first search for the algebraic values begins.
        """
        name, part = _named(name, model, "plant")
        model = part
        if isinstance(model, Plant):
            states = {**model.given(STATE), **(states or {})}
            parameters = {**model.given(PARAMETER), **(parameters or {})}
            discrete = {**model.given(MEMORY), **(discrete or {})}
            algebraic = {**model.given(ALGEBRAIC), **(algebraic or {})}
            inputs = {**model.given(INPUT), **(inputs or {})}
            model = model.model()
        check_plant(name, model, solver, update_period)
        self.add(
            name,
            PlantComponent(
                explicit(model),
                Period.of(step, "step"),
                solver_named(solver),
                dict(states or {}),
                dict(inputs or {}),
                dict(parameters or {}),
                {
                    **{k: mode_number(model, k, v) for k, v in (discrete or {}).items()},
                    **(algebraic or {}),
                },
                None if update_period is None else Period.of(update_period),
                declared_ns(update_offset),
                priority,
            ),
        )
        return self._handle(name, part)

    @overload
    def controller(
        self, name: str, controller: ControllerProtocol, **options: Unpack[ControllerOptions]
    ) -> Handle: ...
    @overload
    def controller(self, name: N, **options: Unpack[ControllerOptions]) -> N: ...
    @overload
    def controller(self, name: str, controller: N, **options: Unpack[ControllerOptions]) -> N: ...
    def controller(
        self,
        name: str | Controller,
        controller: ControllerProtocol | Controller | None = None,
        *,
        period: Duration | Period | None = None,
        offset: Duration = 0,
        inputs: Mapping[str, Source] | None = None,
        compute: LatencyModel | Duration = ZERO,
        transport: LatencyModel | Duration = ZERO,
        late: str = "hold",
        failure: str = "end",
        priority: int = 0,
        on: Sequence[str] = (),
    ) -> Any:
        """Declare a controller that samples its inputs every ``period`` s; return its handle.

        The controller is an object of a class of controllers, ``controller(Brake(), period=0.1)``,
        or any :class:`rtsim.extend.ControllerProtocol` with its name in front.

        With ``on`` it samples when a message of one of these topics arrives.  Its answer leaves
        ``compute`` after the sample and arrives ``transport`` later; each is a latency model, or a
        number of s.  ``late``: what happens if the answer is late ("hold", "fail" or "stretch").
        ``failure``: what happens if the controller fails or gives invalid outputs ("end" the run,
        or "hold" the last outputs).
        """
        name, part = _named(name, controller, "controller")
        controller = part
        if isinstance(controller, Controller):
            controller = controller.controller(name)
        if (period is None) == (not on):
            raise ScenarioError(f"controller {name}: give exactly one of period= and on=")
        self.add(
            name,
            ControllerComponent(
                controller,
                None if period is None else Period.of(period),
                declared_ns(offset),
                priority,
                dict(inputs or {}),
                latency_model(compute, f"compute of {name}"),
                latency_model(transport, f"transport of {name}"),
                late,
                tuple(on),
                failure,
            ),
        )
        return self._handle(name, part)

    def connect(self, source: SignalName, target: SignalName) -> None:
        """Connect ``source``, a signal or a number, to the input ``target`` of a component.

        Both are ``"component.signal"``, or ``component.signal`` of a handle.  Raises
        :class:`ScenarioError`, with the line, if the target is not an input or is connected
        already, or if the units or the shapes differ.
        """
        try:
            self._connect(source, target)
        except ScenarioError as error:
            raise refused(str(error)) from None

    def _connect(self, source: SignalName, target: SignalName) -> None:
        for one, what in ((source, "source"), (target, "target")):
            if isinstance(one, Handle):
                raise ScenarioError(
                    f"the {what} of the connection is the component {one}; give one of its "
                    f"signals, such as {one}.{next(iter(dir(one)), 'NAME')}"
                )
        if not isinstance(target, str):
            raise ScenarioError(f"the target of a connection is {target!r}; give an input")
        owner, _, name = target.partition(".")
        component = self.component(owner)
        inputs: dict[str, Any] = getattr(component, "inputs", {})
        wanted = next((v.signals for v in component.settable() if v.values is inputs), Signals())
        if name not in wanted:
            if name not in readable(component, self.components):
                raise UnknownName("input", name, wanted.names, owner)
            raise ScenarioError(
                f"{target} is not an input, so nothing can be connected to it; write "
                "connect(source, input)"
            )
        if isinstance(inputs.get(name), str):
            raise ScenarioError(f"{target} is already connected, to {inputs[name]}")
        if not isinstance(source, str):
            wanted.initial({name: source})
            inputs[name] = source
            return
        other, _, signal = source.partition(".")
        if other in self.components:
            signals = readable(self.components[other], self.components)
            if signal not in signals:
                raise UnknownName("signal", signal, signals.names, other)
            check_connection(source, signals[signal], target, wanted[name])
        inputs[name] = str(source)

    def replace_controller(
        self,
        name: str,
        controller: ControllerProtocol | Controller,
        *,
        latency: Allowed | None = None,
        late: str | None = None,
        failure: str | None = None,
    ) -> None:
        """Replace controller ``name`` by ``controller``, such as its C code.

        Both controllers must have the same signals, in any order.  The new controller takes over
        the values of the parameters that both have.  ``latency``: the time in which
        it must answer, s or measured.  An argument that is not given leaves the declared value.
        """
        component = self.controller_component(
            name, f"{name} is not a controller, so no controller can replace it"
        )
        if isinstance(controller, Controller):
            controller = controller.controller(name)
        component.controller = taking_over(name, component.controller, controller)
        if latency is not None:
            component.compute = allowing(latency)
        component.late = component.late if late is None else late
        component.failure = component.failure if failure is None else failure
        self.origin.setdefault("replaced", {})[name] = {
            "latency": None if latency is None else to_plain(latency),
            "late": component.late,
            "failure": component.failure,
        }

    def allow(self, name: str, latency: Allowed) -> None:
        """Set the time from sample to answer of controller ``name``: s, or measured delays."""
        problem = f"{name} is not a controller, so it has no latency of computation"
        self.controller_component(name, problem).compute = allowing(latency)
        self.origin.setdefault("latencies", {})[name] = to_plain(latency)

    def sensor(
        self,
        name: str,
        sources: Mapping[str, str],
        *,
        period: Duration | Period,
        offset: Duration = 0,
        transport: LatencyModel | Duration = ZERO,
        priority: int = 0,
    ) -> Handle:
        """Declare a sensor that samples ``sources`` every ``period`` s and sends a message.

        ``sources`` gives ``"component.signal"`` for each signal of the sensor.  A signal has the
        unit and the kind of its source.
        """
        component = SensorComponent(
            dict(sources),
            Period.of(period),
            declared_ns(offset),
            priority,
            latency_model(transport, f"transport of {name}"),
        )
        self.add(name, component)
        return self._handle(name)

    def noise(
        self,
        name: str,
        signals: Signals,
        *,
        deviation: float,
        period: Duration | Period,
        mean: float = 0.0,
    ) -> Handle:
        """Declare white noise, constant over each ``period`` s: N(mean, deviation^2 / period)."""
        self.add(name, NoiseComponent(signals, mean, deviation, Period.of(period)))
        return self._handle(name)

    def source(self, name: str, signals: Signals, values: Values | None = None) -> Handle:
        """Declare named values that :meth:`at` changes, for example commands of an autopilot."""
        self.add(name, SourceComponent(signals, dict(values or {})))
        return self._handle(name)

    def processes(
        self,
        name: str,
        processes: Processes,
        *,
        inputs: Mapping[str, Source] | None = None,
        parameters: Values | None = None,
        on: Sequence[str] = (),
        transport: LatencyModel | Duration = ZERO,
        priority: int = 0,
    ) -> Handle:
        """Declare discrete-event processes (SimPy).

        ``on``: the topics and guards (``"plant.guard"``) that they wait for.  Their outputs
        and topics are sent as messages, which arrive ``transport`` later.
        """
        component = ProcessesComponent(
            processes,
            dict(inputs or {}),
            dict(parameters or {}),
            tuple(on),
            latency_model(transport, f"transport of {name}"),
            priority,
        )
        self.add(name, component)
        return self._handle(name)

    def external_input(
        self, name: str, signals: Signals, device: InputDevice, *, wake: Wake | None = None
    ) -> Handle:
        """Declare an external input: read at each tag, recorded, and fed again in a replay.

        ``wake`` makes it an event input, which can insert a tag.
        """
        self.add(name, ExternalInputComponent(ExternalInput(name, signals, device, wake)))
        return self._handle(name)

    # -- relations and settings ------------------------------------------------------------------

    def order(self, *names: str | Handle | Controller) -> None:
        """Let the controllers ``names`` react one after the other in a microstep.

        Each controller receives the answers of the earlier ones in the same microstep, if these
        answers take no time and no other process computes them.
        """
        known = [str(name) for name in names]
        for name in known:
            self.controller_component(name, f"{name} is not a controller, so it has no order")
        self._orders.extend(pairwise(known))

    def at(self, time: Duration, target: SignalName, value: object) -> None:
        """Change ``"component.name"``, a parameter or a source, to ``value`` at ``time`` s."""
        ns, target = declared_ns(time, "time of a change"), str(target)
        if ns < 0:
            raise ScenarioError(
                f"change of {target} at {time!r} s is before the start of the run; give a time >= 0"
            )
        if not self.settable_of(target).live:
            raise ScenarioError(
                f"{target} cannot change during a run; only parameters and values of sources "
                "can. To change an input, wire it to a source and change the source"
            )
        if any((ns, target) == (other, name) for other, name, _ in self._changes):
            raise ScenarioError(
                f"{target} is changed twice at {time!r} s; remove one of the changes"
            )
        self._changes.append((ns, target, value))

    def faults(self, *given: Given) -> None:
        """Inject faults from fault files, or from dicts with the entries of a fault.

        ``docs/faults.md`` describes the entries.  Raises :class:`FaultError`.
        """
        self._faults = all_different((*self._faults, *gather(given)))

    @property
    def declared_faults(self) -> tuple[Fault, ...]:
        """The declared, valid faults; :meth:`build` checks that their components exist."""
        return self._faults

    def only_faults(self, *given: Given) -> None:
        """Declare ``given`` in place of all earlier faults, as a replay does."""
        self._faults = gather(given)

    def set(self, target: SignalName, value: object) -> None:
        """Set the initial value of ``"component.name"``: parameter, state or value of a source."""
        values, signals, _ = self.settable_of(target)
        owner, _, name = str(target).partition(".")
        component = self.components[owner]
        if isinstance(value, str) and isinstance(component, PlantComponent):
            value = mode_number(component.model, name, value)
        signals.initial({name: value})
        values[name] = value

    # -- building --------------------------------------------------------------------------------

    def build(
        self,
        seed: int = 0,
        *,
        compile: Compilation = True,
        external_inputs: Mapping[str, ExternalInput] | None = None,
        controllers: Mapping[str, ControllerProtocol] | None = None,
        inserted: Sequence[int] = (),
    ) -> System:
        """Return a new system with every component in its initial state.

        In a replay ``external_inputs`` and ``controllers`` replace the declared ones by name, and
        ``inserted`` are the tags (ns) that event inputs inserted into the recorded run.
        """
        self.check_presentation()
        return Builder(
            self.components,
            self._orders,
            self._changes,
            seed,
            compile,
            external_inputs or {},
            controllers or {},
            self._faults,
            inserted,
        ).system()

    def functions(self) -> list[Any]:
        """Return all functions that compute the run, for the fingerprint."""
        components = [component for _, component in sorted(self.components.items())]
        return [function for component in components for function in component.functions()]

    def viewed(self) -> Viewed:
        """Return what :func:`rtsim.record.views.views_of` makes views from."""
        return Viewed(self.presentation.views, self.describe()["parts"], self.readable())

    def describe(self) -> dict[str, Any]:
        """Return the scenario as plain data, for the recording."""
        components = dict(sorted(self.components.items()))
        valid = [component.validity() for component in components.values()]
        return {
            "name": self.name,
            "until": self.until_ns,
            "origin": self.origin,
            "assumptions": stated(self.assumptions, [v.assumptions for v in valid]),
            "limits": stated(self.limits, [v.limits for v in valid]),
            "parts": {name: component.describe() for name, component in components.items()},
            "order": [list(pair) for pair in sorted(self._orders)],
            "changes": [
                {"ns": ns, "target": target, "value": np.asarray(value, dtype=float).tolist()}
                for ns, target, value in sorted(self._changes, key=lambda c: c[:2])
            ],
            **({"faults": [fault.describe() for fault in self._faults]} if self._faults else {}),
        }
