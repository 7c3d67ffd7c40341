"""A wheel of its own adds one of each thing to rtsim, and no file of rtsim is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from wheel_parts import build_wheel

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests/helpers/extension_wheel"
CHECKS = (
    "policy", "fault", "latency", "solver", "command", "column", "component", "controller",
    "together",
)  # fmt: skip


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the wheel is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(SOURCE, folder)
    target = folder / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    quick = ["--no-compile", "--disable-pip-version-check", "--no-warn-script-location"]
    done = subprocess.run(
        [*pip, *quick, "--target", str(target), str(wheel)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def told(installed: Path) -> subprocess.CompletedProcess[str]:
    """What the checks print in a process that has the wheel, and rtsim, on its path."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(installed), str(ROOT))),
        "PYTHONUTF8": "1",
    }
    return subprocess.run(
        [sys.executable, str(SOURCE / "run_checks.py")],
        cwd=installed,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("check", CHECKS)
def test_a_wheel_adds_it_from_outside(told: subprocess.CompletedProcess[str], check: str) -> None:
    assert f"ok {check}" in told.stdout.splitlines(), told.stdout + told.stderr


def test_every_check_of_the_program_is_asked_for_here(
    told: subprocess.CompletedProcess[str],
) -> None:
    assert told.stdout.split()[1::2] == list(CHECKS), told.stderr
    assert told.returncode == 0, told.stderr
