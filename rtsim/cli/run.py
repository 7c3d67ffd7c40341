"""``rtsim run``: run a scenario in real time or as fast as possible, and record the run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import json_option, reports_errors
from rtsim.cli.options import trust_options
from rtsim.cli.run_options import (
    FOR_A_PERSON,
    Given,
    GoingOn,
    RunOptions,
    allowed,
    latencies_to_json,
    latency_option,
    note_too_long,
    optional_run_options,
    parse_latencies,
    print_latencies,
)
from rtsim.cli.running import RunSummary, outputs_at_end, print_outputs, run_command
from rtsim.cli.window import (
    OutsideWindow,
    Viewable,
    Viewed,
    flightgear_options,
    place_options,
    quiet_option,
    told_of,
    typed,
    viewer,
)
from rtsim.core.errors import ScenarioError
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.pilot.processes import Window
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ControllerComponent
from rtsim.scenario.trust import anything_given


@click.command(cls=Viewable)
@optional_run_options
@latency_option
@click.option(
    "--from",
    "start",
    type=click.Path(path_type=Path),
    metavar="CHECKPOINT",
    help="Continue from this checkpoint, with its scenario, seed and parameters; add --force if "
    "the scenario has changed since.",
)
@json_option
@reports_errors
@trust_options
@place_options
@quiet_option
@flightgear_options
def run(
    options: RunOptions,
    latencies: tuple[str, ...],
    start: Path | None,
    window: Window | None,
    quiet: bool,
    outside: OutsideWindow | None,
    as_json: bool,
) -> None:
    """Run SCENARIO: a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION].

    The recording is written to runs/NAME-NNN.mcap, or to the file given with -o. --view shows the
    run in a window, --web in the browser, and --flightgear in FlightGear. With each of these
    options, the defaults are --pace 1 and --overrun slip:100000. Closing the window does not end
    the run; 'rtsim view' opens a new window.

    \b
    Examples:
      rtsim run f16 --until 20
      rtsim run f16 --set case=13.2 --set f16.cg=0.3 --pace 1.0 -o flight.mcap
      rtsim run tank.py:leaking --pace 1 --view
      rtsim run --from flight@10.000.checkpoint

    Exit status: 0 if the run is complete, 1 if a requirement is violated or --strict is not met, 2
        for an error or an undecided requirement, 130 after an interruption.
    """
    viewed = viewer(window, quiet, outside)
    if viewed is not None or options.web is not None:
        pace = options.pace if typed("pace") else "1.0"
        overrun = options.overrun if typed("overrun") else FOR_A_PERSON
        here = window is not None and window.served is None
        options = replace(options, pace=pace, overrun=overrun, watched=here)
    if start is None and anything_given():
        raise ScenarioError(
            "--scenario and --trust work only with --from CHECKPOINT; leave them out"
        )
    if start is not None:
        go_on(options, latencies, start, viewed, as_json)
    given: Given = {}

    def prepare(scenario: Scenario) -> None:
        nonlocal given
        given = parse_latencies(latencies, list(scenario.of(ControllerComponent)), of_all=False)
        for name, latency in allowed(given).items():
            scenario.allow(name, latency)
        note_too_long(scenario, given)

    watch = None if viewed is None else viewed.watch
    summary = run_command(options, quiet=as_json, prepare=prepare, watch=watch)
    more = {"latency": latencies_to_json(given)} if given else {}
    _show(summary, viewed, more, partial(print_latencies, given), as_json, options.junit)


def go_on(
    options: RunOptions,
    latencies: tuple[str, ...],
    start: Path,
    viewed: Viewed | None,
    as_json: bool,
) -> None:
    """Continue a run from the checkpoint ``start``, and exit with the status of the run."""
    given = {
        "SCENARIO": options.scenario,
        "--seed": options.seed is not None,
        "--set": options.settings,
        "--faults": options.faults,
        "--counterexample": options.counterexample,
        "--plain": options.plain,
        "--checked": options.checked,
        "--latency": latencies,
    }
    for name, value in given.items():
        if value:
            raise ScenarioError(
                f"the checkpoint of --from {start} determines the run, so {name} cannot be "
                f"changed; leave {name} out"
            )
    going_on = GoingOn.open(Checkpoint.open(start), options.force)
    watch = None if viewed is None else viewed.watch
    summary = run_command(options, quiet=as_json, going_on=going_on, watch=watch)
    _show(summary, viewed, {}, lambda: None, as_json, options.junit)
    sys.exit(0)


def _show(
    summary: RunSummary,
    viewed: Viewed | None,
    more: Mapping[str, Any],
    print_more: Callable[[], None],
    as_json: bool,
    junit: Path | None,
) -> None:
    seen = {} if viewed is None else viewed.seen(summary.result.reason)
    system = summary.result.system
    processes = outputs_at_end(system)
    more = {**more, **({"processes": processes} if processes else {})}

    def rest() -> None:
        print_outputs(system)
        print_more()
        for figures in seen.values():
            for line in told_of(figures):
                click.echo(line)
        for line in () if viewed is None else viewed.told_outside:
            click.echo(line)

    summary.write_junit(junit)
    if as_json:
        summary.show_json(**more, **seen, **({} if viewed is None else viewed.outside))
    else:
        summary.print(rest)
    summary.exit()
