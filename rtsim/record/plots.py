"""Plots of a table of signals, for notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from rtsim.core.signals import Vector

_ROW_PX = 220
_CLEAR, _FAINT, _GREY = "rgba(0,0,0,0)", "rgba(128,128,128,0.3)", "#808080"
"""Colours that can be read on the page of a light and of a dark notebook."""


def plotted(time: Vector, columns: Mapping[str, Vector], units: Mapping[str, str]) -> go.Figure:
    """Return a figure of ``columns`` (n,) over ``time`` (n,), s: one plot for each unit."""
    groups: dict[str, list[str]] = {}
    for name in columns:
        groups.setdefault(units.get(name, ""), []).append(name)
    figure = make_subplots(len(groups), 1, shared_xaxes=True, vertical_spacing=0.3 / len(groups))
    for row, (unit, names) in enumerate(groups.items(), start=1):
        for name in names:
            line = go.Scatter(x=time, y=columns[name], name=html.escape(name), mode="lines")
            figure.add_trace(line, row, 1)
        figure.update_yaxes(title=html.escape(unit) if unit not in ("", "1") else None, row=row)
    figure.update_xaxes(title="time [s]", row=len(groups))
    figure.update_xaxes(gridcolor=_FAINT, zerolinecolor=_FAINT)
    figure.update_yaxes(gridcolor=_FAINT, zerolinecolor=_FAINT)
    figure.update_layout(
        height=80 + _ROW_PX * len(groups), template="plotly_white", font_color=_GREY,
        paper_bgcolor=_CLEAR, plot_bgcolor=_CLEAR, margin={"t": 40},
        modebar={"bgcolor": _CLEAR, "color": _GREY},
    )  # fmt: skip
    return figure
