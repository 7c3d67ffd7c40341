"""Experiments: a balanced order, sessions that continue, answers, and one table."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rtsim.cli.main import main
from rtsim.core.errors import RecordingError, RtsimError, ScenarioError
from rtsim.models.piloting.experiment import (
    ExperimentFolder,
    Question,
    experiment_of,
    orders,
    read_experiment,
    williams,
)

FILE = """
scenario = "tracking"
participants = ["p1", "p-2"]
seed = 5
until = "{until}"
[settings]
gain = 4.0
[conditions]
latency = [0.0, 0.2]
[[questions]]
name = "workload"
text = "How hard was it?"
[[questions]]
name = "remark"
text = "Anything to add?"
kind = "text"
"""


def declared(folder: Path, until: str = "70") -> Path:
    path = folder / "latency.toml"
    path.write_text(FILE.format(until=until))
    return path


def typed(*words: object, given: str = "") -> Any:
    return CliRunner().invoke(main, ["experiment", *map(str, words)], input=given)


@pytest.mark.parametrize("count", range(1, 8))
def test_a_square_is_balanced(count: int) -> None:
    rows = williams(count)
    for position in zip(*rows, strict=True):
        assert all(position.count(v) == len(rows) // count for v in range(count))
    follows = [pair for row in rows for pair in pairwise(row)]
    assert len({follows.count(pair) for pair in follows}) <= 1
    assert len(set(follows)) == count * (count - 1)


def test_the_order_depends_on_the_seed_alone_and_uses_all_rows() -> None:
    assert orders(4, 4, 1, seed=3) == orders(4, 4, 1, seed=3)
    assert orders(4, 4, 1, seed=3) != orders(4, 4, 1, seed=4)
    first = [blocks[0][0] for blocks in orders(4, 4, 1, seed=3)]
    assert sorted(first) == [0, 1, 2, 3]
    for blocks in orders(3, 5, 2, seed=1):
        assert [sorted(block) for block in blocks] == [[0, 1, 2]] * 2


def test_a_session_flies_asks_continues_and_gives_one_table(tmp_path: Path) -> None:
    file = declared(tmp_path)
    plan = typed(file)
    assert plan.exit_code == 0
    assert "p-2" in plan.output
    first = typed(file, "--participant", "p1", "--scripted", "--trials", 1, given="11\n4\nfine\n")
    assert first.exit_code == 0, first.output
    assert "is not a number from 1 to 10" in first.output
    second = typed(file, "--participant", "p1", "--scripted", "--no-questions", "--json")
    told = json.loads(second.stdout[second.stdout.index("{") :])
    assert told["progress"] == {"p1": {"done": 2, "trials": 2}, "p-2": {"done": 0, "trials": 2}}
    assert "all 2 trials are done" in typed(file, "--participant", "p1", "--scripted").output
    table = tmp_path / "out.csv"
    assert typed(file, "--table", table).exit_code == 0
    with table.open() as opened:
        rows = list(csv.DictReader(opened))
    assert [r["workload"] for r in rows] == ["4.0", "nan"]
    assert [r["remark"] for r in rows] == ["fine", ""]
    assert sorted(float(r["condition_latency"]) for r in rows) == [0.0, 0.2]
    for row in rows:
        assert float(row["latency [s]"]) == float(row["condition_latency"])
        assert float(row["pitch_crossover [rad/s]"]) == pytest.approx(2.0, rel=0.05)
        assert (tmp_path / "latency" / row["recording"]).is_file()
    recording = tmp_path / "latency" / rows[0]["recording"]
    measured = CliRunner().invoke(main, ["measure", str(recording), "--json"])
    crossover = json.loads(measured.stdout)["task"]["measures"]["pitch_crossover"]
    assert crossover["unit"] == "rad/s"
    assert crossover["value"] == float(rows[0]["pitch_crossover [rad/s]"])
    again = typed(file, "--table", table)
    assert again.exit_code == 2
    assert "exists; give another --table PATH" in again.output


@pytest.mark.long
def test_a_trial_that_was_ended_early_is_flown_again_into_another_file(tmp_path: Path) -> None:
    file = declared(tmp_path, until="12")
    ended = typed(file, "--participant", "p1", "--scripted")
    assert ended.exit_code == 130
    assert "will be flown again" in ended.output
    folder = ExperimentFolder.open(tmp_path / "latency", read_experiment(file))
    assert len(folder.left("p1")) == 2
    before = {p: p.read_bytes() for p in (tmp_path / "latency" / "recordings").iterdir()}
    assert typed(file, "--participant", "p1", "--scripted").exit_code == 130
    after = {p: p.read_bytes() for p in (tmp_path / "latency" / "recordings").iterdir()}
    assert len(after) == len(before) + 1
    assert all(after[p] == data for p, data in before.items())


@pytest.mark.long
def test_a_task_that_changes_between_sessions_is_refused(tmp_path: Path) -> None:
    task = tmp_path / "short.toml"
    task.write_text('kind = "tracking"\nmeasured = 2.0\nmultiples = [1, 2, 3]\nbegin = 1.0')
    file = tmp_path / "e.toml"
    file.write_text(
        f'scenario = "tracking"\ntask = "{task}"\nparticipants = ["p"]\nrepetitions = 2\n'
    )
    session = (file, "--participant", "p", "--scripted", "--trials", 1)
    assert typed(*session).exit_code == 0
    task.write_text(task.read_text() + "\nfade = 0.5")
    changed = typed(*session)
    assert changed.exit_code == 2
    assert "has changed since the first trials" in changed.output


def test_a_result_is_never_overwritten_and_a_changed_file_is_refused(tmp_path: Path) -> None:
    file = declared(tmp_path)
    experiment = read_experiment(file)
    folder = ExperimentFolder.open(tmp_path / "data", experiment)
    trial = experiment.trials("p1")[0]
    folder.keep(trial, {"measures": {}})
    with pytest.raises(RecordingError, match="nothing was overwritten"):
        folder.keep(trial, {"measures": {"a": 1}})
    assert json.loads(folder.result_path(trial).read_text()) == {"measures": {}}
    folder.result_path(trial).write_text("{")
    with pytest.raises(RecordingError, match="cannot be read"):
        folder.results()
    file.write_text(file.read_text() + "\n# more\n")
    with pytest.raises(ScenarioError, match="another version of the experiment"):
        ExperimentFolder.open(tmp_path / "data", read_experiment(file))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"participants": []}, "write one or more different names"),
        ({"participants": ["../p"]}, "letters, digits"),
        (
            {"conditions": {"latency": 0.1}},
            "latency = 0.1 is not valid; write a list, such as [0.0, 0.1]",
        ),
        ({"conditions": {"latency": [0.1, 0.1]}}, "contains a value twice"),
        ({"conditions": {"gain": [1.0]}, "settings": {"gain": 2.0}}, "gain is given twice"),
        ({"repetitions": 0}, "whole number >= 1"),
        ({"scenario": ""}, "write the name of a scenario"),
        ({"question": []}, "did you mean questions"),
        ({"questions": [{"name": "a b", "text": "x"}]}, "becomes a column"),
        ({"questions": [{"name": "a", "text": "x", "kind": "scales"}]}, "did you mean scale"),
        ({"questions": [{"name": "a", "text": "x"}] * 2}, "have the same name"),
    ],
)
def test_a_wrong_declaration_is_refused_with_what_to_type(
    change: dict[str, Any], says: str
) -> None:
    right = {"scenario": "tracking", "participants": ["p1"]}
    with pytest.raises(RtsimError) as raised:
        experiment_of({**right, **change}, "experiment x", "")
    assert says in str(raised.value)


def test_conditions_of_components_and_answers() -> None:
    nested = {"scenario": "f16", "participants": ["a"], "conditions": {"f16": {"cg": [0.2, 0.3]}}}
    assert list(experiment_of(nested, "x", "").conditions) == ["f16.cg"]
    choice = Question("a", "b", "choice", choices=("yes", "no"))
    assert choice.read(" yes\n") == "yes"
    assert choice.read("\n") is None
    with pytest.raises(ScenarioError, match="is none of yes, no"):
        choice.read("maybe")
