"""Self-contained HTML pages."""

from __future__ import annotations

from collections.abc import Iterable

from rtsim.core.extras import installed
from rtsim.record.markup import PLOT, STYLE, text
from rtsim.record.reports import charts

installed("uplot", "plots", "a page")  # a missing package is reported before a command's work

Section = tuple[str, str, str]
"""A section of a page: key of its link, title, and body as HTML.

A page omits sections without a body.
"""


def page(
    title: str, head: str, sections: Iterable[Section], *, style: str = "", generator: str = ""
) -> str:
    """Return an HTML page that needs neither a network nor other files.

    ``title`` is plain text and ``head`` is HTML.  ``style`` is added to the common style.
    ``generator`` names the program, which can then recognise its own pages.
    """
    shown = [(key, name, body) for key, name, body in sections if body]
    links = "".join(f'<a href="#{key}">{name}</a>' for key, name, _ in shown)
    bodies = "\n".join(f'<section id="{k}"><h2>{t}</h2>{b}</section>' for k, t, b in shown)
    first, last = _scripts(head + bodies)
    made_by = f"<meta name='generator' content='{text(generator)}'>" if generator else ""
    return (
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"{made_by}<title>{text(title)}</title><style>{STYLE}{style}</style>"
        f"{first}</head><body>"
        f"<header><div>{head}<nav>{links}</nav></div></header>"
        f"<main>{bodies}</main>{last}</body></html>\n"
    )


def _scripts(body: str) -> tuple[str, str]:
    first = charts.scripts() if charts.MARK in body else ""
    if PLOT not in body:
        return first, ""
    from rtsim.record import plotly_html  # plotly is large, and most pages do not need it

    plotly, last = plotly_html.scripts()
    return first + plotly, last
