"""The page's plots: a signal of design and C, and how far they are apart."""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from rtsim.record.figures import BLUE, GREY, ORANGE, RED, plot_html
from rtsim.record.thinning import thin
from rtsim.signals import Vector

_HEIGHT = 380


@dataclass(frozen=True)
class Traces:
    """A signal twice over the same times: all (n,), NaN where there is nothing."""

    name: str
    unit: str
    seconds: Vector
    design: Vector
    translation: Vector
    gap: Vector
    """Their distance, the way the verdict takes it."""
    allowed: Vector
    first_failed: float | None = None
    """s."""
    held: bool = True
    """Between two points it stays as it was, as what a controller answers does."""


def traces_html(traces: Traces, *, when_opened: bool = False) -> str:
    """Both traces, below them their distance on a log axis with what is allowed."""
    unit = "" if traces.unit in ("", "1") else f" [{traces.unit}]"
    figure = make_subplots(2, 1, shared_xaxes=True, row_heights=[0.58, 0.42], vertical_spacing=0.06)
    shape = "hv" if traces.held else "linear"
    for values, name, color, dash, width in (
        (traces.design, "design", BLUE, "solid", 2.6),
        (traces.translation, "C", ORANGE, "dash", 1.3),
    ):
        line = {"color": color, "width": width, "dash": dash, "shape": shape}
        _add(figure, 1, traces.seconds, values, name, line=line)
    far = (traces.gap > 0) & np.isfinite(traces.gap)
    gap = np.where(far, traces.gap, np.nan)  # a log axis has no 0
    marker = {"color": RED, "size": 3}
    line = {"color": RED, "width": 1}
    _add(
        figure, 2, traces.seconds, gap, "difference", line=line, marker=marker, mode="lines+markers"
    )
    allowed = np.where(traces.allowed > 0, traces.allowed, np.nan)
    line = {"color": GREY, "width": 1.2, "dash": "dot", "shape": shape}
    _add(figure, 2, traces.seconds, allowed, "allowed", line=line)
    if traces.first_failed is not None:
        _mark(figure, traces.first_failed)
    figure.update_yaxes(title=html.escape(f"{traces.name}{unit}"), row=1, col=1)
    figure.update_yaxes(title=f"|C - design|{html.escape(unit)}", type="log", row=2, col=1)
    figure.update_yaxes(exponentformat="power", minexponent=5, title_font_size=12)
    figure.update_xaxes(title="time [s]", row=2, col=1)
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    figure.update_layout(height=_HEIGHT, legend=legend)
    _say_equal(figure, traces.gap)
    return plot_html(figure, when_opened=when_opened)


def _add(figure: go.Figure, row: int, t: Vector, y: Vector, name: str, **style: object) -> None:
    """A trace, thinned; what is not finite is a gap."""
    some = np.isfinite(y).any()
    x, shown = thin(t, y) if some else (t[:0], y[:0])
    style.setdefault("mode", "lines" if len(x) > 2 else "lines+markers")
    figure.add_trace(go.Scatter(x=x, y=shown, name=name, connectgaps=False, **style), row, 1)


def _mark(figure: go.Figure, seconds: float) -> None:
    """The first divergence."""
    line = {"color": RED, "width": 1.4, "dash": "dash"}
    for row in (1, 2):
        figure.add_vline(x=seconds, line=line, row=row, col=1)
    figure.add_annotation(
        x=seconds, y=1.0, xref="x", yref="y domain", text=f"first divergence, {seconds:.9g} s",
        showarrow=False, xanchor="left", yanchor="top", font={"color": RED, "size": 12},
    )  # fmt: skip


def _say_equal(figure: go.Figure, gap: Vector) -> None:
    if (gap != 0).any():
        return
    figure.add_annotation(
        x=0.5, y=0.5, xref="x2 domain", yref="y2 domain", text="no difference", showarrow=False,
        font={"color": GREY, "size": 13},
    )  # fmt: skip
