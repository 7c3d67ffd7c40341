"""The run of a command: load the scenario, open the recording and the gateway, run, and sum up."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import replace
from pathlib import Path

from rtsim.cli.checkpoints import GoingOn
from rtsim.cli.interrupts import sigterm_interrupts
from rtsim.cli.progress import ProgressLine
from rtsim.cli.run_options import RunOptions
from rtsim.cli.segments import open_recorder, run_segments
from rtsim.cli.settings import parse_settings
from rtsim.cli.summary import RunSummary
from rtsim.engine.commands.inbox import Inbox
from rtsim.engine.executive import StatePublisher
from rtsim.equations.compiling import CHECKED, announced
from rtsim.runs.request import Connections, Output, RunRequest, compilation_of
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario

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
