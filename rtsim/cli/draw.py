"""``rtsim draw``: the components of a scenario and their wires as a picture."""

from __future__ import annotations

from pathlib import Path

import click

from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.completion import scenario_names, setting_names
from rtsim.cli.settings import parse_settings
from rtsim.cli.tables import console
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.record.reports.drawing import Drawing, check_suffix


@click.command()
@click.argument("scenario", shell_complete=scenario_names)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set an argument of the scenario or a value of a component; repeatable.",
    shell_complete=setting_names,
)
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path),
    help="File to write: .svg, .dot (Graphviz) or .mmd (Mermaid).  [default: print Mermaid text]",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
@reports_errors
def draw(
    scenario: str, settings: tuple[str, ...], path: Path | None, force: bool, as_json: bool
) -> None:
    """Draw the components of SCENARIO, their wires and latencies; nothing is run.

    SCENARIO can also be a recording (.mcap). A box has the step or the period, an arrow the names
    of the signals and the latency of their messages. Dashed arrows are events.

    \b
    Examples:
      rtsim draw f16 -o f16.svg
      rtsim draw runs/f16-001.mcap -o f16.svg
      rtsim draw cart.py --set delay=0.2
    """
    if path is not None:
        check_suffix(path)
        if path.is_file() and not force:
            raise RecordingError(f"{path} exists; give another -o PATH, or --force to overwrite it")
    drawing = _drawing(scenario, settings)
    if path is not None:
        drawing.save(path)
    if as_json:
        where = None if path is None else str(path)
        show_result({"drawing": where, "mermaid": drawing.mermaid})
    elif path is None:
        click.echo(drawing.mermaid, nl=False)
    else:
        console().print(f"drawing: {path}", soft_wrap=True)


def _drawing(scenario: str, settings: tuple[str, ...]) -> Drawing:
    if not scenario.endswith(".mcap"):
        from rtsim.scenario.loading import load_scenario

        return load_scenario(scenario, parse_settings(settings)).draw()
    from rtsim.record.reading import Recording
    from rtsim.record.reports.drawing import drawn

    if settings:
        raise ScenarioError(f"--set: {scenario} is a recording, whose values are fixed")
    return drawn(Recording.open(Path(scenario)).header.get("scenario"))
