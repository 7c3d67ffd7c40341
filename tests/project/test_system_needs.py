"""``tools/system.py``: what tests marked ``system`` want, said and installed in one place."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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
