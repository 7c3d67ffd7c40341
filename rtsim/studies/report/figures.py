"""Plots of the report page. Texts of the study are escaped, because plotly interprets markup."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rtsim.core.estimates import Estimate
from rtsim.core.signals import Vector
from rtsim.record.plotly_html import BLUE, GREY, ORANGE, RED, go, make_subplots, plot_html
from rtsim.studies.designs.base import Indices
from rtsim.studies.measures import Required
from rtsim.studies.report.numbers import (
    Convergence,
    Fan,
    Quantile,
    Runs,
    Series,
    distribution,
    numbers,
    quantiles_of,
)

COLORS = (BLUE, ORANGE, "#2e7d32", "#7b3fa0", "#00838f", "#8d6e63")
COLUMNS = 3
MOST_POINTS = 1000
_MOST_BINS, _FEWEST_BINS = 60, 10
_BAND = 0.18


def escaped(text: object) -> str:
    """Escape ``text`` for plotly, which interprets markup."""
    return html.escape(str(text))


def panels(titles: Sequence[str], columns: int = COLUMNS, row_px: int = 220) -> go.Figure:
    """Return a figure of subplots. ``place`` returns the row and the column of a subplot."""
    columns = min(columns, len(titles))
    rows = math.ceil(len(titles) / columns)
    figure = make_subplots(
        rows, columns, subplot_titles=[escaped(one) for one in titles], horizontal_spacing=0.08,
        vertical_spacing=min(74 / (row_px * rows), 0.9 / max(1, rows - 1)),
    )  # fmt: skip
    figure.update_annotations(font_size=12)
    figure.update_xaxes(tickfont_size=10, title_font_size=11, title_standoff=4)
    figure.update_yaxes(tickfont_size=10, exponentformat="power", minexponent=5)
    legend = {"orientation": "h", "y": -62 / (row_px * rows), "x": 0}
    figure.update_layout(height=row_px * rows + 100, legend=legend, margin_b=70)
    return figure


def place(i: int, titles: Sequence[str], columns: int = COLUMNS) -> dict[str, int]:
    columns = min(columns, len(titles))
    return {"row": i // columns + 1, "col": i % columns + 1}


def _color_of(k: int) -> str:
    return COLORS[k % len(COLORS)]


def _faint(color: str) -> str:
    red, green, blue = (int(color[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red},{green},{blue},{_BAND})"


def band(x: Any, low: Any, high: Any, color: str, **more: Any) -> go.Scatter:
    x, low, high = (np.asarray(one, np.float64) for one in (x, low, high))
    there = np.isfinite(low) & np.isfinite(high)
    x, low, high = x[there], low[there], high[there]
    return go.Scatter(
        x=np.concatenate([x, x[::-1]]), y=np.concatenate([high, low[::-1]]), fill="toself",
        fillcolor=_faint(color), line={"width": 0}, hoverinfo="skip", mode="lines", **more,
    )  # fmt: skip


def shares(rows: Sequence[tuple[str, float, float, float]]) -> str:
    names = [escaped(name) for name, *_ in rows]
    table = np.array([row[1:] for row in rows], np.float64).T
    bars = {"type": "data", "array": table[2] - table[0], "arrayminus": table[0] - table[1]}
    marker = {"color": BLUE, "size": 9}
    figure = go.Figure(go.Scatter(x=table[0], y=names, error_x=bars, mode="markers", marker=marker))
    figure.update_xaxes(title="share of runs that pass", range=[-0.02, 1.02])
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_layout(height=120 + 34 * len(rows))
    return plot_html(figure)


def spread(runs: Runs, name: str) -> str:
    titles = ("histogram, with the interval of the mean", "empirical distribution, with quantiles")
    figure = panels(titles, 2, 260)
    left, right = (place(k, titles, 2) for k in range(2))
    finite = [one.finite(name)[1] for one in runs.series]
    every = np.concatenate(finite) if finite else np.empty(0)
    edges = _edges_of(every)
    if edges is None:
        return ""
    for k, series in enumerate(runs.series):
        color = _color_of(k)
        more: dict[str, Any] = {"name": escaped(series.label), "legendgroup": str(k)}
        figure.add_trace(_histogram(series, name, edges, color, more), **left)
        x, y = distribution(series, name, MOST_POINTS)
        line = {"color": color, "width": 1.5, "shape": "hv"}
        more["showlegend"] = False
        figure.add_trace(go.Scatter(x=x, y=y, mode="lines", line=line, **more), **right)
        _mark_quantiles(figure, quantiles_of(series, name, runs.level), color, right)
        _mark_mean(figure, series.design.mean(*series.finite(name), runs.level), color, left)
    for required in runs.plan.job.required:
        _mark_limits(figure, required, name)
    figure.update_xaxes(title=escaped(name))
    figure.update_yaxes(title="share of runs", col=1)
    figure.update_layout(barmode="overlay", showlegend=len(runs.series) > 1)
    return plot_html(figure)


def _edges_of(values: Vector) -> Vector | None:
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    most = max(abs(low), abs(high))
    if high - low <= 1e-9 * most or not most:  # Bins would be smaller than a rounding error.
        low, high = low - (1e-6 * most or 0.5), high + (1e-6 * most or 0.5)
    if not math.isfinite(high - low):
        return None
    bins = min(_MOST_BINS, max(_FEWEST_BINS, math.ceil(2.0 * len(values) ** (1 / 3))))
    return np.linspace(low, high, bins + 1)


def _histogram(series: Series, name: str, edges: Vector, color: str, more: Any) -> go.Bar:
    columns, values = series.finite(name)
    weights = series.design.weights(columns)
    heights, _ = np.histogram(values, edges, weights=weights)
    if weights is None:
        heights = heights / max(1, len(values))
    middles, wide = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    return go.Bar(x=middles, y=heights, width=wide, marker_color=color, opacity=0.6, **more)


def _mark_mean(figure: go.Figure, estimate: Estimate | None, color: str, at: Any) -> None:
    if estimate is None:
        return
    figure.add_vrect(estimate.low, estimate.high, fillcolor=color, opacity=0.25, line_width=0, **at)
    figure.add_vline(estimate.mean, line={"color": color, "width": 2}, **at)


def _mark_quantiles(figure: go.Figure, quantiles: Sequence[Quantile], color: str, at: Any) -> None:
    found = [one for one in quantiles if math.isfinite(one.value)]
    x = [one.value for one in found]
    plus = [max(0.0, one.high - one.value) for one in found]
    minus = [max(0.0, one.value - one.low) for one in found]
    bars = {"type": "data", "array": _plain(plus), "arrayminus": _plain(minus), "thickness": 1.5}
    marker = {"color": color, "size": 7}
    trace = go.Scatter(
        x=x, y=[one.at for one in found], error_x=bars, mode="markers", marker=marker,
        showlegend=False, hovertemplate="quantile %{y}: %{x}<extra></extra>",
    )  # fmt: skip
    figure.add_trace(trace, **at)


def _plain(values: Iterable[float]) -> list[float]:
    return [one if math.isfinite(one) else 0.0 for one in values]


def _mark_limits(figure: go.Figure, required: Required, name: str) -> None:
    for limit in (required.above, required.below):
        if required.result == name and limit is not None:
            figure.add_vline(limit, line={"color": RED, "width": 1, "dash": "dash"})


def fan(
    seconds: Vector, found: Sequence[Fan], lines: Sequence[tuple[int, Vector]], signal: str
) -> str:
    figure = go.Figure()
    for k, one in enumerate(found):
        color, label = _color_of(k), f"{escaped(one.label)} " if one.label else ""
        group = {"legendgroup": str(k)}
        area = f"{label}5 to 95 % of the runs"
        figure.add_trace(band(seconds, one.low, one.high, color, name=area, **group))
        line = {"color": color, "width": 2, "shape": "hv"}
        name = f"{label}median"
        figure.add_trace(
            go.Scatter(x=seconds, y=one.middle, mode="lines", line=line, name=name, **group)
        )
    for run, history in lines:
        line = {"color": RED, "width": 1, "shape": "hv"}
        name = f"run {run}"
        figure.add_trace(go.Scatter(x=seconds, y=history, mode="lines", line=line, name=name))
    figure.update_xaxes(title="time [s]", range=[0, float(seconds[-1])])
    figure.update_yaxes(title=escaped(signal), exponentformat="power", minexponent=5)
    legend = {"orientation": "h", "y": -0.2, "x": 0}
    figure.update_layout(height=380, legend=legend, margin_b=80, showlegend=True)
    return plot_html(figure)


def scatters(runs: Runs, shown: Sequence[tuple[str, str]]) -> str:
    titles = [f"{result} over {factor}" for result, factor in shown]
    figure = panels(titles)
    count = len(runs.missed)
    rows = np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int))
    kinds = [("meets all requirements", BLUE, ~runs.missed), ("misses one", RED, runs.missed)]
    if not runs.plan.job.required:
        kinds = [("", BLUE, ~runs.missed)]
    for i, (result, factor) in enumerate(shown):
        x, y = runs.ended[factor][rows], numbers(runs.ended[result])[rows]
        if x.dtype.kind in "bOU":
            x = np.array([escaped(one) for one in x])
        for name, color, which in kinds:
            here = which[rows] & np.isfinite(y)
            marker = {"color": color, "size": 4, "opacity": 0.7}
            text = [f"run {run}" for run in runs.ended["run"][rows][here]]
            trace = go.Scatter(
                x=x[here], y=y[here], mode="markers", marker=marker, name=name, text=text,
                legendgroup=name, showlegend=i == 0 and len(kinds) > 1,
            )  # fmt: skip
            figure.add_trace(trace, **place(i, titles))
    return plot_html(figure)


def indices(found: Indices) -> str:
    """Return a bar chart of sensitivity indices and, for Morris, a plot of sigma over mu*."""
    factors = sorted(found, key=lambda name: -max(map(abs, found[name].values())))
    keys = [key for key in next(iter(found.values())) if f"{key}_half" in found[factors[0]]]
    pairs = "sigma" in found[factors[0]] and "mu_star" in found[factors[0]]
    titles = ["indices with intervals of 95 %", *(["sigma over mu*"] if pairs else [])]
    figure = panels(titles, 2, max(180, 60 + 22 * len(keys) * len(factors)))
    for k, key in enumerate(keys):
        half = [found[name][f"{key}_half"] for name in factors]
        bars = {"type": "data", "array": _plain(half), "color": GREY}
        figure.add_trace(
            go.Bar(
                x=[found[name][key] for name in factors], y=[escaped(name) for name in factors],
                orientation="h", error_x=bars, name=_WORDS.get(key, escaped(key)),
                marker_color=_color_of(k), showlegend=len(keys) > 1,
            ),
            **place(0, titles, 2),
        )  # fmt: skip
    figure.update_yaxes(autorange="reversed", automargin=True, col=1)
    figure.update_xaxes(title=" and ".join(_WORDS.get(key, key) for key in keys), col=1)
    if pairs:
        trace = go.Scatter(
            x=[found[name]["mu_star"] for name in factors],
            y=[found[name]["sigma"] for name in factors],
            text=[escaped(name) for name in factors], mode="markers+text", showlegend=False,
            textposition="top center", marker={"color": BLUE, "size": 8}, cliponaxis=False,
        )  # fmt: skip
        figure.add_trace(trace, **place(1, titles, 2))
        most = max(found[name]["mu_star"] for name in factors)
        # The wider range leaves room for the names.
        figure.update_xaxes(title="mu*", range=[0, 1.3 * most or 1.0], col=2)
        figure.update_yaxes(title="sigma", rangemode="tozero", col=2)
    return plot_html(figure)


_WORDS = {"first": "first order", "total": "total effect", "mu_star": "mu*"}


def convergences(found: Sequence[Convergence]) -> str:
    titles = list(dict.fromkeys(one.title for one in found))
    labels = list(dict.fromkeys(one.label for one in found))
    figure = panels(titles)
    for one in found:
        at, k = place(titles.index(one.title), titles), labels.index(one.label)
        color = _color_of(k)
        line = {"color": color, "width": 1.5}
        figure.add_trace(band(one.runs, one.low, one.high, color, showlegend=False), **at)
        trace = go.Scatter(
            x=one.runs, y=one.value, mode="lines", line=line, name=escaped(one.label),
            legendgroup=str(k), showlegend=one.title == titles[0] and len(labels) > 1,
        )  # fmt: skip
        figure.add_trace(trace, **at)
    most = max(int(one.runs[-1]) for one in found)
    ticks = [k * 10**n for n in range(len(str(most))) for k in (1, 2, 5) if k * 10**n <= most]
    figure.update_xaxes(title="runs", type="log", tickvals=ticks, ticktext=list(map(str, ticks)))
    return plot_html(figure)
