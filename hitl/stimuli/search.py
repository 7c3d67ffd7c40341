"""Search for input sequences that reach open branches, led by distances.

The search keeps, for each open goal, the sequences that came nearest to it.  It changes one of them
in many ways, runs the changed ones, and keeps what came nearer or reached something new.  A change
that helped is continued in the same direction, which follows a distance like the "alternating
variable method" (Korel, "Automated software test data generation", 1990; McMinn's survey, 2004).

All decisions depend on the seed and on the controller only, never on the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hitl.stimuli.mutations import Mutations, continued
from hitl.stimuli.ranges import Ranges, Table
from hitl.stimuli.running import Reached, Runner

_BATCH = 48
_NEAREST = 4
"""Sequences kept for each open goal."""
_PATIENCE = 25
"""Rounds without progress after which the search for branches with little to spare ends."""
_FAILURES = 3
"""Most failing sequences to keep, each of another kind."""


@dataclass(frozen=True, eq=False)
class Trial:
    """A sequence (k, m) that was run, and what it reached."""

    table: Table
    reached: Reached
    change: Table | None = None
    """The change (k, m) that made the sequence from another one of the same length."""


class Search:
    """The state of a search.

    ``rows`` is the largest number of steps of a sequence.  ``hazards`` are the indices of branches
    that are hazards (:data:`hitl.stimuli.probes.HAZARDS`).
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
        """(g,): the goals that were reached by now; see :class:`Reached`."""
        self.corpus: list[Trial] = []
        """Sequences that reached something new, in their order."""
        self.failures: dict[tuple[str, int], Trial] = {}
        """The first sequence of each kind of failure of the C code, at each hazard (-1: at none).
        """
        self.closest: list[tuple[float, float, float]] = [(np.inf, 0.0, 0.0)] * runner.goals
        """For each goal the least distance, and both sides of the comparison there."""
        self._nearest: list[list[Trial]] = [[] for _ in range(runner.goals)]
        self._turn = 0
        self._aimed = 0
        """Rounds that had one goal; it chooses the next, so that each has its turn."""
        self._goals: frozenset[int] = frozenset()
        """The goals of this part of the search."""
        self._idle = 0
        """Rounds since a goal was reached, or one of ``_goals`` came nearer."""

    @property
    def branches(self) -> NDArray[np.bool_]:
        """(n,): the branches that were reached by now."""
        return self.hits[: self.runner.branches]

    def begin(self, run: Table | None) -> None:
        """Count what the recorded inputs ``run`` (k, m) reach; the search begins with them."""
        first = [np.tile(self.ranges.rest, (rows, 1)) for rows in (1, 2, min(10, self.rows))]
        if run is not None and len(run):
            (all_of_it,) = self.runner.run([run])
            self._meet(Trial(run, all_of_it))
            self.corpus.clear()  # the comparison has these inputs already
            starts = {min(self.rows, len(run)), min(self.rows // 4 + 1, len(run))}
            first += [self.ranges.fitted(run[:rows]) for rows in sorted(starts)]
        self._run(first)

    def go_on(self, most: int, goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Search until ``most`` sequences have run, or ``goes_on()`` is False.

        The first goals are the branches.  When all are reached, the search goes on for those with
        little to spare, until it makes no progress.  Returns False if ``goes_on()`` ended it.
        """
        count = self.runner.branches
        branches = [b for b in range(count) if b not in self.hazards]
        return self._go_on(branches, most, goes_on) and self._go_on(
            [count + b for b in branches], most, goes_on, _PATIENCE
        )

    def go_on_to_hazards(self, most: int, goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Search for the hazards with ``most`` sequences more, until it makes no progress."""
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
        """Return the goals that were not reached, but evaluated."""
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
        """Return True to keep the older of two sequences that are equally near to a goal."""
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
