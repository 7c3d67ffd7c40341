"""The temporary folder of the local workers, which is removed even after a kill of its owner."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "rtsim-workers-of-a-study-"
MARK = ".remove-when-unlocked"
"""File that only this module writes: a folder without it is not removed."""


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a new folder and remove it afterwards; also remove those of processes that were killed.

    The owner holds a lock on its folder, which the system releases when the process ends.
    """
    _remove_left_ones()
    path = Path(tempfile.mkdtemp(prefix=PREFIX))
    held = _locked(path)
    try:
        (path / MARK).touch()  # after the lock, so that no other process removes the folder
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        _release(held)


def _remove_left_ones() -> None:
    """Remove the folders whose owners have ended; on Windows they stay."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        held = _locked(path) if _is_ours(path) else None
        if held is not None:
            shutil.rmtree(path, ignore_errors=True)
            _release(held)


def _is_ours(path: Path) -> bool:
    """Return whether :func:`scratch` made the folder for this user."""
    if sys.platform == "win32":
        return False
    try:
        mark = (path / MARK).lstat()
    except OSError:
        return False
    return mark.st_uid == path.lstat().st_uid == os.geteuid() and not path.is_symlink()


def _locked(path: Path) -> int | None:
    """Return a file descriptor that locks ``path``; ``None`` if that is not possible."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        held = os.open(path, os.O_RDONLY)
    except OSError:
        return None  # another user's, or gone
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _release(held: int | None) -> None:
    if held is not None:
        os.close(held)
