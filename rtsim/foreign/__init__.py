"""Plants that another program computes: aircraft of JSBSim, and FMUs (:mod:`rtsim.fmi`).

A plant of this package runs in a process of its own, so that a crash of its code cannot end the
simulation.  docs/jsbsim.md and docs/fmi.md describe the use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.foreign.jsbsim import JsbSim

__all__ = ["JsbSim"]

__getattr__, __dir__ = lazy_exports(__name__)
