"""Workers that end: every run gets one row, with its cause, and no run is counted twice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rtsim.core.errors import ScenarioError
from rtsim.studies import one_run as batch_module
from rtsim.studies.campaign import Batch, Campaign, InProcess, Outcome
from rtsim.studies.designs import MonteCarlo
from rtsim.studies.folder import Folder
from rtsim.studies.one_run import check_worker, run_batch
from rtsim.studies.plan import Job, Ordered, Orders, Plan, orders_of_text, text_of_orders
from rtsim.studies.progress import Tally
from rtsim.studies.reductions import Last
from rtsim.studies.running import carry_out, pool_of
from rtsim.studies.study import Study
from rtsim.studies.texts import Value
from rtsim.studies.workers import Where

RUNS = 40


def plan(limit: float | None = None) -> Plan:
    study = Study(
        factors={"plant.x": (0.5, 0.9)},
        design=MonteCarlo(RUNS),
        results={"x": Last("plant.x")},
        until=0.1,
        limit=limit,
    )
    return Plan.of(study, "unstable")


class Dying(InProcess):
    """Three workers at once; ``dies`` says whether the process of a batch ends."""

    capacity = 3

    def __init__(self, job_text: str, dies: Callable[[Batch, int], Outcome | None]) -> None:
        super().__init__(job_text)
        self._dies = dies
        self.seen: list[Batch] = []

    def submit(self, batch: Batch) -> None:
        self.seen.append(batch)
        super().submit(batch)

    def finished(self) -> list[Outcome]:
        died = self._dies(self._waiting[0], len(self.seen))
        if died is None:
            return super().finished()
        self._waiting.popleft()
        return [died]


def campaign(
    path: Path, plan: Plan, dies: Callable[[Batch, int], Outcome | None]
) -> tuple[list[dict[str, Any]], Dying]:
    folder = Folder.new(path, plan)
    pool = Dying(plan.job.to_text(), dies)
    Campaign(folder, pool, Tally.of(folder)).run()
    return folder.table().to_pylist(), pool


def holds(batch: Batch, run: int) -> bool:
    return any(order.run == run for order in batch.orders)


def died(batch: Batch, **more: Any) -> Outcome:
    return Outcome(batch, (), died="its process ended", worker="tcp://a", **more)


def test_a_run_that_ends_its_process_is_tried_alone_twice_and_then_given_up(tmp_path: Path) -> None:
    rows, pool = campaign(
        tmp_path / "s", plan(), lambda batch, _: died(batch) if holds(batch, 11) else None
    )
    assert [row["run"] for row in rows] == list(range(RUNS))
    assert Counter(row["state"] for row in rows) == {"ok": RUNS - 1, "lost": 1}
    lost = rows[11]
    assert (lost["state"], lost["attempts"]) == ("lost", 2)
    assert lost["cause"] == "its process ended during the run"
    assert lost["x"] is None
    alone = [batch for batch in pool.seen if batch.alone]
    assert sum(holds(batch, 11) for batch in alone) == 2
    assert all(len(batch.orders) == 1 for batch in alone)
    assert [batch.avoid for batch in alone if holds(batch, 11)] == ["tcp://a", "tcp://a"]


def test_a_worker_that_was_killed_once_costs_no_run(tmp_path: Path) -> None:
    killed = {5, 9, 14}
    rows, _ = campaign(
        tmp_path / "s", plan(), lambda batch, count: died(batch) if count in killed else None
    )
    assert Counter(row["state"] for row in rows) == {"ok": RUNS}
    whole, _ = campaign(tmp_path / "t", plan(), lambda *_: None)
    left_out = ("wall_s", "attempts")
    for row, other in zip(rows, whole, strict=True):
        assert {k: v for k, v in row.items() if k not in left_out} == {
            k: v for k, v in other.items() if k not in left_out
        }


def test_a_batch_that_had_not_begun_is_repeated_as_it_is(tmp_path: Path) -> None:
    rows, pool = campaign(
        tmp_path / "s", plan(),
        lambda batch, count: died(batch, began=False) if count == 6 and not batch.tries else None,
    )  # fmt: skip
    assert Counter(row["state"] for row in rows) == {"ok": RUNS}
    assert not any(batch.alone for batch in pool.seen)
    assert sum(batch.tries for batch in pool.seen) >= 1


def test_a_run_that_took_longer_than_its_limit_says_so(tmp_path: Path) -> None:
    rows, _ = campaign(
        tmp_path / "s", plan(limit=2.0),
        lambda batch, _: died(batch, ran_s=2.01) if holds(batch, 3) else None,
    )  # fmt: skip
    assert (rows[3]["state"], rows[3]["wall_s"]) == ("timeout", 2.01)
    assert rows[3]["cause"] == "the run took longer than its limit of 2 s"


def test_batches_grow_with_short_runs_and_share_the_rest(tmp_path: Path) -> None:
    _, pool = campaign(tmp_path / "s", plan(), lambda *_: None)
    sizes = [len(batch.orders) for batch in pool.seen]
    assert sizes[0] == 1
    assert 2 <= max(sizes) <= RUNS // 6
    assert sum(sizes) == RUNS


def test_a_worker_with_another_version_is_refused() -> None:
    made = plan()
    other = replace(made.job, rtsim="0.0.1").to_text()
    order = Orders(made)[0]
    assert "was made with rtsim 0.0.1" in check_worker(other, order)
    with pytest.raises(ScenarioError, match="install the same version"):
        run_batch(other, [order])
    assert check_worker(made.job.to_text(), order) == ""
    missing = replace(made.job, scenario="/nowhere/tank.py").to_text()
    assert "/nowhere/tank.py does not exist" in check_worker(missing, order)
    assert Job.of_text(made.job.to_text()) == made.job


def test_the_limit_of_a_run_begins_when_a_new_process_has_built_the_scenario(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, limits, began = plan(limit=2.0), [], []

    class Limit(nullcontext[None]):
        def __init__(self, seconds: float | None) -> None:
            super().__init__()
            limits.append(seconds)

    monkeypatch.setattr(batch_module, "_RUNNERS", {})
    monkeypatch.setattr(batch_module, "_Limit", Limit)
    orders = [Orders(made)[k] for k in range(2)]
    run_batch(made.job.to_text(), orders, lambda: began.append(len(limits)))
    assert (limits, began) == ([60.0, 3.0, 3.0], [0, 1])
    run_batch(made.job.to_text(), orders, lambda: began.append(len(limits)))
    assert (limits[3:], began[2:]) == ([3.0, 3.0], [3])


def test_the_text_of_a_batch_has_all_of_each_run() -> None:
    values: dict[str, Value] = {"plant.x": 0.1, "hot": True, "way": "left; 'right'", "n": 2.0}
    orders = [
        Ordered(3, 2**63 - 1, values, {"generation": 4}),
        Ordered(7, 0, {**values, "plant.x": -math.inf, "hot": False}, {"generation": 5}),
    ]
    text = text_of_orders(orders)
    found = orders_of_text(text)
    assert found == orders
    assert [list(map(type, one.factors.values())) for one in found] == [
        [float, bool, str, float]
    ] * 2
    assert orders_of_text(text_of_orders([Ordered(0, 1, {}, {})])) == [Ordered(0, 1, {}, {})]


def test_a_run_takes_few_bytes_of_the_message_to_a_worker() -> None:
    """Dask's scheduler keeps the last 1000 messages to each worker."""
    orders = Orders(plan())
    assert len(text_of_orders([orders[k] for k in range(RUNS)])) < 60 * RUNS


def test_a_wrong_number_of_workers_is_refused() -> None:
    with (
        pytest.raises(ScenarioError, match="workers is -1"),
        pool_of(plan().job.to_text(), Where(-1)),
    ):
        pass


BAD = """
import os, signal
from rtsim import PythonController, Scenario, Signals
from rtsim.models.unstable import UNSTABLE
from rtsim.studies import Study, Table

MODES = [0.0, 0.0, 1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 0.0]


def control(t, u, s, p, y):
    y[0] = -8.0 * u[0] - 4.0 * u[1]
    if t > 0.15 and p[0] == 1.0:
        os.kill(os.getpid(), signal.SIGKILL)
    while t > 0.15 and p[0] == 2.0:
        pass
    if t > 0.15 and p[0] == 3.0:
        raise ValueError("mode 3")


def scenario():
    out = Scenario("modes", until=0.3)
    out.plant("plant", UNSTABLE, step=0.05, inputs={"force": "control.force"})
    law = PythonController(control, Signals("x", "v"), Signals("force [N/kg]"),
                           parameters=Signals("mode"))
    out.controller("control", law, period=0.1, inputs={"x": "plant.x", "v": "plant.v"})
    return out


def study():
    return Study(design=Table({"control.mode": MODES}), results={"x": "last:plant.x"}, limit=2.0)
"""


@pytest.mark.realtime  # its limit is wall-clock time
@pytest.mark.usefixtures("empty_project")
def test_workers_of_dask_survive_what_runs_do_to_them() -> None:
    """A run that kills its process, one that never ends, one that raises, and six good ones."""
    from rtsim.studies.plan import find_study
    from rtsim.studies.running import begin

    Path("modes.py").write_text(BAD)
    found = find_study("modes.py")
    assert found is not None
    folder = begin("modes.py", found, Path("out"))
    seen: list[str] = []
    with folder.locked():
        tally = carry_out(folder, Where(1), lambda tally, _: seen.append(str(tally.rows)))
    rows = folder.table().to_pylist()
    states = ["ok", "ok", "lost", "ok", "timeout", "ok", "error", "ok", "ok"]
    assert [row["state"] for row in rows] == states
    assert tally.counts() == {
        "ok": 6, "nan": 0, "failed": 0, "error": 1, "timeout": 1, "lost": 1,
    }  # fmt: skip
    assert [row["attempts"] for row in rows if row["state"] != "ok"] == [2, 2, 2]
    assert len({row["digest"] for row in rows if row["state"] == "ok"}) == 1
    assert seen[-1] == "9"
