"""``rtsim fmu`` and ``rtsim export-c``: models for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.fmu_files import check, info, run
from rtsim.cli.options import option, parse_settings, scenario_names
from rtsim.core.errors import RecordingError, ScenarioError

if TYPE_CHECKING:
    from rtsim.fmi.description import Description

_plant = click.option(
    "--plant",
    default="",
    metavar="NAME",
    help="Export only this plant; its inputs become inputs.  [default: the whole loop]",
)
_systems = click.option(
    "--system",
    "systems",
    multiple=True,
    metavar="NAME",
    help="System of the library, such as x86_64-linux; can be repeated.",
)


@click.group()
def fmu() -> None:
    """Exchange models with other tools as FMUs (FMI 2.0 and 3.0)."""


for _command in (info, check, run):
    fmu.add_command(_command)


@fmu.command()
@click.argument("scenario", shell_complete=scenario_names)
@_plant
@click.option(
    "--fmi",
    "version",
    default="3.0",
    show_default=True,
    help="Version of the FMI standard: 2.0 or 3.0.",
)
@_systems
@option("--set")
@option("--output", required=True, help="FMU to write, with the suffix .fmu.")
@option("--force")
@json_option
@reports_errors
def export(
    scenario: str,
    plant: str,
    version: str,
    systems: tuple[str, ...],
    settings: tuple[str, ...],
    path: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Write a plant or the complete loop of SCENARIO as an FMU that runs without Python.

    The FMU contains compiled code for Linux, Windows and macOS on x86-64 and ARM64. A plant
    supports Model Exchange and Co-Simulation; a loop supports Co-Simulation.

    \b
    Examples:
      rtsim fmu export ball --plant ball -o ball.fmu
      rtsim fmu export f16 --fmi 2.0 --system x86_64-linux -o f16.fmu
    """
    from rtsim.fmi.exporting import export_fmu
    from rtsim.scenario.loading import load_scenario

    if path.suffix != ".fmu":
        raise ScenarioError(f"{path} is not the name of an FMU; give -o FILE.fmu")
    _free(path, force)
    loaded = load_scenario(scenario, parse_settings(settings))
    made = export_fmu(loaded, path, plant=plant, version=version, systems=systems)
    if as_json:
        show_result({"fmu": str(path), "fmi": version, **_about(made)})
        return
    kinds = "Model Exchange and Co-Simulation" if made.exchange else "Co-Simulation"
    click.echo(f"{path}: FMI {version}, {kinds}, {len(made.variables)} variables")


def _about(made: Description) -> dict[str, object]:
    return {
        "model_exchange": made.exchange,
        "variables": [one.name for one in made.variables],
        "step_s": made.step,
    }


def _free(path: Path, force: bool) -> None:
    if path.is_file() and not force:
        raise RecordingError(f"{path} exists; give another -o PATH, or --force to overwrite it")


@click.command("export-c")
@click.argument("scenario", shell_complete=scenario_names)
@_plant
@_systems
@option("--set")
@option("--output", required=True, help="Folder for the header and the library.")
@option("--force")
@json_option
@reports_errors
def export_c(
    scenario: str,
    plant: str,
    systems: tuple[str, ...],
    settings: tuple[str, ...],
    path: Path,
    force: bool,
    as_json: bool,
) -> None:
    """Write a plant or the complete loop of SCENARIO as a C header and a shared library.

    The library needs no Python. Without --system, the library is for this computer's operating
    system.

    \b
    Examples:
      rtsim export-c ball -o ball
      rtsim export-c f16 --system aarch64-linux -o f16
    """
    from rtsim.fmi.exporting import export_c as export_library
    from rtsim.scenario.loading import load_scenario

    if path.is_dir() and any(path.iterdir()) and not force:
        raise RecordingError(f"{path} is not empty; give another -o FOLDER, or --force")
    loaded = load_scenario(scenario, parse_settings(settings))
    files = export_library(loaded, path, plant=plant, systems=systems)
    if as_json:
        show_result({"files": [str(file) for file in files]})
        return
    for file in files:
        click.echo(f"wrote {file}")
