"""Where what was built is kept, and the files of a compiler that keeps its own."""

from __future__ import annotations

from pathlib import Path

from rtsim.core.cache import cache_folder as cache_folder


def not_writable(folder: Path, error: OSError) -> str:
    """What to say of a cache folder that refuses a file."""
    return (
        f"cannot write to the cache folder {folder}: {error.strerror}; "
        "set RTSIM_CACHE_DIR to a folder that can be written"
    )
