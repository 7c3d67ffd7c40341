"""``rtsim run``: fly a scenario, paced or as fast as possible, and record it."""

from __future__ import annotations

import click

from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.flight import Flight, flight_options, fly
from rtsim.cli.latency import (
    Given,
    allowed,
    latencies_to_json,
    latency_option,
    parse_latencies,
    print_latencies,
)
from rtsim.cli.tables import console
from rtsim.parts import ControllerPart
from rtsim.scenario import Scenario


@click.command()
@flight_options
@latency_option
@json_option
@reports_errors
def run(flight: Flight, latencies: tuple[str, ...], as_json: bool) -> None:
    """Run SCENARIO: a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION].

    The recording goes to runs/NAME-NNN.mcap unless -o says otherwise.
    """
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
