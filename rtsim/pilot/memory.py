"""Files that lie in memory: each is all there, or none is."""

from __future__ import annotations

import mmap
import os
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "rtsim-pilot-"


def memory_folder() -> Path:
    """Memory where the system shows some as a folder; else the folder for temporary files."""
    memory = Path("/dev/shm")
    there = memory.is_dir() and os.access(memory, os.W_OK)
    return memory if there else Path(tempfile.gettempdir())


def new_file(folder: Path, data: bytes) -> tuple[Path, mmap.mmap]:
    """With ``data``, mapped, for this user alone; none where an :class:`OSError` says why.

    All of it is written: in memory that is full, whoever touches a hole of a file is killed.
    """
    number, name = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
    path = Path(name)
    try:
        with os.fdopen(number, "r+b") as file:
            file.write(data)
            file.flush()
            return path, mmap.mmap(number, len(data))
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
