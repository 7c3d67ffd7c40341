"""The traceability matrix: requirements, and the runs or tests that exercise them.

A matrix is built from JSON data, which parallel test processes can send.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rtsim.core.outcome import Outcome
from rtsim.requirements.language import parse
from rtsim.requirements.measures import measure_in
from rtsim.requirements.requirement import NOT_EXERCISED
from rtsim.requirements.verdict import VERDICTS

NOT_CHECKED = "not checked"
"""Text of a cell without a result: nobody asked the requirement of this run."""
Plain = Mapping[str, Any]
"""JSON data of a result, as :meth:`RequirementResult.to_json` returns it."""


@dataclass(frozen=True)
class Cell:
    """The verdict on a requirement in one run or test."""

    outcome: Outcome
    exercised: bool
    """False if no run of the column says anything about the requirement."""
    times: int | None
    """How often the condition became true, or the number of steps; None without a condition."""
    robustness: float
    """The smallest robustness; NaN if it is not decided."""
    reason: str = ""
    unit: str = ""
    worst_s: float | None = None
    """The time that determines the smallest robustness, s; None if it is not known."""

    @classmethod
    def of(cls, results: Iterable[Plain]) -> Cell:
        cells = [cls._of_one(one) for one in results]
        told = [one for one in cells if one.exercised] or cells
        decided = [one for one in told if one.outcome is not Outcome.UNDECIDED]
        worst = min(decided, key=lambda one: one.robustness, default=None)
        times = [one.times for one in cells if one.times is not None]
        return cls(
            Outcome.of_all(one.outcome for one in told),
            any(one.exercised for one in cells),
            sum(times) if times else None,
            math.nan if worst is None else worst.robustness,
            next((one.reason for one in told if one.reason), ""),
            "" if worst is None else worst.unit,
            None if worst is None else worst.worst_s,
        )

    @classmethod
    def _of_one(cls, result: Plain) -> Cell:
        outcome, reason = Outcome[str(result["outcome"]).upper()], str(result["reason"])
        low, high = (float(one) for one in result["robustness"])
        times = result["exercised"]
        return cls(
            outcome,
            not reason.startswith(NOT_EXERCISED),
            None if times is None else int(times),
            {Outcome.PASSED: low, Outcome.FAILED: high}.get(outcome, math.nan),
            reason,
            str(result.get("unit", "")),
            result["worst_s"],
        )

    @property
    def verdict(self) -> str:
        """``holds``, ``violated``, ``undecided`` or ``not exercised``."""
        return VERDICTS[self.outcome] if self.exercised else NOT_EXERCISED

    @property
    def margin(self) -> str:
        return "" if math.isnan(self.robustness) else f"{self.robustness:.4g} {self.unit}".strip()

    def __str__(self) -> str:
        times = "" if self.times is None else f"{self.times} time{'s' * (self.times != 1)}"
        return ", ".join(part for part in (self.verdict, self.margin, times) if part)


@dataclass(frozen=True)
class Row:
    """A requirement with its verdicts in all runs or tests."""

    name: str
    formula: str
    text: str
    cells: Mapping[str, Cell]
    unchecked: Mapping[str, str] = field(default_factory=dict)
    """Why the requirement was not checked, by the name of each column without a cell."""

    @property
    def whole(self) -> Cell:
        """The verdict over all columns.

        Runs that do not exercise the requirement count only if no other run does.
        """
        told = [one for one in self.cells.values() if one.exercised]
        outcome = Outcome.of_all(one.outcome for one in told)
        decided = [one.robustness for one in told if not math.isnan(one.robustness)]
        reason = next((one.reason for one in told or self.cells.values() if one.reason), "")
        unit = self.cells[self.worst_in].unit if self.worst_in else ""
        return Cell(outcome, bool(told), None, min(decided, default=math.nan), reason, unit)

    def counted(self, cell: Cell) -> str:
        if cell.times is None:
            return ""
        nodes = list(parse(self.formula).walk())
        if any(one.kind == "implies" for one in nodes) or not any(map(measure_in, nodes)):
            return f"condition true {cell.times} time{'s' * (cell.times != 1)}"
        return f"{cell.times} step{'s' * (cell.times != 1)} measured"

    def remark(self, runs: str = "runs") -> str:
        count = len(self.unchecked)
        return f"{NOT_CHECKED} in {count} {runs if count > 1 else runs.removesuffix('s')}" * (
            count > 0
        )

    @property
    def exercised_by(self) -> list[str]:
        """The runs or tests in which the requirement holds or is violated."""
        return [k for k, one in self.cells.items() if one.outcome is not Outcome.UNDECIDED]

    @property
    def worst_in(self) -> str:
        """The run or test with the smallest robustness, or ""."""
        decided = {k: one.robustness for k, one in self.cells.items() if one.margin}
        return min(decided, key=decided.__getitem__, default="")

    @property
    def in_words(self) -> str:
        whole = self.whole
        if whole.outcome is Outcome.UNDECIDED:
            why = whole.reason
            if not whole.exercised:
                why = f"no run exercises it{why.removeprefix(NOT_EXERCISED)}"
            return f"{self.name} is undecided: {why}"
        said = "is violated" if whole.outcome is Outcome.FAILED else "holds"
        return f"{self.name} {said}, robustness {whole.margin} in {self.worst_in}"


_Key = tuple[str, str]
"""Name and formula of a requirement."""


@dataclass
class Matrix:
    """Verdicts of requirements in several runs or tests, in the order of their results.

    ``links`` contains the addresses of the recordings.
    """

    columns: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    about: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Facts about the runs of columns, such as their scenario, for the page."""
    notes: list[str] = field(default_factory=list)
    """Remarks on all runs, for the page."""
    _found: dict[_Key, dict[str, list[Plain]]] = field(default_factory=dict)
    _texts: dict[_Key, str] = field(default_factory=dict)
    _unchecked: dict[_Key, dict[str, str]] = field(default_factory=dict)

    def add(self, column: str, results: Iterable[Plain], link: str = "") -> None:
        if column not in self.columns:
            self.columns.append(column)
        if link:
            self.links[column] = link
        for one in results:
            key = str(one["name"]), str(one["formula"])
            self._texts[key] = self._texts.get(key) or str(one.get("text", ""))
            self._found.setdefault(key, {}).setdefault(column, []).append(one)

    def leave_out(self, column: str, name: str, formula: str, why: str) -> None:
        """Store the reason why a run did not check a requirement."""
        self._unchecked.setdefault((name, formula), {})[column] = why

    @property
    def rows(self) -> list[Row]:
        """The requirements; two formulas with the same name are two rows."""
        rows = []
        for key, found in self._found.items():
            why = self._unchecked.get(key, {})
            cells = {column: Cell.of(some) for column, some in found.items()}
            missing = {one: why.get(one, "") for one in self.columns if one not in found}
            rows.append(Row(*key, self._texts[key], cells, missing))
        return rows

    @property
    def outcome(self) -> Outcome:
        """FAILED if a requirement is violated, else UNDECIDED if one is undecided, else PASSED."""
        return Outcome.of_all(row.whole.outcome for row in self.rows)

    @property
    def why(self) -> str:
        return "; ".join(r.in_words for r in self.rows if r.whole.outcome is not Outcome.PASSED)

    def to_csv(self) -> str:
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        last = ("verdict", "worst_robustness", "worst_in", "exercised_by", "not_checked_in")
        table.writerow(["requirement", "text", "formula", *self.columns, *last])
        for row in self.rows:
            cells = [str(row.cells.get(one, NOT_CHECKED)) for one in self.columns]
            worst = "" if not row.worst_in else repr(row.whole.robustness)
            table.writerow(
                [row.name, row.text, row.formula, *cells, row.whole.verdict, worst, row.worst_in,
                 len(row.exercised_by), len(row.unchecked)]
            )  # fmt: skip
        return out.getvalue()
