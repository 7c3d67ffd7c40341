"""Plots of one signal of several runs over each other, and of their differences from the first."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from rtsim.core.signals import Signal, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.figures import BLUE, GREY, ORANGE, RED, plot_html
from rtsim.record.reading import Recording, TrackData
from rtsim.record.thinning import thin
from rtsim.record.verdict import Tolerance

COLORS = (BLUE, ORANGE, "#2e7d32", "#8e24aa", RED, "#00838f")
_HEIGHT_PX = 380


class Line(NamedTuple):
    """One column of one run: its times in ns (n,), which increase, and its values (n,)."""

    run: str
    ns: NDArray[np.int64]
    values: Vector


def overlaid(
    runs: Sequence[tuple[str, Recording]],
    track: str,
    column: str,
    tolerance: Tolerance | None = None,
    *,
    when_opened: bool = False,
) -> str:
    """Return a plot of one column of all ``runs`` (name and recording) that have it, as HTML.

    Below it are the differences of the later runs from the first one, at the times that both have,
    with the allowed difference as grey lines.
    """
    lines = [
        _line(name, run.tracks[track], column)
        for name, run in runs
        if track in run.tracks and column in run.tracks[track].signals.columns
    ]
    first = runs[0][1].tracks[track]
    signal = next(s for s in first.signals if column in s.columns)
    figure = make_subplots(2, 1, shared_xaxes=True, row_heights=[0.62, 0.38], vertical_spacing=0.06)
    shape = "linear" if "side" in first.integers else "hv"
    for line, color in zip(lines, _colors(len(lines)), strict=True):
        dash = "solid" if line is lines[0] else "dot"
        t, y = thin(line.ns / NS_PER_S, line.values)
        figure.add_trace(_trace(line.run, t, y, color, shape, dash), 1, 1)
    for line, color in list(zip(lines, _colors(len(lines)), strict=True))[1:]:
        ns, gap = _difference(lines[0], line, signal)
        t, y = thin(ns / NS_PER_S, gap)
        figure.add_trace(_trace(line.run, t, y, color, "linear", "solid", legend=False), 2, 1)
    if tolerance is not None and tolerance != Tolerance() and len(lines) > 1:
        _allowed(figure, lines[0], tolerance)
    unit = html.escape(signal.unit) if signal.unit not in ("", "1") else ""
    figure.update_yaxes(title=unit, row=1)
    figure.update_yaxes(title=f"difference {unit}".strip(), row=2)
    figure.update_xaxes(title="time [s]", row=2)
    title = html.escape(f"{track.removeprefix('messages/')}.{column}")
    legend = {"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 1, "xanchor": "right"}
    figure.update_layout(title=title, height=_HEIGHT_PX, legend=legend)
    return plot_html(figure, when_opened=when_opened)


def _line(name: str, track: TrackData, column: str) -> Line:
    """Return the last value of ``column`` at each time; of a message, from its arrival."""
    ns = track.integer("arrival") if "arrival" in track.integers else np.asarray(track.ns)
    values = track.column(column)
    order = np.argsort(ns, kind="stable")
    order = order[ns[order] >= 0]
    ns, values = ns[order], values[order]
    last = np.r_[np.diff(ns) > 0, True][: len(ns)]
    return Line(name, ns[last], values[last])


def _difference(first: Line, other: Line, signal: Signal) -> tuple[NDArray[np.int64], Vector]:
    """Return ``other - first`` at the times that both have; angles by the shorter way."""
    ns, ours, theirs = np.intersect1d(first.ns, other.ns, assume_unique=True, return_indices=True)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = other.values[theirs] - first.values[ours]
        turn = {"deg": 360.0, "rad": 2.0 * np.pi}.get(signal.unit)
        if signal.kind == "angle" and turn is not None:
            gap = np.mod(gap + 0.5 * turn, turn) - 0.5 * turn
    return ns, gap


def _allowed(figure: go.Figure, first: Line, tolerance: Tolerance) -> None:
    t, y = thin(first.ns / NS_PER_S, first.values)
    most = np.maximum(tolerance.absolute, tolerance.relative * np.abs(y))
    for sign, name in ((1.0, "allowed"), (-1.0, "")):
        line = _trace(name, t, sign * most, GREY, "linear", "dash", legend=bool(name))
        figure.add_trace(line, 2, 1)


def _trace(
    name: str, t: Vector, y: Vector, color: str, shape: str, dash: str, *, legend: bool = True
) -> go.Scatter:
    return go.Scatter(
        x=t, y=y, name=html.escape(name), mode="lines+markers" if len(t) < 3 else "lines",
        line={"color": color, "width": 1.3, "shape": shape, "dash": dash}, showlegend=legend,
    )  # fmt: skip


def _colors(count: int) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(count)]
