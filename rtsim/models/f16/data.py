"""The published data of the F-16, read once from ``f16.json``, which names their source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ModelError

Table = NDArray[np.float64]

_FILE = Path(__file__).with_name("f16.json")
_DATA: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))

SOURCE: str = _DATA["source"]
GEOMETRY: dict[str, float] = _DATA["geometry"]
INERTIA: dict[str, float] = _DATA["inertia"]


def table(group: str, name: str, *over: str) -> Table:
    """Return a table; raises :class:`ModelError` if its axes are not ``over``."""
    entry = _DATA[group][name]
    values = np.array(entry["values"], dtype=np.float64)
    shape = tuple(len(_DATA["breakpoints"][axis]) for axis in over)
    if tuple(entry["over"]) != over or values.shape != shape:
        raise ModelError(
            f"{_FILE.name}: table {name} has shape {values.shape} over {entry['over']}; "
            f"expected shape {shape} over {list(over)}. Restore the original file"
        )
    return values


def grid(axis: str) -> tuple[float, float, int]:
    """Return the first breakpoint of ``axis``, 1 / spacing, and the index of its last segment."""
    points = np.array(_DATA["breakpoints"][axis], dtype=np.float64)
    steps = np.diff(points)
    if not np.allclose(steps, steps[0], rtol=1e-12, atol=0.0):
        raise ModelError(
            f"{_FILE.name}: breakpoints {axis} are not evenly spaced; restore the original file"
        )
    return float(points[0]), float(1.0 / steps[0]), len(points) - 2
