"""A flight without the executive: classical RK4 over a model, compiled, and NASA's csv files."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from rtsim.model import Model
from rtsim.signals import Signals, Vector

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
Columns = dict[str, NDArray[np.float64]]
_EMPTY = np.zeros(0)
_ready: dict[int, tuple[Any, Any, Any]] = {}


def _native(function: Callable[..., None] | None) -> Any:
    """Compiled without a signature: numba specialises it at the first call."""
    return numba.njit(getattr(function, "py_func", function))


def functions(model: Model) -> tuple[Any, Any, Any]:
    """Derivative, output and projection of ``model``, compiled once a session."""
    if id(model) not in _ready:
        _ready[id(model)] = (
            _native(model.derivative),
            _native(model.output),
            _native(model.project),
        )
    return _ready[id(model)]


@numba.njit  # type: ignore[untyped-decorator]
def _steps(
    f: Any, project: Any, t: float, h: float, count: int, x: Any, z: Any, u: Any, p: Any, k: Any
) -> None:
    """``count`` RK4 steps of ``h`` s, in place on x (n,); k (6, n) is work."""
    n = x.size
    for step in range(count):
        now = t + step * h
        f(now, x, z, u, p, k[0])
        for j in range(n):
            k[4, j] = x[j] + 0.5 * h * k[0, j]
        f(now + 0.5 * h, k[4], z, u, p, k[1])
        for j in range(n):
            k[4, j] = x[j] + 0.5 * h * k[1, j]
        f(now + 0.5 * h, k[4], z, u, p, k[2])
        for j in range(n):
            k[4, j] = x[j] + h * k[2, j]
        f(now + h, k[4], z, u, p, k[3])
        for j in range(n):
            x[j] += h / 6.0 * (k[0, j] + 2.0 * k[1, j] + 2.0 * k[2, j] + k[3, j])
        project(x)


def fly(
    model: Model,
    state: Vector,
    *,
    inputs: Mapping[str, float] | None = None,
    parameters: Mapping[str, float] | None = None,
    duration: float,
    frame: float,
    step: float,
    sample: float = 0.1,
    control: Callable[[float, Columns, Vector], None] | None = None,
) -> Columns:
    """Outputs at every ``sample`` s up to ``duration``.

    ``control(t, outputs by name, u)`` writes the held inputs at the start of every ``frame`` s,
    which is a whole number of ``step`` s and ``sample`` a whole number of frames.
    """
    derivative, output, project = functions(model)
    x, z = state.copy(), _EMPTY
    u, p = model.inputs.initial(inputs), model.parameters.initial(parameters)
    y = model.outputs.initial()
    named = {name: y[model.outputs.slice(name)] for name in model.outputs.names}
    work = np.zeros((6, x.size))
    per_frame, per_sample = round(frame / step), round(sample / frame)
    rows = []
    for i in range(round(duration / frame) + 1):
        t = i * frame
        output(t, x, z, u, p, y)
        if i % per_sample == 0:
            rows.append(y.copy())
        if control is not None:
            control(t, named, u)
        _steps(derivative, project, t, step, per_frame, x, z, u, p, work)
    return columns(model.outputs, np.array(rows))


def columns(signals: Signals, rows: NDArray[np.float64]) -> Columns:
    """By signal name, each (samples,)."""
    return {name: rows[:, i] for i, name in enumerate(signals.columns)}


def published(case: str, simulation: str = "05") -> Columns:
    """NASA's trajectory of one simulation by column name; skips where the data are absent."""
    path = DATA / "nesc" / "cases" / f"Atmos_{case}_sim_{simulation}.csv"
    if not path.exists():
        pytest.skip(f"NASA's trajectories are not beside the checkout ({path})")
    with path.open(newline="") as lines:
        rows = list(csv.reader(lines))
    table = np.array(rows[1:], dtype=np.float64)
    return {name: table[:, i] for i, name in enumerate(rows[0])}


def worst(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """Largest difference over the samples that both have; both begin at 0 with one spacing."""
    n = min(ours.size, theirs.size)
    return float(np.max(np.abs(ours[:n] - theirs[:n])))


def worst_angle(ours_deg: NDArray[np.float64], theirs_deg: NDArray[np.float64]) -> float:
    """Largest difference of two angles in degrees, around the circle."""
    n = min(ours_deg.size, theirs_deg.size)
    return float(np.max(np.abs((ours_deg[:n] - theirs_deg[:n] + 180.0) % 360.0 - 180.0)))
