"""``rtsim falsify``: search for a run that violates a requirement."""

from __future__ import annotations

import re
import shlex
import sys
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import click

from rtsim.cli.common import json_option, reports_errors, show_result, sigterm_interrupts
from rtsim.cli.options import option, parse_settings
from rtsim.cli.study import where_options
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S
from rtsim.runs.progress import TerminalLine
from rtsim.studies.counterexample import SUFFIX, Counterexample, check_replaceable
from rtsim.studies.factors import spread
from rtsim.studies.falsification import Falsification
from rtsim.studies.falsification import falsify as search
from rtsim.studies.progress import StudyProgress
from rtsim.studies.shrinking import Shrunk, shrunk
from rtsim.studies.summary import shown
from rtsim.studies.texts import runs_of, split_all, value_of
from rtsim.studies.workers import Where


@click.command()
@click.argument("scenario")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="NAME=TEXT",
    help="Input signal to vary, such as NAME=pieces:8,-1,1 (8 constant pieces from -1 to 1), "
    "NAME=linear:5,-1,1 or NAME=spline:5,-1,1; repeatable.  docs/falsification.md lists the "
    "options of an input signal.",
)
@click.option(
    "--factor",
    "factors",
    multiple=True,
    metavar="NAME=TEXT",
    help="Value to vary: a parameter, an initial value, a latency, a number of a fault or an "
    "argument of the scenario, such as cart.x=range:-1,1, pull.compute=range:0,0.2 or "
    "stuck.at=range:0,5; repeatable.",
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
@option("--faults", help="Fault file to apply to each run (docs/faults.md); repeatable.")
@click.option("--all", "every", is_flag=True, help="Continue after the first violation.")
@click.option(
    "-o",
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder for the runs. The same command continues an interrupted search.  [default: the "
    "runs are not stored]",
)
@click.option(
    "--latency", hidden=True, expose_value=False, callback=lambda *given: _no_latency(given[-1])
)
@click.option(
    "--no-shrink", is_flag=True, help="Do not simplify the run that violates the requirement."
)
@click.option(
    "--save",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File for the run that violates the requirement. A pytest test is written beside this "
    "file.  [default: REQUIREMENT.counterexample.toml, or the next free number]",
)
@option("--force", help="Overwrite an existing counterexample and its test.")
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
    faults: tuple[Path, ...],
    every: bool,
    folder: Path | None,
    no_shrink: bool,
    path: Path | None,
    force: bool,
    where: Where,
    as_json: bool,
) -> None:
    """Search for inputs and parameter values that make SCENARIO violate a requirement.

    The search ends at the first violation, or at the limit of runs or time. A search that finds no
    violation is not a proof that none exists. rtsim simplifies a violating run, and saves it in a
    file for 'rtsim run --counterexample' and in a pytest test.

    \b
    Examples:
      rtsim falsify cart.py:cart --requirement SPEED --input command=pieces:4,-1,1
      rtsim falsify cart.py:cart --require 'FAST: always abs(cart.v) < 2 m/s' \\
          --input command.wanted=linear:5,-1,1,rate=2 --factor cart.x=range:-1,1 --time 60s
      rtsim falsify cart.py:cart --requirement SPEED --faults faults.toml \\
          --factor stuck.at=range:0,5

    Exit status: 1 if a requirement is violated or a run ended at a guard that declares a failure; 0
    if the search found no violation; 2 if the search could not decide the requirement, because no
    run exercises it, or because a run leaves it undecided or has no results; 130 if interrupted.
    """
    if path is not None:
        _check_free(path, force)
    varied: dict[str, object] = {**split_all(factors, "--factor")}
    line = TerminalLine() if sys.stderr.isatty() and not as_json else None
    with sigterm_interrupts():
        try:
            found = search(
                scenario, split_all(inputs, "--input"),
                requirements=requirements, requirement=requirement,
                factors=varied,
                settings={n: value_of(t) for n, t in parse_settings(settings).items()},
                method=method, runs=runs, seconds=_seconds(seconds), seed=seed, until=until,
                stop=not every, faults=faults, folder=folder, where=where,
                progress=StudyProgress(line, first_ns=0),
            )  # fmt: skip
        except KeyboardInterrupt as interrupt:
            more = "" if folder is None else "; to continue, type the same command again"
            raise KeyboardInterrupt(f"interrupted{more}") from interrupt
        small = None
        if found.counterexample is not None and not no_shrink:
            spreads = {name: spread(text) for name, text in varied.items()}
            try:
                small = shrunk(found.counterexample, spreads)
            except KeyboardInterrupt as interrupt:  # the search can have taken hours
                kept = _saved(found.counterexample, None, path)
                where_to = kept.problem or f"the run that was found is in {kept.files[0]}"
                raise KeyboardInterrupt(f"{found.in_words}; {where_to}") from interrupt
    files = None if found.counterexample is None else _saved(found.counterexample, small, path)
    why = found.in_words if found.status else None
    if as_json:
        extra: dict[str, Any] = {}
        if small is not None:
            extra["shrunk"] = {
                **small.counterexample.to_json(), "runs": small.runs, "complete": small.complete,
                "robustness": small.robustness,
            }  # fmt: skip
        if files is not None:
            extra["files"] = [str(file) for file in files.files]
            extra["not_written"] = files.problem
        show_result({**found.to_json(), **extra}, found.status, why)
    else:
        _print(found)
        if small is not None:
            _print_small(found, small)
        if files is not None:
            _print_files(scenario, files)
    sys.exit(found.status)


def _no_latency(given: str | None) -> None:
    if given is not None:
        raise click.UsageError(
            "falsify has no --latency; type --factor NAME.compute=range:0,0.2 to vary the latency "
            "of controller NAME, or --set NAME.compute=0.1"
        )


class _Files(NamedTuple):
    files: tuple[Path, ...] = ()
    problem: str = ""


def _saved(found: Counterexample, small: Shrunk | None, path: Path | None) -> _Files:
    one = found if small is None else small.counterexample
    file = _first_unused_counterexample_path(one.name) if path is None else path
    test = _test_of(file)
    try:
        one.save(file)
        one.save_test(test, file)
    except ScenarioError as error:  # the violation counts without the file
        return _Files(problem=str(error))
    return _Files((file, test))


def _test_of(file: Path) -> Path:
    name = re.sub(r"\W", "_", file.name.removesuffix(SUFFIX).removesuffix(".toml"))
    return file.with_name(f"test_{name}.py")


def _first_unused_counterexample_path(name: str) -> Path:
    files = (Path(f"{name}{'' if k == 1 else f'.{k}'}{SUFFIX}") for k in count(1))
    return next(one for one in files if not (one.exists() or _test_of(one).exists()))


def _check_free(path: Path, force: bool) -> None:
    if not (path.name and path.parent.is_dir()):
        raise ScenarioError(
            f"there is no folder {path.parent} for --save '{path}'; create it, or give another FILE"
        )
    for one in (path, _test_of(path)):
        if force:
            check_replaceable(one)
        elif one.exists():
            raise ScenarioError(
                f"{one} exists; give another --save FILE, or --force to overwrite the "
                "counterexample and its test"
            )


def _print_small(found: Falsification, small: Shrunk) -> None:
    one, before = small.counterexample, found.counterexample
    assert before is not None
    points, many = (sum(len(wave.points) for wave in c.inputs) for c in (one, before))
    part = "" if small.complete else "; the number of runs ended the search for a smaller one"
    click.echo(
        f"made smaller in {runs_of(small.runs)}: {points} of {many} control points, robustness "
        f"{small.robustness:.6g}{part}"
    )
    for name, value in one.values.items():
        click.echo(f"  {name} = {shown(value)}")
    for wave in one.inputs:
        values = ", ".join(f"{value:g} at {ns / NS_PER_S:g} s" for ns, value in wave.points)
        click.echo(f"  {wave.target}: {values}")
    click.echo(f"  end of the run: {one.until_ns / NS_PER_S:g} s")


def _print_files(scenario: str, files: _Files) -> None:
    if files.problem:
        click.echo(f"not written: {files.problem}")
        return
    file, test = files.files
    click.echo(f"written: {file}, {test}")
    click.echo(f"next: rtsim run {shlex.quote(scenario)} --counterexample {shlex.quote(str(file))}")


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
