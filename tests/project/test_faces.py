"""Users import from few packages, which docs/api/README.md lists: pages and examples do so too."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from faces import FACES, LISTED, ROOT

_BLOCK = re.compile(r"^( *)```python[^\n]*\n(.*?)^ *```", re.M | re.S)
_SHELL = re.compile(r"\bpython3? -c '([^']*)'")
_FOLDERS = ("hitl/starter", "hitl/examples", "hitl/rigs/illumination", "hitl/rigs/pendulum")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PROGRAMS = sorted(
    [*(ROOT / "docs").rglob("*.py"), *(path for f in _FOLDERS for path in (ROOT / f).rglob("*.py"))]
)
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))
MODEL = re.compile(r"rtsim\.models\.\w+")
SAME_WORD = {"StateSpace": {"rtsim", "rtsim.linear", "rtsim.blocks"}}
"""A linear model, and the block with such a model in it."""


def programs(path: Path) -> Iterator[str]:
    """Yield each program of a page, a notebook or a Python file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield text
    elif path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        yield from ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    else:
        yield from (textwrap.dedent(match[2]) for match in _BLOCK.finditer(text))
        yield from _SHELL.findall(text)


def below_faces(program: str) -> list[str]:
    """Return each import of ``program`` from rtsim or hitl that is not from a listed package."""
    found = []
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if not allowed(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [alias.name for alias in node.names]
            found += [f"{node.module}.{n}" for n in names if not allowed(node.module, n)]
    return found


def allowed(module: str, name: str = "") -> bool:
    if module.partition(".")[0] not in ("rtsim", "hitl"):
        return True
    if module in FACES:
        return not name or name in import_module(module).__all__
    is_model = MODEL.fullmatch(module) and not hasattr(import_module(module), "__path__")
    return bool(is_model) or (module == "rtsim.models" and bool(name))


@pytest.mark.parametrize(
    "path", [*PAGES, *PROGRAMS, *NOTEBOOKS], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_imports_are_from_the_listed_packages(path: Path) -> None:
    found = [name for program in programs(path) for name in below_faces(program)]
    assert found == [], f"import from the packages of docs/api/README.md: {', '.join(LISTED)}"


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("from rtsim.core.errors import ModelError", ["rtsim.core.errors.ModelError"]),
        ("import rtsim.engine.executive", ["rtsim.engine.executive"]),
        ("from rtsim import simulated", ["rtsim.simulated"]),
        ("from rtsim.models.f16.plant import F16", ["rtsim.models.f16.plant.F16"]),
        ("def f():\n    from hitl.worker import link", ["hitl.worker.link"]),
        ("import rtsim as rt\nfrom rtsim.models.ball import scenario\nimport numpy.linalg", []),
    ],
)
def test_an_import_from_elsewhere_is_found(program: str, found: list[str]) -> None:
    assert below_faces(program) == found


def test_programs_are_found() -> None:
    assert len([p for page in PAGES for p in programs(page)]) > 150
    assert len(PROGRAMS) > 15
    assert any(programs(notebook) for notebook in NOTEBOOKS)


@pytest.mark.parametrize("face", FACES)
def test_every_listed_package_has_its_names(face: str) -> None:
    module = import_module(face)
    assert set(module.__all__) <= set(dir(module))
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []


def test_a_public_name_has_one_meaning() -> None:
    meanings: dict[str, dict[int, str]] = defaultdict(dict)
    for face in FACES:
        module = import_module(face)
        for name in module.__all__:
            meanings[name].setdefault(id(getattr(module, name)), face)
    twice = {name: set(found.values()) for name, found in meanings.items() if len(found) > 1}
    assert {n: w for n, w in twice.items() if not w <= SAME_WORD.get(n, set())} == {}
