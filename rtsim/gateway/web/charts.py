"""The views of a page: curves over time, and curves of one signal over another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import viser

from rtsim.core.signals import Vector
from rtsim.gateway.web.source import MOST_POINTS, About, Past
from rtsim.record.views import Published, View, with_unit

MOST_CHARTS = 8
"""Charts on the page at a time; the others are on further pages."""
MOST_CURVES = 6
"""Curves of one chart; of an array with more elements, only the first are drawn."""
CHART_HEIGHT, TALL = 190, 270
"""Heights of a chart beside a scene, and without a scene, pixels."""
_WIDTH = 400
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
_BAND = "rgba(214, 39, 40, 0.12)"
_SQUARE = 320


class Chart:
    """One view on the page; :meth:`show` draws the past values of its ``names``."""

    def __init__(
        self, gui: viser.GuiApi, view: View, names: Sequence[str], about: About, height: int
    ) -> None:
        self.names = (*names, *([] if view.over is None else [view.over]))
        self._view, self._drawn, self._about = view, tuple(names), about
        self._height = height
        self._range: tuple[float, float] | None = None
        self._plot: Any
        if view.over is None:
            self._plot = self._curves(gui)
        else:
            self._plot = gui.add_html(self._svg(np.zeros(0), {}))

    def show(self, past: Past) -> None:
        if self._view.over is not None:
            self._plot.content = self._svg(
                past.values.get(self._view.over, np.zeros(0)), past.values
            )
        elif len(past.seconds):
            data = self._data(past)
            self._fix_range(data[1:])
            self._plot.data = data

    def remove(self) -> None:
        self._plot.remove()

    # -- over time

    def _curves(self, gui: viser.GuiApi) -> Any:
        series: list[Any] = [{"label": "t [s]"}]
        for k, name in enumerate(self._drawn):
            label = with_unit(name, self._about.signals.get(name, ""))
            series.append({"label": label, "stroke": _COLOURS[k], "width": 1.5})
        bands = None
        if self._view.band is not None:
            edge = {"stroke": _BAND, "width": 1, "label": f"± {self._view.band:g}"}
            series += [edge, edge]
            bands = ({"series": (len(series) - 2, len(series) - 1), "fill": _BAND},)
        for k, one in enumerate(self._view.published, start=len(self._drawn)):
            colour = _COLOURS[k % len(_COLOURS)]
            points = {"show": True, "size": 5, "fill": colour, "stroke": colour}
            series.append({"label": one.name, "stroke": colour, "width": 0, "points": points})
        empty = np.zeros(1)
        return gui.add_uplot(
            data=tuple(empty for _ in series),
            series=tuple(series),
            bands=bands,
            title=self._view.title,
            scales={"x": {"time": False}, "y": {"auto": True}},
            axes=({}, {"size": 64}),
            legend={"show": len(self._drawn) + len(self._view.published) > 1},
            height=self._height,
        )

    def _data(self, past: Past) -> tuple[Vector, ...]:
        seconds, points = _published(self._view.published, past.seconds)
        curves = [_finite(past.values[name]) for name in self._drawn]
        if points:
            curves = [np.interp(seconds, past.seconds, curve) for curve in curves]
        if self._view.band is not None:
            middle = curves[-1] if len(curves) > 1 else np.zeros(len(seconds))
            curves += [middle + self._view.band, middle - self._view.band]
        return (seconds, *curves, *points)

    def _fix_range(self, curves: Sequence[Vector]) -> None:
        """Give the vertical range if a curve has gaps, because the chart library cannot find it.

        The library loses the user's zoom at each new range, so a range is kept while it fits.
        """
        known = np.concatenate([c[np.isfinite(c)] for c in curves])
        wanted: tuple[float, float] | None = None
        if len(known) and len(known) < sum(map(len, curves)):
            low, high = float(known.min()), float(known.max())
            room = 0.1 * (high - low) or 0.1 * abs(high) or 1.0
            kept = self._range
            if kept is not None and kept[0] <= low and high <= kept[1]:
                return
            wanted = low - room, high + room
        if wanted != self._range:
            self._range = wanted
            y = {"auto": True} if wanted is None else {"range": wanted}
            self._plot.scales = {"x": {"time": False}, "y": y}

    # -- over another signal

    def _svg(self, across: Vector, values: Mapping[str, Vector]) -> str:
        """Return a drawing, because the chart library draws curves over a rising axis only."""
        over = str(self._view.over)
        curves = [_finite(values[name]) for name in self._drawn if name in values]
        x, lines = _finite(across), []
        known = [np.isfinite(x) & np.isfinite(y) for y in curves]
        if any(ok.any() for ok in known):
            whole = np.concatenate([x[ok] for ok in known])
            high = np.concatenate([y[ok] for y, ok in zip(curves, known, strict=True)])
            for k, (y, ok) in enumerate(zip(curves, known, strict=True)):
                px, py = _pixels(x[ok], whole), _SQUARE - _pixels(y[ok], high)
                points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True))
                lines.append(
                    f'<polyline points="{points}" fill="none" stroke="{_COLOURS[k]}" '
                    'stroke-width="1.5"/>'
                )
            x_range = f"{whole.min():.4g} to {whole.max():.4g}"
            ranges = f"{over}: {x_range}; vertical: {high.min():.4g} to {high.max():.4g}"
        else:
            ranges = over
        return (
            f"<div><b>{escape(self._view.title)}</b>"
            f'<svg viewBox="0 0 {_SQUARE} {_SQUARE}" style="width:100%;max-width:{_WIDTH}px">'
            f"{''.join(lines)}</svg><div>{escape(ranges)}</div></div>"
        )


class Charts:
    """The charts of one page of views, and the choice of further signals."""

    def __init__(
        self, gui: viser.GuiApi, about: About, views: Sequence[View], height: int = CHART_HEIGHT
    ) -> None:
        self._gui, self._about, self._views = gui, about, list(views)
        self._height = height
        self._charts: list[Chart] = []
        self._page = 0
        self.span_s = 30.0

    @property
    def pages(self) -> int:
        return max(1, -(-len(self._views) // MOST_CHARTS))

    @property
    def unknown(self) -> list[str]:
        """Titles of the views that cannot be drawn, because their signals are not sent."""
        return [view.title for view in self._views if not self._expanded(view)]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for chart in self._charts for name in chart.names))

    def open(self, folder: Any, page: int = 0) -> None:
        """Draw the charts of ``page`` into ``folder``, and remove the others."""
        self._page = min(max(page, 0), self.pages - 1)
        for chart in self._charts:
            chart.remove()
        self._charts = []
        with folder:
            for view in self._views[self._page * MOST_CHARTS :][:MOST_CHARTS]:
                if names := self._expanded(view):
                    chart = Chart(self._gui, view, names, self._about, self._height)
                    self._charts.append(chart)

    def add(self, name: str) -> bool:
        """Put a view of the signal ``name`` first; return False if it is there already."""
        if name not in self._about.signals:
            return False
        view = View(with_unit(name, self._about.signals[name]), (name,))
        if any(view.signals == one.signals for one in self._views):
            self._views = [one for one in self._views if one.signals != view.signals]
        self._views.insert(0, view)
        return True

    def show(self, past: Past) -> None:
        for chart in self._charts:
            chart.show(past)

    def _expanded(self, view: View) -> list[str]:
        """Return the signals of ``view`` that the run has; an array stands for its elements."""
        out: list[str] = []
        for name in view.signals:
            if name in self._about.signals:
                out.append(name)
            else:
                pattern = re.compile(re.escape(name) + r"(_\d+)+")
                out += [known for known in self._about.signals if pattern.fullmatch(known)]
        if view.over is not None and view.over not in self._about.signals:
            return []
        return out[:MOST_CURVES]


def views_shown(about: About) -> list[View]:
    """Return the views of ``about``; without any, one for each of its first signals."""
    if about.views:
        return [View.from_dict(one) for one in about.views]
    names = [n for n, kind in about.kinds.items() if kind != "parameter"]
    return [View(with_unit(n, about.signals[n]), (n,)) for n in names[: 2 * MOST_CHARTS]]


def _published(published: Sequence[Published], seconds: Vector) -> tuple[Vector, list[Vector]]:
    """Return ``seconds`` with the times of published values between its ends, and the values.

    There is one array (n,) for each source, with NaN at all times that it does not give.
    """
    inside = [np.array(one.times) for one in published]
    inside = [(t >= seconds[0]) & (t <= seconds[-1]) for t in inside]
    found = [
        (np.array(one.times)[here][:MOST_POINTS], np.array(one.values)[here][:MOST_POINTS])
        for one, here in zip(published, inside, strict=True)
    ]
    whole = np.unique(np.concatenate([seconds, *(times for times, _ in found)]))
    points = [np.full(len(whole), np.nan) for _ in found]
    for point, (times, values) in zip(points, found, strict=True):
        point[np.searchsorted(whole, times)] = values
    return (whole if points else seconds), points


def _finite(values: Vector) -> Vector:
    """Return ``values`` with NaN, which leaves a gap, instead of numbers that are not finite."""
    out: Vector = np.where(np.isfinite(values), values, np.nan)
    return out


def _pixels(values: Vector, whole: Vector) -> Vector:
    low, high = float(whole.min()), float(whole.max())
    share = (values - low) / (high - low) if high > low else np.full(len(values), 0.5)
    out: Vector = _SQUARE * (0.05 + 0.9 * share)
    return out
