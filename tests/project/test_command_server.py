"""The commands of pages, which a process forks that has imported rtsim."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_server import commands

from rtsim.core.version import __version__

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages use it on Linux only")


SCENARIO = """
import os, sys
print(os.getcwd(), "here" in sys.modules, flush=True)
from rtsim.models.ball import scenario
"""


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [str(commands() / "rtsim"), *arguments]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=folder)


def test_a_command_prints_and_ends_as_the_installed_one(tmp_path: Path) -> None:
    assert started(tmp_path, "--version").communicate()[0].split()[-1] == __version__
    wrong = started(tmp_path, "run", "no-such-scenario")
    installed = subprocess.run(
        [sys.executable, "-m", "rtsim", "run", "no-such-scenario"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert (*wrong.communicate(), wrong.returncode) == ("", installed.stderr, 2)


def test_a_command_has_its_folder_and_nothing_of_the_one_before(tmp_path: Path) -> None:
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "here.py").write_text(SCENARIO)
        run = started(folder, "run", "here.py", "--until", "0.1", "--no-record")
        assert run.communicate()[0].splitlines()[0] == f"{folder} False"
        assert run.returncode == 0


def test_a_signal_reaches_the_command(tmp_path: Path) -> None:
    (tmp_path / "here.py").write_text(SCENARIO)
    run = started(tmp_path, "run", "here.py", "--pace", "1.0", "--until", "600", "--no-record")
    assert run.stdout is not None
    assert run.stdout.readline() == f"{tmp_path} False\n"
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=60)
    assert run.returncode != 0
