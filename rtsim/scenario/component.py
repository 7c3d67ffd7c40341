"""Component: what a scenario consists of.  A new kind is one class derived from it.

A scenario asks a component for its :meth:`~Component.signals`, for the values that can be set of
it (:meth:`~Component.settable`), for a description of it for the recording
(:meth:`~Component.describe`), and has it built (:meth:`~Component.build`) for each run.
``docs/extending-components.md`` has an example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

from rtsim.components.bus import Topic
from rtsim.components.controller import Controller
from rtsim.components.controller_task import ControllerTask
from rtsim.components.external_inputs import ExternalInput
from rtsim.components.plant import Plant
from rtsim.components.ports import SignalPort, Source, Wiring, check_wired
from rtsim.components.protocols import Fresh, Prepared, check_controller
from rtsim.components.tasks import Task
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.engine.faults.at_signals import FaultyWiring
from rtsim.engine.faults.installing import Installer
from rtsim.engine.system import Changeable, MessageListener
from rtsim.equations.compiling import Compilation

Values = Mapping[str, object]


class Settable(NamedTuple):
    """Declared values of a component, and the signals that name them."""

    values: dict[str, Any]
    """By signal; :meth:`Scenario.set` writes here."""
    signals: Signals
    live: bool = False
    """They can also change during a run (:meth:`Scenario.at`, commands): then the component
    returns a :class:`Changeable` for each in :attr:`Built.changeable`."""


class Validity(NamedTuple):
    """What is stated in every recording, in sentences."""

    assumptions: Sequence[str] = ()
    limits: Sequence[str] = ()


@dataclass
class Built:
    """What :meth:`Component.build` made for one run; what a component does not have stays empty."""

    port: SignalPort | None = None
    """Its values, under the component's name: what inputs that are wired to it read."""
    topic: Topic | None = None
    """The messages that it sends.  They arrive at the port of the same name."""
    tasks: Sequence[Task] = ()
    """What reacts at its ticks; the first has the component's name."""
    wiring: Wiring | None = None
    """Its inputs, from :meth:`Site.wiring`: connected when every component is built."""
    plant: Plant | None = None
    controller: ControllerTask | None = None
    external: ExternalInput | None = None
    """An input from outside the process, from :meth:`Site.external`."""
    changeable: Sequence[Changeable] = ()
    """What can change while the run goes on."""
    triggers: Sequence[str] = ()
    """Topics at whose messages the first task reacts."""
    listener: MessageListener | None = None
    """The task that is told of each message of the topics, and of each guard, in ``hears``."""
    hears: Sequence[str] = ()


@dataclass
class Site:
    """What a component may use while it is built."""

    components: Mapping[str, Component]
    seed: int
    streams: RandomStreams
    compile: Compilation
    external_inputs: Mapping[str, ExternalInput]
    """What takes the place of inputs from outside: in a replay."""
    controllers: Mapping[str, Controller]
    """What takes the place of controllers: in a replay."""
    before: Mapping[str, frozenset[str]]
    """By controller in a declared order: all that come before it."""
    faults: Installer | None = None
    changeable: dict[str, Changeable] = field(default_factory=dict)
    """By ``component.name`` what can change in this run; complete when all components are built."""
    started: dict[str, Controller] = field(default_factory=dict)
    """The controllers so far; all of them are closed where the build fails."""

    def signals(self, component: Component) -> Signals:
        """What others can read of ``component``."""
        return readable(component, self.components)

    def wiring(
        self,
        into: Vector,
        signals: Signals,
        sources: Mapping[str, Source],
        owner: str,
        items: bool = True,
    ) -> Wiring:
        """Fills ``into`` (m,), laid out as ``signals``, from ``sources`` at each ``gather()``.

        The faults of this run act on it; ``items``: each gather() counts as one item of them.
        Raises :class:`ScenarioError` for an input without a source.
        """
        check_wired(signals, sources, owner)
        if self.faults is None:
            return Wiring(into, signals, sources, owner)
        return FaultyWiring(into, signals, sources, owner, self.faults.present, items)

    def successors(self, name: str) -> frozenset[str]:
        """Controllers that a declared order puts after ``name``."""
        return frozenset(n for n, firsts in self.before.items() if name in firsts)

    def external(self, own: ExternalInput) -> ExternalInput:
        """``own``, or what says again what was recorded of it."""
        return self.external_inputs.get(own.name, own)

    def controller(self, name: str, own: Controller) -> Controller:
        """What runs as controller ``name``: a fresh one like ``own``, or what a replay gives."""
        found = self.controllers.get(name)
        if found is None:
            found = self._fresh(name, own)
        self.started[name] = found
        return found

    def _fresh(self, name: str, own: Controller) -> Controller:
        check_controller(name, own)
        if isinstance(own, Prepared):
            return own.ready(self.compile)
        if isinstance(own, Fresh):
            return own.fresh()
        for other, started in self.started.items():
            if started is own:
                raise ScenarioError(
                    f"controllers {other} and {name} are one object; make one for each"
                )
        return own


class Component(ABC):
    """One thing in a scenario, as declared: it can be built as often as wanted.

    Derive a class from it, write :meth:`signals` and :meth:`build`, and add an object of it with
    :meth:`Scenario.add`.  What is kept in its dicts can be changed in a copy of the scenario
    without a change in the original.
    """

    kind: ClassVar[str] = "component"
    """What its description calls it."""

    @abstractmethod
    def signals(self, others: Others) -> Signals:
        """What inputs can read of it; ``others`` knows the signals of the other components."""

    @abstractmethod
    def build(self, name: str, site: Site) -> Built:
        """What runs of it, at its start; ``name`` is that under which it was added."""

    def settable(self) -> list[Settable]:
        """Values that can be set before a run."""
        return []

    def describe(self) -> dict[str, Any]:
        """It as plain data, for the recording: whatever a replay has to find unchanged."""
        own = {
            name: value
            for values, signals, _ in self.settable()
            for name, value in declared_values(signals, values).items()
        }
        return {"kind": self.kind, "type": type(self).__name__, "values": own}

    def copy(self) -> Self:
        """One whose declared values can be changed by themselves."""
        out = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(out, name, dict(value))
        return out

    def functions(self) -> list[Any]:
        """Functions or classes that the run computes with: a change of their source is noticed."""
        return [type(self)]

    def companions(self, name: str) -> Mapping[str, Component]:  # noqa: ARG002
        """Components that are added with it, such as a topic for each kind of message it sends."""
        return {}

    def validity(self) -> Validity:
        """What its results rest on, and where they are not valid: stated in every recording."""
        return Validity()

    @property
    def outside(self) -> bool:
        """Something beyond this process decides its messages: a replay takes the recorded ones."""
        return False

    @property
    def external(self) -> ExternalInput | None:
        """The input from outside that it has, which a replay feeds from the recording."""
        return None


class Others:
    """The signals of all components, for one that forwards them; ``asked`` lead here."""

    def __init__(
        self, components: Mapping[str, Component], asked: tuple[Component, ...] = ()
    ) -> None:
        self._components = components
        self._asked = asked

    def signal(self, source: str, wanted_by: str) -> Signal:
        """The signal that ``source`` names as ``"component.signal"``; errors name ``wanted_by``."""
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
    """What others can read of ``component``, by name; ``asked`` are those that lead here."""
    if any(component is one for one in asked):
        raise ScenarioError("sensors sample each other in a circle; sample a plant or controller")
    return component.signals(Others(components, (*asked, component)))


def check_component(name: str, component: object) -> None:
    """Raise :class:`ScenarioError` for what cannot be added as ``name``."""
    if isinstance(component, Component):
        return
    if isinstance(component, type) and issubclass(component, Component):
        given = component.__name__
        raise ScenarioError(f"component {name} is the class {given}; write {given}(...)")
    raise ScenarioError(
        f"{name} is a {type(component).__name__}, which is no component; give an object of a class "
        "that derives from rtsim.scenario.Component and has signals() and build()"
    )


def start_values(signals: Signals, values: Values) -> dict[str, Any]:
    """Each signal's value at the start: a number, or a list for an array."""
    vector = signals.initial(values)
    return {
        s.name: vector[signals.slice(s.name)].tolist()
        if s.shape
        else float(vector[signals.slice(s.name)][0])
        for s in signals
    }


def changeable(
    owner_name: str, signals: Signals, vector: Vector, owner: Plant | SignalPort | None = None
) -> list[Changeable]:
    """Each of ``signals``, held in ``vector``, as what can change while the run goes on.

    ``owner`` is the plant, or the port, that has to notice a change.
    """
    return [Changeable(f"{owner_name}.{s.name}", s.name, signals, vector, owner) for s in signals]


def declared_values(signals: Signals, values: Values) -> dict[str, Any]:
    """As :func:`start_values`, with the source of an input that is wired to one."""
    wired = {name: source for name, source in values.items() if isinstance(source, str)}
    constant = {name: value for name, value in values.items() if name not in wired}
    return {**start_values(signals, constant), **wired}
