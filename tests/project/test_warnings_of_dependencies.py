"""A dependency's next release warns: a user's tests stay green and say so, CI's turn red."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

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
    path = os.pathsep.join((str(folder), str(ROOT)))  # conftest.py takes some of tools/
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
