"""A self-contained HTML page about a comparison: the verdict first, then the signals and plots."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rtsim.core.outcome import Outcome
from rtsim.record.comparison import Comparison
from rtsim.record.markup import table, text
from rtsim.record.reading import Recording
from rtsim.record.reports.charts import Chart, grid
from rtsim.record.reports.page import page
from rtsim.record.reports.view_charts import overlaid
from rtsim.record.verdict import SignalResult

MOST_PLOTS = 12
"""Number of signals that are drawn; the others are in the table only."""
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
    """Return the page as text; ``say`` is called with a progress text."""
    signals = [one for one in result.worst_first() if not one.stamp]
    stamps = [one for one in result.worst_first() if one.stamp]
    sections = [
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
    failed = sum(not one.ok for one in results)
    opened = " open" if failed else ""
    title = f"{failed} of {len(results)} fail"
    return f"<details{opened}><summary>{title}</summary>{_table(results)}</details>"


def _plots(
    results: list[SignalResult],
    baseline: Recording,
    candidate: Recording,
    say: Callable[[str], object],
) -> str:
    """Return plots of the signals that differ most, or of the first ones if none differs."""
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
    """Return the column to draw: of an array the one that differs most; empty without rows."""
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
