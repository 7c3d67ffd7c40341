"""HTML for pages and notebooks: texts, tables and style.  Texts from recordings are escaped."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_LONGEST_WORD = 30
_QUANTITY = re.compile(r"-?[0-9][0-9.,]*( \S{1,4})?\Z")

PLOT = "<div class=plot>"
"""Start of each plotly plot. A page that contains this text must load the plotly script."""
STYLE = """
:root { color-scheme: light dark;
        --ink: #1c2430; --soft: #5b6675; --line: #dfe4ea; --back: #f6f7f9; --blue: #1f5fbf;
        --paper: #fff; --grey: #8a94a6; --warn: #fdf1d8; --edge: #f0d28a;
        --good: #1b7f3b; --bad: #c62828; --open: #9a5b00;
        --c0: #1f5fbf; --c1: #d97706; --c2: #2e7d32; --c3: #8e24aa; --c4: #c62828; --c5: #00838f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e8ee; --soft: #a3afbd; --line: #333d49; --back: #12161b; --blue: #7fb0f5;
          --paper: #1a2028; --grey: #8a94a6; --warn: #3a2f14; --edge: #6d5720;
          --good: #6fd08c; --bad: #ff8a80; --open: #f0b860;
          --c0: #6ea8fe; --c1: #f5a742; --c2: #7ccf82; --c3: #d59bea; --c4: #ff8a80;
          --c5: #5fd0dc; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
       font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
header { background: var(--paper); border-bottom: 1px solid var(--line); }
header > div, main { max-width: 1480px; margin: 0 auto; padding: 0 24px; }
header > div { padding-top: 28px; padding-bottom: 20px; }
h1 { margin: 0; font-size: 28px; }
h2 { margin: 0 0 12px; font-size: 19px; }
h3 { margin: 20px 0 6px; font-size: 15px; }
.soft { color: var(--soft); }
.facts { display: flex; flex-wrap: wrap; gap: 8px 28px; margin-top: 14px; }
.facts div span { display: block; color: var(--soft); font-size: 12px; }
nav { margin-top: 16px; display: flex; flex-wrap: wrap; gap: 4px 18px; }
a { color: var(--blue); }
nav a { text-decoration: none; white-space: nowrap; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 8px;
          padding: 20px 22px; margin: 18px 0; overflow-x: auto; }
.columns { display: grid; gap: 4px 36px;
           grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); }
.columns > * { min-width: 0; overflow-x: auto; }
.columns > .wide { grid-column: 1 / -1; }
ul { margin: 4px 0; padding-left: 20px; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th { text-align: left; color: var(--soft); font-weight: 500; background: var(--paper);
     border-bottom: 1px solid var(--line); }
td, th { padding: 4px 12px 4px 0; vertical-align: top; }
td.v { white-space: nowrap; }
td.long { overflow-wrap: anywhere; min-width: 220px; }
tr + tr td { border-top: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.scroll { max-height: 420px; overflow-y: auto; }
.scroll th { position: sticky; top: 0; }
.plot { min-width: 720px; background: #fff; }
.charts { display: grid; gap: 14px 22px; margin: 12px 0;
          grid-template-columns: repeat(auto-fill, minmax(min(400px, 100%), 1fr)); }
.charts > *, figure { min-width: 0; margin: 0; break-inside: avoid; }
figcaption { font-weight: 600; font-size: 13px; overflow-wrap: anywhere; }
figure .uplot { width: 100%; }
figure .u-legend { font-size: 12px; text-align: left; color: var(--soft); margin: 0; }
figure .u-legend th { font-weight: 400; }
figure .u-legend th, figure .u-legend td { padding: 0 4px 0 0; border: 0; background: none; }
figure .u-legend .u-value { display: inline-block; min-width: 58px;
                            font-variant-numeric: tabular-nums; }
.verdict { font-size: 20px; font-weight: 600; margin-top: 12px; }
.verdict + .verdict { margin-top: 0; }
.passed { color: var(--good); } .failed { color: var(--bad); } .undecided { color: var(--open); }
summary { cursor: pointer; margin: 8px 0; }
.warn { background: var(--warn); border: 1px solid var(--edge); border-radius: 6px;
        padding: 8px 12px; margin-top: 14px; }
@media (max-width: 700px) {
  header > div, main { padding-left: 10px; padding-right: 10px; }
  section { padding: 14px 12px; }
}
@media print {
  :root { color-scheme: light; --ink: #1c2430; --soft: #5b6675; --line: #dfe4ea; --back: #fff;
          --paper: #fff; --blue: #1f5fbf; --warn: #fdf1d8; --edge: #f0d28a;
          --good: #1b7f3b; --bad: #c62828; --open: #9a5b00; }
  nav { display: none; }
  section { border: 0; padding: 0; overflow: visible; }
  .scroll { max-height: none; overflow: visible; }
  svg[role=img] { max-width: 100%; height: auto; }
  .charts { grid-template-columns: 1fr; }
}
"""


def text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.12g}"
    return html.escape(value if isinstance(value, str) else json.dumps(value, default=str))


def table(head: Iterable[str], rows: Iterable[Iterable[object]], numeric: int = 10**6) -> str:
    """Return an HTML table.

    Columns from the index ``numeric`` on contain numbers and are aligned right.
    """

    def cells(kind: str, row: Iterable[object]) -> str:
        return "".join(
            f"<{kind}{_class(v, i >= numeric)}>{text(v)}</{kind}>" for i, v in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    names = list(head)
    top = f"<thead><tr>{cells('th', names)}</tr></thead>" if any(names) else ""
    return f"<table>{top}<tbody>{body}</tbody></table>"


def _class(value: object, numeric: bool) -> str:
    if numeric:
        return " class=n"
    if isinstance(value, int | float) or _QUANTITY.match(str(value)):
        return " class=v"
    if max(map(len, str(value).split()), default=0) > _LONGEST_WORD:
        return " class=long"
    return ""


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def block(title: str, value: object) -> str:
    """Return a heading, followed by ``value`` as a list or a table.

    The names of nested values contain dots.
    """
    if not value:
        return ""
    if isinstance(value, list) and not any(isinstance(v, (Mapping, list)) for v in value):
        body = f"<ul>{''.join(f'<li>{text(v)}</li>' for v in value)}</ul>"
    elif isinstance(value, list) and all(isinstance(v, Mapping) for v in value):
        names = list(dict.fromkeys(k for row in value for k in row))
        body = table(names, [[inline(row.get(k, "")) for k in names] for row in value])
    else:
        body = table((), flat("", value))
    wide = " class=wide" if isinstance(value, list) and isinstance(value[0], Mapping) else ""
    return f"<div{wide}><h3>{text(title.replace('_', ' ').capitalize())}</h3>{body}</div>"


def inline(value: object) -> object:
    """Return a dict as one line of text, and any other value unchanged."""
    if not isinstance(value, Mapping):
        return value
    return ", ".join(f"{k} {v}" for k, v in value.items())


def flat(prefix: str, value: object) -> list[tuple[str, object]]:
    items: Iterable[tuple[object, object]]
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list) and any(isinstance(v, (Mapping, list)) for v in value):
        items = ((mapping(v).get("name", i), v) for i, v in enumerate(value))
    else:
        if isinstance(value, list):
            value = ", ".join(v if isinstance(v, str) else json.dumps(v) for v in value)
        return [(prefix, value)]
    return [row for k, v in items for row in flat(f"{prefix}.{k}" if prefix else str(k), v)]


def as_json(data: object) -> str:
    """Return JSON that can be part of a script element."""
    return json.dumps(data, separators=(",", ":")).replace("<", r"\u003c")


def duration(ns: object) -> str:
    if not isinstance(ns, (int, float)):
        return "n/a"
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if abs(ns) >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns:.4g} ns"


# Results in a notebook.

MOST_ROWS, LONGEST = 20, 200
"""Maximum number of rows of a table, and of characters of a cell."""


def shown(
    name: str,
    facts: Mapping[str, object],
    head: Sequence[str] = (),
    rows: Iterable[Sequence[object]] = (),
) -> str:
    """Return HTML with a title, facts and a table.

    ``head`` contains the titles of the columns. All texts are escaped. The HTML contains no
    colours, so that dark themes apply.
    """
    listed = list(rows)
    out = (
        notebook_table(["", name], [[key, _cut(value)] for key, value in facts.items()])
        if facts
        else ""
    )
    if listed:
        out += notebook_table(head, [[_cut(cell) for cell in row] for row in listed[:MOST_ROWS]])
    if len(listed) > MOST_ROWS:
        out += f"<p>{MOST_ROWS} of {len(listed)} rows are shown.</p>"
    return out


def notebook_table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table with left-aligned cells.

    The cells are aligned left, because notebooks align numbers to the right.
    """
    made = table(head, rows)
    return re.sub(r"<(t[dh])\b[^>]*>", r"<\1 style='text-align:left'>", made)


def _cut(value: object) -> str:
    said = f"{value:.6g}" if isinstance(value, float) else str(value)
    return said if len(said) <= LONGEST else said[: LONGEST - 1] + "…"
