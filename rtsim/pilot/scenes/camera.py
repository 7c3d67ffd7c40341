"""A pinhole camera over a flat world: points, lines and areas become pixels.  Pure geometry.

World: north, east, down in m.  Camera: forward, right, down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtsim.signals import Vector

NEAR = 1.0
"""m; what is nearer than this is cut away."""

Point = tuple[float, float]
Points = NDArray[np.float64]


@dataclass(frozen=True)
class Camera:
    """``axes`` (3, 3): rows are forward, right and down in world axes; ``field`` in rad, across."""

    position: Vector
    axes: Points
    width: int
    height: int
    field: float = math.radians(70.0)

    @property
    def focal(self) -> float:
        """Pixels a unit of tangent."""
        return 0.5 * self.width / math.tan(0.5 * self.field)

    def seen(self, world: Points) -> Points:
        """Camera coordinates of world points (..., 3)."""
        return np.asarray((world - self.position) @ self.axes.T)

    def pixels(self, seen: Points) -> Points:
        """(..., 2) of camera coordinates (..., 3) that lie in front."""
        scale = self.focal / seen[..., :1]
        middle = np.array([0.5 * self.width, 0.5 * self.height])
        return np.asarray(seen[..., 1:] * scale + middle)

    def direction(self, world: Vector) -> Point | None:
        """Pixel of something infinitely far in a direction (3,); ``None`` where it is behind."""
        seen = self.axes @ world
        if seen[0] < 1e-3:
            return None
        x, y = self.pixels(seen)
        return float(x), float(y)

    def lines(self, ends: Points) -> tuple[Points, NDArray[np.intp]]:
        """Pixels (m, 2, 2) of the visible parts of world lines (k, 2, 3), and which those are."""
        seen = self.seen(ends)
        depth = seen[..., 0]
        kept = np.flatnonzero(depth.max(axis=1) > NEAR)
        seen, depth = seen[kept], depth[kept]
        for end in (0, 1):
            cut = np.flatnonzero(depth[:, end] < NEAR)
            if cut.size:
                here, there = seen[cut, end], seen[cut, 1 - end]
                share = (NEAR - here[:, :1]) / (there[:, :1] - here[:, :1])
                seen[cut, end] = here + share * (there - here)
        return self.pixels(seen), kept

    def area(self, corners: Points) -> list[Point]:
        """Pixels of the visible part of a flat world polygon (k, 3); empty where it is behind."""
        seen = self.seen(corners)
        if (seen[:, 0] < NEAR).any():
            seen = cut_polygon(seen, seen[:, 0] - NEAR)
        return [(float(x), float(y)) for x, y in self.pixels(seen)] if len(seen) > 2 else []

    def below(self, elevation: float = 0.0) -> list[Point]:
        """The part of the picture that lies lower than ``elevation`` rad above the horizon.

        Exact for the horizon itself; for the bands beside it as if they ran in parallel.
        """
        ahead, right, down = self.axes[:, 2]
        frame = np.array(
            [[0.0, 0.0], [self.width, 0.0], [self.width, self.height], [0.0, self.height]]
        )
        x = (frame - np.array([0.5 * self.width, 0.5 * self.height])) / self.focal
        along = math.hypot(right, down)
        side = ahead + x @ np.array([right, down]) + math.tan(elevation) * along
        left = cut_polygon(frame, side)
        return [(float(a), float(b)) for a, b in left]


def cut_polygon(corners: Points, side: Vector) -> Points:
    """The part of a polygon (k, n) where ``side`` (k,), linear across it, is positive.

    Sutherland and Hodgman, "Reentrant polygon clipping", CACM 17, 1974: one plane of it.
    """
    out: list[Vector] = []
    for k in range(len(corners)):
        here, before = side[k], side[k - 1]
        if (here > 0.0) != (before > 0.0):
            share = before / (before - here)
            out.append(corners[k - 1] + share * (corners[k] - corners[k - 1]))
        if here > 0.0:
            out.append(corners[k])
    return np.array(out) if out else np.zeros((0, corners.shape[1]))


def axes_of(roll: float, pitch: float, yaw: float) -> Points:
    """Rows: body axes in north, east, down, for Euler angles in rad."""
    cr, sr = math.cos(roll), math.sin(roll)
    cp, sp = math.cos(pitch), math.sin(pitch)
    cy, sy = math.cos(yaw), math.sin(yaw)
    return np.array(
        [
            [cp * cy, cp * sy, -sp],
            [sr * sp * cy - cr * sy, sr * sp * sy + cr * cy, sr * cp],
            [cr * sp * cy + sr * sy, cr * sp * sy - sr * cy, cr * cp],
        ]
    )
