"""Self-contained HTML page about one run.

The page begins with the verdict and the views of the scenario. All text from the recording is
escaped. Long traces are reduced, which the page states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.core.errors import RecordingError
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Duration, Tag, to_ns
from rtsim.record import events, measured
from rtsim.record.component_values import MESSAGES, SAMPLED
from rtsim.record.events import ERROR, FAULT, FAULT_ENDED, UNKNOWN, Event, RunEnding, Span
from rtsim.record.markup import block, duration, flat, mapping, table, text
from rtsim.record.output_files import write_whole
from rtsim.record.reading import Recording, TrackData
from rtsim.record.reports import drawing, gantt
from rtsim.record.reports.charts import COMMAND, RESPONSE, Chart, Line, grid, page_marks, thin
from rtsim.record.reports.page import Section, page
from rtsim.record.reports.view_charts import ViewCharts, shown_views
from rtsim.record.views import View, with_unit
from rtsim.timing.frames import NO_SAMPLE, WorstFrame

# Charts other than those of the views.

MOST_LINES = 30
"""Maximum number of events, and of faults, that every chart marks."""
_FAULTS = (FAULT, FAULT_ENDED)
_EVENT_COLOR = 4
_BINS_PER_DECADE = 12
_FEWEST_BINS = 30
_ROW_PX, _FRAME_PX = 26, 64


def marked(
    events: Sequence[Event], faults: Sequence[Span]
) -> tuple[list[float], list[tuple[float, float]]]:
    """Return the times of events [s] and the durations of faults [s] to mark in all charts.

    Kinds with few events have priority. O Only a timeline shows the faults if there are more than
    ``MOST_LINES``.
    """
    kinds: dict[str, set[float]] = {}
    for event in events:
        if event.kind not in _FAULTS:
            kinds.setdefault(event.kind, set()).add(event.tag.seconds)
    seconds: set[float] = set()
    for times in sorted(kinds.values(), key=len):
        seconds |= times if len(seconds | times) <= MOST_LINES else set()
    spans = [(began, ended) for _, began, ended, _ in faults]
    return sorted(seconds), spans if len(spans) <= MOST_LINES else []


def timeline(events: Sequence[Event], end_ns: int, faults: Sequence[Span] = ()) -> str:
    events = [e for e in events if not (faults and e.kind in _FAULTS)]
    kinds = list(dict.fromkeys(e.kind for e in events))
    names = sorted({span.fault for span in faults})
    lines = [_bars(k, n, [s for s in faults if s.fault == n]) for k, n in enumerate(names)]
    for k, kind in enumerate(kinds, start=len(names)):
        x = np.unique([e.tag.seconds for e in events if e.kind == kind])
        lines.append(Line(kind, x, np.full(len(x), float(k)), _EVENT_COLOR, points=True))
    rows = [*(f"fault {name}" for name in names), *kinds]
    height = _FRAME_PX + _ROW_PX * len(rows)
    span = (0.0, end_ns / NS_PER_S)
    return Chart("Events", lines, rows=rows, marks=False, span=span, height=height).html()


def _bars(row: int, name: str, activations: Sequence[Span]) -> Line:
    x = [t for span in activations for t in (span.began, span.ended, span.ended)]
    y = [v for _ in activations for v in (float(row), float(row), math.nan)]
    order = np.argsort(x, kind="stable")
    return Line(f"fault {name}", np.array(x)[order], np.array(y)[order], COMMAND, wide=True)


def latencies(recording: Recording) -> str:
    """Return charts of the latency [ms] of messages, for each topic with a latency."""
    shown = [(t, *_delays(t)) for t in _topics(recording)]
    shown = [row for row in shown if len(row[1]) and row[3].any()]
    charts = []
    for track, t, compute, total in shown:
        lines = [
            Line(name, *thin(t, values), color, points=True)
            for name, values, color in (
                ("to completed", compute, COMMAND),
                ("to arrival", total, RESPONSE),
            )
        ]
        title = f"{track.name.removeprefix('messages/')}: latency [ms]"
        charts.append(Chart(title, lines, x_label="initiated [s]"))
    return grid(charts)


def _topics(recording: Recording) -> list[TrackData]:
    tracks = recording.tracks.items()
    return [t for name, t in tracks if name.startswith(MESSAGES) and "arrival" in t.integers]


def _delays(track: TrackData) -> tuple[Vector, Vector, Vector]:
    initiated, completed, arrival = map(track.integer, ("initiated", "completed", "arrival"))
    there = arrival >= 0
    order = np.argsort(initiated[there], kind="stable")
    start = initiated[there][order]
    return (
        start / NS_PER_S,
        (completed[there][order] - start) / 1e6,
        (arrival[there][order] - start) / 1e6,
    )


def timing_histograms(samples: Mapping[str, tuple[Vector, Vector]], counted: str = "frames") -> str:
    """Return histograms with logarithmic axes from (values [ns], counts)."""
    charts = []
    for name, (values, counts) in samples.items():
        edges, heights, below = log_histogram(values, counts)
        note = f"us (and {below} at or below 0)" if below else "us"
        y = np.r_[heights, heights[-1:]].astype(np.float64)
        y[y == 0.0] = np.nan  # a logarithmic axis has no 0
        line = Line(counted, edges / 1e3, y, stairs=True)
        charts.append(Chart(name, [line], note, counted, log=True, timed=False))
    return grid(charts)


def log_histogram(values: Vector, counts: Vector) -> tuple[Vector, Vector, int]:
    """Return the edges (k + 1,) and heights (k,) of a histogram, and the number of values <= 0."""
    above = values > 0
    below = int(counts[~above].sum())
    if not above.any():
        return np.array([1.0, 10.0]), np.zeros(1), below
    logs = np.log10(values[above])
    fine = max(_BINS_PER_DECADE, min(_FEWEST_BINS / max(np.ptp(logs), 1e-3), 100.0))
    bins = logs * fine
    edges = np.arange(math.floor(bins.min()), math.floor(bins.max()) + 2)
    heights, _ = np.histogram(bins, edges, weights=counts[above])
    return 10.0 ** (edges / fine), heights, below


def _samples_of(
    recording: Recording, certificate: Mapping[str, Any]
) -> dict[str, tuple[Vector, Vector]]:
    track = recording.tracks.get("timing")
    out: dict[str, tuple[Vector, Vector]] = {}
    if track is not None and len(track):
        for name in track.integers:
            values = track.integer(name)
            values = values[values != NO_SAMPLE].astype(np.float64)
            out[name.replace("_", " ")] = (values, np.ones(len(values)))
        return out
    for name in ("lateness", "compute", "margin"):
        bins = certificate.get(name, {}).get("histogram") or []
        if bins:
            table = np.array(bins, np.float64).reshape(-1, 3)
            out[name] = ((table[:, 0] + table[:, 1]) / 2, table[:, 2])
    return out


MOST_ROWS = 200
STATUS = {0: "", 1: "lost", 2: "second copy"}
_UP_TO = ("min", "median", "p99", "p99_9", "max")
_DOWN_TO = ("max", "median", "p1", "p0_1", "min")  # the smallest margin is the worst

_WRONG = {
    "Late": "late answers",
    "Missed": "missed requests",
    "Failed": "failed controllers",
    "Restarted": "restarts of controllers",
    "Overrun": "overruns",
    "Unbounded": "solver steps without an error bound",
}
"""Kinds of events that are counted beside the verdict."""
_THINNED = (
    "Long traces are thinned for display: the time is divided into equal parts, and only the "
    "first, least, greatest and last value of each part are drawn. The recording has all rows."
)
_STATED = ("assumptions", "limits", "name", "description")


Say = Callable[[str], None]
"""Function that receives progress texts, because drawing many signals takes seconds."""


def unheard(_: str) -> None:
    """Ignore a progress text."""


def write_report(
    recording: Recording,
    path: str | Path,
    say: Say = unheard,
    after: Duration = 0,
    first: Sequence[Section] = (),
) -> None:
    """Write the page about ``recording`` to ``path``.

    ``say`` is called with progress texts. The averages of discrete-event components begin at
    ``after`` s. ``first`` contains sections for the start of the page. Raises
    :class:`RecordingError` if the file cannot be written.
    """
    rendered = render(recording, say, after, first)
    try:
        write_whole(Path(path), rendered)
    except OSError as error:
        raise RecordingError(f"cannot write the report {path}: {error.strerror}") from error


def render(
    recording: Recording,
    say: Say = unheard,
    after: Duration = 0,
    first: Sequence[Section] = (),
) -> str:
    sections = [
        *first,
        ("views", "Views", _views(recording, say)),
        ("processors", "Processors", gantt.section(recording)),
        ("discrete", "Discrete events", measured.section(recording, to_ns(after, "--after"))),
        ("messages", "Messages", _messages(recording)),
        ("timing", "Timing", _timing(recording)),
        ("faults", "Faults", _faults(recording)),
        ("events", "Events", _events(recording)),
        ("setup", "Set-up", _setup(recording)),
        ("stated", "Assumptions and limits", _stated(recording)),
    ]
    return page(_name(recording), _head(recording), sections)


def _name(recording: Recording) -> str:
    scenario = mapping(recording.header.get("scenario"))
    return str(scenario.get("name") or recording.source)


def _head(recording: Recording) -> str:
    scenario = mapping(recording.header.get("scenario"))
    facts = {
        "simulated": f"{recording.end_ns / 1e9:g} s",
        "seed": recording.header.get("seed", ""),
        "pace": recording.header.get("pace", ""),
        "rows of the trace": f"{recording.trace_rows:,}",
        "events": f"{len(recording.events):,}",
        "trace": recording.digest()[:16],
    }
    boxes = "".join(f"<div><span>{k}</span>{text(v)}</div>" for k, v in facts.items() if v != "")
    cut, ending = recording.truncated, RunEnding.of(recording)
    return (
        f"<h1>{text(_name(recording))}</h1>"
        f"<div class=soft>{text(scenario.get('description', ''))}</div>"
        f"{verdict(recording)}<div class=facts>{boxes}</div>"
        + (f"<div class=warn>The recording is incomplete: {text(cut)}</div>" if cut else "")
        + ("" if cut or ending.complete else f"<div class=warn>The run {text(str(ending))}</div>")
        + _in_one_line(scenario)
    )


def verdict(recording: Recording, run: str = "The run") -> str:
    """Return one HTML line about the end of the run and its problems, without requirements.

    The line begins with ``run``. The line is empty if no problem is known.
    """
    ending = RunEnding.of(recording)
    wrong = [
        f"{count:,} {said}"
        for kind, said in _WRONG.items()
        if (count := sum(e.kind == kind for e in recording.events))
    ]
    faults = len({span.fault for span in _spans(recording)})
    wrong += [f"{faults} injected fault{'s' * (faults > 1)} acted"] if faults else []
    bad = ending.failed
    kind = "failed" if bad else "passed" if ending.complete and not wrong else "undecided"
    if ending.reason == UNKNOWN and not wrong:
        return ""
    also = f": {', '.join(wrong)}" if wrong else ""
    said = ending.in_brief if ending.reason == ERROR else str(ending)
    return f"<div class='verdict {kind}'>{text(f'{run} {said}{also}')}</div>"


def _in_one_line(scenario: Mapping[str, Any]) -> str:
    counts = [(key, len(scenario.get(key) or ())) for key in ("assumptions", "limits")]
    said = " and ".join(f"{n} {key if n > 1 else key[:-1]}" for key, n in counts if n)
    verb = "applies" if sum(n for _, n in counts) == 1 else "apply"
    return f'<p class=soft><a href="#stated">{said}</a> {verb} to these results.</p>' * bool(said)


def _stated(recording: Recording) -> str:
    scenario = mapping(recording.header.get("scenario"))
    blocks = "".join(block(k, scenario.get(k)) for k in ("assumptions", "limits"))
    return f"<div class=columns>{blocks}</div>" if blocks else ""


def _setup(recording: Recording) -> str:
    header = dict(recording.header)
    for known in ("tracks", "changeable"):
        header.pop(known, None)
    views = drawing.views_table(header.pop("views", None))
    scenario = dict(mapping(header.pop("scenario", None)))
    parts = mapping(scenario.pop("parts", None))
    folds = "".join(_fold(name, part) for name, part in parts.items() if isinstance(part, Mapping))
    rest = {**{k: v for k, v in scenario.items() if k not in _STATED}, **header}
    plain = {k: v for k, v in rest.items() if not isinstance(v, (list, Mapping))}
    blocks = "".join(block(k, v) for k, v in rest.items() if k not in plain)
    picture = drawing.drawn(recording.header.get("scenario")).html()
    return f"{picture}{folds}<div class=columns>{block('settings', plain)}{blocks}</div>{views}"


def _fold(name: str, part: Mapping[str, Any]) -> str:
    kind = part.get("kind", "")
    shown = {**part, "kind": "external input" if kind == "inlet" else kind}
    return (
        f"<details><summary>{text(name)} <span class=soft>{text(shown['kind'])}</span>"
        f"</summary>{table((), flat('', shown))}</details>"
    )


def _events(recording: Recording) -> str:
    events = recording.events
    if not events:
        return ""
    rows = [
        (str(e.tag), e.kind, e.source, e.text, ", ".join(f"{k} = {v}" for k, v in e.values.items()))
        for e in events[:MOST_ROWS]
    ]
    listed = table(("time", "kind", "source", "text", "values"), rows)
    return (
        timeline(events, recording.end_ns, _spans(recording))
        + f"<div class=scroll>{listed}</div>"
        + _more(len(events), "events")
    )


def _spans(recording: Recording) -> list[events.Span]:
    described = events.described(recording.header)
    return events.spans(recording.events, described, recording.end_ns)


def _faults(recording: Recording) -> str:
    rows = events.rows(recording.events, events.described(recording.header))
    heads = ("fault", "kind", "where", "", "activations", "first [s]", "last [s]")
    return table(heads, rows, numeric=4) if rows else ""


def _more(count: int, what: str) -> str:
    if count <= MOST_ROWS:
        return ""
    return (
        f"<p class=soft>The first {MOST_ROWS} of {count:,} {what} are shown; "
        "the recording contains all.</p>"
    )


def _views(recording: Recording, say: Say) -> str:
    shown = shown_views(recording)
    tracks = recording.tracks.values()
    sampled = sum(t.signals.size for t in tracks if t.name.endswith(SAMPLED))
    columns = sum(len(v.signals) for v in (*shown.first, *shown.rest)) + sampled
    drawer = ViewCharts(recording, columns)
    say(f"drawing {len(shown.first) + len(shown.rest)} views …")
    first = grid([c for v in shown.first if (c := drawer.chart(v))])
    rest = grid([c for v in shown.rest if (c := drawer.chart(v))])
    sampled_charts = _sampled(recording, drawer)
    if not (first or rest or sampled_charts):
        return ""
    events = marked(recording.events, faults := _spans(recording))
    notes = ["Time in s. A vertical jump is a change from x- to x+."]
    if any(events):
        notes.append("Dotted lines are events." + (" Orange bands are faults." if faults else ""))
    notes.append("Drag across a chart to zoom all charts over time; a double click shows all.")
    if drawer.thins:
        notes.append(_THINNED)
    if missing := drawer.missing((*shown.first, *shown.rest)):
        notes.append(f"Not in this recording: {', '.join(dict.fromkeys(missing))}.")
    if shown.left_out:
        notes.append(f"{shown.left_out:,} more signals are not drawn; the recording has them.")
    folds = _folded(f"{len(shown.rest)} more views", rest) if rest else ""
    return (
        f"{page_marks(*events)}{first}{folds}{sampled_charts}"
        f"<p class=soft>{text(' '.join(notes))}</p>"
    )


def _sampled(recording: Recording, drawer: ViewCharts) -> str:
    out = []
    for track in recording.tracks.values():
        if track.name.endswith(SAMPLED) and len(track) and track.signals.size:
            owner = track.name.removeprefix(MESSAGES)
            views = [View(with_unit(s.name, s.unit), (f"{owner}.{s.name}",)) for s in track.signals]
            charts = [c for view in views if (c := drawer.chart(view))]
            out.append(_folded(f"Inputs that {owner.removesuffix(SAMPLED)} sampled", grid(charts)))
    return "".join(out)


def _folded(title: str, body: str) -> str:
    return f"<details><summary>{text(title)}</summary>{body}</details>"


def _messages(recording: Recording) -> str:
    tracks = [t for t in _topics(recording) if len(t)]
    if not tracks:
        return ""
    counts = []
    for t in tracks:
        status = t.integer("status")
        counts.append(
            (
                t.name,
                t.about.get("source", ""),
                len(t),
                *_latency_row(t),
                int(np.sum(status == 1)),
                int(np.sum(status == 2)),
            )
        )
    heads = (
        "topic",
        "source",
        "messages",
        "least [ms]",
        "median [ms]",
        "greatest [ms]",
        "lost",
        "copies",
    )
    rows = sorted((r for t in tracks for r in _message_rows(t)), key=lambda r: r[0])
    names = (
        "topic",
        "source",
        "no.",
        "initiated [s]",
        "completed [s]",
        "arrival [s]",
        "latency [ms]",
        "",
    )
    listed = table(names, (r[1:] for r in rows[:MOST_ROWS]), numeric=2)
    return (
        table(heads, counts, numeric=2)
        + latencies(recording)
        + f"<h3>Table</h3><div class=scroll>{listed}</div>"
        + _more(sum(map(len, tracks)), "messages")
    )


def _latency_row(track: TrackData) -> tuple[str, ...]:
    arrival = track.integer("arrival")
    total = (arrival - track.integer("initiated"))[arrival >= 0] / 1e6
    if not len(total):
        return ("", "", "")
    return tuple(f"{v:.3f}" for v in (total.min(), np.median(total), total.max()))


def _message_rows(track: TrackData) -> list[tuple[Any, ...]]:
    k = {name: i for i, name in enumerate(track.integers)}
    out = []
    first = replace(track, words=np.asarray(track.words[:MOST_ROWS]))
    for row in first.rows.integers.tolist():
        tags = [Tag(row[k[s]], row[k[f"{s}_step"]]) for s in ("initiated", "completed", "arrival")]
        arrived = tags[2].ns >= 0
        latency = f"{(tags[2].ns - tags[0].ns) / 1e6:.3f}" if arrived else ""
        shown = [_seconds(t) for t in tags[:2]] + [_seconds(tags[2]) if arrived else ""]
        status = STATUS.get(row[k["status"]], f"status {row[k['status']]}")
        head = (track.name.removeprefix("messages/"), track.about.get("source", ""))
        out.append((tags[0], *head, row[k["sequence"]], *shown, latency, status))
    return out


def _seconds(tag: Tag) -> str:
    text = f"{tag.ns / 1e9:.6f}"
    return f"{text} +{tag.step}" if tag.step else text


def _timing(recording: Recording) -> str:
    certificate = mapping(mapping(recording.footer).get("certificate"))
    samples = _samples_of(recording, certificate)
    out = timing_histograms(samples) if samples else ""
    summaries = {k: v for k, v in certificate.items() if "median" in mapping(v)}
    if summaries:
        rows = [
            (name, *map(duration, map(s.get, _order(name))), s.get("count", ""))
            for name, s in summaries.items()
        ]
        heads = ("", "best", "median", "p99", "p99.9", "worst", "frames")
        out += "<h3>Timing certificate</h3>" + table(heads, rows, numeric=1)
    out += _worst(certificate)
    shown = {*summaries, "worst"}
    rest = {k: v for k, v in certificate.items() if k not in shown and v not in ([], {}, None)}
    plain = {k: v for k, v in rest.items() if not isinstance(v, (list, Mapping))}
    narrow = "".join(block(k, v) for k, v in rest.items() if isinstance(v, Mapping))
    wide = "".join(block(k, v) for k, v in rest.items() if isinstance(v, list))
    return out + (f"<div class=columns>{block('run', plain)}{narrow}{wide}</div>" if rest else "")


def _order(name: str) -> tuple[str, ...]:
    return _DOWN_TO if name == "margin" else _UP_TO


def _worst(certificate: Mapping[str, Any]) -> str:
    try:
        frames = [WorstFrame(**frame) for frame in certificate.get("worst") or ()]
        rows = [
            (
                f"{f.tag_ns / 1e9:.6f} s",
                duration(f.late_ns),
                duration(f.compute_ns),
                _shares(f.shares if certificate.get("rate") != "max" else ()),
            )
            for f in frames
        ]
    except (TypeError, AttributeError) as error:
        return f"<p class=soft>The worst frames cannot be read: {text(str(error))}</p>"
    if not rows:
        return ""
    return "<h3>Worst frames</h3>" + table(("at", "late", "compute", "jobs"), rows)


def _shares(shares: Iterable[tuple[str, int]]) -> str:
    return ", ".join(
        f"{job} {duration(ns)}".replace(" ", "\N{NO-BREAK SPACE}") for job, ns in shares
    )
