"""Scenarios: components and connections, in a file or in Python code.

:class:`Scenario` declares an experiment, and :func:`load_scenario` loads one by name or from a
file. The classes :class:`Body`, :class:`Ground`, :class:`Cue`, :class:`Hud` and :class:`Sound`
declare what viewers show. To write a component of a new kind, derive a class from
:class:`Component`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.scenario.body import Body, Ground, GroundGrid, Mesh
    from rtsim.scenario.component import Built, Component, Settable, Site, Validity
    from rtsim.scenario.loading import load_scenario
    from rtsim.scenario.scenario import Scenario
    from rtsim.scenario.shown import Cue, Hud, Sound

__all__ = [
    "Body",
    "Built",
    "Component",
    "Cue",
    "Ground",
    "GroundGrid",
    "Hud",
    "Mesh",
    "Scenario",
    "Settable",
    "Site",
    "Sound",
    "Validity",
    "load_scenario",
]

__getattr__, __dir__ = lazy_exports(__name__)
