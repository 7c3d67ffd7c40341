"""Text files that are whole, or not there: what was there before stays where a write fails."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write beside ``path`` and put it in its place; raises :class:`OSError`.

    What is no ordinary file (``/dev/stdout``) is written where it is.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    target = path.resolve()  # a link stays one
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
