"""``make test-newest``: which Python it chooses, and what it says where there is only one.

``make test-oldest``: each dependency with a lower bound has tests that touch it.

``tools/marked.py``: files without the wanted mark are not imported, and none is missed.

``--strict`` says what it could not judge.

A dependency's next release warns: a user's tests stay green and say so, CI's turn red.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from command_line import data, rtsim

from tools import newest, oldest
from tools.marked import can_have, wanted
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


def test_each_lower_bound_has_tests() -> None:
    names = {pin.partition("==")[0] for pin in oldest.pins()}
    assert names <= set(oldest.SAMPLE), "add the new one's tests to tools/oldest.py"
    files = {t.partition("::")[0] for tests in oldest.SAMPLE.values() for t in tests}
    gone = [file for file in files if not (ROOT / file).is_file()]
    assert not gone, "their names in tools/oldest.py"


def test_another_version_than_the_lower_bound_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = version("click")
    ran: list[list[str]] = []

    def call(command: list[str], **_: object) -> int:
        ran.append(command)
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    monkeypatch.setattr(oldest, "pins", lambda: [f"click=={here}.0", "pytest==1.0", "none-such==1"])
    assert oldest.main([]) == 1
    assert not ran
    told = capsys.readouterr().out
    assert f"pytest==1.0, here {version('pytest')}; none-such==1, here none" in told
    monkeypatch.setattr(oldest, "pins", lambda: [f"click=={here}"])
    assert oldest.main(["-q"]) == 0
    assert ran == [[sys.executable, "-m", "pytest", "-q", *oldest.SAMPLE["click"]]]


@pytest.mark.parametrize(
    ("expression", "marks"),
    [
        ("realtime and not full and not system and not long", {"realtime"}),
        ("system and realtime and not full", {"system", "realtime"}),
        ("not realtime and not full and not system", set()),
        ("realtime or live", set()),
        ("not (realtime and long)", set()),
        ("", set()),
    ],
)
def test_marks_without_which_no_test_is_run(expression: str, marks: set[str]) -> None:
    assert wanted(expression) == marks


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        ("@pytest.mark.realtime\ndef test_it(): ...", {"realtime"}),
        ("pytestmark = [pytest.mark.realtime, pytest.mark.system('xvfb')]", {"realtime", "system"}),
        ("from c_parts import with_gcc", {"system"}),
        ("from emulated_board_parts import on_each", {"system"}),
        ("<!-- system: gcc -->", {"system"}),
        ("def test_a_system_in_realtime(): ...", set()),
    ],
)
def test_files_that_can_have_a_mark(tmp_path: Path, text: str, marks: set[str]) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(text)
    assert {mark for mark in ("realtime", "system") if can_have(path, mark)} == marks


@pytest.mark.parametrize("pace", ["max", "50"])
def test_a_run_that_was_not_paced_says_that_no_timing_was_judged(pace: str) -> None:
    flown = ("run", "orbit", "--until", "1", "--no-record", "--pace", pace)
    done = rtsim(*flown, "--strict")
    assert ("--strict checked no timing" in done.stdout) == (pace == "max")
    assert "checked no timing" not in rtsim(*flown).stdout
    told = data(rtsim(*flown, "--strict", "--json"))
    assert told["strict"] == {"timing_measured": pace != "max"}
    if pace == "max":
        assert done.exit_code == 0, done.output


RELEASE = """\
import warnings
warnings.warn("this release deprecates its import", DeprecationWarning, stacklevel=2)
def call():
    warnings.warn("this release deprecates its call", FutureWarning, stacklevel=2)
"""
IMPORTS = "import release\ndef test_it(): pass\n"
CALLS = """\
import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import release
def test_it(): release.call()
"""
STARTS = """\
import subprocess, sys
def test_it():
    command = [sys.executable, "-c", "import release; release.call()"]
    said = subprocess.run(command, capture_output=True, check=True).stderr
    assert said == b"", "more than nothing"
"""
LOSES = """\
import threading
def test_it():
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
"""


def run(folder: Path, test: str, **environment: str) -> tuple[int, str]:
    """The exit status and the words of pytest, set up as it is here."""
    for name in ("pyproject.toml", "conftest.py"):
        shutil.copy(ROOT / name, folder)
    (folder / "release.py").write_text(RELEASE, encoding="utf-8")
    (folder / "test_it.py").write_text(test, encoding="utf-8")
    ours = ("RTSIM_STRICT", "PYTHONWARNINGS", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER")
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    helpers = ROOT / "tests/helpers"  # conftest.py imports from there and from tools/
    path = os.pathsep.join((str(folder), str(ROOT), str(helpers)))
    alone = {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py"],
        cwd=folder, env=clean | alone | environment,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.parametrize(("test", "place"), [(IMPORTS, "import"), (CALLS, "call")])
def test_a_warning_is_shown_to_a_user_and_fails_ci(tmp_path: Path, test: str, place: str) -> None:
    for strict in ("", "1"):
        status, said = run(tmp_path, test, RTSIM_STRICT=strict)
        assert (status != 0) == bool(strict), said
        assert f"deprecates its {place}" in said


@pytest.mark.long
def test_what_a_child_prints_is_free_of_warnings(tmp_path: Path) -> None:
    assert run(tmp_path, STARTS)[0] == 0
    status, said = run(tmp_path, STARTS, RTSIM_STRICT="1")
    assert status == 1, said
    assert "more than nothing" in said


@pytest.mark.long
def test_an_exception_lost_in_a_thread_fails_everywhere(tmp_path: Path) -> None:
    status, said = run(tmp_path, LOSES)
    assert status == 1, said
    assert "ZeroDivisionError" in said
