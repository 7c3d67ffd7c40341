"""Is this run the same as that one?  Within tolerances, signal by signal, or bit for bit.

:func:`compare` holds a candidate against a baseline.  A value passes when

    |candidate - baseline| <= max(absolute, relative * |baseline|)

and, where both tolerances are 0, when it is the same double bit for bit.  NaN equals NaN and an
infinity equals itself; against anything else they fail at every tolerance.  Signals of kind
``angle`` differ the short way round, in their unit; quaternions up to their common sign.

The candidate has to reach the baseline's end; what it has after that does not count.  Up to there
both must have the same rows: the same tags (time, microstep, side) in the same order.  With
``tags="common"``, for runs with different steps, rows are paired by time alone, the last one at
each time that both have; these times have to span nine tenths of the baseline.  Nothing is
interpolated.  Signals and tracks that only the candidate has are listed and do not fail.  Tracks
of wall-clock figures are left out.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtsim.errors import ScenarioError
from rtsim.record.exact import Difference, compare_exact
from rtsim.record.reading import Recording, TrackData
from rtsim.record.verdict import EXACT, Index, Pair, SignalResult, Tolerance, Values
from rtsim.signals import Signal
from rtsim.tag import Tag

_KEYS = ("step", "side")
_SPAN = 0.9

Pairing: TypeAlias = Literal["exact", "common"]

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


@dataclass(frozen=True)
class Comparison:
    """The verdict on each signal of the baseline."""

    results: list[SignalResult]
    extra: list[str] = field(default_factory=list)
    """What only the candidate has."""

    @property
    def ok(self) -> bool:
        return bool(self.results) and all(r.ok for r in self.results)

    @property
    def failures(self) -> list[SignalResult]:
        return [r for r in self.results if not r.ok]

    def to_json(self) -> dict[str, object]:
        """Plain data; an infinite or undefined difference is null."""
        signals = [r.to_json() for r in self.results]
        return {"ok": self.ok, "signals": signals, "extra": self.extra}

    def worst_first(self) -> list[SignalResult]:
        """What fails before what agrees; among these the largest relative difference first."""
        return sorted(self.results, key=lambda r: (r.ok, -r.max_rel, -r.max_abs))


def compare(
    baseline: Recording,
    candidate: Recording,
    tolerances: Mapping[str, Tolerance | tuple[float, float]] | None = None,
    *,
    tags: Pairing = "exact",
) -> Comparison:
    """Hold ``candidate`` against ``baseline``; the module says how.

    ``tolerances`` maps patterns over ``track.signal`` (``"f16.*"``, ``"*.altitude"``) to
    ``(absolute, relative)``; where several match, the last one counts; without any, (0, 0).
    ``"*"`` alone means every signal, not the stamps and counts in integers: those stay exact.
    Raises :class:`ScenarioError` for a tolerance that is negative or no number, and for a pattern
    that fits no signal.
    """
    rules = _checked(tolerances or {}, baseline)
    results: list[SignalResult] = []
    extra: list[str] = []
    end, other_end = _end(baseline), _end(candidate)
    if other_end < end:
        reason = f"the candidate ends at {Tag(other_end)}, it has to reach {Tag(end)}"
        results.append(SignalResult("overlap", "s", reason=reason))
    for name in sorted(baseline.tracks):
        track = baseline.tracks[name]
        if not track.spec.deterministic:
            continue
        other = candidate.tracks.get(name)
        if other is None:
            reason = "the track is missing in the candidate"
            results += [SignalResult(f"{name}.{s}", reason=reason) for s in _columns(track)]
            continue
        results += _compare_track(track, other, end, rules, tags)
        extra += [f"{name}.{s}" for s in _columns(other) if s not in _columns(track)]
    extra += sorted(name for name in candidate.tracks.keys() - baseline.tracks.keys())
    return Comparison(results, extra)


def _end(recording: Recording) -> int:
    """The last time of a deterministic track, in ns."""
    tracks = [t for t in recording.tracks.values() if t.spec.deterministic and len(t)]
    return max((int(t.ns.max()) for t in tracks), default=0)


def _checked(
    tolerances: Mapping[str, Tolerance | tuple[float, float]], baseline: Recording
) -> list[tuple[str, Tolerance]]:
    known = [f"{t.name}.{s}" for t in baseline.tracks.values() for s in _columns(t)]
    for pattern, values in tolerances.items():
        if any(not v >= 0 for v in values):
            raise ScenarioError(
                f"the tolerance {tuple(values)} of {pattern!r} is not (absolute, relative) >= 0"
            )
        if not fnmatch.filter(known, pattern):
            raise ScenarioError(
                f"no signal fits {pattern!r}; signals look like {', '.join(known[:3])}"
            )
    return [(pattern, Tolerance(*values)) for pattern, values in tolerances.items()]


def _columns(track: TrackData) -> dict[str, Signal | str]:
    """What is compared, by its name: signals, and integers that are not part of the tag.

    An integer that has the name of a signal is told apart by ``(stamp)``.
    """
    out: dict[str, Signal | str] = {s.name: s for s in track.signals}
    for name in track.integers:
        if name not in _KEYS:
            out[f"{name} (stamp)" if name in track.signals else name] = name
    return out


def _compare_track(
    a: TrackData, b: TrackData, end: int, rules: list[tuple[str, Tolerance]], tags: Pairing
) -> list[SignalResult]:
    problem, left, right = _paired(a, b, end, tags)
    theirs = _columns(b)
    out = []
    if problem and not _columns(a):
        out.append(SignalResult(a.name, reason=problem))
    for name, column in _columns(a).items():
        full = f"{a.name}.{name}"
        mine = [(p, t) for p, t in rules if p != "*" or isinstance(column, Signal)]
        tolerance = next((t for p, t in reversed(mine) if fnmatch.fnmatchcase(full, p)), EXACT)
        signal = column if isinstance(column, Signal) else None
        reason = problem or _different_meaning(column, theirs.get(name))
        if reason:
            unit = signal.unit if signal else ""
            out.append(SignalResult(full, unit, tolerance, reason=reason))
            continue
        pair = Pair(a, left, full, signal, tolerance)
        out.append(pair.judge(_values(a, column)[left], _values(b, column)[right]))
    return out


def _values(track: TrackData, column: Signal | str) -> Values:
    if isinstance(column, Signal):
        found = track.column(column.name)
        return found if column.shape else found[:, None]
    return track.integer(column)[:, None]


def _different_meaning(mine: Signal | str, theirs: Signal | str | None) -> str:
    if theirs is None or isinstance(mine, str) != isinstance(theirs, str):
        return "missing in the candidate"
    for what in ("unit", "shape", "kind"):
        one, other = getattr(mine, what, None), getattr(theirs, what, None)
        if one != other:
            return f"its {what} is {one} in the baseline, {other} in the candidate"
    return ""


def _paired(a: TrackData, b: TrackData, end: int, tags: Pairing) -> tuple[str, Index, Index]:
    """Rows of ``a`` and of ``b`` up to ``end`` that belong together, or why they do not."""
    none = np.empty(0, np.intp)
    if tags == "common":
        left, right = _last_rows(a.ns), _last_rows(b.ns)
        times = a.ns[left]
        common, i, j = np.intersect1d(times, b.ns[right], assume_unique=True, return_indices=True)
        needed = int(_SPAN * np.ptp(times)) if len(times) else 0
        if len(common) < min(2, len(times)) or (len(times) and np.ptp(common) < needed):
            return f"{len(common)} times in common, over less than {Tag(needed)}", none, none
        return "", left[i], right[j]
    inside = np.flatnonzero(b.ns <= end)
    n = min(len(a), len(inside))
    differ = _unlike(a, b, inside, n)
    if differ < n or len(a) != len(inside):
        one, other = _key_text(a, range(len(a)), differ), _key_text(b, inside, differ)
        return f"other tags: row {differ} is {one} in the baseline, {other} here", none, none
    return "", np.arange(len(a)), inside


def _unlike(a: TrackData, b: TrackData, inside: Index, n: int) -> int:
    """The first of ``n`` rows of ``a`` that has another tag than that of ``b``; ``n`` if none has.

    Key by key: all keys of a long track at once would be as large as many of its signals.
    """
    unlike = a.ns[:n] != b.ns[inside[:n]]
    for key in _KEYS:
        mine, theirs = _key(a, key), _key(b, key)
        unlike |= mine[:n] != theirs[inside[:n]]
    return int(unlike.argmax()) if unlike.any() else n


def _key(track: TrackData, name: str) -> NDArray[np.int64]:
    return track.integer(name) if name in track.integers else np.zeros(len(track), np.int64)


def _key_text(track: TrackData, rows: Sequence[int] | Index, at: int) -> str:
    if at >= len(rows):
        return "missing"
    row = int(rows[at])
    words = dict(zip(track.integers, track.words[row, 1:], strict=False))
    side = " (x+)" if int(words.get("side", 0)) else ""
    return f"{track.tag(row)}{side}"


def _last_rows(ns: NDArray[np.int64]) -> Index:
    """The last row at each time, in order of time."""
    _, from_end = np.unique(ns[::-1], return_index=True)
    return len(ns) - 1 - from_end
