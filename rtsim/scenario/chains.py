"""Chains of messages, along which data age and reaction time are measured and limited."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from rtsim.core.errors import ScenarioError
from rtsim.core.tag import Duration, declared_ns
from rtsim.record.ages import Stage, stages_of
from rtsim.requirements.chains import AGE, REACTION, Chain, ChainLimit
from rtsim.requirements.requirement import Given, Requirement
from rtsim.scenario.component import Component, readable
from rtsim.scenario.handles import SignalName


class Chains(ABC):
    """Methods that declare chains."""

    components: dict[str, Component]
    chains: tuple[Chain, ...] = ()
    """The declared chains, in the order of their declaration."""

    @abstractmethod
    def require_all(self, *given: Given) -> None: ...

    @abstractmethod
    def describe(self) -> dict[str, Any]: ...

    def chain(
        self,
        name: str,
        elements: Sequence[SignalName],
        *,
        max_age: Duration | None = None,
        max_reaction: Duration | None = None,
    ) -> None:
        """Declare a chain of messages, whose data age and reaction time ``rtsim age`` prints.

        A limit is a requirement with the name ``NAME age`` or ``NAME reaction``, which each run
        must meet. :meth:`build` checks that each component reads the element before it.

            loop.chain("pitch", [imu.gyro, autopilot.elevator, f16.elevator], max_age=0.05)

        Args:
            name: Name of the chain.
            elements: Signals ``"component.signal"``: first an output of a sensor or a controller,
                or a signal that the next component samples. Then outputs of controllers or sensors
                follow, and at the end also an input of a plant.
            max_age: Largest allowed data age, s.
            max_reaction: Largest allowed reaction time, s.

        Raises:
            ScenarioError: The name is taken, or a limit is not > 0.
        """
        if isinstance(elements, str) or any(name == one.name for one in self.chains):
            problem = (
                f"chain {name} needs a list of signals; write ['imu.gyro', 'f16.elevator']"
                if isinstance(elements, str)
                else f"two chains have the name {name}; rename one of them"
            )
            raise ScenarioError(problem)
        chain = Chain(name, tuple(map(str, elements)))
        for measure, limit in ((AGE, max_age), (REACTION, max_reaction)):
            if limit is None:
                continue
            ns = declared_ns(limit, f"max_{measure} of chain {name}")
            if ns <= 0:
                raise ScenarioError(
                    f"max_{measure} of chain {name} is {limit!r} s; give a time > 0"
                )
            of = ChainLimit(chain.elements, measure, ns)
            self.require_all(Requirement(f"{name} {measure}", str(of), chain=of))
        self.chains = (*self.chains, chain)

    def check_chains(self) -> None:
        """Raise :class:`ScenarioError` if a chain or a limit of a chain does not fit."""
        for chain in self.chains:
            self.chain_stages(chain)

    def chain_stages(self, chain: Chain) -> tuple[Stage, ...]:
        """Return the components of a chain that send messages.

        Raises :class:`ScenarioError` if an element does not read the element before it.
        """
        about = self.describe()

        def signals(name: str) -> list[str]:
            component = self.components[name]
            settable = [n for values in component.settable() for n in values.signals.names]
            return [*readable(component, self.components).names, *settable]

        try:
            return stages_of(chain.elements, about["parts"], about["order"], signals)
        except ScenarioError as error:
            raise ScenarioError(f"chain {chain.name}: {error}") from None
