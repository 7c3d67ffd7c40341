"""The section on boards of the HTML page: identity, times of exchanges and steps."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from hitl.comparison.on_target import OnTarget
from hitl.comparison.verdict import BackToBack
from hitl.results.target import facts, histogram, last_of
from rtsim.record.markup import table, text
from rtsim.record.plotly_html import BLUE, GREY, ORANGE, RED, plot_html

_BINS = 40


def boards_html(pairs: Sequence[BackToBack]) -> str:
    """Return the HTML of the section; empty if nothing ran on a board."""
    flight = pairs[-1].flight
    late, missed = (0, 0) if flight is None else (flight.late, flight.missed)
    out = ""
    for name, target in last_of(pairs).items():
        rows = facts(target, late, missed).items()
        out += f"<h3>{text(name)}</h3>{table(('', ''), rows)}{distributions_html(target)}"
    return out


def distributions_html(target: OnTarget) -> str:
    """Return the HTML of histograms: time of an exchange, and processor cycles of a step."""
    exchange = target.exchange
    if exchange is None or not len(target.cycles):
        return ""
    titles = (html.escape(exchange.label), "processor cycles of a step, target clock")
    figure = make_subplots(1, 2, subplot_titles=titles, horizontal_spacing=0.09)
    budget = target.budget.exchange_ns / 1e6
    _bars(figure, 1, exchange.took_ns / 1e6, BLUE, seen=(budget,))
    _bars(figure, 2, target.cycles, ORANGE)
    _line(figure, 1, budget, "wire time plus longest step", GREY)
    _line(figure, 1, exchange.max / 1e6, "maximum observed", RED)
    _line(figure, 2, float(target.cycles.max()), "maximum observed", RED)
    figure.update_xaxes(title="ms", row=1, col=1)
    figure.update_xaxes(title="cycles", tickformat="d", row=1, col=2)
    figure.update_yaxes(title="steps", type="log", row=1, col=1)
    figure.update_yaxes(type="log", row=1, col=2)
    legend = {"orientation": "h", "x": 0, "y": -0.25, "yanchor": "top"}
    figure.update_layout(height=360, bargap=0.02, legend=legend, margin_b=90)
    return plot_html(figure)


def _bars(
    figure: go.Figure,
    column: int,
    values: NDArray[np.int64] | NDArray[np.float64],
    color: str,
    seen: tuple[float, ...] = (),
) -> None:
    """Add equal bins; if all values are equal, add one bar of a thousandth of the value's width."""
    rows = histogram(values, _BINS, seen)
    low, high, count = (np.array(part) for part in zip(*rows, strict=True))
    width = np.where(high > low, high - low, np.maximum(np.abs(low), 1e-9) / 1000)
    bars = go.Bar(
        x=(low + high) / 2, y=count, width=width, marker_color=color, showlegend=False,
        hovertemplate="%{x}: %{y} steps<extra></extra>",
    )  # fmt: skip
    figure.add_trace(bars, 1, column)


def _line(figure: go.Figure, column: int, x: float, name: str, color: str) -> None:
    """Add a vertical line at ``x``; its name is in the legend once."""
    shown = column == 1
    line = {"color": color, "width": 1.5, "dash": "dash"}
    figure.add_trace(
        go.Scatter(
            x=[x, x], y=[0.8, _top(figure, column)], mode="lines", line=line, name=name,
            legendgroup=name, showlegend=shown, hovertemplate=f"{name}: %{{x}}<extra></extra>",
        ),
        1, column,
    )  # fmt: skip


def _top(figure: go.Figure, column: int) -> float:
    axis = "y" if column == 1 else "y2"
    heights = [t.y for t in figure.data if t.type == "bar" and t.yaxis == axis]
    return 1.4 * float(np.max(heights[0]))
