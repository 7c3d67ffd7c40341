"""The workers of a study: processes of this machine, or a Dask cluster that the user has started.

Only this module imports :mod:`distributed`.  Two things that Dask leaves open for local workers are
done here.  A nanny of Dask starts a worker again whose process has ended, but not if the process
ends while it starts: such a worker would be missing until the end of the study.  And the workers'
temporary folder is removed even after a kill of its owner.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.timing.scheduling import usable_cpus

# The temporary folder of the local workers.

PREFIX = "rtsim-workers-of-a-study-"
MARK = ".remove-when-unlocked"
"""File that only this module writes: a folder without it is not removed."""


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a new folder and remove it afterwards; also remove those of processes that were killed.

    The owner holds a lock on its folder, which the system releases when the process ends.
    """
    _remove_left_ones()
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    held = _locked(path)
    try:
        (path / MARK).touch()  # after the lock, so that no other process removes the folder
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        _release(held)


def _remove_left_ones() -> None:
    """Remove the folders whose owners have ended; on Windows they stay."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        held = _locked(path) if _is_ours(path) else None
        if held is not None:
            shutil.rmtree(path, ignore_errors=True)
            _release(held)


def _is_ours(path: Path) -> bool:
    """Return whether :func:`scratch` made the folder for this user."""
    if sys.platform == "win32":
        return False
    try:
        mark = (path / MARK).lstat()
    except OSError:
        return False
    return mark.st_uid == path.lstat().st_uid == os.geteuid() and not path.is_symlink()


def _locked(path: Path) -> int | None:
    """Return a file descriptor that locks ``path``; ``None`` if that is not possible."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        held = os.open(path, os.O_RDONLY)
    except OSError:
        return None  # another user's, or gone
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _release(held: int | None) -> None:
    if held is not None:
        os.close(held)


_START_S = 60.0
_JOIN_S = 20.0
_TLS = "DASK_DISTRIBUTED__COMM__TLS__"
_CERTIFICATES = (
    f"set {_TLS}CA_FILE, {_TLS}CLIENT__CERT and {_TLS}CLIENT__KEY to the files of the authority, "
    "of the client's certificate and of its key"
)


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

    def check_reachable(self) -> None:
        """Raise :class:`ScenarioError` if these workers cannot be used.

        Dask may be missing, the scheduler of a cluster may not answer, or it may have no workers.
        """
        self.check()
        if self.in_process:
            return
        distributed()
        if self.remote:
            with settings():
                joined(self).close()

    def check_limit(self, limit: float | None) -> None:
        """Raise :class:`ScenarioError` if these workers cannot end a run after ``limit`` s."""
        if limit is not None and self.in_process:
            raise ScenarioError(
                f"the limit of {limit:g} s needs worker processes, because a run in this process "
                "cannot be ended; give one worker or more (--workers 1), or leave out the limit"
            )


LOCAL = Where()
"""One process for each CPU of this machine."""


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


def has_dashboard() -> bool:
    """Return whether the package that Dask's dashboard needs is installed."""
    from importlib.util import find_spec

    return find_spec("bokeh") is not None


def settings() -> Any:
    """Return a context with Dask's settings for a study; Dask's log is quiet from now on."""
    distributed()
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
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
            # it just starts again; LocalWorkers does that
            "distributed.deploy.lost-worker-timeout": "365 days",
            "distributed.worker.preload": [__name__],
            "distributed.worker.profile.enabled": False,
            "distributed.worker.memory.pause": False,  # a paused worker would never go on
        }
    )


def joined(where: Where) -> Any:
    """Return a client of a cluster that the user has started."""
    name = where.address or where.scheduler_file
    place = {"scheduler_file": name} if where.scheduler_file else {"address": name}
    _check_certificates(where.address)
    try:
        _check_open(where.address)
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


def _check_open(address: str) -> None:
    """Raise :class:`OSError` at once if nothing listens at ``address``; Dask would try for 20 s."""
    if not address:
        return
    addressing = distributed().comm.addressing
    kind, place = addressing.parse_address(addressing.normalize_address(address))
    if kind in ("tcp", "tls"):
        socket.create_connection(addressing.parse_host_port(place), _JOIN_S).close()


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


def count_of(where: Where) -> int:
    """Return the number of local workers."""
    return where.workers or len(usable_cpus())


def started(where: Where, stack: ExitStack) -> Any:
    """Return a client of a new cluster of processes that listens on the loopback interface."""
    module = distributed()
    count = count_of(where)
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


# Local workers that have no process.

_PATIENCE_NS = 5_000_000_000
"""A worker that has no process for longer than this is replaced."""


class LocalWorkers:
    """The workers of a local cluster, of which there should be ``count``."""

    def __init__(self, cluster: Any, count: int) -> None:
        """``cluster``: a ``LocalCluster`` of Dask."""
        self._cluster, self._count = cluster, count
        self._scaled = stopwatch()
        self._since: dict[Any, int] = {}
        """When a nanny was first seen without a process, for nannies that still have none, ns."""

    def replace_lost(self) -> None:
        """Replace workers that have no process; to be called about once per second."""
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
        """Forget ``lost`` and start what is missing; runs in the thread of the cluster."""
        for name, nanny in list(self._cluster.workers.items()):
            if nanny in lost and not nanny.is_alive():
                del self._cluster.workers[name]
        self._cluster.scale(self._count)
        for nanny in (one for one in lost if not one.is_alive()):
            with suppress(Exception):  # whatever a nanny without a process says at its end
                await asyncio.wait_for(nanny.close(), _PATIENCE_NS * 1e-9)
