"""The ground as coloured triangles, for the page in the browser and for Foxglove."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtsim.gateway.shapes import Colours, Points
from rtsim.scenario.ground import KINDS, ROAD, RUNWAY, WATER, GroundGrid

KIND_COLOURS = np.array([
    (92, 116, 70), (134, 130, 78), (104, 102, 98), (64, 66, 70), (58, 96, 132), (52, 82, 50),
], np.uint8)  # fmt: skip
"""The colour of each of :data:`rtsim.scenario.ground.KINDS`, for all viewers."""
MOST_CELLS = 64
"""Largest number of cells along a side, for viewers that receive the ground as triangles."""
_WEIGHTS = np.where(np.isin(np.arange(len(KINDS)), (ROAD, RUNWAY, WATER)), 3, 1)
"""Weights of the kinds where a coarse cell covers several kinds, so that roads remain visible."""


def every(size: int, step: int) -> NDArray[np.intp]:
    """Return every ``step``-th index of ``size`` points, and the last one."""
    out = np.arange(0, size, step)
    return out if out[-1] == size - 1 else np.append(out, size - 1)


def commonest(
    kind: NDArray[np.uint8], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the commonest kind of the cells of each block that begins at a row and a column."""
    counts = [
        np.add.reduceat(np.add.reduceat((kind == k).astype(int), rows, axis=0), columns, axis=1)
        for k in range(len(KINDS))
    ]
    return np.asarray(np.argmax(np.stack(counts) * _WEIGHTS[:, np.newaxis, np.newaxis], axis=0))


def ground_triangles(grid: GroundGrid) -> tuple[Points, Colours]:
    """Return corners (n, 3, 3), m, in axes east, north, up, and colours (n, 3) of triangles.

    Cells are merged until there are at most :data:`MOST_CELLS` of them along a side.
    """
    rows, columns = (
        every(axis.size, -(-(axis.size - 1) // MOST_CELLS)) for axis in (grid.north, grid.east)
    )
    north, east = np.meshgrid(grid.north[rows], grid.east[columns], indexing="ij")
    points = np.stack([east, north, grid.height[np.ix_(rows, columns)]], axis=2)
    a, b, c, d = points[:-1, :-1], points[:-1, 1:], points[1:, 1:], points[1:, :-1]
    corners = np.stack([np.stack([a, b, c], axis=2), np.stack([a, c, d], axis=2)], axis=2)
    kinds = commonest(grid.kind, rows[:-1], columns[:-1])
    return corners.reshape(-1, 3, 3), np.repeat(KIND_COLOURS[kinds.ravel()], 2, axis=0)
