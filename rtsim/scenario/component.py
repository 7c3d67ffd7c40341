"""The base class of all components.

To add a kind of component, derive a class from :class:`Component`. A scenario calls its methods
:meth:`~Component.signals`, :meth:`~Component.settable`, :meth:`~Component.describe` and, for each
run, :meth:`~Component.build`. ``docs/extending-components.md`` contains an example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from rtsim.components.bus import Topic
from rtsim.components.controller import ControllerProtocol
from rtsim.components.controller_task import ControllerTask
from rtsim.components.external_inputs import ExternalInput
from rtsim.components.latency import Fixed, latency_model
from rtsim.components.plant import RunningPlant
from rtsim.components.ports import SignalPort, Source, Wiring, check_wired
from rtsim.components.processor import Processor
from rtsim.components.processor_tasks import TaskTiming
from rtsim.components.protocols import Fresh, Prepared, check_controller
from rtsim.components.tasks import Task
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.engine.faults.at_signals import FaultyWiring
from rtsim.engine.faults.schedule import Installer
from rtsim.engine.system import Changeable, InitialValue, MessageListener
from rtsim.equations.compiling import Compilation

Values = Mapping[str, object]


class Settable(NamedTuple):
    """Values of a component that can be set, with their declarations."""

    values: dict[str, Any]
    """Values by the names of their signals, which :meth:`Scenario.set` changes."""
    signals: Signals
    live: bool = False
    """True if commands or :meth:`Scenario.at` can change the values during a run.

    In this case, :attr:`Built.changeable` must contain a :class:`Changeable` for each value.
    """


_LATENCIES = {
    "compute": Signal("compute", unit="s", low=0.0),
    "transport": Signal("transport", unit="s", low=0.0),
    "execution": Signal("execution", unit="s", low=0.0),
}


class _Latencies(dict[str, Any]):
    def __init__(self, component: Component, names: Sequence[str]) -> None:
        models = ((name, getattr(component, name)) for name in names)
        super().__init__((n, m.constant[0] / NS_PER_S) for n, m in models if isinstance(m, Fixed))
        self._component = component

    def __setitem__(self, name: str, seconds: Any) -> None:
        setattr(self._component, name, latency_model(seconds, name))
        super().__setitem__(name, seconds)


class Validity(NamedTuple):
    """Assumptions and limits of a component, as sentences for the recording."""

    assumptions: Sequence[str] = ()
    limits: Sequence[str] = ()


@dataclass
class Built:
    """The objects of a component for one run. Only the needed fields are set."""

    port: SignalPort | None = None
    """Signals that other components can read. The port has the name of the component."""
    topic: Topic | None = None
    """The topic of the component's messages. The messages arrive at the port of the same name."""
    tasks: Sequence[Task] = ()
    """Tasks that are executed at their ticks. The first task has the name of the component."""
    wiring: Wiring | None = None
    """Inputs of the component, from :meth:`Site.wiring`."""
    plant: RunningPlant | None = None
    controller: ControllerTask | None = None
    external: ExternalInput | None = None
    """An external input, from :meth:`Site.external`."""
    changeable: Sequence[Changeable] = ()
    """Values that can change during a run."""
    initials: Sequence[InitialValue] = ()
    """Values that :meth:`Scenario.set` sets.

    If :meth:`~Component.resettable` returns True, a prepared run sets these values without building
    the component again.
    """
    triggers: Sequence[str] = ()
    """Topics whose messages trigger the first task."""
    listener: MessageListener | None = None
    """The task that receives the messages and guards named by ``hears``."""
    hears: Sequence[str] = ()
    timing: tuple[str, TaskTiming] | None = None
    """Name of a processor, and the timing of the task that runs there."""
    processor: ProcessorDeclaration | None = None
    """Declaration of the processor of the same name."""


class ProcessorDeclaration(Protocol):
    """Declaration of a processor, which knows its tasks only when all components are built."""

    def running(
        self,
        name: str,
        tasks: Sequence[TaskTiming],
        controllers: Mapping[str, Any],
        streams: RandomStreams,
    ) -> tuple[Processor, list[InitialValue]]:
        """Return the processor for one run, and its values that can be set before the run."""
        ...


@dataclass
class Site:
    """Functions and data of a run for ``Component.build``."""

    components: Mapping[str, Component]
    seed: int
    streams: RandomStreams
    compile: Compilation
    external_inputs: Mapping[str, ExternalInput]
    """External inputs by name. In a replay, they replace the declared external inputs."""
    controllers: Mapping[str, ControllerProtocol]
    """Controllers by name. In a replay, they replace the declared controllers."""
    before: Mapping[str, frozenset[str]]
    """Predecessors of each controller in a declared order."""
    faults: Installer | None = None
    changeable: dict[str, Changeable] = field(default_factory=dict)
    """Values that can change in this run, by ``component.name``; complete after the build."""
    started: dict[str, ControllerProtocol] = field(default_factory=dict)
    """Controllers that have started. If the build fails, they are closed."""

    def signals(self, component: Component) -> Signals:
        """Return the signals of a component that other components can read."""
        return readable(component, self.components)

    def wiring(
        self,
        into: Vector,
        signals: Signals,
        sources: Mapping[str, Source],
        owner: str,
        items: bool = True,
        initial: Values | None = None,
    ) -> Wiring:
        """Return a wiring that copies the values of the sources to ``into``.

        Raises :class:`ScenarioError` for an input without a source.

        Args:
            into: Values of the inputs, shape (m,).
            signals: The inputs, in the order of ``into``.
            sources: For each input, a signal ``"component.signal"`` or a number.
            owner: Name of the component.
            items: If True, each ``gather()`` is one item of the faults that act on these inputs.
            initial: Values before the first message, by input, in place of the declared
                values.
        """
        check_wired(signals, sources, owner)
        if self.faults is None:
            return Wiring(into, signals, sources, owner, initial)
        return FaultyWiring(into, signals, sources, owner, self.faults.present, items, initial)

    def successors(self, name: str) -> frozenset[str]:
        """Return the controllers that must react after the controller ``name``."""
        return frozenset(n for n, firsts in self.before.items() if name in firsts)

    def external(self, own: ExternalInput) -> ExternalInput:
        """Return ``own``. In a replay, the result is an input that repeats the recorded values."""
        return self.external_inputs.get(own.name, own)

    def controller(self, name: str, own: ControllerProtocol) -> ControllerProtocol:
        """Return a copy of the controller ``own``, or in a replay a substitute."""
        found = self.controllers.get(name)
        if found is None:
            found = self._fresh(name, own)
        self.started[name] = found
        return found

    def _fresh(self, name: str, own: ControllerProtocol) -> ControllerProtocol:
        check_controller(name, own)
        if isinstance(own, Prepared):
            return own.ready(self.compile)
        if isinstance(own, Fresh):
            return own.fresh()
        for other, started in self.started.items():
            if started is own:
                raise ScenarioError(
                    f"controllers {other} and {name} are the same object; create a separate "
                    "object for each controller"
                )
        return own


class Component(ABC):
    """A component of a scenario; each run builds its objects again.

    For a new kind of component, derive a class with the methods ``signals`` and ``build``. Store
    settable values in dicts, which are copied together with a scenario.
    """

    kind: ClassVar[str] = "component"
    """Name of the kind in descriptions and recordings."""

    @abstractmethod
    def signals(self, others: Others) -> Signals:
        """Return the signals that other components can read.

        ``others`` provides the signals of other components.
        """

    @abstractmethod
    def build(self, name: str, site: Site) -> Built:
        """Return the objects of the component for one run."""

    def settable(self) -> list[Settable]:
        """Return the values that can be set before a run."""
        return []

    def settings(self) -> list[Settable]:
        """Return :meth:`settable`, and the latencies and the execution time of the component."""
        names = [name for name in _LATENCIES if getattr(self, name, None) is not None]
        if not names:
            return self.settable()
        signals = Signals(*(_LATENCIES[name] for name in names))
        return [*self.settable(), Settable(_Latencies(self, names), signals)]

    def not_settable(self, name: str) -> str:  # noqa: ARG002
        """Return why the value ``name`` cannot be set, or "" if no value has this name."""
        return ""

    def describe(self) -> dict[str, Any]:
        """Return a description as plain data, which a replay compares with the recorded one."""
        own = {
            name: value
            for values, signals, _ in self.settable()
            for name, value in declared_values(signals, values).items()
        }
        return {"kind": self.kind, "type": type(self).__name__, "values": own}

    def copy(self) -> Self:
        """Return an independent copy."""
        out = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(out, name, dict(value))
        return out

    def functions(self) -> list[Any]:
        """Return the functions and classes that affect the results of a run.

        A replay checks their source.
        """
        return [type(self)]

    def companions(self, name: str) -> Mapping[str, Component]:  # noqa: ARG002
        """Return further components that belong to this one, such as topics."""
        return {}

    def validity(self) -> Validity:
        """Return the assumptions and limits for the recording."""
        return Validity()

    def resettable(self) -> bool:
        """Return whether the objects of one run can be used again in the next run.

        Return True only if ``save`` and ``restore`` of these objects cover the complete state. A
        restored system then behaves like a new system, and the values in :attr:`Built.initials` are
        set without a new build. A class that overrides :meth:`build` must also override this
        method; otherwise the method returns False.
        """
        return False

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        builds, resets = (_place_of(cls, name) for name in ("build", "resettable"))
        if builds < resets:  # the inherited answer is for the inherited build
            cls.resettable = Component.resettable  # type: ignore[method-assign]

    @property
    def outside(self) -> bool:
        """Return whether another process or a device sends the messages.

        A replay repeats the recorded messages.
        """
        return False

    @property
    def external(self) -> ExternalInput | None:
        """The external input of the component, or ``None``."""
        return None


def _place_of(cls: type[Component], name: str) -> int:
    return next(i for i, one in enumerate(cls.__mro__) if name in vars(one))


class Others:
    """Look up signals of other components, on which a component's own signals depend.

    ``asked`` contains the components in progress, to detect cycles.
    """

    def __init__(
        self, components: Mapping[str, Component], asked: tuple[Component, ...] = ()
    ) -> None:
        self._components = components
        self._asked = asked

    def tasks_of(self, processor: Component) -> list[str]:
        """Return the names of the tasks that run on ``processor``, sorted."""
        (name,) = (n for n, one in self._components.items() if one is processor)
        options = {n: getattr(one, "options", None) for n, one in self._components.items()}
        return sorted(n for n, one in options.items() if getattr(one, "processor", "") == name)

    def signal(self, source: str, wanted_by: str) -> Signal:
        name, dot, signal = source.partition(".")
        if not dot:
            raise ScenarioError(
                f"{wanted_by}: {source!r} names no signal; write 'component.signal'"
            )
        if name not in self._components:
            raise UnknownName("component", name, sorted(self._components), wanted_by)
        known = readable(self._components[name], self._components, self._asked)
        if signal not in known:
            raise UnknownName("signal", signal, known.names, f"{name} ({wanted_by})")
        return known[signal]


def readable(
    component: Component, components: Mapping[str, Component], asked: tuple[Component, ...] = ()
) -> Signals:
    """Return the signals of a component that other components can read.

    Raises :class:`ScenarioError` for a cycle of sensors. :class:`Others` explains ``asked``.
    """
    if any(component is one for one in asked):
        raise ScenarioError(
            "some sensors sample each other in a cycle; let one of these sensors sample a "
            "plant or a controller"
        )
    return component.signals(Others(components, (*asked, component)))


def check_component(name: str, component: object) -> None:
    """Raise ``ScenarioError`` if ``component`` cannot have the name ``name``."""
    if isinstance(component, Component):
        return
    if isinstance(component, type) and issubclass(component, Component):
        given = component.__name__
        raise ScenarioError(f"component {name} is the class {given}; give an object: {given}(...)")
    raise ScenarioError(
        f"{name} is a {type(component).__name__}, not a component; give an object of a class that "
        "derives from rtsim.scenario.Component and has signals() and build()"
    )


def start_values(signals: Signals, values: Values) -> dict[str, Any]:
    vector = signals.initial(values)
    return {
        s.name: vector[signals.slice(s.name)].tolist()
        if s.shape
        else float(vector[signals.slice(s.name)][0])
        for s in signals
    }


def changeable(
    owner_name: str,
    signals: Signals,
    vector: Vector,
    owner: RunningPlant | SignalPort | None = None,
) -> list[Changeable]:
    """Return a :class:`Changeable` for each of ``signals``. ``vector`` contains their values.

    The run informs ``owner``, a plant or a port, of each change.
    """
    return [Changeable(f"{owner_name}.{s.name}", s.name, signals, vector, owner) for s in signals]


def initials(
    signals: Signals, *vectors: Vector, sources: Mapping[str, Source] | None = None
) -> list[InitialValue]:
    """Return the settable initial values of ``signals``, except connected inputs.

    An initial value is written to all ``vectors`` (n,). ``sources`` contains the connections of the
    inputs.
    """
    wired = {name for name, source in (sources or {}).items() if isinstance(source, str)}
    return [InitialValue(s.name, signals, vectors) for s in signals if s.name not in wired]


def before_messages(
    signals: Signals, sources: Mapping[str, Source], initial: Values
) -> dict[str, Any]:
    """Return the values of connected inputs before their first message."""
    declared = signals.beginning_with(initial).declared_initial()
    found = {n: value for n, value in declared.items() if isinstance(sources.get(n), str)}
    return {"before_messages": found} if found else {}


def declared_values(signals: Signals, values: Values) -> dict[str, Any]:
    """Return the initial value of each signal, or the source of a connected input."""
    wired = {name: source for name, source in values.items() if isinstance(source, str)}
    constant = {name: value for name, value in values.items() if name not in wired}
    return {**start_values(signals, constant), **wired}
