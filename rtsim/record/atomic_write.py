"""Writes files completely or not at all: if a write fails, an older file stays unchanged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomically(path: Path) -> Iterator[Path]:
    """Give a temporary path next to ``path``; it replaces ``path`` if no error is raised.

    A path that is not an ordinary file (``/dev/stdout``) is given as it is.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    target = path.resolve()  # a symbolic link stays a link
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` by :func:`atomically`; raises :class:`OSError`."""
    with atomically(path) as beside:
        beside.write_text(text, encoding="utf-8")
