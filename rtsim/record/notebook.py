"""What a notebook shows of a result: its facts, and the first rows of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from rtsim.record import markup

MOST_ROWS, LONGEST = 20, 200
"""Greatest numbers of rows of a table and of characters of a cell."""


def shown(
    name: str,
    facts: Mapping[str, object],
    head: Sequence[str] = (),
    rows: Iterable[Sequence[object]] = (),
) -> str:
    """Return HTML with ``facts`` under the title ``name``, and ``rows`` with the titles ``head``.

    All texts are escaped, and nothing has a colour of its own, so that dark themes apply.
    """
    listed = list(rows)
    out = table(["", name], [[key, _cut(value)] for key, value in facts.items()]) if facts else ""
    if listed:
        out += table(head, [[_cut(cell) for cell in row] for row in listed[:MOST_ROWS]])
    if len(listed) > MOST_ROWS:
        out += f"<p>{MOST_ROWS} of {len(listed)} rows are shown.</p>"
    return out


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table whose cells begin at the left, which those of notebooks do not."""
    made = markup.table(head, rows)
    return re.sub(r"<(t[dh])\b[^>]*>", r"<\1 style='text-align:left'>", made)


def _cut(value: object) -> str:
    """Return a number with 6 digits, or a text that is not too long."""
    said = f"{value:.6g}" if isinstance(value, float) else str(value)
    return said if len(said) <= LONGEST else said[: LONGEST - 1] + "…"
