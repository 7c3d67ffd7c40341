"""Hashes of files, and the files that this process has read."""

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
"""Path and text of each module, by its name; that of the file itself is empty."""


def file_hash(path: Path) -> str:
    """Return the hash of a file as 64 hex digits; raises :class:`OSError` if it is unreadable."""
    return _hash_of(_found(path))


def modules_of(path: Path) -> list[Path]:
    """Return the files that :func:`file_hash` covers; raises :class:`OSError` likewise."""
    return [one for one, _ in _found(path).values()]


def tree_hash(folder: Path) -> str:
    """Return the hash of all Python files in ``folder`` and below it, as 64 hex digits.

    Raises :class:`OSError` for a folder that cannot be read.
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


# Which files a thread opens for reading, so that a result can state what it was made from.

Signature = tuple[int, int, int]
"""Size, time of the last change in ns, and number of a file: a changed file has another one."""
_HERE = threading.local()
_LOCK = threading.Lock()
_WRITES = os.O_WRONLY | os.O_RDWR
_PATHS = {"open": 0, "ctypes.dlopen": 0, "sqlite3.connect": 0, "import": 1}
"""Audit events that name a file, and the place of the name in their arguments.  ``import`` names
the file of a compiled module only."""
_added = False


@contextmanager
def reading() -> Iterator[dict[Path, Signature]]:
    """Collect the files that this thread opens for reading, with what they are at that time.

    The paths are absolute, and links in them are not resolved.  Files that it also opens for
    writing are left out, and so are SQLite databases that changed meanwhile, devices and missing
    files.
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
    """Return the signature of a regular file; ``None`` if there is none at ``path``."""
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
        name = os.path.join(os.getcwd(), name)  # abspath() would mistake "link/../a" for "a"
    flags = arguments[2] if event == "open" else 0
    if event == "sqlite3.connect":
        databases.add(name)
    if isinstance(flags, int) and flags & _WRITES:
        written.add(name)
    elif name not in opened and (one := signature(name)) is not None:
        opened[name] = one
