"""The runs of a study as the page reads them: columns, series, margins, the worst runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.studies.designs import Design
from rtsim.studies.designs.base import Columns, Integers, Marks
from rtsim.studies.folder import Folder
from rtsim.studies.measures import margin_name
from rtsim.studies.rows import OK, decided
from rtsim.studies.summary import summarise


@dataclass(frozen=True)
class Series:
    """Runs that came to their end, and that a plot draws as one series."""

    label: str
    columns: Columns
    """Numbers, results, margins and marks of these runs, (n,) each."""
    where: Integers
    """The places (n,) of these runs among all runs that came to their end."""
    design: Design

    def __len__(self) -> int:
        return len(self.where)

    def kept(self, which: Marks) -> Columns:
        """Return the columns of the runs with a true entry of ``which`` (n,)."""
        return {name: column[which] for name, column in self.columns.items()}

    def finite(self, name: str) -> tuple[Columns, Vector]:
        """Return the columns of the runs with a finite result, and their results (m,)."""
        values = numbers(self.columns[name])
        finite = np.isfinite(values)
        return self.kept(finite), values[finite]


class Runs:
    """The results of a folder, read once."""

    def __init__(self, folder: Folder) -> None:
        self.folder, self.plan = folder, folder.plan
        self.found = summarise(folder)
        names = ["run", "state", "cause", *self.plan.results, *self.plan.margins]
        first = self.plan.example
        table = folder.table(*names, *first.marks, *first.values)
        self.columns: dict[str, Any] = {n: np.asarray(table[n]) for n in table.column_names}
        ended = decided(self.columns["state"])
        self.ended = {name: column[ended] for name, column in self.columns.items()}

    @property
    def level(self) -> float:
        """The level of the intervals of this page."""
        return self.plan.level

    @property
    def percent(self) -> str:
        """The level as text: ``95 %``."""
        return f"{100.0 * self.level:.4g} %"

    @cached_property
    def factors(self) -> list[str]:
        """The columns that the design varies."""
        return list(self.plan.example.values)

    @cached_property
    def series(self) -> list[Series]:
        """All runs that came to their end, or one series for each alternative."""
        plan, design = self.plan, self.plan.sampled
        names = ("run", *plan.example.marks, *plan.results, *plan.margins)
        return [
            Series(label, {n: self.ended[n][which] for n in names}, np.flatnonzero(which), design)
            for label, which in design.series(self.ended).items()
        ]

    @cached_property
    def missed(self) -> Marks:
        """True (n,) for the runs that came to their end and miss a requirement."""
        out = np.zeros(len(self.ended["run"]), np.bool_)
        for name in self.plan.margins:
            out |= ~(numbers(self.ended[name]) >= 0.0)  # True for NaN
        return out

    def worst(self, most: int) -> list[Worst]:
        """Return the runs with the smallest margins, the smallest first.

        Margins of several requirements may have several units; each margin is therefore divided by
        the standard deviation of its requirement's margins.  A margin that is NaN comes first,
        because the run has no number to meet the requirement with.
        """
        required = self.plan.job.required
        if not required or not len(self.ended["run"]):
            return []
        margins = np.stack([numbers(self.ended[margin_name(one)]) for one in required])
        scaled = np.stack([_scaled(row) for row in margins])
        least = scaled.argmin(axis=0)
        order = np.argsort(scaled.min(axis=0), kind="stable")[:most]
        return [
            Worst(int(k), int(self.ended["run"][k]), required[least[k]].name, margins[least[k], k])
            for k in order
        ]

    def causes(self) -> list[tuple[str, str, int, int]]:
        """Return state, cause, number of runs and first run of the runs without all their results.

        The most frequent cause comes first.
        """
        counts: dict[tuple[str, str], list[int]] = {}
        columns = (self.columns[name] for name in ("run", "state", "cause"))
        for run, state, cause in zip(*columns, strict=True):
            if state != OK:
                counts.setdefault((state, cause or ""), []).append(int(run))
        rows = [(*key, len(runs), runs[0]) for key, runs in counts.items()]
        return sorted(rows, key=lambda row: (-row[2], row[3]))


@dataclass(frozen=True)
class Worst:
    """One of the runs with the smallest margins."""

    place: int
    """Its place among the runs that came to their end."""
    run: int
    requirement: str
    margin: float


def numbers(column: NDArray[Any]) -> Vector:
    """Return a column as numbers (n,); a missing value is NaN."""
    return np.asarray(column, dtype=np.float64)


def _scaled(margins: Vector) -> Vector:
    finite = margins[np.isfinite(margins)]
    spread = float(finite.std()) if len(finite) else 0.0
    return np.where(np.isnan(margins), -np.inf, margins / (spread or 1.0))


def steps(design: Design, count: int, most: int) -> Iterator[int]:
    """Yield at most ``most`` numbers of runs up to ``count``, evenly spaced as logarithms.

    There are none for a design whose first runs are not a sample of all.
    """
    if design.random and count > 1:
        yield from np.unique(
            np.round(np.geomspace(min(10, 1 + count // 2), count, most)).astype(int)
        ).tolist()
