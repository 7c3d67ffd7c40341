"""``rtsim fly``: a person flies, in a window of its own process, and it is recorded."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.flight import RunOptions, person_options
from rtsim.cli.flight import fly as fly_flight
from rtsim.cli.tables import console
from rtsim.cli.viewing import HERE, Viewable, Viewed, place_options, quiet_option, what_became_of
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal
from rtsim.pilot.flights import FLOWN_AS, Flyable
from rtsim.pilot.launching import Window
from rtsim.scenario.parts import ExternalInputPart
from rtsim.scenario.scenario import Scenario


@click.command(cls=Viewable)
@person_options
@click.option(
    "--mapping",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.toml",
    help="Which axis and key moves what; 'rtsim joystick calibrate' writes one. "
    "rtsim/pilot/devices/aircraft.toml is the one in use.",
)
@json_option
@reports_errors
@partial(place_options, view=HERE)
@quiet_option
def fly(
    flight: RunOptions, mapping: Path | None, window: Window | None, quiet: bool, as_json: bool
) -> None:
    """Fly SCENARIO by hand: f16, or FILE.py with an inlet that a person moves.

    Stick, gamepad, or keyboard and mouse; F1 in the window shows the keys.  Closing the window does
    not end the flight: rtsim view opens another, Esc in it or Ctrl-C ends the flight.  The
    recording replays bit for bit, with rtsim replay.
    """
    flyable = FLOWN_AS.get(flight.scenario, Flyable(flight.scenario))
    flight = replace(flight, scenario=flyable.scenario)
    window = replace(window or Window(), mapping=mapping, quiet=quiet)
    if window.served is not None and (mapping is not None or quiet):
        raise ScenarioError("--mapping and --quiet go to rtsim view, where the stick is")
    flight = replace(flight, watched=window.served is None)
    viewed = Viewed(window, lambda s: flyable.stick or inlet_of(s))
    flown = fly_flight(flight, quiet=as_json, watch=viewed.watch)
    latency = viewed.figures(flown.outcome.reason)
    if as_json:
        show_json({**flown.summary(), "pilot": latency})
    else:
        flown.print(lambda: _print_latency(latency))
    flown.exit()


def inlet_of(scenario: Scenario) -> str:
    """The only one; its signals are such that a stick can move them."""
    inlets = scenario.of(ExternalInputPart)
    if len(inlets) != 1:
        raise ScenarioError(
            f"{scenario.name} has {len(inlets)} inlets ({', '.join(sorted(inlets)) or 'none'}); "
            "a person moves exactly one: declare it with scenario.inlet(name, signals, device)"
        )
    ((name, part),) = inlets.items()
    for signal in part.inlet.signals:
        _check_moved(signal, f"{name}.{signal.name}")
    return name


def _check_moved(signal: Signal, name: str) -> None:
    """A stick's axis moves one number between two others."""
    if signal.shape:
        raise ScenarioError(
            f"{name} has {signal.size} elements, and a person moves single numbers; declare a "
            "scalar signal for each"
        )
    if not signal.low < signal.high:
        raise ScenarioError(
            f"{name} lies between {signal.low:g} and {signal.high:g}, where nothing can be moved; "
            "give low < high"
        )


_LATENCIES = {
    "input_to_step": "input to step",
    "input_to_picture": "input to picture",
    "interpolation": "interpolation, that picture before the newest state",
}


def _print_latency(latency: dict[str, Any]) -> None:
    """Input to step, input to picture, and what interpolation holds that picture back by."""
    out = console()
    for name, says in _LATENCIES.items():
        row = latency[name]
        if not row["count"]:
            if name != "interpolation":
                out.print(f"{says}: the stick was not moved", soft_wrap=True)
            continue
        median, p95, most = (row[key] / 1e6 for key in ("median_ns", "p95_ns", "max_ns"))
        out.print(
            f"{says}: median {median:.2f} ms, 95 % {p95:.2f} ms, most {most:.2f} ms",
            soft_wrap=True,
        )
    for line in what_became_of(latency):
        out.print(line, soft_wrap=True)
    if latency["silences"]:
        times = latency["silences"]
        out.print(f"the viewer fell silent {times} times: stick held, then safe", soft_wrap=True)
