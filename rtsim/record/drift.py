"""Compares a run with the same run on another machine: tolerances, first difference, its growth.

Another processor, compiler or library version may round differently in the last bits, and a closed
loop amplifies these differences.  Therefore values are compared with a tolerance that is
proportional to the range of each signal, instead of bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.record.comparison import Comparison
from rtsim.record.reading import Recording, TrackData
from rtsim.record.verdict import ComparedSignal, SignalResult, Tolerance, ranges

SHARE = 1e-9
"""Allowed difference of a run on another machine, as a share of the signal's range."""
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""Allowed difference in addition, as a share of the value; it covers the last bits of large
values."""
_LEAST = float(np.finfo(np.float64).smallest_subnormal)
_POINTS = 4


def by_range(baseline: Recording) -> dict[str, Tolerance]:
    """Return a tolerance for each signal of the deterministic tracks, by its full name."""
    out = {}
    for track in baseline.tracks.values():
        if not track.spec.deterministic:
            continue
        for signal in track.signals:
            values = _matrix(track, signal.name)
            finite = np.abs(values[np.isfinite(values)])
            size = float(finite.max(initial=0.0))
            moved = float(ranges(values).max(initial=0.0))
            allowed = max(SHARE * moved + _ROUNDING * size, _LEAST)
            out[f"{track.name}.{signal.name}"] = Tolerance(allowed)
    return out


@dataclass(frozen=True)
class Growth:
    """The signal that differs first, and how its largest difference grows with time."""

    name: str
    unit: str
    first: Tag
    range: float
    points: tuple[tuple[float, float], ...]
    """Pairs of time [s] and largest difference up to that time, in the signal's unit."""

    def __str__(self) -> str:
        unit = f" {self.unit}" if self.unit not in ("", "1") else ""
        grows = ", ".join(f"{gap:.3g} by {at:g} s" for at, gap in self.points)
        of = f" (its range is {self.range:.3g}{unit})"
        return f"{self.name} at {self.first}; largest so far{unit and ' in' + unit}: {grows}{of}"

    def to_json(self) -> dict[str, object]:
        return {
            "signal": self.name,
            "unit": self.unit,
            "first": [self.first.ns, self.first.step],
            "range": self.range,
            "growth": [list(point) for point in self.points],
        }


def growth(baseline: Recording, candidate: Recording, found: Comparison) -> Growth | None:
    """Return the growth of the signal that differs first; ``None`` if all values are equal."""
    differing = [(r.first, r) for r in found.results if r.first is not None]
    if not differing:
        return None
    first, result = min(differing, key=lambda one: one[0])
    return _of(baseline, candidate, result, first)


def _of(a: Recording, b: Recording, result: SignalResult, first: Tag) -> Growth | None:
    name, _, column = result.name.rpartition(".")
    mine, theirs = a.tracks[name], b.tracks[name]
    if column not in mine.signals:
        return Growth(result.name, "", first, 0.0, ())
    n = min(len(mine), len(theirs))
    x, y = _matrix(mine, column)[:n], _matrix(theirs, column)[:n]
    pair = ComparedSignal(mine, np.arange(n), result.name, mine.signals[column], result.tolerance)
    gaps = np.maximum.accumulate(pair.measure(x, y).gap.max(axis=1))
    ns = mine.ns[:n]
    begin = int(np.searchsorted(ns, first.ns))
    rows = np.unique(np.linspace(begin, n - 1, _POINTS + 1).round().astype(np.intp))
    points = tuple((int(ns[row]) / NS_PER_S, float(gaps[row])) for row in rows)
    moved = float(ranges(_matrix(mine, column)).max(initial=0.0))
    return Growth(result.name, result.unit, first, moved, points)


def _matrix(track: TrackData, signal: str) -> Vector:
    """Return a signal's values as a matrix (n, size)."""
    return track.column(signal).reshape(len(track), track.signals[signal].size)
