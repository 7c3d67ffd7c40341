"""The report's plots.  Text that comes from a recording is escaped before plotly sees it."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.event import Event
from rtsim.record.fault_marks import FAULT, FAULT_ENDED, Span
from rtsim.record.reading import Recording, TrackData
from rtsim.record.thinning import Thinning, thin
from rtsim.timing.frames import NO_SAMPLE

COLUMNS = 3
BLUE, ORANGE, RED, GREY = "#1f5fbf", "#d97706", "#c62828", "#8a94a6"
MOST_LINES = 30
_FAULTS = (FAULT, FAULT_ENDED)
_ROW_PX = 165
_GAP_PX = 54  # tick labels of one row, title of the next
_BINS_PER_DECADE = 12
_FEWEST_BINS = 30


DRAW_WHEN_OPENED = """
document.addEventListener("toggle", event => {
  for (const data of event.target.querySelectorAll("script.plot-data")) {
    const plot = JSON.parse(data.textContent);
    Plotly.newPlot(data.previousElementSibling, plot.data, plot.layout, plot.config);
    data.remove();
  }
}, true);
"""
"""Script of the page: draws the plots of a collapsed section when it is first opened."""


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
        data = json.dumps(drawing | {"config": options}, separators=(",", ":"))
        data = data.replace("<", r"\u003c")  # the script must not contain an end tag
        script = f'<script type="application/json" class="plot-data">{data}</script>'
        return f"<div class=plot></div>{script}"
    plot = pio.to_html(figure, include_plotlyjs=False, full_html=False, config=options)
    return f"<div class=plot>{plot}</div>"


def trajectories(
    track: TrackData,
    events: Iterable[Event],
    faults: Sequence[Span] = (),
    *,
    when_opened: bool = False,
) -> tuple[str, bool]:
    """Return plots of a track's signals over time, and True if some points are left out."""
    names = [c for s in track.signals for c in s.columns]
    units = track.spec.units
    titles = [html.escape(f"{n} [{units[n]}]" if units[n] != "1" else n) for n in names]
    rows = math.ceil(len(names) / COLUMNS)
    gap = min(_GAP_PX / (_ROW_PX * rows - 24), 0.9 / max(rows - 1, 1))
    figure = make_subplots(
        rows, COLUMNS, subplot_titles=titles, shared_xaxes="all", vertical_spacing=gap,
        horizontal_spacing=0.07,
    )  # fmt: skip
    order, seconds = _effective(track)
    thinning = Thinning(seconds)
    shape = "linear" if "side" in track.integers else "hv"
    for i, name in enumerate(names):
        t, y = thinning.of(track.column(name)[order])
        line = {"color": BLUE, "width": 1.3, "shape": shape}
        mode = "lines+markers" if len(t) < 3 else "lines"
        trace = go.Scatter(x=t, y=y, mode=mode, line=line, name=titles[i], showlegend=False)
        figure.add_trace(trace, i // COLUMNS + 1, i % COLUMNS + 1)
    _mark(figure, events, faults)
    figure.update_annotations(font_size=12)
    figure.update_xaxes(showticklabels=True, tickfont_size=10)
    figure.update_yaxes(tickfont_size=10, exponentformat="power", minexponent=5)
    figure.update_layout(height=_ROW_PX * rows + 60)
    return plot_html(figure, when_opened=when_opened), thinning.thins


def _effective(track: TrackData) -> tuple[NDArray[np.intp], Vector]:
    """Return the rows to draw, and their times [s]; for a message, its time of arrival."""
    if "arrival" not in track.integers:
        return np.arange(len(track)), track.ns / NS_PER_S
    arrival = track.integer("arrival")
    order = np.argsort(arrival, kind="stable")
    order = order[arrival[order] >= 0]
    return order, arrival[order] / NS_PER_S


def _mark(figure: go.Figure, events: Iterable[Event], faults: Sequence[Span]) -> None:
    """Draw a dotted line at each event and a band for each activation of a fault, in every plot.

    If there are too many lines and bands, only the timeline shows them.  One call adds all of them,
    because plotly checks the whole figure at every call.
    """
    marks: list[dict[str, Any]] = []
    seconds = sorted({e.tag.seconds for e in events if e.kind not in _FAULTS})
    if len(seconds) <= MOST_LINES:
        marks += (_line(t, RED, dash="dot") for t in seconds)
    if len(faults) <= MOST_LINES:
        for _, began, ended, _ in faults:
            marks.append(_line(began, ORANGE))
            if ended > began:
                band = {"fillcolor": ORANGE, "opacity": 0.1, "line": {"width": 0}}
                marks.append({"type": "rect", "x0": began, "x1": ended, **band})
    plots = [
        {"xref": trace.xaxis or "x", "yref": f"{trace.yaxis or 'y'} domain", "y0": 0, "y1": 1}
        for trace in figure.data
    ]
    figure.update_layout(shapes=[mark | plot for mark in marks for plot in plots])


def _line(t: float, color: str, **style: str) -> dict[str, Any]:
    line = {"color": color, "width": 1, **style}
    return {"type": "line", "x0": t, "x1": t, "line": line, "opacity": 0.6}


def timeline(events: list[Event], end_ns: int, faults: Sequence[Span] = ()) -> str:
    """Return a plot of all events over time, with a row for each kind and each fault."""
    events = [e for e in events if not (faults and e.kind in _FAULTS)]
    kinds = list(dict.fromkeys(e.kind for e in events))
    names = sorted({span.fault for span in faults})
    figure = go.Figure()
    for name in names:
        figure.add_trace(_bars(name, [span for span in faults if span.fault == name]))
    for kind in kinds:
        of_kind = [e for e in events if e.kind == kind]
        figure.add_trace(
            go.Scatter(
                x=[e.tag.seconds for e in of_kind],
                y=[html.escape(kind)] * len(of_kind),
                text=[html.escape(f"{e.source} {e.text}"[:200]) for e in of_kind],
                mode="markers",
                marker={"color": RED, "size": 9, "symbol": "line-ns-open"},
                hovertemplate="%{x} s: %{text}<extra></extra>",
                showlegend=False,
            )
        )
    figure.update_xaxes(title="time [s]", range=[0, end_ns / NS_PER_S])
    figure.update_layout(height=90 + 28 * (len(kinds) + len(names)), showlegend=False)
    return plot_html(figure)


def _bars(name: str, activations: Sequence[Span]) -> go.Scatter:
    """Return a row of the timeline: a mark where a fault began, and a line while it acted."""
    x: list[float | None] = []
    for span in activations:
        x += [span.began, span.ended, None]
    return go.Scatter(
        x=x,
        y=[html.escape(f"fault {name}")] * len(x),
        text=[html.escape(span.text[:200]) for span in activations for _ in range(3)],
        mode="lines+markers",
        line={"color": ORANGE, "width": 6},
        marker={"color": ORANGE, "size": 11, "symbol": "line-ns-open"},
        hovertemplate="%{x} s: %{text}<extra></extra>",
    )


def latencies(recording: Recording) -> str:
    """Return plots of latency from initiation to arrival [ms], for each topic with a latency."""
    shown = [(t, *_delays(t)) for t in recording.tracks.values() if "arrival" in t.integers]
    shown = [row for row in shown if len(row[1]) and row[3].any()]
    if not shown:
        return ""
    titles = [html.escape(track.name.removeprefix("messages/")) for track, *_ in shown]
    rows = math.ceil(len(shown) / 2)
    figure = make_subplots(rows, 2, subplot_titles=titles, vertical_spacing=min(0.3 / rows, 0.12))
    for i, (_, t, compute, total) in enumerate(shown):
        where = (i // 2 + 1, i % 2 + 1)
        for values, name, color in (
            (compute, "initiated to completed", ORANGE),
            (total, "initiated to arrival", BLUE),
        ):
            x, y = thin(t, values)
            marker = {"color": color, "size": 4}
            figure.add_trace(
                go.Scatter(
                    x=x, y=y, mode="markers", marker=marker, name=name, legendgroup=name,
                    showlegend=i == 0,
                ),
                *where,
            )  # fmt: skip
    figure.update_xaxes(title="initiated [s]", title_standoff=4)
    figure.update_yaxes(title="ms", rangemode="tozero")
    legend = {"orientation": "h", "y": -64 / (260 * rows), "x": 0}
    figure.update_layout(height=260 * rows + 80, legend=legend)
    figure.update_layout(margin_b=80)
    return plot_html(figure)


def _delays(track: TrackData) -> tuple[Vector, Vector, Vector]:
    """Return initiation [s], compute and total latency [ms] of the messages that arrived."""
    initiated, completed, arrival = map(track.integer, ("initiated", "completed", "arrival"))
    there = arrival >= 0
    start = initiated[there]
    return (
        start / NS_PER_S,
        (completed[there] - start) / 1e6,
        (arrival[there] - start) / 1e6,
    )


def timing_histograms(samples: Mapping[str, tuple[Vector, Vector]], counted: str = "frames") -> str:
    """Return histograms on logarithmic axes; each of ``samples`` is (values [ns], counts)."""
    figure = make_subplots(1, len(samples), subplot_titles=[html.escape(n) for n in samples])
    for column, (name, (values, counts)) in enumerate(samples.items(), start=1):
        edges, heights, below = log_histogram(values, counts)
        color = {
            "line": {"color": BLUE, "width": 1, "shape": "hv"},
            "fill": "tozeroy",
            "mode": "lines",
        }
        trace = go.Scatter(x=edges / 1e3, y=[*heights, 0], showlegend=False, name=name, **color)
        figure.add_trace(trace, 1, column)
        note = f"us (and {below} at or below 0)" if below else "us"
        figure.update_xaxes(type="log", title=note, row=1, col=column)
    figure.update_yaxes(type="log", title=counted, col=1, row=1)
    figure.update_yaxes(type="log")
    figure.update_layout(height=330)
    return plot_html(figure)


def log_histogram(values: Vector, counts: Vector) -> tuple[Vector, Vector, int]:
    """Return the edges (k + 1,) and heights (k,) of a histogram, and the count of values <= 0."""
    above = values > 0
    below = int(counts[~above].sum())
    if not above.any():
        return np.array([1.0, 10.0]), np.zeros(1), below
    logs = np.log10(values[above])
    fine = max(_BINS_PER_DECADE, min(_FEWEST_BINS / max(np.ptp(logs), 1e-3), 100.0))
    bins = logs * fine
    edges = np.arange(math.floor(bins.min()), math.floor(bins.max()) + 2)
    heights, _ = np.histogram(bins, edges, weights=counts[above])
    return 10.0 ** (edges / fine), heights, below


def samples_of(
    recording: Recording, certificate: Mapping[str, Any]
) -> dict[str, tuple[Vector, Vector]]:
    """Return timing samples by name: from the timing track, or without one from the certificate."""
    track = recording.tracks.get("timing")
    out: dict[str, tuple[Vector, Vector]] = {}
    if track is not None and len(track):
        for name in track.integers:
            values = track.integer(name)
            values = values[values != NO_SAMPLE].astype(np.float64)
            out[name.replace("_", " ")] = (values, np.ones(len(values)))
        return out
    for name in ("lateness", "compute", "margin"):
        bins = certificate.get(name, {}).get("histogram") or []
        if bins:
            table = np.array(bins, np.float64).reshape(-1, 3)
            out[name] = ((table[:, 0] + table[:, 1]) / 2, table[:, 2])
    return out
