"""Discrete events in a run: SimPy processes, and populations of agents.

A scenario declares ``Processes``.  Their set-up function receives an ``Agenda``, which is a SimPy
environment.  ``population`` makes a model of many agents that are updated at the same time.
docs/discrete.md has examples.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtsim.discrete.agenda import Agenda
    from rtsim.discrete.processes import Processes, population

_HOME_OF = {
    "Agenda": "rtsim.discrete.agenda",
    "Processes": "rtsim.discrete.processes",
    "population": "rtsim.discrete.processes",
}

__all__ = ["Agenda", "Processes", "population"]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rtsim.discrete' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
