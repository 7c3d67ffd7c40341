"""Charts of a page, drawn by uPlot in the browser.

uPlot (MIT licence) is a script of 120 kB, so its pages are much smaller than those with plotly
(docs/decisions/147).
"""

from __future__ import annotations

import base64
import html
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.extras import installed, missing
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.markup import as_json

RESPONSE, COMMAND = 0, 1
"""Colour numbers of a first line, and of a second line with its command."""
ALLOWED = -1
"""Number of the grey colour for tolerances."""
HEIGHT_PX = 190
MARK = "<figure class=chart>"
"""Start of each chart.  A page that contains this text needs :func:`scripts`."""
_LARGEST = 1e30
"""Values up to this magnitude are stored as float32, relative to the first of their line."""


@dataclass(frozen=True)
class Line:
    """One line of a chart: ``x`` (n,), which does not decrease, and ``y`` (n,).

    With ``stairs``, the line consists of steps. ``color`` is an index of the palette.
    """

    name: str
    x: Vector
    y: Vector
    color: int = RESPONSE
    stairs: bool = False
    dashed: bool = False
    points: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Bars:
    """Horizontal bars in one row of a timeline, from ``begin`` (n,) to ``end`` (n,).

    The bars are in the order of their times, and do not overlap.
    """

    row: int
    begin: Vector
    end: Vector
    color: int = RESPONSE

    def plain(self) -> dict[str, Any]:
        ends = np.column_stack((self.begin, self.end)).reshape(-1)
        return {"row": self.row, "color": self.color, "t": _times(ends)}


@dataclass(frozen=True)
class Chart:
    """A chart of lines over a common axis.

    Args:
        title: Title of the chart.
        lines: The lines.
        x_label: Text at the horizontal axis.
        y_label: Text at the vertical axis.
        rows: For a timeline, names of the values 0, 1, 2 … of the vertical axis.
        path: True if the lines connect points in their order, even if ``x`` decreases.
        log: True if both axes are logarithmic.
        marks: True to mark the events and faults of the page.
        timed: True if the horizontal axis is the time of the run. All charts over time on a page
            zoom together.
        span: Ends of the horizontal axis.
        shaded: Shaded parts of the horizontal axis, each (from, to, colour number).
        bars: For a timeline, bars in its rows.
        view: Ends of the horizontal axis before the first zoom. A double click shows ``span``.
        height: Height in pixels.
    """

    title: str
    lines: Sequence[Line]
    x_label: str = "time [s]"
    y_label: str = ""
    rows: Sequence[str] = ()
    path: bool = False
    log: bool = False
    marks: bool = True
    timed: bool = True
    span: tuple[float, float] | None = None
    shaded: Sequence[tuple[float, float, int]] = ()
    bars: Sequence[Bars] = ()
    view: tuple[float, float] | None = None
    height: int = HEIGHT_PX

    def html(self) -> str:
        """Return the chart as HTML. A script draws the chart when it becomes visible."""
        options = {
            "x": self.x_label, "y": self.y_label, "rows": list(self.rows), "path": self.path,
            "log": self.log, "marks": self.marks and self.timed, "timed": self.timed,
            "span": self.span, "shaded": list(self.shaded), "height": self.height,
            "bars": [one.plain() for one in self.bars], "view": self.view,
            "lines": [_plain(line, self.path) for line in self.lines],
        }  # fmt: skip
        said = html.escape(f"{self.title}: {', '.join(line.name for line in self.lines)}")
        return (
            f"{MARK}<figcaption>{html.escape(self.title)}</figcaption>"
            f'<div role=img aria-label="{said}" style="min-height:{self.height}px"></div>'
            f'<script type="application/json">{as_json(options)}</script></figure>'
        )


def grid(charts: Sequence[Chart]) -> str:
    """Return the charts in rows of the page's width."""
    return f"<div class=charts>{''.join(chart.html() for chart in charts)}</div>" if charts else ""


def page_marks(lines: Sequence[float], spans: Sequence[tuple[float, float]]) -> str:
    """Return an HTML element with events [s] and faults (from, to) [s] for all charts."""
    data = as_json({"lines": list(lines), "spans": [list(span) for span in spans]})
    return f'<script type="application/json" id="marks">{data}</script>'


@cache
def scripts() -> str:
    """Return uPlot, its style, and the script that draws the charts.

    Raises :class:`rtsim.core.errors.ScenarioError` if uPlot is not installed.
    """
    found = installed("uplot", "plots", "a page with charts")  # an import would need IPython
    static = Path(*(found.submodule_search_locations or ())[:1]) / "static"
    try:
        library = (static / "uPlot.iife.js").read_text(encoding="utf-8")
        style = (static / "uPlot.min.css").read_text(encoding="utf-8")
    except OSError as error:
        raise missing("uplot", "plots", "a page with charts", error) from None
    own = Path(__file__).with_name("charts.js").read_text(encoding="utf-8")
    return f"<style>{style}</style><script>{library}</script><script>{own}</script>"


def _plain(line: Line, path: bool) -> dict[str, Any]:
    x, y = (line.x, line.y) if path else _needed(line.x, line.y, line.points or line.wide)
    packed = _values(x) if path else _times(x)
    kind = {name: True for name in ("stairs", "dashed", "points", "wide") if getattr(line, name)}
    return {"name": line.name, "color": line.color, "t": packed, "v": _values(y), **kind}


def _needed(x: Vector, y: Vector, points: bool) -> tuple[Vector, Vector]:
    if points or len(y) < 3:
        return x, y
    same = np.r_[False, (y[1:-1] == y[:-2]) & (y[1:-1] == y[2:]), False]
    return x[~same], y[~same]


def _times(x: Vector) -> Mapping[str, Any]:
    ns = np.rint(x * NS_PER_S) if len(x) else x
    whole = len(x) > 1 and bool(np.isfinite(ns).all()) and bool(np.abs(ns).max() < 2**53)
    if whole and np.array_equal(ns / NS_PER_S, x):
        gaps = np.diff(ns.astype(np.int64))
        unit = int(np.gcd.reduce(gaps)) or 1
        if gaps.min() >= 0 and gaps.max() // unit < 1 << 16:
            counts = (gaps // unit).astype("<u2")
            return {"first": int(ns[0]), "unit": unit, "gaps": _base64(counts)}
    return {"all": _base64(x.astype("<f8"))}


def _values(y: Vector) -> Mapping[str, Any]:
    finite = y[np.isfinite(y)]
    if finite.size and np.abs(finite).max() < _LARGEST:
        first = float(finite[0])
        return {"first": first, "off": _base64((y - first).astype("<f4"))}
    return {"all": _base64(y.astype("<f8"))}


def _base64(values: NDArray[Any]) -> str:
    return base64.b64encode(values.tobytes()).decode()


# Reduction of long traces for display, in which every spike stays visible.

BUCKETS = 800
_KEPT = 5  # maximum rows kept of a bucket: first, smallest, largest, one NaN, last


def thin(t: Vector, y: Vector, buckets: int = BUCKETS) -> tuple[Vector, Vector]:
    """Return at most about ``5 * buckets`` of the points (t, y), both (n,), in order."""
    return Thinning(t, buckets).of(y)


class Thinning:
    """The points to draw in a chart; ``t`` (n,) contains the times of all points.

    The time is divided into equal buckets. Of each group of points, the chart keeps the first,
    last, smallest and largest point and one NaN.
    """

    def __init__(self, t: Vector, buckets: int = BUCKETS) -> None:
        self._t = t
        self.thins = len(t) > _KEPT * buckets
        """True if points are omitted.  Short traces are unchanged."""
        self._buckets: list[slice] = []
        if self.thins:
            edges = np.linspace(t.min(), t.max(), buckets + 1)
            self._buckets = _runs(_bucket_of(t, edges))

    def of(self, y: Vector) -> tuple[Vector, Vector]:
        """Return the times and values of the points of ``y`` (n,) to draw."""
        if not self.thins:
            return self._t, y
        keep = self.kept(y)
        return self._t[keep], y[keep]

    def kept(self, *columns: Vector) -> NDArray[np.intp]:
        """Return the indices of the rows to draw, for any of ``columns`` (n,)."""
        if not self.thins:
            return np.arange(len(self._t))
        keep: set[int] = set()
        for y in columns:
            for rows in self._buckets:
                keep |= _of_bucket(rows, y[rows])
        return np.array(sorted(keep), dtype=np.intp)


def _of_bucket(rows: slice, part: Vector) -> set[int]:
    finite = np.isfinite(part)
    local = {0, len(part) - 1}
    if finite.any():
        inside = np.flatnonzero(finite)
        local |= {int(inside[part[inside].argmin()]), int(inside[part[inside].argmax()])}
    if not finite.all():
        local.add(int(np.argmin(finite)))
    return {rows.start + i for i in local}


def _bucket_of(t: Vector, edges: Vector) -> NDArray[np.intp]:
    last = len(edges) - 2
    return np.clip(np.searchsorted(edges, t, side="right") - 1, 0, last)


def _runs(bucket: NDArray[np.intp]) -> list[slice]:
    cuts = np.flatnonzero(np.diff(bucket)) + 1
    ends = [0, *cuts.tolist(), len(bucket)]
    return [slice(a, b) for a, b in itertools.pairwise(ends)]
