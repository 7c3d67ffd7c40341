"""What a bench finds: figures by row, the bound of each and the verdict; as a table and as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.table import Table

from rtsim.core.outcome import Outcome

Figures = Mapping[str, float | None]
"""By column; the column's suffix says the unit: ``[ns]``, ``[MB]``, ``[x]`` (a ratio) or none."""


@dataclass(frozen=True)
class Row:
    """One measured thing.  ``ok`` is ``None`` where no bound is stated."""

    what: str
    figures: Figures
    bound: str = ""
    ok: bool | None = None

    @property
    def measured(self) -> bool:
        """There is a figure in it; a row without one says why there is none."""
        return any(value is not None for value in self.figures.values())

    @property
    def verdict(self) -> str:
        return "" if self.ok is None else "pass" if self.ok else "OVER"


@dataclass(frozen=True)
class Result:
    """One bench.  ``skipped`` says why there are no rows."""

    name: str
    title: str
    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    skipped: str = ""

    @property
    def outcome(self) -> Outcome:
        """Failed where a bound is exceeded; undecided where nothing was measured."""
        if any(row.ok is False for row in self.rows):
            return Outcome.FAILED
        if not any(row.measured or row.ok for row in self.rows):
            return Outcome.UNDECIDED
        return Outcome.PASSED

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.PASSED

    @property
    def lacking(self) -> list[str]:
        """What was not measured, each with its reason."""
        rows = [row.what for row in self.rows if not row.measured and row.ok is None]
        return [self.skipped, *rows] if self.skipped else rows

    def to_json(self) -> dict[str, Any]:
        """As plain data; ``lacking`` lists what was not measured, which no outcome covers."""
        judged = {"ok": self.ok, "outcome": self.outcome.name.lower(), "lacking": self.lacking}
        return {**asdict(self), **judged}

    def table(self) -> Table:
        """For a terminal."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row.figures))
        out = Table(title=f"{self.name}: {self.title}", title_justify="left", box=box.SIMPLE_HEAD)
        out.add_column("", overflow="fold")
        for column in columns:
            out.add_column(column.partition(" [")[0], justify="right", no_wrap=True)
        out.add_column("bound", no_wrap=True)
        out.add_column("verdict", no_wrap=True)
        for row in self.rows:
            shown = (show(column, row.figures.get(column)) for column in columns)
            style = "" if row.ok is None else "green" if row.ok else "bold red"
            out.add_row(row.what, *shown, row.bound, row.verdict, style=style)
        if self.skipped:
            out.add_row(f"skipped: {self.skipped}")
        out.caption = "\n".join(self.notes) or None
        out.caption_justify = "left"
        return out


def show(column: str, value: float | None) -> str:
    """One figure in the unit of its column."""
    if value is None:
        return ""
    if column.endswith("[ns]"):
        return f"{value / 1e3:,.2f} us"
    if column.endswith("[MB]"):
        return f"{value:,.2f} MB"
    if column.endswith("[x]"):
        return f"{value:,.2f} x"
    return f"{value:,.4g}"
