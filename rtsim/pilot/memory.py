"""Files in memory: allocates each file completely, and removes the files of killed runs."""

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
    """Return the folder ``/dev/shm`` if the system has it, else the folder for temporary files."""
    memory = Path("/dev/shm")
    there = memory.is_dir() and os.access(memory, os.W_OK)
    return memory if there else Path(tempfile.gettempdir())


def new_file(folder: Path, data: bytes) -> tuple[Path, mmap.mmap]:
    """Create a file with ``data`` for this user alone, and map it into memory.

    All bytes are written at once: if the memory is full, this raises :class:`OSError`. Otherwise
    the system could kill a process that later touches an unallocated part of the file.
    """
    number, name = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
    path = Path(name)
    try:
        with os.fdopen(number, "r+b") as file:
            _lock(number)
            file.write(data)
            file.flush()
            return path, mmap.mmap(number, len(data))
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def sweep(folder: Path, magic: bytes) -> None:
    """Remove the files of this user's killed runs; each such file begins with ``magic``."""
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if _is_abandoned(path, magic):
                path.unlink()


def _lock(number: int) -> None:
    """Lock the file while it is mapped, so that :func:`sweep` does not remove it."""
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _is_abandoned(path: Path, magic: bytes) -> bool:
    """Return whether no process has the file locked.

    The function does not compare process ids, because another process can have the same id by now.
    """
    if sys.platform == "win32":  # Windows removes the file when the last process unmaps it
        return False
    about = path.lstat()
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid():
        return False
    with path.open("rb") as file:
        if file.read(len(magic)) != magic:  # incomplete, or of another program
            return False
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises OSError if the file is locked
    return True
