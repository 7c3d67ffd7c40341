"""Where what was compiled and built is kept.  All of it can be made again: losing it costs time.

``RTSIM_CACHE_DIR`` puts it elsewhere.  A folder that cannot be used is told of in one line, and
ends nothing.
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
"""What nobody has used for so long is removed."""
LEFT_NS = 86_400 * NS_PER_S
"""What a process that was killed left half written is removed after so long."""
MOST_ENTRIES = 4000
"""Of one folder; those that were used last stay."""
_HALF = (".part", ".tmp")


def cache_folder() -> Path:
    """``$RTSIM_CACHE_DIR``, else the user's cache folder; need not exist.

    Without a home folder it is one for this process alone.
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
    _say(f"no home folder: what is compiled is kept in {folder} until this program ends")
    return Path(folder)


def not_kept(folder: Path, error: BaseException) -> None:
    """Tell, once in a process, that what was compiled cannot be kept there."""
    reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
    _not_kept(str(folder), reason)


@cache
def _not_kept(folder: str, reason: str) -> None:
    _say(
        f"compiled functions cannot be kept in {folder} ({reason}) and are compiled again each "
        "time; set RTSIM_CACHE_DIR to a folder that can be written"
    )


def _say(text: str) -> None:
    import logging  # not on the way of a run whose functions are all compiled

    logging.getLogger("rtsim").warning(text)


def prune(folder: Path, now_ns: int | None = None) -> None:
    """Remove what was not used for long, what is beyond the most entries, and what is half written.

    ``now_ns`` is that of :func:`rtsim.core.clock.civil`.
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
    """Each with when it was read or written last (ns)."""
    with suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            with suppress(OSError):
                about = [one.stat() for one in (os.scandir(entry) if entry.is_dir() else [entry])]
                times = [entry.stat().st_mtime_ns, *(s.st_mtime_ns for s in about)]
                yield Path(entry.path), max(*times, *(s.st_atime_ns for s in about))


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
