"""Comparison bit for bit of a recording and its replay: the first difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rtsim.core.tag import START, Tag
from rtsim.record.chunks import pieces
from rtsim.record.reading import Recording, TrackData


@dataclass(frozen=True)
class Difference:
    """One place at which two traces differ."""

    tag: Tag
    track: str
    column: str
    baseline: str
    candidate: str

    def __str__(self) -> str:
        return (
            f"{self.track}.{self.column} at {self.tag}: "
            f"{self.baseline} in the baseline, {self.candidate} in the candidate"
        )


def compare_exact(
    baseline: Recording, candidate: Recording, *, prefix: bool = False
) -> Difference | None:
    """Return the first difference of the deterministic tracks; ``None`` if all bits are equal.

    If several tracks differ at one tag, the result is the first of these tracks by name, and its
    first differing column.  With ``prefix``, rows of the candidate after the end of the baseline do
    not count; use it for a baseline that was cut off.
    """
    found = []
    for name in sorted(baseline.tracks.keys() | candidate.tracks.keys()):
        a, b = baseline.tracks.get(name), candidate.tracks.get(name)
        if not any(t and t.spec.deterministic for t in (a, b)):
            continue
        if a is None or b is None:
            missing, there = "no such track", "present"
            pair = (missing, there) if a is None else (there, missing)
            found.append(Difference(START, name, "*", *pair))
        else:
            difference = _first_in(a, b, prefix)
            if difference is not None:
                found.append(difference)
    return min(found, key=lambda d: d.tag, default=None)


def _first_in(a: TrackData, b: TrackData, prefix: bool) -> Difference | None:
    mine, theirs = (("ns", *t.integers, *t.signals.columns) for t in (a, b))
    if mine != theirs:
        return Difference(START, a.name, "*", ", ".join(mine), ", ".join(theirs))
    n = min(len(a), len(b))
    if (unequal := first_unequal(a, b)) is not None:
        row, column = unequal
        tag = min(a.tag(row), b.tag(row))
        return Difference(tag, a.name, mine[column], _text(a, row, column), _text(b, row, column))
    if len(a) > n:
        return Difference(a.tag(n), a.name, "*", f"{len(a)} rows", f"{len(b)} rows")
    if len(b) > n and not prefix:
        return Difference(b.tag(n), a.name, "*", f"{len(a)} rows", f"{len(b)} rows")
    return None


def first_unequal(a: TrackData, b: TrackData) -> tuple[int, int] | None:
    """Return row and column of the first differing word in the rows that both have."""
    for first, (ours, theirs) in pieces(a.words, b.words):
        unequal = ours != theirs
        rows = np.flatnonzero(unequal.any(axis=1))
        if len(rows):
            row = int(rows[0])
            return first + row, int(unequal[row].argmax())
    return None


def _text(track: TrackData, row: int, column: int) -> str:
    """Return the value as text with all digits; for a NaN also with its bits."""
    if column <= len(track.integers):
        return str(int(track.words[row, column]))
    word = track.words[row, column]
    value = float(word.view(np.float64))
    return f"{value!r} (0x{int(word) & (1 << 64) - 1:016x})" if value != value else repr(value)
