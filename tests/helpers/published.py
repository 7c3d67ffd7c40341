"""The figures of others, from figures/; its README.md says whose they are."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FIGURES = Path(__file__).resolve().parents[1] / "reference" / "figures"
Columns = dict[str, NDArray[np.float64]]


def figures(name: str) -> dict[str, Any]:
    """What ``name``.json holds."""
    found: dict[str, Any] = json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def records(name: str) -> list[dict[str, str]]:
    """The rows of ``name``.csv by column name, as they are written."""
    with (FIGURES / f"{name}.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines, strict=True))


def table(name: str) -> Columns:
    """The columns of ``name``.csv by name, each (rows,)."""
    rows = records(name)
    return {column: np.array([float(row[column]) for row in rows]) for column in rows[0]}


class Table(NamedTuple):
    """Values over breakpoints: (columns,) over one variable, or (rows, columns) over two."""

    over: tuple[NDArray[np.float64], ...]
    values: NDArray[np.float64]


def tables(name: str) -> dict[str, Table]:
    """What ``name``.csv holds: a line with a table's name and its columns, then its rows."""
    found: dict[str, list[list[str]]] = {}
    with (FIGURES / f"{name}.csv").open(newline="", encoding="utf-8") as lines:
        for line in csv.reader(lines, strict=True):
            if line[0]:
                found[line[0]] = rows = [line[1:]]
            else:
                rows.append(line[1:])
    return {key: _table(*rows) for key, rows in found.items()}


def _table(heading: list[str], *rows: list[str]) -> Table:
    columns = np.array(heading[1:], float)
    values = np.array([row[1:] for row in rows], float)
    if len(heading[0].split()) == 1:
        return Table((columns,), values[0])
    return Table((np.array([row[0] for row in rows], float), columns), values)


def groups(name: str, *sizes: int) -> list[NDArray[np.float64]]:
    """The columns of ``name``.csv in groups of these ``sizes``, each (rows, size)."""
    every = np.stack(list(table(name).values()), axis=1)
    assert every.shape[1] == sum(sizes)
    return np.split(every, np.cumsum(sizes)[:-1], axis=1)


def trajectory(case: str, simulation: str = "05") -> Columns:
    """NASA's trajectory of one simulation, each column (times,), every 0.1 s from 0."""
    return table(f"nesc_{case}_sim_{simulation}")
