"""The code of a study that runs in a worker: batches of runs, and the check before them."""

from __future__ import annotations

import faulthandler
import os
import threading
from collections.abc import Callable, Sequence
from typing import IO

from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.version import __version__
from rtsim.studies.one_run import Runner
from rtsim.studies.plan import Job, Ordered
from rtsim.studies.rows import Row
from rtsim.studies.sources import check_versions

_RUNNERS: dict[str, Runner] = {}
"""The scenario of the latest study, loaded and compiled once in this process."""
_ONE_AT_A_TIME = threading.Lock()
"""A worker with several threads runs one batch after the other."""
_NOWHERE: list[IO[str]] = []
_GRACE_S = 1.0
"""A run ends so much after its limit, so that the study, which sees its begin later, sees the
limit passed."""
_READY_S = 60.0
"""Wall-clock time that a new process has to build and compile its scenario, at least."""


def runner_of(job_text: str) -> Runner:
    """Return the runner of a job; the scenario is loaded at the first call.

    Raises :class:`ScenarioError` if this process has other versions, or other source files, than
    the study began with.
    """
    if job_text not in _RUNNERS:
        job = Job.of_text(job_text)
        if job.rtsim != __version__:
            raise ScenarioError(
                f"the study was made with rtsim {job.rtsim}, but this process has {__version__}; "
                "install the same version"
            )
        check_versions(job.versions)
        runner = Runner(job, checked=True)
        _RUNNERS.clear()
        _RUNNERS[job_text] = runner
    return _RUNNERS[job_text]


def run_batch(
    job_text: str,
    orders: Sequence[Ordered],
    began: Callable[[], object] = lambda: None,
    limited: bool = True,
) -> list[Row]:
    """Run ``orders`` one after the other and return their rows.

    ``began`` is called before the first run, and once more when a new process is ready for it.  If
    ``limited``, a run that takes longer than the limit of the job ends this process.  The limit
    does not include what is done once in a process: loading, building and compiling the scenario.
    """
    with _ONE_AT_A_TIME:
        runner = runner_of(job_text)
        limit = runner.job.limit if limited else None
        began()
        if limit is not None and not runner.ready:
            with _Limit(max(limit, _READY_S)):
                runner.make_ready(orders[0])
            began()
        rows = []
        for order in orders:
            with _Limit(None if limit is None else limit + _GRACE_S):
                rows.append(runner.row(order))
        return rows


def check_worker(job_text: str, order: Ordered) -> str:
    """Return why this process cannot run the scenario with ``order``; empty if it can.

    The scenario is loaded anew, because its files may have changed since an earlier study.
    """
    try:
        with _ONE_AT_A_TIME:
            _RUNNERS.clear()
            runner_of(job_text).check(order)
    except RtsimError as error:
        return str(error)
    return ""


class _Limit:
    """A context that ends the process after ``seconds``, even if compiled code never returns."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        if self._seconds is None:
            return
        if not _NOWHERE:
            _NOWHERE.append(open(os.devnull, "w"))
        faulthandler.dump_traceback_later(self._seconds, file=_NOWHERE[0], exit=True)

    def __exit__(self, *_: object) -> None:
        if self._seconds is not None:
            faulthandler.cancel_dump_traceback_later()
