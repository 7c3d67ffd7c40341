"""A wheel of its own adds one of each thing to rtsim, and no file of rtsim is touched.

The package's face: the names it offers exist, and cost nothing until they are used.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from wheel_parts import build_wheel

import rtsim

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests/helpers/extension_wheel"
CHECKS = (
    "policy", "fault", "latency", "medium", "solver", "command", "column", "component",
    "controller", "together",
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


def test_every_name_that_is_offered_exists() -> None:
    for name in rtsim.__all__:
        assert getattr(rtsim, name) is not None
    assert set(rtsim.__all__) <= set(dir(rtsim))
    with pytest.raises(AttributeError, match="no attribute 'Skenario'"):
        getattr(rtsim, "Skenario")  # noqa: B009


def test_importing_it_loads_no_compiler() -> None:
    code = "import sys, rtsim; sys.exit('numba' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


FACES = (
    "core", "equations", "components", "discrete", "linear", "models.piloting", "runs", "scenario",
    "studies",
)  # fmt: skip


@pytest.mark.parametrize("package", [f"rtsim.{name}" for name in FACES])
def test_each_package_offers_what_it_has_and_no_name_of_a_module_of_its_own(package: str) -> None:
    """A name that is a module's too is the module as soon as somebody has imported it."""
    found = import_module(package)
    modules = {path.stem for path in Path(str(found.__file__)).parent.iterdir()}
    for name in found.__all__:
        assert getattr(found, name) is not None
        assert name not in modules
