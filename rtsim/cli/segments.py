"""Segments of a run: after going back to a checkpoint, a run continues in a new recording."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from rtsim.cli.checkpoints import Wanted, in_a_file
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.checkpoint.kept import Files
from rtsim.engine.commands.inbox import Inbox
from rtsim.record.claim import PathTaken
from rtsim.record.file import FileRecorder
from rtsim.record.memory_recorder import NullRecorder, Recorder
from rtsim.runs.simulation import Pace, RecordingLost, RunResult


@dataclass(frozen=True)
class Segment:
    """A segment of a run: its result, its recording and its checkpoints."""

    outcome: RunResult
    path: Path | None
    checkpoints: tuple[Path, ...] = ()
    lost: RecordingLost | None = None
    """Why the recording is incomplete; ``None`` if it is complete."""


def fly_legs(
    fly: Callable[..., RunResult],
    pace: Pace,
    recorder: FileRecorder | None,
    wanted: Wanted,
    start: Checkpoint | None,
    inbox: Inbox | None,
    stack: ExitStack,
) -> list[Segment]:
    """Run all segments of a run and return them in order.

    ``fly`` is :func:`simulate` with the arguments that all segments share.  ``recorder`` is the
    recorder of the first segment, ``start`` its checkpoint; later recorders are entered into
    ``stack``.  The rate at the end of a segment is the pace of the next one.
    """
    legs: list[Segment] = []
    past = wanted.past(start)
    while True:
        path = None if recorder is None else recorder.path
        start = None if start is None else in_a_file(start, path)
        taking = wanted.taking(path, past, start)
        into: Recorder = recorder or NullRecorder()
        lost = None
        try:
            outcome = fly(pace=pace, recorder=into, start=start, checkpoints=taking)
        except RecordingLost as error:
            outcome, lost = error.outcome, error
        kept = taking.keeper if taking is not None else None
        left = tuple(kept.paths) if isinstance(kept, Files) else ()
        legs.append(Segment(outcome, path, left, lost))
        start = outcome.restored
        if start is None:
            return legs
        assert inbox is not None
        try:
            if path is not None:
                recorder = stack.enter_context(next_recorder(legs[0].path or path))
                inbox.goes_on(recording=str(recorder.path))
        except BaseException as error:
            inbox.close(f"the run could not continue from {start.tag}: {error}")
            raise
        pace = replace(pace, rate=outcome.rate)


def open_recorder(path: Path | None, name: str, overwrite: bool = False) -> FileRecorder:
    """Return a recorder to ``path``, or to the first free file ``runs/name-001.mcap``, …

    Raises :class:`ScenarioError` if the folder cannot be made.
    """
    if path is not None:
        return FileRecorder(path, stopwatch, overwrite=overwrite)
    folder = Path("runs")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScenarioError(f"cannot make the folder {folder}: {error}; give -o PATH") from error
    return _first_free(folder, lambda number: f"{name}-{number:03d}.mcap", 1)


def next_recorder(first: Path) -> FileRecorder:
    """Return the recorder of the next segment: the first free ``run.2.mcap``, … of ``run.mcap``."""
    return _first_free(first.parent, lambda number: f"{first.stem}.{number}{first.suffix}", 2)


def _first_free(folder: Path, name: Callable[[int], str], least: int) -> FileRecorder:
    for number in count(least):
        path = folder / name(number)
        with suppress(PathTaken):  # by a run that began at the same time
            if not path.exists():
                return FileRecorder(path, stopwatch)
    raise AssertionError("there is always another number")
