"""Writes text files completely or not at all: if a write fails, an older file stays unchanged."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` to a temporary file next to ``path``, then replace ``path`` with it.

    A path that is not an ordinary file (``/dev/stdout``) is written directly.  Raises
    :class:`OSError`.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    target = path.resolve()  # a symbolic link stays a link
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
