"""Progress of a study: numbers of runs, and a line for the display."""

from __future__ import annotations

import math
from array import array
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.estimates import Estimate
from rtsim.runs.progress import FIRST_NS, Display, Pulse
from rtsim.studies.designs.base import Rate, rate
from rtsim.studies.folder import Folder
from rtsim.studies.measures import DECIDED, OK, STATES, Row, decided, margin_name
from rtsim.studies.plan import Plan
from rtsim.studies.texts import runs_of


class _Kept:
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
    """Numbers of runs by state and requirement, and an estimate of the first result."""

    def __init__(self, plan: Plan) -> None:
        self.runs = plan.runs
        self._level = plan.level
        self.states: Counter[str] = Counter()
        self.new = 0
        self.passed = {one.name: 0 for one in plan.job.required}
        self._margins = {one.name: margin_name(one) for one in plan.job.required}
        self._lowered = {name: plan.lowered(name) for name in self._margins}
        design = plan.sampled
        self.estimated = design.planned and design.pooled and "weight" not in plan.example.marks
        """True if the fraction of runs that meet a requirement estimates a probability."""
        self.worst = dict.fromkeys(self.passed, math.inf)
        self.without_margin = dict.fromkeys(self.passed, 0)
        """Number of runs without a margin, for each requirement. A run without a margin is worse
        than any run with a margin.
        """
        self._first = [_Kept(plan, name) for name in list(plan.results)[:1]]

    @classmethod
    def of(cls, folder: Folder) -> Tally:
        out = cls(folder.plan)
        first = [name for one in out._first for name in one.columns]
        names = ("state", *first, *out._margins.values(), *out._lowered.values())
        columns = folder.columns(*dict.fromkeys(names))
        states = columns["state"]
        out.states.update(states)
        ended = decided(states)
        for one in out._first:
            one.extend({name: columns[name][ended] for name in one.columns})
        for name, column in out._margins.items():
            margins = columns[column]
            out.passed[name] = int((margins >= 0.0).sum())  # NaN >= 0 is False.
            lowered = columns[out._lowered[name]]
            out.worst[name] = float(np.fmin.reduce(lowered, initial=math.inf))
            out.without_margin[name] = int(np.isnan(lowered).sum())
        return out

    def add(self, row: Row) -> None:
        self.new += 1
        self.states[row.state] += 1
        if row.state in DECIDED:
            for one in self._first:
                one.add(row.values, row.order.marks)
        for name, column in self._margins.items():
            self.passed[name] += row.values.get(column, math.nan) >= 0.0  # NaN >= 0 is False.
            margin = row.values.get(self._lowered[name], math.nan)
            if math.isnan(margin):
                self.without_margin[name] += 1
            else:
                self.worst[name] = min(self.worst[name], margin)

    @property
    def rows(self) -> int:
        return self.states.total()

    @property
    def failures(self) -> int:
        return self.rows - self.states[OK]

    @property
    def decided(self) -> int:
        return sum(self.states[state] for state in DECIDED)

    def estimates(self) -> list[tuple[str, Estimate]]:
        """Return the name and the estimated mean of the first result, or ""."""
        found = ((one.result, one.estimate()) for one in self._first)
        return [(name, estimate) for name, estimate in found if estimate is not None]

    def rate(self, requirement: str) -> Rate | None:
        """Return the fraction of runs that meet a requirement, or ``None``."""
        if not self.estimated or not self.decided:
            return None
        return rate(self.passed[requirement], self.decided, self._level)

    def counts(self) -> dict[str, int]:
        return {state: self.states[state] for state in STATES}


_LATELY_NS, _LATELY_RUNS = 10_000_000_000, 10
_EVERY_NS = 500_000_000


class Speed:
    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque()

    def of(self, now: int, runs: int) -> float:
        """Return the recent runs per second.

        ``runs`` is the number of runs that have ended before the time ``now`` (ns).
        """
        seen = self._seen
        seen.append((now, runs))
        while (
            len(seen) > 2 and now - seen[1][0] >= _LATELY_NS and runs - seen[1][1] >= _LATELY_RUNS
        ):
            seen.popleft()
        then, before = seen[0]
        return (runs - before) / ((now - then) * 1e-9) if now > then else 0.0


class Watched(Protocol):
    @property
    def about(self) -> str:
        """Address of a web page about the study; may be empty."""


class StudyProgress:
    """Show the progress of a study, twice per second."""

    def __init__(self, display: Display | None, first_ns: int = FIRST_NS) -> None:
        """Show the progress on ``display``; ``None`` means no display.

        The first line appears after ``first_ns``.
        """
        self._display = display
        self._pulse, self._speed = Pulse(first_ns, _EVERY_NS), Speed()
        self._about, self._records = "", False

    def show(self, tally: Tally, pool: Watched) -> None:
        """Show the present numbers if an update is due."""
        if self._display is None or not (now := self._pulse.due()):
            return
        if pool.about != self._about:
            self._about = pool.about
            self._display.keep(f"dashboard: {pool.about}")
        text = text_of(tally, self._speed.of(now, tally.new))
        self._display.write(text, tally.rows / max(1, tally.runs))

    def recordings(self, done: int, wanted: int) -> None:
        """Show how many of the ``wanted`` recordings exist if an update is due."""
        due = self._pulse.due()
        if self._display is not None and (due or not self._records):
            self._display.write(f"{done} / {wanted} recordings written", done / wanted)
        self._records = True

    def close(self) -> None:
        if self._display is not None:
            self._display.close()


def text_of(tally: Tally, speed: float) -> str:
    """Return the progress as one line. ``speed`` is in runs per second, or 0 if unknown.

    The most important numbers come first, because a narrow terminal shows only the beginning.
    """
    words = [f"{tally.rows} / {tally.runs} runs"]
    if speed:
        words.append(f"{speed:.3g} runs/s")
        words.append(f"{(tally.runs - tally.rows) / speed:.0f} s left")
    words.append(f"{tally.failures} failed")
    for name, mean in tally.estimates():
        words.append(f"{name} {mean.mean:.4g} ({mean.low:.4g} to {mean.high:.4g})")
    for name in list(tally.passed)[:1]:
        share = tally.rate(name)
        if share is not None:
            words.append(f"{name} met in {share.share:.4g} ({share.low:.4g} to {share.high:.4g})")
        elif tally.rows:
            words.append(f"{name} {_worst(tally, name)}")
    return "  ".join(words)


def _worst(tally: Tally, requirement: str) -> str:
    none, words = tally.without_margin[requirement], []
    if none:
        words.append(f"no margin in {runs_of(none)}")
    if none < tally.rows:
        words.append(f"worst margin {tally.worst[requirement]:.4g}")
    return ", ".join(words)
