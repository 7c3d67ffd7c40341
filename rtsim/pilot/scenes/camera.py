"""Pinhole camera over a flat Earth, which projects points, lines and areas to pixels.

World axes are north, east, down, in m. Camera axes are forward, right, down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector

NEAR = 1.0
FIELD = math.radians(70.0)

_FARTHEST = 3e6
"""Limit of pixel coordinates. Larger ones overflow SDL's integers."""
_BESIDE = 16.0
"""Distance outside the picture at which lines are clipped, pixels. Every line is thinner."""
_OVERLAP = 2.0
"""Overlap of a band with the band below it, pixels, which prevents a visible gap."""

Point = tuple[float, float]
Points = NDArray[np.float64]
Polygon = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Camera:
    """A camera. The rows of ``axes`` (3, 3) are the forward, right and down vectors in world axes.

    ``field`` is the horizontal field of view, rad.
    """

    position: Vector
    axes: Points
    width: int
    height: int
    field: float = FIELD
    near: float = NEAR
    """Distance of the clipping plane, m. Nearer objects are not drawn."""

    @cached_property
    def focal(self) -> float:
        return 0.5 * self.width / math.tan(0.5 * self.field)

    def turned(self, yaw: float, pitch: float) -> Camera:
        """Return this camera, turned to the right by ``yaw`` and up by ``pitch`` (rad)."""
        return replace(self, axes=axes_of(0.0, pitch, yaw) @ self.axes)

    def seen(self, world: Points) -> Points:
        # a single matrix product for all lines is faster
        flat = (world - self.position).reshape(-1, 3)
        return np.asarray(flat @ self.axes.T).reshape(world.shape)

    def pixels(self, seen: Points) -> Points:
        """Return the pixels (..., 2) of points (..., 3) in camera axes, which must be in front."""
        scale = self.focal / seen[..., :1]
        middle = np.array([0.5 * self.width, 0.5 * self.height])
        return np.asarray(seen[..., 1:] * scale + middle)

    def direction(self, world: Vector) -> Point | None:
        """Return the pixel of an infinitely distant point in the direction ``world`` (3,).

        If the direction is behind the camera, the result is ``None``.
        """
        return self.directions(world[np.newaxis])[0]

    def directions(self, world: Points) -> list[Point | None]:
        """Return the pixels of infinitely distant points in the directions ``world`` (n, 3)."""
        seen = world @ self.axes.T
        ahead = seen[:, 0] >= 1e-3
        seen[~ahead, 0] = 1.0
        pixels = self.pixels(seen).tolist()
        return [(x, y) if shown else None for (x, y), shown in zip(pixels, ahead, strict=True)]

    def lines(self, ends: Points) -> tuple[Points, NDArray[np.intp]]:
        """Return the visible segments of the lines with ``ends`` (k, 2, 3) in world axes.

        The first result (m, 2, 2) contains the pixels of the segments' ends. The second result (m,)
        contains the index of each segment's line.
        """
        seen = self.seen(ends)
        kept = np.flatnonzero(np.maximum(seen[:, 0, 0], seen[:, 1, 0]) > self.near)
        seen = seen[kept]
        depth = seen[..., 0]
        for end in (0, 1):
            cut = np.flatnonzero(depth[:, end] < self.near)
            if cut.size:
                here, there = seen[cut, end], seen[cut, 1 - end]
                share = (self.near - here[:, :1]) / (there[:, :1] - here[:, :1])
                seen[cut, end] = here + share * (there - here)
        parts, inside = cut_lines(self.pixels(seen), self.width, self.height)
        return parts, kept[inside]

    def areas(self, corners: Points) -> list[tuple[int, list[Point]]]:
        """Return the index and the pixels of each visible polygon in ``corners`` (n, k, 3).

        The corners are in world axes. The method projects all polygons together, for speed.
        """
        seen = self.seen(corners)
        depth = seen[..., 0]
        nearest = depth.min(axis=1)
        whole = np.flatnonzero(nearest >= self.near)
        pixels = self.pixels(seen[whole])
        shown = self._in_picture(pixels.min(axis=1), pixels.max(axis=1))
        found = list(zip(whole[shown].tolist(), pixels[shown].tolist(), strict=True))
        for k in np.flatnonzero((nearest < self.near) & (depth.max(axis=1) > self.near)).tolist():
            part = cut_polygon(seen[k].tolist(), (depth[k] - self.near).tolist())
            outline = self.pixels(np.array(part))
            if self._in_picture(outline.min(axis=0), outline.max(axis=0)):
                found.append((k, outline.tolist()))
        return sorted(found)

    def _in_picture(self, low: Points, high: Points) -> NDArray[np.bool_]:
        inside = (high > 0.0) & (low < (self.width, self.height))
        return np.asarray((inside & (high < _FARTHEST) & (low > -_FARTHEST)).all(axis=-1))

    def below(self, elevation: float = 0.0, lowest: float | None = None) -> list[Point]:
        """Return the outline of the part of the picture below an elevation (rad).

        With ``lowest`` (rad), the outlined part ends at about this elevation. The outline is exact
        at elevation 0. Elevations other than 0 are approximated by lines parallel to the horizon.
        """
        ahead, right, down = self.axes[:, 2].tolist()
        along, focal = math.hypot(right, down), self.focal
        edges = [(1.0, math.tan(elevation) * along)]
        if lowest is not None:  # the last band has no lower edge
            edges.append((-1.0, math.tan(lowest) * along - _OVERLAP / focal))
        w, h = float(self.width), float(self.height)
        part: Polygon = [(0.0, 0.0), (w, 0.0), (w, h), (0.0, h)]
        for sign, edge in edges:
            side = [
                sign * (ahead + edge + (right * (x - 0.5 * w) + down * (y - 0.5 * h)) / focal)
                for x, y in part
            ]
            part = cut_polygon(part, side)
        return [(x, y) for x, y in part]


def cut_polygon(corners: Polygon, side: Sequence[float]) -> Polygon:
    """Return the part of a polygon (k, n) in which ``side`` is positive.

    ``side`` (k,) contains a value for each corner. Between two corners, values are interpolated
    linearly. Source: Sutherland and Hodgman, "Reentrant polygon clipping", CACM 17, 1974, for one
    plane.
    """
    out: list[Sequence[float]] = []
    for k, (corner, here) in enumerate(zip(corners, side, strict=True)):
        last, before = corners[k - 1], side[k - 1]
        if (here > 0.0) != (before > 0.0):
            share = before / (before - here)
            out.append([a + share * (b - a) for a, b in zip(last, corner, strict=True)])
        if here > 0.0:
            out.append(corner)
    return out


def cut_lines(lines: Points, width: int, height: int) -> tuple[Points, NDArray[np.intp]]:
    """Return the segments (m, 2, 2) of ``lines`` (k, 2, 2) in or near a picture, and their indices.

    Source: Liang and Barsky, "A new concept and method for line clipping", ACM Trans. Graphics 3,
    1984.
    """
    start, along = lines[:, 0], lines[:, 1] - lines[:, 0]
    towards = np.concatenate((-along, along), axis=1)  # the four edges of the picture
    room = np.concatenate((start + _BESIDE, (width + _BESIDE, height + _BESIDE) - start), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = room / towards
    enters = np.where(towards < 0.0, share, 0.0).max(axis=1, initial=0.0)
    leaves = np.where(towards > 0.0, share, 1.0).min(axis=1, initial=1.0)
    beside = ((towards == 0.0) & (room < 0.0)).any(axis=1)
    inside = np.flatnonzero((enters < leaves) & ~beside)
    shares = np.stack((enters[inside], leaves[inside]), axis=1)[..., np.newaxis]
    return start[inside, np.newaxis] + shares * along[inside, np.newaxis], inside


def axes_of(roll: float, pitch: float, yaw: float) -> Points:
    """Return the body axes for Euler angles (rad), as rows in north-east-down axes."""
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
