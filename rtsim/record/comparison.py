"""Compare two recordings signal by signal, with tolerances or bit for bit.

:func:`compare` compares a candidate with a baseline. A value passes if

    |candidate - baseline| <= max(absolute, relative * |baseline|)

With both tolerances 0, two numbers must be equal bit for bit. NaN equals NaN, and an infinity
equals itself. A NaN or an infinity differs from every other value, regardless of the tolerance. The
difference of two angles (kind ``angle``) is the shorter arc. A quaternion equals its negative.

The candidate must reach the end time of the baseline. Later rows of the candidate are ignored. Up
to that time, both recordings must have rows with the same tags. A tag consists of time, microstep
and side (before or after the changes). Use ``tags="common"`` for runs with different steps. With
``tags="common"``, the comparison uses the last row at each common time, without interpolation. The
common times must span nine tenths of the baseline. Additional signals of the candidate are listed
and do not affect the result. Tracks with wall-clock times are ignored.

If the baseline is incomplete or the candidate was stopped, only their common rows are compared. If
these common rows agree, the outcome is undecided. Without common rows, the outcome is also
undecided.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Signal, Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.record import markup
from rtsim.record.events import RunEnding
from rtsim.record.reading import Recording, TrackData
from rtsim.record.replay_comparison import Difference, compare_exact
from rtsim.record.verdict import (
    CELLS,
    EXACT,
    KEYS,
    ComparedSignal,
    ComparisonWindow,
    Paired,
    Pairing,
    SignalResult,
    Tolerance,
    Values,
    paired,
    ranges,
    tolerance_of,
)

__all__ = [
    "EXACT",
    "Comparison",
    "Difference",
    "Pairing",
    "SignalResult",
    "Tolerance",
    "compare",
    "compare_exact",
]


class ComparedRows(NamedTuple):
    """Number of compared rows, and their time span in ns."""

    rows: int = 0
    there: int = 0
    """Number of rows of the baseline in the compared tracks."""
    first_ns: int = 0
    last_ns: int = 0

    def __str__(self) -> str:
        span = f"{self.first_ns / NS_PER_S:g} to {self.last_ns / NS_PER_S:g} s"
        return f"{self.rows} of {self.there} rows, {span}"


@dataclass(frozen=True)
class Comparison(Judged):
    """The result of a comparison for each signal of the baseline."""

    results: list[SignalResult]
    extra: list[str] = field(default_factory=list)
    """Signals and tracks that occur only in the candidate."""
    undecided: list[str] = field(default_factory=list)
    """Reasons why the outcome is undecided although no signal differs."""
    endings: tuple[RunEnding, ...] = ()
    """How the baseline and the candidate ended."""
    covered: ComparedRows = ComparedRows()

    def _judge(self) -> Outcome:
        if self.failures:
            return Outcome.FAILED
        if self.undecided or all(r.empty for r in self.results):
            return Outcome.UNDECIDED
        return Outcome.PASSED

    @property
    def failures(self) -> list[SignalResult]:
        return [r for r in self.results if r.reason]

    @property
    def agreed(self) -> list[SignalResult]:
        return [r for r in self.results if r.rows and not r.reason]

    @property
    def empty(self) -> list[SignalResult]:
        return [r for r in self.results if r.empty]

    @property
    def why(self) -> str:
        """Reason for a failed or undecided outcome; empty after a passed comparison."""
        if self.failures:
            worst = self.worst_first()[0]
            many = f"{len(self.failures)} of {len(self.results)} signals fail"
            return f"{many}; {worst.name}: {worst.reason}"
        if self.undecided:
            return "; ".join(self.undecided)
        return "there was no value to compare" if self._judge() is Outcome.UNDECIDED else ""

    @property
    def in_words(self) -> str:
        return f"{self._judge().name.lower()}: {self.why or self.covered}"

    def _repr_html_(self) -> str:
        facts = {"outcome": self._judge().name.lower(), "why": self.why, "compared": self.covered}
        rows = [one.cells() for one in self.worst_first() if not one.stamp]
        return markup.shown("Comparison", facts, CELLS, rows)

    def to_json(self) -> dict[str, object]:
        """Return plain data. Infinite and undefined differences become ``None``."""
        signals = [r.to_json() for r in self.results]
        return {
            "ok": self._judge() is Outcome.PASSED,
            "outcome": self._judge().name.lower(),
            "undecided": self.undecided,
            "rows": self.covered.rows,
            "rows_there": self.covered.there,
            "from_s": self.covered.first_ns / NS_PER_S,
            "to_s": self.covered.last_ns / NS_PER_S,
            "ended": [ending.to_json() for ending in self.endings],
            "signals": signals,
            "extra": self.extra,
        }

    def worst_first(self) -> list[SignalResult]:
        """Return the results: failures first, then by decreasing relative difference."""
        return sorted(self.results, key=lambda r: (not r.reason, -r.max_rel, -r.max_abs))


def compare(
    baseline: Recording,
    candidate: Recording,
    tolerances: Mapping[str, Tolerance | tuple[float, float]] | None = None,
    *,
    tags: Pairing = "exact",
    until_ns: int | None = None,
) -> Comparison:
    """Compare the recording ``candidate`` with ``baseline`` by the rules of this module.

    Args:
        baseline: The recording with the expected values.
        candidate: The recording to check.
        tolerances: Maps patterns of ``track.signal`` (``"f16.*"``, ``"*.altitude"``) to
            ``(absolute, relative)``. If several patterns match a signal, the last one applies.
            Without a match, both tolerances are 0. The pattern ``"*"`` matches all signals, but no
            integers such as message times.
        tags: ``"exact"`` compares rows with equal tags, and ``"common"`` rows with equal times.
        until_ns: End (ns) of the compared time, which both runs must reach. The default is the end
            of the baseline.

    Raises:
        ScenarioError: A tolerance is negative or not finite, or a pattern matches no signal.

    Example:
        verdict = compare(baseline, candidate, {"f16.*": (1e-6, 1e-9)})
        verdict.assert_ok()
    """
    rules = _checked(tolerances or {}, baseline)
    endings = tuple(RunEnding.of(one).up_to(until_ns) for one in (baseline, candidate))
    if until_ns is not None:
        baseline, candidate = baseline.up_to(until_ns), candidate.up_to(until_ns)
    ours, theirs = endings
    end, other_end = last_time(baseline), last_time(candidate)
    window = ComparisonWindow(min(end, other_end) if theirs.stopped else end, ours, theirs)
    results: list[SignalResult] = []
    pairs: list[Paired] = []
    extra: list[str] = []
    for name in sorted(baseline.tracks):
        track = baseline.tracks[name]
        if not track.spec.deterministic:
            continue
        other = candidate.tracks.get(name)
        if other is None:
            reason = "the candidate has no such track"
            results += [
                SignalResult(f"{name}.{s}", reason=reason, stamp=isinstance(column, str))
                for s, column in _columns(track).items()
            ]
            continue
        pair = paired(track, other, window, tags)
        pairs.append(pair)
        results += _compare_track(track, other, pair, rules)
        extra += [f"{name}.{s}" for s in _columns(other) if s not in _columns(track)]
    extra += sorted(name for name in candidate.tracks.keys() - baseline.tracks.keys())
    enough = ours.complete if until_ns is None else ours.reached_ns >= until_ns
    undecided = []
    if not enough or any(pair.lacking[0] for pair in pairs):
        undecided.append(f"the baseline {ours.in_one_line}; later values are not known")
    if other_end < end or any(pair.lacking[1] for pair in pairs):
        if theirs.stopped:
            undecided.append(f"the candidate {theirs.in_one_line}, but it must reach {Tag(end)}")
        else:
            results.insert(0, SignalResult("overlap", "s", reason=_short(other_end, end, theirs)))
    if all(result.empty for result in results):
        undecided.append("there was no row to compare")
    return Comparison(results, extra, undecided, endings, _covered(pairs))


def _short(other_end: int, end: int, theirs: RunEnding) -> str:
    if theirs.complete:
        return f"the candidate ends at {Tag(other_end)}, but it must reach {Tag(end)}"
    return f"the candidate {theirs.in_one_line}, but it must reach {Tag(end)}"


def _covered(pairs: Iterable[Paired]) -> ComparedRows:
    all_pairs = list(pairs)
    with_rows = [p for p in all_pairs if len(p.left)]
    return ComparedRows(
        sum(len(p.left) for p in with_rows),
        sum(len(p.track) for p in all_pairs),
        min((int(p.track.ns[p.left].min()) for p in with_rows), default=0),
        max((int(p.track.ns[p.left].max()) for p in with_rows), default=0),
    )


def last_time(recording: Recording) -> int:
    """Return the latest time (ns) of all deterministic tracks."""
    tracks = [t for t in recording.tracks.values() if t.spec.deterministic and len(t)]
    return max((int(t.ns.max()) for t in tracks), default=0)


def _checked(
    tolerances: Mapping[str, Tolerance | tuple[float, float]], baseline: Recording
) -> list[tuple[str, Tolerance]]:
    known = [f"{t.name}.{s}" for t in baseline.tracks.values() for s in _columns(t)]
    rules = [(pattern, tolerance_of(pattern, values)) for pattern, values in tolerances.items()]
    for pattern, _ in rules:
        if not fnmatch.filter(known, pattern):
            raise ScenarioError(
                f"no signal matches {pattern!r}; names of signals are, for example, "
                f"{', '.join(known[:3])}"
            )
    return rules


def _columns(track: TrackData) -> dict[str, Signal | str]:
    out: dict[str, Signal | str] = {s.name: s for s in track.signals}
    for name in track.integers:
        if name not in KEYS:
            out[f"{name} (stamp)" if name in track.signals else name] = name
    return out


def _compare_track(
    a: TrackData, b: TrackData, rows: Paired, rules: list[tuple[str, Tolerance]]
) -> list[SignalResult]:
    theirs = _columns(b)
    out = []
    if rows.problem and not _columns(a):
        out.append(SignalResult(a.name, reason=rows.problem))
    for name, column in _columns(a).items():
        full = f"{a.name}.{name}"
        mine = [(p, t) for p, t in rules if p != "*" or isinstance(column, Signal)]
        tolerance = next((t for p, t in reversed(mine) if fnmatch.fnmatchcase(full, p)), EXACT)
        signal = column if isinstance(column, Signal) else None
        reason = rows.problem or _different_meaning(column, theirs.get(name))
        if reason:
            unit = signal.unit if signal else ""
            stamp = signal is None
            out.append(
                SignalResult(full, unit, tolerance, there=len(a), reason=reason, stamp=stamp)
            )
            continue
        pair = ComparedSignal(a, rows.left, full, signal, tolerance)
        out.append(pair.judge(_values(a, column)[rows.left], _values(b, column)[rows.right]))
    return out


def _values(track: TrackData, column: Signal | str) -> Values:
    if isinstance(column, Signal):
        found = track.column(column.name)
        return found if column.shape else found[:, None]
    return track.integer(column)[:, None]


def _different_meaning(mine: Signal | str, theirs: Signal | str | None) -> str:
    if theirs is None or isinstance(mine, str) != isinstance(theirs, str):
        return "the candidate has no such signal"
    for what in ("unit", "shape", "kind"):
        one, other = getattr(mine, what, None), getattr(theirs, what, None)
        if one != other:
            return f"its {what} is {one} in the baseline, {other} in the candidate"
    return ""


# Comparison of the same run on two machines.
#
# Another processor, compiler or library version may round differently in the last bits, and a
# closed loop amplifies these differences.  The tolerance is therefore proportional to the range of
# each signal.

SHARE = 1e-9
"""Allowed difference between two machines, as a fraction of the signal's range."""
_ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""Additional allowed difference, as a fraction of the value, for rounding of large values."""
_LEAST = float(np.finfo(np.float64).smallest_subnormal)
_POINTS = 4


def by_range(baseline: Recording) -> dict[str, Tolerance]:
    """Return a tolerance for each signal of the deterministic tracks, by full name.

    The tolerances are suitable for runs of one scenario on two machines.
    """
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
    """The signal that differs first, and its largest difference over time."""

    name: str
    unit: str
    first: Tag
    range: float
    points: tuple[tuple[float, float], ...]
    """Pairs of a time [s] and the largest difference up to this time, in the signal's unit."""

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
    """Return how the difference grows in the signal that differs first.

    The result is ``None`` if all values are equal.
    """
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
    return track.column(signal).reshape(len(track), track.signals[signal].size)
