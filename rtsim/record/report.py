"""One HTML page about one run, with everything in it: no network, no other files.

All text that comes from the recording is escaped.  Long traces are thinned for display only, and
the page says so.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import plotly.offline

from rtsim.errors import RecordingError
from rtsim.record import figures
from rtsim.record.reading import Recording, TrackData
from rtsim.record.thinning import BUCKETS
from rtsim.tag import Tag

MOST_ROWS = 200
STATUS = {0: "", 1: "lost", 2: "second copy"}
_UP_TO = ("min", "median", "p99", "p99_9", "max")
_DOWN_TO = ("max", "median", "p1", "p0_1", "min")  # of a margin the least is the worst

_STYLE = """
:root { --ink: #1c2430; --soft: #5b6675; --line: #dfe4ea; --back: #f6f7f9; --blue: #1f5fbf; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
       font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
header { background: #fff; border-bottom: 1px solid var(--line); }
header > div, main { max-width: 1240px; margin: 0 auto; padding: 0 24px; }
header > div { padding-top: 28px; padding-bottom: 20px; }
h1 { margin: 0; font-size: 28px; }
h2 { margin: 0 0 12px; font-size: 19px; }
h3 { margin: 20px 0 6px; font-size: 15px; }
.soft { color: var(--soft); }
.facts { display: flex; flex-wrap: wrap; gap: 8px 28px; margin-top: 14px; }
.facts div span { display: block; color: var(--soft); font-size: 12px; }
nav { margin-top: 16px; display: flex; gap: 18px; }
nav a { color: var(--blue); text-decoration: none; }
section { background: #fff; border: 1px solid var(--line); border-radius: 8px;
          padding: 20px 22px; margin: 18px 0; overflow-x: auto; }
.columns { display: grid; gap: 4px 36px;
           grid-template-columns: repeat(auto-fit, minmax(300px, 1fr)); }
ul { margin: 4px 0; padding-left: 20px; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th { text-align: left; color: var(--soft); font-weight: 500; background: #fff;
     border-bottom: 1px solid var(--line); }
td, th { padding: 4px 12px 4px 0; vertical-align: top; }
td { overflow-wrap: break-word; }
tr + tr td { border-top: 1px solid #eef1f4; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.scroll { max-height: 420px; overflow-y: auto; }
.scroll th { position: sticky; top: 0; }
.warn { background: #fdf1d8; border: 1px solid #f0d28a; border-radius: 6px;
        padding: 8px 12px; margin-top: 14px; }
"""


_STATED = ("assumptions", "limits", "name", "description")


def write_report(recording: Recording, path: str | Path) -> None:
    """Write the page; :class:`RecordingError` where the file cannot be written."""
    page = render(recording)
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise RecordingError(f"cannot write the report {path}: {error.strerror}") from error


def render(recording: Recording) -> str:
    """The page as text."""
    sections = [
        ("stated", "Assumptions and limits", _stated(recording)),
        ("trajectories", "Trajectories", _trajectories(recording)),
        ("messages", "Messages", _messages(recording)),
        ("timing", "Timing", _timing(recording)),
        ("events", "Events", _events(recording)),
        ("setup", "Set-up", _setup(recording)),
    ]
    shown = [(key, title, body) for key, title, body in sections if body]
    links = "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in shown)
    bodies = "\n".join(f'<section id="{k}"><h2>{t}</h2>{b}</section>' for k, t, b in shown)
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{_text(_name(recording))}</title><style>{_STYLE}</style>"
        f"<script>{plotly.offline.get_plotlyjs()}</script></head><body>"
        f"<header><div>{_head(recording)}<nav>{links}</nav></div></header>"
        f"<main>{bodies}</main></body></html>\n"
    )


def _text(value: object) -> str:
    """Anything as safe text."""
    if isinstance(value, float):
        return f"{value:.12g}"
    return html.escape(value if isinstance(value, str) else json.dumps(value, default=str))


def _table(head: Iterable[str], rows: Iterable[Iterable[object]], numeric: int = 10**6) -> str:
    """Columns from ``numeric`` on are set as numbers."""

    def cells(kind: str, row: Iterable[object]) -> str:
        return "".join(
            f"<{kind}{' class=n' if i >= numeric else ''}>{_text(v)}</{kind}>"
            for i, v in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    names = list(head)
    top = f"<thead><tr>{cells('th', names)}</tr></thead>" if any(names) else ""
    return f"<table>{top}<tbody>{body}</tbody></table>"


def _name(recording: Recording) -> str:
    scenario = _mapping(recording.header.get("scenario"))
    return str(scenario.get("name") or recording.source)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _head(recording: Recording) -> str:
    scenario = _mapping(recording.header.get("scenario"))
    facts = {
        "simulated": f"{recording.end_ns / 1e9:g} s",
        "seed": recording.header.get("seed", ""),
        "pace": recording.header.get("pace", ""),
        "rows": f"{sum(map(len, recording.tracks.values())):,}",
        "events": f"{len(recording.events):,}",
        "trace": recording.digest()[:16],
    }
    boxes = "".join(f"<div><span>{k}</span>{_text(v)}</div>" for k, v in facts.items() if v != "")
    cut = recording.truncated
    return (
        f"<h1>{_text(_name(recording))}</h1>"
        f"<div class=soft>{_text(scenario.get('description', ''))}</div>"
        f"<div class=facts>{boxes}</div>"
        + (f"<div class=warn>Not complete: {_text(cut)}</div>" if cut else "")
    )


def _stated(recording: Recording) -> str:
    """What the run takes for granted, before anything that it shows."""
    scenario = _mapping(recording.header.get("scenario"))
    blocks = "".join(_block(k, scenario.get(k)) for k in ("assumptions", "limits"))
    return f"<div class=columns>{blocks}</div>" if blocks else ""


def _setup(recording: Recording) -> str:
    """How to do it again: each part in a fold of its own, then everything else of the header."""
    header = dict(recording.header)
    header.pop("tracks", None)
    scenario = dict(_mapping(header.pop("scenario", None)))
    parts = _mapping(scenario.pop("parts", None))
    folds = "".join(
        f"<details><summary>{_text(name)} <span class=soft>{_text(part.get('kind', ''))}</span>"
        f"</summary>{_table((), _flat('', part))}</details>"
        for name, part in parts.items()
        if isinstance(part, Mapping)
    )
    rest = {**{k: v for k, v in scenario.items() if k not in _STATED}, **header}
    plain = {k: v for k, v in rest.items() if not isinstance(v, (list, Mapping))}
    blocks = "".join(_block(k, v) for k, v in rest.items() if k not in plain)
    return f"{folds}<div class=columns>{_block('settings', plain)}{blocks}</div>"


def _block(title: str, value: object) -> str:
    """A heading over a list or a table of names and values; nested ones as dotted names."""
    if not value:
        return ""
    if isinstance(value, list) and not any(isinstance(v, (Mapping, list)) for v in value):
        body = f"<ul>{''.join(f'<li>{_text(v)}</li>' for v in value)}</ul>"
    elif isinstance(value, list) and all(isinstance(v, Mapping) for v in value):
        names = list(dict.fromkeys(k for row in value for k in row))
        body = _table(names, [[_inline(row.get(k, "")) for k in names] for row in value])
    else:
        body = _table((), _flat("", value))
    return f"<div><h3>{_text(title.replace('_', ' ').capitalize())}</h3>{body}</div>"


def _inline(value: object) -> object:
    """A mapping as one line of text; anything else as it is."""
    if not isinstance(value, Mapping):
        return value
    return ", ".join(f"{k} {v}" for k, v in value.items())


def _flat(prefix: str, value: object) -> list[tuple[str, object]]:
    items: Iterable[tuple[object, object]]
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list) and any(isinstance(v, (Mapping, list)) for v in value):
        items = ((_mapping(v).get("name", i), v) for i, v in enumerate(value))
    else:
        if isinstance(value, list):
            value = ", ".join(v if isinstance(v, str) else json.dumps(v) for v in value)
        return [(prefix, value)]
    return [row for k, v in items for row in _flat(f"{prefix}.{k}" if prefix else str(k), v)]


def _events(recording: Recording) -> str:
    events = recording.events
    if not events:
        return ""
    rows = [
        (str(e.tag), e.kind, e.source, e.text, ", ".join(f"{k} = {v}" for k, v in e.values.items()))
        for e in events[:MOST_ROWS]
    ]
    table = _table(("time", "kind", "source", "text", "values"), rows)
    return (
        figures.timeline(events, recording.end_ns)
        + f"<div class=scroll>{table}</div>"
        + _more(len(events), "events")
    )


def _more(count: int, what: str) -> str:
    if count <= MOST_ROWS:
        return ""
    return f"<p class=soft>The first {MOST_ROWS} of {count:,} {what}; the recording has all.</p>"


def _trajectories(recording: Recording) -> str:
    out = []
    thinned = False
    # States first, then what was sent, then what each controller sampled.
    for track in sorted(recording.tracks.values(), key=lambda t: "arrival" in t.integers):
        if not (track.spec.deterministic and len(track) and track.signals.size):
            continue
        plot, less = figures.trajectories(track, recording.events)
        thinned |= less
        kind = "x- and x+" if "side" in track.integers else "each held until the next"
        kind += ", drawn from its arrival on" if "arrival" in track.integers else ""
        out.append(f"<h3>{_text(track.name)}</h3><div class=soft>{len(track):,} rows, {kind}</div>")
        out.append(plot)
    if not out:
        return ""
    notes = "Time in s. A vertical jump is a change from x- to x+. Dotted lines are events."
    if thinned:
        notes += (
            f" Long traces are thinned for display: of each of {BUCKETS} equal parts of the time"
            " the first, least, greatest and last value are drawn. The recording has every row."
        )
    return f"<p class=soft>{notes}</p>{''.join(out)}"


def _messages(recording: Recording) -> str:
    tracks = [t for t in recording.tracks.values() if "arrival" in t.integers and len(t)]
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
    table = _table(names, (r[1:] for r in rows[:MOST_ROWS]), numeric=2)
    return (
        _table(heads, counts, numeric=2)
        + figures.latencies(recording)
        + f"<h3>Table</h3><div class=scroll>{table}</div>"
        + _more(sum(map(len, tracks)), "messages")
    )


def _latency_row(track: TrackData) -> tuple[str, ...]:
    arrival = track.integer("arrival")
    total = (arrival - track.integer("initiated"))[arrival >= 0] / 1e6
    if not len(total):
        return ("", "", "")
    return tuple(f"{v:.3f}" for v in (total.min(), np.median(total), total.max()))


def _message_rows(track: TrackData) -> list[tuple[Any, ...]]:
    """Sort key, then the cells, of the first messages."""
    k = {name: i for i, name in enumerate(track.integers)}
    out = []
    for row in track.rows.integers[:MOST_ROWS].tolist():
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
    certificate = _mapping(_mapping(recording.footer).get("certificate"))
    samples = figures.samples_of(recording, certificate)
    out = figures.timing_histograms(samples) if samples else ""
    summaries = {k: v for k, v in certificate.items() if "median" in _mapping(v)}
    if summaries:
        rows = [
            (name, *map(_duration, map(s.get, _order(name))), s.get("count", ""))
            for name, s in summaries.items()
        ]
        heads = ("", "best", "median", "p99", "p99.9", "worst", "frames")
        out += "<h3>Timing certificate</h3>" + _table(heads, rows, numeric=1)
    rest = {k: v for k, v in certificate.items() if k not in summaries and v not in ([], {}, None)}
    blocks = "".join(_block(k, v) for k, v in rest.items() if isinstance(v, (list, Mapping)))
    plain = {k: v for k, v in rest.items() if not isinstance(v, (list, Mapping))}
    return out + (f"<div class=columns>{blocks}{_block('run', plain)}</div>" if rest else "")


def _order(name: str) -> tuple[str, ...]:
    return _DOWN_TO if name == "margin" else _UP_TO


def _duration(ns: object) -> str:
    if not isinstance(ns, (int, float)):
        return "n/a"
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if abs(ns) >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns:.4g} ns"
