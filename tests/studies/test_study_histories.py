"""Time histories of a study: their values, the files that hold them, and what they leave alone."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from distributed.protocol.pickle import dumps, loads
from hypothesis import given
from hypothesis import strategies as st

from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.schema import TrackSpec
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.studies.designs import MonteCarlo, Table
from rtsim.studies.folder import Folder, StudyError
from rtsim.studies.measures import POINTS, History, grid_of
from rtsim.studies.one_run import Runner
from rtsim.studies.plan import Orders, Plan
from rtsim.studies.reductions import Last
from rtsim.studies.running import resume, start
from rtsim.studies.study import Study

SIGNALS = ("plant.x", "controller.force")
STUDY = Study(
    {"plant.x": (0.5, 0.9)},
    MonteCarlo(5),
    {"last": Last("plant.x")},
    until=1,
    histories=SIGNALS,
)


pytestmark = pytest.mark.usefixtures("empty_project")


def stored(folder: Folder, signal: str) -> dict[int, Any]:
    """The time histories by run."""
    return {
        int(run): row
        for runs, values in folder.histories(signal)
        for run, row in zip(runs, values, strict=True)
    }


def rows_of(ns: list[int], values: list[float]) -> Any:
    words = np.zeros((len(ns), 3), np.int64)
    words[:, 0] = ns
    words[:, 2] = np.array(values, np.float64).view(np.int64)
    return words


def sampled(ns: list[int], values: list[float], grid: Any, cuts: list[int], ended: int) -> Any:
    history = History("plant.x", grid)
    words = rows_of(ns, values)
    for a, b in pairwise(sorted({0, len(ns), *(cut for cut in cuts if cut < len(ns))})):
        history.take(TrackSpec("plant", ("step",), Signals("x")), words[a:b])
    return history.values(ended)


def test_the_value_at_a_time_is_that_of_the_last_row_before_it() -> None:
    grid = np.array([0, 10, 20, 30, 40])
    found = sampled([5, 10, 10, 25], [1.0, 2.0, 3.0, 4.0], grid, [2], ended=30)
    assert np.array_equal(found, [math.nan, 3.0, 3.0, 4.0, math.nan], equal_nan=True)


@given(
    steps=st.lists(st.integers(0, 4), min_size=1, max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=5),
)
def test_a_history_does_not_depend_on_how_the_rows_are_divided(
    steps: list[int], cuts: list[int]
) -> None:
    ns = np.cumsum(steps).tolist()
    values = [float(k) for k in range(len(ns))]
    grid = np.arange(0, 60, 3)
    found = sampled(ns, values, grid, cuts, ended=50)
    for time, value in zip(grid.tolist(), found.tolist(), strict=True):
        before = [v for t, v in zip(ns, values, strict=True) if t <= time <= 50]
        wanted = before[-1] if before else math.nan
        assert value == wanted or (math.isnan(value) and math.isnan(wanted)), time


def test_the_grid_ends_with_the_run_and_has_at_most_200_times() -> None:
    assert grid_of(3).tolist() == [0, 1, 2, 3]
    grid = grid_of(10**9)
    assert (len(grid), grid[0], grid[-1]) == (POINTS, 0, 10**9)
    assert np.ptp(np.diff(grid)) <= 1


def test_each_run_of_a_study_stores_its_signals() -> None:
    folder = start("unstable", "out", STUDY)
    grid = folder.plan.job.grid
    assert (len(grid), grid[-1]) == (POINTS, 10**9)
    listed = folder.table().to_pylist()
    for signal, track in (("plant.x", "plant"), ("controller.force", "messages/controller")):
        found = stored(folder, signal)
        assert sorted(found) == [0, 1, 2, 3, 4]
        for row in listed[:2]:
            scenario = load_scenario("unstable", {"plant.x": repr(row["plant.x"])})
            recorder = MemoryRecorder()
            recording = simulate(scenario, seed=row["seed"], until=1, recorder=recorder).recording()
            rows = recording.track(track)
            where = np.searchsorted(rows.ns, grid, side="right") - 1
            column = rows.column(signal.partition(".")[2])
            wanted = np.where(where < 0, math.nan, column[where])
            assert np.array_equal(found[row["run"]], wanted, equal_nan=True)


def test_histories_are_equal_with_and_without_preparation_and_behind_the_wire() -> None:
    plan = Plan.of(STUDY, "unstable").with_histories_until(10**9)
    prepared, plain = Runner(plan.job), Runner(plan.job, prepared=False)
    orders = [Orders(plan)[k] for k in range(5)]
    rows = [prepared.row(order) for order in orders]
    for row, again in zip(rows, loads(dumps(rows)), strict=True):
        for signal, values in plain.row(row.order).histories.items():
            assert np.array_equal(row.histories[signal], values, equal_nan=True)
            assert np.array_equal(again.histories[signal], values, equal_nan=True)
        assert set(row.histories) == set(again.histories) == set(SIGNALS)


@pytest.mark.long
@pytest.mark.live
def test_histories_come_back_from_workers() -> None:
    here, there = start("unstable", "here", STUDY), start("unstable", "there", STUDY, workers=1)
    for signal in SIGNALS:
        found, wanted = stored(there, signal), stored(here, signal)
        assert sorted(found) == sorted(wanted) == [0, 1, 2, 3, 4]
        assert all(np.array_equal(found[k], wanted[k], equal_nan=True) for k in wanted)


def test_histories_change_neither_digests_nor_results() -> None:
    with_them = start("unstable", "with", STUDY).table().drop(["wall_s"])
    without = start("unstable", "without", replace(STUDY, histories=())).table().drop(["wall_s"])
    assert with_them.equals(without)
    assert not Path("without/histories").exists()


def test_a_run_that_ends_early_has_nan_afterwards_and_one_that_fails_at_once_has_nothing() -> None:
    Path("early.py").write_text(
        "from rtsim import PythonController, Scenario, Signals\n"
        "from rtsim.models.unstable import UNSTABLE\n\n\n"
        "def control(t, u, s, p, y):\n"
        "    if t > p[0]:\n"
        "        raise ValueError('late')\n"
        "    y[0] = 0.0\n\n\n"
        "def scenario(gain=1.0):\n"
        "    if gain < 0:\n"
        "        raise ValueError('gain')\n"
        "    out = Scenario('early', until=1)\n"
        "    out.plant('plant', UNSTABLE, step=0.05, inputs={'force': 'control.force'})\n"
        "    law = PythonController(control, Signals('x'), Signals('force [N/kg]'),\n"
        "                           parameters=Signals('limit = 9'))\n"
        "    out.controller('control', law, period=0.1, inputs={'x': 'plant.x'})\n"
        "    return out\n"
    )
    design = Table({"control.limit": [9.0, 0.45, 9.0], "gain": [1.0, 1.0, -1.0]})
    study = Study(design=design, results={"x": Last("plant.x")}, histories=["plant.x"])
    folder = start("early.py", "out", study)
    assert folder.table("state")["state"].to_pylist() == ["ok", "error", "error"]
    found = stored(folder, "plant.x")
    assert sorted(found) == [0, 1]
    seconds = folder.plan.job.grid / 1e9
    assert seconds[-1] == 1.0  # the scenario's own end
    assert np.isfinite(found[0]).all()
    assert np.array_equal(np.isnan(found[1]), seconds > folder.row(1)["ended_s"])  # type: ignore[index]
    assert 0.4 < folder.row(1)["ended_s"] < 0.6  # type: ignore[index]


def test_only_histories_of_stored_results_are_read_and_a_resume_computes_the_others() -> None:
    whole = start("unstable", "whole", STUDY)
    folder = start("unstable", "out", STUDY)
    (results,) = Path("out/results").iterdir()
    results.unlink()  # as after a crash between the two files
    assert stored(folder, "plant.x") == {}
    again = resume("out")
    assert [path.name for path in Path("out/histories").iterdir()] == [results.name]
    for run, row in stored(whole, "plant.x").items():
        assert np.array_equal(stored(again, "plant.x")[run], row)


def test_rows_are_written_before_their_histories_fill_the_memory() -> None:
    long = replace(STUDY, histories=[f"plant.x{k}" for k in range(50)])
    folder = Folder(Path("out"), Plan.of(long, "unstable"))
    assert folder._most == 1_000_000 // (50 * POINTS)
    assert Folder(Path("out"), Plan.of(STUDY, "unstable"))._most == 2500


def test_a_damaged_file_is_named() -> None:
    folder = start("unstable", "out", STUDY)
    (path,) = Path("out/histories").iterdir()
    path.write_bytes(b"no parquet")
    with pytest.raises(StudyError, match=r"histories.part-000001.parquet cannot be read"):
        stored(folder, "plant.x")
    path.unlink()
    assert stored(folder, "plant.x") == {}


@pytest.mark.parametrize("command", ["show", "report", "resume"])
def test_every_command_refuses_a_file_of_histories_that_was_edited(command: str) -> None:
    start("unstable", "out", STUDY)
    (path,) = Path("out/histories").iterdir()
    table = pyarrow.parquet.read_table(path)
    values = [[0.0] * POINTS for _ in range(5)]
    at = table.schema.get_field_index("plant.x")
    edited = table.set_column(at, "plant.x", pyarrow.array(values))
    pyarrow.parquet.write_table(edited.replace_schema_metadata(table.schema.metadata), path)
    done = CliRunner().invoke(main, ["study", command, "out"])
    assert done.exit_code == 2
    assert "the checksum of its column plant.x is wrong" in done.output
    assert "delete this file" in done.output
    path.unlink()
    assert CliRunner().invoke(main, ["study", command, "out"]).exit_code == 0


def test_what_a_run_does_not_have_is_named() -> None:
    for signal, says in (("plant.y", "unknown signal 'y'"), ("plan.x", "history of plan.x")):
        with pytest.raises(ScenarioError, match=says):
            start("unstable", signal, replace(STUDY, histories=[signal]))
    with pytest.raises(ScenarioError, match=r"write COMPONENT\.SIGNAL"):
        replace(STUDY, histories=["x"])
    with pytest.raises(ScenarioError, match="give a list of signals"):
        replace(STUDY, histories="plant.x")


def test_signals_are_named_on_the_command_line() -> None:
    words = "start unstable --workers 0 --runs 2 --until 0.2 -o out --result x=last:plant.x"
    more = ["--history", "plant.x", "--history", "plant.v", "--history", "plant.x"]
    done = CliRunner().invoke(main, ["study", *words.split(), *more])
    assert done.exit_code == 0, done.output
    folder = Folder.open(Path("out"))
    assert folder.plan.job.histories == ["plant.x", "plant.v"]
    assert sorted(stored(folder, "plant.v")) == [0, 1]
