"""The options that compose a study, and that choose its workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any

import click

from rtsim.cli.common import F
from rtsim.cli.options import option, parse_settings, with_options
from rtsim.core.errors import ScenarioError
from rtsim.studies.designs import Design, MonteCarlo, design_of_text
from rtsim.studies.plan import find_study
from rtsim.studies.requirements import Requirement
from rtsim.studies.study import Study
from rtsim.studies.texts import split, value_of
from rtsim.studies.workers import Where


@dataclass(frozen=True)
class Composed:
    """The options that compose a study, as they were typed."""

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

    def study(self, scenario: str, design: Design | None = None) -> Study:
        """Return the study of the file with these changes, or a study of the options alone.

        ``design`` replaces the design of the file, and also its rule for an early stop.
        """
        found = find_study(scenario)
        changes: dict[str, Any] = {
            "factors": dict(split(text, "--factor") for text in self.factors),
            "results": dict(split(text, "--result") for text in self.results),
            "settings": {n: value_of(t) for n, t in parse_settings(self.settings).items()},
        }
        given: dict[str, Any] = {"seed": self.seed, "until": self.until, "limit": self.limit}
        given["stop"] = self.stop
        given = {name: value for name, value in given.items() if value is not None}
        if self.keep:
            given["keep"] = self.keep
        if self.requirements:
            given["requirements"] = self._required(() if found is None else found.required)
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

    def _required(self, before: Sequence[Requirement]) -> tuple[Requirement, ...]:
        """Return the requirements ``before``, of which the options replace those of their names."""
        typed = [Requirement.of_text(text) for text in dict.fromkeys(self.requirements)]
        own = {one.name: one for one in typed}
        if len(own) < len(typed):
            return tuple(typed)  # the study says which name is given twice
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
    help="Design with its values, such as latin_hypercube:runs=200, grid:levels=5 or "
    "saltelli:base=256.  [default: monte_carlo]",
)
_RUNS = click.option("--runs", type=int, help="Number of runs.  [default: the design's own]")
_MOST_RUNS = click.option(
    "--runs", type=int, default=1000, show_default=True, help="Largest number of runs."
)
_STOP = click.option(
    "--stop",
    metavar="TEXT",
    help="Stop early if an interval is narrow: peak:0.01,looks=100 200 stops after 100 or 200 "
    "runs if the half-width of the interval of peak is at most 0.01.",
)
_COMPOSING = (
    click.option(
        "--factor",
        "factors",
        multiple=True,
        metavar="NAME=TEXT",
        help="Vary a value: NAME=norm:2,0.1 (a distribution of scipy.stats), NAME=range:1,3 or "
        "NAME=values:1,2,5; repeatable.",
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
        help="Requirement on a result, such as 'peak<0.5' or '0.9<end<1.0', or with a name: "
        "'NAME=peak<0.5'. It replaces the file's requirement of the same name, which is by default "
        "the name of the result; repeatable.",
    ),
    option("--set", help="Set a value that is equal in all runs; repeatable."),
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
        help="Keep recordings: failures, extremes (of each result), or a share of the runs such "
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
    """Decorator: add the options that compose a study, as the argument ``composed``."""
    return _composing(command, _COMPOSING)


def search_options(command: F) -> F:
    """Like :func:`composing_options`, for a study whose design is a search."""
    others = [one for one in _COMPOSING if one not in (_DESIGN, _RUNS, _STOP)]
    return _composing(command, [_MOST_RUNS, *others])


def _composing(command: F, added: Sequence[Any]) -> F:
    names = [one.name for one in fields(Composed)]

    @wraps(command)
    def collected(**options: Any) -> Any:
        own = {name: options.pop(name) for name in names if name in options}
        return command(composed=Composed(**own), **options)

    return with_options(collected, added)  # type: ignore[no-any-return]


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
    """Decorator: add the options that choose the workers, as the argument ``where``."""

    @wraps(command)
    def collected(workers: int | None, cluster: str, scheduler_file: str, **options: Any) -> Any:
        if sum((workers is not None, bool(cluster), bool(scheduler_file))) > 1:
            raise click.UsageError(
                "--workers, --cluster and --scheduler-file exclude each other; give one of them"
            )
        return command(where=Where(workers, cluster, scheduler_file), **options)

    return with_options(collected, _WHERE)  # type: ignore[no-any-return]
