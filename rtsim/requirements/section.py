"""The section of a report about the requirements of a run."""

from __future__ import annotations

import numpy as np

from rtsim.core.errors import RtsimError
from rtsim.core.outcome import Outcome
from rtsim.core.tag import NS_PER_S
from rtsim.record.markup import table, text
from rtsim.record.reading import Recording
from rtsim.record.reports.charts import COMMAND, RESPONSE, Chart, Line, grid, thin
from rtsim.record.reports.page import Section
from rtsim.requirements.requirement import required_by
from rtsim.requirements.verdict import RequirementResult, check

_HEAD = ("requirement", "formula", "verdict", "because of", "at s", "robustness")


def requirement_section(recording: Recording) -> Section | None:
    """Return the report section of the requirements in ``recording``, or None without any.

    The section has a table of the verdicts. For each part that must hold throughout a window, the
    section has a chart of the robustness over time, in which violations are marked.
    """
    try:
        required = required_by(recording.header)
        if not required:
            return None
        results = check(required, recording, margins=True)
    except RtsimError as error:
        said = f"The requirements were not checked: {error}"
        return "requirements", "Requirements", f"<p>{text(said)}</p>"
    rows = [_row(one) for one in results]
    charts = [chart for one in results for chart in _charts(one)]
    return "requirements", "Requirements", table(_HEAD, rows, numeric=4) + grid(charts)


def _row(one: RequirementResult) -> tuple[object, ...]:
    of = one.requirement
    name = f"{of.name}: {of.text}" if of.text else of.name
    at = "" if one.worst_ns is None else one.worst_ns / NS_PER_S
    margin = (
        one.robustness if one.result is not Outcome.UNDECIDED else f"{one.low:g} to {one.high:g}"
    )
    return name, of.formula, one.verdict, one.reason or one.worst, at, margin


def _charts(one: RequirementResult) -> list[Chart]:
    out = []
    for margin in one.margins:
        t, values = margin.ns / NS_PER_S, margin.values
        finite = np.isfinite(values)
        if not finite.any():
            continue
        lines = [
            Line("robustness", *thin(t, np.where(finite, values, np.nan)), RESPONSE, stairs=True)
        ]
        if (values < 0.0).any():
            below = np.where(finite & (values < 0.0), values, np.nan)
            lines.append(Line("violated", *thin(t, below), COMMAND, stairs=True, wide=True))
        lines.append(Line("limit", t[[0, -1]], np.zeros(2), COMMAND, dashed=True))
        out.append(Chart(f"{one.requirement.name}: margin of {margin.text}", lines))
    return out
