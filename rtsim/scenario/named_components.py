"""The components and faults of a scenario by name, and the connections between signals."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from rtsim.components.protocols import memory_of
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals
from rtsim.engine.faults import Fault
from rtsim.engine.faults.description import Given, all_different, gather
from rtsim.engine.faults.entries import entries_of, numbers_of, with_entry
from rtsim.named.fields import NamedSignals
from rtsim.scenario.component import Component, Settable, check_component, readable
from rtsim.scenario.handles import (
    Handle,
    SignalName,
    check_connection,
    refused,
    warn_if_hidden,
)
from rtsim.scenario.standard_components import ControllerComponent, PlantComponent

C = TypeVar("C", bound=Component)

RESERVED = frozenset(("timing", "messages", "inputs", "events", "measured", "stamps"))
"""Names of tracks in every recording. A component must not have one of these names."""


class _FaultNumbers(dict[str, Any]):
    """The numbers of a declared fault; a new number replaces the fault of the scenario."""

    def __init__(self, scenario: NamedComponents, fault: Fault) -> None:
        super().__init__(numbers_of(fault))
        self._scenario, self._name = scenario, fault.name

    def __setitem__(self, entry: str, value: Any) -> None:
        self._scenario._faults = tuple(
            with_entry(one, entry, value) if one.name == self._name else one
            for one in self._scenario._faults
        )
        super().__setitem__(entry, value)


class NamedComponents:
    """The named components of a scenario, their connections, and the faults of a run."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.components: dict[str, Component] = {}
        self._faults: tuple[Fault, ...] = ()

    def add(self, name: str, component: Component) -> None:
        """Add a component of any class.

        ``docs/extending-components.md`` explains such classes. Raises :class:`ScenarioError` for an
        invalid, reserved or duplicate name. Warns if ``name`` is an attribute of results, such as
        ``speed``. The component's signal is then ``run["speed.x"]``, because ``run.speed`` is the
        attribute.
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
        return {name: one for name, one in self.components.items() if isinstance(one, kind)}

    def component(self, name: str) -> Component:
        """Return a component by name; raise ``UnknownName`` for an unknown name."""
        if name not in self.components:
            raise UnknownName("component", name, sorted(self.components), f"scenario {self.name}")
        return self.components[name]

    def readable(self) -> dict[str, Signals]:
        """Return the signals that other components can read, by component."""
        return {name: readable(one, self.components) for name, one in self.components.items()}

    def adjustable(self) -> dict[str, str]:
        """Return the unit of each value that can change during a run."""
        return {
            f"{name}.{column}": signal.unit
            for name, component in self.components.items()
            for values in component.settable()
            if values.live
            for signal in values.signals
            for column in signal.columns
        }

    def changeable(self) -> dict[str, dict[str, Any]]:
        """Return unit and shape of each value that can change during a run."""
        return {
            f"{name}.{signal.name}": {"unit": signal.unit, "shape": list(signal.shape)}
            for name, component in self.components.items()
            for values in component.settable()
            if values.live
            for signal in values.signals
        }

    def controller_memory(self) -> dict[str, dict[str, str]]:
        """Return the units of the controllers' memories, which are not recorded."""
        known = {n: memory_of(one.controller) for n, one in self.of(ControllerComponent).items()}
        return {n: {s.name: s.unit for s in memory} for n, memory in known.items() if len(memory)}

    def plant_names(self) -> list[str]:
        return sorted(self.of(PlantComponent))

    def controller_component(self, name: str, problem: str) -> ControllerComponent:
        """Return the declaration of controller ``name``.

        Raises ``ScenarioError`` with the text ``problem`` if ``name`` is no controller.
        """
        controllers = self.of(ControllerComponent)
        if name not in controllers:
            self.component(name)
            raise ScenarioError(problem)
        return controllers[name]

    def settable_of(self, target: SignalName) -> Settable:
        """Return the group of declared values that contains ``target``.

        ``target`` is ``"component.name"``, or ``"fault.entry"`` for a number of a fault. Raises
        :class:`UnknownName` for an unknown value, and :class:`ScenarioError` if a component and a
        fault have the same name and both have the value.
        """
        owner, dot, name = str(target).partition(".")
        if not dot:
            raise ScenarioError(f"{target!r} is not the name of a value; write 'component.name'")
        choices = self._settings_of(owner)
        found = [choice for choice in choices if name in choice.signals]
        if not found:
            component = self.components.get(owner)
            if component is not None and (why := component.not_settable(name)):
                raise ScenarioError(f"{target} cannot be set: {why}")
            known = [n for choice in choices for n in choice.signals.names]
            raise UnknownName("value", name, known, owner)
        if len(found) > 1 and isinstance(found[-1].values, _FaultNumbers):
            raise ScenarioError(
                f"{target} is a value of the component {owner} and also of the fault {owner}; give "
                "the fault another name"
            )
        return found[0]

    def _settings_of(self, owner: str) -> list[Settable]:
        """Return the values of component ``owner``, and the numbers of the fault ``owner``."""
        faults = {fault.name: fault for fault in self._faults}
        fault = faults.get(owner)
        if fault is None and owner not in self.components and faults:
            known = sorted((*self.components, *faults))
            raise UnknownName("component or fault", owner, known, f"scenario {self.name}")
        if fault is None:
            return self.component(owner).settings()
        component = self.components.get(owner)
        numbers = Settable(_FaultNumbers(self, fault), entries_of(fault))
        return [*([] if component is None else component.settings()), numbers]

    # -- faults

    def faults(self, *given: Given) -> None:
        """Inject faults from fault files or from dicts.

        ``docs/faults.md`` describes the entries. Raises :class:`FaultError` for an invalid fault.
        """
        self._faults = all_different((*self._faults, *gather(given)))

    @property
    def declared_faults(self) -> tuple[Fault, ...]:
        """The declared faults; :meth:`Scenario.build` checks that their components exist."""
        return self._faults

    def only_faults(self, *given: Given) -> None:
        """Replace all declared faults by the faults ``given``, as a replay does."""
        self._faults = gather(given)

    @overload
    def connect(self, source: SignalName, target: SignalName) -> None: ...
    @overload
    def connect(self, source: NamedSignals | Handle, target: NamedSignals | Handle) -> None: ...
    def connect(self, source: Any, target: Any) -> None:
        """Connect a signal or a number to an input, or connect two components.

        A signal is the text ``"component.signal"`` or the attribute ``component.signal`` of a
        handle. ``connect(cart, brake)`` connects all inputs of both components to signals of the
        same names.

        Raises:
            ScenarioError: The target is no input or already connected, units or shapes differ, or
                two components have no common names.
        """
        whole = [_is_component(one) for one in (source, target)]
        try:
            for one in (source, target):
                if isinstance(one, NamedSignals):
                    raise ScenarioError(
                        f"{type(one).__name__}() is no component of {self.name}; give the object "
                        "that plant(...) or controller(...) returned"
                    )
            if all(whole):
                self._join(str(source), str(target))
            elif any(whole):
                what, one = ("source", source) if whole[0] else ("target", target)
                near = next(iter(dir(one)), "NAME") if isinstance(one, Handle) else "NAME"
                raise ScenarioError(
                    f"the {what} of the connection is the component {one}; give one of its "
                    f"signals, such as {one}.{near}, or two components"
                )
            else:
                self._connect(source, target)
        except ScenarioError as error:
            raise refused(str(error)) from None

    def _join(self, one: str, other: str) -> None:
        wires = self._common(one, other)
        if not wires:
            given = "; ".join(
                f"{name} has the inputs {', '.join(self._inputs(name)[1].names) or 'none'} and the "
                f"signals {', '.join(self._given(name)) or 'none'}"
                for name in (one, other)
            )
            raise ScenarioError(
                f"{one} and {other} cannot be connected by equal names, because no input has the "
                f"name of a signal of the other component ({given}); connect single signals: "
                "connect(source, input)"
            )
        for source, target in wires:
            owner, _, name = target.partition(".")
            connected = self._inputs(owner)[0].get(name)
            if isinstance(connected, str):
                raise ScenarioError(
                    f"{target} is already connected, to {connected}; connect({one}, {other}) "
                    "connects the inputs of both components, so connect the remaining signals one "
                    "by one"
                )
            self._connect_by_name(source, target)

    def _connect_by_name(self, source: str, target: str) -> None:
        owner, _, name = target.partition(".")
        given = self._inputs(owner)[0].get(name)
        if given is not None and not isinstance(given, str):
            raise ScenarioError(
                f"{target} has the value {given!r}, so it cannot also be connected to {source}, "
                "the signal of the same name; leave the value out, or connect the signals one by "
                "one"
            )
        self._connect(source, target)

    def _common(self, one: str, other: str) -> list[tuple[str, str]]:
        if one == other:
            raise ScenarioError(f"{one} cannot be connected to itself by names; give the signals")
        return [
            (f"{giver}.{name}", f"{taker}.{name}")
            for giver, taker in ((one, other), (other, one))
            for name in self._inputs(taker)[1].names
            if name in self._given(giver)
        ]

    def _given(self, name: str) -> tuple[str, ...]:
        return readable(self.component(name), self.components).names

    def _inputs(self, name: str) -> tuple[dict[str, Any], Signals]:
        component = self.component(name)
        inputs: dict[str, Any] = getattr(component, "inputs", {})
        found = (v.signals for v in component.settable() if v.values is inputs)
        return inputs, next(found, Signals())

    def _connect(self, source: SignalName, target: SignalName) -> None:
        if not isinstance(target, str):
            raise ScenarioError(f"the target of a connection is {target!r}; give an input")
        owner, _, name = target.partition(".")
        inputs, wanted = self._inputs(owner)
        if name not in wanted:
            if name not in readable(self.component(owner), self.components):
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


def _is_component(given: object) -> bool:
    if isinstance(given, str):
        return "." not in given
    return isinstance(given, NamedSignals | Handle)
