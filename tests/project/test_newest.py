"""``make test-newest``: which Python it chooses, and what it says where there is only one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools import newest
from tools.setup import ROOT

HERE = sys.version_info[:2]


def python(folder: Path, version: str, works: bool = True) -> Path:
    """Make a program that answers as a Python of this version does."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{f'echo {version}' if works else 'exit 1'}\n")
    path.chmod(0o755)
    return path


def test_the_newest_that_rtsim_runs_on_is_chosen(tmp_path: Path) -> None:
    found = [
        python(tmp_path / str(k), version, works)
        for k, (version, works) in enumerate(
            [("3 11", True), ("3 13", True), ("3 15", True), ("2 7", True), ("3 14", False)]
        )
    ]
    assert newest.newest([*found, tmp_path / "absent"]) == ((3, 13), found[1])
    assert newest.newest([]) is None


def test_pythons_of_pyenv_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = python(tmp_path / "versions" / "3.12.1" / "bin", "3 12")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert list(newest.candidates()) == [kept]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[Any], dict[str, str]]]:
    made: list[tuple[list[Any], dict[str, str]]] = []

    def call(command: list[Any], env: dict[str, str], **_: object) -> int:
        made.append((command, env))
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    return made


@pytest.mark.parametrize("version", [None, HERE, (HERE[0], HERE[1] - 1)])
def test_where_there_is_no_newer_one_it_says_so(
    version: tuple[int, int] | None, calls: list[Any], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    found = None if version is None else (version, Path("python3"))
    monkeypatch.setattr(newest, "newest", lambda _: found)
    assert newest.main([]) == 0
    assert calls == []
    assert f"no Python newer than {HERE[0]}.{HERE[1]}" in capsys.readouterr().out


def test_the_sample_runs_in_an_environment_of_its_own(
    calls: list[tuple[list[Any], dict[str, str]]], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(newest, "newest", lambda _: ((3, 99), Path("/somewhere/python3")))
    monkeypatch.setenv("VENV", ".venv")
    assert newest.main(["-q"]) == 0
    (setup, environment), (tests, _) = calls
    place = ROOT / ".venv-newest"
    assert setup == [ROOT / "tools" / "setup.sh", "dev"]
    assert environment["VENV"] == str(place)
    assert environment["PYTHON"] == "/somewhere/python3"
    assert tests == [str(place / "bin" / "python"), "-m", "pytest", "-q", *newest.SAMPLE]
    assert "tests with Python 3.99" in capsys.readouterr().out


def test_the_files_of_the_sample_exist() -> None:
    gone = [test for test in newest.SAMPLE if not (ROOT / test.partition("::")[0]).is_file()]
    assert not gone, "their names in tools/newest.py"


def test_setup_and_sample_agree_on_the_pythons() -> None:
    text = (ROOT / "tools" / "setup.sh").read_text(encoding="utf-8")
    assert f'WANTED="3.{newest.OLDEST[1]} to 3.{newest.NEWEST[1]}"' in text
