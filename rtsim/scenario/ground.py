"""The ground as arrays: heights over a grid, and what covers each cell.

A model that generates a terrain returns a :class:`GroundGrid`; viewers draw it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rtsim.core.errors import ScenarioError

KINDS = ("grass", "field", "road", "runway", "water", "forest")
"""What covers a cell; :attr:`GroundGrid.kind` has the index in this tuple."""
GRASS, FIELD, ROAD, RUNWAY, WATER, FOREST = range(len(KINDS))
MOST_POINTS = 513
"""Largest number of points of the grid along north and along east."""


@dataclass(frozen=True, eq=False)
class GroundGrid:
    """Heights over a rectangular grid around the origin of local axes north and east.

    ``north`` (n,) and ``east`` (m,) increase, m; their distances need not be equal.  ``height``
    (n, m), m, is positive upwards, at each point of the grid.  ``kind`` (n - 1, m - 1) is the cover
    of each cell, an index of :data:`KINDS`.  Cell ``[i, k]`` lies between ``north[i]`` and
    ``north[i + 1]``, and between ``east[k]`` and ``east[k + 1]``.  The arrays are copied and become
    read-only.  Raises :class:`ScenarioError` for arrays that do not fit together.
    """

    north: NDArray[np.float64]
    east: NDArray[np.float64]
    height: NDArray[np.float64]
    kind: NDArray[np.uint8]

    def __post_init__(self) -> None:
        north, east = (self._axis(name) for name in ("north", "east"))
        height = _array("height", self.height, np.float64, (north.size, east.size))
        kind = _array("kind", self.kind, np.int64, (north.size - 1, east.size - 1))
        if not np.isfinite(height).all():
            raise ScenarioError("ground: height has values that are not finite")
        if kind.min() < 0 or kind.max() >= len(KINDS):
            known = ", ".join(f"{k} {name}" for k, name in enumerate(KINDS))
            raise ScenarioError(
                f"ground: kind has values from {kind.min()} to {kind.max()}; known are {known}"
            )
        for name, array in (("north", north), ("east", east), ("height", height),
                            ("kind", kind.astype(np.uint8))):  # fmt: skip
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def _axis(self, name: str) -> NDArray[np.float64]:
        try:
            axis = np.array(getattr(self, name), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ScenarioError(f"ground: {name} is not an array of numbers; {error}") from error
        if axis.ndim != 1 or not 2 <= axis.size <= MOST_POINTS:
            raise ScenarioError(
                f"ground: {name} has the shape {axis.shape}; expected one axis with 2 to "
                f"{MOST_POINTS} points"
            )
        if not np.isfinite(axis).all() or not (np.diff(axis) > 0.0).all():
            raise ScenarioError(f"ground: {name} must be finite and increase from point to point")
        return axis

    def to_plain(self) -> dict[str, Any]:
        """Return the grid as plain data, for another process; heights are rounded to 1 cm."""
        return {
            "north": self.north.tolist(),
            "east": self.east.tolist(),
            "height": np.round(self.height, 2).tolist(),
            "kind": ["".join(map(str, row)) for row in self.kind],
        }

    @classmethod
    def from_plain(cls, data: Any) -> GroundGrid:
        """Return the grid from the output of :meth:`to_plain`; raises :class:`ScenarioError`."""
        try:
            kind = [[int(cell) for cell in row] for row in data["kind"]]
            return cls(data["north"], data["east"], data["height"], np.array(kind, np.int64))
        except (KeyError, TypeError, ValueError) as error:
            raise ScenarioError(f"ground: the data is not a grid; {error!r}") from error


def _array(name: str, given: ArrayLike, kind: Any, shape: tuple[int, int]) -> NDArray[Any]:
    try:
        array = np.array(given, dtype=kind)
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"ground: {name} is not an array of numbers; {error}") from error
    if array.shape != shape:
        raise ScenarioError(f"ground: {name} has the shape {array.shape}; expected {shape}")
    return array
