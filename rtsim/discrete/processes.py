"""What a scenario declares of a discrete-event part: its set-up, and what goes in and out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals

if TYPE_CHECKING:
    from rtsim.discrete.agenda import Agenda

Setup = Callable[["Agenda"], None]
"""Makes resources and starts processes (generators) on a fresh agenda, at the start of each run."""


@dataclass(frozen=True)
class Processes:
    """Processes on a SimPy environment.

    ``setup(agenda)`` makes all that they share: nothing of it may live elsewhere, for it is called
    again for each run and for each return to a checkpoint.  ``inputs`` are read as they stand at a
    tag, ``outputs`` go to others as a message whenever they change, ``messages`` are topics of
    their own, by name: one message for each :meth:`~rtsim.discrete.agenda.Agenda.send`.
    """

    setup: Setup
    inputs: Signals = Signals()
    outputs: Signals = Signals()
    parameters: Signals = Signals()
    messages: Mapping[str, Signals] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not callable(self.setup):
            raise ScenarioError(
                f"the set-up of processes is {type(self.setup).__name__}; "
                "give a function of the agenda: def setup(agenda): agenda.process(...)"
            )
        both = [n for n in self.inputs.names if n in self.parameters]
        if both:
            raise ScenarioError(f"{both[0]} is an input and a parameter; give one another name")
