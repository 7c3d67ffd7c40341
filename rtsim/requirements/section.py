"""Tables and charts of requirements in one or several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rtsim.core.errors import RtsimError
from rtsim.core.outcome import Outcome
from rtsim.core.tag import NS_PER_S
from rtsim.record.markup import table, text
from rtsim.record.reading import Recording
from rtsim.record.reports.charts import ALLOWED, COMMAND, Chart, Line, grid, thin
from rtsim.record.reports.comparison_pages import run_names
from rtsim.record.reports.page import Section
from rtsim.requirements.requirement import Requirement, required_by
from rtsim.requirements.verdict import Margin, RequirementResult, check_run

_HEAD = ("requirement", "formula", "verdict", "because of", "at s", "robustness")
Runs = Mapping[str, Sequence[RequirementResult]]
"""The verdicts of the requirements on each run, by the name of the run."""


def requirement_section(recordings: Sequence[Recording]) -> Section | None:
    """Return a report section about the requirements of recordings, or ``None``.

    Each run is checked against the requirements in its recording.
    """
    try:
        runs = dict(zip(run_names(recordings), map(_checked, recordings), strict=True))
    except RtsimError as error:
        said = f"The requirements were not checked: {error}"
        return "requirements", "Requirements", f"<p>{text(said)}</p>"
    body = requirements_html(runs)
    return ("requirements", "Requirements", body) if body else None


def _checked(recording: Recording) -> list[RequirementResult]:
    return check_run(required_by(recording.header), lambda: recording, margins=True)


def requirements_html(runs: Runs) -> str:
    """Return a table of verdicts, and charts of the robustness over time.

    The table has a column for each run, and each chart has a line for each run. The results need
    margins (:func:`rtsim.requirements.verdict.check`). Each formula that must hold at all times has
    a chart, in which violations are shaded.
    """
    order = list(dict.fromkeys(one.requirement for each in runs.values() for one in each))
    if not order:
        return ""
    found = {
        of: {run: one for run, each in runs.items() for one in each if one.requirement == of}
        for of in order
    }
    charts = [chart for each in found.values() for chart in _charts(each, list(runs))]
    if len(runs) == 1:
        rows = [_row(one) for each in found.values() for one in each.values()]
        return table(_HEAD, rows, numeric=4) + grid(charts)
    columns = [[_cell(each.get(run)) for run in runs] for each in found.values()]
    several = [(_name(of), of.formula, *row) for of, row in zip(order, columns, strict=True)]
    return table(("requirement", "formula", *runs), several) + grid(charts)


def _name(of: Requirement) -> str:
    return f"{of.name}: {of.text}" if of.text else of.name


def _margin(one: RequirementResult) -> float | str:
    decided = one.result is not Outcome.UNDECIDED
    return one.robustness if decided else f"{one.low:g} to {one.high:g}"


def _row(one: RequirementResult) -> tuple[object, ...]:
    at = "" if one.worst_ns is None else one.worst_ns / NS_PER_S
    name, formula = _name(one.requirement), one.requirement.formula
    return name, formula, one.verdict, one.reason or one.worst, at, _margin(one)


def _cell(one: RequirementResult | None) -> str:
    if one is None:
        return "not declared"
    if one.result is Outcome.UNDECIDED:
        return f"{one.verdict}: {one.reason}"
    at = "" if one.worst_ns is None else f" at {one.worst_ns / NS_PER_S:.9g} s"
    return f"{one.verdict}, robustness {one.robustness:.6g}{at}"


def _charts(results: Mapping[str, RequirementResult], names: Sequence[str]) -> list[Chart]:
    single, name = len(names) == 1, next(iter(results.values())).name
    lines: dict[str, list[Line]] = {}
    shaded: dict[str, list[tuple[float, float, int]]] = {}
    for run, one in results.items():
        k = names.index(run)
        spans = one.violated if len(one.margins) == 1 else None
        for part in one.margins:
            t, values = part.ns / NS_PER_S, part.values
            finite = np.isfinite(values)
            if not finite.any():
                continue
            drawn = thin(t, np.where(finite, values, np.nan))
            line = Line("robustness" if single else run, *drawn, k, stairs=True)
            lines.setdefault(part.text, []).append(line)
            color = COMMAND if single else k
            below = _below(part) if spans is None else spans
            shaded.setdefault(part.text, []).extend(
                (first / NS_PER_S, last / NS_PER_S, color) for first, last in below
            )
    return [
        Chart(f"{name}: margin of {part}", [*each, _limit(each)], shaded=shaded[part])
        for part, each in lines.items()
    ]


def _below(part: Margin) -> list[tuple[int, int]]:
    below = np.concatenate(([False], part.values[:-1] < 0.0, [False]))
    edges = np.flatnonzero(np.diff(below)).reshape(-1, 2)
    return [(int(part.ns[a]), int(part.ns[b])) for a, b in edges]


def _limit(lines: Sequence[Line]) -> Line:
    ends = np.array([min(one.x[0] for one in lines), max(one.x[-1] for one in lines)])
    return Line("limit", ends, np.zeros(2), ALLOWED, dashed=True)
