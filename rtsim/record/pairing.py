"""Which rows of a track in two recordings belong together."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtsim.record.ending import Ending
from rtsim.record.reading import TrackData
from rtsim.record.verdict import Index
from rtsim.tag import Tag

KEYS = ("step", "side")
"""Integers that are part of a row's tag."""
_SPAN = 0.9

Pairing: TypeAlias = Literal["exact", "common"]


class Window(NamedTuple):
    """Up to when (ns) rows are held against each other, and how both runs ended."""

    end: int
    ours: Ending
    theirs: Ending


class Paired(NamedTuple):
    """Rows of a track that belong together, or the problem why they do not."""

    track: TrackData
    left: Index
    right: Index
    problem: str = ""
    lacking: tuple[bool, bool] = (False, False)
    """Whether the baseline, or the candidate, ended early and has not the other's last rows."""


def paired(a: TrackData, b: TrackData, window: Window, tags: Pairing) -> Paired:
    """Rows of ``a`` and of ``b`` within the window that belong together."""
    return _at_common_times(a, b, window) if tags == "common" else _at_equal_tags(a, b, window)


def _unpaired(a: TrackData, problem: str) -> Paired:
    none = np.empty(0, np.intp)
    return Paired(a, none, none, problem)


def _at_common_times(a: TrackData, b: TrackData, window: Window) -> Paired:
    left, right = _last_rows(a.ns), _last_rows(b.ns)
    left = left[a.ns[left] <= window.end]
    times = a.ns[left]
    if not len(times):
        more = int((b.ns <= window.end).sum())
        return _unpaired(a, f"{more} rows in the candidate, none in the baseline" if more else "")
    common, i, j = np.intersect1d(times, b.ns[right], assume_unique=True, return_indices=True)
    needed = int(_SPAN * np.ptp(times))
    if len(common) < min(2, len(times)) or np.ptp(common) < needed:
        return _unpaired(a, f"{len(common)} times in common, over less than {Tag(needed)}")
    return Paired(a, left[i], right[j])


def _at_equal_tags(a: TrackData, b: TrackData, window: Window) -> Paired:
    """Of a run that ended early the last rows may be missing: they are not compared."""
    inside = np.flatnonzero(b.ns <= window.end)
    left = np.flatnonzero(a.ns <= window.end)
    mine, theirs = _keys(a)[left], _keys(b)[inside]
    n = min(len(mine), len(theirs))
    differ = np.flatnonzero((mine[:n] != theirs[:n]).any(axis=1))
    whole = (window.ours if len(mine) == n else window.theirs).complete
    if len(differ) or (len(mine) != len(theirs) and whole):
        at = int(differ[0]) if len(differ) else n
        one, other = _key_text(mine, at), _key_text(theirs, at)
        return _unpaired(a, f"other tags: row {at} is {one} in the baseline, {other} here")
    return Paired(a, left[:n], inside[:n], lacking=(len(theirs) > n, len(mine) > n))


def _keys(track: TrackData) -> NDArray[np.int64]:
    steps = [track.integer(k) if k in track.integers else 0 * track.ns for k in KEYS]
    return np.stack([track.ns, *steps], axis=1)


def _key_text(keys: NDArray[np.int64], row: int) -> str:
    if row >= len(keys):
        return "missing"
    ns, step, side = map(int, keys[row])
    return f"{Tag(ns, step)}{' (x+)' if side else ''}"


def _last_rows(ns: NDArray[np.int64]) -> Index:
    """The last row at each time, in order of time."""
    _, from_end = np.unique(ns[::-1], return_index=True)
    return len(ns) - 1 - from_end
