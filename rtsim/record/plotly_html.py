"""A plotly figure as HTML, for pages whose figures need more than the lines of a chart."""

from __future__ import annotations

import json

import plotly.graph_objects as go
import plotly.io as pio
import plotly.offline

from rtsim.record.charts import as_json
from rtsim.record.markup import PLOT

_DRAW_WHEN_OPENED = """
document.addEventListener("toggle", event => {
  for (const data of event.target.querySelectorAll("script.plot-data")) {
    const plot = JSON.parse(data.textContent);
    Plotly.newPlot(data.previousElementSibling, plot.data, plot.layout, plot.config);
    data.remove();
  }
}, true);
"""
BLUE, ORANGE, RED, GREY = "#1f5fbf", "#d97706", "#c62828", "#8a94a6"


def plot_html(figure: go.Figure, *, when_opened: bool = False) -> str:
    """Return a plot as a div and its script; plotly itself is included once, by the page.

    ``when_opened``: draw the plot only when the ``<details>`` around it is opened.
    """
    figure.update_layout(
        template="plotly_white",
        font={"family": "system-ui, sans-serif", "size": 12, "color": "#1c2430"},
        margin={"l": 56, "r": 16, "t": 44, "b": figure.layout.margin.b or 40},
        hoverlabel={"font_size": 12},
    )
    options = {"displaylogo": False, "responsive": True}
    if when_opened:
        drawing = json.loads(pio.to_json(figure))
        data = as_json(drawing | {"config": options})
        script = f'<script type="application/json" class="plot-data">{data}</script>'
        return f"{PLOT}</div>{script}"
    plot = pio.to_html(figure, include_plotlyjs=False, full_html=False, config=options)
    return f"{PLOT}{plot}</div>"


def scripts() -> tuple[str, str]:
    """Return plotly (5 MB) for the head of a page, and a script for the end of its body.

    The second one draws a plot when the fold around it is first opened.
    """
    return (
        f"<script>{plotly.offline.get_plotlyjs()}</script>",
        f"<script>{_DRAW_WHEN_OPENED}</script>",
    )
