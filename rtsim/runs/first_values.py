"""The check of a plant's equations at the first values of a run, which a build makes too.

A run that is built anew calls each equation once before it begins
(:func:`rtsim.equations.model.bind`) and refuses values that are not finite.  A prepared run calls
them here.  It does not check indices: that check runs the equations as Python, which takes longer
than a short run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rtsim.components.plant import Plant


class FirstValues:
    """Calls the equations of the ``plants`` at their present states, inputs and parameters."""

    def __init__(self, plants: Sequence[Plant]) -> None:
        self._copies = []
        self._calls = []
        sizes = [
            (m.states.size, m.outputs.size, len(m.guards)) for m in (p.bound.model for p in plants)
        ]
        self._found = np.full(sum(map(sum, sizes)), np.nan)
        at = 0
        for plant, lengths in zip(plants, sizes, strict=True):
            bound, start = plant.bound, plant.bound.model.discrete.initial()
            x, z, u, p = (vector.copy() for vector in (plant.x, start, plant.u, plant.p))
            own = ((x, plant.x), (z, start), (u, plant.u), (p, plant.p))
            self._copies += [pair for pair in own if pair[0].size]
            equations = (bound.derivative, bound.output, bound.guard)
            for equation, size in zip(equations, lengths, strict=True):
                if size:
                    self._calls.append(equation.on(x, z, u, p, self._found[at : at + size]))
                at += size

    def usable(self) -> bool:
        """Return whether each equation writes a finite value for each of its elements."""
        for copy, vector in self._copies:
            copy[...] = vector
        self._found.fill(np.nan)
        try:
            for call in self._calls:
                call(0.0)
        except Exception:
            return False
        return bool(np.isfinite(self._found).all())
