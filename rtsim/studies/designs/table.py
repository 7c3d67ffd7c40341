"""The user's own table of factors: one row for each run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.studies.designs.base import Design, Points, Space
from rtsim.studies.factors import column_of
from rtsim.studies.texts import Value, value_of


@dataclass(frozen=True)
class Table(Design):
    """The factors of run k are row k of the table; its columns are the names of the factors.

    Table({"plant.stiffness": [1.9, 2.1], "controller.integral": [0.5, 0.5]})
    Table(data_frame)
    Table("runs.csv")
    """

    name: ClassVar[str] = "table"
    random: ClassVar[bool] = False

    columns: Any
    """A mapping of name to values, a DataFrame, or the path of a CSV or Parquet file; after the
    initialisation a dict of lists."""

    def __post_init__(self) -> None:
        given = self.columns
        columns = _read(Path(given)) if isinstance(given, str | Path) else _plain(given)
        object.__setattr__(self, "columns", columns)
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1 or lengths == {0}:
            raise ScenarioError(
                "the columns of a table must have the same length, at least 1; got "
                + (", ".join(f"{n}: {len(c)}" for n, c in columns.items()) or "no columns")
            )

    def count(self, space: Space) -> int:  # noqa: ARG002
        return len(next(iter(self.columns.values())))

    def check(self, space: Space) -> None:
        super().check(space)
        if space.names:
            raise ScenarioError(
                "the design table gives the values of all factors, so the study declares no "
                f"factors; leave {', '.join(space.names)} out"
            )

    def points(self, space: Space, first: int, count: int) -> Points:  # noqa: ARG002
        rows = slice(first, first + count)
        values = {name: column_of(column)[rows] for name, column in self.columns.items()}
        return Points(values, np.arange(first, first + count))


def _plain(given: Any) -> dict[str, list[Value]]:
    """Return the columns of a mapping or of a DataFrame as lists of plain values."""
    names = list(given.columns) if hasattr(given, "columns") else list(given)
    out = {}
    for name in names:
        column = np.asarray(given[name])
        if column.dtype == object:
            column = column_of(column.tolist())
        out[str(name)] = column.tolist()
    return out


def _read(path: Path) -> dict[str, list[Value]]:
    """Return the columns of a CSV or Parquet file."""
    from pyarrow import ArrowException, csv, parquet

    try:
        table = csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
    except (OSError, ArrowException) as error:
        raise ScenarioError(f"the table {path} cannot be read: {error}") from None
    out = {name: table[name].to_pylist() for name in table.column_names}
    for name, column in out.items():
        _check_numbers(path, name, column)
    return out


def _check_numbers(path: Path, name: str, column: list[Value]) -> None:
    """Raise :class:`ScenarioError` for the first text in the column of a value such as plant.x.

    pyarrow reads all values of a column as text if one of them is no number.  Arguments of the
    scenario's function, whose names have no dot, may be texts.
    """
    for row, value in enumerate(column, 1) if "." in name else ():
        if isinstance(value, str) and not isinstance(value_of(value), int | float):
            raise ScenarioError(
                f"the table {path} has {name} = {value!r} in row {row}, which is not a number"
            )
