"""Summary of a study: estimates, pass rates, sensitivities and the worst case."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Vector
from rtsim.requirements.requirement import NOT_EXERCISED
from rtsim.studies.designs import DESIGNS
from rtsim.studies.designs.base import Columns, Indices, Marks, PairIndices
from rtsim.studies.folder import Folder, ranges, ranges_text
from rtsim.studies.interim_analysis import needed
from rtsim.studies.measures import (
    ERROR,
    FAILED,
    LOST,
    NAN,
    STATES,
    TIMEOUT,
    Formula,
    decided,
    guard_of,
    margin_name,
)
from rtsim.studies.plan import Plan
from rtsim.studies.texts import Value, runs_of


class Reason(NamedTuple):
    """Why a study has not passed."""

    outcome: Outcome
    why: str
    strict: bool = False
    """True if this reason makes a command exit with an error only with ``--strict``."""
    resumed: bool = False
    """True if ``rtsim study resume`` can remove the reason."""


class Summary(Judged, dict[str, Any]):
    """The results of a study as plain data, with its outcome.

    ``bool()`` of a summary is True for passed and False for failed, and raises
    :class:`rtsim.core.errors.Undecided` for undecided.

    - A study has failed if a run violated a requirement, raised an error, ended with a failure, or
      has a NaN result.
    - A study is undecided if runs are missing, or if no run was compared with a requirement. A
      search without a violation is undecided too.
    - Any other study has passed.
    """

    def _judge(self) -> Outcome:
        reasons = [reason.outcome for reason in self.reasons()]
        return Outcome.of_all(reasons) if reasons else Outcome.PASSED

    def reasons(self) -> Iterator[Reason]:
        """Yield the reasons why the study has not passed, with the most important first."""
        failed, undecided = Outcome.FAILED, Outcome.UNDECIDED
        states, runs, required = self["states"], self["runs"], self["requirements"]
        search = "search" in self
        if wrong := states[ERROR] + states[NAN]:
            why = f"{wrong} of {runs} runs raised an error or have a result that is NaN"
            yield Reason(failed, why)
        if guards := self["failures"]:
            why = f"{states[FAILED]} of {runs} runs ended at a guard that declares a failure"
            yield Reason(failed, f"{why}: {', '.join(guards)}", strict=True)
        for name, one in required.items():
            if missed := one["count"] - one["passed"] - one["undecided"]:
                why = f"{missed} of {one['count']} runs miss the requirement {name}"
                yield Reason(failed, why, strict=True)
            if many := one["undecided"]:
                why = f"{many} of {one['count']} runs leave the requirement {name} undecided"
                nothing = search and many == one["count"] and name == self["search"]["requirement"]
                yield Reason(undecided, f"{why}: {one['why_undecided']}", strict=not nothing)
        if gone := states[TIMEOUT] + states[LOST]:
            why = f"{gone} of {runs} runs took too long or lost their process"
            yield Reason(undecided, why)
        if self.get("ended") == "":
            yield Reason(undecided, "the search has not ended", resumed=True)
        elif missing := max(0, runs - self["rows"]):
            why = f"{missing} of {runs} runs are missing: {ranges_text(self['missing'])}"
            yield Reason(undecided, why, resumed=True)
        elif search:
            why = (
                "the search found no miss, which does not prove that none exists; to estimate the "
                "share of runs that pass, type rtsim study start with the same requirement"
            )
            yield Reason(undecided, why, strict=True)
        if not search and not any(one["count"] for one in required.values()):
            why = (
                "no run was compared with a requirement; give one by --require TEXT or by "
                "requirements= in study(), and start a new study"
            )
            yield Reason(undecided, why, strict=True)

    @property
    def in_words(self) -> str:
        met = [
            f"{one['requirement']}: {one['passed']} of {one['count']} runs pass"
            for one in self["requirements"].values()
        ]
        ended = f"{self['rows']} of {self['runs']} runs have ended"
        why = [reason.why for reason in self.reasons()][:1]
        return f"the study is {self._judge().name.lower()}: {'; '.join([ended, *met, *why])}"


def summarise(folder: Folder) -> Summary:
    """Return the results of a study as plain data, with its outcome.

    Raises :class:`StudyError` if a file was changed. Some of the keys are:

    - ``runs`` is the number of runs that the study needs, and ``rows`` the number of completed
      runs.
    - ``missing``: runs without a row, as ranges.
    - ``digest``: digest of the whole study.
    - ``planned``: largest number of runs.
    - ``states``: number of rows in each state.
    - ``results`` contains statistics of each result, from runs in the states ``ok`` and ``nan``.
    - ``requirements``: statistics of each requirement. A run in the state ``failed`` violates every
      requirement.
    - ``failures`` contains the failed runs, by the guard that declares the failure. An entry
      contains the text of the failure, the number of runs and the first run.
    - ``ended`` says why a search has ended.
    """
    with folder.read_once():
        return _summary(folder)


def _summary(folder: Folder) -> Summary:
    plan = folder.plan
    folder.check_histories()
    columns = folder.columns()
    if plan.job.formulas:
        columns = {**columns, **folder.columns("cause")}
    states = columns["state"]
    compared = decided(states)
    failed = states == FAILED
    ended = rows_of(columns, compared & ~failed)
    runs = needed(folder)
    out: dict[str, Any] = {
        "runs": runs,
        "missing": ranges(folder.left(runs).tolist()) if plan.sampled.planned else [],
        "digest": folder.digest,
        "planned": plan.runs,
        "rows": len(states),
        "states": {state: int((states == state).sum()) for state in STATES},
        "seed": plan.seed,
        "design": plan.design["design"],
        "results": {name: _result(plan, ended, name) for name in plan.results},
        "requirements": {
            one.name: _requirement(plan, rows_of(columns, compared), one, len(states))
            for one in plan.job.required
        },
        "failures": _failures(folder) if failed.any() else {},
    }
    if alternatives := _alternatives(plan, ended):
        out["alternatives"] = alternatives
    if not plan.sampled.planned:
        out["ended"] = folder.ended.why
    return Summary({**out, **plan.sampled.figures(plan.space, columns)})


def _result(plan: Plan, columns: Columns, name: str) -> dict[str, Any]:
    values = np.asarray(columns[name], np.float64)
    finite = np.isfinite(values)
    rest, kept = values[finite], rows_of(columns, finite)
    out: dict[str, Any] = {
        "count": len(values), "finite": len(rest), "not_finite": int((~finite).sum()),
    }  # fmt: skip
    if len(rest):
        out |= {"min": float(rest.min()), "max": float(rest.max())}
    known = ~np.isnan(values)
    if known.any() and plan.sampled.planned:
        weights = plan.sampled.weights(rows_of(columns, known))
        low, middle, high = map(float, quantiles(values[known], weights))
        out |= {"q05": low, "median": middle, "q95": high}
    pooled = plan.sampled.pooled
    estimate = plan.sampled.mean(kept, rest, plan.level) if pooled else None
    return out if estimate is None else {**out, **estimate.to_plain()}


def rows_of(columns: Columns, which: Marks) -> Columns:
    """Return the rows in the mask ``which`` (n,)."""
    return columns if which.all() else {name: column[which] for name, column in columns.items()}


def quantiles(
    values: Vector, weights: Vector | None, at: Sequence[float] = (0.05, 0.5, 0.95)
) -> Vector:
    """Return the quantiles ``at`` of ``values`` (n,), n >= 1.

    ``weights`` (n,) contains the weights of the values; ``None`` means equal weights. Values may be
    infinite, but not NaN.
    """
    if weights is None:
        below, above = (np.quantile(values, at, method=kind) for kind in ("lower", "higher"))
        with np.errstate(invalid="ignore"):  # There is no value between two infinite values.
            between = np.quantile(values, at)
        end = np.where(np.isposinf(above) & (below < above), above, below)
        return np.asarray(np.where(np.isnan(between), end, between))
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    place = np.searchsorted(below, np.asarray(at) * below[-1] * (1.0 - 1e-12))
    return np.asarray(values[order][np.minimum(place, len(values) - 1)])


def _requirement(plan: Plan, columns: Columns, requirement: Any, rows: int) -> dict[str, Any]:
    """Return how many runs meet a requirement, and an estimate of their fraction.

    ``columns`` contains the runs that are compared with the requirement. ``rows`` is the number of
    all runs so far. The worst run is the first run with a NaN result, or else the run with the
    smallest margin. Failed runs have no margin.

    A formula has a margin in each run that decides it, also in a failed run. The other runs are
    undecided and do not count as passed; ``not_exercised`` is the number of those that do not
    exercise the requirement, because the condition of an implication was never true.
    """
    margins = columns[margin_name(requirement)].astype(np.float64)
    formula = isinstance(requirement, Formula)
    failed = (columns["state"] == FAILED) & (not formula)
    undecided = np.isnan(margins) & formula
    met = (margins >= 0.0) & (columns["state"] != FAILED)  # NaN >= 0 is False.
    out: dict[str, Any] = {
        "requirement": str(requirement), "result": requirement.result,
        "passed": int(met.sum()), "count": len(met),
        "not_a_number": int((np.isnan(margins) & ~failed & ~undecided).sum()),
        "failed": int(failed.sum()), "without_result": rows - len(met),
        "undecided": int(undecided.sum()), "not_exercised": 0,
    }  # fmt: skip
    if undecided.any():
        whys = [_why_undecided(requirement, cause) for cause in columns["cause"][undecided]]
        others = [why for why in whys if not why.startswith(NOT_EXERCISED)]
        out["not_exercised"] = len(whys) - len(others)
        out["why_undecided"] = (others or whys)[0]
    if not len(met):
        return out
    pooled = plan.sampled.pooled
    share = plan.sampled.share(columns, met, plan.level) if pooled else None
    if share is not None:
        out |= asdict(share)
    known = ~(failed | undecided)
    if not known.any():
        return out
    runs, margins = columns["run"][known], margins[known]
    worst = int(np.argmin(margins))  # argmin returns the first NaN if there is one.
    return {**out, "worst_margin": float(margins[worst]), "worst_run": int(runs[worst])}


def _why_undecided(requirement: Formula, cause: str) -> str:
    begins = f"{requirement.name} is undecided: "
    found = (one for one in cause.split("; ") if one.startswith(begins))
    return next(found, cause).removeprefix(begins)


def _failures(folder: Folder) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for row in folder.table("run", "state", "cause").to_pylist():
        if row["state"] == FAILED:
            guard = guard_of(row["cause"])
            text = row["cause"].removeprefix(f"{guard}: ")
            one = out.setdefault(guard, {"runs": 0, "failure": text, "first_run": row["run"]})
            one["runs"] += 1
    return out


def _alternatives(plan: Plan, columns: Columns) -> dict[str, list[dict[str, Any]]]:
    found = {
        name: plan.sampled.compared(
            plan.space, columns, np.asarray(columns[name], np.float64), plan.level
        )
        for name in plan.results
    }
    return {name: rows for name, rows in found.items() if rows}


def sensitivity(folder: Folder, result: str) -> Indices:
    """Return the sensitivity indices of ``result`` by factor.

    Runs without a finite result are ignored. The designs ``morris`` and ``saltelli`` ignore groups
    with a missing result. Raises ``UnknownName`` for an unknown result, and ``ScenarioError`` for a
    design without indices.
    """
    design = folder.plan.sampled
    if not design.has_indices():
        able = " or ".join(name for name, one in DESIGNS.items() if one.has_indices())
        raise ScenarioError(f"the design {design.name} gives no sensitivity indices; use {able}")
    return design.sensitivity(folder.plan.space, _values(folder, result))


def interactions(folder: Folder, result: str) -> PairIndices:
    """Return the second-order indices of ``result`` for each pair of factors.

    The result is empty unless the design is ``saltelli`` with ``second=True``. Errors are the same
    as in :func:`sensitivity`.
    """
    return folder.plan.sampled.interactions(folder.plan.space, _values(folder, result))


def _values(folder: Folder, result: str) -> Vector:
    plan = folder.plan
    if result not in plan.results:
        raise UnknownName("result", result, plan.results, "the study")
    columns = folder.columns("run", result)
    values = np.full(plan.runs, np.nan)
    values[columns["run"]] = columns[result].astype(np.float64)
    return values


ENDS = {
    "converged": "the margins of the population are nearly equal",
    "maximum": "the largest number of runs is reached",
    "miss": "a run does not meet the requirement",
    "no margin": "a run has no margin",
    "time": "the time is over",
    "": "the search has not ended",
}


@dataclass(frozen=True)
class WorstCase:
    """The worst run of a search."""

    ended: str
    counts: list[str]
    run: int | None
    worst: str
    """The worst run and its margin, or the reason why it has no margin; empty before the first run.
    """
    factors: Mapping[str, Value]


def worst_case(folder: Folder, found: Mapping[str, Any]) -> WorstCase:
    one, run = found["search"], found["search"]["worst_run"]
    ended, worst = ENDS.get(found["ended"], found["ended"]), ""
    if one["worst_margin"] is not None:
        margin = "worst margin" if one["worst_decided"] else "smallest upper bound of a margin"
        worst = f"{margin} {one['worst_margin']:.4g} in run {run}"
        worst += "" if one["worst_decided"] else ", which is undecided"
    elif run is not None:
        row = folder.row(run)
        why = f"{one['worst_state']}: {row['cause']}" if row else one["worst_state"]
        worst = f"worst: run {run} has no margin ({why})"
        if found["ended"] == "no margin":
            ended = worst.removeprefix("worst: ")
    return WorstCase(ended, _counts(one, found["rows"]), run, worst, one["factors"])


def shown(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def command(folder: Folder, run: int, recording: str) -> str:
    return f"rtsim study run {shlex.quote(str(folder.path))} {run} -o {recording}"


def _counts(one: Mapping[str, Any], rows: int) -> list[str]:
    none, undecided, out = one["without_margin"], one["undecided"], []
    decided = rows - none - undecided
    if one["misses"]:
        many, first = one["misses"], one["first_miss"] + 1
        out.append(
            f"{runs_of(many)} {'misses' if many == 1 else 'miss'} it; {runs_of(first)} "
            f"{'was' if first == 1 else 'were'} needed to find the first"
        )
    elif decided or not rows:
        which = " that decide it" if undecided else " with a margin" if none else ""
        out.append(
            f"no miss found in {runs_of(decided)}{which}; this does not prove that none exists"
        )
    elif undecided:
        out.append("no run decides the requirement, so the search says nothing about it")
    if undecided:
        out.append(f"{runs_of(undecided)} {'leaves' if undecided == 1 else 'leave'} it undecided")
    if none:
        have = "has" if none == 1 else "have"
        out.append(f"{runs_of(none)} {have} no margin, which counts as worse than every margin")
        if one["smallest_run"] is not None:
            least = one["smallest_margin"]
            out.append(f"smallest margin of the others {least:.4g} in run {one['smallest_run']}")
    return out
