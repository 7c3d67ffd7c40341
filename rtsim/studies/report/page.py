"""The report page of a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S
from rtsim.record.markup import block, flat, table, text
from rtsim.record.output_files import write_whole
from rtsim.record.reports.page import page
from rtsim.studies.folder import Folder, StudyError, ranges_text
from rtsim.studies.measures import ERROR, FAILED, LOST, NAN, TIMEOUT, margin_name
from rtsim.studies.report import figures
from rtsim.studies.report.numbers import (
    Runs,
    Worst,
    convergence,
    fans,
    infinite,
    numbers,
    quantiles_of,
    ranked,
)
from rtsim.studies.summary import Summary, command, sensitivity, shown, worst_case

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
    scenario = runs.plan.job.scenario
    return Path(scenario.partition(".py")[0]).name


def head(runs: Runs) -> str:
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


def _figure_of(value: float | None) -> str:
    return "" if value is None or np.isnan(value) else f"{value:.5g}"


def _interval_of(one: dict[str, Any]) -> str:
    return f"{_figure_of(one['low'])} to {_figure_of(one['high'])}" if "low" in one else ""


def result(runs: Runs) -> str:
    found = runs.found
    out = ""
    if found["requirements"]:
        rows, shares = _requirements(runs)
        # Only formulas can leave runs undecided.
        heads = _PASS_RATES if not runs.plan.job.formulas else (*_PASS_RATES, "undecided")
        kept = [row[: len(heads)] for row in rows]
        out += f"<h3>Requirements</h3>{table(_heads(heads, runs), kept, numeric=1)}"
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
    return [name.format(runs.percent) for name in names]


def _results(runs: Runs) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for name, one in runs.found["results"].items():
        quantiles = [one.get(key) for key in ("q05", "median", "q95")]
        ends = [_figure_of(v) for v in (one.get("min"), *quantiles, one.get("max"))]
        mean = _figure_of(one.get("mean")) or "no estimate"
        between = _interval_of(one) if len(runs.series) < 2 else ""
        rows.append((name, one["count"], one["not_finite"], mean, between, *ends))
    return rows


def _requirements(runs: Runs) -> tuple[list[Any], list[tuple[str, float, float, float]]]:
    rows: list[Any] = []
    shares: list[tuple[str, float, float, float]] = []
    for required in runs.plan.job.required:
        one = runs.found["requirements"][required.name]
        title = one["requirement"]
        if required.name != required.result:
            title += f" [{required.name}]"
        run = one.get("worst_run")
        least = one.get("worst_margin", 0.0)
        worst = ("", "") if run is None else ("NaN" if np.isnan(least) else _figure_of(least), run)
        share, alone = _figure_of(one.get("share")), len(runs.series) < 2
        between = _interval_of(one) if alone else ""
        undecided = one["undecided"] or ""
        rows.append((title, one["count"], one["passed"], share, between, *worst, undecided))
        if alone and "share" in one:
            shares.append((title, one["share"], one["low"], one["high"]))
        for series in [] if alone else runs.series:
            met = numbers(series.columns[margin_name(required)]) >= 0.0
            own = series.design.share(series.columns, met, runs.level)
            if own is not None:
                name = f"{title} at {series.label}"
                between = _interval_of(asdict(own))
                rows.append(
                    (name, len(met), int(met.sum()), _figure_of(own.share), between, "", "", "")
                )
                shares.append((name, own.share, own.low, own.high))
    return rows, shares


def _alternatives(runs: Runs) -> str:
    rows = [
        (
            name, str(row["value"]), _figure_of(row.get("mean")), _interval_of(row),
            _figure_of(row.get("difference", {}).get("mean")),
            _interval_of(row.get("difference", {})),
        )
        for name, each in runs.found.get("alternatives", {}).items()
        for row in each
    ]  # fmt: skip
    if not rows:
        return ""
    return f"<h3>Alternatives</h3>{table(_heads(_ALTERNATIVES, runs), rows, numeric=2)}"


WORST, LINES, PANELS, CAUSES = 10, 5, 24, 20


def write_report(folder: Folder, path: str | Path) -> Summary:
    """Write an HTML report on a study, and return the summary of the study.

    The function ``summarise`` returns the same summary. Raises ``StudyError`` if a file cannot be
    read or the page cannot be written.
    """
    with folder.read_once():
        runs = Runs(folder)
        rendered = render(runs)
    try:
        write_whole(Path(path), rendered)
    except OSError as error:
        raise StudyError(
            f"cannot write the report {path}: {error.strerror}; give another -o PAGE.html"
        ) from error
    return runs.found


def render(runs: Runs) -> str:
    worst = runs.worst(WORST)
    sections = [
        ("result", "Result", result(runs)),
        ("search", "Worst case", _search(runs)),
        ("distributions", "Distributions", _distributions(runs)),
        ("histories", "Time histories", _histories(runs, worst[:LINES])),
        ("factors", "Results over factors", _factors(runs)),
        ("sensitivity", "Sensitivity", _sensitivity(runs)),
        ("convergence", "Convergence", _convergence(runs)),
        ("worst", "Worst runs", _worst(runs, worst)),
        ("failed", "Failed runs", _failed(runs)),
        ("setup", "Set-up", _setup(runs)),
    ]
    return page(f"Study of {name_of(runs)}", head(runs), sections)


def _search(runs: Runs) -> str:
    if "search" not in runs.found:
        return ""
    one = worst_case(runs.folder, runs.found)
    title = f"Search of {runs.found['search']['requirement']}: {one.ended}."
    lines = [title, *(f"{line[0].upper()}{line[1:]}." for line in one.counts)]
    out = "".join(f"<p>{text(line)}</p>" for line in lines)
    if one.run is None:
        return out
    factors = table(("factor", "value"), [(n, shown(v)) for n, v in one.factors.items()])
    again = f"<p>Repeat it: <code>{text(_command(runs, one.run))}</code></p>"
    return f"{out}<h3>{text(one.worst[0].upper() + one.worst[1:])}</h3>{factors}{again}"


def _distributions(runs: Runs) -> str:
    out = ""
    for name in runs.plan.results:
        plot = figures.spread(runs, name)
        if not plot and len(runs.missed):
            out += f"<h3>{text(name)}</h3>{_infinite(runs, name)}"
            out += "<p class=soft>No finite range of results to draw.</p>"
        elif plot:
            rows = [
                (f"{100 * one.at:g} % {series.label}", _figure_of(one.value), _ends(one))
                for series in runs.series
                for one in quantiles_of(series, name, runs.level)
            ]
            listed = table(("quantile", "value", f"{runs.percent} interval"), rows, numeric=1)
            out += f"<h3>{text(name)}</h3>{_infinite(runs, name)}{plot}"
            out += f"<details><summary>Quantiles</summary>{listed}</details>"
    notes = (
        "Dashed lines are limits of requirements. A vertical line is the mean; the band around it "
        "is the interval of the mean. Points are the quantiles 0.05, 0.5 and 0.95 with intervals "
        f"of {runs.percent} between two order statistics. Shares and quantiles are weighted as the "
        "design weights its runs. An infinite result counts in the distribution and in the "
        "quantiles, but has no point; histogram and mean leave it out."
    )
    return f"<p class=soft>{notes}</p>{out}" if out else ""


def _infinite(runs: Runs, name: str) -> str:
    many, known = infinite(runs, name)
    return f"<p>{many} of {known} results are infinite.</p>" if many else ""


def _ends(one: Any) -> str:
    low, high = _figure_of(one.low), _figure_of(one.high)
    return f"{low} to {high}" if low and high else "too few runs" if low or high else "n/a"


def _histories(runs: Runs, worst: list[Worst]) -> str:
    job = runs.plan.job
    if not job.histories:
        return (
            "<p class=soft>The study stored no time histories. Name signals with --history SIGNAL "
            "when you start a study.</p>"
        )
    out = ""
    for signal in job.histories:
        found, lines = fans(runs, signal, [one.place for one in worst])
        known = max(int(one.count.max()) for one in found)
        if not known:
            out += f"<h3>{text(signal)}</h3><p class=soft>No run has a history.</p>"
            continue
        single = [(one.run, line) for one, line in zip(worst, lines, strict=True)]
        ended = sum(int(one.count[-1]) for one in found)
        total = sum(len(one) for one in runs.series)
        less = f"; {total - ended} runs have no value at the last time" if ended < total else ""
        plot = figures.fan(job.grid / NS_PER_S, found, single, signal)
        out += f"<h3>{text(signal)}</h3><div class=soft>{total} runs{less}</div>{plot}"
    notes = (
        f"The signals are stored at {len(job.grid)} times, and held between them. At each time, "
        "the runs count that have not ended before. Red lines are the runs with the smallest "
        "margins."
    )
    return f"<p class=soft>{notes}</p>{out}"


def _factors(runs: Runs) -> str:
    if not runs.factors or not len(runs.missed):
        return ""
    shown = ranked(runs)
    if not shown:
        return ""
    left, shown = len(shown) - PANELS, shown[:PANELS]
    notes = "Red points are runs that miss a requirement. " if runs.plan.job.required else ""
    if len(runs.missed) > figures.MOST_POINTS:
        notes += (
            f"{figures.MOST_POINTS} of {len(runs.missed)} runs are drawn, at equal distances of "
            "their numbers. "
        )
    if left > 0:
        notes += (
            f"{PANELS} of {PANELS + left} pairs are drawn: those with the largest rank correlation."
        )
    return f"<p class=soft>{notes}</p>{figures.scatters(runs, shown)}"


def _sensitivity(runs: Runs) -> str:
    if not runs.plan.sampled.has_indices():
        return ""
    out = ""
    for name in runs.plan.results:
        out += f"<h3>{text(name)}</h3>"
        try:
            found = sensitivity(runs.folder, name)
        except ScenarioError as error:
            out += f"<p class=soft>No indices: {text(str(error))}.</p>"
            continue
        keys = list(next(iter(found.values())))
        rows = [(factor, *(_figure_of(one[key]) for key in keys)) for factor, one in found.items()]
        listed = table(("factor", *(key.replace("_", " ") for key in keys)), rows, numeric=1)
        out += figures.indices(found) + listed
    return out


def _convergence(runs: Runs) -> str:
    if not runs.plan.sampled.random:
        return (
            f"<p class=soft>The design {text(runs.plan.sampled.name)} chooses its runs together. "
            "Its first runs are not a sample of all, so no convergence is shown.</p>"
        )
    found = convergence(runs)
    if not found:
        return ""
    notes = f"Estimates from the first runs, with intervals of {runs.percent}. "
    stop = runs.plan.stopping
    if stop is None:
        notes += (
            "Each interval holds for one number of runs. Do not end a study because one of them is "
            "narrow; declare a rule with --stop."
        )
    else:
        notes += (
            f"This level is corrected for the {len(stop.looks) + 1} looks that the study declared: "
            f"the intervals at all looks together hold with {100.0 * stop.level:.6g} %. Between "
            "the looks, each interval holds for one number of runs."
        )
    return f"<p class=soft>{text(notes)}</p>{figures.convergences(found)}"


def _command(runs: Runs, run: int) -> str:
    return command(runs.folder, run, f"run-{run}.mcap")


def _worst(runs: Runs, worst: list[Worst]) -> str:
    if not worst:
        return ""
    rows = [
        (
            one.run, one.requirement, _figure_of(one.margin) or "NaN",
            *(_figure_of(float(numbers(runs.ended[n])[one.place])) for n in runs.plan.results),
            _command(runs, one.run),
        )
        for one in worst
    ]  # fmt: skip
    notes = "The runs with the smallest margins. A command repeats and records its run."
    if len(runs.plan.job.required) > 1:
        notes += (
            " For this order, each margin is divided by the standard deviation of the margins of "
            "its requirement, because margins may have several units."
        )
    heads = ("run", "requirement", "margin", *runs.plan.results, "command")
    return f"<p class=soft>{notes}</p>{table(heads, rows)}"


def _failed(runs: Runs) -> str:
    causes = runs.causes()
    if not causes:
        return ""
    rows = [
        (state, cause, many, first, _command(runs, first))
        for state, cause, many, first in causes[:CAUSES]
    ]
    more = f"<p class=soft>{len(causes) - CAUSES} more causes.</p>" if len(causes) > CAUSES else ""
    return table(("state", "cause", "runs", "first run", "command"), rows) + more


def _setup(runs: Runs) -> str:
    plan = runs.plan
    job = plan.job
    general = {
        "digest of the study": runs.found["digest"],
        "scenario": job.scenario, "sha256": job.sha256 or "", "rtsim": job.rtsim,
        "until": f"{job.until} s" if job.until is not None else "the scenario's own",
        "limit": f"{job.limit:g} s" if job.limit is not None else "none", **job.settings,
    }  # fmt: skip
    factors = [(name, _spread(plain)) for name, plain in plan.factors.items()]
    results = [(name, _spread(plain)) for name, plain in job.results.items()]
    listed = (
        ("Factors", factors),
        ("Results", results),
        ("Design", flat("", {k: v for k, v in plan.design.items() if k != "columns"})),
    )
    blocks = "".join(
        f"<div><h3>{title}</h3>{table((), rows)}</div>" for title, rows in listed if rows
    )
    return f"<div class=columns>{block('study', general)}{blocks}</div>"


def _spread(plain: Any) -> str:
    return ", ".join(f"{key} {value}" for key, value in plain.items() if value != {})
