"""The charts of a tracking task: error, target and stick over time, and the open loop."""

from __future__ import annotations

import numpy as np

from rtsim.models.piloting.axis import TrackedAxis
from rtsim.models.piloting.identification import unwrapped
from rtsim.record.reports.charts import COMMAND, RESPONSE, Chart, Line, thin

_STICK, _MARKED = 2, 3
"""Numbers of colours of the stick and of marked stretches."""
_HIGH = 300


def axis_charts(axis: TrackedAxis) -> list[Chart]:
    """Return target, error and stick of one axis over time, and the open loop over frequency."""
    found = axis.found
    loop = [] if found is None or not found.trusted.any() else [_gain(axis), _lag(axis)]
    return [_error(axis), _stick(axis), *loop]


def _error(axis: TrackedAxis) -> Chart:
    target = axis.target - axis.target[0]
    lines = [
        Line("error", *thin(axis.time, axis.error), RESPONSE),
        Line("target", *thin(axis.time, target), COMMAND),
    ]
    if axis.marks:
        spans = [(m.first, m.last, m.last) for m in axis.marks]
        x = np.array([t for span in spans for t in span])
        y = np.array([v for _ in spans for v in (0.0, 0.0, np.nan)])
        lines.append(Line("oscillation", x, y, _MARKED, wide=True))
    return Chart(f"{axis.name}: target and error [{axis.unit}]", lines, height=_HIGH)


def _stick(axis: TrackedAxis) -> Chart:
    line = Line("stick", *thin(axis.time, axis.stick), _STICK)
    return Chart(f"{axis.name}: stick", [line], height=_HIGH)


def _gain(axis: TrackedAxis) -> Chart:
    """Return the magnitude of the open loop: measured, and of the crossover model."""
    found = axis.found
    assert found is not None
    w, loop = found.frequencies[found.trusted], found.open_loop[found.trusted]
    lines = [Line("measured", w, np.abs(loop), RESPONSE, points=True)]
    if (model := found.crossover_model()) is not None:
        lines.append(Line(_said(model), w, model[0] / w, COMMAND))
    title = f"{axis.name}: magnitude of the open loop"
    return Chart(title, lines, "frequency [rad/s]", log=True, timed=False, height=_HIGH)


def _lag(axis: TrackedAxis) -> Chart:
    """Return the phase lag of the open loop: measured, and of the crossover model."""
    found = axis.found
    assert found is not None
    w, loop = found.frequencies[found.trusted], found.open_loop[found.trusted]
    lag = -np.degrees(unwrapped(loop))
    lag[lag <= 0.0] = np.nan  # a logarithmic axis has no 0
    lines = [Line("measured", w, lag, RESPONSE, points=True)]
    if (model := found.crossover_model()) is not None:
        lines.append(Line(_said(model), w, 90.0 + np.degrees(model[1] * w), COMMAND))
    title = f"{axis.name}: phase lag of the open loop [deg]"
    return Chart(title, lines, "frequency [rad/s]", log=True, timed=False, height=_HIGH)


def _said(model: tuple[float, float]) -> str:
    return f"crossover model, {model[0]:.3g} rad/s, {model[1]:.3g} s"
