"""The lists of commands: the first sentence of each, without importing it."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from hitl.cli import sil
from rtsim.cli import main
from rtsim.cli.commands import Commands, docstring_of


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
