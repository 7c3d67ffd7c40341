"""``rtsim fly``: a person flies, in a window of its own process, and it is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.flight import Flight, flight_options
from rtsim.cli.flight import fly as fly_flight
from rtsim.cli.tables import console
from rtsim.control.desk import Inbox
from rtsim.errors import ScenarioError
from rtsim.executive import Publisher
from rtsim.parts import InletPart
from rtsim.pilot.flights import FLOWN_AS, Flyable
from rtsim.pilot.launching import ViewerProcess, Window
from rtsim.pilot.loop import Cockpit
from rtsim.scenario import Scenario


@click.command()
@flight_options
@click.option("--headless", is_flag=True, help="Open no window; see --frames.")
@click.option(
    "--frames",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Save what the window shows there, as PNG files.",
)
@click.option("--every", default=1.0, show_default=True, help="Seconds between two of --frames.")
@click.option(
    "--mapping",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.toml",
    help="Which axis and key moves what; rtsim/pilot/devices/aircraft.toml is the one in use.",
)
@click.option("--fps", default=60.0, show_default=True, help="Frames a second.")
@click.option("--size", default="1280x720", show_default=True, help="Of the window.")
@json_option
@reports_errors
def fly(
    flight: Flight,
    headless: bool,
    frames: Path | None,
    every: float,
    mapping: Path | None,
    fps: float,
    size: str,
    as_json: bool,
) -> None:
    """Fly SCENARIO by hand: f16, or FILE.py with an inlet that a person moves.

    In real time unless --pace says otherwise.  Stick, gamepad, or keyboard and mouse; F1 in the
    window shows the keys.  The recording replays bit for bit, with rtsim replay.
    """
    if every <= 0:
        raise ScenarioError(f"--every {every:g}; give seconds > 0")
    window = Window(headless, frames, every, mapping, fps, _size(size))
    flyable = FLOWN_AS.get(flight.scenario, Flyable(flight.scenario))
    flight = replace(flight, scenario=flyable.scenario)
    if flight.pace == "max":  # nobody flies as fast as possible; it is the option's own default
        flight = replace(flight, pace="1.0")
    cockpits: list[Cockpit] = []
    gone: list[bool] = []

    @contextmanager
    def watch(scenario: Scenario, gate: Inbox | None) -> Iterator[tuple[Publisher, Inbox]]:
        stick = flyable.stick or _inlet(scenario)
        about = {"scenario": flight.scenario, "scene": flyable.scene, **flyable.about}
        with (
            Cockpit(scenario, stick, about, gate) as cockpit,
            ViewerProcess(cockpit.shared.path, window) as viewer,
        ):
            cockpits.append(cockpit)
            yield cockpit.pictures, cockpit.inbox
            gone.append(not viewer.running)

    flown = fly_flight(flight, quiet=as_json, watch=watch)
    latency = cockpits[-1].latencies()
    latency["window_lost"] = gone[-1] and flown.outcome.reason == "end"
    if as_json:
        show_json({**flown.summary(), "pilot": latency})
    else:
        flown.print(lambda: _print_latency(latency))
    flown.exit()


def _size(text: str) -> str:
    width, x, height = text.partition("x")
    if not (x and width.isdigit() and height.isdigit()):
        raise ScenarioError(f"--size {text!r}; write WIDTHxHEIGHT, such as 1280x720")
    if not (160 <= int(width) <= 7680 and 120 <= int(height) <= 4320):
        raise ScenarioError(f"--size {text}; give 160x120 to 7680x4320")
    return text


def _inlet(scenario: Scenario) -> str:
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
