"""``rtsim run``: fly a scenario, paced or as fast as possible, and record it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rtsim.checkpoint.file import Checkpoint
from rtsim.cli.checkpoints import GoingOn
from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.flight import Flight, fly, optional_flight_options
from rtsim.cli.latency import (
    Given,
    allowed,
    latencies_to_json,
    latency_option,
    parse_latencies,
    print_latencies,
)
from rtsim.cli.tables import console
from rtsim.errors import ScenarioError
from rtsim.parts import ControllerPart
from rtsim.scenario import Scenario


@click.command()
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
def run(flight: Flight, latencies: tuple[str, ...], start: Path | None, as_json: bool) -> None:
    """Run SCENARIO: a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION].

    The recording goes to runs/NAME-NNN.mcap unless -o says otherwise.
    """
    if start is not None:
        go_on(flight, latencies, start, as_json)
    given: Given = {}

    def prepare(scenario: Scenario) -> None:
        nonlocal given
        known = [n for n, part in scenario.parts.items() if isinstance(part, ControllerPart)]
        given = parse_latencies(latencies, known, of_all=False)
        for name, latency in allowed(given).items():
            scenario.allow(name, latency)

    flown = fly(flight, quiet=as_json, prepare=prepare)
    if as_json:
        more = {"latency": latencies_to_json(given)} if given else {}
        show_json({**flown.summary(), **more})
    else:
        flown.print(lambda: print_latencies(console(), given))
    flown.exit()


def go_on(flight: Flight, latencies: tuple[str, ...], start: Path, as_json: bool) -> None:
    """The same from a checkpoint; ends the command."""
    given = {
        "SCENARIO": flight.scenario,
        "--seed": flight.seed,
        "--set": flight.settings,
        "--faults": flight.faults,
        "--plain": flight.plain,
        "--latency": latencies,
    }
    for name, value in given.items():
        if value:
            raise ScenarioError(
                f"--from {start} says what is run, and {name} would change it; leave one out"
            )
    flown = fly(flight, quiet=as_json, going_on=GoingOn.open(Checkpoint.open(start), flight.force))
    if as_json:
        show_json(flown.summary())
    else:
        flown.print()
    flown.exit()
    sys.exit(0)
