"""A plotly figure as HTML, for pages whose figures need more than the lines of a chart."""

from __future__ import annotations

import plotly.graph_objects as go
import plotly.io as pio

from rtsim.record.markup import PLOT

BLUE, ORANGE, RED, GREY = "#1f5fbf", "#d97706", "#c62828", "#8a94a6"


def plot_html(figure: go.Figure) -> str:
    """Return a plot as a div and its script; plotly itself is included once, by the page."""
    figure.update_layout(
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 12, "color": "#1c2430"},
        margin={"l": 56, "r": 16, "t": 44, "b": figure.layout.margin.b or 40},
        hoverlabel={"font_size": 12},
    )
    options = {"displaylogo": False, "responsive": True}
    plot = pio.to_html(figure, include_plotlyjs=False, full_html=False, config=options)
    return f"{PLOT}{plot}</div>"
