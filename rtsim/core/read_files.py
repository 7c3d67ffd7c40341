"""Which files a thread opens for reading, so that a result can state what it was made from.

Python reports each opening of a file to audit hooks.  rtsim adds one hook, when it is first needed;
a hook cannot be removed, so it does nothing while no thread collects.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

Signature = tuple[int, int, int]
"""Size, time of the last change in ns, and number of a file: a changed file has another one."""
_HERE = threading.local()
_LOCK = threading.Lock()
_WRITES = os.O_WRONLY | os.O_RDWR
_added = False


@contextmanager
def reading() -> Iterator[dict[Path, Signature]]:
    """Collect the files that this thread opens for reading, with what they are at that time.

    Files that it also opens for writing are left out, and so are devices and missing files.
    """
    global _added
    with _LOCK:
        if not _added:
            sys.addaudithook(_hook)
            _added = True
    outer = getattr(_HERE, "files", None)
    opened: dict[str, Signature] = {}
    written: set[str] = set()
    _HERE.files = opened, written
    found: dict[Path, Signature] = {}
    try:
        yield found
    finally:
        _HERE.files = outer
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
    if event != "open":
        return
    files: tuple[dict[str, Signature], set[str]] | None = getattr(_HERE, "files", None)
    path, flags = arguments[0], arguments[2]
    if files is None or not isinstance(path, str | bytes | os.PathLike):
        return
    opened, written = files
    name = os.path.abspath(os.fsdecode(path))
    if isinstance(flags, int) and flags & _WRITES:
        written.add(name)
    elif name not in opened and (one := signature(name)) is not None:
        opened[name] = one
