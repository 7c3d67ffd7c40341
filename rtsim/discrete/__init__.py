"""Discrete events in a run: SimPy processes, and populations of agents.

The set-up function of ``Processes`` receives a SimPy environment, which rtsim calls ``Agenda``.
``population`` creates a model of many agents. docs/discrete.md has examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.discrete.agenda import Agenda
    from rtsim.discrete.declaration import Processes, population, processes

__all__ = ["Agenda", "Processes", "population", "processes"]

__getattr__, __dir__ = lazy_exports(__name__)
