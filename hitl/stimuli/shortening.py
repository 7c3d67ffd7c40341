"""Make a sequence short and plain: few steps, few changes, few digits, no comparison near a tie.

A plain sequence can be read.  It is also safer: where a comparison is nearly a tie, rounding
decides which way it goes, and C code with another type could rightly differ from its reference
model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hitl.interface.ranges import short
from hitl.stimuli.ranges import Ranges, Table
from hitl.stimuli.running import Reached, Runner
from hitl.stimuli.search import Trial

NEAR_A_TIE = 1e-4
"""Relative difference of two compared values below which a comparison counts as nearly a tie."""
_MOST_RUNS = 500
_DIGITS = (1, 2, 3, 4)
_NUDGES = (1e-3, -1e-3, 1e-2, -1e-2, 0.1, -0.1)


class Shortening:
    """Shorten sequences that must reach the goals ``needed`` (g,), and fail with ``failure``."""

    def __init__(
        self,
        runner: Runner,
        ranges: Ranges,
        needed: NDArray[np.bool_],
        failure: str = "",
    ) -> None:
        self.runner, self.ranges = runner, ranges
        self.needed, self.failure = needed, failure
        self._left = _MOST_RUNS

    def shortened(self, trial: Trial) -> Trial:
        """Return a shorter and plainer trial with the same effect; the result is deterministic."""
        for part in (self._cut, self._without_rows, self._at_rest, self._held, self._rounded):
            trial = part(trial)
        trial = self._without_rows(trial)
        return self._off_the_tie(trial)

    def _does(self, reached: Reached) -> bool:
        there = bool((reached.distance[self.needed] == 0.0).all())
        return there and (reached.failure == self.failure if self.failure else reached.ok)

    def _first_good(self, trial: Trial, tables: Sequence[Table]) -> Trial | None:
        """Return the first of ``tables`` that has the effect and is no nearer to a tie."""
        if not tables or self._left < len(tables):
            return None
        self._left -= len(tables)
        for table, reached in zip(tables, self.runner.run(tables), strict=True):
            if self._does(reached) and (
                reached.tie >= NEAR_A_TIE or reached.tie >= trial.reached.tie
            ):
                return Trial(table, reached)
        return None

    def _cut(self, trial: Trial) -> Trial:
        """Leave out the steps after the effect."""
        low, high = 0, len(trial.table)
        while high - low > 1:
            middle = (low + high) // 2
            found = self._first_good(trial, [trial.table[:middle]])
            if found is None:
                low = middle
            else:
                trial, high = found, middle
        return trial

    def _without_rows(self, trial: Trial) -> Trial:
        size = len(trial.table) // 2
        while size >= 1:
            starts = range(0, len(trial.table) - size + 1, size)
            fewer = [np.delete(trial.table, slice(s, s + size), axis=0) for s in starts]
            found = self._first_good(trial, [t for t in fewer if len(t)])
            if found is None:
                size //= 2
            else:
                trial = found
        return trial

    def _at_rest(self, trial: Trial) -> Trial:
        """Set each input to 0 (or the allowed value next to it), or to one value for all steps."""
        for column in range(len(self.ranges)):
            values = trial.table[:, column]
            plain = []
            for value in (self.ranges.columns[column].rest, values[-1], values[0]):
                if not np.array_equal(values, np.full(len(values), value), equal_nan=True):
                    plain.append(_with(trial.table, slice(None), column, float(value)))
            trial = self._first_good(trial, plain) or trial
        return trial

    def _held(self, trial: Trial) -> Trial:
        """Let each row be as the row before it, if that is enough."""
        for row in range(1, len(trial.table)):
            if not np.array_equal(trial.table[row], trial.table[row - 1], equal_nan=True):
                held = np.array(trial.table)
                held[row] = held[row - 1]
                trial = self._first_good(trial, [held]) or trial
        return trial

    def _rounded(self, trial: Trial) -> Trial:
        for column in range(len(self.ranges)):
            for value in dict.fromkeys(trial.table[:, column].tolist()):
                where = trial.table[:, column] == value
                fewer = dict.fromkeys(
                    self.ranges.columns[column].fitted(short(value, d)) for d in _DIGITS
                )
                tables = [_with(trial.table, where, column, v) for v in fewer if v != value]
                trial = self._first_good(trial, tables) or trial
        return trial

    def _off_the_tie(self, trial: Trial) -> Trial:
        """Move inputs a little if a comparison is nearly a tie."""
        if trial.reached.tie >= NEAR_A_TIE or self.failure:
            return trial
        for nudge in _NUDGES:
            moved = []
            for column, one in enumerate(self.ranges.columns):
                if not one.grain:
                    table = np.array(trial.table)
                    with np.errstate(all="ignore"):
                        table[:, column] += nudge * np.where(table[:, column], table[:, column], 1)
                    moved.append(self.ranges.fitted(table))
            if self._left < len(moved):
                return trial
            self._left -= len(moved)
            for table, reached in zip(moved, self.runner.run(moved), strict=True):
                if self._does(reached) and reached.tie >= NEAR_A_TIE:
                    return Trial(table, reached)
        return trial


def _with(table: Table, rows: slice | NDArray[np.bool_], column: int, value: float) -> Table:
    out = np.array(table)
    out[rows, column] = value
    return out


def covering(
    trials: Sequence[Trial], open_: NDArray[np.bool_]
) -> list[tuple[Trial, NDArray[np.bool_]]]:
    """Return few of ``trials`` that reach all goals ``open_`` (g,) that any of them reaches.

    Each comes with the goals (g,) for which it is there.
    """
    left = open_.copy()
    out = []
    while left.any():
        counts = [int((t.reached.hits & left).sum()) for t in trials]
        best = max(range(len(trials)), key=lambda i: (counts[i], -len(trials[i].table)), default=-1)
        if best < 0 or not counts[best]:
            break
        needed = trials[best].reached.hits & left
        out.append((trials[best], needed))
        left &= ~needed
    return out
