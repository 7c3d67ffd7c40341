"""Running totals of a study, for the progress line: they need no memory for each run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

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
        self.estimated = plan.sampled.planned and "weight" not in plan.example.marks
        """True if the share of runs that meet a requirement is an estimate of its probability."""
        self.worst = dict.fromkeys(self.passed, math.inf)
        """The smallest margin of each requirement so far."""

    @classmethod
    def of(cls, folder: Folder) -> Tally:
        """Return the totals of the rows that the folder has already."""
        out = cls(folder.plan)
        columns = ("state", *out._margins.values())
        for batch in folder.table(*columns).to_batches():
            for row in batch.to_pylist():
                out._count(row["state"], row)
        return out

    def add(self, row: Row) -> None:
        self.new += 1
        self._count(row.state, row.values)

    def _count(self, state: str, values: Mapping[str, Any]) -> None:
        self.states[state] += 1
        for name, column in self._margins.items():
            margin = values.get(column)
            if margin is not None and not math.isnan(margin):
                self.passed[name] += margin >= 0.0
                self.worst[name] = min(self.worst[name], margin)

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
        if not self.estimated or not self.decided:
            return None
        return rate(self.passed[requirement], self.decided)

    def counts(self) -> dict[str, int]:
        """Return the number of runs in each state."""
        return {state: self.states[state] for state in STATES}
