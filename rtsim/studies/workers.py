"""The workers of a study: processes on this machine, or the user's Dask cluster.

Dask starts the workers, sends runs to them, and detects when workers end. Dask also restarts
workers that have ended. Dask does not restart a worker that ends during its start. The class
:class:`LocalWorkers` replaces such a worker.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ctypes
import logging
import os
import queue
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

from rtsim.core.cache import cache_folder
from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.extras import extra
from rtsim.studies.campaign import Batch, Outcome
from rtsim.studies.measures import Row
from rtsim.studies.one_run import check_worker, run_batch
from rtsim.studies.plan import Ordered, orders_of_text, text_of_orders
from rtsim.timing.scheduling import usable_cpus

_START_S = 60.0
_JOIN_S = 20.0
_TLS = "DASK_DISTRIBUTED__COMM__TLS__"
_CERTIFICATES = (
    f"set {_TLS}CA_FILE, {_TLS}CLIENT__CERT and {_TLS}CLIENT__KEY to the files of the authority, "
    "of the client's certificate and of its key"
)


def distributed() -> Any:
    """Return the module ``distributed``; raise ``ScenarioError`` without the extra ``study``."""
    return extra("distributed", "study", "a study with workers (--workers 0 has none)")


@dataclass(frozen=True)
class Where:
    """Where the runs of a study are executed: on this machine or on a Dask cluster."""

    workers: int | None = None
    """Number of local processes. ``None`` means one per CPU that this process may use."""
    address: str = ""
    scheduler_file: str = ""

    @property
    def remote(self) -> bool:
        return bool(self.address or self.scheduler_file)

    @property
    def in_process(self) -> bool:
        return self.workers == 0 and not self.remote

    def check(self) -> None:
        if self.workers is not None and self.workers < 0:
            raise ScenarioError(f"workers is {self.workers}; give a whole number >= 0")

    def check_reachable(self) -> None:
        """Raise ``ScenarioError`` if the workers cannot be used.

        For example, Dask is missing, the cluster does not answer, or it has no workers.
        """
        self.check()
        if self.in_process:
            return
        distributed()
        if self.remote:
            with settings():
                joined(self).close()

    def check_limit(self, limit: float | None) -> None:
        """Raise ``ScenarioError`` if these workers cannot stop a run after ``limit`` s."""
        if limit is not None and self.in_process:
            raise ScenarioError(
                f"the limit of {limit:g} s needs worker processes, because a run in this process "
                "cannot be ended; give one worker or more (--workers 1), or leave out the limit"
            )


LOCAL = Where()


def dask_setup(worker: Any) -> None:  # noqa: ARG001
    """Make a worker ignore Ctrl-C, which a terminal sends to all its processes.

    Dask calls this function at the start of a worker.
    """
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_client()


_PR_SET_PDEATHSIG = 1


def _end_with_client() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def has_dashboard() -> bool:
    from importlib.util import find_spec

    return find_spec("bokeh") is not None


def settings() -> Any:
    """Return a context with Dask's settings for a study."""
    distributed()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    import dask

    return dask.config.set(
        {
            "distributed.scheduler.allowed-failures": 0,
            # Each entry of this log contains a whole message.
            "distributed.admin.low-level-log-length": 20,
            "distributed.admin.system-monitor.interval": "5s",
            # By default, the client's process wakes up 200 times per second, which takes 2 % of the
            # runs' processor time.
            "distributed.admin.tick.interval": "1s",
            "distributed.worker.memory.monitor-interval": "500ms",
            # If a worker ends, Dask would check after this time whether the worker has returned,
            # and end a worker that is restarting. LocalWorkers does this check instead.
            "distributed.deploy.lost-worker-timeout": "365 days",
            "distributed.worker.preload": [__name__],
            "distributed.worker.profile.enabled": False,
            "distributed.worker.memory.pause": False,  # A paused worker would never continue.
        }
    )


def joined(where: Where) -> Any:
    name = where.address or where.scheduler_file
    place = {"scheduler_file": name} if where.scheduler_file else {"address": name}
    _check_certificates(where.address)
    try:
        _check_open(where.address)
        client = distributed().Client(**place, timeout=_JOIN_S)
    # Dask raises TypeError if the address in the scheduler file uses TLS.
    except TypeError as error:
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


def _check_open(address: str) -> None:
    if not address:
        return
    addressing = distributed().comm.addressing
    kind, place = addressing.parse_address(addressing.normalize_address(address))
    if kind in ("tcp", "tls"):
        socket.create_connection(addressing.parse_host_port(place), _JOIN_S).close()


def _check_certificates(address: str) -> None:
    try:
        context = distributed().Security().get_connection_args("client").get("ssl_context")
    except OSError as error:
        raise ScenarioError(
            f"Dask cannot use the certificates of its configuration ({error}); {_CERTIFICATES}"
        ) from None
    if context is None and address.startswith("tls://"):
        raise ScenarioError(f"{address} needs certificates; {_CERTIFICATES}")


def count_of(where: Where) -> int:
    return where.workers or len(usable_cpus())


def started(where: Where, stack: ExitStack) -> Any:
    module = distributed()
    count = count_of(where)
    cluster = module.LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        worker_dashboard_address=None, local_directory=_folder(), silence_logs=50,
    )  # fmt: skip
    stack.callback(cluster.close)
    client = module.Client(cluster, timeout=_START_S)
    client.wait_for_workers(count, timeout=_START_S)
    return client


def _folder() -> str | None:
    folder = cache_folder() / "workers"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder)


_PATIENCE_NS = 5_000_000_000


class LocalWorkers:
    """Keep the number of workers of a local Dask cluster at ``count``."""

    def __init__(self, cluster: Any, count: int) -> None:
        self._cluster, self._count = cluster, count
        self._scaled = stopwatch()
        self._since: dict[Any, int] = {}

    def replace_lost(self) -> None:
        """Replace workers that have no process. Call this method about once per second."""
        now = stopwatch()
        nannies = list(self._cluster.workers.values())
        missing = [nanny for nanny in nannies if not nanny.is_alive()]
        self._since = {nanny: self._since.get(nanny, now) for nanny in missing}
        lost = {one for one, since in self._since.items() if now - since > _PATIENCE_NS}
        few = len(nannies) < self._count and now - self._scaled > _PATIENCE_NS
        if lost or few:
            self._scaled = now
            self._since = {one: since for one, since in self._since.items() if one not in lost}
            self._cluster.loop.add_callback(self._replace, lost)

    async def _replace(self, lost: set[Any]) -> None:
        for name, nanny in list(self._cluster.workers.items()):
            if nanny in lost and not nanny.is_alive():
                del self._cluster.workers[name]
        self._cluster.scale(self._count)
        for nanny in (one for one in lost if not one.is_alive()):
            # A nanny without a process may raise any error when it is closed.
            with suppress(Exception):
                await asyncio.wait_for(nanny.close(), _PATIENCE_NS * 1e-9)


_TOPIC = "rtsim-study"
_FLUSHED_S = 0.05
"""Time that a worker needs to send its report. Afterwards, a run may block the worker."""
_WAIT_S = 1.0
_FETCH_S = 20.0
_EMPTY_S = 60.0
_EACH = 2


LOST_TEXT = (
    "the connection to Dask's scheduler is lost; start a scheduler, then continue with rtsim study "
    "resume FOLDER"
)
NO_WORKER_TEXT = (
    f"the cluster has had no worker for {_EMPTY_S:g} s; start workers with a nanny (Dask's default)"
    ", which starts them again after a crash, and continue with rtsim study resume FOLDER"
)


class ClusterLost(RtsimError):
    """The connection to Dask's scheduler is lost, or the cluster has no workers."""


def _in_worker(job_text: str, orders: str, alone: bool, key: str) -> tuple[str, list[Row]]:
    worker = distributed().get_worker()

    def began() -> None:
        worker.log_event(_TOPIC, {"key": key})
        if alone:
            flushed = threading.Event()
            worker.loop.add_callback(worker.loop.call_later, _FLUSHED_S, flushed.set)
            flushed.wait(10 * _FLUSHED_S)

    return str(worker.address), run_batch(job_text, orders_of_text(orders), began)


class DaskPool:
    """Execute batches of runs on the workers of a Dask cluster."""

    def __init__(self, job_text: str, where: Where) -> None:
        """Start or join the cluster; raise ``ScenarioError`` on failure."""
        self._job_text, self._where = job_text, where
        self._ended: queue.SimpleQueue[tuple[Any, Batch, str]] = queue.SimpleQueue()
        self._futures: dict[str, Any] = {}
        self._began: dict[str, int] = {}
        self._number = 0
        self._present = stopwatch()
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
        while True:
            try:
                return str(task.result(timeout=_WAIT_S))
            except Exception as error:
                # The task may have finished just after the timeout.
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
            _in_worker, self._job_text, text_of_orders(batch.orders), batch.alone, key,
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
        if self._client.status != "running":
            raise ClusterLost(LOST_TEXT)
        now = stopwatch()
        if self.addresses:
            self._present = now
        elif now - self._present > _EMPTY_S * 1e9:
            raise ClusterLost(NO_WORKER_TEXT)

    def _outcome(self, future: Any, batch: Batch, key: str) -> Outcome | None:
        try:
            if future.status == "finished":
                address, rows = future.result(timeout=_FETCH_S)
                self._forget(future, key)
                return Outcome(batch, rows, worker=address)
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
