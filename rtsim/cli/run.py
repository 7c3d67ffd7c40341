"""``rtsim run``: fly a scenario, paced or as fast as possible, and record it."""

from __future__ import annotations

import click

from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.flight import Flight, flight_options, fly


@click.command()
@flight_options
@json_option
@reports_errors
def run(flight: Flight, as_json: bool) -> None:
    """Run SCENARIO: a name ('rtsim scenarios' lists them) or FILE.py[:FUNCTION].

    The recording goes to runs/NAME-NNN.mcap unless -o says otherwise.
    """
    flown = fly(flight, quiet=as_json)
    if as_json:
        show_json(flown.summary())
    else:
        flown.print()
    flown.exit()
