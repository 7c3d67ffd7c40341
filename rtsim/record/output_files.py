"""Output files that are reserved for a run, and written completely or not at all.

A lock on the open file reserves a recording for a run. The lock ends with the writing process, so a
killed run does not block the next run. A run may overwrite only recordings.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rtsim.core.errors import RecordingError

MAGIC = b"\x89MCAP0\r\n"
"""The first bytes of every MCAP file."""
LIBRARY = "rtsim"
"""Name of the writing program in the first record of a recording."""


class PathTaken(RecordingError):
    """The file exists, or another run is writing to it."""


@dataclass
class Claim:
    """A file that is reserved until the writing process has ended."""

    path: Path
    handles: tuple[int, ...]
    """File handles that the writing process must inherit."""
    new: bool
    """True if the file did not exist before."""
    _file: int

    def give_back(self, nothing_there: bool) -> None:
        """Close the file; with ``nothing_there``, also remove a file that this run created."""
        if self._file < 0:
            return
        if nothing_there and self.new:
            with contextlib.suppress(OSError):
                self.path.unlink()
        for file in {self._file, *self.handles}:
            os.close(file)
        self._file = -1


def claim(path: Path, overwrite: bool) -> Claim:
    """Open the file ``path``, and reserve it for one writer.

    With ``overwrite``, an existing recording is overwritten, but no other file. Raises
    :class:`PathTaken` if the path is in use, and :class:`RecordingError` if the file cannot be
    opened.
    """
    new = not path.exists()
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        hint = ""
        if path.is_dir():
            hint = f"; give a file name, such as {path / 'run.mcap'}"
        elif not path.parent.is_dir():
            hint = f"; create the folder {path.parent}"
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


def begun(path: Path) -> bool:
    """Return whether ``path`` is an MCAP file from rtsim."""
    with path.open("rb") as file:
        first = file.read(64)
    name = LIBRARY.encode()
    texts = bytes(4) + len(name).to_bytes(4, "little") + name  # an empty profile, and the library
    return first.startswith(MAGIC + b"\x01") and first[len(MAGIC) + 9 :].startswith(texts)


def _refuse_to_overwrite(file: int, path: Path, overwrite: bool) -> None:
    about = os.fstat(file)
    if about.st_nlink == 0:
        raise PathTaken(f"another run has just removed {path}; type the command again")
    if about.st_size == 0:
        return  # an empty file may be used
    found = os.read(file, len(MAGIC))
    if len(found) < len(MAGIC) and MAGIC.startswith(found):
        return  # a run may have ended before the first bytes were complete
    if found != MAGIC:
        raise PathTaken(
            f"{path} exists and is not a recording, so it is not overwritten; give another -o PATH"
        )
    if not overwrite:
        raise PathTaken(
            f"{path} is an existing recording; give another -o PATH, or --force to overwrite "
            "the recording"
        )


def _lock(file: int, path: Path) -> tuple[int, ...]:
    busy = f"another run is recording to {path}; give another -o PATH, or wait until it ends"
    if sys.platform == "win32":
        # A lock cannot be inherited on Windows. A second file serves as the lock, and is deleted
        # when it is closed.
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
        return ()  # the file system has no locks
    return (file,)


# Files that are written completely or not at all.  If a write fails, an older file is unchanged.


@contextmanager
def atomically(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path``.

    Without an error, the file is renamed to ``path`` at the end.

    For a special file such as ``/dev/stdout``, the function yields ``path`` itself.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    target = path.resolve()  # a symbolic link is kept
    if not target.parent.is_dir():  # without the name of the temporary file
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` completely or not at all; raise ``OSError`` on failure."""
    with atomically(path) as beside:
        beside.write_text(text, encoding="utf-8")
