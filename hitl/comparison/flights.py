"""Compares two runs of one scenario: pairs their rows, then compares the values.

Two rows form a pair if they have the same tag; for messages, if their requests have the same tag.
A plant's x- is recorded at every committed tag.  Its x+ is recorded only if a discrete change
altered the state, which can depend on a single bit.  Therefore x+ is compared only at tags at which
both runs recorded it.  Any other row that only one run has is a failure of its track.

A run that ends early is compared up to its end.  A run with a Late answer is compared up to the
request of that answer, because after it the inputs of both runs differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.sides import C_AGAINST_DESIGN, Sides
from rtsim.core.tag import Tag
from rtsim.record.comparison import Comparison, compare
from rtsim.record.reading import Recording, TrackData
from rtsim.record.verdict import Index, SignalResult, Tolerance, short

LATE = "Late"
"""Kind of event that is recorded if an answer has not arrived when it is due."""
MISSED = "Missed"
"""Kind of event that is recorded if no request is sent because the last one is still pending."""
OVERLAP = "overlap"
"""Name of the failed result that reports a run that is too short."""
_STEPS = ("initiated_step", "step")
_SIDE = "side"


@dataclass(frozen=True)
class Compared:
    """The verdict, and the compared rows of both runs, which have the same tags."""

    comparison: Comparison
    baseline: Recording
    candidate: Recording


class _Track(NamedTuple):
    """The paired rows of a track in both runs, and the problem if some rows have no pair."""

    baseline: TrackData
    candidate: TrackData
    problem: SignalResult | None


def compare_flights(
    baseline: Recording,
    candidate: Recording,
    rules: Mapping[str, Tolerance],
    controllers: Collection[str],
    sides: Sides = C_AGAINST_DESIGN,
) -> Compared:
    """Compare the run ``candidate`` with the run ``baseline``, row by row.

    ``controllers`` are the names of the controllers that are replaced in ``candidate``.  ``rules``
    are the tolerances of :func:`rtsim.record.comparison.compare`.  ``sides`` names both runs in
    texts.
    """
    end, reached = _end(baseline), _end(candidate)
    early, cut = reached < end, first_late(candidate)
    problems = [_overlap(end, reached, candidate, cut, sides)] if early or cut is not None else []
    ours, theirs = dict(baseline.tracks), dict(candidate.tracks)
    lacking: set[str] = set()
    for name, track in sorted(baseline.tracks.items()):
        if not track.spec.deterministic:
            continue
        other = theirs.get(name, replace(track, words=track.words[:0]))
        paired = _paired(track, other, end, cut, sides)
        ours[name], theirs[name] = paired.baseline, paired.candidate
        source = name.removeprefix("messages/")
        # The tracks are sorted by name: a controller's answers come before its requests.
        counts = source in controllers if early else source.removesuffix(".inputs") not in lacking
        if paired.problem is not None and counts:
            problems.append(paired.problem)
            lacking.add(source)
    pair = replace(baseline, tracks=ours), replace(candidate, tracks=theirs)
    found = compare(*pair, rules)
    kept = [r for r in found.results if r.rows or not _had_rows(baseline, r.name)]
    held = replace(
        found, results=[*problems, *kept], undecided=[]
    )  # the run's own fields say whether it was undecided
    return Compared(held, *pair)


def first_late(candidate: Recording) -> int | None:
    """Return the time (ns) of the first request whose answer was late and was not waited for."""
    asked = [
        e.tag.ns - int(e.values["allowed"])
        for e in candidate.events
        if e.kind == LATE
        and not _answered(candidate, e.source, e.tag.ns - int(e.values["allowed"]))
    ]
    return min(asked, default=None)


def _answered(candidate: Recording, controller: str, ns: int) -> bool:
    """Return True if the request at ``ns`` has an answer; the policy ``stretch`` waits for it."""
    track = candidate.tracks.get(f"messages/{controller}")
    return track is not None and bool((track.ns == ns).any())


def _overlap(
    end: int, reached: int, candidate: Recording, cut: int | None, sides: Sides
) -> SignalResult:
    """Return the failed result for a run that is too short to be compared up to its end."""
    if cut is None:
        flight = f"the run with the {sides.translation}"
        reason = f"{flight} ends at {short(Tag(reached))} of {short(Tag(end))}"
        if reached < 0:
            reason = f"{flight} has no rows; expected rows up to {short(Tag(end))}"
        return SignalResult(OVERLAP, "s", reason=reason)
    count = sum(e.kind == LATE for e in candidate.events)
    answers = "1 answer was Late" if count == 1 else f"{count} answers were Late"
    reason = (
        f"{answers}; compared up to the request of the first late answer, at "
        f"{short(Tag(cut))} of {short(Tag(end))}"
    )
    return SignalResult(OVERLAP, "s", reason=reason)


def _end(recording: Recording) -> int:
    """Return the time (ns) of the last row of all deterministic tracks; -1 if they have no rows."""
    tracks = [t for t in recording.tracks.values() if t.spec.deterministic and len(t)]
    return max((int(t.ns.max()) for t in tracks), default=-1)


def _had_rows(recording: Recording, signal: str) -> bool:
    """Return True if the track of ``signal`` has rows; column names contain no dot."""
    track = recording.tracks.get(signal.rpartition(".")[0])
    return track is not None and len(track) > 0


def _paired(a: TrackData, b: TrackData, end: int, cut: int | None, sides: Sides) -> _Track:
    a, b = _considered(a, end, cut), _considered(b, end, cut)
    left, right = _together(_keys(a), _keys(b))
    return _Track(_only(a, left), _only(b, right), _problem(a, left, b, right, sides))


def _considered(track: TrackData, end: int, cut: int | None) -> TrackData:
    ns = track.ns
    return _only(track, np.flatnonzero(ns <= end if cut is None else ns < cut))


def _only(track: TrackData, rows: Index) -> TrackData:
    return replace(track, words=track.words[rows])


def _keys(track: TrackData) -> NDArray[np.int64]:
    """Return the keys (n, 3) by which rows are paired: ns, microstep, and 1 for x+."""
    ns = track.ns
    step = next((track.integer(name) for name in _STEPS if name in track.integers), 0 * ns)
    return np.stack([ns, step, _sides(track)], axis=1)


def _sides(track: TrackData) -> NDArray[np.int64]:
    """Return a vector (n,) that is 1 for rows of x+, and 0 for other rows."""
    return track.integer(_SIDE) if _SIDE in track.integers else 0 * track.ns


def _problem(
    a: TrackData, left: Index, b: TrackData, right: Index, sides: Sides
) -> SignalResult | None:
    """Return the failed result if some rows, apart from rows of x+, exist in one run only."""
    name = f"{a.name} (rows)"
    missing = np.setdiff1d(np.flatnonzero(_sides(a) == 0), left)
    if len(missing):
        tag = _tag(a, missing)
        count = int((_sides(a) == 0).sum())
        first = f"the first missing row is at {short(tag)}"
        reason = f"{count - len(missing)} of {count} rows; {first}"
        return SignalResult(name, first_failed=tag, reason=reason)
    more = np.setdiff1d(np.arange(len(b)), right)
    if len(more) and _SIDE not in b.integers:
        tag = _tag(b, more)
        reason = f"{len(more)} rows more than with the {sides.reference}, from {short(tag)} on"
        return SignalResult(name, first_failed=tag, reason=reason)
    return None


def _tag(track: TrackData, rows: Index) -> Tag:
    ns, step, _ = _keys(track)[rows[0]].tolist()
    return Tag(ns, step)


def _together(a: NDArray[np.int64], b: NDArray[np.int64]) -> tuple[Index, Index]:
    """Return the indices of rows with equal keys in ``a`` and ``b``, in the order of ``a``.

    If several rows have the same key, they are paired in order.
    """
    _, ids = np.unique(np.concatenate([a, b]), axis=0, return_inverse=True)
    ids = ids.reshape(-1)
    most = len(ids) + 1
    ours, theirs = (_occurrence(part) + most * part for part in np.split(ids, [len(a)]))
    _, left, right = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    order = np.argsort(left)
    return left[order], right[order]


def _occurrence(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each id, the number of equal ids before it."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    starts = np.searchsorted(ordered, ordered)
    out = np.empty(len(ids), np.int64)
    out[order] = np.arange(len(ids)) - starts
    return out
