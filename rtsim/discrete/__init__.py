"""Discrete events in a run: processes on a SimPy environment, and agents that move together.

``Processes`` is what a scenario declares, ``Agenda`` the SimPy environment that its set-up is
given, ``population`` a model of many agents that see each other as they were.  docs/discrete.md
has examples.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rtsim.discrete.agenda import Agenda
    from rtsim.discrete.agents import population
    from rtsim.discrete.processes import Processes

_HOME_OF = {
    "Agenda": "rtsim.discrete.agenda",
    "Processes": "rtsim.discrete.processes",
    "population": "rtsim.discrete.agents",
}

__all__ = ["Agenda", "Processes", "population"]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rtsim.discrete' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
