"""The texts of a page as HTML: the state of the run, and the latest messages.

All names are escaped, because a recording may come from somebody else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from rtsim.core.tag import NS_PER_S
from rtsim.gateway.web.source import About, Look, PageState

MOST_TOPICS = 40
_MOST_VALUES = 4
_PADDED = "padding:0 0.6em 0.6em 0.6em"
_NOTE = "margin:0.4em 0;padding:0.4em 0.6em;border-left:0.25em solid #d9480f;background:#d9480f1a"
_STYLE = "font-size:0.8em;font-variant-numeric:tabular-nums;border-spacing:0.5em 0;text-align:right"


def state_html(
    state: PageState, measured: float | None, title: str, said: str, note: str = ""
) -> str:
    """Return the state as a table; ``measured`` is the measured rate, ``said`` the last answer.

    ``note`` stands above it: why the run ended, or that it does not answer.
    """
    pace = "paused" if state.standing else f"rate {state.rate:g}" if state.rate else "rate max"
    if measured is not None and not state.standing:
        pace += f" ({measured:.2f} measured)"
    rows = [
        ("simulated time", f"{state.ns / NS_PER_S:.3f} s"),
        ("pace", pace),
        ("overruns", _overruns(state)),
        ("late answers, missed requests", f"{state.late}, {state.missed}"),
    ]
    if state.margin_ns is not None:
        rows.append(("margin of the last frame", f"{state.margin_ns / 1e6:.3f} ms"))
    if state.lateness_ns is not None:
        rows.append(("lateness of the last wake", f"{state.lateness_ns / 1e6:.3f} ms"))
    if state.segment > 1:
        rows.append(("segment of the run", str(state.segment)))
    cells = "".join(
        f"<tr><td style='text-align:left'>{escape(a)}</td><td>{escape(b)}</td></tr>"
        for a, b in rows
    )
    last = f"<div style='font-size:0.8em'>{escape(said)}</div>" if said else ""
    table = f"<table style='{_STYLE};width:100%'>{cells}</table>"
    above = f"<div style='{_NOTE}'>{escape(note)}</div>" if note else ""
    return f"<div style='{_PADDED}'><b>{escape(title)}</b>{above}{table}{last}</div>"


def _overruns(state: PageState) -> str:
    if not state.overruns:
        return "0"
    wake = state.overruns - state.overruns_compute
    known = f" (compute {state.overruns_compute}, wake {wake})" if state.frames else ""
    return f"{state.overruns}{known}"


def messages_html(about: About, look: Look) -> str:
    """Return the latest message of each topic with its three time stamps."""
    head = ("topic", "initiated", "completed", "arrival [s]", "values")
    rows = []
    for topic, stamps in list(look.stamps.items())[:MOST_TOPICS]:
        times = [f"{ns / NS_PER_S:.6f}" for ns in stamps]
        rows.append((topic, *times, _values(about, look, topic)))
    left = len(look.stamps) - len(rows)
    more = f"<div>{left} more topics are not shown</div>" if left > 0 else ""
    return _table(head, rows) + more


def _values(about: About, look: Look, topic: str) -> str:
    columns = about.topics.get(topic, ())
    known = [look.values.get(f"{topic}.{c}", math.nan) for c in columns[:_MOST_VALUES]]
    dots = ", ..." if len(columns) > _MOST_VALUES else ""
    return ", ".join(f"{v:.6g}" for v in known) + dots


def values_html(about: About, values: Mapping[str, float]) -> str:
    """Return the present values of signals as a table."""
    rows = [(n, f"{v:.6g}", about.signals.get(n, "")) for n, v in values.items()]
    return _table(("signal", "value", "unit"), rows)


def note_html(text: str) -> str:
    """Return a note, such as the reason why something is not shown."""
    return f"<div style='font-size:0.8em;{_PADDED}'>{escape(text)}</div>"


def small_html(text: str, marked: bool) -> str:
    """Return a small line below an input; ``marked`` if it needs the user's attention."""
    colour = "color:#d9480f" if marked else "opacity:0.65"
    style = f"font-size:0.75em;margin:-0.7em 0.9em 0.3em;text-align:right;{colour}"
    return f"<div style='{style}'>{escape(text)}</div>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(one)}</th>" for one in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table style='{_STYLE}'><tr>{top}</tr>{body}</table>"
