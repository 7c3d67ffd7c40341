"""Who may write to a path: nothing is written over that is not ours, and by one run at a time.

The claim is a lock on the open file that the writing process inherits; so it ends with that
process, however it ends, and a run that was killed leaves nothing behind that blocks the next one.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from rtsim.core.errors import RecordingError

MAGIC = b"\x89MCAP0\r\n"
"""How every MCAP file begins."""


class PathTaken(RecordingError):
    """Something is there already, or another run is writing it."""


@dataclass
class Claim:
    """A path that is ours to write, until it is given back and the writer has ended."""

    path: Path
    handles: tuple[int, ...]
    """What the writing process has to inherit."""
    new: bool
    """There was nothing at this path before."""
    _file: int

    def give_back(self, nothing_there: bool) -> None:
        """Close; ``nothing_there`` takes a new file away again."""
        if self._file < 0:
            return
        if nothing_there and self.new:
            with contextlib.suppress(OSError):
                self.path.unlink()
        for file in {self._file, *self.handles}:
            os.close(file)
        self._file = -1


def claim(path: Path, overwrite: bool) -> Claim:
    """Open ``path`` for one writer; :class:`PathTaken` where it is not free.

    ``overwrite`` allows an older recording to be written over, and nothing else.
    """
    new = not path.exists()
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        hint = f"; create the folder {path.parent}" if not path.parent.is_dir() else ""
        raise RecordingError(f"cannot record to {path}: {error.strerror}{hint}") from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return Claim(path, (), False, file)  # a device
        held = _lock(file, path)
        _refuse_to_overwrite(file, path, overwrite)
    except BaseException:
        os.close(file)
        raise
    return Claim(path, held, new, file)


def _refuse_to_overwrite(file: int, path: Path, overwrite: bool) -> None:
    about = os.fstat(file)
    if about.st_nlink == 0:
        raise PathTaken(f"another run has just taken {path} away; run it once more")
    if about.st_size == 0:
        return  # a file that somebody made for us
    if os.read(file, len(MAGIC)) != MAGIC:
        raise PathTaken(f"{path} is not a recording and is not written over; give another -o PATH")
    if not overwrite:
        raise PathTaken(
            f"{path} holds an older recording; give another -o PATH, or --force to write over it"
        )


def _lock(file: int, path: Path) -> tuple[int, ...]:
    """Lock ``file`` for as long as a process has it open; the handles that hold the lock."""
    busy = f"another run is recording to {path}; give another -o PATH, or wait for its end"
    if sys.platform == "win32":
        # The lock's handle cannot be inherited there: a file beside it that vanishes when closed.
        beside = os.O_CREAT | os.O_EXCL | os.O_TEMPORARY
        try:
            return (os.open(f"{path}.lock", beside),)
        except FileExistsError as error:
            raise PathTaken(busy) from error
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise PathTaken(busy) from error
    except OSError:
        return ()  # a file system without locks
    return (file,)
