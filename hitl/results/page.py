"""One HTML page about one comparison, with everything in it: no network, no other files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plotly.offline

from hitl.comparison.execution import LABEL, Execution
from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.outputs import OutputResult
from hitl.comparison.verdict import BackToBack, Flight, allowance
from hitl.results.figures import traces_html
from hitl.results.files import write
from hitl.results.table import closed_cells, open_cells, percent
from hitl.results.traces import flown_traces, stepped_traces
from rtsim.record import figures
from rtsim.record.markup import STYLE, block, table, text
from rtsim.record.thinning import BUCKETS
from rtsim.record.verdict import short

MOST_PLOTS = 12
"""Signals of the loop that are drawn: what fails, outputs of the C, then what differs most."""
_OWN_STYLE = """
.ok { color: #1b7f4b; } .no { color: #c62828; font-weight: 600; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--back); padding: 8px 12px; }
"""


def write_page(result: BackToBack, path: str | Path) -> None:
    """Write it; :class:`RecordingError` where the file cannot be written."""
    write(Path(path), render(result))


def render(result: BackToBack) -> str:
    """The page as text.  What comes from names, errors and files is escaped."""
    sections = [("verdict", "Verdict", _verdict(result))]
    for i, (name, loop) in enumerate(result.open.items()):
        sections.append((f"open-{i}", f"Open loop: {text(name)}", _open(loop)))
    if result.flight is not None:
        sections.append(("closed", "Closed loop", _closed(result, result.flight)))
    sections.append(("execution", "Execution time", _execution(result)))
    sections.append(("setup", "Set-up", _setup(result)))
    shown = [(key, title, body) for key, title, body in sections if body]
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in shown)
    bodies = "\n".join(f'<section id="{k}"><h2>{t}</h2>{b}</section>' for k, t, b in shown)
    title = f"back to back: {result.scenario}"
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<meta name='generator' content='{MARK}'>"
        f"<title>{text(title)}</title><style>{STYLE}{_OWN_STYLE}</style>"
        f"<script>{plotly.offline.get_plotlyjs()}</script></head><body>"
        f"<header><div><h1>{text(title)}</h1>{_facts(result)}<nav>{links}</nav></div></header>"
        f"<main>{bodies}</main><script>{figures.DRAW_WHEN_OPENED}</script></body></html>\n"
    )


MARK = "rtsim sil test"
"""By which an older page is known again."""


def _facts(result: BackToBack) -> str:
    latency = result.settings.get("latency_s")
    facts = {
        "simulated": f"{result.settings.get('until_s', 0.0):g} s",
        "seed": result.settings.get("seed", ""),
        "pace": result.settings.get("pace", ""),
        "latency": "as declared" if latency is None else f"{latency:g} s",
        "inputs": result.settings.get("inputs", ""),
    }
    boxes = "".join(f"<div><span>{k}</span>{text(v)}</div>" for k, v in facts.items())
    return f"<div class=facts>{boxes}</div>"


def _verdict(result: BackToBack) -> str:
    state = "ok" if result.ok else "no"
    lines = result.in_words.splitlines()
    out = f"<p class={state}>{text(lines[0])}</p>"
    if lines[1:]:
        out += f"<pre>{text(chr(10).join(lines[1:]))}</pre>"
    return out + "".join(f"<div class=warn>{text(note)}</div>" for note in result.notes)


def _open(loop: OpenLoop) -> str:
    """Tables first; below them each output, the worst first."""
    heads = ("output", "unit", "type", "max abs", "max rel", "ULP", "of tolerance", "worst step")
    rows = [open_cells(s) for s in loop.worst_first()]
    results = table((*heads, "verdict"), rows)
    plots = "".join(_plot(loop, s) for s in loop.worst_first())
    notes = (
        f"{loop.steps:,} steps on the same inputs, {loop.answered:,} answered. The largest "
        "difference relative to its tolerance comes first."
    )
    error = f"<pre>{text(loop.error)}</pre>" if loop.error else ""
    return f"<p class=soft>{notes}</p>{error}{results}{_cost(loop)}{plots}"


def _plot(loop: OpenLoop, signal: OutputResult) -> str:
    traces = stepped_traces(loop, signal)
    thinned = (
        f" Thinned for display: of each of {BUCKETS} equal parts of the time the first, least, "
        "greatest and last value are drawn."
        if len(traces.seconds) > 5 * BUCKETS
        else ""
    )
    title = f"{loop.name}.{signal.name}"
    about = f"Allowed: {allowance(signal)}.{thinned}"
    return f"<h3>{text(title)}</h3><div class=soft>{text(about)}</div>{traces_html(traces)}"


def _cost(loop: OpenLoop) -> str:
    """Where the C's arithmetic costs most: of each output the worst step, and what went in."""
    rows = []
    for signal in loop.worst_first():
        if signal.worst_step is None:
            continue
        moment = loop.moment(signal, signal.worst_step)
        rows.append(
            (
                signal.name,
                signal.type,
                percent(signal.share),
                moment.step,
                short(moment.tag),
                repr(moment.design),
                repr(moment.translation),
                moment.inputs_in_words,
            )
        )
    if not rows:
        return "<p class=soft>Every output of every step has the same bits.</p>"
    heads = ("output", "type", "of tolerance", "step", "at", "design", "C", "inputs")
    return f"<h3>Where it costs most: the worst step of each output</h3>{table(heads, rows)}"


def _closed(result: BackToBack, flight: Flight) -> str:
    heads = ("signal", "unit", "max abs", "max rel", "tolerance (abs, rel)", "verdict")
    rows = [closed_cells(r) for r in flight.comparison.worst_first()]
    words = "" if flight.ok else f"{result.closed_in_words}\n{result.explanation}"
    out = f"<pre>{text(words)}</pre>" if words else ""
    out += f"<div class=scroll>{table(heads, rows)}</div>"
    drawn = flown_traces(flight, list(result.open), MOST_PLOTS)
    for traces in drawn:
        plot = traces_html(traces, when_opened=True)
        failed = " <span class=no>fails</span>" if traces.first_failed is not None else ""
        out += f"<details><summary>{text(traces.name)}{failed}</summary>{plot}</details>"
    return out


def _execution(result: BackToBack) -> str:
    times = {f"{name}, open loop": loop.execution for name, loop in result.open.items()}
    if result.flight is not None:
        times |= {f"{name}, in the loop": e for name, e in result.flight.execution.items()}
    known: dict[str, Execution] = {k: e for k, e in times.items() if e is not None}
    if not known:
        return "<p class=soft>Not taken: only plain builds are timed.</p>"
    heads = ("controller", "min", "mean", "p99", "max observed", "at step", "of the period")
    rows = [(name, *e.cells()) for name, e in known.items()]
    samples = {
        name: (e.took_ns.astype(np.float64), np.ones(len(e.took_ns))) for name, e in known.items()
    }
    return (
        f"<p class=soft>{LABEL[:1].upper()}{LABEL[1:]}: on this machine, not on the target, and "
        "observed, so no bound.</p>"
        f"{table(heads, rows, numeric=1)}{figures.timing_histograms(samples, 'steps')}"
    )


def _setup(result: BackToBack) -> str:
    blocks = "".join(block(name, dict(loop.about)) for name, loop in result.open.items())
    return f"<div class=columns>{block('settings', result.settings)}{blocks}</div>"
