"""Shell completion: names of commands, of scenarios, and of the values that --set takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from rtsim.cli.main import main
from rtsim.scenario.loading import BUILT_IN


def completed(*words: str) -> set[str]:
    """What ``words``, of which the last one is incomplete, can be completed to."""
    found = ShellComplete(main, {}, "rtsim", "").get_completions(list(words[:-1]), words[-1])
    return {item.value for item in found if item.type == "plain"}


@pytest.mark.parametrize("command", ["run", "fly"])
def test_names_of_scenarios(command: str) -> None:
    names = {name for name in BUILT_IN if name.startswith("f")}
    assert names <= completed(command, "f")
    assert all(name.startswith("f") for name in completed(command, "f"))
    assert completed(command, "nothing-of-this-name") == set()


def test_a_file_is_completed_by_the_shell() -> None:
    (item,) = ShellComplete(main, {}, "rtsim", "").get_completions(["run"], "./my_")
    assert (item.type, item.value) == ("file", "./my_")


def test_arguments_of_the_scenario_and_values_of_its_components() -> None:
    assert completed("run", "unstable", "--set", "plant.st") == {"plant.stiffness="}
    assert {"case="} <= completed("run", "f16", "--set", "ca")
    assert {"f16.mass="} <= completed("run", "f16", "--until", "1", "--set", "f16.")


def test_no_file_is_executed_and_nothing_is_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("raise SystemExit('executed by a key press')\n")
    assert completed("run", "mine.py", "--set", "a") == set()
    assert completed("run", "--set", "a") == set()
    assert completed("run", "unstable", "--set", "plant.stiffness=1") == set()


def test_commands_are_completed() -> None:
    assert completed("over") == {"overrun-replay"}
