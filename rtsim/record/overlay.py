"""Charts of one signal of several runs over each other, and of their differences from the first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Signal, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.charts import ALLOWED, Chart, Line
from rtsim.record.reading import Recording, TrackData
from rtsim.record.thinning import BUCKETS, thin
from rtsim.record.verdict import Tolerance

_DIFFERENCE_PX = 140


class Values(NamedTuple):
    """One column of one run: its times in ns (n,), which increase, and its values (n,)."""

    run: str
    ns: NDArray[np.int64]
    values: Vector

    @property
    def points(self) -> tuple[Vector, Vector]:
        """Times in s, and values."""
        return self.ns / NS_PER_S, self.values


def overlaid(
    runs: Sequence[tuple[str, Recording]],
    track: str,
    column: str,
    tolerance: Tolerance | None = None,
    buckets: int = BUCKETS // 2,
) -> list[Chart]:
    """Return a chart of one column of all ``runs`` (name and recording) that have it.

    A second chart has the differences of the later runs from the first one, at the times that both
    have, with the allowed difference as grey lines.
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
    """Return the title of a chart of differences from the run ``first``, or why it is empty."""
    if not any(len(gap.x) for gap in gaps if gap.color != ALLOWED):
        return f"{title}: no difference from {first}, because the runs have no time in common"
    return f"{title}: difference from {first}"


def _values(name: str, track: TrackData, column: str) -> Values:
    """Return the last value of ``column`` at each time; of a message, from its arrival."""
    ns = track.integer("arrival") if "arrival" in track.integers else np.asarray(track.ns)
    values = track.column(column)
    order = np.argsort(ns, kind="stable")
    order = order[ns[order] >= 0]
    ns, values = ns[order], values[order]
    last = np.r_[np.diff(ns) > 0, True][: len(ns)]
    return Values(name, ns[last], values[last])


def _to_end(one: Values, end_ns: int) -> tuple[Vector, Vector]:
    """Return times (s) and values; the last message holds until its own run ends at ``end_ns``."""
    t, y = one.points
    if not len(t) or one.ns[-1] >= end_ns:
        return t, y
    return np.r_[t, end_ns / NS_PER_S], np.r_[y, y[-1]]


def _difference(first: Values, other: Values, signal: Signal) -> tuple[Vector, Vector]:
    """Return times (s) and ``other - first`` at the times of both; angles by the shorter way."""
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
