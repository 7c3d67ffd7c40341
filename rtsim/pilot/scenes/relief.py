"""Draws a ground with hills: the cells of a grid, fine near the camera and coarse far from it.

Levels of detail: level 0 has the cells of the grid, and each further level has cells of twice the
size.  A level is drawn in a square around the camera, without the square of the level before.  So
the number of drawn cells hardly depends on the size of the grid.  Source: Losasso and Hoppe,
"Geometry clipmaps", ACM Trans. Graphics 23, 2004.
"""

from __future__ import annotations

import math

import numpy as np
import pygame
from numpy.typing import NDArray

from rtsim.gateway.ground_shape import KIND_COLOURS, commonest, every
from rtsim.gateway.shapes import Points
from rtsim.pilot.scenes.camera import Camera
from rtsim.pilot.scenes.sky import HAZE, TOWARDS_SUN
from rtsim.scenario.ground import GroundGrid

_CELLS = 20
"""Cells of a level from one side of its square to the other; a multiple of 4."""
_SIGHT = 22e3
"""Distance at which 63 % of the colour is that of haze, m."""
_TUFTS, _TUFTS_BELOW = 24, 120.0
"""Number of patches along a side of their square, and height of the camera, m, that has patches."""
_TUFT = (76, 98, 58)
_SQUARE = np.array([(-1.0, -1.3), (1.2, -0.8), (1.0, 1.2), (-0.9, 0.9)])
_DARK = 0.55
"""Brightness of a slope that is turned away from the sun."""


class _Level:
    """The points and cell colours of one level of detail."""

    def __init__(self, grid: GroundGrid, step: int) -> None:
        rows, columns = (every(axis.size, step) for axis in (grid.north, grid.east))
        self.north, self.east = grid.north[rows], grid.east[columns]
        self.height = grid.height[np.ix_(rows, columns)]
        kinds = commonest(grid.kind, rows[:-1], columns[:-1])
        self.colours = KIND_COLOURS[kinds] * self._light()[..., np.newaxis]

    def _light(self) -> Points:
        """Return the brightness (n, m) of each cell by the slope of its diagonals."""
        h = self.height
        north = np.diff(self.north)[:, np.newaxis]
        east = np.diff(self.east)[np.newaxis]
        up_north = 0.5 * (h[1:, :-1] + h[1:, 1:] - h[:-1, :-1] - h[:-1, 1:]) / north
        up_east = 0.5 * (h[:-1, 1:] + h[1:, 1:] - h[:-1, :-1] - h[1:, :-1]) / east
        sun_north, sun_east, sun_down = TOWARDS_SUN
        lit = (-sun_down - sun_north * up_north - sun_east * up_east) / np.sqrt(
            1.0 + up_north**2 + up_east**2
        )
        flat = -sun_down
        light: Points = np.clip(_DARK + (1.0 - _DARK) * lit / flat, 0.4, 1.25)
        return light

    def corners(self, i: NDArray[np.intp], k: NDArray[np.intp]) -> Points:
        """Return the corners (n, 4, 3) of cells, in north, east, down, m."""
        out = np.empty((i.size, 4, 3))
        for corner, (a, b) in enumerate(((0, 0), (1, 0), (1, 1), (0, 1))):
            out[:, corner, 0] = self.north[i + a]
            out[:, corner, 1] = self.east[k + b]
            out[:, corner, 2] = -self.height[i + a, k + b]
        return out


class Relief:
    """A ground of ``grid``, whose origin is at ``origin`` (2,): north and east, m."""

    def __init__(self, grid: GroundGrid, origin: tuple[float, float] = (0.0, 0.0)) -> None:
        self._grid = grid
        self._origin = np.array([*origin, 0.0])
        self._levels: list[_Level] = []
        size = max(grid.kind.shape)
        while True:
            step = 1 << len(self._levels)
            self._levels.append(_Level(grid, step))
            if _CELLS // 2 * step >= 2 * size:  # this level covers the grid from any place
                break

    def height(self, north: float, east: float) -> float:
        """Return the height at a place, m, bilinear in its cell; 0 beyond the grid."""
        return float(self.heights(np.array([north]), np.array([east]))[0])

    def heights(self, north: Points, east: Points) -> Points:
        """Return the heights (n,), m, at places (n,); see :meth:`height`."""
        grid = self._grid
        x, y = north - self._origin[0], east - self._origin[1]
        i, k = _cells(grid.north, x), _cells(grid.east, y)
        a = (x - grid.north[i]) / (grid.north[i + 1] - grid.north[i])
        b = (y - grid.east[k]) / (grid.east[k + 1] - grid.east[k])
        h = grid.height
        low = (1.0 - a) * h[i, k] + a * h[i + 1, k]
        high = (1.0 - a) * h[i, k + 1] + a * h[i + 1, k + 1]
        inside = (a >= 0.0) & (a <= 1.0) & (b >= 0.0) & (b <= 1.0)
        out: Points = np.where(inside, (1.0 - b) * low + b * high, 0.0)
        return out

    def draw(self, surface: pygame.Surface, camera: Camera) -> None:
        """Draw the cells, the farthest first, over a sky that is drawn already."""
        corners, colours = self._around(camera)
        ahead = (corners - camera.position) @ camera.axes[0]
        shown = np.flatnonzero(ahead.max(axis=1) > camera.near)
        corners, colours = corners[shown], colours[shown]
        flat = corners[..., :2].mean(axis=1) - camera.position[:2]
        distance = np.hypot(flat[:, 0], flat[:, 1])
        order = np.argsort(-distance)
        fog = 1.0 - np.exp(-distance[order, np.newaxis] / _SIGHT)
        shades = (colours[order] * (1.0 - fog) + np.array(HAZE) * fog).astype(int).tolist()
        for k, outline in camera.areas(corners[order]):
            pygame.draw.polygon(surface, shades[k], outline)
        self._draw_tufts(surface, camera)

    def _draw_tufts(self, surface: pygame.Surface, camera: Camera) -> None:
        """Draw dark patches at fixed places near the camera, which show speed and height.

        Their distances fit the height of the camera; far above the ground there are none.
        """
        north, east, down = camera.position.tolist()
        above = -down - self.height(north, east)
        if not 0.0 < above < _TUFTS_BELOW:
            return
        space = 2.0 * 2.0 ** math.floor(math.log2(max(above, 2.0)))
        first = (np.floor(camera.position[:2] / space) - _TUFTS // 2).astype(np.int64)
        i, k = np.meshgrid(*(n + np.arange(_TUFTS) for n in first), indexing="ij")
        drawn = (i * 73856093 ^ k * 19349663).ravel() & 0xFFFF
        middle = np.stack([i.ravel() + (drawn & 0xFF) / 256.0, k.ravel() + (drawn >> 8) / 256.0], 1)
        size = 0.03 + 0.05 * (drawn & 0x3F)[:, np.newaxis, np.newaxis] / 64.0
        flat = space * (middle[:, np.newaxis] + size * _SQUARE)
        height = self.heights(flat[..., 0].ravel(), flat[..., 1].ravel()).reshape(flat.shape[:2])
        corners = np.concatenate([flat, -height[..., np.newaxis]], axis=2)
        for _, outline in camera.areas(corners):
            pygame.draw.polygon(surface, _TUFT, outline)

    def _around(self, camera: Camera) -> tuple[Points, Points]:
        """Return corners (n, 4, 3) and colours (n, 3) of the cells of all levels."""
        grid = self._grid
        here = camera.position - self._origin
        at = np.array([_cell(grid.north, here[0]), _cell(grid.east, here[1])])
        found, colours = [], []
        inner: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None
        for level, part in enumerate(self._levels):
            step = 1 << level
            low = (at // (2 * step)) * 2 * step - _CELLS // 2 * step
            high = low + _CELLS * step
            i, k = (
                np.arange(max(0, low[n] // step), min(part.colours.shape[n], high[n] // step))
                for n in (0, 1)
            )
            rows, columns = (a.ravel() for a in np.meshgrid(i, k, indexing="ij"))
            if inner is not None:
                hidden = _between(rows * step, inner[0][0], inner[1][0])
                hidden &= _between(columns * step, inner[0][1], inner[1][1])
                rows, columns = rows[~hidden], columns[~hidden]
            inner = low, high
            found.append(part.corners(rows, columns))
            colours.append(part.colours[rows, columns])
        return np.concatenate(found) + self._origin, np.concatenate(colours)


def _between(values: NDArray[np.intp], low: int, high: int) -> NDArray[np.bool_]:
    return (values >= low) & (values < high)


def _cells(axis: Points, at: Points) -> NDArray[np.intp]:
    """Return the indices of the cells at ``at`` (n,); outside of the axis those of its ends."""
    return np.clip(np.searchsorted(axis, at, side="right") - 1, 0, axis.size - 2)


def _cell(axis: Points, at: float) -> int:
    """Return the index of the cell at ``at``; outside of the axis that of the nearest cell."""
    return int(_cells(axis, np.array([at]))[0])
