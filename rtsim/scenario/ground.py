"""The ground as arrays: heights over a grid, and what covers each cell.

A model that generates a terrain returns a :class:`GroundGrid`; viewers draw it.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
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

    Example:
        GroundGrid([0.0, 1000.0], [0.0, 1000.0], [[0.0, 5.0], [0.0, 9.0]], [[2]])
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
        heights = np.round(self.height * _PER_M).astype("<i4")
        heights[:, 1:] = np.diff(heights, axis=1)  # neighbours differ little, which packs well
        return {
            "north": self.north.tolist(),
            "east": self.east.tolist(),
            "height": _packed(heights),
            "kind": _packed(self.kind),
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> GroundGrid:
        """Return the grid from the output of :meth:`to_plain`; raises :class:`ScenarioError`."""
        try:
            north, east = (np.array(data[name], np.float64) for name in ("north", "east"))
            if max(north.size, east.size) > MOST_POINTS:
                raise ValueError(f"{north.size} times {east.size} points")
            steps = _unpacked(data["height"], "<i4", (north.size, east.size))
            kind = _unpacked(data["kind"], "u1", (north.size - 1, east.size - 1))
        except (KeyError, TypeError, ValueError, zlib.error, binascii.Error) as error:
            raise ScenarioError(f"ground: the data is not a grid; {error!r}") from error
        return cls(north, east, np.cumsum(steps, axis=1) / _PER_M, kind)


@dataclass(frozen=True)
class Ground:
    """The ground that viewers draw: ``grid``, whose origin is at ``latitude`` and ``longitude``.

    The angles are in deg, and are needed if the bodies have geodetic positions.  Height 0 of the
    grid is altitude 0.  Beyond the grid, the ground is flat at height 0.

    Example:
        grid = GroundGrid([0.0, 1000.0], [0.0, 1000.0], [[0.0, 5.0], [0.0, 9.0]], [[2]])
        Ground(grid, latitude=36.0176, longitude=-75.6713)
    """

    grid: GroundGrid
    latitude: float | None = None
    longitude: float | None = None

    def __post_init__(self) -> None:
        if (self.latitude is None) != (self.longitude is None):
            raise ScenarioError("ground: give both latitude and longitude (deg), or neither")
        if self.latitude is not None and self.longitude is not None:
            inside = -90.0 <= self.latitude <= 90.0 and -360.0 <= self.longitude <= 360.0
            if not inside:  # also for NaN
                raise ScenarioError(
                    f"ground: latitude {self.latitude} or longitude {self.longitude} is out of "
                    "range; give deg"
                )

    def added_to(self, presentation: Any) -> Any:
        """Return the :class:`rtsim.scenario.shown.Presentation` with this declaration."""
        if presentation.ground is not None:
            raise ScenarioError("show(Ground(...)): the ground is declared twice; remove one")
        return replace(presentation, ground=self)

    def to_plain(self) -> dict[str, Any]:
        """Return the ground as plain data, for another process."""
        return {
            "grid": self.grid.to_plain(),
            "latitude": self.latitude,
            "longitude": self.longitude,
        }

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Ground:
        """Return the ground from the output of :meth:`to_plain`; raises :class:`ScenarioError`."""
        try:
            at = [None if data.get(k) is None else float(data[k]) for k in _ANGLES]
            return cls(GroundGrid.from_plain(data["grid"]), *at)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ScenarioError(f"the data is not a ground: {error!r}") from error


_ANGLES = ("latitude", "longitude")
_PER_M = 100.0
"""Heights are sent to other processes as integers of 1 cm."""


def _packed(array: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(array.tobytes(), 6)).decode()


def _unpacked(text: str, kind: str, shape: tuple[int, int]) -> NDArray[Any]:
    size = shape[0] * shape[1] * np.dtype(kind).itemsize
    raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), size + 1)
    if len(raw) != size:
        raise ValueError(f"{len(raw)} bytes; expected {size}")
    return np.frombuffer(raw, kind).reshape(shape)


def _array(name: str, given: ArrayLike, kind: Any, shape: tuple[int, int]) -> NDArray[Any]:
    try:
        array = np.array(given, dtype=kind)
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"ground: {name} is not an array of numbers; {error}") from error
    if array.shape != shape:
        raise ScenarioError(f"ground: {name} has the shape {array.shape}; expected {shape}")
    return array
