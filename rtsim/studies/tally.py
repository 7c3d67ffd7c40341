"""Running totals of a study, for the progress line: they need no memory for each run."""

from __future__ import annotations

import math
from collections import Counter

from rtsim.studies.folder import Folder
from rtsim.studies.measures import margin_name
from rtsim.studies.plan import Plan
from rtsim.studies.rates import Rate, rate
from rtsim.studies.rows import NAN, OK, STATES, Row


class Tally:
    """Counts of states, and of passed requirements."""

    def __init__(self, plan: Plan) -> None:
        self.runs = plan.runs
        self.states: Counter[str] = Counter()
        self.new = 0
        """Rows that were added, without those of earlier processes."""
        self.passed = {one.name: 0 for one in plan.job.required}
        self._margins = {one.name: margin_name(one) for one in plan.job.required}
        self.weighted = "weight" in plan.block(0).marks

    @classmethod
    def of(cls, folder: Folder) -> Tally:
        """Return the totals of the rows that the folder has already."""
        out = cls(folder.plan)
        columns = folder.columns("state", *out._margins.values())
        out.states.update(columns["state"])
        for name, column in out._margins.items():
            out.passed[name] = int((columns[column] >= 0.0).sum())  # False for NaN
        return out

    def add(self, row: Row) -> None:
        self.new += 1
        self.states[row.state] += 1
        for name, column in self._margins.items():
            if row.values.get(column, math.nan) >= 0.0:
                self.passed[name] += 1

    @property
    def rows(self) -> int:
        """The number of runs that have a row."""
        return self.states.total()

    @property
    def failures(self) -> int:
        """The number of runs without all their results."""
        return self.rows - self.states[OK]

    @property
    def decided(self) -> int:
        """The number of runs that came to their end, so that the requirements were checked."""
        return self.states[OK] + self.states[NAN]

    def rate(self, requirement: str) -> Rate | None:
        """Return the share of runs that meet a requirement, if it can be counted."""
        if self.weighted or not self.decided:
            return None
        return rate(self.passed[requirement], self.decided)

    def counts(self) -> dict[str, int]:
        """Return the number of runs in each state."""
        return {state: self.states[state] for state in STATES}
