"""What a study refuses, and what it does after an interrupt, a slow first run or a lost worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from rtsim.core.errors import ScenarioError, TrustError
from rtsim.core.estimates import LEVEL
from rtsim.core.signals import Vector
from rtsim.record.file import FileRecorder
from rtsim.scenario.trust import permitted
from rtsim.studies import workers as workers_module
from rtsim.studies.campaign import Batch, Campaign, InProcess, Outcome
from rtsim.studies.designs import (
    DESIGNS,
    Antithetic,
    CommonRandomNumbers,
    Design,
    LatinHypercube,
    MonteCarlo,
    OneAtATime,
    Search,
    Space,
    Strata,
    Table,
)
from rtsim.studies.designs.base import Columns
from rtsim.studies.folder import Folder
from rtsim.studies.measures import OK, Row
from rtsim.studies.plan import Job, Ordered, Orders, Plan
from rtsim.studies.progress import Tally
from rtsim.studies.running import start
from rtsim.studies.study import Study
from rtsim.studies.summary import summarise
from rtsim.studies.workers import DaskPool, Where

FOUR = Study(
    factors={"plant.x": (0.5, 0.9)}, design=MonteCarlo(4), results={"x": "last:plant.x"}, until=0.1
)


class Slow(InProcess):
    """Several workers; each batch is seen to have ended at the third question only."""

    capacity = 3

    def __init__(self, job_text: str) -> None:
        super().__init__(job_text)
        self.together: list[int] = []
        self._asked = 0

    def submit(self, batch: Batch) -> None:
        super().submit(batch)
        self.together.append(len(self._waiting))

    def finished(self) -> list[Outcome]:
        self._asked += 1
        return [] if self._asked % 3 else super().finished()


def test_no_other_batch_begins_before_a_slow_first_run_has_ended(tmp_path: Path) -> None:
    plan = Plan.of(FOUR, "unstable")
    folder, pool = Folder.new(tmp_path / "s", plan), Slow(plan.job.to_text())
    Campaign(folder, pool, Tally.of(folder)).run()
    assert folder.table("run").num_rows == 4
    assert pool.together[:2] == [1, 1]


class Breaking(dict[str, float]):
    """Values of a row at whose end Ctrl-C arrives."""

    def get(self, *_: Any) -> float:
        raise KeyboardInterrupt


def test_an_interrupt_inside_a_row_does_not_lose_the_rows_before_it(tmp_path: Path) -> None:
    plan = Plan.of(replace(FOUR, histories=["plant.x"]), "unstable").with_histories_until(10**9)
    folder, orders = Folder.new(tmp_path / "s", plan), Orders(plan)
    path: Any = [0.0] * len(plan.job.grid)
    folder.add(Row(orders[0], OK, values={"x": 1.0}, histories={"plant.x": path}))
    with pytest.raises(KeyboardInterrupt):
        folder.add(Row(orders[1], OK, values={"x": 2.0}, histories=Breaking()))  # type: ignore[arg-type]
    folder.add(Row(orders[2], OK, values={"x": 3.0}, histories={"plant.x": path}))
    folder.write()
    assert Folder.open(tmp_path / "s").table("run", "x").to_pydict() == {
        "run": [0, 2],
        "x": [1.0, 3.0],
    }


def test_a_file_that_another_process_wrote_before_the_lock_is_not_overwritten(
    tmp_path: Path,
) -> None:
    plan = Plan.of(FOUR, "unstable")
    orders, first = Orders(plan), Folder.new(tmp_path / "s", plan)
    second = Folder.open(tmp_path / "s")
    for run, folder in enumerate((first, second)):
        with folder.locked():
            folder.add(Row(orders[run], OK, values={"x": 1.0}))
            folder.write()
    assert Folder.open(tmp_path / "s").table("run")["run"].to_pylist() == [0, 1]


@pytest.mark.parametrize(
    ("design", "factors", "name"),
    [
        (Strata("plant.x", at=(0.5,), runs=(2, 2)), ["plant.x", "weight"], "weight"),
        (Strata("plant.x", at=(0.5,), runs=(2, 2)), ["plant.x", "stratum"], "stratum"),
        (Antithetic(runs=4), ["pair"], "pair"),
        (OneAtATime(), ["factor"], "factor"),
        (Table({"run": [3, 4], "plant.x": [0.1, 0.2]}), [], "run"),
        (Table({"x": [0.1, 0.2]}), [], "x"),
    ],
    ids=lambda one: getattr(one, "name", str(one)),
)
def test_two_columns_with_one_name_are_refused(
    design: Design, factors: list[str], name: str
) -> None:
    given = dict.fromkeys(factors, (0.5, 0.9))
    with pytest.raises(ScenarioError, match=f"^{name} names more than one column"):
        replace(FOUR, factors=given, design=design)
    if factors:
        with pytest.raises(ScenarioError, match=f"^{name} names more than one column"):
            replace(
                FOUR, factors={"plant.x": (0.5, 0.9)}, design=design, results={name: "last:plant.x"}
            )


def test_alternatives_of_runs_with_weights_are_refused() -> None:
    factors = {"plant.x": (0.5, 0.9), "control.gain": [1.0, 2.0]}
    strata = CommonRandomNumbers("control.gain", Strata("plant.x", at=(0.9,), runs=(2, 2)))
    with pytest.raises(ScenarioError, match="runs of the design strata have weights, which"):
        replace(FOUR, factors=factors, design=strata)
    replace(FOUR, factors=factors, design=CommonRandomNumbers("control.gain", LatinHypercube(4)))


@pytest.mark.parametrize(
    ("base", "says"),
    [
        (CommonRandomNumbers("plant.v"), "only one of the two can have alternatives; give a base"),
        (Search("x"), "the design search chooses each run from the results of earlier"),
    ],
    ids=["nested", "search"],
)
def test_alternatives_of_a_base_without_independent_runs_are_refused(
    base: Design, says: str
) -> None:
    factors = {"plant.x": (0.5, 0.9), "plant.v": [0.1, 0.2], "control.gain": [1.0, 2.0]}
    with pytest.raises(ScenarioError, match=says):
        replace(FOUR, factors=factors, design=CommonRandomNumbers("control.gain", base))
    factors["control.gain"] = [1.0, 2.0, 1.0]
    with pytest.raises(ScenarioError, match=r"alternatives control\.gain name a value twice"):
        replace(FOUR, factors=factors, design=CommonRandomNumbers("control.gain"))


@dataclass(frozen=True)
class Compared(MonteCarlo):
    """A design from outside with alternatives and a rule of its own for early stops."""

    name: ClassVar[str] = "compared"

    def check_looks(self, looks: Sequence[int]) -> None:
        if max(looks) > 3:
            raise ScenarioError("too late")

    def compared(
        self,
        space: Space,
        columns: Columns,  # noqa: ARG002
        values: Vector,
        level: float = LEVEL,
    ) -> list[dict[str, Any]]:
        return [
            {"value": name, "mean": values.mean(), "low": level, "high": 1.0}
            for name in space.names
        ]


def test_a_design_from_outside_has_alternatives_and_looks_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DESIGNS._added, "compared", Compared)
    with pytest.raises(ScenarioError, match="too late"):
        replace(FOUR, design=Compared(6), stop="x:9,looks=4")
    folder = start(
        "unstable", tmp_path / "a", replace(FOUR, design=Compared(6), stop="x:9,looks=3")
    )
    found = summarise(folder)
    assert found["rows"] == 3
    (row,) = found["alternatives"]["x"]
    assert (row["value"], row["low"]) == ("plant.x", pytest.approx(0.975))
    assert "alternatives" not in summarise(start("unstable", tmp_path / "b", FOUR))


def checked_by(monkeypatch: pytest.MonkeyPatch, workers: dict[str, Any], task: Any) -> None:
    """Check the workers ``tcp://a`` by ``task`` of a client."""
    monkeypatch.setattr(workers_module, "_WAIT_S", 0.0)
    pool: Any = DaskPool.__new__(DaskPool)
    pool._job_text, pool._present = "", 0
    pool._client = SimpleNamespace(
        status="running",
        scheduler_info=lambda n_workers: {"workers": dict(workers)},  # noqa: ARG005
        submit=lambda *_, **__: task,
    )
    pool.check(Ordered(0, 0, {}, {}))


def test_the_check_of_a_worker_that_leaves_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    workers: dict[str, Any] = {"tcp://a": {}, "tcp://b": {}}
    asked: list[float | None] = []

    def result(timeout: float | None = None) -> str:
        asked.append(timeout)
        assert timeout is not None
        if len(asked) == 3:
            del workers["tcp://a"]
        raise TimeoutError

    task = SimpleNamespace(result=result, status="pending")
    with pytest.raises(ScenarioError, match=r"worker tcp://a cannot .* it has left the cluster"):
        checked_by(monkeypatch, workers, task)
    assert len(asked) == 3


def test_a_task_of_the_check_that_raises_a_timeout_is_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def result(timeout: float | None = None) -> str:  # noqa: ARG001
        raise TimeoutError("disk")

    task = SimpleNamespace(result=result, status="error")
    with pytest.raises(ScenarioError, match="TimeoutError: disk"):
        checked_by(monkeypatch, {"tcp://a": {}}, task)


def test_a_task_of_the_check_that_ends_just_after_the_time_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = SimpleNamespace(status="pending")

    def result(timeout: float | None = None) -> str:  # noqa: ARG001
        if task.status == "finished":
            return ""
        task.status = "finished"
        raise TimeoutError("timed out after 1 s.")

    task.result = result
    checked_by(monkeypatch, {"tcp://a": {}}, task)
    assert task.status == "finished"


def test_dask_does_not_pause_local_workers_and_uses_the_cpus_of_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import dask

    with workers_module.settings():
        assert dask.config.get("distributed.worker.memory.pause") is False
    monkeypatch.setattr(workers_module, "usable_cpus", lambda: (3,))
    assert workers_module.count_of(Where()) == 1
    assert workers_module.count_of(Where(workers=2)) == 2


RAISING = """
from rtsim.scenario.loading import load_scenario
from rtsim.studies import Study, Table


def scenario(gain=1.0):
    if gain > 2.0:
        raise ValueError("no such gain")
    return load_scenario("unstable")


def study():
    return Study(design=Table({"gain": [1.0, 3.0]}), keep=["failures"],
                 results={"x": "last:plant.x"}, until=0.1)
"""


def test_a_run_that_fails_before_its_first_row_leaves_no_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made: list[Any] = []

    def recorder(*given: Any, **named: Any) -> FileRecorder:
        made.append(FileRecorder(*given, **named))
        return made[-1]  # type: ignore[no-any-return]

    monkeypatch.setattr("rtsim.studies.running.FileRecorder", recorder)
    Path("raising.py").write_text(RAISING)
    folder = start("raising.py", "out", workers=0)
    assert folder.table("state")["state"].to_pylist() == ["ok", "error"]
    assert len(made) == 1
    assert made[0]._process.poll() is not None
    assert list((tmp_path / "out" / "recordings").iterdir()) == []


FUNCTIONS = """
from rtsim.studies import MonteCarlo, Study


def study():
    return Study(scenario="unstable", design=MonteCarlo(2), until=0.1,
                 results={"x": lambda recording: float(recording["plant.x"][-1])})
"""


def test_a_changed_file_of_result_functions_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "functions.py"
    file.write_text(FUNCTIONS)
    folder = start("functions.py", "out", workers=0)
    job = folder.plan.job
    assert job.check_trusted("out") == job
    with pytest.raises(TrustError, match="no hash of the file was recorded"):
        replace(job, study_sha256=None).check_trusted("out")
    file.write_text(FUNCTIONS + "\nprint('changed')\n")
    with pytest.raises(TrustError, match="has changed since then"):
        job.check_trusted("out")
    with permitted(everything=True):
        assert job.check_trusted("out") == job
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    with permitted(scenario="mine.py"):
        mine = Job.of_text(job.check_trusted("out").to_text())
    assert mine.study == job.study.replace("functions.py", "mine.py")
    assert list(mine.reduced) == ["x"]
    with (
        permitted(scenario="unstable"),
        pytest.raises(ScenarioError, match="unstable is not a file"),
    ):
        job.check_trusted("out")
