"""What lies behind a picture: the values that traces and tracks are drawn from."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.pilot.scenes.scene import SceneMoment, ScenePast, Shown

KEPT = 600
"""Pictures whose values are kept: 10 s at 60 a second."""


class KeptStates:
    """Of one plant, picture by picture.  A picture at an earlier time forgets what came after."""

    def __init__(self, size: int, most: int = KEPT) -> None:
        self._most, self._count = most, 0
        self._ns: NDArray[np.int64] = np.zeros(2 * most, dtype=np.int64)
        self._values: NDArray[np.float64] = np.zeros((2 * most, size))

    def note(self, ns: int, values: Vector) -> ScenePast:
        """Take in ``values`` (n,) at ``ns``; the same time again only replaces them."""
        while self._count and self._ns[self._count - 1] >= ns:
            self._count -= 1
        if self._count == 2 * self._most:
            self._ns[: self._most] = self._ns[self._most :]
            self._values[: self._most] = self._values[self._most :]
            self._count = self._most
        self._ns[self._count], self._values[self._count] = ns, values
        self._count += 1
        first = max(0, self._count - self._most)
        times = self._ns[first : self._count]
        return ScenePast(times, self._values[first : self._count], self._span(times))

    def _span(self, times: NDArray[np.int64]) -> int:
        """What all pictures will span at the mean rate so far: a trace keeps its speed."""
        if len(times) < 2:
            return 0
        return int(times[-1] - times[0]) * (self._most - 1) // (len(times) - 1)


class Pasts:
    """Of all plants: what the moment brings, else what was seen in the pictures so far."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._kept: dict[str, KeptStates] = {}

    def of(self, moment: SceneMoment, name: str) -> ScenePast:
        if name in moment.past:
            return moment.past[name]
        plant: Shown = moment.plants[name]
        kept = self._kept.setdefault(name, KeptStates(plant.signals.size, self._most))
        return kept.note(plant.ns, plant.values)
