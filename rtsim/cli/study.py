"""``rtsim study``: many runs of one scenario, on every core or on a Dask cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import (
    FAILED,
    NO,
    json_option,
    reports_errors,
    show_result,
)
from rtsim.cli.interrupts import sigterm_interrupts
from rtsim.cli.recordings import check_page
from rtsim.cli.study_options import Composed, composing_options, where_options
from rtsim.cli.study_progress import StudyLine
from rtsim.cli.study_tables import print_sensitivity, print_study
from rtsim.cli.trust import trust_options
from rtsim.studies.cluster import Where
from rtsim.studies.folder import Folder
from rtsim.studies.running import begin, carry_out, recorded
from rtsim.studies.summary import summarise

_folder = click.argument("folder", type=click.Path(path_type=Path))
_strict = click.option(
    "--strict", is_flag=True, help="Exit with status 1 if a run misses a requirement."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def study() -> None:
    """Run one scenario many times: Monte Carlo, designs of experiments, sensitivity analysis.

    \b
    Examples:
      rtsim study start tank.py -o tank-study
      rtsim study resume tank-study
      rtsim study show tank-study
      rtsim study report tank-study
      rtsim study run tank-study 4711 -o run.mcap
    """


@study.command()
@click.argument("scenario")
@click.option(
    "-o",
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder for the plan and the results.  [default: studies/NAME-NNN]",
)
@composing_options
@where_options
@_strict
@json_option
@reports_errors
def start(
    scenario: str,
    folder: Path | None,
    composed: Composed,
    where: Where,
    strict: bool,
    as_json: bool,
) -> None:
    """Start a study of SCENARIO: a name, or FILE.py[:FUNCTION] with a function study().

    The options change the study of the file, or compose one if the file has none. 'rtsim study
    start' ends when each run has a row in the folder FOLDER/results, which pandas, polars and
    DuckDB read as one Parquet table.

    \b
    Examples:
      rtsim study start tank.py
      rtsim study start unstable --factor plant.stiffness=norm:2,0.1 --runs 1000 \\
          --result 'peak=max_abs:plant.x,after=2' --require 'peak<0.5'
      rtsim study start tank.py --design saltelli:base=256 --workers 4

    Exit status: 0 if every run has its results; 1 if a run raised an error or a result is not a
    number; 2 if runs are missing, were lost or took too long; 130 if interrupted.
    """
    made = begin(scenario, composed.study(scenario), folder)
    _carry_out(made, where, strict, as_json)


@study.command()
@_folder
@where_options
@_strict
@json_option
@reports_errors
@trust_options
def resume(folder: Path, where: Where, strict: bool, as_json: bool) -> None:
    """Continue the study in FOLDER: run what has no row yet.

    \b
    Examples:
      rtsim study resume tank-study
      rtsim study resume tank-study --workers 2
    """
    _carry_out(Folder.open(folder), where, strict, as_json)


def _carry_out(folder: Folder, where: Where, strict: bool, as_json: bool) -> None:
    line = StudyLine(folder, sys.stderr.isatty() and not as_json)
    with sigterm_interrupts(), folder.locked():
        try:
            carry_out(folder, where, line.show)
        except KeyboardInterrupt as interrupt:
            raise KeyboardInterrupt(
                f"interrupted; to continue, type rtsim study resume {folder.path}"
            ) from interrupt
        finally:
            line.close()
    _show(folder, strict, as_json)


@study.command()
@_folder
@click.option(
    "--sensitivity",
    "of",
    metavar="RESULT",
    help="Also print the Sobol indices or Morris effects of this result.",
)
@_strict
@json_option
@reports_errors
def show(folder: Path, of: str | None, strict: bool, as_json: bool) -> None:
    """Show the results of the study in FOLDER so far: estimates, pass rates, failed runs.

    \b
    Examples:
      rtsim study show tank-study
      rtsim study show tank-study --sensitivity peak --json
    """
    _show(Folder.open(folder), strict, as_json, of)


def _show(folder: Folder, strict: bool, as_json: bool, of: str | None = None) -> None:
    """Print the results of a study, and exit with its status."""
    found = summarise(folder)
    indices: Any = None
    if of is not None:
        from rtsim.studies.indices import sensitivity

        indices = sensitivity(folder, of)
    status, why = _status(found, strict)
    if as_json:
        more = {} if indices is None else {"sensitivity": indices}
        show_result({"folder": str(folder.path), **found, **more}, status, why)
    else:
        print_study(folder, found)
        if indices is not None:
            print_sensitivity(str(of), indices)
        if why is not None:
            click.echo(why)
    sys.exit(status)


@study.command()
@_folder
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="HTML file to write.  [default: FOLDER/report.html]",
)
@_strict
@json_option
@reports_errors
def report(folder: Path, output: Path | None, strict: bool, as_json: bool) -> None:
    """Write a self-contained HTML page about the study in FOLDER.

    \b
    Examples:
      rtsim study report tank-study
      rtsim study report tank-study -o tank.html --json

    The page has the results so far: pass rates, distributions, time histories, the influence of the
    factors, convergence, and the worst runs with the commands that repeat them. The exit status is
    that of 'rtsim study show'.
    """
    opened = Folder.open(folder)
    target = output or folder / "report.html"
    check_page(target)
    from rtsim.studies.report.page import write_report

    found = write_report(opened, target)
    status, why = _status(found, strict)
    if as_json:
        show_result({"folder": str(folder), "report": str(target), **found}, status, why)
    else:
        click.echo(f"report: {target}")
        if why is not None:
            click.echo(why)
    sys.exit(status)


def _status(found: dict[str, Any], strict: bool) -> tuple[int, str | None]:
    """Return the exit status of a study, and why it is not 0."""
    states = found["states"]
    if wrong := states["error"] + states["nan"]:
        return NO, f"{wrong} of {found['runs']} runs raised an error or have a result that is NaN"
    if gone := states["timeout"] + states["lost"]:
        return FAILED, f"{gone} of {found['runs']} runs took too long or lost their process"
    if missing := found["runs"] - found["rows"]:
        return FAILED, f"{missing} of {found['runs']} runs are missing"
    if strict:
        for name, one in found["requirements"].items():
            if missed := one["count"] - one["passed"]:
                return NO, f"{missed} of {one['count']} runs miss the requirement {name}"
    return 0, None


@study.command("run")
@_folder
@click.argument("number", type=int, metavar="K")
@click.option("-o", "--record", "path", type=click.Path(path_type=Path), help="Recording to write.")
@click.option("--force", is_flag=True, help="Overwrite an existing recording.")
@click.option(
    "--pace", default="max", show_default=True, help="Simulated seconds per second, or max."
)
@json_option
@reports_errors
@trust_options
def run_again(
    folder: Path, number: int, path: Path | None, force: bool, pace: str, as_json: bool
) -> None:
    """Run number K of the study in FOLDER again, and compare its digest with the stored one.

    \b
    Examples:
      rtsim study run tank-study 4711 -o run.mcap
      rtsim study run tank-study 4711 --pace 1

    Exit status: 0 if the digests are equal, 1 if they differ, 2 if the study has no digest of this
    run.
    """
    found = recorded(Folder.open(folder), number, path, pace=pace, overwrite=force)
    row = found.row
    status, why = 0, None
    if found.equal is None:
        status, why = FAILED, f"the study has no digest of run {number}, so nothing is compared"
    elif not found.equal:
        status, why = NO, f"run {number} differs: digest {row.digest}, but stored {found.stored}"
    if as_json:
        data = {**row.columns(), "stored": found.stored, "equal": found.equal}
        recording = None if path is None else str(path)
        show_result({**data, "recording": recording}, status, why)
    else:
        for name, value in {**row.order.factors, **row.values}.items():
            click.echo(f"{name} = {value if isinstance(value, str) else f'{value:.6g}'}")
        if row.cause:
            click.echo(f"{row.state}: {row.cause}")
        click.echo(why or f"run {number}: the digest equals the stored one")
        if path is not None:
            click.echo(f"recording: {path}")
    sys.exit(status)
