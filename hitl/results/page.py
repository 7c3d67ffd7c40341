"""One HTML page about one comparison.  The page needs no network and no other files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hitl.comparison.execution import LABEL
from hitl.comparison.flight import allowance
from hitl.comparison.ladder import Ladder
from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.outputs import OutputResult
from hitl.comparison.verdict import BackToBack
from hitl.results.columns import closed_table, flights_of, open_table, percent, stimuli_table
from hitl.results.faults import faults_of, notes
from hitl.results.figures import traces_html
from hitl.results.files import write
from hitl.results.on_boards import boards_html
from hitl.results.table import executions
from hitl.results.traces import loop_traces, stepped_traces
from hitl.results.warnings import warnings_of
from rtsim.core.outcome import Outcome
from rtsim.record.markup import block, table, text
from rtsim.record.reports import run_page
from rtsim.record.reports.charts import BUCKETS
from rtsim.record.reports.page import page
from rtsim.record.verdict import short

MOST_PLOTS = 12
"""Most closed-loop signals to plot: failures first, then C outputs, then large differences."""
_OWN_STYLE = """
.ok { color: #1b7f4b; } .no { color: #c62828; font-weight: 600; }
.undecided { color: #9a6700; font-weight: 600; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--back); padding: 8px 12px; }
"""
Pairs = Sequence[BackToBack]


def write_page(result: BackToBack | Ladder, path: str | Path) -> None:
    """Write the page to ``path``; raises :class:`RecordingError` if that fails."""
    write(Path(path), render(result))


def render(result: BackToBack | Ladder) -> str:
    """Return the page as HTML text.  Names, errors and texts from files are escaped."""
    pairs = result.pairs
    sections = [("verdict", "Verdict", _verdict(result))]
    for i, name in enumerate(pairs[0].open):
        loops = [pair.open[name] for pair in pairs]
        sections.append((f"open-{i}", f"Open loop: {text(name)}", _open(loops)))
    sections.append(("stimuli", "Generated stimuli", _stimulated(pairs)))
    sections.append(("closed", "Closed loop", _closed(pairs)))
    sections.append(("faults", "Faults", _faults(pairs)))
    sections.append(("execution", "Execution time", _execution(pairs)))
    sections.append(("board", "On the board", boards_html(pairs)))
    sections.append(("warnings", "Compiler warnings", _warnings(pairs)))
    sections.append(("setup", "Set-up", _setup(pairs)))
    title = f"back to back: {result.scenario}"
    head = f"<h1>{text(title)}</h1>{_facts(result)}"
    return page(title, head, sections, style=_OWN_STYLE, generator=MARK)


MARK = "rtsim sil test"
"""The text by which :func:`hitl.results.files.check_result` recognises an older page."""


def _facts(result: BackToBack | Ladder) -> str:
    facts = {
        "simulated": f"{result.settings.get('until_s', 0.0):g} s",
        "seed": result.settings.get("seed", ""),
        "pace": result.settings.get("pace", ""),
        "latency": result.settings.get("latency", ""),
        "inputs": result.settings.get("inputs", ""),
    }
    boxes = "".join(f"<div><span>{k}</span>{text(v)}</div>" for k, v in facts.items())
    return f"<div class=facts>{boxes}</div>"


def _verdict(result: BackToBack | Ladder) -> str:
    state = {Outcome.PASSED: "ok", Outcome.FAILED: "no"}.get(result.outcome, "undecided")
    lines = result.in_words.splitlines()
    out = f"<p class={state}>{text(lines[0])}</p>"
    if lines[1:]:
        out += f"<pre>{text(chr(10).join(lines[1:]))}</pre>"
    out += "".join(f"<div class=warn>{text(note)}</div>" for note in result.notes)
    rows = [("compared", t) for t in result.coverage]
    rows += [("not exercised", t) for t in result.unexercised]
    return out + table(("", ""), rows)


def _open(loops: Sequence[OpenLoop]) -> str:
    """Return the table of an open loop, followed by a plot of each output, the worst first."""
    columns, rows = open_table(loops)
    results = table([c.name for c in columns], rows)
    plots = "".join(_plot(loops, row[0]) for row in rows)
    counts = [f"{loop.answered:,} by the {loop.sides.translation}" for loop in loops]
    answered = "all" if all(loop.answered == loop.steps for loop in loops) else ", ".join(counts)
    notes = (
        f"{loops[0].steps:,} steps on the same inputs, {answered} answered. Outputs are sorted by "
        "their share of the tolerance."
    )
    errors = "".join(f"<pre>{text(loop.error)}</pre>" for loop in loops if loop.error)
    costs = "".join(_cost(loop, len(loops) > 1) for loop in loops)
    return f"<p class=soft>{notes}</p>{errors}{results}{costs}{plots}"


def _plot(loops: Sequence[OpenLoop], output: str) -> str:
    signal = next(s for s in loops[0].signals if s.name == output)
    traces = stepped_traces(loops, output)
    thinned = (
        f" The plot is thinned: for each of {BUCKETS} equal parts of the time it shows the first, "
        "the smallest, the largest and the last value."
        if len(traces.seconds) > 5 * BUCKETS
        else ""
    )
    title = f"{loops[0].name}.{output}"
    about = f"Allowed: {allowance(signal)}.{thinned}"
    return f"<h3>{text(title)}</h3><div class=soft>{text(about)}</div>{traces_html(traces)}"


def _cost(loop: OpenLoop, several: bool) -> str:
    """Return a table of the worst step of each output, with the inputs of that step."""
    rows = [_worst(loop, s, s.worst_step) for s in loop.worst_first() if s.worst_step is not None]
    who = f"{text(loop.sides.gap)}: " if several else ""
    if not rows:
        return f"<p class=soft>{who}All outputs of all steps are equal bit for bit.</p>"
    heads = ("output", "type", "of tolerance", "step", "time", *loop.sides.shown, "inputs")
    return f"<h3>{who}Worst step of each output</h3>{table(heads, rows)}"


def _worst(loop: OpenLoop, signal: OutputResult, step: int) -> tuple[object, ...]:
    moment = loop.moment(signal, step)
    return (
        signal.name,
        signal.type,
        percent(signal.share),
        moment.step,
        short(moment.tag),
        repr(moment.design),
        repr(moment.translation),
        moment.inputs_in_words,
    )


def _stimulated(pairs: Pairs) -> str:
    """Return a table of the stimuli of each controller, with the failures."""
    out = ""
    for pair in pairs:
        for one in pair.stimulated.values():
            columns, rows = stimuli_table(one)
            title = f"{one.title}, {pair.sides.gap}" if len(pairs) > 1 else one.title
            errors = f"<pre>{text(chr(10).join(one.why))}</pre>" if one.why else ""
            out += f"<h3>{text(title)}</h3>{errors}{table([c.name for c in columns], rows)}"
    return out


def _closed(pairs: Pairs) -> str:
    flights = flights_of(pairs)
    if not flights:
        return ""
    columns, rows = closed_table(flights)
    failed = [p for p in pairs if p.flight is not None and not p.flight.ok]
    words = "\n".join(f"{p.closed_in_words}\n{p.explanation}" for p in failed)
    out = f"<pre>{text(words)}</pre>" if words else ""
    out += f"<div class=scroll>{table([_long(c.name) for c in columns], rows)}</div>"
    for traces in loop_traces(flights, list(pairs[0].open), MOST_PLOTS):
        plot = traces_html(traces, when_opened=True)
        fails = any(pair.first_failed is not None for pair in traces.chain)
        mark = " <span class=no>fails</span>" if fails else ""
        out += f"<details><summary>{text(traces.name)}{mark}</summary>{plot}</details>"
    return out


def _faults(pairs: Pairs) -> str:
    faults = faults_of(pairs)
    if not faults:
        return ""
    heads = ("fault", "kind", "where", "", "activations", "first [s]", "last [s]")
    who = pairs[-1].sides.translation if pairs[-1].flight is not None else pairs[0].sides.reference
    about = f"In the run with the {who}."
    remarks = "".join(f"<div class=warn>{text(note)}</div>" for note in notes(pairs))
    return f"<p class=soft>{text(about)}</p>{table(heads, faults, numeric=4)}{remarks}"


def _long(head: str) -> str:
    return "tolerance (abs, rel)" if head == "tolerance" else head


def _execution(pairs: Pairs) -> str:
    known = list(executions(pairs))
    if not known:
        return "<p class=soft>Not measured: execution times are measured for plain builds only.</p>"
    labels = sorted({e.label for *_, e in known})
    said = {"open": "open loop", "closed": "in the loop"}
    named = {f"{name}, {said[loop]}": e for name, loop, e in known}
    heads = ("controller", "clock", "min", "mean", "p99", "max observed", "at step")
    rows = [(name, e.clock, *e.cells()) for name, e in named.items()]
    if labels == [LABEL]:
        about = f"{LABEL}, measured on this machine and not on the target"
    else:
        about = f"{'; '.join(labels)}, each measured by its own clock"
    samples = {
        name: (e.took_ns.astype(np.float64), np.ones(len(e.took_ns))) for name, e in named.items()
    }
    return (
        f"<p class=soft>{text(about[:1].upper() + about[1:])}. "
        "The maximum is the longest observed time, which is no upper bound.</p>"
        f"{table((*heads, 'of the period'), rows, numeric=2)}"
        f"{run_page.timing_histograms(samples, 'steps')}"
    )


def _warnings(pairs: Pairs) -> str:
    said = warnings_of(pairs).items()
    return "".join(f"<h3>{text(name)}</h3><pre>{text(words)}</pre>" for name, words in said)


def _setup(pairs: Pairs) -> str:
    several = len(pairs) > 1
    blocks = "".join(
        block(f"{name}, {pair.sides.translation}" if several else name, dict(loop.about))
        for pair in pairs
        for name, loop in pair.open.items()
    )
    return f"<div class=columns>{block('settings', pairs[-1].settings)}{blocks}</div>"
