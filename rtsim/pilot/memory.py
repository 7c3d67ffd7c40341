"""Files that lie in memory: each is all there, and none stays behind for good."""

from __future__ import annotations

import mmap
import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl

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
            _hold(number)
            file.write(data)
            file.flush()
            return path, mmap.mmap(number, len(data))
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def sweep(folder: Path, magic: bytes) -> None:
    """Remove what this user's runs left that were killed; such a file opens with ``magic``."""
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if _left(path, magic):
                path.unlink()


def _hold(number: int) -> None:
    """Locked for as long as it is mapped, which keeps the file open: then nobody removes it."""
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _left(path: Path, magic: bytes) -> bool:
    """Nobody holds it; a process's number would not tell, it may be another's by now."""
    if sys.platform == "win32":  # a file goes there with the last process that has it mapped
        return False
    about = path.lstat()
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid():
        return False
    with path.open("rb") as file:
        if file.read(len(magic)) != magic:  # not written yet, or somebody else's
            return False
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises where somebody does
    return True
