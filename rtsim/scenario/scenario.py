"""The class ``Scenario``, to which components and their connections are added.

The order of the declarations does not affect a run: priorities and names order the reactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy, deepcopy
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any, TypedDict, TypeVar, Unpack, overload

import numpy as np

from rtsim.components.allowed_latency import Allowed, allowing, to_plain
from rtsim.components.controller import ControllerProtocol
from rtsim.components.external_inputs import ExternalInput, InputDevice
from rtsim.components.latency import ZERO, LatencyModel, latency_model
from rtsim.components.processor_tasks import Segment
from rtsim.components.scheduling import Server
from rtsim.core.clock import Wake
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals
from rtsim.core.tag import Duration, Period, declared_ns
from rtsim.discrete import Processes
from rtsim.engine.system import System
from rtsim.equations.compiling import Compilation
from rtsim.equations.constraints import explicit
from rtsim.equations.model import Model
from rtsim.named.controller import Controller
from rtsim.named.fields import ALGEBRAIC, INPUT, MEMORY, PARAMETER, STATE, NamedSignals
from rtsim.named.plant import Plant
from rtsim.record.views import Viewed
from rtsim.requirements.requirement import Given as GivenRequirement
from rtsim.requirements.requirement import Requirement
from rtsim.requirements.requirement import gather as gather_requirements
from rtsim.scenario.builder import Builder
from rtsim.scenario.chains import Chains
from rtsim.scenario.component import (
    Values,
    readable,
)
from rtsim.scenario.handles import (
    Handle,
    SignalName,
    Topics,
    names_of,
    refused,
    sources_of,
)
from rtsim.scenario.named_components import NamedComponents
from rtsim.scenario.processor_components import (
    Execution,
    Processors,
    check_offset,
    check_without_processor,
    measured_times,
    task_options,
)
from rtsim.scenario.shown import Drawn, Presented
from rtsim.scenario.standard_components import (
    ControllerComponent,
    ExternalInputComponent,
    NoiseComponent,
    PlantComponent,
    PlantSource,
    ProcessesComponent,
    SensorComponent,
    SourceComponent,
    check_plant,
    mode_number,
    stated,
    taking_over,
)
from rtsim.solve import Solver, solver_named

P = TypeVar("P", bound=Plant)
N = TypeVar("N", bound=Controller)


class PlantOptions(TypedDict, total=False):
    """Types of the options of ``Scenario.plant``, for type checkers."""

    solver: str | Solver | None
    inputs: Mapping[str, SignalName] | None
    update_period: Duration | Period | None
    update_offset: Duration
    priority: int


class ControllerOptions(TypedDict, total=False):
    """Types of the options of :meth:`Scenario.controller`, for type checkers."""

    period: Duration | Period | None
    offset: Duration
    inputs: Mapping[str, SignalName] | None
    compute: LatencyModel | Duration
    transport: LatencyModel | Duration
    late: str
    failure: str
    priority: int
    on: Topics
    processor: str | Handle | None
    execution: Execution | None
    segments: Sequence[Segment]
    deadline: Duration | None
    jitter: LatencyModel | Duration
    missed: str
    core: int | None
    server: Server | None


def _check_options(method: str, unknown: Mapping[str, object], options: type) -> None:
    known = [*(("step",) if options is PlantOptions else ()), *options.__annotations__]
    for name in unknown:
        problem = str(UnknownName("option", name, known, f"{method}()"))
        if name in ("rtol", "atol") and method == "plant":
            problem += f"; give it to the solver: solver=rtsim.solve.Adaptive({name}=...)"
        raise refused(problem)


def _named(name: Any, part: Any, kind: str) -> tuple[str, Any]:
    if part is not None or isinstance(name, str):
        if part is None:
            raise ScenarioError(f"{kind} {name} has no model; give scenario.{kind}({name!r}, ...)")
        return str(name), part
    if isinstance(name, type) and issubclass(name, NamedSignals):
        raise ScenarioError(f"{name.__name__} is a class; give an object: {name.__name__}()")
    if not isinstance(name, NamedSignals | Processes):
        path = getattr(getattr(name, "description", None), "path", None)
        if path is not None:
            raise ScenarioError(
                f"the {kind} of {path} has no name; give it first: {kind}('name', ...)"
            )
        raise ScenarioError(f"{name!r} is not a {kind}; give its name first: {kind}('name', ...)")
    return name.default_name(), name


class Scenario(NamedComponents, Processors, Chains, Presented, Drawn):
    """A simulation experiment: components, connections, and changes during the run.

    A run ends at the simulated time ``until`` (s). ``assumptions`` and ``limits`` are additional
    sentences for the recording.

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
        self._fields: dict[str, Mapping[str, str]] = {}
        """For each component that is an object of a class: names of signals by names of fields."""
        self._changes: list[tuple[int, str, object]] = []
        self.requirements: tuple[Requirement, ...] = ()
        """The requirements that a run must meet, in the order of their declaration."""
        self.checks_requirements = True
        """False for a replay, which keeps requirements that no longer fit the scenario."""
        self.origin: dict[str, Any] = {}
        """The file or name from which the scenario was loaded, for a replay."""

    @classmethod
    def from_components(
        cls,
        *parts: Plant | Controller | Processes,
        until: Duration,
        step: Duration | Period | None = None,
        solver: str | Solver | None = None,
    ) -> Scenario:
        """Return a scenario of ``parts``. Inputs are connected to signals of the same name.

        A component has the name of its class or, for processes, of its set-up function. The
        scenario has the name of its first component. The class of each controller must declare a
        period.

        Args:
            parts: Plants, controllers and processes.
            until: End of a run, s.
            step: Step of each plant, s. The default is ``until / 1000``.
            solver: Solver of each plant. The default is ``"rk4"`` if ``step`` is given, and
                otherwise ``"dp54"``, which controls its error.

        Raises:
            ScenarioError: A part has an unsuitable type, or an input has several possible sources.

        Example:
            room = Scenario.from_components(Heater(), Thermostat(), until=60)
        """
        if not parts:
            raise ScenarioError(
                "give one or more components: Scenario.from_components(Cart(), until=10)"
            )
        for part in parts:
            if not isinstance(part, Plant | Controller | Processes | type):
                raise ScenarioError(
                    f"{part!r} is not a plant, a controller or processes; declare it in a Scenario"
                )
        names = [_named(part, None, "component")[0] for part in parts]
        out = cls(names[0], until=until)
        frame = Period(Fraction(out.until_ns, 1000)) if step is None else step
        solver = solver or ("dp54" if step is None else "rk4")
        for part in parts:
            if isinstance(part, Plant):
                out.plant(part, step=frame, solver=solver)
            elif isinstance(part, Controller):
                out.controller(part)
            else:
                out.processes(part)
        for one, other in combinations(names, 2):
            for source, target in out._common(one, other):
                try:
                    out._connect_by_name(source, target)
                except ScenarioError as error:
                    raise ScenarioError(
                        f"{source} and {target} have the same name, but cannot be connected: "
                        f"{error}; declare the components in a Scenario, and connect their signals"
                    ) from None
        return out

    def copy(self) -> Scenario:
        """Return a copy that shares only models, controllers and devices with the original."""
        out = copy(self)
        out.components = {name: component.copy() for name, component in self.components.items()}
        out._orders, out._changes = list(self._orders), list(self._changes)
        out._fields = dict(self._fields)
        out.origin = deepcopy(self.origin)
        return out

    # -- components ----------------------------------------------------------------------------

    def _handle(self, name: str, part: object = None) -> Handle:
        if isinstance(part, NamedSignals):
            self._fields[name] = part.aliases()
        return self[name]

    def __contains__(self, name: object) -> bool:
        return name in self.components

    def __iter__(self) -> Iterator[str]:
        return iter(self.components)

    def __getitem__(self, name: str) -> Handle:
        """Return the handle of component ``name``.

        Raises :class:`UnknownName` for an unknown name.
        """
        self.component(name)

        def names() -> list[str]:
            component = self.components[name]
            settable = [n for values in component.settings() for n in values.signals.names]
            return list(dict.fromkeys((*readable(component, self.components).names, *settable)))

        return Handle(name, names, self._fields.get(name, {}))

    @overload
    def plant(
        self,
        name: str,
        model: Model | PlantSource,
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
        model: Model | Plant | PlantSource | None = None,
        *,
        step: Duration | Period,
        solver: str | Solver | None = None,
        states: Values | None = None,
        inputs: Mapping[str, SignalName] | None = None,
        parameters: Values | None = None,
        discrete: Values | None = None,
        algebraic: Values | None = None,
        update_period: Duration | Period | None = None,
        update_offset: Duration = 0,
        priority: int = 0,
        **unknown: Any,
    ) -> Any:
        """Declare a plant and return its handle.

        Pass an object of a plant class, ``plant(Cart(), step=0.01)``. By default, the plant has the
        name of its class. For another name, pass the name first: ``plant("left", Cart(),
        step=0.01)``. A :class:`Model` always needs a name.

        Args:
            name: Name of the component, or an object of a plant class.
            model: The model, the plant object or the FMU, if ``name`` is a name.
            step: Interval at which the plant ends its steps and is recorded, s.
            solver: Name of a solver or a solver object. The default is ``"rk4"``.
            states: Initial values of states, by name.
            inputs: For each input, a signal ``"component.signal"`` or a number.
            parameters: Values of parameters, by name.
            discrete: Initial values of the memory, by name.
            algebraic: Start values of the search for the algebraic variables, by name.
            update_period: Period of the model's update function, s.
            update_offset: Time of the first update, s.
            priority: If several components react at the same time, lower numbers react first.
        """
        _check_options("plant", unknown, PlantOptions)
        name, part = _named(name, model, "plant")
        model = part
        given: Values = {}
        if isinstance(model, Plant):
            given = model.given(INPUT)
            states = {**model.given(STATE), **(states or {})}
            parameters = {**model.given(PARAMETER), **(parameters or {})}
            discrete = {**model.given(MEMORY), **(discrete or {})}
            algebraic = {**model.given(ALGEBRAIC), **(algebraic or {})}
            inputs = {**given, **(inputs or {})}
            model = model.model()
        component: Callable[..., PlantComponent] = PlantComponent
        if isinstance(model, PlantSource):  # a Plant became a Model above
            options = {
                "solver": solver, "priority": priority, "states": states, "discrete": discrete,
                "algebraic": algebraic,
            }  # fmt: skip
            model.check_options(name, [option for option, value in options.items() if value])
            component, model = model.component, model.model()
        solver = "rk4" if solver is None else solver
        check_plant(name, model, solver, update_period, update_offset)
        self.add(
            name,
            component(
                explicit(model),
                Period.of(step, "step"),
                solver_named(solver),
                dict(states or {}),
                sources_of(inputs),
                dict(parameters or {}),
                {
                    **{k: mode_number(model, k, v) for k, v in (discrete or {}).items()},
                    **(algebraic or {}),
                },
                None if update_period is None else Period.of(update_period),
                declared_ns(update_offset),
                priority,
                dict(given),
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
        inputs: Mapping[str, SignalName] | None = None,
        compute: LatencyModel | Duration = ZERO,
        transport: LatencyModel | Duration = ZERO,
        late: str = "hold",
        failure: str = "end",
        priority: int = 0,
        on: Topics = (),
        processor: str | Handle | None = None,
        execution: Execution | None = None,
        segments: Sequence[Segment] = (),
        deadline: Duration | None = None,
        jitter: LatencyModel | Duration = ZERO,
        missed: str = "finish",
        core: int | None = None,
        server: Server | None = None,
        **unknown: Any,
    ) -> Any:
        """Declare a controller and return its handle.

        Pass an object of a controller class, ``controller(Brake(), period=0.1)``, or a name and any
        :class:`rtsim.extend.ControllerProtocol`. Give exactly one of ``period`` and ``on``.

        Args:
            name: Name of the component, or a controller of a class with fields.
            controller: The controller, if ``name`` is a name.
            period: Sample period, s. A controller class can also declare its period (``period =
                0.1``).
            offset: Time of the first sample, s.
            inputs: For each input, a signal ``"component.signal"`` or a number.
            compute: Time from the sample until the answer is sent: s, or a latency model.
            transport: Time from sending the answer until it arrives: s, or a latency model.
            late: Reaction to a late answer: ``"hold"``, ``"fail"`` or ``"stretch"``.
            failure: Reaction to a failed controller or invalid outputs: ``"end"`` ends the run,
                ``"hold"`` keeps the last outputs.
            priority: If several components react at the same time, lower numbers react first.
            on: Topics whose messages trigger a sample.
            processor: Processor on which the controller computes (:meth:`processor`). All
                arguments below need a processor.
            execution: Execution time of a job: s, a latency model, measured times ``"from:RUN"``
                (:meth:`task`), or a function of inputs, which are its arguments by name.
            segments: Parts of a job, instead of ``execution``.
            deadline: Time from the arrival of a job to its deadline, s; the default is the period.
            jitter: Time from the tick to the release of a job: s, or a latency model.
            missed: Reaction to a missed deadline: ``"finish"``, ``"abort"``, ``"skip"`` (the
                releases until the job has ended) or ``"end"`` (the run).
            core: Number of the core, from 1 on.
            server: Server that limits the processor time of the controller.
        """
        _check_options("controller", unknown, ControllerOptions)
        name, part = _named(name, controller, "controller")
        controller = part
        if isinstance(controller, Controller):
            period = controller.sample_period(period)
            controller = controller.controller(name)
        if (period is None) == (not names_of(on)):
            raise ScenarioError(f"controller {name}: give exactly one of period= and on=")
        options, needs = None, None
        if processor is not None:
            options, needs = task_options(
                name, str(processor), triggered=period is None, execution=execution,
                segments=segments, deadline=deadline, jitter=jitter, missed=missed, core=core,
                server=server, inputs=controller.inputs,
            )  # fmt: skip
        else:
            check_without_processor(
                name, execution=execution is not None, segments=bool(segments),
                deadline=deadline is not None, jitter=jitter not in (ZERO, 0),
                missed=missed != "finish", core=core is not None, server=server is not None,
            )  # fmt: skip
        self.add(
            name,
            ControllerComponent(
                controller,
                None if period is None else Period.of(period),
                check_offset(name, offset, period is None),
                priority,
                sources_of(inputs),
                latency_model(compute, f"compute of {name}"),
                latency_model(transport, f"transport of {name}"),
                late,
                names_of(on),
                failure,
                options=options,
                execution=needs,
            ),
        )
        return self._handle(name, part)

    def replace_controller(
        self,
        name: str,
        controller: ControllerProtocol | Controller,
        *,
        latency: Allowed | None = None,
        late: str | None = None,
        failure: str | None = None,
    ) -> None:
        """Replace a controller by another one with the same signals, for example in C.

        The signals may have a different order. Parameters, and initial values before the first
        message, keep their values. An omitted option does not change.

        Args:
            name: The controller to replace.
            controller: The new controller.
            latency: Time from sample to answer, in s or as measured delays.
            late: Reaction to a late answer.
            failure: Reaction to a failure of the controller.
        """
        component = self.controller_component(
            name, f"{name} is not a controller, so no controller can replace it"
        )
        if isinstance(controller, Controller):
            controller = controller.controller(name)
        design = component.controller
        component.controller = taking_over(name, design, controller)
        component.initial_inputs = {**design.inputs.declared_initial(), **component.initial_inputs}
        component.initial_outputs = {
            **design.outputs.declared_initial(), **component.initial_outputs,
        }  # fmt: skip
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
        """Set the time from a controller's sample to its answer, in s or as measured delays."""
        problem = f"{name} is not a controller, so it has no latency of computation"
        self.controller_component(name, problem).compute = allowing(latency)
        self.origin.setdefault("latencies", {})[name] = to_plain(latency)

    def sensor(
        self,
        name: str,
        sources: Mapping[str, SignalName],
        *,
        period: Duration | Period,
        offset: Duration = 0,
        transport: LatencyModel | Duration = ZERO,
        priority: int = 0,
    ) -> Handle:
        """Declare a sensor, which samples signals every ``period`` s and sends them in a message.

        ``sources`` contains a sampled signal for each signal of the sensor. A signal of the sensor
        has the unit and the kind of the sampled signal.
        """
        given = sources_of(sources)
        for signal, source in given.items():
            if not isinstance(source, str):
                raise refused(
                    f"{signal} of sensor {name} is {source!r}; give 'component.signal' to sample"
                )
        component = SensorComponent(
            given,
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
        """Declare white noise N(mean, deviation^2 / period), constant for each ``period`` (s)."""
        self.add(name, NoiseComponent(signals, mean, deviation, Period.of(period)))
        return self._handle(name)

    def source(self, name: str, signals: Signals, values: Values | None = None) -> Handle:
        """Declare a source of values that ``at`` can change, such as commands."""
        self.add(name, SourceComponent(signals, dict(values or {})))
        return self._handle(name)

    def processes(
        self,
        name: str | Processes,
        processes: Processes | None = None,
        *,
        inputs: Mapping[str, SignalName] | None = None,
        parameters: Values | None = None,
        on: Topics = (),
        transport: LatencyModel | Duration = ZERO,
        priority: int = 0,
    ) -> Handle:
        """Declare discrete-event processes (SimPy).

        By default, the component has the name of the set-up function. The processes receive the
        topics and guards (``"plant.guard"``) in ``on``. ``transport`` is the latency of all outputs
        and messages, in s or as a latency model.
        """
        name, part = _named(name, processes, "processes")
        component = ProcessesComponent(
            part,
            sources_of(inputs),
            dict(parameters or {}),
            names_of(on),
            latency_model(transport, f"transport of {name}"),
            priority,
        )
        self.add(name, component)
        return self._handle(name)

    def external_input(
        self, name: str, signals: Signals, device: InputDevice, *, wake: Wake | None = None
    ) -> Handle:
        """Declare an external input, which the run reads and records at each tag.

        A replay uses the recorded values. With ``wake``, each event of the device inserts a tag.
        """
        self.add(name, ExternalInputComponent(ExternalInput(name, signals, device, wake)))
        return self._handle(name)

    # -- relations and settings ------------------------------------------------------------------

    def order(self, *names: str | Handle | Controller) -> None:
        """Set the order of controllers that react at the same time.

        A controller receives answers without latency from controllers before it at the same time.
        """
        known = [str(name) for name in names]
        for name in known:
            self.controller_component(name, f"{name} is not a controller, so it has no order")
        self._orders.extend(pairwise(known))

    def at(self, time: Duration, target: SignalName, value: object) -> None:
        """Change the parameter or source ``"component.name"`` to ``value`` at ``time`` s."""
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

    def drive(self, target: SignalName, changes: Sequence[tuple[int, float]]) -> None:
        """Replace all scheduled changes of a source or parameter.

        ``changes`` contains times (ns) in ascending order, and the value from each time on; the
        time 0 gives the initial value. An external input is replaced by a source with the same
        signals.
        """
        target = str(target)
        owner, _, name = target.partition(".")
        component = self.components.get(owner)
        if isinstance(component, ExternalInputComponent):
            self.components[owner] = SourceComponent(component.external.signals)
        found = self.settable_of(target)
        if not found.live or found.signals[name].shape:
            raise ScenarioError(
                f"{target} is not a number that can change during a run; give a source, an "
                "external input or a parameter"
            )
        if any(b <= a for (a, _), (b, _) in pairwise([(-1, 0.0), *changes])):
            raise ScenarioError(f"the times of the changes of {target} are not in ascending order")
        self._changes = [one for one in self._changes if one[1] != target]
        driven = [[ns, float(value)] for ns, value in changes]
        self.origin["driven"] = {**self.origin.get("driven", {}), target: driven}
        for ns, value in changes:
            if ns:
                self._changes.append((ns, target, value))
            else:
                self.set(target, value)

    def require(self, name: str, formula: str, text: str = "") -> None:
        """Declare a requirement: a formula that each run must meet (``docs/requirements.md``).

        A run fails if it violates the requirement. ``build`` checks the names and units in the
        formula.

            loop.require("REQ-12", "always[5, 20] abs(cart.x - wanted.x) < 0.1 m")

        Args:
            name: Name of the requirement.
            formula: Formula in signal temporal logic.
            text: The requirement as a sentence.
        """
        self.require_all(Requirement(name, formula, text))

    def require_all(self, *given: GivenRequirement) -> None:
        """Declare requirements from files (TOML), texts ``NAME: FORMULA`` or dicts."""
        self.requirements = gather_requirements((*self.requirements, *given))

    def set(self, target: SignalName, value: object) -> None:
        """Set ``"component.name"`` for the start of a run, or ``"fault.entry"`` of a fault.

        The name is that of a parameter, state, input, value of a source, or of the latency
        ``compute`` or ``transport`` in s. The entry of a fault is a number, such as ``at`` in s.
        """
        values, signals, _ = self.settable_of(target)
        owner, _, name = str(target).partition(".")
        component = self.components.get(owner)
        if isinstance(value, str) and isinstance(component, PlantComponent):
            value = component.number(name, value)
        signals.initial({name: value})
        values[name] = value

    def named_number(self, target: SignalName, text: str) -> str | None:
        """Return ``text`` if it is the name of a value of ``target``, such as a mode, else None.

        Raises :class:`UnknownName` if ``target`` does not exist, or if its values have other names.
        """
        self.settable_of(target)
        owner, _, name = str(target).partition(".")
        component = self.components.get(owner)
        if text[:1].isalpha() and isinstance(component, PlantComponent):
            return text if component.number(name, text) != text else None
        return None

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
        """Return a new system, with all components in their initial states.

        Args:
            seed: Seed of all random streams.
            compile: True compiles models to machine code; False executes them as plain Python.
            external_inputs: External inputs that replace the declared ones in a replay, by name.
            controllers: Controllers that replace the declared ones in a replay, by name.
            inserted: Times of the tags that event inputs inserted into the recorded run, ns.
        """
        self.check_presentation()
        if self.checks_requirements:
            self.check_requirements()
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

    def check_requirements(self) -> None:
        """Raise ``ScenarioError`` if a requirement uses unknown signals or wrong units."""
        self.check_chains()
        for requirement in (one for one in self.requirements if one.chain is None):
            requirement.check(self._unit_of)

    def _unit_of(self, name: str) -> str:
        owner, dot, signal = name.rpartition(".")
        if not dot:
            raise ScenarioError(f"{name} is not a signal of a component; write component.signal")
        component = self.component(owner)
        found = [readable(component, self.components)]
        found += [values.signals for values in component.settable()]
        for one in (one for signals in found for one in signals):
            if signal in one.columns:
                return one.unit
            if signal == one.name:
                raise ScenarioError(f"{name} is an array; give one of its elements: {name}[0]")
        known = dict.fromkeys(name for signals in found for name in signals.columns)
        raise UnknownName("signal", signal, known, owner)

    def functions(self) -> list[Any]:
        """Return all functions that compute the run."""
        components = [component for _, component in sorted(self.components.items())]
        return [function for component in components for function in component.functions()]

    def viewed(self) -> Viewed:
        return Viewed(self.presentation.views, self.describe()["parts"], self.readable())

    def describe(self) -> dict[str, Any]:
        components = dict(sorted(self.components.items()))
        valid = [component.validity() for component in components.values()]
        return {
            "name": self.name,
            "until": self.until_ns,
            "origin": {**self.origin, **measured_times(components)},
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
