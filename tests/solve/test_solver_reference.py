"""The API reference reads the source of rtsim.solve: each public constant has its own docstring."""

from __future__ import annotations

import ast
import importlib
import inspect
from itertools import pairwise
from pathlib import Path

import pytest

import rtsim.solve

FACE = Path(inspect.getfile(rtsim.solve))
MODULE_OF = {
    alias.name: statement.module
    for statement in ast.parse(FACE.read_text(encoding="utf-8")).body
    if isinstance(statement, ast.ImportFrom) and statement.module
    for alias in statement.names
}
CONSTANTS = [
    name
    for name in rtsim.solve.__all__
    if not inspect.isclass(getattr(rtsim.solve, name))
    and not inspect.isfunction(getattr(rtsim.solve, name))
]


def docstrings(source: str) -> dict[str, str]:
    """The text below each plain assignment ``NAME = ...``, by name."""
    found: dict[str, str] = {}
    body = ast.parse(source).body
    for statement, below in pairwise(body):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found |= {t.id: str(below.value.value) for t in targets if isinstance(t, ast.Name)}
    return found


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_public_constant_has_a_docstring_of_its_own(name: str) -> None:
    module = importlib.import_module(MODULE_OF.get(name, "rtsim.solve"))
    assert docstrings(Path(inspect.getfile(module)).read_text(encoding="utf-8")).get(name)


def test_a_constant_without_one_is_found() -> None:
    """As four solvers were: one statement for all of them, and no text below it."""
    assert docstrings('A, B = 1, 2\n"""Both."""\nC = 3\nD: int = 4\n"""Four."""\n') == {
        "D": "Four."
    }
