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
    program = BLOCKED.format(names=("plotly", "uplot", "IPython"))
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


def test_each_extra_that_brings_plots_brings_all_of_them() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    for name in ("sil", "pitl", "study", "dev"):
        assert set(extras["plots"]) <= set(extras[name]), name
