"""Charts of the views in a recording, and of one signal in several runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Signal, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.reading import Recording, TrackData
from rtsim.record.reports.charts import ALLOWED, BUCKETS, Chart, Line, Thinning, thin
from rtsim.record.verdict import Tolerance
from rtsim.record.views import Place, View, default_views, places, views_of

MOST_OPEN = 12
"""Number of default views that are visible at first.  The others are in a collapsed section."""
MOST_DRAWN = 400
"""Maximum number of views drawn on a page.  The page states the number of the others."""
_MOST_POINTS = 300_000
_FEWEST_BUCKETS = 40
_PER_BUCKET = 3
"""Average number of rows kept from a bucket."""


class Shown(NamedTuple):
    """Views that are visible on a page, collapsed or omitted."""

    first: tuple[View, ...]
    rest: tuple[View, ...]
    left_out: int


def shown_views(recording: Recording) -> Shown:
    """Return the declared views, or the most useful ones, and all other views."""
    data = recording.viewed()
    first = views_of(recording)
    seen = {name for view in first for name in view.signals}
    rest = [v for v in default_views(data) if not seen.issuperset(v.signals)]
    if not data.declared:
        first, rest = first[:MOST_OPEN], list(first[MOST_OPEN:])
    kept = max(0, MOST_DRAWN - len(first))
    return Shown(first, tuple(rest[:kept]), len(rest[kept:]))


class ViewCharts:
    """Charts of the views in one recording."""

    def __init__(self, recording: Recording, columns: int) -> None:
        self._recording = recording
        self._places = places(recording.header, recording.tracks)
        self._points: dict[str, _Points] = {}
        self._end_ns = recording.end_ns  # end_ns reads whole columns of a stored recording
        most = _MOST_POINTS // (_PER_BUCKET * max(columns, 1))
        self.buckets = int(np.clip(most, _FEWEST_BUCKETS, BUCKETS // 2))
        """Number of time intervals from which extremes are kept."""
        self.thins = False
        """True if a chart omits points."""

    def chart(self, view: View) -> Chart | None:
        there = {name: self._places[name] for name in view.signals if self.place(name)}
        if not there:
            return None
        if view.over is not None:
            return self._over(view, there, self._places.get(view.over))
        lines: list[Line] = []
        for name, place in there.items():
            lines += self._lines(name, place, first=len(lines))
        lines += self._band(view, lines)
        lines += self._published(view, first=len(there))
        span = (self.start_s, self._end_ns / NS_PER_S)
        return Chart(
            view.title, lines, y_label=self.unit(view), marks=view.marks,
            span=span if span[0] < span[1] else None,
        )  # fmt: skip

    def missing(self, views: Iterable[View]) -> list[str]:
        return [n for view in views for n in view.names() if n not in self._places]

    def unit(self, view: View) -> str:
        """Return the text of the vertical axis, or "" if the title contains the unit."""
        if view.unit is not None:
            return view.unit
        found = [self._places[n] for n in view.signals if n in self._places]
        units = [self._unit(place) for place in found]
        units = [u for u in dict.fromkeys(units) if u not in ("", "1")]
        return "" if f"[{', '.join(units)}]" in view.title else ", ".join(units)

    @cached_property
    def start_s(self) -> float:
        """Time of the first row [s]; above 0 in a continued run."""
        firsts = [int(t.ns[0]) for t in self._recording.tracks.values() if len(t)]
        return min(firsts, default=0) / NS_PER_S

    def line(self, name: str, label: str, color: int) -> list[Line]:
        """Return the lines of a signal; ``[]`` without rows."""
        if self.place(name) is None:
            return []
        found = self._lines(name, self._places[name], first=color)
        return [replace(one, name=label) for one in found]

    def place(self, name: str) -> tuple[TrackData, str] | None:
        """Return the track and the column of a signal, or ``None`` without rows."""
        found = self._places.get(name)
        if found is None or not len(self._recording.tracks[found.track]):
            return None
        return self._recording.tracks[found.track], found.column

    def _unit(self, place: Place) -> str:
        return self._recording.tracks[place.track].spec.units[self._columns(place)[0]]

    def _columns(self, place: Place) -> tuple[str, ...]:
        signals = self._recording.tracks[place.track].signals
        return signals[place.column].columns if place.column in signals else (place.column,)

    def _of(self, track: str) -> _Points:
        if track not in self._points:
            recorded = self._recording
            self._points[track] = _Points(recorded.tracks[track], self._end_ns, self.buckets)
        return self._points[track]

    def _lines(self, name: str, place: Place, first: int) -> list[Line]:
        points = self._of(place.track)
        self.thins |= points.thins
        columns = self._columns(place)
        owner = name.rpartition(".")[0]
        return [
            Line(
                name if len(columns) == 1 else f"{owner}.{column}", *points.of(column), first + k,
                stairs=points.stairs, dashed=points.stairs and first > 0,
            )
            for k, column in enumerate(columns)
        ]  # fmt: skip

    def _band(self, view: View, lines: Sequence[Line]) -> list[Line]:
        if view.band is None or not lines:
            return []
        last = lines[-1]
        middle = last.y if len(lines) > 1 else np.zeros(len(last.y))
        grey = replace(last, color=ALLOWED, dashed=True)
        return [
            replace(grey, name=f"{sign}{view.band:g}", y=middle + change)
            for sign, change in (("+", view.band), ("-", -view.band))
        ]

    def _published(self, view: View, first: int) -> list[Line]:
        lines, end = [], self._end_ns / NS_PER_S
        for k, one in enumerate(view.published):
            times, values = np.array(one.times), np.array(one.values)
            known = (times >= self.start_s) & (times <= end)
            if known.any():
                found = times[known], values[known]
                lines.append(Line(one.name, *found, first + k, points=True))
        return lines

    def _over(self, view: View, there: Mapping[str, Place], over: Place | None) -> Chart | None:
        if over is None or not len(self._recording.tracks[over.track]):
            return None
        lines: list[Line] = []
        across = self._of(over.track)
        for name, place in there.items():
            points = self._of(place.track)
            for column in self._columns(place):
                y = points.all(column)
                x = across.held(self._columns(over)[0], points.ns)
                keep = Thinning(points.ns / NS_PER_S, self.buckets).kept(x, y)
                label = f"{name.rpartition('.')[0]}.{column}"
                lines.append(Line(label, x[keep], y[keep], len(lines)))
        return Chart(
            view.title, lines, x_label=view.over or "", y_label=self.unit(view), path=True,
            marks=False, timed=False, height=320,
        )  # fmt: skip


class _Points:
    def __init__(self, track: TrackData, end_ns: int, buckets: int) -> None:
        self._track, self._end_ns = track, end_ns
        self.stairs = "side" not in track.integers
        self._order: NDArray[np.intp] | slice = slice(None)
        self.ns = np.asarray(track.ns)
        if "arrival" in track.integers:  # a message takes effect when it arrives
            arrival = track.integer("arrival")
            order = np.argsort(arrival, kind="stable")
            self._order = order[arrival[order] >= 0]
            self.ns = arrival[self._order]
        self._thinning = Thinning(self.ns / NS_PER_S, buckets)
        self.thins = self._thinning.thins

    def all(self, column: str) -> Vector:
        found: Vector = self._track.column(column)[self._order]
        return found

    def of(self, column: str) -> tuple[Vector, Vector]:
        x, y = self._thinning.of(self.all(column))
        if self.stairs and len(x) and self.ns[-1] < self._end_ns:
            return np.r_[x, self._end_ns / NS_PER_S], np.r_[y, y[-1]]
        return x, y

    def held(self, column: str, ns: NDArray[np.int64]) -> Vector:
        if ns is self.ns:
            return self.all(column)
        at = np.searchsorted(self.ns, ns, side="right") - 1
        return np.where(at >= 0, self.all(column)[np.maximum(at, 0)], np.nan)


# One signal in several runs, and the differences from the first run.

_DIFFERENCE_PX = 140


class Values(NamedTuple):
    """One column of a run: times (n,) in ns and values (n,)."""

    run: str
    ns: NDArray[np.int64]
    values: Vector

    @property
    def points(self) -> tuple[Vector, Vector]:
        return self.ns / NS_PER_S, self.values


def overlaid(
    runs: Sequence[tuple[str, Recording]],
    track: str,
    column: str,
    tolerance: Tolerance | None = None,
    buckets: int = BUCKETS // 2,
) -> list[Chart]:
    """Return a chart of a column with one line for each run.

    A second chart shows the differences from the first run, and the allowed difference.
    """
    found = [
        (color, _values(name, run.tracks[track], column), run.end_ns)
        for color, (name, run) in enumerate(runs)
        if track in run.tracks and column in run.tracks[track].signals.columns
    ]
    first = next(run.tracks[track] for _, run in runs if track in run.tracks)
    signal = next(s for s in first.signals if column in s.columns)
    stairs = "side" not in first.integers
    lines = [
        Line(one.run, *thin(*(_to_end(one, end) if stairs else one.points), buckets), color, stairs)
        for color, one, end in found
    ]
    unit = "" if signal.unit in ("", "1") else f" [{signal.unit}]"
    title = f"{track.removeprefix('messages/')}.{column}{unit}"
    end = max((run.end_ns for _, run in runs), default=0) / NS_PER_S
    span = (0.0, end) if end > 0 else None
    gaps = [
        Line(one.run, *thin(*_difference(found[0][1], one, signal), buckets), color)
        for color, one, _ in found[1:]
    ]
    if gaps and tolerance is not None and tolerance != Tolerance():
        gaps += _allowed(found[0][1], tolerance, buckets)
    charts = [Chart(title, lines, span=span, marks=False)]
    if gaps:
        name = difference_title(title, found[0][1].run, gaps)
        charts.append(Chart(name, gaps, span=span, marks=False, height=_DIFFERENCE_PX))
    return charts


def difference_title(title: str, first: str, gaps: Sequence[Line]) -> str:
    """Return the title of a chart of differences from the run ``first``.

    If the chart is empty, the title states the reason.
    """
    if not any(len(gap.x) for gap in gaps if gap.color != ALLOWED):
        return f"{title}: no difference from {first}, because the runs have no time in common"
    return f"{title}: difference from {first}"


def _values(name: str, track: TrackData, column: str) -> Values:
    ns = track.integer("arrival") if "arrival" in track.integers else np.asarray(track.ns)
    values = track.column(column)
    order = np.argsort(ns, kind="stable")
    order = order[ns[order] >= 0]
    ns, values = ns[order], values[order]
    last = np.r_[np.diff(ns) > 0, True][: len(ns)]
    return Values(name, ns[last], values[last])


def _to_end(one: Values, end_ns: int) -> tuple[Vector, Vector]:
    t, y = one.points
    if not len(t) or one.ns[-1] >= end_ns:
        return t, y
    return np.r_[t, end_ns / NS_PER_S], np.r_[y, y[-1]]


def _difference(first: Values, other: Values, signal: Signal) -> tuple[Vector, Vector]:
    ns, ours, theirs = np.intersect1d(first.ns, other.ns, assume_unique=True, return_indices=True)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = other.values[theirs] - first.values[ours]
        turn = {"deg": 360.0, "rad": 2.0 * np.pi}.get(signal.unit)
        if signal.kind == "angle" and turn is not None:
            gap = np.mod(gap + 0.5 * turn, turn) - 0.5 * turn
    return ns / NS_PER_S, gap


def _allowed(first: Values, tolerance: Tolerance, buckets: int) -> list[Line]:
    t, y = thin(first.ns / NS_PER_S, first.values, buckets)
    most = np.maximum(tolerance.absolute, tolerance.relative * np.abs(y))
    return [
        Line(name, t, limit, ALLOWED, dashed=True)
        for name, limit in (("+allowed", most), ("-allowed", -most))
    ]
