# ruff: noqa: ARG001
"""Runs of a study that end at a guard which declares a failure: they miss every requirement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from study_commands import parsed, rtsim

from rtsim import Guard, Model, Scenario, Signals
from rtsim.core.errors import Undecided
from rtsim.core.outcome import Outcome
from rtsim.studies import MaxAbs, MonteCarlo, Search, Study, Table, start, summarise
from rtsim.studies.folder import Folder
from rtsim.studies.progress import Tally
from rtsim.studies.running import chosen
from rtsim.studies.summary import Summary


def fall(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:
    dx[0] = -1.0


def levels(t: float, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:
    g[0] = x[0] - p[0]
    g[1] = x[0] - p[1]


def scenario() -> Scenario:
    """A body that sinks from 5 m: above 2 m it is caught, else it hits the ground at 0 m."""
    model = Model(
        "body", Signals("h [m] = 5"), fall, parameters=Signals("ground = 0", "net = -1"),
        guard=levels,
        guards=(
            Guard("ground", direction=-1, terminal=True, failure="the body hit the ground"),
            Guard("net", direction=-1, terminal=True),
        ),
    )  # fmt: skip
    out = Scenario("fall", until=10)
    out.plant("body", model, step=0.25)
    return out


FILE = """
from rtsim.studies import MaxAbs, Study, Table
from test_study_failures import scenario

def study():
    return Study(
        design=Table({"body.net": [-1.0, 2.0, -1.0]}),
        results={"peak": MaxAbs("body.h")}, requirements=["peak < 100"], keep=["failures"],
    )
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").touch()
    Path("fall.py").write_text(FILE)
    return "fall.py"


def test_a_run_that_a_guard_failed_passes_no_requirement(file: str) -> None:
    folder = start(file, "out")
    rows = folder.table().to_pylist()
    assert [row["state"] for row in rows] == ["failed", "ok", "failed"]
    assert [row["peak.margin"] is None for row in rows] == [True, False, True]
    assert rows[0]["ended_s"] == pytest.approx(5.0)
    found = summarise(folder)
    one = found["requirements"]["peak"]
    assert (one["passed"], one["failed"], one["count"], one["not_a_number"]) == (1, 2, 3, 0)
    assert (one["worst_run"], one["worst_margin"]) == (1, 95.0)
    assert found["failures"] == {
        "body.ground": {"runs": 2, "failure": "the body hit the ground", "first_run": 0}
    }
    tally = Tally.of(folder)
    assert (tally.passed["peak"], tally.decided, tally.failures) == (1, 3, 2)
    assert chosen(folder) == [0, 2]


def test_declared_failures_fail_strict_the_report_and_a_run_again(file: str) -> None:
    found = parsed(rtsim("start", file, "--workers", "0", "-o", "out", "--json"))
    assert (found["outcome"], found["exit_status"]) == ("failed", 0)
    for words in (("show", "out", "--strict"), ("report", "out", "--strict")):
        result = rtsim(*words)
        assert result.exit_code == 1
        assert "body.ground" in result.output
    assert "the body hit the ground" in Path("out/report.html").read_text()
    assert "body.ground (2)" in Path("out/report.html").read_text()
    again = rtsim("run", "out", "0")
    assert again.exit_code == 1
    assert "the body hit the ground" in again.output
    assert rtsim("run", "out", "1").exit_code == 0
    assert "failed at body.ground: 2 runs" in rtsim("show", "out").output


def test_declared_failures_fail_a_study_without_requirements(file: str) -> None:
    study = Study(design=MonteCarlo(2), results={"peak": MaxAbs("body.h")})
    start(file, "out", study)
    assert parsed(rtsim("show", "out", "--json"))["outcome"] == "failed"
    assert rtsim("show", "out", "--strict").exit_code == 1


def test_a_search_moves_to_a_declared_failure(file: str) -> None:
    study = Study(
        factors={"body.net": (-1.0, 2.0)},
        design=Search("peak", runs=20, population=20, stop_at_failure=True),
        results={"peak": MaxAbs("body.h")},
        requirements=["peak < 100"],
    )
    found: dict[str, Any] = summarise(start(file, "out", study))
    assert found["ended"] == "no margin"
    assert found["search"]["worst_state"] == "failed"
    assert parsed(rtsim("show", "out", "--json"))["outcome"] == "failed"


def test_a_guard_without_a_failure_is_a_normal_end(file: str) -> None:
    study = Study(
        design=Table({"body.net": [2.0]}),
        results={"peak": MaxAbs("body.h"), "late": MaxAbs("body.h", after=4)},
        requirements=["late < 100"],
    )
    (row,) = start(file, "out", study).table().to_pylist()
    assert (row["state"], row["reason"], row["peak"]) == ("nan", "terminal", 5.0)
    assert "the run ended at 3 s, but its window begins at 4 s" in row["cause"]
    assert summarise(Folder.open(Path("out")))["requirements"]["late"]["passed"] == 0


@pytest.mark.parametrize(
    ("requirements", "nets", "outcome", "words"),
    [
        (["peak < 100"], [2.0, 3.0], Outcome.PASSED, "peak <= 100: 2 of 2 runs pass"),
        (["peak < 1"], [2.0, 3.0], Outcome.FAILED, "peak <= 1: 0 of 2 runs pass"),
        (["peak < 1"], [2.0, 3.0], Outcome.FAILED, "2 of 2 runs miss the requirement"),
        ([], [2.0, 3.0], Outcome.UNDECIDED, "no run was compared with a requirement"),
        (["peak < 100"], [2.0, -1.0], Outcome.FAILED, "peak <= 100: 1 of 2 runs pass"),
        ([], [2.0, -1.0], Outcome.FAILED, "2 of 2 runs have ended"),
        ([], [2.0, 3.0], Outcome.UNDECIDED, "2 of 2 runs have ended"),
    ],
)
def test_the_truth_value_of_a_summary_is_the_outcome_of_the_study(
    file: str, requirements: list[str], nets: list[float], outcome: Outcome, words: str
) -> None:
    study = Study(
        design=Table({"body.net": nets}), results={"peak": MaxAbs("body.h")},
        requirements=requirements,
    )  # fmt: skip
    found = summarise(start(file, "out", study))
    assert found.outcome is outcome
    assert outcome.name.lower() in found.in_words
    assert words in found.in_words
    if outcome is Outcome.UNDECIDED:
        with pytest.raises(Undecided, match=words):
            bool(found)
    else:
        assert bool(found) is (outcome is Outcome.PASSED)
    assert json.loads(json.dumps(found)) == found  # still plain data
    assert parsed(rtsim("show", "out", "--json"))["outcome"] == outcome.name.lower()


def test_a_study_with_missing_runs_is_undecided_and_one_with_errors_has_failed(file: str) -> None:
    study = Study(
        design=Table({"body.net": [2.0, 3.0]}), results={"peak": MaxAbs("body.h")},
        requirements=["peak < 100"],
    )  # fmt: skip
    found = summarise(start(file, "out", study))
    for key, value, outcome in (
        ("rows", 1, Outcome.UNDECIDED),
        ("states", {**found["states"], "lost": 1}, Outcome.UNDECIDED),
        ("states", {**found["states"], "timeout": 1}, Outcome.UNDECIDED),
        ("states", {**found["states"], "error": 1}, Outcome.FAILED),
        ("states", {**found["states"], "nan": 1}, Outcome.FAILED),
        ("search", {}, Outcome.UNDECIDED),
    ):
        assert Summary({**found, key: value}).outcome is outcome
