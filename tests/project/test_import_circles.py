"""No two modules import each other in a circle; imports for type checkers alone count too."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest


def circle(imports: Mapping[str, Set[str]]) -> list[str]:
    """The modules of one circle, each importing the next; empty where there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def imports_of(package: str, *more: str) -> dict[str, set[str]]:
    """What each module of these packages imports of them, wherever the import stands."""
    graph = grimp.build_graph(package, *more, cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


FOR_TYPES_ALONE = {
    ("rtsim.record.events", "rtsim.record.reading"),
    ("rtsim.studies.interim_analysis", "rtsim.studies.folder"),
    ("rtsim.studies.measures", "rtsim.studies.plan"),
    ("rtsim.studies.study", "rtsim.studies.interim_analysis"),
}
"""Imports for type checkers alone that close a circle: to be removed, and no more of them."""


def test_no_two_modules_import_each_other_in_a_circle() -> None:
    imports = imports_of("rtsim", "hitl")
    for importer, imported in FOR_TYPES_ALONE:
        assert imported in imports[importer], "take it from the list"
        imports[importer] -= {imported}
    found = circle(imports)
    assert not found, f"{' -> '.join(found)}: move what both need to a module below them"


@pytest.mark.parametrize(
    "second",
    [
        "from planted.first import A\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from planted.first import A\n",
        "def late():\n    import planted.first\n",
    ],
)
def test_a_planted_circle_is_found(
    second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "planted"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "first.py").write_text("from planted.second import B\n", encoding="utf-8")
    (package / "second.py").write_text(second, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    try:
        found = circle(imports_of("planted"))
    finally:
        sys.modules.pop("planted", None)
    assert set(found) == {"planted.first", "planted.second"}
    assert found[0] == found[-1]


def test_what_imports_one_way_is_no_circle() -> None:
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []
