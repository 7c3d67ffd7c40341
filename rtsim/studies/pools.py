"""Where batches of runs are executed: the interface, and this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rtsim.core.errors import ScenarioError
from rtsim.studies.batch import check_worker, run_batch
from rtsim.studies.plan import Ordered
from rtsim.studies.rows import Row


@dataclass(frozen=True)
class Batch:
    """Runs that are executed together."""

    orders: Sequence[Ordered]
    alone: bool = False
    """True for a single run that is suspected to end its process."""
    avoid: str = ""
    """A worker that must not execute the batch, if there is another worker."""
    tries: int = 0
    """How often the batch was submitted before."""


@dataclass(frozen=True)
class Outcome:
    """A batch that has ended."""

    batch: Batch
    rows: Sequence[Row] = field(default_factory=tuple)
    died: str = ""
    """Why the process of the batch ended before the batch was complete."""
    began: bool = True
    """False if the process ended before the first run of the batch began."""
    ran_s: float = 0.0
    """If the process ended: wall-clock time since the first run began, s."""
    worker: str = ""


class Pool(Protocol):
    """Executes batches; used as a context."""

    @property
    def workers(self) -> int:
        """The present number of workers."""

    @property
    def capacity(self) -> int:
        """The number of batches that should be submitted at one time."""

    @property
    def about(self) -> str:
        """Where the pool can be watched, such as the address of a dashboard; may be empty."""

    def check(self, order: Ordered) -> None:
        """Raise :class:`ScenarioError` if a worker cannot run the scenario with ``order``."""

    def submit(self, batch: Batch) -> None:
        """Begin to execute ``batch``."""

    def finished(self) -> list[Outcome]:
        """Wait until at least one batch has ended, and return all that have ended.

        After about 1 s the result may be empty.
        """

    def close(self) -> None:
        """End all workers that the pool has started."""


class InProcess:
    """Executes batches in this process, one after the other, for example under a debugger.

    A run that ends its process ends the study, and no run is ended after a time limit.
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
