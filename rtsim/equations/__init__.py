"""Write the equations of plant models, and compile and call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.equations.compiling import compiled
    from rtsim.equations.delays import Delayed
    from rtsim.equations.modal import Mode, Transition
    from rtsim.equations.model import Guard, Model

__all__ = ["Delayed", "Guard", "Mode", "Model", "Transition", "compiled"]

__getattr__, __dir__ = lazy_exports(__name__)
