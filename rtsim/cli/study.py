"""``rtsim study``: run a study, show its results, or repeat one of its runs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from rtsim.cli.common import (
    FAILED,
    INTERRUPTED,
    NO,
    F,
    json_option,
    reports_errors,
    show_result,
    sigterm_interrupts,
)
from rtsim.cli.options import option, parse_settings, trust_options, with_options, with_options_as
from rtsim.cli.recordings import check_page
from rtsim.cli.run_options import FOR_A_PERSON
from rtsim.cli.window import Viewable, Viewed, place_options, quiet_option, told_of, typed, viewer
from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Outcome
from rtsim.pilot.processes import Window
from rtsim.runs.progress import ProgressLine, TerminalLine
from rtsim.runs.request import Connections, Pace
from rtsim.scenario.scenario import Scenario
from rtsim.studies.designs import Design, MonteCarlo, Search, design_of_text
from rtsim.studies.folder import Folder
from rtsim.studies.measures import Required, requirements_of
from rtsim.studies.plan import find_study
from rtsim.studies.progress import StudyProgress
from rtsim.studies.running import Repeated, begin, carry_out, recorded, required_names
from rtsim.studies.study import Study
from rtsim.studies.summary import Summary, command, shown, summarise, worst_case
from rtsim.studies.texts import runs_of, split_all, value_of
from rtsim.studies.workers import Where
from rtsim.timing.policy import parse_policy
from rtsim.timing.scheduling import SchedulingRequest


@dataclass(frozen=True)
class Composed:
    """The command-line options that define a study, as typed by the user."""

    factors: tuple[str, ...] = ()
    design: str | None = None
    runs: int | None = None
    results: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    seed: int | None = None
    until: str | None = None
    limit: float | None = None
    keep: tuple[str, ...] = ()
    histories: tuple[str, ...] = ()
    stop: str | None = None
    faults: tuple[Path, ...] = ()

    def study(self, scenario: str, design: Design | None = None) -> Study:
        """Return the study that the file and the options define.

        An option for the design replaces the design of the file and its rule for an early stop.
        """
        found = find_study(scenario)
        changes: dict[str, Any] = {
            "factors": split_all(self.factors, "--factor"),
            "results": split_all(self.results, "--result"),
            "settings": {n: value_of(t) for n, t in parse_settings(self.settings).items()},
        }
        given: dict[str, Any] = {"seed": self.seed, "until": self.until, "limit": self.limit}
        given["stop"] = self.stop
        given = {name: value for name, value in given.items() if value is not None}
        if self.keep:
            given["keep"] = self.keep
        if self.requirements:
            given["requirements"] = self._required(() if found is None else found.required)
        if self.faults:
            given["faults"] = (*(() if found is None else found.injected), *self.faults)
        if self.histories:
            before = () if found is None else tuple(found.histories)
            given["histories"] = tuple(dict.fromkeys((*before, *self.histories)))
        if found is not None:
            for name, more in changes.items():
                changes[name] = {**getattr(found, name), **more}
        if design is None:
            design = self._design(MonteCarlo() if found is None else found.sampled)
        else:
            given["stop"] = None
        changes = {**changes, **given, "design": design}
        return Study(**changes) if found is None else replace(found, **changes)

    def _required(self, before: Sequence[Required]) -> tuple[Required, ...]:
        typed = requirements_of(tuple(dict.fromkeys(self.requirements)))
        own = {one.name: one for one in typed}
        if len(own) < len(typed):
            return tuple(typed)  # the study reports the repeated name
        replaced = [own.pop(one.name, one) for one in before]
        return (*replaced, *own.values())

    def _design(self, before: Design) -> Design:
        design = before if self.design is None else design_of_text(self.design)
        if self.runs is None:
            return design
        kinds: Any = design
        if not isinstance(getattr(design, "runs", None), int) or "runs" not in {
            one.name for one in fields(kinds)
        }:
            raise ScenarioError(
                f"--runs {self.runs} does not fit the design {design.name}, whose number of runs "
                "follows from its other values; give these values with --design"
            )
        out: Design = replace(kinds, runs=self.runs)
        return out


_DESIGN = click.option(
    "--design",
    metavar="TEXT",
    help="Design of the study, such as latin_hypercube:runs=200, grid:levels=5 or "
    "saltelli:base=256.  [default: monte_carlo]",
)
_RUNS = click.option("--runs", type=int, help="Number of runs.  [default: the design's own]")
_MOST_RUNS = click.option(
    "--runs", type=int, default=1000, show_default=True, help="Largest number of runs."
)
_STOP = click.option(
    "--stop",
    metavar="TEXT",
    help="End the study early if the confidence interval of a result is narrow enough. "
    "peak:0.01,looks=100 200 compares the half-width of the interval of peak with 0.01 after 100 "
    "and after 200 runs.",
)
_COMPOSING = (
    click.option(
        "--factor",
        "factors",
        multiple=True,
        metavar="NAME=TEXT",
        help="Vary a value: NAME=norm:2,0.1 (a distribution of scipy.stats), NAME=range:1,3 or "
        "NAME=values:1,2,5. NAME is an argument of the scenario, a value of a component (f16.cg) "
        "or a number of a fault (stuck.at); repeatable.",
    ),
    _DESIGN,
    _RUNS,
    click.option(
        "--result",
        "results",
        multiple=True,
        metavar="NAME=TEXT",
        help="Result of each run, such as peak=max_abs:plant.x,after=2; repeatable.",
    ),
    click.option(
        "--require",
        "requirements",
        multiple=True,
        metavar="TEXT",
        help="Requirement on a result, such as 'peak<0.5', '0.9<end<1.0' or 'NAME=peak<0.5', or "
        "'NAME: FORMULA' in temporal logic, or a requirement file (.toml). "
        "Without NAME, the requirement has the name of its result. The requirement replaces a "
        "requirement of the same name in the study of the file; repeatable.",
    ),
    option("--set", help="Set a value that is equal in all runs; repeatable."),
    option("--faults", help="Fault file to apply to each run (docs/faults.md); repeatable."),
    option(
        "--seed",
        type=int,
        default=None,
        help="Seed of the study.  [default: the study's own, or 0]",
    ),
    option("--until", help="End of each run, simulated s.  [default: the scenario's own]"),
    click.option(
        "--limit",
        type=float,
        help="Longest wall-clock time of one run, s; needs worker processes.  [default: none]",
    ),
    click.option(
        "--keep",
        multiple=True,
        metavar="WHICH",
        help="Runs to record: failures, extremes (of each result), or a fraction of all runs such "
        "as 0.01; repeatable.",
    ),
    click.option(
        "--history",
        "histories",
        multiple=True,
        metavar="SIGNAL",
        help="Store this signal of each run at up to 200 times, for 'rtsim study report'; "
        "repeatable.",
    ),
    _STOP,
)


def composing_options(command: F) -> F:
    return with_options_as(Composed, "composed", command, _COMPOSING)


def search_options(command: F) -> F:
    others = [one for one in _COMPOSING if one not in (_DESIGN, _RUNS, _STOP)]
    return with_options_as(Composed, "composed", command, [_MOST_RUNS, *others])


_WHERE = (
    click.option(
        "--workers",
        type=int,
        help="Number of worker processes on this machine; 0: run in this process.  [default: one "
        "for each CPU]",
    ),
    click.option(
        "--cluster",
        metavar="ADDRESS",
        default="",
        help="Use the workers of this Dask scheduler, such as tcp://10.0.0.1:8786.",
    ),
    click.option(
        "--scheduler-file",
        metavar="FILE",
        default="",
        help="Use the workers of the Dask scheduler that wrote this file.",
    ),
)


def where_options(command: F) -> F:
    @wraps(command)
    def collected(workers: int | None, cluster: str, scheduler_file: str, **options: Any) -> Any:
        if sum((workers is not None, bool(cluster), bool(scheduler_file))) > 1:
            raise click.UsageError(
                "--workers, --cluster and --scheduler-file exclude each other; give one of them"
            )
        return command(where=Where(workers, cluster, scheduler_file), **options)

    return with_options(collected, _WHERE)  # type: ignore[no-any-return]


# ``rtsim study run``: repeat one run of a study


@click.command("run", cls=Viewable)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("number", type=int, metavar="K")
@option("--record", help="Recording to write.")
@option("--force", help="Overwrite an existing recording.")
@option(
    "--pace",
    help="Simulated seconds per second of wall-clock time (1.0 is real time), or max.",
)
@json_option
@reports_errors
@trust_options
@place_options
@quiet_option
def run_again(
    folder: Path,
    number: int,
    path: Path | None,
    force: bool,
    pace: str,
    window: Window | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Repeat run K of the study in FOLDER, and check that the results are identical.

    --view shows the run in a window, with --pace 1 unless you give another pace. Neither changes
    the digest.

    \b
    Examples:
      rtsim study run tank-study 4711 -o run.mcap
      rtsim study run tank-study 4711 --pace 1
      rtsim study run tank-study 4711 --view

    Exit status: 0 if the digests are equal; 1 if they differ, if the run ended at a guard that
    declares a failure, or if it raised an error or has a result that is not a number; 2 if nothing
    is compared; 130 if the run was ended before its end.
    """
    viewed = viewer(window, quiet)
    line = ProgressLine(f"run {number}", sys.stderr.isatty() and not as_json)
    found = recorded(
        Folder.open(folder), number, path, pace=_pace(pace, window), overwrite=force,
        live=_watched(viewed, line),
    )  # fmt: skip
    figures = None if viewed is None else viewed.figures(found.row.reason)
    status, why = _replay_status(found)
    if as_json:
        data = {**found.row.columns(), "stored": found.stored, "equal": found.equal}
        more = {} if figures is None else {"view": figures}
        recording = None if path is None else str(path)
        show_result({**data, "recording": recording, **more}, status, why)
    else:
        _print(found, path, why)
        for text in () if figures is None else told_of(figures):
            click.echo(text)
    sys.exit(status)


def _pace(pace: str, window: Window | None) -> Pace:
    if window is None:
        return Pace.of(pace)
    here = window.served is None
    asked = SchedulingRequest.watched() if here else SchedulingRequest()
    given = pace if typed("pace") else "1.0"
    return Pace.of(given, policy=parse_policy(FOR_A_PERSON), scheduling=asked)


def _watched(
    viewed: Viewed | None, line: ProgressLine
) -> Callable[[Scenario], AbstractContextManager[Connections]]:
    @contextmanager
    def shown(scenario: Scenario) -> Iterator[Connections]:
        with sigterm_interrupts(), closing(line):
            if viewed is None:
                yield Connections(observe=line.show)
                return
            with viewed.watch(scenario, None) as (pictures, inbox):
                yield Connections(pictures, line.show, inbox)

    return shown


def _replay_status(found: Repeated) -> tuple[int, str | None]:
    row, run = found.row, found.row.order.run
    if found.undecided:
        return (INTERRUPTED if row.reason == "quit" else FAILED), found.undecided
    if not found.equal:
        return NO, f"run {run} differs: digest {row.digest}, but stored {found.stored}"
    if not row.complete:
        return NO, f"run {run} has the state {row.state}, as in the study: {row.cause}"
    return 0, None


def _print(found: Repeated, path: Path | None, why: str | None) -> None:
    row = found.row
    values: dict[str, Any] = {**row.order.factors, **row.values}
    for name, value in values.items():
        click.echo(f"{name} = {value if isinstance(value, str) else f'{value:.6g}'}")
    if row.cause and not found.equal:
        click.echo(f"{row.state}: {row.cause}")
    if found.equal:
        click.echo(f"run {row.order.run}: the digest equals the stored one")
    if why is not None:
        click.echo(why)
    if path is not None:
        click.echo(f"recording: {path}")


# The results of a study as text


def print_study(folder: Folder, found: dict[str, Any]) -> None:
    """Print counts, estimates and pass rates of a study."""
    states = ", ".join(f"{many} {state}" for state, many in found["states"].items() if many)
    click.echo(f"{found['rows']} of {found['runs']} runs ({found['design']}): {states or 'none'}")
    for name, one in found["results"].items():
        click.echo(f"  {name}: {_estimate(one)}{_extremes(one)}")
    for name, one in found["requirements"].items():
        text = f"  {one['requirement']}: {_met(one)}"
        click.echo(text if name == one["result"] else f"{text} [{name}]")
    design = folder.plan.sampled
    if design.planned and not design.random and _has_intervals(found):
        click.echo(
            f"  the design {design.name} chooses its runs together; intervals hold only for "
            "independent runs"
        )
    stop = folder.plan.stopping
    if stop is not None:
        click.echo(f"  {stop.stated}")
    for name, rows in found.get("alternatives", {}).items():
        for row in rows:
            difference = row.get("difference")
            less = "" if difference is None else f"; difference {_estimate(difference)}"
            click.echo(f"  {name} at {row['value']}: {_estimate(row)}{less}")
    for guard, one in found["failures"].items():
        many = runs_of(one["runs"])
        click.echo(f"  failed at {guard}: {many}, first run {one['first_run']}: {one['failure']}")
    for state, row in _examples(folder, found):
        click.echo(f"  {state}: run {row['run']}: {row['cause']}")
    click.echo(f"folder: {folder.path}")


def print_search(folder: Folder, found: dict[str, Any]) -> None:
    """Print the worst run of a search, its factors, and how to repeat it."""
    one = worst_case(folder, found)
    click.echo(f"search of {found['search']['requirement']}: {one.ended}")
    for line in one.counts:
        click.echo(f"  {line}")
    if one.run is not None:
        click.echo(f"  {one.worst}:")
        for name, value in one.factors.items():
            click.echo(f"    {name} = {shown(value)}")
        click.echo(f"  repeat it: {command(folder, one.run, 'worst.mcap')}")


def print_sensitivity(result: str, indices: dict[str, dict[str, float]]) -> None:
    click.echo(f"sensitivity of {result}")
    for name, one in indices.items():
        texts = []
        for key, value in one.items():
            half = one.get(f"{key}_half")
            if not key.endswith("_half"):
                less = "" if half is None else f" ± {half:.2g}"
                texts.append(f"{_WORDS.get(key, key)} {value:.4g}{less}")
        click.echo(f"  {name}: {', '.join(texts)}")


_WORDS = {"first": "first order", "mu_star": "mu*"}
"""Names of the indices in the literature."""


def print_interactions(pairs: dict[tuple[str, str], dict[str, float]]) -> None:
    for (one, other), index in pairs.items():
        text = f"second order {index['second']:.3f} ± {index['second_half']:.3f}"
        click.echo(f"  {one} and {other}: {text}")


def _has_intervals(found: dict[str, Any]) -> bool:
    return any("low" in one for kind in ("results", "requirements") for one in found[kind].values())


def _met(one: dict[str, Any]) -> str:
    text = f"{one['passed']} of {one['count']} runs pass"
    if "share" in one:
        text += f", {one['share']:.4g} ({one['low']:.4g} to {one['high']:.4g})"
    if one["failed"]:
        text += f", {one['failed']} failed"
    if one["not_a_number"]:
        text += f", {one['not_a_number']} not a number"
    if one["undecided"]:
        text += f", {one['undecided']} undecided ({one['why_undecided']})"
    if one["without_result"]:
        text += f", {runs_of(one['without_result'])} without a result"
    if "worst_run" not in one:
        return text
    margin = one["worst_margin"]
    worst = "none (not a number)" if math.isnan(margin) else f"{margin:.4g}"
    return f"{text}; worst margin {worst} in run {one['worst_run']}"


def _estimate(one: dict[str, Any]) -> str:
    if "mean" not in one:
        return "no estimate"
    some = f" of {one['finite']} finite values" if one.get("not_finite") else ""
    return f"mean {one['mean']:.5g} ({one['low']:.5g} to {one['high']:.5g}){some}"


def _extremes(one: dict[str, Any]) -> str:
    less = f", {one['not_finite']} not finite" if one["not_finite"] else ""
    if "min" not in one:
        return less
    return f", from {one['min']:.5g} to {one['max']:.5g}{less}"


def _examples(folder: Folder, found: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    told = ("ok", "failed")
    wanted = [state for state, many in found["states"].items() if many and state not in told]
    if not wanted:
        return []
    rows = folder.table("run", "state", "cause").to_pylist()
    return [(state, next(row for row in rows if row["state"] == state)) for state in wanted]


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
    help="Exit with status 1 if a run violates a requirement or ends with a declared failure, and "
    "with status 2 if the study is undecided.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def study() -> None:
    """Run a scenario many times, for Monte Carlo, design and sensitivity studies.

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
    """Run a study of SCENARIO: a name, or FILE.py[:FUNCTION] with a function study().

    The options change the study that the file defines, or define a new study. The results of all
    runs are one table in the folder FOLDER/results. pandas, polars and DuckDB can read this folder
    as a Parquet table.

    \b
    Examples:
      rtsim study start tank.py
      rtsim study start unstable --factor plant.stiffness=norm:2,0.1 --runs 1000 \\
          --result 'peak=max_abs:plant.x,after=2' --require 'peak<0.5'
      rtsim study start tank.py --design saltelli:base=256 --workers 4

    Exit status: 0 if all runs have results; 1 if a run failed; 2 if runs are missing or took too
    long; 130 after an interruption. With --strict, the exit status is 0 if the study passed, 1 if
    it failed, and 2 if the result is undecided.
    """
    made = begin(scenario, composed.study(scenario), folder, where)
    _carry_out(made, where, strict, as_json, named=True)


@study.command()
@click.argument("scenario")
@_new_folder
@click.option(
    "--requirement",
    metavar="NAME",
    help="Name of the requirement whose margin the search minimises.  [default: the only "
    "requirement]",
)
@click.option(
    "--population",
    type=int,
    default=0,
    help="Number of runs in each generation.  [default: 5 for each factor, at least 20]",
)
@click.option(
    "--within",
    type=float,
    default=0.998,
    show_default=True,
    help="Fraction of each distribution, around the median, from which the search takes values.",
)
@click.option(
    "--stop-at-failure",
    is_flag=True,
    help="End the search after the first generation with a run that violates the requirement.",
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
    """Search for the run of SCENARIO with the smallest margin of one requirement.

    The method is differential evolution, which chooses the factors of the next runs from the
    margins of earlier runs. A search that finds no violation is not a proof that none exists.

    \b
    Examples:
      rtsim study search tank.py
      rtsim study search unstable --factor latency=range:0,0.03 \\
          --result 'peak=max_abs:plant.x,after=2' --require 'peak<0.5' --stop-at-failure

    Exit status: 0 if the search has ended; 1 if a run raised an error or a result is not a number;
    2 if runs are missing, were lost or took too long, or if no run decides the requirement; 130 if
    interrupted. With --strict, the exit status is 1 if a requirement was violated, and 2 if no
    violation was found.
    """
    study = composed.study(scenario, MonteCarlo())
    names = required_names(scenario, study) if requirement is None else [requirement]
    if len(names) != 1:
        raise ScenarioError(
            f"the study has {len(names)} requirements ({', '.join(names) or 'none'}); name one by "
            "--requirement NAME, or give one by --require TEXT"
        )
    assert composed.runs is not None  # the option has a default
    design = Search(names[0], composed.runs, population, within, stop_at_failure)
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
    """Run the missing runs of the study in FOLDER.

    \b
    Examples:
      rtsim study resume tank-study
      rtsim study resume tank-study --workers 2
    """
    _carry_out(Folder.open(folder), where, strict, as_json)


def _carry_out(
    folder: Folder, where: Where, strict: bool, as_json: bool, named: bool = False
) -> None:
    line = StudyProgress(
        TerminalLine() if sys.stderr.isatty() and not as_json else None, first_ns=0
    )
    new = folder.removed_if_refused() if named else nullcontext()
    with new, sigterm_interrupts(), folder.locked():
        try:
            carry_out(folder, where, line.show, recordings=line.recordings, named=named)
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
    """Show the results of the study in FOLDER: estimates, pass rates and failed runs.

    \b
    Examples:
      rtsim study show tank-study
      rtsim study show tank-study --sensitivity peak --json
    """
    _show(Folder.open(folder), strict, as_json, of, digest=True)


def _show(
    folder: Folder, strict: bool, as_json: bool, of: str | None = None, digest: bool = False
) -> None:
    with folder.read_once():
        status = _shown(folder, strict, as_json, of, digest)
    sys.exit(status)


def _shown(folder: Folder, strict: bool, as_json: bool, of: str | None, digest: bool) -> int:
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

    The page shows pass rates, distributions, plots over time, the influence of the factors, and the
        worst runs.
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
    reasons = [one for one in summary.reasons() if strict or not one.strict]
    outcome = Outcome.of_all(one.outcome for one in reasons) if reasons else Outcome.PASSED
    for one in reasons:
        if one.outcome is outcome:
            more = f"; type rtsim study resume {folder}" if one.resumed else ""
            return outcome.value, f"{one.why}{more}"
    return outcome.value, None


study.add_command(run_again)
