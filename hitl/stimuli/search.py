"""Search for input sequences that reach branches of C code, guided by distances.

For each goal, the search keeps the sequences with the smallest distances. Each round changes one of
these sequences in many ways, and keeps the changes that come nearer to a goal. A successful change
is repeated, as in the "alternating variable method" (Korel, "Automated software test data
generation", 1990).

All decisions depend only on the seed and on the controller.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hitl.interface.ranges import short
from hitl.stimuli.file import Ranges, Table
from hitl.stimuli.running import Reached, Runner
from rtsim.core.signals import Vector
from rtsim.studies.shrinking import least, rounder, without

# -- changes of input sequences

_ON = (1.0, -0.5, 3.0, 0.5, 10.0)
"""Factors by which a successful change is repeated."""
_GAPS = (1.0, -1.0, 1.01, -1.01, 0.5, 2.0, -2.0, 10.0, -10.0)


def continued(ranges: Ranges, table: Table, change: Table) -> Iterator[Table]:
    """Yield sums of ``table`` and multiples of ``change``."""
    with np.errstate(all="ignore"):
        for factor in _ON:
            on = ranges.fitted(table + factor * change)
            if not np.array_equal(on, table, equal_nan=True):
                yield on


class Mutations:
    """Random changes of sequences, with at most ``rows`` steps."""

    def __init__(self, ranges: Ranges, rng: np.random.Generator, rows: int) -> None:
        self.ranges, self.rng, self.rows = ranges, rng, rows
        self._all = (
            self._set, self._set, self._set, self._near_compared_value, self._near_compared_value,
            self._added, self._added, self._longer, self._several, self._shorter, self._pulse,
        )  # fmt: skip

    def fresh(self) -> Table:
        rows = self._length()
        return np.tile([self.ranges.drawn(self.rng, c) for c in range(len(self.ranges))], (rows, 1))

    def changed(self, table: Table, sides: Vector | None, others: Sequence[Table]) -> Table:
        """Return ``table`` with one to three changes.

        ``sides`` (2,) contains the two compared values that came nearest to the wanted branch. Rows
        can also be copied from other sequences, ``others``.
        """
        out = table
        for _ in range(1 + int(self.rng.integers(3))):
            if others and self.rng.random() < 0.06:
                out = self._spliced(out, others)
            elif len(self.ranges):
                how = self._all[int(self.rng.integers(len(self._all)))]
                out = how(np.array(out), sides)
        return self.ranges.fitted(out[: self.rows])

    def _column(self) -> int:
        return int(self.rng.integers(len(self.ranges)))

    def _length(self) -> int:
        return max(1, min(self.rows, int(self.rows ** self.rng.random() + 0.5)))

    def _span(self, table: Table) -> slice:
        kind, rows = self.rng.random(), len(table)
        if kind < 0.4 or rows == 1:
            return slice(0, rows)
        start = int(self.rng.integers(rows))
        if kind < 0.75:
            return slice(start, rows)
        return slice(start, min(rows, start + self._length()))

    def _set(self, table: Table, sides: Vector | None) -> Table:  # noqa: ARG002
        column = self._column()
        table[self._span(table), column] = self.ranges.drawn(self.rng, column)
        return table

    def _several(self, table: Table, sides: Vector | None) -> Table:
        span = self._span(table)
        for _ in range(2 + int(self.rng.integers(3))):
            column = self._column()
            table[span, column] = self.ranges.drawn(self.rng, column)
        return self._longer(table, sides) if self.rng.random() < 0.3 else table

    def _near_compared_value(self, table: Table, sides: Vector | None) -> Table:
        if sides is None or not np.isfinite(sides).all():
            return self._added(table, sides)
        left, right = sides.tolist()
        column, span = self._column(), self._span(table)
        if self.rng.random() < 0.4:
            side = (left, right, -left, -right)[int(self.rng.integers(4))]
            nudge = 0.0 if self.rng.random() < 0.5 else 0.01 * abs(side) + 1e-3
            table[span, column] = side + (nudge if self.rng.random() < 0.5 else -nudge)
        else:
            table[span, column] += _GAPS[int(self.rng.integers(len(_GAPS)))] * (right - left)
        return table

    def _added(self, table: Table, sides: Vector | None) -> Table:  # noqa: ARG002
        column = self._column()
        one = self.ranges.columns[column]
        size = max(one.width * 10.0 ** -float(self.rng.integers(0, 7)), one.grain)
        with np.errstate(all="ignore"):
            table[self._span(table), column] += short(size * float(self.rng.uniform(-1, 1)), 3)
        return table

    def _longer(self, table: Table, sides: Vector | None) -> Table:  # noqa: ARG002
        room = self.rows - len(table)
        if room < 1:
            return table
        more = min(room, max(1, int(len(table) * self.rng.choice([0.1, 0.5, 1.0, 3.0]))))
        if self.rng.random() < 0.7:
            return np.concatenate([table, np.repeat(table[-1:], more, axis=0)])
        return np.concatenate([table, np.resize(table[self._span(table)], (more, table.shape[1]))])

    def _shorter(self, table: Table, sides: Vector | None) -> Table:  # noqa: ARG002
        if len(table) < 2:
            return table
        span = self._span(table)
        if span.stop - span.start >= len(table):
            return table[: 1 + int(self.rng.integers(len(table)))]
        return np.delete(table, span, axis=0)

    def _pulse(self, table: Table, sides: Vector | None) -> Table:
        if len(table) < 2:
            table = self._longer(table, sides)
        column = self._column()
        table[int(self.rng.integers(len(table))), column] = self.ranges.drawn(self.rng, column)
        return table

    def _spliced(self, table: Table, others: Sequence[Table]) -> Table:
        other = others[int(self.rng.integers(len(others)))]
        head = table[: 1 + int(self.rng.integers(len(table)))]
        return np.concatenate([head, other[int(self.rng.integers(len(other))) :]])


_BATCH = 48
_NEAREST = 4
"""Number of stored sequences for each open goal."""
_PATIENCE = 25
"""Rounds without progress that end the search for narrowly taken branches."""
_FAILURES = 3
"""Greatest number of failing sequences to keep, each of another kind."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A sequence (k, m), with the goals that it reached."""

    table: Table
    reached: Reached
    change: Table | None = None
    """The change (k, m) that made the sequence from another sequence of the same length."""


class Search:
    """The state of a search.

    ``rows`` is the greatest number of steps. ``hazards`` contains the indices of possible errors
    (``hitl.stimuli.probes.HAZARDS``).
    """

    def __init__(
        self,
        runner: Runner,
        ranges: Ranges,
        seed: int,
        rows: int,
        hazards: Collection[int] = (),
    ) -> None:
        self.hazards = sorted(hazards)
        self.runner, self.ranges, self.rows = runner, ranges, rows
        self.rng = np.random.default_rng(seed)
        self.mutations = Mutations(ranges, self.rng, rows)
        self.hits = np.zeros(runner.goals, np.bool_)
        """The goals that were reached so far, shape (g,); see :class:`Reached`."""
        self.corpus: list[Trial] = []
        """Sequences that reached new goals, in the order of their discovery."""
        self.failures: dict[tuple[str, int], Trial] = {}
        """The first sequence for each kind of failure of the C code and each hazard (-1: no
        hazard).
        """
        self.closest: list[tuple[float, float, float]] = [(np.inf, 0.0, 0.0)] * runner.goals
        """The least distance to each goal, and both compared values at this distance."""
        self._nearest: list[list[Trial]] = [[] for _ in range(runner.goals)]
        self._turn = 0
        self._aimed = 0
        """Number of rounds with a single goal, which determines the next goal so that all have a
        turn.
        """
        self._goals: frozenset[int] = frozenset()
        """The goals of the present part of the search."""
        self._idle = 0
        """Rounds since a goal was reached, or since one of ``_goals`` came nearer."""

    @property
    def branches(self) -> NDArray[np.bool_]:
        """Branches that were reached so far, shape (n,)."""
        return self.hits[: self.runner.branches]

    def begin(self, run: Table | None) -> None:
        """Store the goals that the inputs ``run`` (k, m) reach, and run the first sequences."""
        first = [np.tile(self.ranges.rest, (rows, 1)) for rows in (1, 2, min(10, self.rows))]
        if run is not None and len(run):
            (all_of_it,) = self.runner.run([run])
            self._meet(Trial(run, all_of_it))
            self.corpus.clear()  # the comparison already has these inputs
            starts = {min(self.rows, len(run)), min(self.rows // 4 + 1, len(run))}
            first += [self.ranges.fitted(run[:rows]) for rows in sorted(starts)]
        self._run(first)

    def go_on(self, most: int, goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Search until ``most`` sequences have run, or ``goes_on()`` returns False.

        The first goals are the branches. When all branches are reached, the search continues for
        nearly equal compared values. Returns False if ``goes_on()`` ended the search.
        """
        count = self.runner.branches
        branches = [b for b in range(count) if b not in self.hazards]
        return self._go_on(branches, most, goes_on) and self._go_on(
            [count + b for b in branches], most, goes_on, _PATIENCE
        )

    def go_on_to_hazards(self, most: int, goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Search for possible errors, with at most ``most`` more sequences."""
        # The rounds are shared by all hazards, and most hazards cannot happen.
        patience = _PATIENCE * max(1, len(self._waiting(self.hazards)))
        return self._go_on(self.hazards, self.runner.runs + most, goes_on, patience)

    def _go_on(
        self,
        goals: list[int],
        most: int,
        goes_on: Callable[[], bool],
        patience: int | None = None,
    ) -> bool:
        self._idle, self._goals = 0, frozenset(goals)
        while not self.hits[goals].all() and self.runner.runs < most:
            if patience is not None and (self._idle >= patience or not self._waiting(goals)):
                break
            if not goes_on():
                return False
            self._round(min(_BATCH, most - self.runner.runs), goals)
        return True

    def _waiting(self, goals: list[int]) -> list[int]:
        return [g for g in goals if not self.hits[g] and self._nearest[g]]

    def _round(self, count: int, goals: list[int]) -> None:
        waiting = self._waiting(goals)
        self._idle += 1
        if not waiting or self._turn % 8 == 7:  # now and then from anywhere
            target, parents = -1, self.corpus or [t for some in self._nearest for t in some]
        else:
            target = waiting[self._aimed % len(waiting)]
            self._aimed += 1
            parents = self._nearest[target]
        self._turn += 1
        tables: list[Table] = []
        origins: list[Table | None] = []
        for parent in parents if target >= 0 else ():
            if parent.change is not None:
                for table in continued(self.ranges, parent.table, parent.change):
                    tables.append(table)
                    origins.append(parent.table)
        del tables[count // 3 :], origins[count // 3 :]
        while len(tables) < count:
            parent_ = self._any(parents)
            base = self.mutations.fresh() if parent_ is None else parent_.table
            sides = None if target < 0 or parent_ is None else parent_.reached.sides[target]
            tables.append(self.mutations.changed(base, sides, [t.table for t in self.corpus]))
            origins.append(base)
        self._run(tables, origins)

    def _any(self, parents: list[Trial]) -> Trial | None:
        return parents[int(self.rng.integers(len(parents)))] if parents else None

    def _run(self, tables: list[Table], origins: list[Table | None] | None = None) -> None:
        for at, reached in enumerate(self.runner.run(tables)):
            before = None if origins is None else origins[at]
            same = before is not None and before.shape == tables[at].shape
            change = tables[at] - before if same and before is not None else None
            self._meet(Trial(tables[at], reached, change))

    def _meet(self, trial: Trial) -> None:
        reached = trial.reached
        if not reached.ok:
            met = [g for g in self.hazards if reached.distance[g] == 0.0]
            if reached.failure and len(self.failures) < _FAILURES + len(self.hazards):
                self.failures.setdefault((reached.failure, met[-1] if met else -1), trial)
            if reached.failure:
                self.hits[met] = True  # it is known to fail there
            return
        new = reached.hits & ~self.hits
        if new.any():
            self.hits |= new
            self.corpus.append(trial)
            for goal in np.flatnonzero(new):
                self._nearest[goal] = []
            self._idle = 0
        for goal in np.flatnonzero(~self.hits & np.isfinite(reached.distance)):
            self._near(int(goal), trial)

    def _keeps(self, goal: int) -> bool:
        return goal in self.hazards or self.rng.random() > 0.2

    def _near(self, goal: int, trial: Trial) -> None:
        distance = float(trial.reached.distance[goal])
        if distance < self.closest[goal][0]:
            left, right = trial.reached.sides[goal].tolist()
            self.closest[goal] = (distance, left, right)
            if goal in self._goals:
                self._idle = 0
        kept = self._nearest[goal]
        if len(kept) >= _NEAREST:
            worst = float(kept[-1].reached.distance[goal])
            if distance > worst or (distance == worst and self._keeps(goal)):
                return
            del kept[-1]
        kept.append(trial)
        kept.sort(key=lambda t: (float(t.reached.distance[goal]), len(t.table)))


# Simplification of sequences: few steps, few changes, few digits, no comparison near a tie.

NEAR_A_TIE = 1e-4
"""Relative difference of two compared values below which a comparison is nearly a tie."""
_MOST_RUNS = 500
_NUDGES = (1e-3, -1e-3, 1e-2, -1e-2, 0.1, -0.1)


class Shortening:
    """Simplification of input sequences.

    A simplified sequence must reach the goals ``needed`` and, if given, fail with ``failure``.
    """

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
        """Return a shorter and simpler sequence with the same effect."""
        for part in (self._cut, self._without_rows, self._at_rest, self._held, self._rounded):
            trial = part(trial)
        trial = self._without_rows(trial)
        return self._off_the_tie(trial)

    def _does(self, reached: Reached) -> bool:
        there = bool((reached.distance[self.needed] == 0.0).all())
        return there and (reached.failure == self.failure if self.failure else reached.ok)

    def _first_good(self, trial: Trial, tables: Sequence[Table]) -> Trial | None:
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
        def does(rows: int) -> Trial | None:
            return self._first_good(trial, [trial.table[:rows]])

        return least(len(trial.table), does) or trial

    def _without_rows(self, trial: Trial) -> Trial:
        def fewer(one: Trial, gone: slice) -> list[Table]:
            table = np.delete(one.table, gone, axis=0)
            return [table] if len(table) else []

        return without(trial, lambda one: len(one.table), fewer, self._first_good)

    def _at_rest(self, trial: Trial) -> Trial:
        for column in range(len(self.ranges)):
            values = trial.table[:, column]
            plain = []
            for value in (self.ranges.columns[column].rest, values[-1], values[0]):
                if not np.array_equal(values, np.full(len(values), value), equal_nan=True):
                    plain.append(_with(trial.table, slice(None), column, float(value)))
            trial = self._first_good(trial, plain) or trial
        return trial

    def _held(self, trial: Trial) -> Trial:
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
                fewer = dict.fromkeys(self.ranges.columns[column].fitted(v) for v in rounder(value))
                tables = [_with(trial.table, where, column, v) for v in fewer if v != value]
                trial = self._first_good(trial, tables) or trial
        return trial

    def _off_the_tie(self, trial: Trial) -> Trial:
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
    """Return a few sequences that together reach the goals ``open_`` (g,).

    Each sequence is returned with the goals for which it was chosen.
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
