"""``rtsim schedule``: verdicts and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import rtsim

SCENARIO = """
import rtsim as rt

def scenario(execution=0.001, offset=0.0):
    loop = rt.Scenario("tasks", until=0.1)
    loop.processor("mcu", policy="rm")
    loop.task("fast", "mcu", period=0.01, execution=0.004)
    loop.task("slow", "mcu", period=0.02, deadline=0.006, execution=execution, offset=offset)
    return loop
"""


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.py"
    path.write_text(SCENARIO)
    return path


def test_tasks_that_meet_their_deadlines_pass(tasks: Path) -> None:
    found = rtsim("schedule", tasks)
    assert found.exit_code == 0, found.output
    assert "FAILED" not in found.output


def test_a_deadline_that_is_missed_in_the_run_fails(tasks: Path) -> None:
    found = rtsim("schedule", tasks, "--set", "execution=0.003")
    assert found.exit_code == 1
    assert "FAILED: slow missed deadlines" in found.output


@pytest.mark.parametrize("run", [["--no-run"], []])
def test_a_deadline_that_the_analysis_does_not_guarantee_fails(tasks: Path, run: list[str]) -> None:
    """Slow is released 5 ms after fast, so the run misses no deadline; another offset would."""
    settings = ["--set", "execution=0.003", "--set", "offset=0.005"]
    found = rtsim("schedule", tasks, *settings, *run)
    assert found.exit_code == 1, found.output
    assert "FAILED: slow can miss deadlines" in found.output
    result = json.loads(rtsim("schedule", tasks, *settings, *run, "--json").output)
    assert (result["missed"], result["late"]) == ([], ["slow"])


@pytest.mark.parametrize("run", [["--no-run"], []])
def test_a_task_without_an_analysis_leaves_the_outcome_undecided(
    tasks: Path, run: list[str]
) -> None:
    tasks.write_text(SCENARIO.replace('policy="rm"', 'policy="round_robin"'))
    found = rtsim("schedule", tasks, *run)
    assert found.exit_code == 2, found.output
    assert "UNDECIDED: fast, slow not analysed" in found.output
    assert json.loads(rtsim("schedule", tasks, *run, "--json").output)["outcome"] == "undecided"


def test_a_run_with_other_settings_is_not_compared(tasks: Path, tmp_path: Path) -> None:
    run = tmp_path / "slow.mcap"
    assert rtsim("run", tasks, "--set", "execution=0.0055", "-o", run).exit_code == 0
    found = rtsim("schedule", tasks, "--run", run)
    assert found.exit_code == 2
    assert "with execution of slow 'Fixed(seconds=0.0055, ordered=True)'" in found.stderr
    assert "give the same settings with --set" in found.stderr
    same = rtsim("schedule", tasks, "--set", "execution=0.0055", "--run", run)
    assert same.exit_code == 1, same.output


BUS = """
import rtsim as rt
from rtsim.components.can_bus import CanBus

def scenario(period=0.01):
    loop = rt.Scenario("bus", until=0.1)
    loop.source("car", rt.Signals("x [1]"))
    loop.sensor("m", {"x": "car.x"}, period=period, transport=CanBus(125_000).frame(1, length=8))
    return loop
"""


def test_a_bus_that_cannot_carry_its_messages_fails(tmp_path: Path) -> None:
    file = tmp_path / "bus.py"
    file.write_text(BUS)
    assert rtsim("schedule", file, "--no-run").exit_code == 0
    found = rtsim("schedule", file, "--no-run", "--set", "period=0.0005")
    assert found.exit_code == 1, found.output
    assert "FAILED: can overloaded" in found.output


@pytest.mark.parametrize("run", [["--no-run"], []])
def test_a_misspelt_topic_is_an_error_without_a_run_too(tasks: Path, run: list[str]) -> None:
    text = SCENARIO.replace(
        "    return",
        '    loop.task("on", "mcu", on="fats", deadline=1, execution=1e-5)\n    return',
    )
    tasks.write_text(text)
    found = rtsim("schedule", tasks, *run)
    assert found.exit_code == 2
    assert "unknown topic 'fats'" in found.stderr
    assert "on= of on" in found.stderr


def test_a_run_that_a_missed_deadline_ends_has_a_table_and_fails(tasks: Path) -> None:
    tasks.write_text(SCENARIO.replace("offset=offset)", 'offset=offset, missed="end")'))
    found = rtsim("schedule", tasks, "--set", "execution=0.003")
    assert found.exit_code == 1, found.output
    assert "no: 1 missed in the run" in found.output
    assert "FAILED: slow missed deadlines; job 0 of slow on mcu: unfinished" in found.output


def test_a_run_that_an_overload_ends_fails(tasks: Path) -> None:
    """The deadlines are so long that no job misses one before too many jobs wait."""
    text = SCENARIO.replace("period=0.01,", "period=1e-6, deadline=9,")
    tasks.write_text(text.replace("until=0.1", "until=0.5").replace("0.006", "9"))
    found = rtsim("schedule", tasks)
    assert found.exit_code == 1, found.output
    assert "10000 jobs of fast wait for processor mcu" in found.output
