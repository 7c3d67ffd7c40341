"""Where what was built is kept, and the files of a compiler that keeps its own."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_dir


def cache_folder() -> Path:
    """``$RTSIM_CACHE_DIR``, else the user's cache folder; need not exist."""
    return Path(os.environ.get("RTSIM_CACHE_DIR") or user_cache_dir("rtsim")).absolute()


def not_writable(folder: Path, error: OSError) -> str:
    """What to say of a cache folder that refuses a file."""
    return (
        f"cannot write to the cache folder {folder}: {error.strerror}; "
        "set RTSIM_CACHE_DIR to a folder that can be written"
    )
