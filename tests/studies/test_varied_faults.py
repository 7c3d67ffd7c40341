"""Numbers of faults by name: set, varied by studies and searches, saved, replayed and refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from falsified_parts import HELD, STUCK

from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.engine.faults import FaultError, fault_of
from rtsim.engine.faults.entries import entries_of, numbers_of, with_values
from rtsim.record.reading import Recording
from rtsim.runs.prepared import prepare
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.studies.counterexample import Counterexample
from rtsim.studies.falsification import Falsification, falsify
from rtsim.studies.folder import Folder
from rtsim.studies.running import repeat, resume, start
from rtsim.studies.study import Study

EARLY = {"stuck.at": "range:0,5"}
S = 1_000_000_000


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cart.py").write_text(HELD)
    Path("faults.toml").write_text(STUCK)


def rtsim(*words: str) -> tuple[int, str]:
    found = CliRunner().invoke(main, list(words))
    return found.exit_code, found.output


def search(scenario: str = "cart.py", **more: Any) -> Falsification:
    options: dict[str, Any] = {"factors": EARLY, "faults": ["faults.toml"], "runs": 60, **more}
    return falsify(scenario, **options)


def broken() -> Scenario:
    return load_scenario("cart.py:broken")


# -- set by name


def test_a_number_of_a_fault_is_set_by_name() -> None:
    loop = broken()
    other = loop.copy()
    loop.set("stuck.at", 0.25)
    loop.set("stuck.value", 2)
    (fault,) = loop.declared_faults
    assert (fault.at_ns, fault.parameters, fault.duration_ns) == (S // 4, {"value": 2.0}, S)
    assert other.declared_faults[0].at_ns == 5 * S + S // 2
    began = [e.tag.seconds for e in simulate(loop).recording().events if e.kind == "Fault"]
    assert began == [0.3]  # the controller reads its input each 0.1 s


def test_a_prepared_run_takes_the_number_for_this_run_only() -> None:
    runs = prepare(broken())
    early, late = (runs.run(set=given).final("cart.x") for given in ({"stuck.at": 0.0}, {}))
    assert early != late
    loop = broken()
    loop.set("stuck.at", 0.0)
    assert simulate(loop).final("cart.x") == early


def test_each_entry_with_a_number_can_be_set() -> None:
    given = {"name": "f", "where": "hold", "kind": "delay", "delay": "1/8", "when": "cart.x > 0"}
    fault = fault_of(given)
    assert entries_of(fault).names == (
        "at", "every", "probability", "until", "duration", "count", "seed", "delay"
    )  # fmt: skip
    assert {one.name for one in entries_of(fault) if one.unit == "s"} == {
        "at", "every", "until", "duration", "delay"
    }  # fmt: skip
    assert numbers_of(fault) == {"delay": 0.125}
    (made,), others = with_values([fault], {"f.count": 3.0, "f.gain": 1.0, "hold.count": 2.0})
    assert (made.count, others) == (3, {"f.gain": 1.0, "hold.count": 2.0})
    assert "period" in entries_of(broken().declared_faults[0])


@pytest.mark.parametrize(
    ("target", "value", "says"),
    [
        (
            "stukc.at",
            1.0,
            "unknown component or fault 'stukc' in scenario cart; did you mean stuck",
        ),
        ("hodl.x", 1.0, "unknown component or fault 'hodl' in scenario cart; did you mean hold"),
        ("stuck.att", 1.0, "unknown value 'att' in stuck; did you mean at"),
        ("stuck.where", 1.0, "unknown value 'where' in stuck"),
        ("stuck.at", -1.0, r"fault stuck: at = -1 is not valid; write seconds >= 0"),
        ("stuck.count", 1.5, r"fault stuck: count = 1.5 is not valid; write a whole number"),
        ("stuck.count", 2, "both duration and count are given"),
        ("stuck.until", 5.0, "until is not after at"),
        ("stuck.probability", 1.5, r"fault stuck: probability = 1.5 is not valid"),
    ],
)
def test_a_wrong_name_or_number_is_refused(target: str, value: float, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        broken().set(target, value)


def test_a_number_of_a_fault_does_not_change_during_the_run() -> None:
    with pytest.raises(ScenarioError, match=r"stuck\.at cannot change during a run"):
        broken().at(1, "stuck.at", 2.0)
    with pytest.raises(ScenarioError, match=r"stuck\.at is not a number that can change"):
        broken().drive("stuck.at", [(0, 1.0)])


def test_without_faults_the_error_names_components_only() -> None:
    with pytest.raises(UnknownName, match="unknown component 'stuck' in scenario cart"):
        load_scenario("cart.py", {"stuck.at": 1.0})


def test_a_fault_with_the_name_of_a_component_does_not_hide_its_values() -> None:
    loop = load_scenario("cart.py")
    loop.faults({"name": "cart", "where": "hold.x", "kind": "drift", "rate": 1.0})
    loop.set("cart.x", 2.0)
    loop.set("cart.rate", 3.0)
    assert loop.declared_faults[0].parameters == {"rate": 3.0}
    assert loop.components["cart"].settable()[1].values["x"] == 2.0
    with pytest.raises(UnknownName, match="did you mean rate"):
        loop.set("cart.rat", 1.0)
    loop.source("drift", rt_signals())
    loop.faults({"name": "drift", "where": "hold.x", "kind": "drift", "rate": 1.0})
    with pytest.raises(ScenarioError, match=r"drift\.rate is a value of the component drift and"):
        loop.set("drift.rate", 1.0)


def rt_signals() -> Any:
    import rtsim as rt

    return rt.Signals("rate [1/s]")


# -- searches


@pytest.mark.long
def test_the_search_finds_the_time_of_a_fault_and_the_run_is_repeated() -> None:
    found = search()
    assert found.counterexample is not None
    at = float(found.values["stuck.at"])
    assert 0.0 <= at <= 5.0
    again = found.counterexample.check()
    assert again.robustness == found.robustness < 0.0
    (fault,) = found.to_json()["counterexample"]["faults"]
    assert (fault["at"], fault["where"]) == (at, "hold.x")
    assert search().values == found.values


def test_a_search_with_a_misspelt_fault_does_not_begin() -> None:
    with pytest.raises(ScenarioError, match="did you mean stuck"):
        search(factors={"stukc.at": "range:0,5"}, folder="runs")
    with pytest.raises(FaultError, match="fault stuck: duration = 0 is not valid"):
        search(factors={"stuck.duration": "values:0"}, folder="runs")
    with pytest.raises(FaultError, match="another fault has the same name"):
        search("cart.py:broken", folder="runs")
    assert not Path("runs").exists()


@pytest.mark.long
def test_the_command_saves_the_fault_with_its_found_time() -> None:
    words = ["falsify", "cart.py", "--faults", "faults.toml", "--factor", "stuck.at=range:0,5"]
    status, said = rtsim(*words, "--workers", "0")
    assert status == 1, said
    assert re.search(r"^  stuck.at = [\d.]+$", said, re.M)
    text = Path("back.counterexample.toml").read_text()
    assert "[set]" not in text
    assert text.count("[[fault]]") == 1
    assert 'where = "hold.x"\nkind = "stuck"\nat = ' in text
    one = Counterexample.open("back.counterexample.toml")
    at = one.faults[0].at_ns
    assert at is not None
    assert at % (S // 10) == 0  # made rounder
    assert at <= 5 * S
    Path("faults.toml").unlink()
    assert one.check().verdict == "violated"
    one.save(Path("again.toml"))
    assert Counterexample.open("again.toml") == one
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_back.py"]
    tested = subprocess.run(command, capture_output=True, text=True)
    assert tested.returncode == 1
    assert "BACK is violated" in tested.stdout


def test_rtsim_run_repeats_the_saved_fault_and_its_replay_is_equal() -> None:
    found = search().counterexample
    assert found is not None
    found.save(Path("one.toml"))
    words = ["run", "cart.py", "--counterexample", "one.toml"]
    status, said = rtsim(*words, "-o", "a.mcap")
    assert status == 1, said
    assert Recording.open("a.mcap").header["scenario"]["faults"][0]["at"] == float(
        found.values["stuck.at"]
    )
    status, said = rtsim("replay", "a.mcap")
    assert "rows equal bit for bit" in said, said
    status, said = rtsim(*words, "--set", "stuck.at=5.5", "-o", "b.mcap")
    assert status == 0, said  # typed values replace those of the file


def test_a_fault_of_the_scenario_is_a_value_of_the_counterexample() -> None:
    found = search("cart.py:broken", faults=()).counterexample
    assert found is not None
    found.save(Path("one.toml"))
    text = Path("one.toml").read_text()
    assert "[[fault]]" not in text
    assert '[set]\n"stuck.at" = ' in text
    assert Counterexample.open("one.toml").check().verdict == "violated"


def test_a_wrong_fault_in_a_counterexample_file_is_refused_with_its_line() -> None:
    found = search().counterexample
    assert found is not None
    found.save(Path("one.toml"))
    text = Path("one.toml").read_text()
    line = 1 + text[: text.index('kind = "stuck"')].count("\n")
    Path("one.toml").write_text(text.replace('kind = "stuck"', 'kind = "stukc"'))
    with pytest.raises(ScenarioError, match=rf"one\.toml:{line}: unknown kind 'stukc'"):
        Counterexample.open("one.toml")
    twice = text[text.index("[[fault]]") :]
    Path("one.toml").write_text(f"{text}\n{twice}")
    with pytest.raises(FaultError, match="another fault has the same name"):
        Counterexample.open("one.toml")


# -- studies


def test_a_study_varies_a_fault_and_repeats_a_run_without_the_fault_file() -> None:
    study = Study({"stuck.at": [0.0, 0.5, 5.5]}, "grid:levels=3", faults=["faults.toml"])
    folder = start("cart.py", "study", study)
    Path("faults.toml").unlink()
    table = folder.table("stuck.at", "BACK.margin").to_pydict()
    assert table["stuck.at"] == [0.0, 0.5, 5.5]
    assert table["BACK.margin"][0] < 0.0 < table["BACK.margin"][2]
    assert repeat(folder, 1).equal is True
    status, said = rtsim("study", "run", "study", "0", "-o", "run-0.mcap")
    assert status == 0, said
    assert "the digest equals the stored one" in said
    status, said = rtsim("replay", "run-0.mcap")
    assert "rows equal bit for bit" in said, said
    assert resume("study").digest == folder.digest


def test_a_study_on_the_command_line_varies_a_fault(tmp_path: Path) -> None:
    words = ["study", "start", "cart.py", "--faults", "faults.toml", "--workers", "0"]
    words += ["--factor", "stuck.at=values:0,5.5", "--design", "grid:levels=2", "-o", "typed"]
    status, said = rtsim(*words, "--json")
    assert status == 0, said
    found = json.loads(said)
    assert found["requirements"]["BACK"]["passed"] == 1
    assert Folder.open(tmp_path / "typed").plan.job.faults[0]["name"] == "stuck"
    status, said = rtsim(*words[:-1], "other", "--factor", "stukc.at=values:0,5.5")
    assert status == 2
    assert "did you mean stuck" in said


def test_the_study_of_the_file_keeps_its_faults_beside_those_that_are_typed() -> None:
    Path("cart.py").write_text(
        HELD + "\n\ndef study():\n    from rtsim.studies import Study\n"
        '    return Study({"stuck.at": [0.0, 5.5]}, "grid:levels=2", faults=["faults.toml"])\n'
    )
    Path("lost.toml").write_text(STUCK.replace('"stuck"\nwhere', '"late"\nwhere'))
    status, said = rtsim(
        "study", "start", "cart.py", "--faults", "lost.toml", "--workers", "0", "-o", "both"
    )
    assert status == 0, said
    assert [one["name"] for one in Folder.open(Path("both")).plan.job.faults] == ["late", "stuck"]


def test_faults_of_a_study_are_a_list() -> None:
    for wrong in ("faults.toml", Path("faults.toml"), {"name": "stuck"}):
        with pytest.raises(ScenarioError, match="give a list of fault files or dicts"):
            Study({"stuck.at": (0.0, 5.0)}, faults=wrong)  # type: ignore[arg-type]


def test_a_plan_without_faults_is_that_of_earlier_versions() -> None:
    folder = start("cart.py", "plain", Study({"cart.x": [0.0, 1.0]}, "grid:levels=2"))
    assert "faults" not in json.loads(folder.plan.to_text())["job"]


# -- other commands


def test_a_typed_number_changes_the_fault_of_a_file_and_the_replay_is_equal() -> None:
    words = ["run", "cart.py", "--faults", "faults.toml", "-o", "a.mcap"]
    status, said = rtsim(*words, "--set", "stuck.at=0", "--set", "stuck.duration=1.2")
    assert status == 1, said
    status, said = rtsim("replay", "a.mcap")
    assert "rows equal bit for bit" in said, said
    status, said = rtsim(*words, "--force", "--set", "stuck.att=0")
    assert status == 2
    assert "unknown value 'att' in stuck; did you mean at" in said
