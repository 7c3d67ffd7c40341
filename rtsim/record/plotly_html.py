"""Plotly figures of signal tables, and their conversion to HTML."""

from __future__ import annotations

import html
import json
from collections.abc import Collection, Mapping

from rtsim.core.extras import needs
from rtsim.core.signals import Vector
from rtsim.record.markup import PLOT, as_json

with needs("plots", "a plot"):
    import plotly.graph_objects as go
    import plotly.io as pio
    import plotly.offline
    from plotly.subplots import make_subplots

__all__ = ["BLUE", "GREY", "ORANGE", "RED", "go", "make_subplots", "plot_html", "plotted"]

_DRAW_WHEN_OPENED = """
document.addEventListener("toggle", event => {
  for (const data of event.target.querySelectorAll("script.plot-data")) {
    const plot = JSON.parse(data.textContent);
    Plotly.newPlot(data.previousElementSibling, plot.data, plot.layout, plot.config);
    data.remove();
  }
}, true);
"""
_ROW_PX = 220
_CLEAR, _FAINT, _GREY = "rgba(0,0,0,0)", "rgba(128,128,128,0.3)", "#808080"
"""Colours that are readable in notebooks with light and dark themes."""
BLUE, ORANGE, RED, GREY = "#1f5fbf", "#d97706", "#c62828", "#8a94a6"


def plotted(
    time: Vector,
    columns: Mapping[str, Vector],
    units: Mapping[str, str],
    held: Collection[str] = (),
) -> go.Figure:
    """Return a figure of ``columns`` (n,) over ``time`` (n,) in s, with one plot for each unit.

    Columns in ``held`` are drawn as steps.
    """
    groups: dict[str, list[str]] = {}
    for name in columns:
        groups.setdefault(units.get(name, ""), []).append(name)
    figure = make_subplots(len(groups), 1, shared_xaxes=True, vertical_spacing=0.3 / len(groups))
    for row, (unit, names) in enumerate(groups.items(), start=1):
        for name in names:
            shape = "hv" if name in held else "linear"
            line = go.Scatter(
                x=time, y=columns[name], name=html.escape(name), mode="lines", line_shape=shape
            )
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


def plot_html(figure: go.Figure, *, when_opened: bool = False) -> str:
    """Return a plot as an HTML element with a script. The page must include plotly itself once.

    With ``when_opened``, the plot is drawn when the surrounding element ``details`` opens.
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
    """Return scripts for the head and the end of a page; the first is plotly (5 MB).

    The second script draws each plot when its element ``details`` is first opened.
    """
    return (
        f"<script>{plotly.offline.get_plotlyjs()}</script>",
        f"<script>{_DRAW_WHEN_OPENED}</script>",
    )
