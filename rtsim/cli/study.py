"""``rtsim study``: many runs of one scenario, on every core or on a Dask cluster."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.interrupts import sigterm_interrupts
from rtsim.cli.recordings import check_page
from rtsim.cli.study_again import run_again
from rtsim.cli.study_options import Composed, composing_options, search_options, where_options
from rtsim.cli.study_progress import StudyLine
from rtsim.cli.study_tables import (
    print_interactions,
    print_search,
    print_sensitivity,
    print_study,
)
from rtsim.cli.trust import trust_options
from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.studies.designs import MonteCarlo, Search
from rtsim.studies.folder import Folder
from rtsim.studies.running import begin, carry_out
from rtsim.studies.summary import Summary, summarise
from rtsim.studies.workers import Where

_folder = click.argument("folder", type=click.Path(path_type=Path))
_new_folder = click.option(
    "-o",
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder for the plan and the results.  [default: studies/NAME-NNN]",
)
_strict = click.option(
    "--strict",
    is_flag=True,
    help="Exit with status 1 if a run misses a requirement or ended at a guard that declares a "
    "failure, and with status 2 if the study is undecided: no run was compared with a requirement, "
    "or a search found no miss.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def study() -> None:
    """Run one scenario many times: Monte Carlo, designs of experiments, sensitivity analysis.

    \b
    Examples:
      rtsim study start tank.py -o tank-study
      rtsim study search tank.py -o tank-worst
      rtsim study resume tank-study
      rtsim study show tank-study
      rtsim study report tank-study
      rtsim study run tank-study 4711 -o run.mcap
    """


@study.command()
@click.argument("scenario")
@_new_folder
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
    number; 2 if runs are missing, were lost or took too long; 130 if interrupted. With --strict, it
    is that of the outcome.
    """
    made = begin(scenario, composed.study(scenario), folder, where)
    _carry_out(made, where, strict, as_json, named=True)


@study.command()
@click.argument("scenario")
@_new_folder
@click.option(
    "--requirement",
    metavar="NAME",
    help="Requirement whose margin becomes as small as possible.  [default: the only one]",
)
@click.option(
    "--population",
    type=int,
    default=0,
    help="Runs of each generation.  [default: 5 for each factor, at least 20]",
)
@click.option(
    "--within",
    type=float,
    default=0.998,
    show_default=True,
    help="Central share of each distribution that is searched.",
)
@click.option(
    "--stop-at-failure",
    is_flag=True,
    help="End after the first generation in which a run misses the requirement.",
)
@search_options
@where_options
@_strict
@json_option
@reports_errors
def search(
    scenario: str,
    folder: Path | None,
    requirement: str | None,
    population: int,
    within: float,
    stop_at_failure: bool,
    composed: Composed,
    where: Where,
    strict: bool,
    as_json: bool,
) -> None:
    """Search for the worst case of SCENARIO: the smallest margin of one requirement.

    Differential evolution chooses the factors of each generation of runs from the margins of the
    earlier runs. A search that finds no miss does not prove that there is none.

    \b
    Examples:
      rtsim study search tank.py
      rtsim study search unstable --factor latency=range:0,0.03 \\
          --result 'peak=max_abs:plant.x,after=2' --require 'peak<0.5' --stop-at-failure

    Exit status: 0 if the search has ended; 1 if a run raised an error or a result is not a number;
    2 if runs are missing, were lost or took too long; 130 if interrupted. With --strict, it is 1 if
    a run misses a requirement, and 2 if none does.
    """
    study = composed.study(scenario, MonteCarlo())
    names = [one.name for one in study.required]
    if requirement is None and len(names) != 1:
        raise ScenarioError(
            f"the study has {len(names)} requirements ({', '.join(names) or 'none'}); name one by "
            "--requirement NAME, or give one by --require TEXT"
        )
    assert composed.runs is not None  # the option has a default
    design = Search(requirement or names[0], composed.runs, population, within, stop_at_failure)
    made = begin(scenario, replace(study, design=design), folder, where)
    _carry_out(made, where, strict, as_json, named=True)


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


def _carry_out(
    folder: Folder, where: Where, strict: bool, as_json: bool, named: bool = False
) -> None:
    """Run what has no row yet, and show the results; ``named`` as :func:`carry_out` takes it."""
    line = StudyLine(folder, sys.stderr.isatty() and not as_json)
    new = folder.removed_if_refused() if named else nullcontext()
    with new, sigterm_interrupts(), folder.locked():
        try:
            carry_out(folder, where, line.show, keeping=line.keeping, named=named)
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
    _show(Folder.open(folder), strict, as_json, of, digest=True)


def _show(
    folder: Folder, strict: bool, as_json: bool, of: str | None = None, digest: bool = False
) -> None:
    """Print the results of a study, and exit with its status."""
    with folder.read_once():
        status = _shown(folder, strict, as_json, of, digest)
    sys.exit(status)


def _shown(folder: Folder, strict: bool, as_json: bool, of: str | None, digest: bool) -> int:
    """Print the results of a study, and return its exit status."""
    summary = summarise(folder)
    found = {"folder": str(folder.path), **summary}
    indices: Any = None
    pairs: Any = {}
    if of is not None:
        from rtsim.studies.summary import interactions, sensitivity

        indices, pairs = sensitivity(folder, of), interactions(folder, of)
    status, why = _status(summary, folder.path, strict)
    if as_json:
        more: dict[str, Any] = {} if indices is None else {"sensitivity": indices}
        if pairs:
            more["interactions"] = [{"factors": list(two), **one} for two, one in pairs.items()]
        show_result({**found, **more, "outcome": _name(summary)}, status, why)
    else:
        print_study(folder, found)
        if "search" in found:
            print_search(folder, found)
        if indices is not None:
            print_sensitivity(str(of), indices)
            print_interactions(pairs)
        if digest:
            click.echo(f"digest: {found['digest']}")
        if why is not None:
            click.echo(why)
    return status


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

    summary = write_report(opened, target)
    found = {"folder": str(folder), **summary}
    status, why = _status(summary, folder, strict)
    if as_json:
        show_result({**found, "report": str(target), "outcome": _name(summary)}, status, why)
    else:
        click.echo(f"report: {target}")
        if why is not None:
            click.echo(why)
    sys.exit(status)


def _name(summary: Summary) -> str:
    return summary.outcome.name.lower()


def _status(summary: Summary, folder: Path, strict: bool) -> tuple[int, str | None]:
    """Return the exit status of a study, and why it is not 0; ``strict``: that of its outcome."""
    reasons = [one for one in summary.reasons() if strict or not one.strict]
    outcome = Outcome.of_all(one.outcome for one in reasons) if reasons else Outcome.PASSED
    for one in reasons:
        if one.outcome is outcome:
            more = f"; type rtsim study resume {folder}" if one.resumed else ""
            return outcome.value, f"{one.why}{more}"
    return outcome.value, None


study.add_command(run_again)
