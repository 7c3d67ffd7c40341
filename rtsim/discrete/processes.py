"""The declaration of a discrete-event component: its set-up function, inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals

if TYPE_CHECKING:
    from rtsim.discrete.agenda import Agenda

Setup = Callable[["Agenda"], None]
"""Makes resources and starts processes (generators) on a new agenda, at the start of each run."""


@dataclass(frozen=True)
class Processes:
    """Processes on a SimPy environment.

    ``setup(agenda)`` creates all objects that the processes share.  It is called again for each run
    and for each return to a checkpoint, so processes must not share objects that were created
    outside this function.

    Processes read the values that ``inputs`` have at a tag.  ``outputs`` are sent as a message
    whenever they change.  ``messages`` are further topics by name; each call of
    :meth:`~rtsim.discrete.agenda.Agenda.send` sends one message.
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
                f"the set-up of processes is of type {type(self.setup).__name__}; "
                "give a function of the agenda: def setup(agenda): agenda.process(...)"
            )
        both = [n for n in self.inputs.names if n in self.parameters]
        if both:
            raise ScenarioError(f"{both[0]} is both an input and a parameter; rename one of them")
