"""Controllers in C, boards and rigs in the loop.

The package exports four context managers for tests of controllers in C. The pytest plugin has
fixtures of the same names::

    from hitl import back_to_back, pitl, plant, sil

    with sil("pid.toml", gain=2.0) as controller:
        assert controller.step(setpoint=1.0).command == 2.0

:func:`federate` runs a scenario as a federate of a HELICS co-simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hitl.contexts import back_to_back, pitl
    from hitl.federates import federate
    from hitl.plants import plant
    from hitl.stepping import sil

__all__ = ["back_to_back", "federate", "pitl", "plant", "sil"]

__getattr__, __dir__ = lazy_exports(__name__)
