"""Running totals of a study, for the progress line; they keep a few numbers of each run."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.estimates import Estimate
from rtsim.studies.folder import Folder
from rtsim.studies.measures import margin_name
from rtsim.studies.plan import Plan
from rtsim.studies.rates import Rate, rate
from rtsim.studies.rows import DECIDED, OK, STATES, Row, decided


class _Kept:
    """The values of one result, with the columns by which the design weights its runs."""

    def __init__(self, plan: Plan, result: str) -> None:
        self.result = result
        self._design, self._level, self._values = plan.sampled, plan.level, array("d")
        self._marks = {
            name: array("d")
            for name, values in plan.example.marks.items()
            if np.asarray(values).dtype.kind in "bif"
        }

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.result, *self._marks)

    def add(self, values: Mapping[str, float], marks: Mapping[str, Any]) -> None:
        value = values.get(self.result, math.nan)
        if not math.isfinite(value):
            return
        self._values.append(value)
        for name, mark in self._marks.items():
            mark.append(marks[name])

    def extend(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Add the values of many runs; ``columns`` are those of :attr:`columns`, each (n,)."""
        finite = np.isfinite(columns[self.result])
        self._values.extend(columns[self.result][finite])
        for name, mark in self._marks.items():
            mark.extend(columns[name][finite])

    def estimate(self) -> Estimate | None:
        if not self._design.pooled:
            return None
        marks = {name: np.array(mark) for name, mark in self._marks.items()}
        return self._design.mean(marks, np.array(self._values), self._level)


class Tally:
    """Counts of states and of passed requirements, and the estimate of the first result."""

    def __init__(self, plan: Plan) -> None:
        self.runs = plan.runs
        self._level = plan.level
        self.states: Counter[str] = Counter()
        self.new = 0
        """Rows that were added, without those of earlier processes."""
        self.passed = {one.name: 0 for one in plan.job.required}
        self._margins = {one.name: margin_name(one) for one in plan.job.required}
        design = plan.sampled
        self.estimated = design.planned and design.pooled and "weight" not in plan.example.marks
        """True if the share of runs that meet a requirement is an estimate of its probability."""
        self.worst = dict.fromkeys(self.passed, math.inf)
        """The smallest margin of each requirement so far."""
        self.without_margin = dict.fromkeys(self.passed, 0)
        """The number of runs without a margin, which counts as worse than every margin."""
        self._first = [_Kept(plan, name) for name in list(plan.results)[:1]]

    @classmethod
    def of(cls, folder: Folder) -> Tally:
        """Return the totals of the rows that the folder has already."""
        out = cls(folder.plan)
        first = [name for one in out._first for name in one.columns]
        names = ("state", *first, *out._margins.values())
        columns = folder.columns(*dict.fromkeys(names))
        states = columns["state"]
        out.states.update(states)
        ended = decided(states)
        for one in out._first:
            one.extend({name: columns[name][ended] for name in one.columns})
        for name, column in out._margins.items():
            margins = columns[column]
            out.passed[name] = int((margins >= 0.0).sum())  # False for NaN
            out.worst[name] = float(np.fmin.reduce(margins, initial=math.inf))
            out.without_margin[name] = int(np.isnan(margins).sum())
        return out

    def add(self, row: Row) -> None:
        self.new += 1
        self.states[row.state] += 1
        if row.state in DECIDED:
            for one in self._first:
                one.add(row.values, row.order.marks)
        for name, column in self._margins.items():
            margin = row.values.get(column, math.nan)
            if math.isnan(margin):
                self.without_margin[name] += 1
            else:
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
        """The number of runs that count in pass rates."""
        return sum(self.states[state] for state in DECIDED)

    def estimates(self) -> list[tuple[str, Estimate]]:
        """Return the mean of the first result so far, if the study has enough runs for one."""
        found = ((one.result, one.estimate()) for one in self._first)
        return [(name, estimate) for name, estimate in found if estimate is not None]

    def rate(self, requirement: str) -> Rate | None:
        """Return the share of runs that meet a requirement, if it can be counted."""
        if not self.estimated or not self.decided:
            return None
        return rate(self.passed[requirement], self.decided, self._level)

    def counts(self) -> dict[str, int]:
        """Return the number of runs in each state."""
        return {state: self.states[state] for state in STATES}
