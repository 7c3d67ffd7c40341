"""Optional packages: what is missing is said with what to type, before a command's work."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rtsim.core.errors import ScenarioError
from rtsim.core.extras import extra, installed

ROOT = Path(__file__).resolve().parents[2]
BLOCKED = """
import sys
sys.modules.update(dict.fromkeys({names}))
from rtsim.cli import main
main()
"""
"""The command rtsim without the packages of the extras."""


def test_a_missing_package_is_named_with_its_extra() -> None:
    for ask in (extra, installed):
        with pytest.raises(ScenarioError, match=r"^a page needs the package no_such.*rtsim\[plots"):
            ask("no_such_module", "plots", "a page")
    assert installed("json", "plots", "a page").name == "json"
    assert extra("json", "plots", "a page").dumps(1) == "1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has the recording ``run.mcap``."""
    made = tmp_path_factory.mktemp("base")
    assert "recording: run.mcap" in rtsim(made, "run", "unstable", "--until", "1", "-o", "run.mcap")
    return made


def rtsim(folder: Path, *words: str, status: int = 0) -> str:
    """Return what the command prints in a base installation."""
    program = BLOCKED.format(names=("plotly", "uplot", "IPython", "scipy", "pygame"))
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=folder, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_base_installation_runs_replays_and_compares(folder: Path) -> None:
    assert "bit for bit" in rtsim(folder, "replay", "run.mcap")
    assert "agree" in rtsim(folder, "compare", "run.mcap", "run.mcap")


@pytest.mark.parametrize(
    "words",
    [
        ("report", "run.mcap"),
        ("compare", "run.mcap", "run.mcap", "--html", "page.html"),
        ("linearise", "unstable", "-o", "page.html"),
    ],
)
def test_a_page_says_at_once_which_extra_it_needs(folder: Path, words: tuple[str, ...]) -> None:
    said = rtsim(folder, *words, status=2)
    assert "pip install 'rtsim[plots]'" in said
    assert not list(folder.glob("*.html"))


def test_a_joystick_says_that_it_needs_pygame(folder: Path) -> None:
    said = rtsim(folder, "joystick", status=2)
    assert "a joystick or a window needs the package pygame" in said
    assert "pip install 'rtsim[pilot]'" in said


MODEL = """
from rtsim import Model, Scenario, Signals

def motion(t, x, z, u, p, dx):
    dx[0] = -x[0]

def scenario(solver="bdf"):
    out = Scenario("decay", until=1)
    decay = Model(name="decay", states=Signals("x = 1"), derivative=motion)
    out.plant("decay", decay, step=0.1, solver=solver)
    return out
"""


@pytest.mark.parametrize("solver", ["bdf", "rodas5p"])
def test_an_implicit_solver_says_that_it_needs_scipy(folder: Path, solver: str) -> None:
    (folder / "decay.py").write_text(MODEL, encoding="utf-8")
    said = rtsim(folder, "run", "decay.py", "--set", f"solver={solver}", status=2)
    assert "needs the package scipy" in said
    assert "pip install 'rtsim[scipy]'" in said
    assert "internal error" not in said


def test_a_product_of_matrices_says_that_it_needs_scipy(folder: Path) -> None:
    program = MODEL.replace("-x[0]", "x @ x")
    (folder / "product.py").write_text(program, encoding="utf-8")
    said = rtsim(folder, "run", "product.py", "--set", "solver=rk4", status=2)
    assert "pip install 'rtsim[scipy]'" in said


def test_each_extra_that_builds_on_another_brings_its_packages() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    for name in ("sil", "pitl", "study", "dev"):
        assert set(extras["plots"]) <= set(extras[name]), name
    for name in ("control", "data", "dev", "pilot", "study", "sundae"):
        assert set(extras["scipy"]) <= set(extras[name]), name
