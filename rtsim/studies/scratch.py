"""The temporary folder of the local workers, which is removed even after a kill of its owner."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = "rtsim-study-"


@contextmanager
def scratch() -> Iterator[Path]:
    """Give a new folder and remove it afterwards; also remove those of processes that were killed.

    The owner holds a lock on its folder, which the system releases when the process ends.
    """
    _remove_left_ones()
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        held = _locked(path)
        if path.exists():  # another process can remove it before the lock is held
            break
        _release(held)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        _release(held)


def _remove_left_ones() -> None:
    """Remove the folders whose owners have ended; on Windows they stay."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        held = _locked(path)
        if held is not None:
            shutil.rmtree(path, ignore_errors=True)
            _release(held)


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
