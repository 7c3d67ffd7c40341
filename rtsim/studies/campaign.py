"""Run a study: send batches of runs to workers, and store the results.

A search runs one generation of candidates after another. With equal margins, differential evolution
chooses the same candidates again. A resumed search therefore begins again with the first
generation. Runs with a stored result are not repeated.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.tag import to_ns
from rtsim.studies.designs import Search
from rtsim.studies.designs.search import TIME, Candidate
from rtsim.studies.designs.search import Ended as SearchEnded
from rtsim.studies.folder import Ended, Folder, StudyError
from rtsim.studies.interim_analysis import needed
from rtsim.studies.measures import ERROR, LOST, TIMEOUT, Row
from rtsim.studies.one_run import check_worker, run_batch
from rtsim.studies.plan import Ordered, Orders, seed_of_draw
from rtsim.studies.progress import Tally


@dataclass(frozen=True)
class Batch:
    orders: Sequence[Ordered]
    alone: bool = False
    """True if the batch is a single run that may crash its process."""
    avoid: str = ""
    """Address of a worker that executes the batch only if there is no other worker."""
    tries: int = 0


@dataclass(frozen=True)
class Outcome:
    """Result of a finished batch."""

    batch: Batch
    rows: Sequence[Row] = field(default_factory=tuple)
    died: str = ""
    began: bool = True
    """False if the process ended before the first run of the batch began."""
    ran_s: float = 0.0
    """Wall-clock time from the start of the first run to the end of its process, s."""
    worker: str = ""


class Pool(Protocol):
    """Interface of workers that execute batches of runs."""

    @property
    def workers(self) -> int:
        """Current number of workers."""

    @property
    def capacity(self) -> int:
        """Number of batches to submit at the same time."""

    @property
    def about(self) -> str:
        """Address of a web page about the workers; may be empty."""

    def check(self, order: Ordered) -> None:
        """Raise ``ScenarioError`` if a worker cannot execute the run ``order``."""

    def submit(self, batch: Batch) -> None:
        """Begin to execute ``batch``."""

    def finished(self) -> list[Outcome]:
        """Wait until a batch is finished, and return all finished batches.

        After about 1 s without a finished batch, the list is empty.
        """

    def close(self) -> None:
        """End all workers that the pool started."""


class InProcess:
    """Execute batches one after another in this process, for example in a debugger.

    A run that ends its process therefore ends the study. Time limits have no effect.
    """

    workers = 1
    capacity = 1
    about = ""

    def __init__(self, job_text: str) -> None:
        self._job_text = job_text
        self._waiting: deque[Batch] = deque()

    def check(self, order: Ordered) -> None:
        if problem := check_worker(self._job_text, order):
            raise ScenarioError(problem)

    def submit(self, batch: Batch) -> None:
        self._waiting.append(batch)

    def finished(self) -> list[Outcome]:
        batch = self._waiting.popleft()
        return [Outcome(batch, run_batch(self._job_text, batch.orders, limited=False))]

    def close(self) -> None:
        self._waiting.clear()


_BATCH_S = 0.5
_GROWTH = 4
_MOST = 1000
_TRIES = 12
"""Number of times that a batch is submitted again if its worker ends before the batch begins.
Usually, an earlier batch crashed that worker. A batch behind several crashing runs needs several
attempts.
"""


class Ordering(Protocol):
    def __getitem__(self, run: int, /) -> Ordered:
        """Return run number ``run``."""


@dataclass
class _Suspect:
    order: Ordered
    attempts: int = 0
    avoid: str = ""
    cause: str = ""


@dataclass
class Campaign:
    """Execute all runs of a study without a stored result."""

    folder: Folder
    pool: Pool
    tally: Tally
    show: Callable[[Tally], object] = lambda _: None
    stored: Callable[[Row], object] = lambda _: None
    shuffled: Callable[[Iterable[int]], Iterable[int]] = iter
    """Function that changes the order of the runs. The order does not affect the results."""

    clock: Callable[[], int] = stopwatch
    """Function that returns the wall-clock time, ns."""

    _deadline: int | None = None
    _suspects: deque[_Suspect] = field(default_factory=deque)
    _attempts: dict[int, _Suspect] = field(default_factory=dict)
    _again: deque[Batch] = field(default_factory=deque)
    _size: int = 1
    _in_flight: int = 0
    _alone: bool = False
    """True while a run that may crash its process is executed without any other run."""
    _begun: bool = False
    _target: int = 0

    def run(self) -> None:
        """Execute the missing runs, and store all finished runs even after an error.

        Raises :class:`RtsimError` if the study cannot continue.
        """
        orders = Orders(self.folder.plan)
        while True:
            self.tally.runs = needed(self.folder)
            left = self.folder.left(self.tally.runs)
            if not len(left):
                return
            try:
                self.execute(left, orders)
            finally:
                self.folder.write()

    def execute(self, runs: Sequence[int] | NDArray[np.int64], orders: Ordering) -> None:
        """Execute the given runs, and store their results."""
        self._target = self.tally.rows + len(runs)
        todo = (orders[int(k)] for k in self.shuffled(runs))
        try:
            if not self._begun:
                self._begun = True
                first = next(todo)
                self.pool.check(first)
                # The first run is executed alone, so that only one worker compiles the models.
                self._submit(Batch([first]))
                while self._in_flight:
                    self._wait()
                    self.show(self.tally)
                self._check_first()
            self._all(todo)
        finally:
            self.show(self.tally)

    def _check_first(self) -> None:
        first = self._suspects[0] if self._suspects else None
        if first is None or self.tally.rows or not all("." in one for one in first.order.factors):
            return
        if first.cause.startswith(f"{UnknownName.__name__}: "):
            raise ScenarioError(first.cause.partition(": ")[2])

    def _all(self, todo: Iterator[Ordered]) -> None:
        capacity = self.pool.capacity
        while True:
            while self._in_flight < capacity and not self._alone:
                if self._suspects and self._in_flight:
                    # If this run crashes its worker, the results of other runs on the worker would
                    # be lost.
                    break
                batch = self._next(todo)
                if batch is None:
                    break
                self._submit(batch)
                self._alone = batch.alone
            if not self._in_flight:
                return
            self._wait()
            capacity = self.pool.capacity
            self.folder.write_if_due()
            self.show(self.tally)

    def _wait(self) -> None:
        for outcome in self.pool.finished():
            self._in_flight -= 1
            self._alone = False
            self._take(outcome)

    def until(self, seconds: float | None) -> None:
        """Start no runs later than ``seconds`` s from now."""
        self._deadline = None if seconds is None else self.clock() + to_ns(seconds)

    def _expired(self) -> bool:
        return self._deadline is not None and self.clock() >= self._deadline

    def _next(self, todo: Iterator[Ordered]) -> Batch | None:
        if self._expired():
            return None
        if self._suspects:
            suspect = self._suspects.popleft()
            self._attempts[suspect.order.run] = suspect
            return Batch([suspect.order], alone=True, avoid=suspect.avoid)
        if self._again:
            return self._again.popleft()
        left = self._target - self.tally.rows
        share = max(1, left // (2 * self.pool.capacity))
        orders = list(islice(todo, min(self._size, share)))
        return Batch(orders) if orders else None

    def _submit(self, batch: Batch) -> None:
        self._in_flight += 1
        self.pool.submit(batch)

    def _take(self, outcome: Outcome) -> None:
        if outcome.died:
            self._take_death(outcome)
            return
        for row in outcome.rows:
            suspect = self._attempts.pop(row.order.run, None)
            attempts = 1 if suspect is None else suspect.attempts + 1
            if row.state == ERROR and attempts == 1:
                self._suspects.append(_Suspect(row.order, 1, outcome.worker, row.cause))
            else:
                self._store(row if attempts == 1 else row._replace(attempts=attempts))
        cost = sum(row.wall_s for row in outcome.rows) / max(1, len(outcome.rows))
        fitting = int(_BATCH_S / cost) if cost > 0.0 else _MOST
        self._size = max(1, min(fitting, _GROWTH * self._size, _MOST))

    def _take_death(self, outcome: Outcome) -> None:
        batch = outcome.batch
        if not outcome.began and batch.tries < _TRIES:
            self._again.append(replace(batch, tries=batch.tries + 1))
            return
        # Any run of the batch may be the cause, so each run is executed alone.
        if not batch.alone:
            self._suspects.extend(_Suspect(order, 0, outcome.worker) for order in batch.orders)
            return
        (order,) = batch.orders
        suspect = self._attempts.pop(order.run, _Suspect(order))
        attempts = suspect.attempts + 1
        if attempts < 2:
            self._suspects.append(_Suspect(order, attempts, outcome.worker))
            return
        limit = self.folder.plan.job.limit
        if limit is not None and outcome.ran_s >= limit:
            row = Row(order, TIMEOUT, f"the run took longer than its limit of {limit:g} s")
        else:
            row = Row(order, LOST, f"{outcome.died} during the run")
        self._store(row._replace(attempts=attempts, wall_s=outcome.ran_s))

    def _store(self, row: Row) -> None:
        self.folder.add(row)
        self.tally.add(row)
        self.stored(row)


# The loop of a search. The rows of a generation determine the next generation.


class Searching:
    """Execute the search of a study to its end."""

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._plan, self._folder = campaign.folder.plan, campaign.folder
        design = self._plan.sampled
        assert isinstance(design, Search)
        self._design = design
        self._seed = seed_of_draw(self._plan.seed, 0)
        self._column = self._plan.lowered(design.requirement)
        self._runs = 0
        self._rows: dict[int, Mapping[str, Any]] = {}

    def run(self) -> None:
        """Execute the search, and store the results and the reason for the end.

        Raises :class:`RtsimError` if the search cannot continue.
        """
        names = ("run", *self._plan.space.names, self._column)
        self._rows = {row["run"]: row for row in self._folder.table(*names).to_pylist()}
        self._campaign.stored = self._take
        try:
            self._campaign.until(self._design.seconds)
            why = self._design.minimise(self._plan.space, self._margins)
        finally:
            self._folder.write()
        runs = self._campaign.tally.rows if why == TIME else self._runs
        self._campaign.tally.runs = runs
        self._folder.end(Ended(runs, why))

    def _take(self, row: Row) -> None:
        self._rows[row.order.run] = row.columns()

    def _margins(self, generation: int, candidates: list[Candidate]) -> list[float]:
        first, self._runs = self._runs, self._runs + len(candidates)
        orders = {
            run: Ordered(run, self._seed, candidate, {"generation": generation})
            for run, candidate in enumerate(candidates, first)
        }
        for run, order in orders.items():
            self._check_equal(run, order)
        if missing := [run for run in orders if run not in self._rows]:
            self._campaign.execute(missing, orders)
        if any(run not in self._rows for run in orders):
            raise SearchEnded(TIME)
        margins = (self._rows[run].get(self._column) for run in orders)
        return [math.nan if margin is None else margin for margin in margins]

    def _check_equal(self, run: int, order: Ordered) -> None:
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
