"""The shapes of bodies as triangles in body axes, and the tracks of bodies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector

Points = NDArray[np.float64]

_OUTLINE: tuple[tuple[tuple[float, float, float], ...], ...] = (
    # nose, canopy, tail: the body in four faces
    ((0.55, 0.0, 0.0), (-0.45, 0.06, 0.0), (-0.3, 0.0, -0.06)),
    ((0.55, 0.0, 0.0), (-0.3, 0.0, -0.06), (-0.45, -0.06, 0.0)),
    ((0.55, 0.0, 0.0), (-0.3, 0.0, 0.06), (-0.45, 0.06, 0.0)),
    ((0.55, 0.0, 0.0), (-0.45, -0.06, 0.0), (-0.3, 0.0, 0.06)),
    # wings, tailplane, fin
    ((0.15, 0.0, 0.0), (-0.2, 0.32, 0.0), (-0.25, 0.0, 0.0)),
    ((0.15, 0.0, 0.0), (-0.25, 0.0, 0.0), (-0.2, -0.32, 0.0)),
    ((-0.28, 0.0, 0.0), (-0.47, 0.18, 0.0), (-0.47, 0.0, 0.0)),
    ((-0.28, 0.0, 0.0), (-0.47, 0.0, 0.0), (-0.47, -0.18, 0.0)),
    ((-0.2, 0.0, -0.02), (-0.45, 0.0, -0.02), (-0.47, 0.0, -0.24)),
)
_CORNERS = np.array([(x, y, z) for x in (-0.5, 0.5) for y in (-0.2, 0.2) for z in (-0.1, 0.1)])
_FACES = (0, 1, 3, 0, 3, 2, 4, 6, 7, 4, 7, 5, 0, 4, 5, 0, 5, 1, 2, 3, 7, 2, 7, 6, 0, 2, 6, 0, 6, 4,
          1, 5, 7, 1, 7, 3)  # fmt: skip


def triangles(shape: str, length: float) -> Points:
    """Return the corners (n, 3), m, of the triangles of a shape, three corners per triangle.

    Each triangle is listed twice, once for each side.
    """
    one = np.array(_OUTLINE).reshape(-1, 3) if shape == "aircraft" else _CORNERS[list(_FACES)]
    other = one.reshape(-1, 3, 3)[:, ::-1].reshape(-1, 3)
    both: Points = np.concatenate([one, other]) * length
    return both


class BodyTrail:
    """The past positions of a body, at most ``most`` points even in a long run.

    A new point is kept if it is ``spacing`` m from the last one.  When the list is full, every
    second point is removed and the spacing doubles.
    """

    def __init__(self, spacing: float, most: int = 1000) -> None:
        self._first_spacing = self._spacing = spacing
        self._most = most
        self._points: list[Vector] = []

    def add(self, point: Vector) -> None:
        if self._points and np.linalg.norm(point - self._points[-1]) < self._spacing:
            return
        self._points.append(point)
        if len(self._points) >= self._most:
            self._points = self._points[::2]
            self._spacing *= 2.0

    def clear(self) -> None:
        self._points.clear()
        self._spacing = self._first_spacing

    def points(self, now: Vector) -> Sequence[Vector]:
        """Return the past positions, followed by the present position ``now``."""
        return [*self._points, now]
