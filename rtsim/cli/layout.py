"""``rtsim layout``: a layout of PlotJuggler or Foxglove with the views of a scenario."""

from __future__ import annotations

from pathlib import Path

import click

from rtsim.cli.common import reports_errors
from rtsim.cli.completion import scenario_names, setting_names
from rtsim.cli.settings import parse_settings
from rtsim.cli.tables import console
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.record.output_files import write_whole


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path),
    required=True,
    help="File to write: .xml for PlotJuggler, .json for Foxglove.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an argument of the scenario or a value of a component; repeatable.",
    shell_complete=setting_names,
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@reports_errors
def layout(scenario: str, path: Path, settings: tuple[str, ...], force: bool) -> None:
    """Write a layout of PlotJuggler or Foxglove that shows the views of SCENARIO.

    \b
    Examples:
      rtsim layout f16 -o f16.xml
      rtsim layout cart.py -o cart.json
    """
    from rtsim.gateway.layouts import FORMATS
    from rtsim.scenario.loading import load_scenario

    make = FORMATS.get(path.suffix)
    if make is None:
        raise ScenarioError(
            f"{path} has the suffix {path.suffix or 'none'}; give -o FILE.xml for PlotJuggler, or "
            "-o FILE.json for Foxglove"
        )
    if path.is_file() and not force:
        raise RecordingError(f"{path} exists; give another -o PATH, or --force to overwrite it")
    text = make(load_scenario(scenario, parse_settings(settings)))
    try:
        write_whole(path, text)
    except OSError as error:
        raise RecordingError(f"cannot write {path}: {error.strerror}") from error
    console().print(f"layout: {path}", soft_wrap=True)
