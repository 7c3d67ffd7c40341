"""The lists of commands: the first sentence of each, without importing it.

Shell completion: names of commands, of scenarios, and of the values that --set takes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from hitl.cli import sil
from rtsim.cli.commands import Commands, docstring_of
from rtsim.cli.main import main
from rtsim.scenario.loading import BUILT_IN


@pytest.mark.parametrize(("group", "listed"), [(main, "fly"), (sil, "run")], ids=["rtsim", "sil"])
def test_each_command_is_listed_with_its_own_first_sentence(
    group: click.Command, listed: str
) -> None:
    assert isinstance(group, Commands)
    context = click.Context(group)
    ours, clicks = click.HelpFormatter(), click.HelpFormatter()
    group.format_commands(context, ours)
    click.Group.format_commands(group, context, clicks)  # which loads each command
    assert ours.getvalue() == clicks.getvalue()
    assert f" {listed} " in ours.getvalue()


def test_a_command_that_is_no_function_in_its_module_is_asked_itself() -> None:
    assert docstring_of("rtsim.cli:main").startswith("Real-time and hardware-in-the-loop")


def test_help_imports_no_array_library() -> None:
    code = (
        "import sys; from rtsim.cli import main; main(['--help'], standalone_mode=False);"
        "print([m for m in ('numpy', 'numba', 'rich', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"
    assert "run " in done.stdout


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
