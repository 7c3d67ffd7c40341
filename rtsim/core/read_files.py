"""Which files a thread opens for reading, so that a result can state what it was made from.

Python reports each opening of a file to audit hooks, and each loading of a shared library and of an
SQLite database.  It does not report files that a library in C opens by itself.  rtsim adds one
hook, when it is first needed; a hook cannot be removed, so it does nothing while no thread
collects.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

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
