"""HTML pages that compare two runs or overlay several runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rtsim.core.errors import RecordingError
from rtsim.core.outcome import Outcome
from rtsim.record.comparison import Comparison
from rtsim.record.events import RunEnding
from rtsim.record.markup import table, text
from rtsim.record.output_files import write_whole
from rtsim.record.reading import Recording
from rtsim.record.reports.charts import Chart, grid
from rtsim.record.reports.page import Section, page
from rtsim.record.reports.run_differences import differences_table
from rtsim.record.reports.run_page import Say, unheard, verdict
from rtsim.record.reports.view_charts import (
    Shown,
    ViewCharts,
    difference_title,
    overlaid,
    shown_views,
)
from rtsim.record.verdict import SignalResult
from rtsim.record.views import View

MOST_PLOTS = 12
"""Maximum number of plotted signals.  The others appear only in the table."""
_HEAD = ("signal", "unit", "rows", "largest difference", "relative", "first differs", "verdict")
_WORDS = {
    Outcome.PASSED: "The recordings agree",
    Outcome.FAILED: "The recordings differ",
    Outcome.UNDECIDED: "The comparison is undecided",
}


def comparison_page(
    result: Comparison,
    baseline: Recording,
    candidate: Recording,
    say: Callable[[str], object] = lambda _: None,
) -> str:
    signals = [one for one in result.worst_first() if not one.stamp]
    stamps = [one for one in result.worst_first() if one.stamp]
    both = (baseline, candidate)
    letters = [f"{letter}: {_name(one)}" for letter, one in zip("AB", both, strict=True)]
    sections = [
        ("settings", "What differs in the settings", differences_table(letters, both)),
        ("plots", "Plots", _plots(signals, baseline, candidate, say)),
        ("signals", "Signals", _scrolled(signals)),
        ("stamps", "Times and stamps of messages", _folded(stamps)),
        ("runs", "Runs", _runs(result, baseline, candidate)),
    ]
    return page("Comparison", _head(result, baseline, candidate), sections)


def _head(result: Comparison, baseline: Recording, candidate: Recording) -> str:
    outcome = result.outcome
    facts = {
        "baseline": _name(baseline), "candidate": _name(candidate), "compared": result.covered,
        "signals that fail": f"{len(result.failures)} of {len(result.results)}",
    }  # fmt: skip
    boxes = "".join(f"<div><span>{k}</span>{text(str(v))}</div>" for k, v in facts.items())
    why = f"<div class=warn>{text(result.why)}</div>" if result.why else ""
    return (
        f"<h1>Comparison</h1><div class='verdict {outcome.name.lower()}'>{_WORDS[outcome]}</div>"
        f"<div class=facts>{boxes}</div>{why}"
    )


def _table(results: list[SignalResult]) -> str:
    return table(_HEAD, [one.cells() for one in results]) if results else ""


def _scrolled(results: list[SignalResult]) -> str:
    return f"<div class=scroll>{_table(results)}</div>" if results else ""


def _folded(results: list[SignalResult]) -> str:
    if not results:
        return ""
    failed = sum(bool(one.reason) for one in results)
    opened = " open" if failed else ""
    title = f"{failed} of {len(results)} fail"
    return f"<details{opened}><summary>{title}</summary>{_table(results)}</details>"


def _plots(
    results: list[SignalResult],
    baseline: Recording,
    candidate: Recording,
    say: Callable[[str], object],
) -> str:
    runs = [(f"A: {_name(baseline)}", baseline), (f"B: {_name(candidate)}", candidate)]
    drawn = [one for one in results if _column(one, baseline)][:MOST_PLOTS]
    out: list[Chart] = []
    for number, one in enumerate(drawn, start=1):
        say(f"plot {number} of {len(drawn)}")
        track = one.name.rpartition(".")[0]
        out += overlaid(runs, track, _column(one, baseline), one.tolerance)
    left = len(results) - len(drawn)
    rest = "The other signal is" if left == 1 else f"The other {left} signals are"
    note = f"<p class=soft>{rest} in the table only.</p>" if left else ""
    return grid(out) + note if out else ""


def _column(one: SignalResult, baseline: Recording) -> str:
    name, _, signal = one.name.rpartition(".")
    track = baseline.tracks.get(name)
    if track is None or not len(track) or signal not in track.signals:
        return ""
    return one.column or track.signals[signal].columns[0]


def _runs(result: Comparison, baseline: Recording, candidate: Recording) -> str:
    both = zip("AB", (baseline, candidate), strict=True)
    rows = [
        [letter, one.source, one.header.get("seed", ""), one.header.get("pace", ""),
         one.truncated or ""]
        for letter, one in both
    ]  # fmt: skip
    endings = "".join(
        f"<li>{letter} {text(str(ending))}</li>"
        for letter, ending in zip("AB", result.endings, strict=False)
    )
    extra = f"<p>Only in B: {text(', '.join(result.extra))}</p>" if result.extra else ""
    head = ("", "recording", "seed", "pace", "incomplete")
    return f"{table(head, rows)}<ul>{endings}</ul>{extra}"


def _name(recording: Recording) -> str:
    return Path(recording.source).name


# Several runs: overlays of their views, and differences from the first run.

MOST_RUNS = 12
"""Maximum number of runs on one page."""
_RUN_HEAD = ("", "recording", "scenario", "seed", "pace", "end", "rows", "trace")


def write_overlay(
    recordings: Sequence[Recording],
    path: str | Path,
    say: Say = unheard,
    first: Sequence[Section] = (),
) -> None:
    """Write an HTML page about several recordings, of which the first is the baseline.

    ``say`` is called with progress texts. ``first`` contains sections for the start of the page.
    Raises ``RecordingError`` if the page cannot be written, or for an unsuitable number of
    recordings.
    """
    rendered = render_overlay(recordings, say, first)
    try:
        write_whole(Path(path), rendered)
    except OSError as error:
        raise RecordingError(f"cannot write the report {path}: {error.strerror}") from error


def render_overlay(
    recordings: Sequence[Recording], say: Say = unheard, first: Sequence[Section] = ()
) -> str:
    if not 2 <= len(recordings) <= MOST_RUNS:
        raise RecordingError(
            f"{len(recordings)} recordings were given; a page shows 2 to {MOST_RUNS} runs"
        )
    runs = list(zip(run_names(recordings), recordings, strict=True))
    shown = shown_views(recordings[0])
    drawn = _Overlay(runs, shown)
    opened = drawn.charts(shown.first, say)
    rest = drawn.charts(shown.rest, say)
    folded = f"<details><summary>{len(shown.rest)} more views</summary>{rest}</details>"
    names = [name for name, _ in runs]
    sections = [
        *first,
        ("settings", "What differs in the settings", differences_table(names, recordings)),
        ("views", "Views", f"{opened}{folded if rest else ''}{drawn.notes()}"),
        ("runs", "Runs", _overlaid_runs(runs)),
    ]
    title = f"{len(runs)} runs"
    return page(title, _overlay_head(runs), sections)


class _Overlay:
    def __init__(self, runs: Sequence[tuple[str, Recording]], shown: Shown) -> None:
        views = (*shown.first, *shown.rest)
        columns = 2 * len(runs) * sum(len(v.signals) for v in views)
        self._runs, self._views = runs, views
        self._drawers = [ViewCharts(run, columns) for _, run in runs]

    def charts(self, views: Sequence[View], say: Say) -> str:
        out: list[Chart] = []
        for number, view in enumerate(views, start=1):
            say(f"drawing view {number} of {len(views)} …")
            chart = self._drawers[0].chart(view)
            if chart is None:
                continue
            out += [chart] if view.over is not None else self._of(view, chart)
        return grid(out)

    def _of(self, view: View, chart: Chart) -> list[Chart]:
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


def run_names(recordings: Sequence[Recording]) -> list[str]:
    """Return different short names for files, with letters if names are equal."""
    names = [Path(one.source).stem for one in recordings]
    if len(set(names)) == len(names):
        return names
    return [f"{chr(ord('A') + k)}: {name}" for k, name in enumerate(names)]


def _overlay_head(runs: Sequence[tuple[str, Recording]]) -> str:
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


def _overlaid_runs(runs: Sequence[tuple[str, Recording]]) -> str:
    rows = []
    for name, run in runs:
        scenario = run.header.get("scenario")
        called = scenario.get("name", "") if isinstance(scenario, dict) else ""
        rows.append(
            (name, run.source, called, run.header.get("seed", ""), run.header.get("pace", ""),
             RunEnding.of(run).in_brief, run.trace_rows, run.digest()[:16])
        )  # fmt: skip
    return table(_RUN_HEAD, rows)
