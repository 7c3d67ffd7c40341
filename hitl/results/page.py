"""Write an HTML page about a comparison."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hitl.comparison.execution import LABEL, OnTarget
from hitl.comparison.flight import LoopComparison, allowance
from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.outputs import C_AGAINST_DESIGN, OutputResult, Sides, lined_up
from hitl.comparison.verdict import BackToBack, ComparisonChain
from hitl.results.columns import (
    closed_table,
    facts,
    faults_of,
    flights_of,
    histogram,
    last_of,
    notes,
    open_table,
    percent,
    required_of,
    stimuli_table,
    warnings_of,
    write,
)
from hitl.results.table import executions
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Signal, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.markup import block, table, text
from rtsim.record.plotly_html import BLUE, GREY, ORANGE, RED, go, make_subplots, plot_html
from rtsim.record.reading import TrackData
from rtsim.record.reports import run_page
from rtsim.record.reports.charts import BUCKETS, thin
from rtsim.record.reports.page import page
from rtsim.record.verdict import ComparedSignal, SignalResult, short
from rtsim.requirements.section import requirements_html

# Plots of a signal on both sides, and of the difference.

_HEIGHT = 380
GREEN, PURPLE = "#1b7f4b", "#7a3fb0"
_STYLES = ((ORANGE, "dash", RED), (GREEN, "dot", PURPLE))
"""Colour and dash of each further trace, and the colour of its difference."""


@dataclass(frozen=True)
class Traces:
    """A signal of both sides of a comparison, at the same times.

    Vectors have shape (n,), with NaN for missing data.
    """

    name: str
    unit: str
    seconds: Vector
    design: Vector
    translation: Vector
    gap: Vector
    """Difference of both sides, as the verdict measures it."""
    allowed: Vector
    first_failed: float | None = None
    """Time of the first failure, s; None if there is none."""
    held: bool = True
    """True if the signal is constant between two points, like the outputs of a controller."""
    sides: Sides = C_AGAINST_DESIGN
    then: Traces | None = None
    """The same signal at the next level, which is compared with this translation."""

    @property
    def chain(self) -> list[Traces]:
        """The traces of the signal in this and all later comparisons."""
        return [self, *(self.then.chain if self.then is not None else ())]


def traces_html(traces: Traces, *, when_opened: bool = False) -> str:
    """Return a plot of all traces, with differences and tolerances below.

    With ``when_opened``, the plot is drawn when the reader opens its section.
    """
    unit = "" if traces.unit in ("", "1") else f" [{traces.unit}]"
    figure = make_subplots(2, 1, shared_xaxes=True, row_heights=[0.58, 0.42], vertical_spacing=0.06)
    shape = "hv" if traces.held else "linear"
    chain = traces.chain
    line = {"color": BLUE, "width": 2.6, "dash": "solid", "shape": shape}
    _add(figure, 1, traces.seconds, traces.design, traces.sides.reference, line=line)
    for pair, (color, dash, _) in zip(chain, _STYLES, strict=False):
        line = {"color": color, "width": 1.3, "dash": dash, "shape": shape}
        _add(figure, 1, pair.seconds, pair.translation, pair.sides.translation, line=line)
    for pair, (_, _, color) in zip(chain, _STYLES, strict=False):
        _add_gap(figure, pair, color, "difference" if len(chain) == 1 else pair.sides.gap)
    allowed = np.where(traces.allowed > 0, traces.allowed, np.nan)
    line = {"color": GREY, "width": 1.2, "dash": "dot", "shape": shape}
    _add(figure, 2, traces.seconds, allowed, "allowed", line=line)
    failed = [pair.first_failed for pair in chain if pair.first_failed is not None]
    if failed:
        _mark(figure, min(failed))
    figure.update_yaxes(title=html.escape(f"{traces.name}{unit}"), row=1, col=1)
    apart = f"|{traces.sides.gap}|" if len(chain) == 1 else "differences"
    figure.update_yaxes(title=f"{apart}{html.escape(unit)}", type="log", row=2, col=1)
    figure.update_yaxes(exponentformat="power", minexponent=5, title_font_size=12)
    figure.update_xaxes(title="time [s]", row=2, col=1)
    legend = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}
    figure.update_layout(height=_HEIGHT, legend=legend)
    if not any((pair.gap != 0).any() for pair in chain):
        _say_equal(figure)
    return plot_html(figure, when_opened=when_opened)


def _add_gap(figure: go.Figure, pair: Traces, color: str, name: str) -> None:
    far = (pair.gap > 0) & np.isfinite(pair.gap)
    gap = np.where(far, pair.gap, np.nan)  # a logarithmic axis has no 0
    line, marker = {"color": color, "width": 1}, {"color": color, "size": 3}
    _add(figure, 2, pair.seconds, gap, name, line=line, marker=marker, mode="lines+markers")


def _add(figure: go.Figure, row: int, t: Vector, y: Vector, name: str, **style: object) -> None:
    some = np.isfinite(y).any()
    x, shown = thin(t, y) if some else (t[:0], y[:0])
    style.setdefault("mode", "lines" if len(x) > 2 else "lines+markers")
    figure.add_trace(go.Scatter(x=x, y=shown, name=name, connectgaps=False, **style), row, 1)


def _mark(figure: go.Figure, seconds: float) -> None:
    line = {"color": RED, "width": 1.4, "dash": "dash"}
    for row in (1, 2):
        figure.add_vline(x=seconds, line=line, row=row, col=1)
    figure.add_annotation(
        x=seconds, y=1.0, xref="x", yref="y domain", text=f"first failure, {seconds:.9g} s",
        showarrow=False, xanchor="left", yanchor="top", font={"color": RED, "size": 12},
    )  # fmt: skip


def _say_equal(figure: go.Figure) -> None:
    figure.add_annotation(
        x=0.5, y=0.5, xref="x2 domain", yref="y2 domain", text="no difference", showarrow=False,
        font={"color": GREY, "size": 13},
    )  # fmt: skip


# The data of the plots: the values of a signal on both sides, and their difference.


def stepped_traces(loops: Sequence[OpenLoop], signal: str) -> Traces:
    """Return the values of an output in open loop, for each comparison."""
    above = stepped_traces(loops[1:], signal) if loops[1:] else None
    return _stepped(loops[0], next(s for s in loops[0].signals if s.name == signal), above)


def _stepped(loop: OpenLoop, signal: OutputResult, above: Traces | None) -> Traces:
    column = loop.signals.index(signal)
    gap, allowed = _distance(loop, signal, column)
    failed = None if signal.first_failed is None else signal.first_failed.ns / NS_PER_S
    return Traces(
        signal.name,
        signal.unit,
        loop.tags[:, 0] / NS_PER_S,
        loop.design[:, column],
        loop.translation[:, column],
        gap,
        allowed,
        failed,
        sides=loop.sides,
        then=above,
    )


def _distance(
    loop: OpenLoop, signal: OutputResult, column: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = loop.design[:, [column]], loop.translation[:, [column]]
    measured = signal.pair(loop.tags).measure(a, b)
    gap = measured.gap[:, 0]
    gap[loop.answered :] = np.nan
    return gap, measured.allowed[:, 0]


def loop_traces(
    flights: Sequence[LoopComparison], controllers: list[str], most: int
) -> list[Traces]:
    """Return traces of at most ``most`` signals.

    Failed signals come first, then outputs of C code, then signals with large differences.
    """
    said = tuple(f"messages/{name}." for name in controllers)
    found = [r for flight in reversed(flights) for r in flight.comparison.worst_first()]
    failed = {r.name for r in found if r.reason}
    order = sorted(
        dict.fromkeys(r.name for r in found),
        key=lambda n: (n not in failed, not n.startswith(said) or ".inputs." in n),
    )
    drawn: list[Traces] = []
    for name in order:
        if len(drawn) >= most:
            break
        drawn += _chained([_columns(f, r) for f in flights for r in _named(f, name)])[
            : most - len(drawn)
        ]
    return drawn


def _named(flight: LoopComparison, name: str) -> list[SignalResult]:
    return [r for r in flight.comparison.results if r.name == name]


def _chained(pairs: list[list[Traces]]) -> list[Traces]:
    some = [columns for columns in pairs if columns]
    if len(some) < 2:
        return some[0] if some else []
    above = _chained(some[1:])
    return [replace(one, then=then) for one, then in zip(some[0], above, strict=True)]


def _columns(flight: LoopComparison, result: SignalResult) -> list[Traces]:
    name, _, signal = result.name.rpartition(".")
    a, b = (recording.tracks.get(name) for recording in flight.paired)
    if a is None or b is None or signal not in a.signals or signal not in b.signals:
        return []
    n = _paired(a, b)
    if n == 0:
        return []
    declared = a.signals[signal]
    x, y = (t.rows.floats[:n, t.signals.slice(signal)] for t in (a, b))
    measured = ComparedSignal(a, np.arange(n), name, declared, result.tolerance).measure(x, y)
    failed = None if result.first_failed is None else result.first_failed.ns / NS_PER_S
    return [
        Traces(
            f"{name}.{column}",
            declared.unit,
            a.rows.ns[:n] / NS_PER_S,
            x[:, i],
            _turned(declared, x, y)[:, i],
            measured.gap[:, i],
            measured.allowed[:, i],
            failed,
            held="side" not in a.integers,
            sides=flight.sides,
        )
        for i, column in enumerate(declared.columns)
    ]


def _turned(signal: Signal, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    return lined_up(x, y) if signal.kind == "quaternion" else y


def _paired(a: TrackData, b: TrackData) -> int:
    n = min(len(a), len(b))
    differ = np.flatnonzero(a.rows.ns[:n] != b.rows.ns[:n])
    return int(differ[0]) if len(differ) else n


# The page's section on boards: identity, and times of exchanges and steps.

_BINS = 40


def boards_html(pairs: Sequence[BackToBack]) -> str:
    flight = pairs[-1].flight
    late, missed = (0, 0) if flight is None else (flight.late, flight.missed)
    out = ""
    for name, target in last_of(pairs).items():
        rows = facts(target, late, missed).items()
        out += f"<h3>{text(name)}</h3>{table(('', ''), rows)}{distributions_html(target)}"
    return out


def distributions_html(target: OnTarget) -> str:
    """Return histograms of exchange times and of cycles per step as HTML."""
    exchange = target.exchange
    if exchange is None or not len(target.cycles):
        return ""
    titles = (html.escape(exchange.label), "processor cycles of a step, target clock")
    figure = make_subplots(1, 2, subplot_titles=titles, horizontal_spacing=0.09)
    budget = target.budget.exchange_ns / 1e6
    _bars(figure, 1, exchange.took_ns / 1e6, BLUE, seen=(budget,))
    _bars(figure, 2, target.cycles, ORANGE)
    _line(figure, 1, budget, "wire time plus longest step", GREY)
    _line(figure, 1, exchange.max / 1e6, "maximum observed", RED)
    _line(figure, 2, float(target.cycles.max()), "maximum observed", RED)
    figure.update_xaxes(title="ms", row=1, col=1)
    figure.update_xaxes(title="cycles", tickformat="d", row=1, col=2)
    figure.update_yaxes(title="steps", type="log", row=1, col=1)
    figure.update_yaxes(type="log", row=1, col=2)
    legend = {"orientation": "h", "x": 0, "y": -0.25, "yanchor": "top"}
    figure.update_layout(height=360, bargap=0.02, legend=legend, margin_b=90)
    return plot_html(figure)


def _bars(
    figure: go.Figure,
    column: int,
    values: NDArray[np.int64] | NDArray[np.float64],
    color: str,
    seen: tuple[float, ...] = (),
) -> None:
    rows = histogram(values, _BINS, seen)
    low, high, count = (np.array(part) for part in zip(*rows, strict=True))
    width = np.where(high > low, high - low, np.maximum(np.abs(low), 1e-9) / 1000)
    bars = go.Bar(
        x=(low + high) / 2, y=count, width=width, marker_color=color, showlegend=False,
        hovertemplate="%{x}: %{y} steps<extra></extra>",
    )  # fmt: skip
    figure.add_trace(bars, 1, column)


def _line(figure: go.Figure, column: int, x: float, name: str, color: str) -> None:
    shown = column == 1
    line = {"color": color, "width": 1.5, "dash": "dash"}
    figure.add_trace(
        go.Scatter(
            x=[x, x], y=[0.8, _top(figure, column)], mode="lines", line=line, name=name,
            legendgroup=name, showlegend=shown, hovertemplate=f"{name}: %{{x}}<extra></extra>",
        ),
        1, column,
    )  # fmt: skip


def _top(figure: go.Figure, column: int) -> float:
    axis = "y" if column == 1 else "y2"
    heights = [t.y for t in figure.data if t.type == "bar" and t.yaxis == axis]
    return 1.4 * float(np.max(heights[0]))


MOST_PLOTS = 12
"""Maximum number of plotted closed-loop signals.

Failed signals come first, then C outputs, then signals with large differences.
"""
_OWN_STYLE = """
.ok { color: #1b7f4b; } .no { color: #c62828; font-weight: 600; }
.undecided { color: #9a6700; font-weight: 600; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: var(--back); padding: 8px 12px; }
"""
Pairs = Sequence[BackToBack]


def write_page(result: BackToBack | ComparisonChain, path: str | Path) -> None:
    """Write an HTML page to ``path``; raise ``RecordingError`` on failure."""
    write(Path(path), render(result))


def render(result: BackToBack | ComparisonChain) -> str:
    """Return the page as HTML, with all names and texts escaped."""
    pairs = result.pairs
    sections = [("verdict", "Verdict", _verdict(result))]
    for i, name in enumerate(pairs[0].open):
        loops = [pair.open[name] for pair in pairs]
        sections.append((f"open-{i}", f"Open loop: {text(name)}", _open(loops)))
    sections.append(("stimuli", "Generated stimuli", _stimulated(pairs)))
    sections.append(("closed", "Closed loop", _closed(pairs)))
    sections.append(("requirements", "Requirements", requirements_html(required_of(pairs))))
    sections.append(("faults", "Faults", _faults(pairs)))
    sections.append(("execution", "Execution time", _execution(pairs)))
    sections.append(("board", "On the board", boards_html(pairs)))
    sections.append(("warnings", "Compiler warnings", _warnings(pairs)))
    sections.append(("setup", "Set-up", _setup(pairs)))
    title = f"back to back: {result.scenario}"
    head = f"<h1>{text(title)}</h1>{_facts(result)}"
    return page(title, head, sections, style=_OWN_STYLE, generator=MARK)


MARK = "rtsim sil test"
"""Text by which :func:`hitl.results.columns.check_result` recognises an older page."""


def _facts(result: BackToBack | ComparisonChain) -> str:
    facts = {
        "simulated": f"{result.settings.get('until_s', 0.0):g} s",
        "seed": result.settings.get("seed", ""),
        "pace": result.settings.get("pace", ""),
        "latency": result.settings.get("latency", ""),
        "inputs": result.settings.get("inputs", ""),
    }
    boxes = "".join(f"<div><span>{k}</span>{text(v)}</div>" for k, v in facts.items())
    return f"<div class=facts>{boxes}</div>"


def _verdict(result: BackToBack | ComparisonChain) -> str:
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
