"""What an editor sees of rtsim: strict types of users' programs, and names that it completes.

The programs of tests/project/typed are checked by pyright, in a normal and in an editable
installation, and run.
"""

from __future__ import annotations

import re
import runpy
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from faces import FACES
from pyright_parts import LanguageServer, environment_with_rtsim, findings

pytest.importorskip("pyright", reason="pip install pyright, of the extra dev")
pytestmark = pytest.mark.long
PROGRAMS = Path(__file__).parent / "typed"
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))


def test_there_are_three_programs() -> None:
    assert NAMES == ["by_function", "by_name", "by_study"]


@pytest.mark.parametrize("name", NAMES)
def test_a_program_runs(name: str) -> None:
    runpy.run_path(str(PROGRAMS / f"{name}.py"))


@pytest.fixture(scope="module", params=["editable", "wheel"])
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment_with_rtsim(tmp_path_factory.mktemp(request.param) / "all", request.param)


def test_strict_types_of_programs(python: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("programs") / "typed"
    shutil.copytree(PROGRAMS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    assert findings(folder, python) == []
    wrong = (folder / "by_name.py").read_text().replace("self.speed", "self.sped")
    (folder / "by_name.py").write_text(wrong)
    assert any('"sped"' in line for line in findings(folder, python))


ROOT = Path(__file__).resolve().parents[2]


def test_pages_without_annotations_have_no_errors(python: Path, tmp_path: Path) -> None:
    text = (ROOT / "docs/classes.md").read_text(encoding="utf-8")
    for name, code in re.findall(r"^```python file=(\w+\.py)\n(.*?)^```", text, re.M | re.S):
        (tmp_path / name).write_text(code, encoding="utf-8")
    assert (tmp_path / "ball.py").exists()
    assert findings(tmp_path, python, "standard") == []


@pytest.fixture(scope="module")
def server(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageServer]:
    with LanguageServer(tmp_path_factory.mktemp("edited"), python) as server:
        yield server


def missing(package: str, offered: set[str]) -> set[str]:
    return {name for name in import_module(package).__all__ if not name.startswith("_")} - offered


def test_each_public_name_is_completed(server: LanguageServer) -> None:
    offered = {face: server.completions(f"import {face} as face\nface.") for face in FACES}
    lacking = {face: missing(face, names) for face, names in offered.items()}
    assert {face: names for face, names in lacking.items() if names} == {}


CART = (PROGRAMS / "by_name.py").read_text(encoding="utf-8").partition("\ndef peak")[0]
LOOP = f"{CART}\nloop, cart, brake = loop_of(0.0)\n"


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("cart.", {"x", "speed", "force", "stopped", "offset", "power"}),
        ("brake.", {"x", "speed", "force", "gain", "steps"}),
        ("loop.", {"plant", "controller", "connect", "source", "sensor", "set", "at", "draw"}),
        ("run = rt.simulate(loop)\nrun.", {"time", "events", "table", "plot", "in_words", "path"}),
        ("rt.state(", {"unit=", "initial=", "low=", "high=", "description="}),
    ],
)
def test_what_is_completed(typed: str, wanted: set[str], server: LanguageServer) -> None:
    offered = server.completions(LOOP + typed)
    assert wanted <= offered, wanted - offered
