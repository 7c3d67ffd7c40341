"""Start, resume and repeat studies, and record selected runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np

from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Judged, Outcome
from rtsim.record.events import TO_THE_END
from rtsim.record.file import FileRecorder
from rtsim.runs.progress import display_of
from rtsim.runs.request import MAX, Pace
from rtsim.studies.campaign import Campaign, InProcess, Pool, Searching
from rtsim.studies.factors import uniforms
from rtsim.studies.folder import Folder, Stored, StudyError
from rtsim.studies.interim_analysis import needed
from rtsim.studies.measures import ERROR, FAILED, NAN, Row, decided
from rtsim.studies.one_run import Live, Runner
from rtsim.studies.plan import Job, Ordered, Orders, Plan, find_study, ordered
from rtsim.studies.progress import StudyProgress, Tally
from rtsim.studies.study import EXTREMES, FAILURES, Study
from rtsim.studies.workers import LOCAL, DaskPool, Where

# Recordings of selected runs. Each selected run is executed again with a recorder.

RECORDINGS = "recordings"


def chosen(folder: Folder) -> list[int]:
    """Return the numbers of the runs to record, which ``plan.keep`` selects.

    Runs that crashed or took too long are not recorded, because a repetition could end this
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


def _record_selected(folder: Folder, job: Job, show: ShowRecordings = lambda *_: None) -> None:
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
        if part.exists():
            part.replace(target)


def recording_of(folder: Folder, run: int) -> Path:
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
    """Execute run number ``run`` again.

    With ``path``, the run is recorded. :meth:`Runner.row` explains ``pace`` and ``live``.
    """
    recorder = None if path is None else FileRecorder(path, stopwatch, overwrite=overwrite)
    # The context manager closes the recorder if the run fails at its beginning.
    with recorder or nullcontext():
        return runner.row(orders[run], pace=pace, recorder=recorder, live=live)


Show = Callable[[Tally, Pool], object]
ShowRecordings = Callable[[int, int], object]


def start(
    scenario: str,
    folder: str | Path,
    study: Study | None = None,
    *,
    workers: int | None = 0,
    progress: bool | None = None,
) -> Folder:
    """Run a study of ``scenario`` and return its folder.

        folder = start("tank.py", "runs/tank-study")
        print(folder.table().to_pandas())

    Args:
        scenario: A name, or ``FILE.py[:FUNCTION]``.
        folder: The folder to create.
        study: The study to run. The default is the study that the scenario's file declares.
        workers: Number of worker processes. With 0 workers, the runs are executed in this process.
            With ``None``, the study uses one process per CPU. A program that uses worker processes
            needs ``if __name__ == "__main__":``.
        progress: Whether to show progress. By default, the progress is shown in a notebook and on a
            terminal.
    """
    study = study or find_study(scenario)
    if study is None:
        raise ScenarioError(
            f"{scenario} has no function study(); add one, or give the study as an argument"
        )
    where = Where(workers)
    out = begin(scenario, study, Path(folder), where)
    with (
        out.removed_if_refused(),
        out.locked(),
        closing(StudyProgress(display_of(progress))) as shown,
    ):
        carry_out(out, where, shown.show, recordings=shown.recordings, named=True)
    return out


def begin(scenario: str, study: Study, folder: Path | None, where: Where = LOCAL) -> Folder:
    """Create the folder of a study.

    By default, the folder is the first unused name ``studies/NAME-NNN``. Raises
    :class:`ScenarioError` if the scenario rejects the factors, if the workers cannot enforce the
    time limit of the study, or if the workers cannot be reached.
    """
    plan = plan_of(scenario, study, where)
    if folder is not None:
        return Folder.new(folder, plan)
    return Folder.new(unused_folder(scenario), plan)


def unused_folder(scenario: str) -> Path:
    name = Path(scenario.partition(".py")[0]).stem
    numbered = (Path("studies") / f"{name}-{k:03d}" for k in count(1))
    return next(path for path in numbered if not path.exists())


def plan_of(scenario: str, study: Study, where: Where = LOCAL, only: str = "") -> Plan:
    """Return the plan of a study after all checks.

    The requirements are those of the study and of the scenario, or only the requirement ``only``.
    """
    where.check()
    where.check_limit(study.limit)
    plan = Plan.of(study, scenario)
    runner, first = _first_run(plan)
    scenario_of_first = runner.scenario(first)
    scenario_of_first.check_requirements()
    declared = scenario_of_first.requirements
    plan = plan.with_requirements([one for one in declared if only in ("", one.name)])
    if plan.job.histories:
        plan = plan.with_histories_until(runner.until_ns(first))
    where.check_reachable()
    return plan


def _first_run(plan: Plan) -> tuple[Runner, Ordered]:
    runner, first = Runner(plan.job), ordered(plan, 0, plan.example, 0)
    runner.check(first)
    return runner, first


def required_names(scenario: str, study: Study) -> list[str]:
    if study.required:
        return [one.name for one in study.required]
    runner, first = _first_run(Plan.of(study, scenario))
    return [one.name for one in runner.scenario(first).requirements]


def resume(folder: str | Path, *, workers: int | None = 0, progress: bool | None = None) -> Folder:
    """Execute the missing runs of a study, and return its folder.

    ``workers`` and ``progress`` have the same meaning as in ``start``.
    """
    out = Folder.open(Path(folder))
    shown = StudyProgress(display_of(progress))
    with out.locked(), closing(shown):
        carry_out(out, Where(workers), shown.show, recordings=shown.recordings)
    return out


def carry_out(
    folder: Folder,
    where: Where,
    show: Show = lambda *_: None,
    *,
    recordings: ShowRecordings = lambda *_: None,
    named: bool = False,
) -> Tally:
    """Execute all missing runs of a study, and return the numbers of runs by state.

    ``show`` is called with these numbers about once per second. ``recordings`` is called with the
    number of recordings and the number of selected runs. ``named`` is True if the user has named
    the scenario. Otherwise, the scenario must be trusted (docs/trust.md).
    """
    where.check_limit(folder.plan.job.limit)
    tally = Tally.of(folder)
    job = folder.plan.job if named else folder.plan.job.check_trusted(str(folder.path))
    planned = folder.plan.sampled.planned
    if tally.rows < needed(folder) or not (planned or folder.ended.why):
        with pool_of(job.to_text(), where) as pool:
            campaign = Campaign(folder, pool, tally, lambda tally: show(tally, pool))
            if planned:
                campaign.run()
            else:
                Searching(campaign).run()
    _record_selected(folder, job, recordings)
    return tally


@contextmanager
def pool_of(job_text: str, where: Where) -> Iterator[Pool]:
    """Context manager that yields the workers of a study, and ends those that it has started."""
    where.check()
    pool: Pool = InProcess(job_text) if where.in_process else DaskPool(job_text, where)
    try:
        yield pool
    finally:
        pool.close()


@dataclass(frozen=True)
class Repeated(Judged):
    """Result of the repetition of a run."""

    row: Row
    stored: str | None
    """The digest of the run in the folder; ``None`` if the folder contains no digest."""
    ended: str = ""

    @property
    def undecided(self) -> str:
        run = self.row.order.run
        if not self.stored:
            return f"the study has no digest of run {run}, so nothing is compared"
        if self.row.reason not in (*TO_THE_END, self.ended):
            return f"run {run} did not reach its end, so nothing is compared"
        return ""

    def _judge(self) -> Outcome:
        if self.undecided:
            return Outcome.UNDECIDED
        return Outcome.PASSED if self.equal else Outcome.FAILED

    @property
    def in_words(self) -> str:
        differs = "equals" if self.equal else "differs from"
        run = f"run {self.row.order.run}"
        return self.undecided or f"the digest of {run} {differs} the stored one"

    @property
    def equal(self) -> bool | None:
        return None if self.undecided else self.row.digest == self.stored


def repeat(folder: Folder, run: int) -> Repeated:
    """Repeat a run of a study in this process, and compare the digests."""
    return recorded(folder, run)


def recorded(
    folder: Folder,
    run: int,
    path: Path | None = None,
    *,
    pace: Pace | str | float = MAX,
    overwrite: bool = False,
    live: Live | None = None,
) -> Repeated:
    """Repeat a run of a study, and record it to ``path``.

    :meth:`Runner.row` explains ``pace`` and ``live``.
    """
    orders = folder.orders
    _ = orders[run]
    stored = folder.row(run)
    job = folder.plan.job.check_trusted(str(folder.path))
    row = run_into(Runner(job), orders, run, path, pace, overwrite, live)
    if stored is None:
        return Repeated(row, None)
    return Repeated(row, stored["digest"], stored["reason"])
