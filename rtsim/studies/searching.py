"""The loop of a search: each generation is run by the campaign, and its rows decide the next.

Differential evolution gives the same candidates if it is given the same margins.  A search is
therefore continued by a replay from its first generation, in which the stored rows take the place
of runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rtsim.studies.campaign import Campaign
from rtsim.studies.designs import Search
from rtsim.studies.designs.search import Candidate
from rtsim.studies.folder import Ended, StudyError
from rtsim.studies.plan import Ordered, seed_of_draw
from rtsim.studies.rows import Row


class Searching:
    """Runs the search of a campaign's folder to its end."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._plan, self._folder = campaign.folder.plan, campaign.folder
        design = self._plan.sampled
        assert isinstance(design, Search)
        self._design = design
        self._seed = seed_of_draw(self._plan.seed, 0)
        self._runs = 0
        self._rows: dict[int, Mapping[str, Any]] = {}

    def run(self) -> None:
        """Search until the end, and store it; what was computed is stored in any case.

        Raises :class:`RtsimError` if the search cannot continue, and :class:`KeyboardInterrupt`.
        """
        names = ("run", *self._plan.space.names, self._design.margin)
        self._rows = {row["run"]: row for row in self._folder.table(*names).to_pylist()}
        self._campaign.stored = self._take
        try:
            why = self._design.minimise(self._plan.space, self._margins)
        finally:
            self._folder.write()
        self._campaign.tally.runs = self._runs
        self._folder.end(Ended(self._runs, why))

    def _take(self, row: Row) -> None:
        self._rows[row.order.run] = row.columns()

    def _margins(self, generation: int, candidates: list[Candidate]) -> list[float]:
        """Return the margins of new candidates, which become the next runs of the study."""
        first, self._runs = self._runs, self._runs + len(candidates)
        orders = {
            run: Ordered(run, self._seed, candidate, {"generation": generation})
            for run, candidate in enumerate(candidates, first)
        }
        for run, order in orders.items():
            self._check_equal(run, order)
        if missing := [run for run in orders if run not in self._rows]:
            self._campaign.execute(missing, orders)
        margins = (self._rows[run].get(self._design.margin) for run in orders)
        return [math.nan if margin is None else margin for margin in margins]

    def _check_equal(self, run: int, order: Ordered) -> None:
        """Raise :class:`StudyError` if the row of a run was made with other factors."""
        row = self._rows.get(run)
        if row is None:
            return
        for name, value in order.factors.items():
            if row[name] != value:
                raise StudyError(
                    f"the search cannot continue: run {run} has {name} = {row[name]!r}, but the "
                    f"installed versions of SciPy and NumPy give {value!r}; install the versions "
                    "with which the search began, or start a new search"
                )
