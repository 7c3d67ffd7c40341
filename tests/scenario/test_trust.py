"""A recording from a stranger runs nothing of theirs unless the user says so."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rtsim.cli.main import main
from rtsim.core.errors import TrustError
from rtsim.core.file_hash import file_hash
from rtsim.record.reading import Recording
from rtsim.runs.replay import rerun
from rtsim.scenario.trust import permitted, project

SCENARIO = """
from pathlib import Path
from rtsim.models import orbit

Path({mark!r}).write_text("it was run")

def scenario():
    return orbit.scenario(step=0.01, until=0.05)
"""
Rtsim = Callable[..., Result]


@pytest.fixture
def rtsim() -> Rtsim:
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a scenario of the user's and a recording of it."""
    here = tmp_path / "mine"
    here.mkdir()
    monkeypatch.chdir(here)
    mark = tmp_path / "mark"
    (here / "own.py").write_text(SCENARIO.format(mark=str(mark)))
    done = CliRunner().invoke(main, ["run", "own.py", "-o", "own.mcap", "--checkpoint-at", "0.02"])
    assert done.exit_code == 0, done.output
    mark.unlink()
    return here


def was_run(folder: Path) -> bool:
    return (folder.parent / "mark").exists()


def test_the_users_own_file_runs_as_it_was_recorded(folder: Path, rtsim: Rtsim) -> None:
    done = rtsim("replay", "own.mcap")
    assert (done.exit_code, was_run(folder)) == (0, True), done.output


@pytest.mark.parametrize("command", ["replay", "diverge", "run"])
def test_a_file_elsewhere_is_not_imported(
    folder: Path, rtsim: Rtsim, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes: it is where they lie that makes them the user's."""
    other = folder.parent / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    checkpoint = next(folder.glob("*.checkpoint"))
    words = (
        [command, "--from", checkpoint, "-o", "rest.mcap"]
        if command == "run"
        else [command, folder / "own.mcap"]
    )
    refused = rtsim(*words)
    assert refused.exit_code == 2
    assert not was_run(folder)
    for expected in ("own.py", "does not run", "not in the current project", "--trust"):
        assert expected in refused.output
    assert "--scenario FILE.py" in refused.output
    done = rtsim(*words, "--trust")
    assert (done.exit_code, was_run(folder)) == (0, True), done.output


def test_a_changed_file_is_not_imported(folder: Path, rtsim: Rtsim) -> None:
    path = folder / "own.py"
    path.write_text(path.read_text() + "\n# one more line\n")
    refused = rtsim("replay", "own.mcap", "--json")
    assert (refused.exit_code, was_run(folder)) == (2, False)
    said = json.loads(refused.stdout)["error"]
    assert said["type"] == "TrustError"
    assert "has changed since then" in said["message"]
    assert "to run this file, add --trust" in said["message"]
    done = rtsim("replay", "own.mcap", "--scenario", "own.py")
    assert (done.exit_code, was_run(folder)) == (0, True), done.output


def test_what_the_user_names_takes_the_place_of_the_recorded(folder: Path, rtsim: Rtsim) -> None:
    shutil.move(folder / "own.py", folder / "renamed.py")
    refused = rtsim("replay", "own.mcap")
    assert refused.exit_code == 2
    assert "cannot be read" in refused.stderr
    assert "to run this file" not in refused.stderr
    done = rtsim("replay", "own.mcap", "--scenario", "renamed.py")
    assert (done.exit_code, was_run(folder)) == (0, True), done.output


def test_the_summary_names_the_scenario_that_flies_on(folder: Path, rtsim: Rtsim) -> None:
    (folder / "mine.py").write_text((folder / "own.py").read_text())
    saved = next(folder.glob("*.checkpoint"))
    done = rtsim("run", "--from", saved, "--scenario", "mine.py", "--no-record", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["scenario"].endswith("mine.py")


def test_a_changed_import_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("import numpy\nfrom part_of_it import x\nimport pack.inner\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text("")
    (tmp_path / "pack/inner.py").write_text("from . import sister\n")
    (tmp_path / "pack/sister.py").write_text("y = 1\n")
    (tmp_path / "part_of_it.py").write_text("x = 1\n")
    first = file_hash(path)
    assert file_hash(path) == first
    for name in ("part_of_it.py", "pack/inner.py", "pack/sister.py", "pack/__init__.py", "a.py"):
        before = (tmp_path / name).read_text()
        (tmp_path / name).write_text(before + "z = 2\n")
        assert file_hash(path) != first, name
        (tmp_path / name).write_text(before)
    assert file_hash(path) == first


def test_a_recording_without_a_hash_takes_the_users_word(folder: Path) -> None:
    """An older one."""
    recording = Recording.open("own.mcap")
    del recording.header["scenario"]["origin"]["sha256"]
    with pytest.raises(TrustError, match="older versions"):
        rerun(recording)
    assert not was_run(folder)
    with permitted(everything=True):
        rerun(recording)


def test_scenarios_that_are_installed_run_from_anywhere(folder: Path, rtsim: Rtsim) -> None:
    assert rtsim("run", "orbit", "--until", "0.1", "-o", "moon.mcap").exit_code == 0
    assert rtsim("replay", "moon.mcap").exit_code == 0
    assert not was_run(folder)


def test_a_project_reaches_up_to_its_root_and_a_home_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "home/work/deep/er"
    inner.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(inner)
    assert project() == inner
    (tmp_path / "home/work/pyproject.toml").touch()
    assert project() == tmp_path / "home/work"
    (tmp_path / "home/.git").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    assert project() is None


def test_the_words_go_with_what_is_run_again(folder: Path, rtsim: Rtsim) -> None:
    refused = rtsim("run", "own.py", "--trust")
    assert (refused.exit_code, was_run(folder)) == (2, False)
    assert "--from CHECKPOINT" in refused.output


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_folder_of_everybody_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert project() == tmp_path.resolve()
    (tmp_path / ".git").mkdir()
    tmp_path.chmod(0o1777)
    assert project() is None


def test_who_has_no_home_has_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "home", homeless)
    assert project() == tmp_path.resolve()
