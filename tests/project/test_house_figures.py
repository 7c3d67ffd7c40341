"""The figures of ``python -m tools.house``: kinds of lines, importers, classes, an installation."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tools import house

MODULE = '''"""A module."""

from os import (
    path,
)

# why
NUMBER = 1  # and a remark


class Thing:
    """A thing
    of two lines."""

    name = """text
    # of a value"""
'''


def test_each_line_has_one_kind() -> None:
    assert house.lines(MODULE) == {
        "docstrings": 3,
        "imports": 3,
        "comments": 1,
        "code": 4,
        "empty": 5,
    }


@pytest.mark.parametrize(
    "statement",
    ["import a.b", "from a.b import c", "from a import b", "def f():\n    from a.b import c"],
)
def test_importers_are_found_for_each_form_of_import(statement: str) -> None:
    trees = {"a.__init__": ast.parse(""), "a.b": ast.parse(""), "d": ast.parse(statement)}
    assert house.importers(trees) == {"a.b": {"d"}, "d": set()}


def test_figures_of_a_small_project(tmp_path: Path) -> None:
    for name, text in {
        "rtsim/one.py": MODULE,
        "hitl/two.py": "from rtsim.one import Thing\n",
        "tests/unit/test_one.py": "import rtsim.one\n",
        "tests/helpers.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = house.figures(tmp_path)
    assert found["lines of rtsim and hitl"] == 17
    assert (found["modules"], found["classes"], found["modules with one importer"]) == (2, 1, 1)
    assert (found["test files"], found["test files in tests/unit"]) == (1, 1)


def test_an_installation_holds_what_rtsim_requires_and_no_extra() -> None:
    sizes = house.installed()
    assert {"rtsim", "numpy", "numba", "llvmlite", "click"} <= set(sizes)
    assert not {"pytest", "dask", "pygame"} & set(sizes)
    assert sizes["llvmlite"] > sizes["click"] > 10_000


def test_saved_figures_are_shown_beside_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "figures", lambda _: {"modules": 12.0})
    kept = tmp_path / "before.json"
    kept.write_text(json.dumps({"modules": 12345}))
    told = CliRunner().invoke(house.main, ["--before", str(kept), "--test-seconds", "800"])
    assert told.exit_code == 0
    heading, modules, seconds = told.output.splitlines()
    assert heading.split() == ["figure", "before", "now"]
    assert modules.split() == ["modules", "12,345", "12"]
    assert seconds.split()[-1] == "800"
