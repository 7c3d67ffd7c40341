"""Folder for compiled functions and other build results, which users may delete at any time.

``RTSIM_CACHE_DIR`` selects another folder.  If the folder cannot be used, rtsim logs one warning
and continues.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from platformdirs import user_cache_dir

from rtsim.core.clock import civil
from rtsim.core.tag import NS_PER_S

UNUSED_NS = 90 * 86_400 * NS_PER_S
"""Entries that were unused for this time are removed."""
LEFT_NS = 86_400 * NS_PER_S
"""Incomplete entries of killed processes are removed after this time."""
MOST_ENTRIES = 4000
"""Maximum number of entries in one folder.  The least recently used entries are removed first."""
_HALF = (".part", ".tmp")


def cache_folder() -> Path:
    """Return ``$RTSIM_CACHE_DIR`` if set, else the user's cache folder.

    The folder need not exist. If the user has no home folder, return a temporary folder for this
    process.
    """
    given = os.environ.get("RTSIM_CACHE_DIR")
    if given:
        return Path(given).absolute()
    try:
        found = Path(user_cache_dir("rtsim"))
    except (RuntimeError, KeyError):
        found = Path("~")
    return found if found.is_absolute() else _of_this_process()


@cache
def _of_this_process() -> Path:
    folder = tempfile.mkdtemp(prefix="rtsim-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _say(
        f"no home folder was found: compiled functions are stored in {folder}, which is removed "
        "when this program ends"
    )
    return Path(folder)


def not_kept(folder: Path, error: BaseException) -> None:
    """Log one warning per process that compiled functions cannot be stored in ``folder``."""
    reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
    _not_kept(str(folder), reason)


@cache
def _not_kept(folder: str, reason: str) -> None:
    _say(
        f"compiled functions cannot be stored in {folder} ({reason}), so each run compiles them "
        "again; set RTSIM_CACHE_DIR to a writable folder"
    )


def _say(text: str) -> None:
    import logging  # most runs do not need this module

    logging.getLogger("rtsim").warning(text)


def prune(folder: Path, now_ns: int | None = None) -> None:
    """Remove old and incomplete entries of the cache ``folder``.

    ``now_ns`` is the present time of :func:`rtsim.core.clock.civil`.
    """
    now = civil() if now_ns is None else now_ns
    kept: list[tuple[int, Path]] = []
    for path, used in _entries(folder):
        half = path.suffix in _HALF
        if now - used > (LEFT_NS if half else UNUSED_NS):
            _remove(path)
        elif not half:
            kept.append((used, path))
    for _, path in sorted(kept)[: max(0, len(kept) - MOST_ENTRIES)]:
        _remove(path)


def _entries(folder: Path) -> Iterator[tuple[Path, int]]:
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            with suppress(OSError):
                about = [one.stat() for one in (os.scandir(entry) if entry.is_dir() else [entry])]
                times = [entry.stat().st_mtime_ns]  # an empty folder has no other time
                times += [ns for one in about for ns in (one.st_mtime_ns, one.st_atime_ns)]
                yield Path(entry.path), max(times)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
