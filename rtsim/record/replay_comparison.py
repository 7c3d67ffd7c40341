"""Compare a repeated run with the recorded run."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from rtsim.core.errors import ControllerError, RecordingError
from rtsim.core.tag import START, Tag
from rtsim.record.chunks import pieces
from rtsim.record.events import LACKING, died_of, in_words, last_error, names_lack
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording, TrackData
from rtsim.record.recorders import MemoryRecorder


@dataclass(frozen=True)
class Difference:
    """One difference between two traces."""

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
    """Return the first difference of the deterministic tracks, or ``None`` if all bits are equal.

    If several tracks differ at the same tag, the result describes the first one in alphabetical
    order. With ``prefix=True``, later rows of the candidate are ignored, for a truncated baseline.
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
    """Return row and column of the first different value in two tracks."""
    for first, (ours, theirs) in pieces(a.words, b.words):
        unequal = ours != theirs
        rows = np.flatnonzero(unequal.any(axis=1))
        if len(rows):
            row = int(rows[0])
            return first + row, int(unequal[row].argmax())
    return None


def _text(track: TrackData, row: int, column: int) -> str:
    if column <= len(track.integers):
        return str(int(track.words[row, column]))
    word = track.words[row, column]
    value = float(word.view(np.float64))
    return f"{value!r} (0x{int(word) & (1 << 64) - 1:016x})" if value != value else repr(value)


# Comparison of the ends of the recorded and the repeated run.

_NOT_HERE = "the run needs a resource that is missing on this machine, so it cannot be repeated"


def ended_by_itself(recording: Recording, again: Recording, error: Exception) -> bool:
    """Return whether the simulation itself caused the error of a repeated run.

    The result is False if, for example, a file was missing only in the repeated run. The runs are
    then not comparable.
    """
    if again.footer is None:
        return False
    ours, theirs = last_error(recording), last_error(again)
    if in_words(ours) == in_words(theirs) or not _is_missing_resource(error):
        return True
    error.add_note(f"the recorded run in {recording.source} had no such error: {_NOT_HERE}")
    return False


def _is_missing_resource(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, LACKING):
            return True
        error = error.__cause__ or error.__context__
    return False


def said_no_more(recording: Recording, again: Recording) -> None:
    """Raise an error if the repeated run ended for a reason outside the simulation.

    Raises ``KeyboardInterrupt`` after an interruption, and ``ControllerError`` if a controller
    lacked a resource.
    """
    if again.footer is not None and again.footer["reason"] == "interrupted":
        raise KeyboardInterrupt("the repeated run was interrupted, so the comparison has no result")
    known = {(e.source, e.tag) for e in recording.events if e.kind == "Failed"}
    for event in again.events:
        lacks = event.kind == "Failed" and names_lack(event.text)
        if lacks and (event.source, event.tag) not in known:
            raise ControllerError(
                f"when the run was repeated, {event.source} failed at {event.tag}: {event.text}\n"
                f"The recorded run in {recording.source} had no such failure: {_NOT_HERE}"
            )


def ended_otherwise(
    recording: Recording, again: Recording, last_ns: int | None = None
) -> Difference | None:
    """Return the difference between the ends of two runs, or ``None``.

    ``last_ns`` is the requested end of the repeated run. An error of the recorded run at or after
    ``last_ns`` is ignored.
    """
    ours, theirs = died_of(recording), died_of(again)
    if ours is not None and last_ns is not None and ours.tag.ns >= last_ns:
        ours = None
    if in_words(ours) == in_words(theirs):
        return None
    tag = min(event.tag for event in (ours, theirs) if event is not None)
    texts = (
        "no error" if event is None else f"{event.source}: {event.text}" for event in (ours, theirs)
    )
    return Difference(tag, "the run", "end", *texts)


def end_of(recording: Recording) -> int:
    """Return the time (ns) up to which a run must be repeated.

    A run is repeated up to its end, which can be later than the last row. A truncated recording is
    repeated up to its last row or event. After an error, the repeated run is 1 ns longer.
    """
    return max(recording.end_ns, recording.span_ns[1]) + (died_of(recording) is not None)


# Temporary recordings, in memory or, for large runs, in a temporary file.

_LARGE_FOLDERS = ("/var/tmp",)
"""Folders for large temporary files, unless ``TMPDIR`` is set."""


class TemporaryRecorder(FileRecorder):
    """Recorder with a temporary file."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="rtsim-", dir=_folder()))
        self._forget = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        super().__init__(folder / "spare.mcap")

    @cached_property
    def _recorded(self) -> Recording:
        self.close()
        if self.failed is not None:
            raise RecordingError(
                f"the temporary recording of the repeated run in {self.path.parent.parent} failed: "
                f"{self.failed}; set TMPDIR to a folder with enough space"
            )
        out = Recording.open(self.path)
        self._forget()
        return replace(out, source="this run")

    def recording(self) -> Recording:
        """Return the recording from an open file without a name."""
        return self._recorded


def recorder_for_repeat(recording: Recording) -> MemoryRecorder | TemporaryRecorder:
    """Return a recorder for about as much data as ``recording`` contains."""
    return TemporaryRecorder() if recording.large else MemoryRecorder()


def _folder() -> str | None:
    if os.environ.get("TMPDIR"):
        return None  # the tempfile module uses TMPDIR
    return next((f for f in _LARGE_FOLDERS if os.access(f, os.W_OK)), None)
