"""``rtsim fly``: a person flies, in a window of its own process, and it is recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.flight import Flight, flight_options
from rtsim.cli.flight import fly as fly_flight
from rtsim.cli.tables import console
from rtsim.cli.viewing import Viewed, quiet_option, window_options
from rtsim.errors import ScenarioError
from rtsim.parts import InletPart
from rtsim.pilot.flights import FLOWN_AS, Flyable
from rtsim.pilot.launching import Window
from rtsim.scenario import Scenario


@click.command()
@flight_options
@click.option(
    "--mapping",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.toml",
    help="Which axis and key moves what; rtsim/pilot/devices/aircraft.toml is the one in use.",
)
@json_option
@reports_errors
@window_options
@quiet_option
def fly(flight: Flight, mapping: Path | None, window: Window, quiet: bool, as_json: bool) -> None:
    """Fly SCENARIO by hand: f16, or FILE.py with an inlet that a person moves.

    In real time unless --pace says otherwise.  Stick, gamepad, or keyboard and mouse; F1 in the
    window shows the keys.  The recording replays bit for bit, with rtsim replay.
    """
    flyable = FLOWN_AS.get(flight.scenario, Flyable(flight.scenario))
    flight = replace(flight, scenario=flyable.scenario)
    if flight.pace == "max":  # nobody flies as fast as possible; it is the option's own default
        flight = replace(flight, pace="1.0")
    viewed = Viewed(
        replace(window, mapping=mapping, quiet=quiet), lambda s: flyable.stick or inlet_of(s)
    )
    flown = fly_flight(flight, quiet=as_json, watch=viewed.watch)
    latency = viewed.figures(flown.outcome.reason)
    if as_json:
        show_json({**flown.summary(), "pilot": latency})
    else:
        flown.print(lambda: _print_latency(latency))
    flown.exit()


def inlet_of(scenario: Scenario) -> str:
    """The only one."""
    inlets = [name for name, part in scenario.parts.items() if isinstance(part, InletPart)]
    if len(inlets) != 1:
        raise ScenarioError(
            f"{scenario.name} has {len(inlets)} inlets ({', '.join(sorted(inlets)) or 'none'}); "
            "a person moves exactly one: declare it with scenario.inlet(name, signals, device)"
        )
    return inlets[0]


def _print_latency(latency: dict[str, Any]) -> None:
    """Input to step, and input to picture."""
    out = console()
    for name in ("input_to_step", "input_to_picture"):
        row = latency[name]
        if not row["count"]:
            out.print(f"{name.replace('_', ' ')}: the stick was not moved", soft_wrap=True)
            continue
        median, p95, most = (row[key] / 1e6 for key in ("median_ns", "p95_ns", "max_ns"))
        out.print(
            f"{name.replace('_', ' ')}: median {median:.2f} ms, 95 % {p95:.2f} ms, "
            f"most {most:.2f} ms",
            soft_wrap=True,
        )
    if latency["window_lost"]:
        out.print("the window was gone before the end; the run went on alone", soft_wrap=True)
    if latency["silences"]:
        times = latency["silences"]
        out.print(f"the viewer fell silent {times} times: stick held, then safe", soft_wrap=True)
