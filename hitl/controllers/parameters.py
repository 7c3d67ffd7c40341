"""What a controller in C is given for its parameters, and what it has by itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hitl.interface import Interface
from rtsim.core.signals import Vector

KEEP = np.array([0x7FF8727473696D21], np.uint64).view(np.float64)[0]
"""RTSIM_KEEP of hitl/building/c/rtsim_unit.h: the parameter keeps the value that the C gave it."""


class GivenParameters:
    """The vector of one run: a parameter that neither ``values`` nor the interface file names keeps
    the value that the C gives it.
    """

    def __init__(self, interface: Interface, values: Mapping[str, object]) -> None:
        self.values = interface.parameters.initial(values)
        """(k,), with those of the C as soon as they are known (:meth:`learn`)."""
        self.own: Vector | None = None
        """(k,): those of the C before any was set; ``None`` before it has said them."""
        self.unnamed = unnamed(interface, values)
        self._left = np.zeros(len(self.values), np.bool_)
        for name in self.unnamed:
            self._left[interface.parameters.slice(name)] = True

    @property
    def sent(self) -> Vector:
        """(k,): as they are handed to the generated C."""
        out = self.values.copy()
        out[self._left] = KEEP
        return out

    def learn(self, own: Vector) -> None:
        """The C has said its own."""
        if self.own is None and len(own) == len(self.values):
            self.own = np.array(own, np.float64)
            self.values[self._left] = self.own[self._left]


def unnamed(interface: Interface, values: Mapping[str, object]) -> list[str]:
    """Parameters whose value nobody says."""
    fields = interface.parameter_fields
    return [f.signal.name for f in fields if not f.given and f.signal.name not in values]
