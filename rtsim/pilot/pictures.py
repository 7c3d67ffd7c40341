"""Publishes the states at both ends of each step for the viewers, when the step begins."""

from __future__ import annotations

import math

from rtsim.components.plant import Plant
from rtsim.core.clock import Clock, stopwatch
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.engine.system import System
from rtsim.pilot.sequence import Writer
from rtsim.pilot.stick import SharedStick

_SHORTEST_NS = 500_000
"""Shortest wall-clock time between two published states of a paced run, ns.

No screen shows more than 2000 pictures per second.
"""
_UNPACED_NS = 5_000_000
"""Shortest wall-clock time between two published states of an unpaced run, ns."""


class Pictures:
    """Publishes the states at both ends of each step; used by :mod:`rtsim.engine.executive`."""

    def __init__(self, writers: dict[str, Writer], stick: SharedStick | None) -> None:
        self._writers, self._stick = writers, stick
        self._plants: dict[str, Plant] = {}
        self._from_wall = dict.fromkeys(writers, 0)
        """For each plant, the wall-clock time before which its states are not published."""
        self._next_y: dict[str, Vector] = {}
        self._clock: Clock | None = None
        self._offset = 0

    def attach(self, system: System, clock: Clock) -> None:
        """Set the plants of ``system`` and the clock that paces the run; call before the run."""
        self._clock, self._offset = clock, getattr(clock, "offset_ns", 0)
        self._plants = {plant.name: plant for plant in system.plants}
        self._next_y = {plant.name: plant.y.copy() for plant in system.plants}

    def publish(self, plant: str, ns: int, x: Vector, next_ns: int, next_x: Vector) -> None:
        clock = self._clock
        assert clock is not None
        if clock.paced:
            last_wall, next_wall = clock.wall(ns) - self._offset, clock.wall(next_ns) - self._offset
            if last_wall < self._from_wall[plant]:
                return
            self._from_wall[plant] = last_wall + _SHORTEST_NS
        else:
            last_wall = next_wall = stopwatch()
            if next_wall < self._from_wall[plant]:
                return
            self._from_wall[plant] = next_wall + _UNPACED_NS
        writer, shown, stick = self._writers[plant], self._plants[plant], self._stick
        applied, initiated = (0, 0) if stick is None else (stick.applied, stick.initiated)
        writer.integers[:] = (ns, next_ns, last_wall, next_wall, 0, applied, initiated)
        floats, n = writer.floats, shown.values.size
        floats[:n] = floats[n:] = shown.values
        floats[: x.size] = x
        floats[n : n + x.size] = next_x
        if shown.y.size:
            floats[-shown.y.size :] = self._outputs(shown, next_ns, next_x)
        writer.publish()

    def withdraw(self, plant: str) -> None:
        writer = self._writers[plant]
        writer.integers[4] = 1
        writer.publish()
        self._from_wall[plant] = 0

    def _outputs(self, plant: Plant, ns: int, x: Vector) -> Vector:
        """Return the outputs at the end of a provisional step; does not change the plant."""
        y = self._next_y[plant.name]
        try:
            plant.bound.output.call(ns / NS_PER_S, x, plant.z, plant.u, plant.p, y)
        except Exception:  # the loop raises the error again if the step is committed
            return plant.y
        return y if math.isfinite(y.sum()) else plant.y
