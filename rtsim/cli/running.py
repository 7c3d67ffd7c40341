"""The run of a command, segment by segment: load, open recording and gateway, run, sum up."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

from rtsim.cli.common import sigterm_interrupts
from rtsim.cli.options import parse_settings
from rtsim.cli.run_options import GoingOn, RunOptions, Wanted, in_a_file
from rtsim.cli.summary import RunSummary
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.executive import StatePublisher
from rtsim.equations.compiling import CHECKED, announced
from rtsim.record.file import FileRecorder
from rtsim.record.output_files import PathTaken
from rtsim.record.recorders import Recorder
from rtsim.runs.progress import ProgressLine
from rtsim.runs.request import Connections, Output, RunRequest, compilation_of
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import run
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario

# Segments of a run: after going back to a checkpoint, a run continues in a new recording.


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


Prepare = Callable[[Scenario], None]
"""Function that changes the scenario before the recording starts."""
Watch = Callable[[Scenario, Inbox | None], AbstractContextManager[tuple[StatePublisher, Inbox]]]
"""Function that opens the display of a run; its arguments are the scenario and the gateway's
inbox."""


def run_command(
    options: RunOptions,
    quiet: bool,
    prepare: Prepare | None = None,
    going_on: GoingOn | None = None,
    watch: Watch | None = None,
) -> RunSummary:
    """Load the scenario, run it, record it, and return the summary of the run.

    ``quiet``: print no progress.  ``prepare`` may change the scenario before the recording starts.
    ``watch`` opens a display; it returns the display's publisher of states, and the inbox that
    replaces the gateway's inbox.  ``going_on`` is a checkpoint to continue from; its scenario, seed
    and end replace those of ``options``.
    """
    if going_on is not None:
        options = _continuing(options, going_on)
    options.check()
    settings = parse_settings(options.settings)
    line = ProgressLine(options.scenario, sys.stderr.isatty() and not quiet, noted=not quiet)
    with sigterm_interrupts(), closing(line), announced(line.compiling), ExitStack() as stack:
        try:
            if going_on is None:
                scenario = load_scenario(options.scenario, settings)
                scenario.faults(*options.faults)
            else:
                scenario = going_on.scenario
            if prepare is not None:
                prepare(scenario)
            recorder = None
            if not options.no_record:
                name = Path(options.scenario.partition(".py")[0]).stem
                recorder = stack.enter_context(open_recorder(options.path, name, options.force))
            path = None if recorder is None else recorder.path
            gate = inbox = stack.enter_context(options.gateway(scenario, path))
            publisher: StatePublisher | None = None
            wanted = options.wanted()
            if watch is not None:
                publisher, inbox = stack.enter_context(watch(scenario, inbox))
                wanted = replace(wanted, told=True, viewed=True)
            request = RunRequest(
                scenario,
                options.seed,
                options.pacing(),
                options.until,
                options.compilation,
                start=None if going_on is None else going_on.checkpoint,
                output=Output(recorder, on_recorder_death=options.on_recorder_death),
                live=Connections(publisher, line.show, inbox, tell=line.tell),
                engine=options.engine,
            )
            result = run_segments(request, wanted, stack)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(line.when_interrupted) from interrupt
    return RunSummary(options, result, gate)


def _continuing(options: RunOptions, going_on: GoingOn) -> RunOptions:
    """Return ``options`` with the scenario, seed, end and compilation of the checkpoint."""
    compile = compilation_of(going_on.checkpoint.header)
    return replace(
        options,
        scenario=going_on.reference,
        plain=not compile,
        checked=compile == CHECKED,
        seed=going_on.number("seed"),
        until=going_on.until(options.until),
    )
