"""The components of a scenario by name."""

from __future__ import annotations

from typing import TypeVar

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.old_names import OldName
from rtsim.core.signals import Signals
from rtsim.scenario.component import Component, Settable, check_component, readable
from rtsim.scenario.controller_component import ControllerComponent
from rtsim.scenario.standard_components import PlantComponent

C = TypeVar("C", bound=Component)

RESERVED = frozenset(("timing", "messages", "inputs", "events", "measured", "stamps"))
"""Names of tracks that every recording has, which a component must not have."""


class NamedComponents:
    """The components of a scenario, by name; all names differ."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.components: dict[str, Component] = {}

    def add(self, name: str, component: Component) -> None:
        """Add a component of any kind, such as your own (``docs/extending-components.md``).

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

    def settable_of(self, target: str) -> Settable:
        """Return the declared values that contain ``target``, ``"component.name"``.

        Raises :class:`UnknownName` if no component has such a value.
        """
        owner, dot, name = target.partition(".")
        if not dot:
            raise ScenarioError(f"{target!r} is not the name of a value; write 'component.name'")
        choices = self.component(owner).settable()
        for choice in choices:
            if name in choice.signals:
                return choice
        known = [n for choice in choices for n in choice.signals.names]
        raise UnknownName("value", name, known, owner)

    parts = OldName("components")
    part = OldName("component")
    controller_part = OldName("controller_component")
