"""Studies in this process: rows, states, repeats, resumes, the lock, and what a folder holds."""

from __future__ import annotations

import contextlib
import json
import math
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtsim.cli.common import sigterm_interrupts
from rtsim.core.errors import ScenarioError, TrustError, UnknownName
from rtsim.record.reading import Recording
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.trust import permitted
from rtsim.studies.campaign import Campaign, InProcess
from rtsim.studies.designs import (
    Antithetic,
    CommonRandomNumbers,
    MonteCarlo,
    Morris,
    Saltelli,
    Strata,
    Table,
)
from rtsim.studies.designs.screening import sobol_indices
from rtsim.studies.folder import Folder, StudyError
from rtsim.studies.plan import Orders, Plan, find_study
from rtsim.studies.progress import Tally
from rtsim.studies.reductions import Last, Max, MaxAbs
from rtsim.studies.running import chosen, recorded, repeat, resume, start
from rtsim.studies.study import Study
from rtsim.studies.summary import sensitivity, summarise

SCENARIO = """
import math
from rtsim import PythonController, Scenario, Signals
from rtsim.models.unstable import UNSTABLE
from rtsim.studies import Last, MonteCarlo, Study


def control(t, u, s, p, y):
    if p[0] == 1.0 and t > 0.15:
        raise ValueError("mode 1")
    y[0] = -8.0 * u[0] - 4.0 * u[1] + u[2]


def scenario(gain=1.0, label="a"):
    out = Scenario("modes", until=0.3)
    out.plant("plant", UNSTABLE, step=0.05, inputs={"force": "control.force"})
    out.noise("noise", Signals("w"), deviation=gain, period=0.1)
    control_ = PythonController(
        control, Signals("x", "v", "w"), Signals("force [N/kg]"), parameters=Signals("mode")
    )
    inputs = {"x": "plant.x", "v": "plant.v", "w": "noise.w"}
    out.controller("control", control_, period=0.1, inputs=inputs)
    return out


def length(recording):
    return len(recording["plant.x"])


def sometimes(recording):
    return math.nan if recording["plant.x"][0] > 1.0 else 1.0


def study():
    return Study(
        factors={"plant.x": (0.5, 0.9), "gain": (0.5, 2.0), "label": ["a", "b"]},
        design=MonteCarlo(20),
        results={
            "x": Last("plant.x"),
            "w": "last:control.inputs.w",
            "rows": length,
            "odd": sometimes,
        },
        requirements=["x < 0.6"],
        seed=5,
    )
"""


@pytest.fixture
def file(empty_project: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A scenario file.  On a slow machine as well, a study writes its rows at its end only."""
    monkeypatch.setattr("rtsim.studies.folder._SHORTEST_NS", 3600 * 10**9)
    (empty_project / "modes.py").write_text(SCENARIO)
    return "modes.py"


def rows_of(folder: Folder) -> list[dict[str, Any]]:
    """The rows without what a wall clock measured."""
    return folder.table().drop(["wall_s"]).to_pylist()  # type: ignore[no-any-return]


def table(**columns: list[Any]) -> Study:
    named = {name.replace("_", "."): column for name, column in columns.items()}
    return Study(design=Table(named), results={"x": Last("plant.x"), "peak": MaxAbs("plant.x")})


def test_each_run_has_a_row_with_the_results_of_that_run_alone(file: str) -> None:
    folder = start(file, "out")
    rows = rows_of(folder)
    assert [row["run"] for row in rows] == list(range(20))
    assert {row["state"] for row in rows} == {"ok"}
    for row in rows[:3]:
        settings = {name: str(row[name]) for name in ("plant.x", "gain", "label")}
        scenario = load_scenario(file, settings)
        recording = simulate(scenario, seed=row["seed"], recorder=_memory()).recording()
        assert row["x"] == recording["plant.x"][-1]
        assert row["w"] == recording.messages["control.inputs"]["w"][-1]
        assert row["rows"] == len(recording["plant.x"])
        assert row["x.margin"] == 0.6 - row["x"]
        assert row["reason"] == "end"
        assert row["ended_s"] == 0.3
    assert len({row["digest"] for row in rows}) == 20
    found = summarise(folder)
    assert found["states"]["ok"] == found["rows"] == found["runs"] == 20
    passed = sum(row["x"] <= 0.6 for row in rows)
    assert (found["requirements"]["x"]["passed"], found["results"]["x"]["count"]) == (passed, 20)


def _memory() -> Any:
    from rtsim.record.recorders import MemoryRecorder

    return MemoryRecorder()


def test_order_and_interruption_change_no_row(file: str) -> None:
    whole = start(file, "whole")
    plan = whole.plan

    class Stopped(InProcess):
        left = 2

        def finished(self) -> Any:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().finished()

    def shuffled(runs: Iterable[int]) -> Iterable[int]:
        out = list(runs)
        random.Random(len(out)).shuffle(out)
        return iter(out)

    folder = Folder.new(Path("parts"), plan)
    seen = [0]
    while seen[-1] < 20:
        pool = Stopped(plan.job.to_text())
        campaign = Campaign(folder, pool, Tally.of(folder), shuffled=shuffled)
        with contextlib.suppress(KeyboardInterrupt):
            campaign.run()
        folder = Folder.open(Path("parts"))
        seen.append(folder.table("run").num_rows)
        assert seen[-1] > seen[-2]
    assert len(seen) > 2
    assert rows_of(folder) == rows_of(whole)
    assert rows_of(resume("parts")) == rows_of(whole)


def test_any_run_can_be_repeated_and_recorded(file: str) -> None:
    folder = start(file, "out")
    for run in (0, 13, 19):
        found = repeat(folder, run)
        assert found.equal is True
        assert found.row.values["x"] == rows_of(folder)[run]["x"]
    assert recorded(folder, 4, Path("four.mcap")).equal is True
    assert Recording.open("four.mcap")["plant.x"][-1] == rows_of(folder)[4]["x"]
    with pytest.raises(ScenarioError, match="has no run 20"):
        repeat(folder, 20)


def test_a_changed_scenario_is_not_run_and_has_other_digests(file: str) -> None:
    folder = start(file, "out")
    Path(file).write_text(SCENARIO.replace("-8.0 * u[0]", "-8.1 * u[0]"))
    with pytest.raises(TrustError, match="has changed since then"):
        repeat(folder, 3)
    with permitted(everything=True):
        assert repeat(folder, 3).equal is False


def test_runs_that_fail_become_rows_with_their_cause(file: str) -> None:
    study = table(control_mode=[0.0, 1.0, 0.0], plant_x=[0.5, 0.5, math.nan])
    folder = start(file, "out", study)
    good, wrong, bad = rows_of(folder)
    assert (good["state"], good["attempts"]) == ("ok", 1)
    assert (wrong["state"], wrong["attempts"], wrong["x"]) == ("error", 2, None)
    assert "ValueError: mode 1" in wrong["cause"]
    assert "modes.py" in wrong["cause"]
    assert 0.15 <= wrong["ended_s"] <= 0.2
    assert bad["state"] == "error"
    assert summarise(folder)["states"] == {
        "ok": 1, "nan": 0, "failed": 0, "error": 2, "timeout": 0, "lost": 0,
    }  # fmt: skip
    assert repeat(folder, 1).equal is True


def test_a_result_that_is_not_a_number_has_a_state_of_its_own(file: str) -> None:
    study = Study(
        design=Table({"plant.x": [0.5, 1.5]}), results={"odd": "last:plant.x"}, requirements=[]
    )
    found = start(file, "plain", study)
    assert [row["state"] for row in rows_of(found)] == ["ok", "ok"]
    Path(file).write_text(SCENARIO.replace("(0.5, 0.9)", "[0.5, 1.5]").replace("< 0.6", "< 9"))
    folder = start(file, "out")
    rows = rows_of(folder)
    for row in rows:
        assert (row["state"], row["cause"]) == (
            ("nan", "odd is not a number") if row["plant.x"] == 1.5 else ("ok", "")
        )
    counts = summarise(folder)
    assert counts["states"]["nan"] == sum(row["plant.x"] == 1.5 for row in rows) > 0
    assert counts["results"]["odd"]["not_finite"] == counts["states"]["nan"]


def test_ctrl_c_ends_the_study_and_leaves_no_row_of_the_run(file: str) -> None:
    text = SCENARIO.replace('raise ValueError("mode 1")', "signal.raise_signal(signal.SIGINT)")
    Path(file).write_text(text.replace("import math", "import math, signal"))
    study = table(control_mode=[0.0, 0.0, 1.0, 0.0])
    with sigterm_interrupts(), pytest.raises(KeyboardInterrupt):
        start(file, "out", study)
    assert [row["run"] for row in rows_of(Folder.open(Path("out")))] == [0, 1]


def test_a_second_process_is_refused(file: str) -> None:
    folder = start(file, "out")
    with folder.locked(), pytest.raises(StudyError, match="another process works on out"):
        resume("out")
    resume("out")


def test_a_full_disk_ends_the_study_and_a_resume_completes_it(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyarrow import parquet

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(parquet, "write_table", full)
        with pytest.raises(StudyError, match="No space left on device; 20 runs are lost"):
            start(file, "out")
    assert list(Path("out/results").iterdir()) == []
    assert len(rows_of(resume("out"))) == 20


def test_a_folder_that_is_in_use_or_damaged_is_refused(file: str) -> None:
    start(file, "out")
    with pytest.raises(StudyError, match="out exists already"):
        start(file, "out")
    with pytest.raises(StudyError, match="is not the folder of a study"):
        Folder.open(Path("nowhere"))
    (part,) = Path("out/results").iterdir()
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(StudyError, match="delete this file"):
        resume("out")
    part.unlink()
    assert len(rows_of(resume("out"))) == 20


def test_the_folder_holds_json_and_parquet_only(file: str) -> None:
    start(file, "out")
    files = sorted(
        str(path.relative_to("out")) for path in Path("out").rglob("*") if path.is_file()
    )
    assert files == ["lock", "plan.json", "results/part-000001.parquet"]
    plan = json.loads(Path("out/plan.json").read_text())
    assert plan["job"]["results"]["rows"] == {"function": "rows"}
    assert plan["factors"]["plant.x"] == {"range": [0.5, 0.9]}


def test_wrong_names_are_found_before_the_first_run(file: str) -> None:
    for factors, problem in (
        ({"plant.y": (0, 1)}, "unknown value 'y' in plant"),
        ({"gian": (0, 1)}, "did you mean gain"),
        ({"gain": ["much"]}, "not a number"),
    ):
        with pytest.raises(ScenarioError, match=problem):
            start(file, "out", Study(factors=factors, results={"x": Last("plant.x")}))
    assert not Path("out").exists()
    with pytest.raises(UnknownName, match="unknown result 'y'"):
        Study(results={"x": Last("plant.x")}, requirements=["y<1"])
    with pytest.raises(ScenarioError, match="has no function study"):
        start("unstable", "out")
    with pytest.raises(ScenarioError, match="x is a function"):
        start("unstable", "out", Study(results={"x": lambda _: 1.0}))
    with pytest.raises(ScenarioError, match="has no results"):
        start("unstable", "out", Study(results={}))
    assert not Path("out").exists()


def test_common_random_numbers_make_a_difference_narrower(file: str) -> None:
    study = Study(
        factors={"plant.x": (0.5, 0.9), "plant.stiffness": [2.0, 2.2]},
        design=CommonRandomNumbers("plant.stiffness", MonteCarlo(10)),
        results={"x": Last("plant.x")},
    )
    (first, second) = summarise(start(file, "out", study))["alternatives"]["x"]
    assert (first["value"], second["value"]) == (2.0, 2.2)
    difference = second["difference"]
    assert difference["low"] < second["mean"] - first["mean"] < difference["high"]
    assert difference["high"] - difference["low"] < 0.1 * (second["high"] - second["low"])


def test_pairs_and_strata_are_estimated_as_what_they_are(file: str) -> None:
    plan: dict[str, Any] = {
        "factors": {"plant.x": (0.5, 0.9)},
        "results": {"x": Last("plant.x")},
        "settings": {"gain": 1e-9},
    }
    plain = summarise(start(file, "a", Study(design=MonteCarlo(20), **plan)))["results"]["x"]
    pairs = summarise(start(file, "b", Study(design=Antithetic(20), **plan)))["results"]["x"]
    assert pairs["high"] - pairs["low"] < 1e-6 < plain["high"] - plain["low"]
    strata = Strata("plant.x", at=(0.75,), runs=(4, 16))
    folder = start(file, "c", Study(design=strata, requirements=["x<0.6"], **plan))
    found = summarise(folder)
    rows = rows_of(folder)
    weighted = sum(row["x"] * row["weight"] for row in rows)
    assert found["results"]["x"]["mean"] == pytest.approx(weighted)
    share = sum(row["weight"] for row in rows if row["x"] <= 0.6)
    assert 0.0 < share < 1.0
    assert found["requirements"]["x"]["share"] == pytest.approx(share)
    assert Tally.of(folder).rate("x") is None


@pytest.mark.long
def test_sensitivity_of_a_folder_leaves_incomplete_groups_out(file: str) -> None:
    factors = {"plant.x": (0.5, 0.9), "plant.v": (0.0, 1.0), "control.mode": [0.0] * 15 + [1.0]}
    study = Study(factors, Saltelli(base=16), {"x": Max("plant.x")})
    folder = start(file, "out", study)
    rows, plan = rows_of(folder), folder.plan
    design = plan.sampled
    assert isinstance(design, Saltelli)
    size = design.group(plan.space)
    groups = [rows[k : k + size] for k in range(0, len(rows), size)]
    whole = [row for group in groups for row in group if all(r["state"] == "ok" for r in group)]
    assert 2 * size <= len(whole) < len(rows)
    wanted = sobol_indices(plan.space, np.array([row["x"] for row in whole]), second=False)
    assert sensitivity(folder, "x") == wanted
    few = start(file, "few", Study(factors, Morris(trajectories=20), {"x": Max("plant.x")}))
    effects = sensitivity(few, "x")
    assert sum(row["state"] == "error" for row in rows_of(few)) > 0
    assert effects["plant.x"]["mu_star"] > effects["control.mode"]["mu_star"] == 0.0
    with pytest.raises(ScenarioError, match="gives no sensitivity indices"):
        sensitivity(start(file, "other", table(plant_x=[0.5, 0.6])), "x")


@pytest.mark.long
def test_recordings_of_failures_and_extremes_are_kept(file: str) -> None:
    found = find_study(file)
    assert found is not None
    folder = start(file, "out", replace(found, keep=["failures", "extremes"]))
    rows = rows_of(folder)
    wanted = {row["run"] for row in rows if row["x.margin"] < 0}
    for name in ("x", "w", "rows"):
        wanted.add(min(rows, key=lambda row: row[name])["run"])
        wanted.add(max(rows, key=lambda row: row[name])["run"])
    files = sorted(Path("out/recordings").iterdir())
    assert [path.name for path in files] == [f"run-{run:06d}.mcap" for run in sorted(wanted)]
    assert 2 < len(files) < 20
    first = Recording.open(files[0])
    assert first["plant.x"][-1] == rows[sorted(wanted)[0]]["x"]
    files[0].unlink()
    resume("out")
    assert files[0].exists()
    some = start(file, "some", replace(found, keep=[0.3], requirements=[]))
    assert chosen(some) == chosen(Folder.open(Path("some")))
    assert 0 < len(chosen(some)) < 20
    with pytest.raises(ScenarioError, match="keep has the entry 'all'"):
        replace(found, keep=["all"])


def test_orders_of_a_stored_plan_are_those_of_the_study(file: str) -> None:
    folder = start(file, "out")
    again = Plan.of_text(Path("out/plan.json").read_text(), "plan.json")
    assert [Orders(again)[k].factors for k in range(20)] == [
        {name: row[name] for name in ("gain", "label", "plant.x")} for row in rows_of(folder)
    ]
