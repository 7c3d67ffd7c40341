"""Orders and rows on their way between the study and its workers.

Dask keeps its latest messages, so orders travel as one short text for each batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rtsim.studies.plan import Ordered
from rtsim.studies.rows import Row

Sent = tuple[object, ...]
"""A row as a worker sends it: its fields without the order, which the receiver knows."""


def text_of_orders(orders: Sequence[Ordered]) -> str:
    """Return the orders of a batch as JSON text; all of them have the same factors."""
    first = orders[0]
    return json.dumps(
        {
            "run": [order.run for order in orders],
            "seed": [order.seed for order in orders],
            "factors": {n: [order.factors[n] for order in orders] for n in first.factors},
            "marks": {n: [order.marks[n] for order in orders] for n in first.marks},
        },
        separators=(",", ":"),
    )


def orders_of_text(text: str) -> list[Ordered]:
    """Return the orders that :func:`text_of_orders` wrote."""
    data = json.loads(text)
    factors, marks = data["factors"], data["marks"]
    return [
        Ordered(
            run, seed, {n: column[k] for n, column in factors.items()},
            {n: column[k] for n, column in marks.items()},
        )
        for k, (run, seed) in enumerate(zip(data["run"], data["seed"], strict=True))
    ]  # fmt: skip


def sent(rows: Iterable[Row]) -> list[Sent]:
    """Return ``rows`` as a worker sends them."""
    return [
        (*row[1:5], dict(row.values), *row[6:9], dict(row.histories), *row[10:]) for row in rows
    ]


def received(orders: Sequence[Ordered], rows: Sequence[Any]) -> list[Row]:
    """Return the rows that :func:`sent` made, with their orders."""
    return [Row(order, *row) for order, row in zip(orders, rows, strict=True)]
