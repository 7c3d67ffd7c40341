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
