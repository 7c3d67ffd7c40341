"""``python -m tools.house``: the size of the source, of its tests and of an installation.

With ``--save FILE`` the figures are kept; with ``--before FILE`` they are shown beside older ones.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from importlib.metadata import Distribution, distribution
from importlib.metadata import PackageNotFoundError as NotInstalled
from pathlib import Path

import click
from packaging.requirements import Requirement
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ("rtsim", "hitl")
CROWDED = 5
"""Number of folders of tests and of packages of an installation that are listed by name."""

Figures = dict[str, float]


@click.command()
@click.option("--save", type=click.Path(path_type=Path), help="Write the figures as JSON.")
@click.option("--before", type=click.Path(exists=True, path_type=Path), help="Figures to compare.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--test-seconds", type=float, help="Seconds that `make test` took here.")
def main(save: Path | None, before: Path | None, as_json: bool, test_seconds: float | None) -> None:
    """Count lines, classes, modules, test files and the megabytes of an installation."""
    found = figures(ROOT)
    if test_seconds is not None:
        found["seconds of make test"] = test_seconds
    text = json.dumps(found, indent=1)
    if save is not None:
        save.write_text(text + "\n", encoding="utf-8")
    if as_json:
        click.echo(text)
        return
    old: Figures = json.loads(before.read_text(encoding="utf-8")) if before else {}
    table = Table("figure", *(["before"] if old else []), "now", box=None)
    for name in dict.fromkeys((*old, *found)):
        cells = [f"{one[name]:,.0f}" if name in one else "" for one in (old, found)]
        table.add_row(name, *(cells if old else cells[1:]))
    Console().print(table)


def figures(root: Path) -> Figures:
    """Return all figures of the project in ``root`` by their names."""
    shipped = {_module(path, root): path for room in SHIPPED for path in _sources(root / room)}
    tests = _sources(root / "tests")
    found: Figures = {}
    for room, paths in (("rtsim and hitl", list(shipped.values())), ("tests", tests)):
        kinds = sum((lines(path.read_text(encoding="utf-8")) for path in paths), Counter())
        found[f"lines of {room}"] = kinds.total()
        for kind in ("code", "docstrings", "imports", "comments", "empty"):
            found[f"lines of {room}: {kind}"] = kinds[kind]
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in shipped.items()}
    found["classes"] = sum(
        isinstance(node, ast.ClassDef) for tree in trees.values() for node in ast.walk(tree)
    )
    found["modules"] = len(shipped)
    found["modules with one importer"] = sum(len(who) == 1 for who in importers(trees).values())
    found["longest module, lines"] = max(
        len(path.read_text(encoding="utf-8").splitlines()) for path in shipped.values()
    )
    found["test files"] = sum(path.name.startswith("test_") for path in tests)
    folders = Counter(
        str(path.parent.relative_to(root)) for path in tests if path.name.startswith("test_")
    )
    for folder, count in folders.most_common(CROWDED):
        found[f"test files in {folder}"] = count
    sizes = installed()
    found["install, MB"] = sum(sizes.values()) / 1e6
    for name, size in Counter(sizes).most_common(CROWDED):
        found[f"install, MB: {name}"] = size / 1e6
    return found


def lines(source: str) -> Counter[str]:
    """Count the lines of ``source``: code, docstrings, imports, comments, empty."""
    rows = source.splitlines()
    kind = ["code" if row.strip() else "empty" for row in rows]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
            kind[token.start[0] - 1] = "comments"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            name = "imports"
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            name = "docstrings" if isinstance(node.value.value, str) else "code"
        else:
            continue
        for row in range(node.lineno - 1, node.end_lineno or node.lineno):
            kind[row] = name
    return Counter(kind)


def importers(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Return the modules of ``trees`` that import each module; packages themselves are left out."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for importer, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names)):
                    found[name].add(importer)
            elif isinstance(node, ast.Import):
                for one in node.names:
                    found[one.name].add(importer)
    return {name: found[name] for name in trees if not name.endswith("__init__")}


def installed() -> dict[str, int]:
    """Return the bytes of rtsim's base installation by distribution, with all it requires.

    They contain the byte code that pip has compiled, but for rtsim itself, which is editable here.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sizes = {"rtsim": _bytes_here()}
    wanted = [Requirement(text).name.lower() for text in project["dependencies"]]
    while wanted:
        name = wanted.pop()
        if name in sizes:
            continue
        try:
            found = distribution(name)
        except NotInstalled:
            continue
        sizes[name] = _bytes_of(found)
        for text in found.requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                wanted.append(needed.name.lower())
    return sizes


def _bytes_of(found: Distribution) -> int:
    files = (Path(str(found.locate_file(one))) for one in found.files or ())
    return sum(path.stat().st_size for path in files if path.is_file())


def _bytes_here() -> int:
    """Bytes of this project's own packages: an editable installation holds none of its files."""
    paths = (path for room in SHIPPED for path in (ROOT / room).rglob("*"))
    return sum(p.stat().st_size for p in paths if p.is_file() and "__pycache__" not in p.parts)


def _sources(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def _module(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts)


if __name__ == "__main__":
    sys.exit(main())
