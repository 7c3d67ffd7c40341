"""The past values from which traces and tracks are drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.pilot.scenes.scene import SceneMoment, ScenePast, Shown

KEPT = 600
"""Number of pictures whose values are kept: 10 s at 60 pictures per second."""


class KeptStates:
    """The values of one plant in the most recent pictures.

    A picture at an earlier simulated time removes the values of later times.
    """

    def __init__(self, size: int, most: int = KEPT) -> None:
        self._most, self._count = most, 0
        self._ns: NDArray[np.int64] = np.zeros(2 * most, dtype=np.int64)
        self._values: NDArray[np.float64] = np.zeros((2 * most, size))

    def note(self, ns: int, values: Vector) -> ScenePast:
        """Add ``values`` (n,) at ``ns`` and return the past; later values are discarded first."""
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
        """Return the simulated time that a full trace covers, at the mean rate so far, ns."""
        if len(times) < 2:
            return 0
        return int(times[-1] - times[0]) * (self._most - 1) // (len(times) - 1)


class PastStates:
    """Returns the past of a plant: the moment's own, or that of the pictures drawn so far."""

    def __init__(self, most: int = KEPT) -> None:
        self._most = most
        self._kept: dict[str, KeptStates] = {}

    def of(self, moment: SceneMoment, name: str) -> ScenePast:
        if name in moment.past:
            return moment.past[name]
        plant: Shown = moment.plants[name]
        kept = self._kept.setdefault(name, KeptStates(plant.signals.size, self._most))
        return kept.note(plant.ns, plant.values)
