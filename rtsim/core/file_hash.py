"""A hash over the bytes of a Python file and of the local modules that it imports.

The hash is computed without importing the file, so that it can be computed before the file is run.
Modules are found by the import statements in the text, in the folder of the file and on the path.
Installed packages and the standard library are not included.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

_INSTALLED = {"site-packages", "dist-packages"}
_NOT_LOCAL = {*sys.stdlib_module_names, "rtsim", "hitl"}
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
MOST_FILES = 1000
_Found = dict[str, tuple[Path, bytes]]
"""Path and text of each module, by its name; that of the file itself is empty."""


def file_hash(path: Path) -> str:
    """Return the hash of a file as 64 hex digits; raises :class:`OSError` if it is unreadable."""
    return _hash_of(_found(path))


def modules_of(path: Path) -> list[Path]:
    """Return the files that :func:`file_hash` covers; raises :class:`OSError` likewise."""
    return [one for one, _ in _found(path).values()]


def tree_hash(folder: Path) -> str:
    """Return the hash of all Python files in ``folder`` and below it, as 64 hex digits."""
    files = sorted(folder.rglob("*.py"))
    return _hash_of({f.relative_to(folder).as_posix(): (f, f.read_bytes()) for f in files})


def _hash_of(found: _Found) -> str:
    out = hashlib.sha256()
    for name in sorted(found):
        out.update(f"{name} {hashlib.sha256(found[name][1]).hexdigest()}\n".encode())
    return out.hexdigest()


def _found(path: Path) -> _Found:
    source = path.read_bytes()
    found: _Found = {"": (path, source)}
    _follow(source, "", [str(path.resolve().parent), *sys.path], found)
    return found


def _follow(source: bytes, package: str, folders: list[str], found: _Found) -> None:
    """Add the modules that ``source`` imports, directly or indirectly, to ``found``."""
    try:
        tree = ast.parse(source)
    except _UNREADABLE:
        return
    for name in _imported(tree, package):
        for module, path in _files(name, folders):
            if module not in found and len(found) < MOST_FILES:
                try:
                    found[module] = path, path.read_bytes()
                except OSError:
                    continue
                inside = module if path.name == "__init__.py" else module.rpartition(".")[0]
                _follow(found[module][1], inside, folders, found)


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) + 1 - node.level]
            base = ".".join([*(parents if node.level else []), *filter(None, [node.module])])
            if base:
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names)


def _files(name: str, folders: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield the name and file of a local module, and of each local package that contains it."""
    parts = name.split(".")
    if parts[0] in _NOT_LOCAL:
        return
    where: list[str] | None = folders
    for k in range(len(parts)):
        module = ".".join(parts[: k + 1])
        spec = PathFinder.find_spec(parts[k], where)  # with dots, it would look in sys.modules
        if spec is None:
            return
        if spec.has_location and spec.origin is not None:
            path = Path(spec.origin)
            if _INSTALLED & set(path.parts) or path.suffix != ".py":
                return
            yield module, path
        if spec.submodule_search_locations is None:
            return
        where = list(spec.submodule_search_locations)
