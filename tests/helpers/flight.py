"""A flight without the executive: the RK4 of rtsim over a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from published import Columns

from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import to_ns
from rtsim.equations.model import BoundModel, Model, bind
from rtsim.solve.fixed_step import RK4

Control = Callable[[float, Mapping[str, float], Vector], None]
_ready: dict[int, tuple[Model, BoundModel]] = {}


def ready(model: Model) -> BoundModel:
    """``model`` compiled, once a session."""
    if id(model) not in _ready:
        _ready[id(model)] = (model, bind(model))
    return _ready[id(model)][1]


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
    control: Control | None = None,
) -> Columns:
    """Outputs at every ``sample`` s up to ``duration``.

    ``control(t, outputs by name, u)`` writes the held inputs at the start of every ``frame`` s,
    which is a whole number of ``step`` s and ``sample`` a whole number of frames.
    """
    bound = ready(model)
    stepper = RK4.stepper(bound)
    x, after, z = state.copy(), state.copy(), model.discrete.initial()
    u, p = model.inputs.initial(inputs), model.parameters.initial(parameters)
    y = model.outputs.initial()
    h = to_ns(step)
    per_frame, per_sample = round(frame / step), round(sample / frame)
    rows = []
    for i in range(round(duration / sample) * per_sample + 1):
        start = i * per_frame * h
        bound.output.call(start * 1e-9, x, z, u, p, y)
        if i % per_sample == 0:
            rows.append(y.copy())
        if control is not None:
            control(i * frame, dict(zip(model.outputs.columns, y.tolist(), strict=True)), u)
        for ns in range(start, start + per_frame * h, h):
            assert stepper.advance(ns, ns + h, x, z, u, p, after) < 0
            x, after = after, x
    return columns(model.outputs, np.array(rows))


def columns(signals: Signals, rows: NDArray[np.float64]) -> Columns:
    """By signal name, each (samples,)."""
    return {name: rows[:, i] for i, name in enumerate(signals.columns)}


def worst(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """Largest difference over the samples that both have; both begin at 0 with one spacing."""
    n = min(ours.size, theirs.size)
    return float(np.max(np.abs(ours[:n] - theirs[:n])))


def worst_angle(ours_deg: NDArray[np.float64], theirs_deg: NDArray[np.float64]) -> float:
    """Largest difference of two angles in degrees, around the circle."""
    n = min(ours_deg.size, theirs_deg.size)
    return float(np.max(np.abs((ours_deg[:n] - theirs_deg[:n] + 180.0) % 360.0 - 180.0)))
