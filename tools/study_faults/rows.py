"""The rows of studies: each run once, and equal to those of another study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from rtsim.core.errors import RtsimError
from rtsim.studies.folder import Folder

OF_THE_MACHINE = ("wall_s", "attempts")
"""Columns that may differ between two studies with equal results."""
Rows = list[dict[str, Any]]


def rows_of(folder: Path) -> Rows:
    """Return the rows in the order of their runs."""
    found: Rows = Folder.open(folder).table().to_pylist()
    return found


def count_of(folder: Path) -> int:
    """Return the number of rows so far; 0 before there is a folder."""
    try:
        return int(Folder.open(folder).table("run").num_rows)
    except RtsimError:
        return 0


def once_each(rows: Rows, runs: int) -> str:
    """Return ``"N runs once"``, or which numbers are missing, doubled or unknown."""
    counts = Counter(row["run"] for row in rows)
    missing = [k for k in range(runs) if not counts[k]]
    doubled = [k for k, many in counts.items() if many > 1]
    unknown = [k for k in counts if not 0 <= k < runs]
    if missing or doubled or unknown:
        return f"missing {missing[:5]}, doubled {doubled[:5]}, unknown {unknown[:5]}"
    return f"{runs} runs once"


def equal_rows(rows: Rows, others: Rows, but: Collection[str] = ()) -> str:
    """Return how many runs with results equal those of another study bit for bit.

    The result is a text such as ``"990 of 990 equal"``.

    The columns ``but`` and those of :data:`OF_THE_MACHINE` are left out.
    """
    left_out = {*but, *OF_THE_MACHINE}
    theirs = {row["run"]: _bits(row, left_out) for row in others}
    ended = [row for row in rows if row["state"] == "ok"]
    equal = sum(_bits(row, left_out) == theirs.get(row["run"]) for row in ended)
    return f"{equal} of {len(ended)} equal"


def states_of(rows: Rows) -> dict[str, int]:
    """Return the number of rows in each state that occurs."""
    return dict(sorted(Counter(row["state"] for row in rows).items()))


def _bits(row: dict[str, Any], left_out: Collection[str]) -> tuple[str, ...]:
    """Return the values as texts, in which NaN equals NaN and 0 differs from -0."""
    return tuple(
        f"{name}={value.hex() if isinstance(value, float) else value!r}"
        for name, value in row.items() if name not in left_out
    )  # fmt: skip
