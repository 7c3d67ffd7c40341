"""One HTML page about several runs: their views over each other, and their differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rtsim.core.errors import RecordingError
from rtsim.record.events import RunEnding
from rtsim.record.markup import table, text
from rtsim.record.output_files import write_whole
from rtsim.record.reading import Recording
from rtsim.record.reports.charts import Chart, grid
from rtsim.record.reports.page import page
from rtsim.record.reports.run_page import Say, unheard, verdict
from rtsim.record.reports.view_charts import (
    Shown,
    ViewCharts,
    difference_title,
    overlaid,
    shown_views,
)
from rtsim.record.views import View

MOST_RUNS = 12
"""Greatest number of runs of one page."""
_HEAD = ("", "recording", "scenario", "seed", "pace", "end", "rows", "trace")


def write_overlay(recordings: Sequence[Recording], path: str | Path, say: Say = unheard) -> None:
    """Write a page about ``recordings`` to ``path``; the first one is the baseline.

    ``say``: called with a progress text.  Raises :class:`RecordingError` if the page cannot be
    written, or if there are more than :data:`MOST_RUNS` runs.
    """
    rendered = render_overlay(recordings, say)
    try:
        write_whole(Path(path), rendered)
    except OSError as error:
        raise RecordingError(f"cannot write the report {path}: {error.strerror}") from error


def render_overlay(recordings: Sequence[Recording], say: Say = unheard) -> str:
    """Return the page as text."""
    if not 2 <= len(recordings) <= MOST_RUNS:
        raise RecordingError(
            f"{len(recordings)} recordings were given; a page shows 2 to {MOST_RUNS} runs"
        )
    runs = list(zip(_names(recordings), recordings, strict=True))
    shown = shown_views(recordings[0])
    drawn = _Overlay(runs, shown)
    first = drawn.charts(shown.first, say)
    rest = drawn.charts(shown.rest, say)
    folded = f"<details><summary>{len(shown.rest)} more views</summary>{rest}</details>"
    sections = [
        ("views", "Views", f"{first}{folded if rest else ''}{drawn.notes()}"),
        ("runs", "Runs", _runs(runs)),
    ]
    title = f"{len(runs)} runs"
    return page(title, _head(runs), sections)


class _Overlay:
    """Draws the views of the first run with the signals of all runs."""

    def __init__(self, runs: Sequence[tuple[str, Recording]], shown: Shown) -> None:
        views = (*shown.first, *shown.rest)
        columns = 2 * len(runs) * sum(len(v.signals) for v in views)
        self._runs, self._views = runs, views
        self._drawers = [ViewCharts(run, columns) for _, run in runs]

    def charts(self, views: Sequence[View], say: Say) -> str:
        """Return a chart of each view and one of the differences of its first signal."""
        out: list[Chart] = []
        for number, view in enumerate(views, start=1):
            say(f"drawing view {number} of {len(views)} …")
            chart = self._drawers[0].chart(view)
            if chart is None:
                continue
            out += [chart] if view.over is not None else self._of(view, chart)
        return grid(out)

    def _of(self, view: View, chart: Chart) -> list[Chart]:
        """Return charts of each response, with all runs and the commands of the first run."""
        held = {line.name for line in chart.lines if line.stairs}
        commands = [name for name in view.signals[1:] if name in held]
        responses = [name for name in view.signals if name not in commands]
        single = len(responses) == 1
        out: list[Chart] = []
        for name in responses:
            place = self._drawers[0].place(name)
            if place is None:
                continue
            track, column = place
            columns = track.signals[column].columns if column in track.signals else (column,)
            for one in columns:
                title = view.title if single and len(columns) == 1 else f"{view.title}: {one}"
                drawn = self._drawn(title, track.name, one, commands if single else [])
                out += [replace(one_chart, y_label=chart.y_label) for one_chart in drawn]
        return out or [chart]

    def _drawn(self, title: str, track: str, column: str, commands: Sequence[str]) -> list[Chart]:
        """Return the chart of one column of all runs, and that of the differences."""
        values, *gaps = overlaid(self._runs, track, column, buckets=self._drawers[0].buckets)
        color = len(self._runs)
        lines = [
            line
            for k, name in enumerate(commands)
            for line in self._drawers[0].line(name, name, color + k)
        ]
        charts = [Chart(title, (*values.lines, *lines), span=values.span, marks=False)]
        if gaps:
            name = difference_title(title, self._runs[0][0], gaps[0].lines)
            charts.append(Chart(name, gaps[0].lines, span=values.span, marks=False))
        return charts

    def notes(self) -> str:
        said = (
            "Commands are those of the first run. Differences are taken at the times that both "
            "runs have. Drag across a chart to zoom all charts; a double click shows all."
        )
        wanted = {name for view in self._views for name in view.signals}
        strangers = [
            name
            for (name, _), drawer in zip(self._runs, self._drawers, strict=True)
            if not any(drawer.place(one) for one in wanted)
        ]
        if strangers:
            said += f" Without any of these signals: {', '.join(strangers)}."
        return f"<p class=soft>{text(said)}</p>"


def _names(recordings: Sequence[Recording]) -> list[str]:
    """Return short names that differ: the names of the files, with a letter if they are equal."""
    names = [Path(one.source).stem for one in recordings]
    if len(set(names)) == len(names):
        return names
    return [f"{chr(ord('A') + k)}: {name}" for k, name in enumerate(names)]


def _head(runs: Sequence[tuple[str, Recording]]) -> str:
    lines = "".join(verdict(run, name) for name, run in runs)
    first = runs[0][1].digest()
    equal = [name for name, run in runs[1:] if run.digest() == first]
    same = f"<p>Equal to {text(runs[0][0])} bit for bit: {text(', '.join(equal))}</p>"
    cut = "".join(
        f"<div class=warn>The recording {text(name)} is incomplete: {text(run.truncated)}</div>"
        for name, run in runs
        if run.truncated
    )
    return f"<h1>{len(runs)} runs</h1>{lines}{same if equal else ''}{cut}"


def _runs(runs: Sequence[tuple[str, Recording]]) -> str:
    rows = []
    for name, run in runs:
        scenario = run.header.get("scenario")
        called = scenario.get("name", "") if isinstance(scenario, dict) else ""
        rows.append(
            (name, run.source, called, run.header.get("seed", ""), run.header.get("pace", ""),
             RunEnding.of(run).in_brief, run.trace_rows, run.digest()[:16])
        )  # fmt: skip
    return table(_HEAD, rows)
