"""Workers of Dask: a local cluster of processes, or a cluster that the user has started.

Only this module imports :mod:`distributed`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.studies.batch import check_worker, run_batch
from rtsim.studies.nannies import Nannies
from rtsim.studies.plan import Ordered
from rtsim.studies.pools import Batch, Outcome
from rtsim.studies.scratch import scratch
from rtsim.studies.wire import Sent, orders_of_text, received, sent, text_of_orders
from rtsim.timing.machine import usable_cpus

_TOPIC = "rtsim-study"
_FLUSHED_S = 0.05
"""Time in which a worker sends what it has reported, before a run may block it for ever."""
_WAIT_S = 1.0
_FETCH_S = 20.0
_START_S = 60.0
_JOIN_S = 20.0
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
_TLS = "DASK_DISTRIBUTED__COMM__TLS__"
_CERTIFICATES = (
    f"set {_TLS}CA_FILE, {_TLS}CLIENT__CERT and {_TLS}CLIENT__KEY to the files of the authority, "
    "of the client's certificate and of its key"
)


class ClusterLost(RtsimError):
    """The connection to Dask's scheduler is lost, or the cluster has lost all its workers."""


def distributed() -> Any:
    """Return the module; raises :class:`ScenarioError` if the extra ``study`` is not installed."""
    try:
        import distributed as module
    except ImportError as error:
        raise ScenarioError(
            f"studies with workers need Dask, which cannot be imported ({error}); type "
            "pip install 'rtsim[study]', or add --workers 0"
        ) from None
    return module


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


@dataclass(frozen=True)
class Where:
    """The workers that a study uses: processes of this machine, or a cluster of the user."""

    workers: int | None = None
    """Number of local processes; ``None``: one for each CPU that this process may use."""
    address: str = ""
    """Address of a scheduler, such as ``tcp://10.0.0.1:8786``."""
    scheduler_file: str = ""
    """File that a scheduler wrote with its address."""

    @property
    def remote(self) -> bool:
        return bool(self.address or self.scheduler_file)

    @property
    def in_process(self) -> bool:
        return self.workers == 0 and not self.remote

    def check(self) -> None:
        """Raise :class:`ScenarioError` if the number of workers is negative."""
        if self.workers is not None and self.workers < 0:
            raise ScenarioError(f"workers is {self.workers}; give a whole number >= 0")

    def check_limit(self, limit: float | None) -> None:
        """Raise :class:`ScenarioError` if these workers cannot end a run after ``limit`` s."""
        if limit is not None and self.in_process:
            raise ScenarioError(
                f"the limit of {limit:g} s needs worker processes, because a run in this process "
                "cannot be ended; give one worker or more (--workers 1), or leave out the limit"
            )


LOCAL = Where()
"""One process for each CPU of this machine."""


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
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self._nannies: Nannies | None = None
        with ExitStack() as stack:
            stack.enter_context(_settings())
            self._client = _joined(where, stack) if where.remote else _started(where, stack)
            if not where.remote:
                self._nannies = Nannies(self._client.cluster, _count(where))
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
        return link if link.startswith("http") and _dashboard() else ""

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
                if task.status != "pending":
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
        if self._nannies is not None:
            self._nannies.look()
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


def dask_setup(worker: Any) -> None:  # noqa: ARG001
    """Let a worker ignore Ctrl-C, which a terminal sends to all processes; Dask calls this."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_client()


_PR_SET_PDEATHSIG = 1


def _end_with_client() -> None:
    """Let Linux end this worker when the study's process is gone.

    Dask ends it too, by a thread of Python; compiled code that never returns keeps that thread
    waiting.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _dashboard() -> bool:
    """Return whether the package that Dask's dashboard needs is installed."""
    from importlib.util import find_spec

    return find_spec("bokeh") is not None


def _settings() -> Any:
    """Return a context with Dask's settings for a study."""
    distributed()
    import dask

    return dask.config.set(
        {
            "distributed.scheduler.allowed-failures": 0,
            "distributed.admin.low-level-log-length": 20,  # it keeps whole messages
            "distributed.admin.system-monitor.interval": "5s",
            # by default the client's process wakes 200 times a second, and takes 2 % from the runs
            "distributed.admin.tick.interval": "1s",
            "distributed.worker.memory.monitor-interval": "500ms",
            # Dask would look this long after each death whether the worker is there, and end it if
            # it just starts again; rtsim.studies.nannies looks itself
            "distributed.deploy.lost-worker-timeout": "365 days",
            "distributed.worker.preload": [__name__],
            "distributed.worker.profile.enabled": False,
            "distributed.worker.memory.pause": False,  # a paused worker would never go on
        }
    )


def _joined(where: Where, stack: ExitStack) -> Any:  # noqa: ARG001
    """Return a client of a cluster that the user has started."""
    name = where.address or where.scheduler_file
    place = {"scheduler_file": name} if where.scheduler_file else {"address": name}
    _check_certificates(where.address)
    try:
        client = distributed().Client(**place, timeout=_JOIN_S)
    except TypeError as error:  # Dask's word for an address of TLS in the scheduler file
        if "ssl_context" not in str(error):
            raise
        raise ScenarioError(f"the Dask scheduler of {name} uses TLS; {_CERTIFICATES}") from None
    except (OSError, ValueError) as error:
        raise ScenarioError(
            f"no Dask scheduler answers at {name} ({error}); start one with 'dask scheduler', and "
            "give the address that it prints: tls://... if it uses TLS"
        ) from None
    if not client.scheduler_info(n_workers=-1)["workers"]:
        client.close()
        raise ScenarioError(
            f"the Dask scheduler at {name} has no workers; start some with 'dask worker ADDRESS'"
        )
    return client


def _check_certificates(address: str) -> None:
    """Raise :class:`ScenarioError` if Dask has no certificates for the address, or unusable ones.

    Dask itself reads them, from its environment variables and its configuration files.
    """
    try:
        context = distributed().Security().get_connection_args("client").get("ssl_context")
    except OSError as error:  # also that of ssl
        raise ScenarioError(
            f"Dask cannot use the certificates of its configuration ({error}); {_CERTIFICATES}"
        ) from None
    if context is None and address.startswith("tls://"):
        raise ScenarioError(f"{address} needs certificates; {_CERTIFICATES}")


def _count(where: Where) -> int:
    """Return the number of local workers."""
    return where.workers or len(usable_cpus())


def _started(where: Where, stack: ExitStack) -> Any:
    """Return a client of a new cluster of processes that listens on the loopback interface."""
    module = distributed()
    count = _count(where)
    folder = stack.enter_context(scratch())
    cluster = module.LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address=None, local_directory=str(folder), silence_logs=50,
    )  # fmt: skip
    stack.callback(cluster.close)
    client = module.Client(cluster, timeout=_START_S)
    client.wait_for_workers(count, timeout=_START_S)
    return client
