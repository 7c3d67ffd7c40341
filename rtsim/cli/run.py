"""``rtsim run``: fly a scenario, paced or as fast as possible, and record it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from rtsim.cli.checkpoints import GoingOn
from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.flight import FOR_A_PERSON, RunOptions, fly, optional_flight_options
from rtsim.cli.flown import RunSummary
from rtsim.cli.latency import (
    Given,
    allowed,
    latencies_to_json,
    latency_option,
    parse_latencies,
    print_latencies,
)
from rtsim.cli.processes import outputs_at_end, print_outputs
from rtsim.cli.trusting import trust_options
from rtsim.cli.viewing import Viewable, Viewed, place_options, quiet_option, told_of, typed
from rtsim.core.errors import ScenarioError
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.pilot.launching import Window
from rtsim.scenario.controller_part import ControllerPart
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.trust import anything_given


@click.command(cls=Viewable)
@optional_flight_options
@latency_option
@click.option(
    "--from",
    "start",
    type=click.Path(path_type=Path),
    metavar="CHECKPOINT",
    help="Go on from there, with its scenario, seed and parameters; --force: though they changed.",
)
@json_option
@reports_errors
@trust_options
@place_options
@quiet_option
def run(
    flight: RunOptions,
    latencies: tuple[str, ...],
    start: Path | None,
    window: Window | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run SCENARIO: a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION].

    The recording goes to runs/NAME-NNN.mcap unless -o says otherwise.  --view shows it in a window
    while it goes on, at --pace 1 and --overrun slip:100000 unless others are given; closing the
    window does not end it, and rtsim view opens another.
    """
    if quiet and (window is None or window.served is not None):
        raise ScenarioError("--quiet goes with --view: what is not watched here makes no noise")
    viewed = None if window is None else Viewed(replace(window, quiet=quiet))
    if window is not None:
        pace = flight.pace if typed("pace") else "1.0"
        overrun = flight.overrun if typed("overrun") else FOR_A_PERSON
        here = window.served is None
        flight = replace(flight, pace=pace, overrun=overrun, watched=here)
    if start is None and anything_given():
        raise ScenarioError("--scenario and --trust go with --from CHECKPOINT; leave them out")
    if start is not None:
        go_on(flight, latencies, start, viewed, as_json)
    given: Given = {}

    def prepare(scenario: Scenario) -> None:
        nonlocal given
        given = parse_latencies(latencies, list(scenario.of(ControllerPart)), of_all=False)
        for name, latency in allowed(given).items():
            scenario.allow(name, latency)

    watch = None if viewed is None else viewed.watch
    flown = fly(flight, quiet=as_json, prepare=prepare, watch=watch)
    more = {"latency": latencies_to_json(given)} if given else {}
    _show(flown, viewed, more, partial(print_latencies, given), as_json)


def go_on(
    flight: RunOptions,
    latencies: tuple[str, ...],
    start: Path,
    viewed: Viewed | None,
    as_json: bool,
) -> None:
    """The same from a checkpoint; ends the command."""
    given = {
        "SCENARIO": flight.scenario,
        "--seed": flight.seed,
        "--set": flight.settings,
        "--faults": flight.faults,
        "--plain": flight.plain,
        "--checked": flight.checked,
        "--latency": latencies,
    }
    for name, value in given.items():
        if value:
            raise ScenarioError(
                f"--from {start} says what is run, and {name} would change it; leave one out"
            )
    going_on = GoingOn.open(Checkpoint.open(start), flight.force)
    watch = None if viewed is None else viewed.watch
    flown = fly(flight, quiet=as_json, going_on=going_on, watch=watch)
    _show(flown, viewed, {}, lambda: None, as_json)
    sys.exit(0)


def _show(
    flown: RunSummary,
    viewed: Viewed | None,
    more: Mapping[str, Any],
    print_more: Callable[[], None],
    as_json: bool,
) -> None:
    """What came of it, and the exit status that says so."""
    seen = {} if viewed is None else {"view": viewed.figures(flown.outcome.reason)}
    system = flown.outcome.system
    processes = outputs_at_end(system)
    more = {**more, **({"processes": processes} if processes else {})}

    def rest() -> None:
        print_outputs(system)
        print_more()
        for figures in seen.values():
            for line in told_of(figures):
                click.echo(line)

    if as_json:
        show_json({**flown.summary(), **more, **seen})
    else:
        flown.print(rest)
    flown.exit()
