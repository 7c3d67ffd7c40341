"""Designs with fixed points: a grid, one factor at a time, and a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.studies.designs.base import Design, Points, Space, positive
from rtsim.studies.factors import column_of
from rtsim.studies.texts import Value, value_of


@dataclass(frozen=True)
class Grid(Design):
    """All combinations of the levels of the factors.

    The levels of a factor with a list are the values of the list. A factor with a range has
    ``levels`` levels from low to high. A distribution has ``levels`` quantiles from 0.05 to 0.95.
    The last factor in alphabetical order changes fastest.
    """

    name: ClassVar[str] = "grid"
    random: ClassVar[bool] = False

    levels: int = 3

    def __post_init__(self) -> None:
        positive(self, levels=self.levels)

    def _levels(self, space: Space) -> dict[str, list[Value]]:
        return {name: space.factors[name].levels(self.levels) for name in space.names}

    def count(self, space: Space) -> int:
        return math.prod(len(one) for one in self._levels(space).values())

    def points(self, space: Space, first: int, count: int) -> Points:
        run = np.arange(first, first + count)
        rest, values = run, {}
        for name, levels in reversed(self._levels(space).items()):
            values[name] = column_of(levels)[rest % len(levels)]
            rest = rest // len(levels)
        return Points(values, run)


@dataclass(frozen=True)
class OneAtATime(Design):
    """Runs that each change one factor; run 0 has the middle values of all factors.

    The column ``factor`` contains the name of the changed factor.
    """

    name: ClassVar[str] = "one_at_a_time"
    random: ClassVar[bool] = False

    levels: int = 2

    def __post_init__(self) -> None:
        positive(self, levels=self.levels)

    def _changes(self, space: Space) -> list[tuple[str, Value]]:
        out = []
        for name in space.names:
            spread = space.factors[name]
            out += [(name, v) for v in spread.levels(self.levels) if v != spread.middle()]
        return out

    def count(self, space: Space) -> int:
        return 1 + len(self._changes(space))

    def check(self, space: Space) -> None:
        super().check(space)
        if not space.names:
            raise ScenarioError(f"the design {self.name} needs factors; give at least one")

    def points(self, space: Space, first: int, count: int) -> Points:
        rows = [("", 0.0), *self._changes(space)][first : first + count]
        values = {}
        for name in space.names:
            spread = space.factors[name]
            every = [spread.middle(), *spread.levels(self.levels)]
            kind = column_of(every).dtype
            own = [value if name == changed else spread.middle() for changed, value in rows]
            values[name] = np.array(own, dtype=kind)
        marks = {"factor": np.array([changed for changed, _ in rows])}
        return Points(values, np.zeros(len(rows), np.int64), marks)


@dataclass(frozen=True)
class Table(Design):
    """Factors from a table with one row for each run and one column for each factor.

    The table can have several forms::

        Table({"plant.stiffness": [1.9, 2.1], "controller.integral": [0.5, 0.5]})
        Table(data_frame)
        Table("runs.csv")
    """

    name: ClassVar[str] = "table"
    random: ClassVar[bool] = False

    columns: Any
    """A mapping of names to values, a DataFrame, or the path of a CSV or Parquet file. The
    constructor converts it to a dict of lists."""

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
    names = list(given.columns) if hasattr(given, "columns") else list(given)
    out = {}
    for name in names:
        column = np.asarray(given[name])
        if column.dtype == object:
            column = column_of(column.tolist())
        out[str(name)] = column.tolist()
    return out


def _read(path: Path) -> dict[str, list[Value]]:
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
    for row, value in enumerate(column, 1) if "." in name else ():
        if isinstance(value, str) and not isinstance(value_of(value), int | float):
            raise ScenarioError(
                f"the table {path} has {name} = {value!r} in row {row}, which is not a number"
            )
