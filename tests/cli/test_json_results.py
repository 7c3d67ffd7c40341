"""The three keys that every JSON result has: ``outcome``, ``exit_status`` and ``why``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import Result
from command_line import data, rtsim

from rtsim.cli.common import with_outcome
from rtsim.cli.main import main

LISTS = (("scenarios",), ("ctl", "runs"), ("tasks",))
"""Commands that print a list."""
UNSTABLE = ("unstable", "--set", "latency=0.03", "--until", "0.5")
RARE = """[[fault]]
name = "rare"
where = "controller"
kind = "drop"
probability = 1e-12
"""


def leaves(command: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths of all commands that have the option --json."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from leaves(found, (*path, name))
    elif any(option.name == "as_json" for option in command.params):
        yield path


def words_for(path: tuple[str, ...]) -> list[str]:
    """A command line with a missing file for each argument and option that is required."""
    command: click.Command = main
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    words = [*path]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            words += [parameter.opts[0], "missing"] if parameter.required else []
        elif parameter.required or parameter.name == "scenario":
            words.append("0" if isinstance(parameter.type, click.types.IntParamType) else "missing")
    return [*words, *(["--seconds", "0.01"] if path == ("doctor",) else []), "--json"]


def check(done: Result, outcome: str = "passed") -> Any:
    """The JSON object of ``done``, whose three keys say the same as the exit status."""
    told = data(done)
    assert told["exit_status"] == done.exit_code, done.output
    assert (told["why"] is None) is (done.exit_code == 0), told["why"]
    assert told["why"] is None or told["why"].strip()
    assert told["outcome"] == outcome
    return told


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def test_the_outcome_follows_from_the_exit_status() -> None:
    assert with_outcome({}) == {"outcome": "passed", "exit_status": 0, "why": None}
    assert with_outcome({}, 1, "late") == {"outcome": "failed", "exit_status": 1, "why": "late"}
    for status in (2, 130):
        assert with_outcome({}, status, "x")["outcome"] == "undecided"
    told = with_outcome({"outcome": "passed", "a": 1}, 1, "a fault never acted")
    assert told == {"outcome": "failed", "a": 1, "exit_status": 1, "why": "a fault never acted"}
    assert with_outcome({"outcome": "undecided"}, 2, "x")["outcome"] == "undecided"
    assert with_outcome({"outcome": "failed"}, 1, "x")["outcome"] == "failed"
    assert with_outcome({}, 0, "unused")["why"] is None


@pytest.mark.parametrize("path", sorted(leaves()), ids=" ".join)
def test_each_command_that_cannot_work_has_the_three_keys(path: tuple[str, ...]) -> None:
    done = rtsim(*words_for(path))
    if done.exit_code == 0:
        assert isinstance(data(done), list) if path in LISTS else check(done)
        return
    told = check(done, "undecided")
    assert told["why"] == told["error"]["message"]
    assert done.exit_code == 2


def recorded(name: str, *options: str) -> None:
    done = rtsim("run", *UNSTABLE, "-o", name, "--json", *options)
    assert check(done, "passed")["recording"] == name


def test_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded("a.mcap")
    assert rtsim("run", *UNSTABLE, "-o", "a.mcap", "--json").exit_code == 2
    Path("faults.toml").write_text(RARE)
    done = rtsim("run", *UNSTABLE, "--no-record", "--strict", "--faults", "faults.toml", "--json")
    assert check(done, "failed")["why"] == "faults that never acted: rare"

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rtsim.runs.progress.ProgressLine.show", stopped)
    told = check(rtsim("run", *UNSTABLE, "--no-record", "--json"), "undecided")
    assert (told["exit_status"], told["reason"]) == (130, "interrupted")
    assert told["why"].startswith("the run was interrupted at ")


def test_comparisons_of_recordings() -> None:
    recorded("a.mcap")
    recorded("c.mcap", "--set", "plant.x=0.2")
    command: tuple[str, ...]
    for command in (("replay", "a.mcap"), ("replay", "a.mcap", "--abs", "1")):
        check(rtsim(*command, "--json"))
    for command in (("compare", "a.mcap", "c.mcap"), ("diverge", "a.mcap", "c.mcap", "--no-fly")):
        told = check(rtsim(*command, "--json"), "failed")
        assert "plant" in told["why"]
        check(rtsim(command[0], "a.mcap", "a.mcap", *command[3:], "--json"))
    for command in (("report", "a.mcap"), ("messages", "a.mcap", "--limit", "2")):
        check(rtsim(*command, "--json"))


def test_a_comparison_of_a_run_that_was_cut_off_is_undecided() -> None:
    recorded("a.mcap")
    Path("b.mcap").write_bytes(Path("a.mcap").read_bytes()[:-2000])
    told = check(rtsim("compare", "b.mcap", "a.mcap", "--json"), "undecided")
    assert "cut off" in told["why"]


def test_c_against_its_reference_model() -> None:
    check(rtsim("sil", "init", "--json"))
    test = ("sil", "test", "scenario.py", "-c", "motor.toml", "--until", "0.5", "--json")
    check(rtsim(*test))
    check(rtsim("sil", "build", "motor.toml", "--json"))
    check(rtsim("sil", "check", "motor.toml", "--json"))
    flown = check(rtsim("sil", "run", *test[2:], "-o", "c.mcap"))
    assert flown["reason"] == "end"
    Path("faults.toml").write_text(RARE)
    told = check(rtsim(*test, "--faults", "faults.toml", "--strict"), "failed")
    assert (told["exit_status"], told["why"]) == (1, "these faults never acted: rare")
    motor = Path("motor.c")
    motor.write_text(motor.read_text().replace("return wanted;", "return wanted + (real)1;"))
    assert "voltage" in check(rtsim(*test), "failed")["why"]
