"""Pairs the rows of a track in two recordings, by tag or by time."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtsim.core.tag import Tag
from rtsim.record.events import RunEnding
from rtsim.record.reading import Recording, TrackData
from rtsim.record.verdict import Index

KEYS = ("step", "side")
"""Integers that are part of a row's tag."""
_GAP = 0.1
"""Share of the baseline's time span that may be without common times, in a gap or at the ends."""
_FEW = 10
"""Number of rows that may lie between two common times, even in a short run."""

Pairing: TypeAlias = Literal["exact", "common"]


class ComparisonWindow(NamedTuple):
    """The end (ns) of a comparison, and how both runs ended."""

    end: int
    ours: RunEnding
    theirs: RunEnding


class Paired(NamedTuple):
    """Paired rows of a track, or the problem that prevents the pairing."""

    track: TrackData
    left: Index
    right: Index
    problem: str = ""
    lacking: tuple[bool, bool] = (False, False)
    """For baseline and candidate: True if the run lacks the last rows of the other run, because it
    ended early."""


def paired(a: TrackData, b: TrackData, window: ComparisonWindow, tags: Pairing) -> Paired:
    """Return the paired rows of ``a`` and ``b`` within the window."""
    return _at_common_times(a, b, window) if tags == "common" else _at_equal_tags(a, b, window)


def _unpaired(a: TrackData, problem: str) -> Paired:
    none = np.empty(0, np.intp)
    return Paired(a, none, none, problem)


def _at_common_times(a: TrackData, b: TrackData, window: ComparisonWindow) -> Paired:
    left, right = _last_rows(a.ns), _last_rows(b.ns)
    left = left[a.ns[left] <= window.end]
    times = a.ns[left]
    if not len(times):
        more = int((b.ns <= window.end).sum())
        return _unpaired(a, f"the candidate has {more} rows, the baseline none" if more else "")
    common, i, j = np.intersect1d(times, b.ns[right], assume_unique=True, return_indices=True)
    share = int(_GAP * np.ptp(times))
    in_common = f"{len(common)} of {len(times)} times in common"
    if len(common) < min(2, len(times)) or np.ptp(common) < np.ptp(times) - share:
        return _unpaired(a, f"{in_common}, over less than {Tag(int(np.ptp(times)) - share)}")
    begin, end = _longest_gap(times, i)
    if end - begin > share:
        return _unpaired(a, f"{in_common}, and none between {Tag(begin)} and {Tag(end)}")
    return Paired(a, left[i], right[j])


def _longest_gap(times: NDArray[np.int64], common: Index) -> tuple[int, int]:
    """Return begin and end (ns) of the longest gap in ``common`` of more than :data:`_FEW` rows."""
    gaps = np.flatnonzero(np.diff(common) > _FEW + 1)
    begins, ends = times[common[gaps]], times[common[gaps + 1]]
    if not len(gaps):
        return 0, 0
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest])


def _at_equal_tags(a: TrackData, b: TrackData, window: ComparisonWindow) -> Paired:
    """Pair rows by tag; if a run ended early, its later rows do not count as missing."""
    inside = np.flatnonzero(b.ns <= window.end)
    left = np.flatnonzero(a.ns <= window.end)
    n = min(len(left), len(inside))
    same = _alike(a, b, left[:n], inside[:n])
    whole = (window.ours if len(left) == n else window.theirs).complete
    if same < n or (len(left) != len(inside) and whole):
        one, other = _key_text(a, left, same), _key_text(b, inside, same)
        return _unpaired(
            a, f"other tags: row {same} is {one} in the baseline, {other} in the candidate"
        )
    return Paired(a, left[:n], inside[:n], lacking=(len(inside) > n, len(left) > n))


def _alike(a: TrackData, b: TrackData, left: Index, right: Index) -> int:
    """Return the number of rows, counted from the first, that have equal tags in both tracks.

    Keys are compared one by one, because all keys of a long track at once take much memory.
    """
    unlike = a.ns[left] != b.ns[right]
    for key in KEYS:
        unlike |= _key(a, key)[left] != _key(b, key)[right]
    return int(unlike.argmax()) if unlike.any() else len(left)


def _key(track: TrackData, name: str) -> NDArray[np.int64]:
    return track.integer(name) if name in track.integers else np.zeros(len(track), np.int64)


def _key_text(track: TrackData, rows: Index, at: int) -> str:
    if at >= len(rows):
        return "missing"
    row = int(rows[at])
    side = "side" in track.integers and int(track.integer("side")[row])
    return f"{track.tag(row)}{' (x+)' if side else ''}"


def _last_rows(ns: NDArray[np.int64]) -> Index:
    """Return the number of the last row at each time, in order of time."""
    _, from_end = np.unique(ns[::-1], return_index=True)
    return len(ns) - 1 - from_end


def what_both_have(a: Recording, b: Recording) -> tuple[Recording, Recording, Tag | None]:
    """Return both recordings without the rows before their first common tag, and this tag.

    The tag is the checkpoint from which one of them continues; ``None`` if neither does.
    """
    later = max((a, b), key=lambda one: int(one.continues.get("ns", -1))).continues
    if not later:
        return a, b, None
    rows, events = later["rows"], int(later["events"])
    return a.since(rows, events), b.since(rows, events), Tag(int(later["ns"]))
