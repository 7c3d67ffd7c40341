"""The first part of the page of a study: states, pass rates, results, alternatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.record.markup import table, text
from rtsim.studies.folder import ranges_text
from rtsim.studies.measures import margin_name
from rtsim.studies.report import figures
from rtsim.studies.report.runs import Runs, numbers
from rtsim.studies.rows import ERROR, FAILED, LOST, NAN, TIMEOUT

_PASS_RATES = (
    "requirement", "runs", "pass", "pass rate", "{} interval", "worst margin", "in run",
)  # fmt: skip
_RESULTS = (
    "result", "runs", "not finite", "mean", "{} interval", "least", "5 %", "median", "95 %",
    "greatest",
)  # fmt: skip
_ALTERNATIVES = (
    "result", "at", "mean", "{} interval", "difference to the first", "{} interval",
)  # fmt: skip


def name_of(runs: Runs) -> str:
    """Return the name of the scenario."""
    scenario = runs.plan.job.scenario
    return Path(scenario.partition(".py")[0]).name


def head(runs: Runs) -> str:
    """Return the head of the page: counts, and what a reader must know before the figures."""
    found = runs.found
    facts = {
        "runs ended": f"{found['rows']} of {found['runs']}",
        **{state: str(many) for state, many in found["states"].items() if many},
        "design": found["design"],
        "seed": str(found["seed"]),
        "folder": str(runs.folder.path),
    }
    boxes = "".join(f"<div><span>{text(k)}</span>{text(v)}</div>" for k, v in facts.items())
    warnings = "".join(f"<div class=warn>{text(one)}</div>" for one in _warnings(found))
    return f"<h1>Study of {text(name_of(runs))}</h1><div class=facts>{boxes}</div>{warnings}"


def _warnings(found: dict[str, Any]) -> list[str]:
    """Return what a reader must know before the figures."""
    out, states, rows = [], found["states"], found["rows"]
    if "ended" in found:
        out.append(
            "This study is a search for the smallest margin. Its runs are not a sample of the "
            "factors, so there are no means, quantiles and pass rates; if no run misses the "
            "requirement, this does not prove that none exists."
        )
        if not found["ended"]:
            out.append("The search has not ended; the figures are those of its runs so far.")
    elif missing := found["runs"] - found["rows"]:
        out.append(
            f"The study is incomplete: {missing} of {found['runs']} runs are missing "
            f"({ranges_text(found['missing'])}). The figures "
            "on this page are those of the runs that have ended."
        )
    elif found["runs"] < found["planned"]:
        out.append(
            f"The study stopped early, by its rule, after {found['runs']} of at most "
            f"{found['planned']} runs."
        )
    if gone := states[TIMEOUT] + states[LOST]:
        out.append(
            f"{gone} of {rows} runs took too long or lost their process. They have no results."
        )
    if states[ERROR]:
        out.append(f"{states[ERROR]} of {rows} runs raised an error. They have no results.")
    if states[FAILED]:
        guards = ", ".join(f"{name} ({one['runs']})" for name, one in found["failures"].items())
        out.append(
            f"{states[FAILED]} of {rows} runs ended at a guard that declares a failure: {guards}. "
            "They miss every requirement, and have no results."
        )
    if states[NAN]:
        out.append(
            f"{states[NAN]} of {rows} runs have a result that is not a number. They miss the "
            "requirements on that result."
        )
    return out


def figure_of(value: float | None) -> str:
    """Return a number as the page shows it."""
    return "" if value is None or np.isnan(value) else f"{value:.5g}"


def interval_of(one: dict[str, Any]) -> str:
    """Return the interval of an estimate in the summary; empty without one."""
    return f"{figure_of(one['low'])} to {figure_of(one['high'])}" if "low" in one else ""


def result(runs: Runs) -> str:
    """Return the tables of pass rates, results and alternatives, as ``summarise`` counts them."""
    found = runs.found
    out = ""
    if found["requirements"]:
        rows, shares = _requirements(runs)
        out += f"<h3>Requirements</h3>{table(_heads(_PASS_RATES, runs), rows, numeric=1)}"
        out += figures.shares(shares) if shares else ""
    out += f"<h3>Results</h3>{table(_heads(_RESULTS, runs), _results(runs), numeric=1)}"
    out += _alternatives(runs)
    if not runs.plan.sampled.planned:
        return out
    notes = (
        "Runs in the states ok and nan count, and in pass rates those in the state failed. The "
        "intervals of means are Student's, those of pass "
        "rates are Clopper and Pearson's, or Student's for strata. For a Latin hypercube and a "
        "Sobol sequence they are usually too wide."
    )
    if any(one["not_finite"] for one in found["results"].values()):
        notes += (
            " Mean, least and greatest are those of the finite values; the quantiles also count "
            "infinite values."
        )
    if not runs.plan.sampled.random:
        notes += (
            f" The design {runs.plan.sampled.name} chooses its runs together; intervals hold only "
            "for independent runs."
        )
    stop = runs.plan.stopping
    if stop is not None:
        notes += f" {stop.stated[0].upper()}{stop.stated[1:]}."
    if len(runs.series) > 1:
        notes += (
            " Runs of different alternatives are not independent, so only each alternative, and "
            "each difference, has an interval."
        )
    return f"{out}<p class=soft>{text(notes)}</p>"


def _heads(names: Sequence[str], runs: Runs) -> list[str]:
    """Return the heads of a table, with the level of its intervals."""
    return [name.format(runs.percent) for name in names]


def _results(runs: Runs) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for name, one in runs.found["results"].items():
        quantiles = [one.get(key) for key in ("q05", "median", "q95")]
        ends = [figure_of(v) for v in (one.get("min"), *quantiles, one.get("max"))]
        mean = figure_of(one.get("mean")) or "no estimate"
        between = interval_of(one) if len(runs.series) < 2 else ""
        rows.append((name, one["count"], one["not_finite"], mean, between, *ends))
    return rows


def _requirements(runs: Runs) -> tuple[list[Any], list[tuple[str, float, float, float]]]:
    """Return the rows of the table and of the plot of pass rates."""
    rows: list[Any] = []
    shares: list[tuple[str, float, float, float]] = []
    for required in runs.plan.job.required:
        one = runs.found["requirements"][required.name]
        title = one["requirement"]
        if required.name != required.result:
            title += f" [{required.name}]"
        run = one.get("worst_run")
        least = one.get("worst_margin", 0.0)
        worst = ("", "") if run is None else ("NaN" if np.isnan(least) else figure_of(least), run)
        share, alone = figure_of(one.get("share")), len(runs.series) < 2
        between = interval_of(one) if alone else ""
        rows.append((title, one["count"], one["passed"], share, between, *worst))
        if alone and "share" in one:
            shares.append((title, one["share"], one["low"], one["high"]))
        for series in [] if alone else runs.series:
            met = numbers(series.columns[margin_name(required)]) >= 0.0
            own = series.design.share(series.columns, met, runs.level)
            if own is not None:
                name = f"{title} at {series.label}"
                between = interval_of(asdict(own))
                rows.append((name, len(met), int(met.sum()), figure_of(own.share), between, "", ""))
                shares.append((name, own.share, own.low, own.high))
    return rows, shares


def _alternatives(runs: Runs) -> str:
    rows = [
        (
            name, str(row["value"]), figure_of(row.get("mean")), interval_of(row),
            figure_of(row.get("difference", {}).get("mean")),
            interval_of(row.get("difference", {})),
        )
        for name, each in runs.found.get("alternatives", {}).items()
        for row in each
    ]  # fmt: skip
    if not rows:
        return ""
    return f"<h3>Alternatives</h3>{table(_heads(_ALTERNATIVES, runs), rows, numeric=2)}"
