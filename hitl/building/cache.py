"""Find the cache folder for builds and for compilers that store files of their own."""

from __future__ import annotations

from pathlib import Path

from rtsim.core.cache import cache_folder as cache_folder


def not_writable(folder: Path, error: OSError) -> str:
    """Return the error message for a cache folder that cannot be written."""
    return (
        f"cannot write to the cache folder {folder}: {error.strerror}; "
        "set RTSIM_CACHE_DIR to a writable folder"
    )
