"""Batches of runs on workers of Dask: what is sent, what comes back, and what is lost.

Dask keeps its latest messages, so the orders of a batch travel as one short text.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.studies.campaign import Batch, Outcome
from rtsim.studies.measures import Row
from rtsim.studies.one_run import check_worker, run_batch
from rtsim.studies.plan import Ordered
from rtsim.studies.workers import (
    LocalWorkers,
    Where,
    count_of,
    distributed,
    has_dashboard,
    joined,
    settings,
    started,
)

# Orders and rows as they travel.

Sent = tuple[object, ...]
"""A row as a worker sends it: its fields without the order, which the receiver knows."""


def text_of_orders(orders: Sequence[Ordered]) -> str:
    """Return the orders of a batch as JSON text; all of them have the same factors."""
    first = orders[0]
    return json.dumps(
        {
            "run": [order.run for order in orders],
            "seed": [order.seed for order in orders],
            "factors": {n: [order.factors[n] for order in orders] for n in first.factors},
            "marks": {n: [order.marks[n] for order in orders] for n in first.marks},
        },
        separators=(",", ":"),
    )


def orders_of_text(text: str) -> list[Ordered]:
    """Return the orders that :func:`text_of_orders` wrote."""
    data = json.loads(text)
    factors, marks = data["factors"], data["marks"]
    return [
        Ordered(
            run, seed, {n: column[k] for n, column in factors.items()},
            {n: column[k] for n, column in marks.items()},
        )
        for k, (run, seed) in enumerate(zip(data["run"], data["seed"], strict=True))
    ]  # fmt: skip


def sent(rows: Iterable[Row]) -> list[Sent]:
    """Return ``rows`` as a worker sends them."""
    return [
        (*row[1:5], dict(row.values), *row[6:9], dict(row.histories), *row[10:]) for row in rows
    ]


def received(orders: Sequence[Ordered], rows: Sequence[Any]) -> list[Row]:
    """Return the rows that :func:`sent` made, with their orders."""
    return [Row(order, *row) for order, row in zip(orders, rows, strict=True)]


_TOPIC = "rtsim-study"
_FLUSHED_S = 0.05
"""Time in which a worker sends what it has reported, before a run may block it for ever."""
_WAIT_S = 1.0
_FETCH_S = 20.0
_EMPTY_S = 60.0
"""Longest time for which a study waits while the cluster has no worker."""
_EACH = 2
"""Batches for each worker: one that runs, and one that waits."""


LOST_TEXT = (
    "the connection to Dask's scheduler is lost; start a scheduler, then continue with rtsim study "
    "resume FOLDER"
)
NO_WORKER_TEXT = (
    f"the cluster has had no worker for {_EMPTY_S:g} s; start workers with a nanny (Dask's default)"
    ", which starts them again after a crash, and continue with rtsim study resume FOLDER"
)


class ClusterLost(RtsimError):
    """The connection to Dask's scheduler is lost, or the cluster has lost all its workers."""


def _in_worker(job_text: str, orders: str, key: str, alone: bool) -> tuple[str, list[Sent]]:
    """Run a batch in a worker of Dask, and report when its first run begins.

    Returns the worker's address and the rows.
    """
    worker = distributed().get_worker()

    def began() -> None:
        worker.log_event(_TOPIC, {"key": key})
        if alone:
            flushed = threading.Event()
            worker.loop.add_callback(worker.loop.call_later, _FLUSHED_S, flushed.set)
            flushed.wait(10 * _FLUSHED_S)

    return str(worker.address), sent(run_batch(job_text, orders_of_text(orders), began))


class DaskPool:
    """Executes batches on the workers of a Dask cluster."""

    def __init__(self, job_text: str, where: Where) -> None:
        """Start or join the cluster; raises :class:`ScenarioError` if that fails."""
        self._job_text, self._where = job_text, where
        self._ended: queue.SimpleQueue[tuple[Any, Batch, str]] = queue.SimpleQueue()
        self._futures: dict[str, Any] = {}
        self._began: dict[str, int] = {}
        self._number = 0
        self._present = stopwatch()
        """When the cluster last had a worker, as far as is known."""
        self._local: LocalWorkers | None = None
        with ExitStack() as stack:
            stack.enter_context(settings())
            self._client = joined(where) if where.remote else started(where, stack)
            if not where.remote:
                self._local = LocalWorkers(self._client.cluster, count_of(where))
            stack.callback(self._client.close)
            self._client.subscribe_topic(_TOPIC, self._heard)
            self._stack = stack.pop_all()

    def _heard(self, event: tuple[object, Any]) -> None:
        with suppress(TypeError, KeyError, IndexError):
            self._began[event[1]["key"]] = stopwatch()

    @property
    def addresses(self) -> list[str]:
        """The addresses of the present workers."""
        return list(self._client.scheduler_info(n_workers=-1)["workers"])

    @property
    def workers(self) -> int:
        return max(1, len(self.addresses))

    @property
    def capacity(self) -> int:
        return _EACH * self.workers

    @property
    def about(self) -> str:
        link = str(getattr(self._client, "dashboard_link", "") or "")
        return link if link.startswith("http") and has_dashboard() else ""

    def check(self, order: Ordered) -> None:
        tasks = {
            address: self._client.submit(
                check_worker, self._job_text, order, workers=[address], pure=False
            )
            for address in self.addresses
        }
        for address, task in tasks.items():
            if problem := self._answer(address, task):
                raise ScenarioError(f"the worker {address} cannot run the scenario: {problem}")

    def _answer(self, address: str, task: Any) -> str:
        """Wait for the check of one worker; Dask itself would wait for ever for one that left."""
        while True:
            try:
                return str(task.result(timeout=_WAIT_S))
            except Exception as error:
                # it can have finished just after the time was over
                late = isinstance(error, TimeoutError) and task.status == "finished"
                if task.status != "pending" and not late:
                    return f"{type(error).__name__}: {error}"
            self._check_present()
            if address not in self.addresses:
                return "it has left the cluster; start the study again"

    def submit(self, batch: Batch) -> None:
        self._number += 1
        key = f"rtsim-study-{os.getpid()}-{id(self)}-{self._number}"
        others = [one for one in self.addresses if one != batch.avoid] if batch.avoid else []
        future = self._client.submit(
            _in_worker, self._job_text, text_of_orders(batch.orders), key, batch.alone,
            key=key, pure=False, retries=0,
            workers=others or None, allow_other_workers=True if others else None,
            priority=1 if batch.alone else 0,
        )  # fmt: skip
        self._futures[key] = future
        future.add_done_callback(self._done(batch, key))

    def _done(self, batch: Batch, key: str) -> Callable[[Any], None]:
        return lambda future: self._ended.put((future, batch, key))

    def finished(self) -> list[Outcome]:
        out = []
        if self._local is not None:
            self._local.replace_lost()
        try:
            out.append(self._outcome(*self._ended.get(timeout=_WAIT_S)))
            self._present = stopwatch()
        except queue.Empty:
            self._check_present()
        while not self._ended.empty():
            out.append(self._outcome(*self._ended.get()))
        return [one for one in out if one is not None]

    def _check_present(self) -> None:
        """Raise :class:`ClusterLost` if the scheduler is gone, or for long all workers."""
        if self._client.status != "running":
            raise ClusterLost(LOST_TEXT)
        now = stopwatch()
        if self.addresses:
            self._present = now
        elif now - self._present > _EMPTY_S * 1e9:
            raise ClusterLost(NO_WORKER_TEXT)

    def _outcome(self, future: Any, batch: Batch, key: str) -> Outcome | None:
        """Return what became of a batch, or ``None`` if Dask runs the batch again.

        Dask does so if the worker ended after the batch, but before its rows were fetched.
        """
        try:
            if future.status == "finished":
                address, rows = future.result(timeout=_FETCH_S)
                self._forget(future, key)
                return Outcome(batch, received(batch.orders, rows), worker=address)
            if future.status == "cancelled":
                raise ClusterLost(LOST_TEXT)
            error = future.exception(timeout=0) if future.status == "error" else None
        except TimeoutError:
            error = None
        except (asyncio.CancelledError, concurrent.futures.CancelledError):
            raise ClusterLost(LOST_TEXT) from None
        if error is None:
            future.add_done_callback(self._done(batch, key))
            return None
        began = self._began.get(key)
        self._forget(future, key)
        if isinstance(error, distributed().KilledWorker):
            last = getattr(error.last_worker, "address", "")
            ran = 0.0 if began is None else (stopwatch() - began) * 1e-9
            return Outcome(batch, (), "its process ended", began is not None, ran, str(last))
        if isinstance(error, RtsimError):
            raise error
        raise ScenarioError(f"a worker failed: {type(error).__name__}: {error}")

    def _forget(self, future: Any, key: str) -> None:
        self._began.pop(key, None)
        self._futures.pop(key, None)
        future.release()

    def close(self) -> None:
        self._stack.close()
