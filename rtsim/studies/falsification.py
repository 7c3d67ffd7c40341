"""Falsification: search for a run that violates a requirement."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.tag import Duration
from rtsim.engine.faults.description import Given as GivenFault
from rtsim.requirements.requirement import NOT_EXERCISED, Given, Requirement, gather
from rtsim.runs.progress import display_of
from rtsim.scenario.loading import ScenarioMaker
from rtsim.scenario.scenario import Scenario
from rtsim.studies.counterexample import Counterexample
from rtsim.studies.designs.search import Search
from rtsim.studies.factors import spread
from rtsim.studies.folder import PLAN, Folder, StudyError
from rtsim.studies.input_signals import InputSignal, input_signals, whole_name
from rtsim.studies.measures import ERROR, FAILED, LOST, NAN, TIMEOUT, margin_column
from rtsim.studies.one_run import Runner
from rtsim.studies.plan import Plan, text_of
from rtsim.studies.progress import StudyProgress
from rtsim.studies.running import carry_out, plan_of
from rtsim.studies.study import Study
from rtsim.studies.summary import ENDS, summarise
from rtsim.studies.texts import Value, runs_of
from rtsim.studies.workers import Where

NO_PROOF = "this is not a proof that none exists"
_BECAUSE = f"{NOT_EXERCISED}, because "


@dataclass(frozen=True)
class Falsification(Judged):
    """The result of a search for a violation of a requirement.

    The outcome is failed if a counterexample was found, and otherwise undecided.
    """

    requirement: Requirement
    method: str
    runs: int
    """Number of runs that were made."""
    needed: int | None
    """Number of runs up to the first violation; ``None`` without a violation."""
    robustness: float
    """Smallest robustness of a run. An undecided run counts with its upper bound."""
    ended: str
    """Why the search ended."""
    seconds: float
    run: int | None
    """Number of the run of the counterexample."""
    counterexample: Counterexample | None
    """The run with the smallest robustness of those that violate the requirement."""
    undecided: int
    """Number of runs that leave the requirement undecided."""
    not_exercised: int = 0
    """Number of undecided runs that do not exercise the requirement."""
    problem: str = ""
    """Why the search proves even less than usual, such as runs with errors."""
    searched: bool = True
    """False if no run decided the requirement, if a run that exercises the requirement leaves it
    undecided, or if a run has no results.
    """
    guards_failed: int = 0
    """Number of runs that ended at a guard that declares a failure."""
    folder: Path | None = None

    def _judge(self) -> Outcome:
        failed = self.counterexample is not None or self.guards_failed
        return Outcome.FAILED if failed else Outcome.UNDECIDED

    @property
    def status(self) -> int:
        return 1 if self._judge() is Outcome.FAILED else 0 if self.searched else 2

    @property
    def in_words(self) -> str:
        name, why = self.requirement.name, f"; {self.problem}" if self.problem else ""
        if self.counterexample is not None:
            return f"{name} is violated in run {self.run}, robustness {self.robustness:.6g}{why}"
        if not self.searched:
            others = self.runs - self.undecided
            some = f" in each of {runs_of(self.runs)}" if self.undecided and others else ""
            return f"the search could not decide {name}{some}{why}"
        least = f"smallest robustness {self.robustness:.6g}"
        none = f"no violation of {name} found in {runs_of(self.runs)}, {least}"
        return f"{none}; {NO_PROOF}{why}"

    @property
    def ended_in_words(self) -> str:
        return ENDS[self.ended]

    @property
    def values(self) -> dict[str, Value]:
        """Values of the counterexample by name; control points of inputs are ``TARGET[k]``."""
        found = self.counterexample
        if found is None:
            return {}
        waves = ((one.target, k, p) for one in found.inputs for k, (_, p) in enumerate(one.points))
        return {**found.values, **{f"{target}[{k}]": value for target, k, value in waves}}

    def to_json(self) -> dict[str, Any]:
        found = self.counterexample
        example = None if found is None else {"run": self.run, **found.to_json()}
        return {
            "requirement": self.requirement.to_plain(), "method": self.method, "runs": self.runs,
            "runs_to_violation": self.needed, "ended": self.ended, "seconds": self.seconds,
            "robustness": self.robustness if math.isfinite(self.robustness) else None,
            "undecided": self.undecided, "not_exercised": self.not_exercised,
            "problem": self.problem, "counterexample": example,
            "folder": None if self.folder is None else str(self.folder),
            "in_words": self.in_words, "outcome": self._judge().name.lower(),
        }  # fmt: skip


def falsify(
    scenario: str,
    inputs: Mapping[str, InputSignal | str] | None = None,
    *,
    requirements: Sequence[Given] = (),
    requirement: str = "",
    factors: Mapping[str, object] | None = None,
    settings: Mapping[str, Value] | None = None,
    method: str = "cma",
    runs: int = 500,
    seconds: float | None = None,
    seed: int = 0,
    until: Duration | None = None,
    stop: bool = True,
    population: int = 0,
    faults: Sequence[GivenFault] = (),
    folder: str | Path | None = None,
    where: Where | int | None = 0,
    progress: StudyProgress | bool | None = None,
) -> Falsification:
    """Search for inputs and values that make a run violate a requirement.

        found = falsify("cart.py:cart", {"command.wanted": "pieces:4,-1,1"}, requirement="SPEED")
        if found.counterexample: print(found.values)

    Equal arguments give equal runs, with any number of workers.

    Args:
        scenario: A name, or ``FILE.py:FUNCTION``.
        inputs: Input signals by target: ``"component.name"``, or a component with one signal.
        requirements: Requirements in addition to those of the scenario.
        requirement: Name of the requirement to violate. The default is the only one.
        factors: Further variables, as in :class:`Study`: parameters, initial values, latencies,
            numbers of faults such as ``"stuck.at"``, and arguments of the scenario's function.
        settings: Values that are the same in all runs.
        method: Search method, one of :data:`SEARCH_METHODS`.
        runs: Largest number of runs.
        seconds: Wall-clock time after which no further runs begin, s.
        seed: Seed of the search, from which the common seed of all runs is computed.
        until: End of each run, s. The default is the end of the scenario.
        stop: True to end after the first generation with a violation.
        population: Runs of a generation; 0 for the default of the method.
        faults: Faults in addition to those of the scenario: fault files, or dicts.
        folder: Folder for the runs. A search that was interrupted continues in its folder. By
            default, the runs are not stored.
        where: Number of worker processes: 0 for this process, ``None`` for one for each CPU.
        progress: Whether to show progress; by default on a terminal and in a notebook.
    """
    began = stopwatch()
    where = where if isinstance(where, Where) else Where(where)
    own = gather(requirements)
    made = _first(scenario, factors or {}, settings or {})
    chosen = _chosen(requirement, own, made)
    signals = [
        replace(one, target=whole_name(made, one.target)) for one in input_signals(inputs or {})
    ]
    search = Search(
        chosen.name, runs, population, stop_at_failure=stop, method=method, seconds=seconds
    )
    study = Study(
        factors or {}, search, requirements=[chosen], settings=settings or {}, seed=seed,
        until=until,
        inputs=signals, scenario=scenario, faults=faults,
    )  # fmt: skip
    plan = plan_of(_file_of(scenario), study, where, only=chosen.name)
    shown = progress if isinstance(progress, StudyProgress) else StudyProgress(display_of(progress))
    place: AbstractContextManager[Any] = nullcontext(folder)
    if folder is None:
        place = TemporaryDirectory(prefix="rtsim-falsify-", ignore_cleanup_errors=True)
    with closing(shown), place as path:
        opened = _opened(Path(path) if folder is not None else Path(path, "search"), plan)
        with opened.locked():
            carry_out(opened, where, shown.show, named=True)
        with opened.read_once():
            return _result(opened, scenario, began, None if folder is None else Path(path))


def _first(scenario: str, factors: Mapping[str, object], settings: Mapping[str, Value]) -> Scenario:
    arguments = {name: spread(one).middle() for name, one in factors.items() if "." not in name}
    values = {**settings, **arguments}
    return ScenarioMaker(scenario).make({name: text_of(value) for name, value in values.items()})


def _chosen(requirement: str, own: Sequence[Requirement], scenario: Scenario) -> Requirement:
    every = {one.name: one for one in gather((*scenario.requirements, *own))}
    names = [one.name for one in own or scenario.requirements]
    if requirement:
        if requirement not in every:
            raise UnknownName("requirement", requirement, every, "the search")
        return _with_formula(every[requirement])
    if len(names) != 1:
        raise ScenarioError(
            f"the search violates one requirement, but there are {len(names)} "
            f"({', '.join(names) or 'none'}); name one by --requirement NAME, or give one by "
            "--require 'NAME: FORMULA'"
        )
    return _with_formula(every[names[0]])


def _with_formula(requirement: Requirement) -> Requirement:
    if requirement.chain is not None:
        raise ScenarioError(
            f"{requirement.name} limits a chain, but the search violates formulas; name another "
            "requirement by --requirement NAME, or search with a study"
        )
    return requirement


def _file_of(scenario: str) -> str:
    file, ending, _ = scenario.partition(".py:")
    return f"{file}.py" if ending else scenario


def _opened(path: Path, plan: Plan) -> Folder:
    if not (path / PLAN).exists():
        return Folder.new(path, plan)
    found = Folder.open(path)
    if found.plan.digest != plan.digest:
        raise StudyError(
            f"{path} contains another search or study; give another -o FOLDER, or repeat the "
            "command with which the search began"
        )
    return found


def _result(folder: Folder, scenario: str, began: int, path: Path | None) -> Falsification:
    summary, plan = summarise(folder), folder.plan
    search, states = summary["search"], summary["states"]
    design = plan.sampled
    assert isinstance(design, Search)
    judged = summary["requirements"][design.requirement]
    (of,) = (one for one in plan.job.formula_requirements if one.name == design.requirement)
    wrong = {state: states[state] for state in (ERROR, NAN, TIMEOUT, LOST) if states[state]}
    problems = [f"{runs_of(many)} in the state {state}" for state, many in wrong.items()]
    if wrong:
        rows = folder.table("run", "state", "cause").to_pylist()
        problems.append(next(f"run {r['run']}: {r['cause']}" for r in rows if r["state"] in wrong))
    if states[FAILED]:
        guards = ", ".join(summary["failures"])
        problems.append(f"{runs_of(states[FAILED])} ended at a guard that declares a failure: "
                        f"{guards}")  # fmt: skip
    idle = judged["not_exercised"]
    if still_open := judged["undecided"] - idle:
        leave = "leaves" if still_open == 1 else "leave"
        problems.append(f"{runs_of(still_open)} {leave} it undecided: {judged['why_undecided']}")
    if idle:
        why = "" if still_open else f": {judged['why_undecided'].removeprefix(_BECAUSE)}"
        problems.append(f"{runs_of(idle)} {'does' if idle == 1 else 'do'} not exercise it{why}")
    least, first = search["smallest_margin"], search["first_miss"]
    requirement = Requirement(of.name, of.formula, of.text)
    run = found = None
    if first is not None:
        run, found = _counterexample(folder, scenario, requirement)
    decided = judged["count"] > judged["undecided"]
    return Falsification(
        requirement=requirement, method=design.method, runs=summary["rows"],
        needed=None if first is None else first + 1,
        robustness=math.inf if least is None else least, ended=summary["ended"],
        seconds=(stopwatch() - began) * 1e-9, run=run, counterexample=found,
        undecided=judged["undecided"], not_exercised=idle, problem="; ".join(problems),
        searched=decided and not still_open and not wrong, guards_failed=states[FAILED],
        folder=path,
    )  # fmt: skip


def _counterexample(folder: Folder, scenario: str, of: Requirement) -> tuple[int, Counterexample]:
    column = margin_column(of.name)
    columns = folder.columns("run", column)
    run = int(columns["run"][np.nanargmin(columns[column])])
    job, order = folder.plan.job, folder.orders[run]
    until_ns = Runner(job).until_ns(order)
    found = Counterexample.of_factors(
        scenario, of, until_ns, order.factors, tuple(job.signals), job.settings, order.seed,
        job.injected,
    )  # fmt: skip
    return run, found
