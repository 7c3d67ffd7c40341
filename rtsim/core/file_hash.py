"""Hashes of files, and a list of the files that a thread reads."""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from urllib.parse import unquote

_INSTALLED = {"site-packages", "dist-packages"}
_NOT_LOCAL = {*sys.stdlib_module_names, "rtsim", "hitl"}
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
MOST_FILES = 1000
_Found = dict[str, tuple[Path, bytes]]
"""Path and source of each module by name.  The name of the main file is ""."""


def file_hash(path: Path) -> str:
    """Return a hash of a Python file and the local modules that it imports (64 hex digits).

    Raises :class:`OSError` if the file is unreadable.
    """
    return _hash_of(_found(path))


def modules_of(path: Path) -> list[Path]:
    """Return a Python file and the local modules that it imports.

    Raises ``OSError`` if the file at ``path`` is unreadable.
    """
    return [one for one, _ in _found(path).values()]


def tree_hash(folder: Path) -> str:
    """Return a hash of all Python files in ``folder`` and its subfolders (64 hex digits).

    Raises :class:`OSError` if a folder or file is unreadable.
    """
    walked = os.walk(folder, onerror=_raise)
    files = sorted(Path(at, n) for at, _, names in walked for n in names if n.endswith(".py"))
    return _hash_of({f.relative_to(folder).as_posix(): (f, f.read_bytes()) for f in files})


def _raise(error: OSError) -> None:
    raise error


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
    parts = name.split(".")
    if parts[0] in _NOT_LOCAL:
        return
    where: list[str] | None = folders
    for k in range(len(parts)):
        module = ".".join(parts[: k + 1])
        spec = PathFinder.find_spec(parts[k], where)  # a dotted name would search sys.modules
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


# Record the files that a thread opens for reading, so that a result can state its sources.

Signature = tuple[int, int, int]
"""Size, modification time [ns] and inode number of a file, which together detect a change."""
_HERE = threading.local()
_LOCK = threading.Lock()
_WRITES = os.O_WRONLY | os.O_RDWR
_PATHS = {"open": 0, "ctypes.dlopen": 0, "sqlite3.connect": 0, "import": 1}
"""Audit events that name a file, and the position of the name in their arguments.

``import`` names a file for compiled modules only.
"""
_added = False


@contextmanager
def reading() -> Iterator[dict[Path, Signature]]:
    """Context manager that lists the files which this thread opens for reading.

    The paths are absolute, with unresolved links. The list omits devices, missing files, and files
    that the thread also writes.
    """
    global _added
    with _LOCK:
        if not _added:
            sys.addaudithook(_hook)
            _added = True
    outer = getattr(_HERE, "files", None)
    opened: dict[str, Signature] = {}
    written: set[str] = set()
    databases: set[str] = set()
    _HERE.files = opened, written, databases
    found: dict[Path, Signature] = {}
    try:
        yield found
    finally:
        _HERE.files = outer
        written |= {name for name in databases if signature(name) != opened.get(name)}
        found |= {Path(name): one for name, one in opened.items() if name not in written}


def signature(path: str | Path) -> Signature | None:
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return None
    if about.st_mode & 0o170000 != 0o100000:
        return None
    return about.st_size, about.st_mtime_ns, about.st_ino


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    at = _PATHS.get(event)
    if at is None:
        return
    files: tuple[dict[str, Signature], set[str], set[str]] | None = getattr(_HERE, "files", None)
    path = arguments[at]
    if files is None or not isinstance(path, str | bytes | os.PathLike):
        return
    opened, written, databases = files
    name = os.fsdecode(path)
    if event == "sqlite3.connect" and name.startswith("file:"):
        name = unquote(name.removeprefix("file:").partition("?")[0])
    if not os.path.isabs(name):
        name = os.path.join(os.getcwd(), name)  # abspath() would turn "link/../a" into "a"
    flags = arguments[2] if event == "open" else 0
    if event == "sqlite3.connect":
        databases.add(name)
    if isinstance(flags, int) and flags & _WRITES:
        written.add(name)
    elif name not in opened and (one := signature(name)) is not None:
        opened[name] = one
