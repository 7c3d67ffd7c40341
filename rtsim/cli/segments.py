"""Segments of a run: after going back to a checkpoint, a run continues in a new recording."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

from rtsim.cli.checkpoints import Wanted, in_a_file
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.record.file import FileRecorder
from rtsim.record.output_files import PathTaken
from rtsim.record.recorders import Recorder
from rtsim.runs.request import RunRequest
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import run


def run_segments(request: RunRequest, wanted: Wanted, stack: ExitStack) -> RunResult:
    """Run all segments of a run and return the last result, which contains the earlier ones.

    The recorder of ``request`` is that of the first segment; later recorders are entered into
    ``stack``.  The rate at the end of a segment is the pace of the next one.  Raises the error that
    ends the run.  If only the recording failed, the result is returned.
    """
    past = wanted.past(request.start)
    recorder = request.output.recorder
    earlier: tuple[RunResult, ...] = ()
    while True:
        path = _path(recorder)
        if request.start is not None:
            request = replace(request, start=in_a_file(request.start, path))
        taking = wanted.taking(path, past, request.start)
        result = replace(run(request.into(recorder, taking)), earlier=earlier)
        if result.error is not None:
            raise result.error
        restored = result.restored
        if restored is None:
            return result
        inbox = request.live.inbox
        assert inbox is not None
        try:
            first = result.segments[0].path
            if first is not None:
                recorder = stack.enter_context(next_recorder(first))
                inbox.goes_on(recording=str(recorder.path))
        except BaseException as error:
            inbox.close(f"the run could not continue from {restored.tag}: {error}")
            raise
        earlier = result.segments
        pace = replace(request.pace, rate=result.rate)
        request = replace(request, start=restored, pace=pace)


def _path(recorder: Recorder | None) -> Path | None:
    return recorder.path if isinstance(recorder, FileRecorder) else None


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
    """Return the next segment's recorder, to the first free file ``run.2.mcap``, … of the run."""
    return _first_free(first.parent, lambda number: f"{first.stem}.{number}{first.suffix}", 2)


def _first_free(folder: Path, name: Callable[[int], str], least: int) -> FileRecorder:
    for number in count(least):
        path = folder / name(number)
        with suppress(PathTaken):  # another run that began at the same time has taken it
            if not path.exists():
                return FileRecorder(path, stopwatch)
    raise AssertionError(
        f"{folder} has a recording for every number, so no name is free for a new recording; "
        "remove old recordings, or give -o PATH"
    )
