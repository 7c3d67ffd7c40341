"""``rtsim falsify``: search for inputs and values with which a run violates a requirement."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rtsim.cli.common import json_option, reports_errors, show_result, sigterm_interrupts
from rtsim.cli.options import option, parse_settings
from rtsim.cli.study import where_options
from rtsim.runs.progress import TerminalLine
from rtsim.studies.falsification import Falsification
from rtsim.studies.falsification import falsify as search
from rtsim.studies.progress import StudyProgress
from rtsim.studies.summary import shown
from rtsim.studies.texts import runs_of, split, value_of
from rtsim.studies.workers import Where


@click.command()
@click.argument("scenario")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=TEXT",
    help="Input signal to vary: NAME=pieces:8,-1,1 (8 constant pieces from -1 to 1), "
    "NAME=linear:5,-1,1 or NAME=spline:5,-1,1, with rate=2 (per s), period=0.1 (s) or times=free; "
    "repeatable.",
)
@click.option(
    "--factor",
    "factors",
    multiple=True,
    metavar="NAME=TEXT",
    help="Value to vary: a parameter, an initial value or an argument of the scenario, such as "
    "cart.x=range:-1,1 or latency=range:0,0.2; repeatable.",
)
@option("--require", help="Requirement NAME: FORMULA, or a requirement file (.toml); repeatable.")
@click.option(
    "--requirement",
    metavar="NAME",
    default="",
    help="Requirement to violate.  [default: the only requirement]",
)
@click.option(
    "--method",
    default="cma",
    show_default=True,
    help="Search method: cma, differential_evolution, latin_hypercube or random.",
)
@click.option("--runs", type=int, default=500, show_default=True, help="Largest number of runs.")
@click.option(
    "--time",
    "seconds",
    metavar="S",
    help="Begin no further runs after this wall-clock time, such as 60s.  [default: no limit]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the search.")
@option("--until", help="End of each run, simulated s.  [default: the scenario's own]")
@option("--set", help="Set a value that is equal in all runs; repeatable.")
@click.option("--all", "every", is_flag=True, help="Continue after the first violation.")
@click.option(
    "-o",
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder for the runs. The same command continues an interrupted search.  [default: the "
    "runs are not stored]",
)
@where_options
@json_option
@reports_errors
def falsify(
    scenario: str,
    inputs: tuple[str, ...],
    factors: tuple[str, ...],
    requirements: tuple[str, ...],
    requirement: str,
    method: str,
    runs: int,
    seconds: str | None,
    seed: int,
    until: str | None,
    settings: tuple[str, ...],
    every: bool,
    folder: Path | None,
    where: Where,
    as_json: bool,
) -> None:
    """Search for inputs and values with which a run of SCENARIO violates a requirement.

    The search ends after the first violation, or when the number of runs or the time is reached. A
    search without a violation does not prove that none exists.

    \b
    Examples:
      rtsim falsify cart.py:cart --requirement SPEED --input command=pieces:4,-1,1
      rtsim falsify cart.py:cart --require 'FAST: always abs(cart.v) < 2 m/s' \\
          --input command.wanted=linear:5,-1,1,rate=2 --factor cart.x=range:-1,1 --time 60s

    Exit status: 1 if a requirement is violated or a run ended at a guard that declares a failure; 0
    if the search found no violation; 2 if the search could not decide the requirement; 130 if
    interrupted.
    """
    line = TerminalLine() if sys.stderr.isatty() and not as_json else None
    with sigterm_interrupts():
        try:
            found = search(
                scenario, dict(split(text, "--input") for text in inputs),
                requirements=requirements, requirement=requirement,
                factors=dict(split(text, "--factor") for text in factors),
                settings={n: value_of(t) for n, t in parse_settings(settings).items()},
                method=method, runs=runs, seconds=_seconds(seconds), seed=seed, until=until,
                stop=not every, folder=folder, where=where,
                progress=StudyProgress(line, first_ns=0),
            )  # fmt: skip
        except KeyboardInterrupt as interrupt:
            more = "" if folder is None else "; to continue, type the same command again"
            raise KeyboardInterrupt(f"interrupted{more}") from interrupt
    why = found.in_words if found.status else None
    if as_json:
        show_result(found.to_json(), found.status, why)
    else:
        _print(found)
    sys.exit(found.status)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text.strip().removesuffix("s"))
    except ValueError:
        raise click.UsageError(f"--time {text!r} is not a time in s; write --time 60s") from None


def _print(found: Falsification) -> None:
    click.echo(found.in_words)
    for name, value in found.values.items():
        click.echo(f"  {name} = {shown(value)}")
    first = "" if found.needed is None else f", {found.needed} up to the first violation"
    click.echo(
        f"{runs_of(found.runs)}{first}, in {found.seconds:.3g} s by the method {found.method}; the "
        f"search ended because {found.ended_in_words}"
    )
    if found.folder is not None:
        click.echo(f"folder: {found.folder}")
