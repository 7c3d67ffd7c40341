"""Recordings of chosen runs: each of them is run again, with a recorder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from rtsim.core.clock import stopwatch
from rtsim.record.file import FileRecorder
from rtsim.runs.pace import MAX, Pace
from rtsim.studies.folder import Folder, Stored, StudyError
from rtsim.studies.one_run import Live, Runner
from rtsim.studies.plan import Job, Orders
from rtsim.studies.rows import ERROR, FAILED, NAN, Row, decided
from rtsim.studies.study import EXTREMES, FAILURES
from rtsim.studies.uniforms import uniforms

RECORDINGS = "recordings"


def chosen(folder: Folder) -> list[int]:
    """Return the numbers of the runs whose recordings the plan keeps.

    Runs that were lost or took too long are left out, because running them again could end this
    process.
    """
    plan = folder.plan
    table = folder.columns("run", "state", *plan.results, *plan.margins)
    runs, states = table["run"], table["state"]
    wanted = np.zeros(len(runs), np.bool_)
    for kind in plan.keep:
        if kind == FAILURES:
            wanted |= (states == NAN) | (states == ERROR) | (states == FAILED)
            for name in plan.margins:
                wanted |= np.asarray(table[name], np.float64) < 0.0
        elif kind == EXTREMES:
            for name in plan.results:
                values = np.asarray(table[name], np.float64)
                finite = np.flatnonzero(np.isfinite(values))
                if len(finite):
                    wanted[finite[[values[finite].argmin(), values[finite].argmax()]]] = True
        else:
            wanted |= uniforms(plan.seed, "keep", 0, plan.runs)[runs] < float(kind)
    wanted &= decided(states) | (states == ERROR)
    return [int(run) for run in runs[wanted]]


def keep(folder: Folder, job: Job, show: Callable[[int, int], object] = lambda *_: None) -> None:
    """Write the recordings that the plan keeps and that are not there yet.

    ``show`` is called with the numbers of recordings that are written and that are wanted.  Raises
    :class:`StudyError` if a run gives other rows than before.
    """
    if not folder.plan.keep:
        return
    runs = chosen(folder)
    where = folder.path / RECORDINGS
    missing = [run for run in runs if not recording_of(folder, run).exists()]
    if missing:
        where.mkdir(exist_ok=True)
        table = folder.table("run", "digest")
        found = table.take(np.searchsorted(np.asarray(table["run"]), missing))
        stored = dict(zip(missing, found["digest"].to_pylist(), strict=True))
        runner, orders = Runner(job, checked=True), folder.orders
    for done, run in enumerate(missing, len(runs) - len(missing)):
        show(done, len(runs))
        target = recording_of(folder, run)
        part = target.with_suffix(".part.mcap")
        part.unlink(missing_ok=True)
        row = run_into(runner, orders, run, part)
        if stored[run] and row.digest != stored[run]:
            raise StudyError(
                f"run {run} gives other rows than before, so its recording is not kept; see {part}"
            )
        if part.exists():  # it does not if the run failed before its first row
            part.replace(target)


def recording_of(folder: Folder, run: int) -> Path:
    """Return the file in which the recording of ``run`` is kept."""
    return folder.path / RECORDINGS / f"run-{run:06d}.mcap"


def run_into(
    runner: Runner,
    orders: Orders | Stored,
    run: int,
    path: Path | None,
    pace: Pace | str | float = MAX,
    overwrite: bool = True,
    live: Live | None = None,
) -> Row:
    """Run number ``run`` once more and record it to ``path``; ``None``: without a recording.

    ``pace`` and ``live`` as in :meth:`Runner.row`.
    """
    recorder = None if path is None else FileRecorder(path, stopwatch, overwrite=overwrite)
    with recorder or nullcontext():  # a run that fails at its beginning does not close it
        return runner.row(orders[run], pace=pace, recorder=recorder, live=live)
