"""Plots of a table of signals, for notebooks."""

from __future__ import annotations

import html

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from rtsim.record.table import SignalTable

_ROW_PX = 220


def plotted(table: SignalTable) -> go.Figure:
    """Return a figure with one plot below the other, one for each unit, over the time in s."""
    groups: dict[str, list[str]] = {}
    for name in table.columns:
        groups.setdefault(table.units.get(name, ""), []).append(name)
    figure = make_subplots(len(groups), 1, shared_xaxes=True, vertical_spacing=0.3 / len(groups))
    for row, (unit, names) in enumerate(groups.items(), start=1):
        for name in names:
            line = go.Scatter(x=table.time, y=table[name], name=html.escape(name), mode="lines")
            figure.add_trace(line, row, 1)
        figure.update_yaxes(title=html.escape(unit) if unit not in ("", "1") else None, row=row)
    figure.update_xaxes(title="time [s]", row=len(groups))
    figure.update_layout(height=80 + _ROW_PX * len(groups), template="plotly_white")
    return figure
