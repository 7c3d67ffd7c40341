"""Result files: written over older ones of their kind, and over nothing else."""

from __future__ import annotations

from pathlib import Path

from rtsim.core.errors import RecordingError

_LOOKED_AT = 4096


def check_result(path: Path, mark: bytes, kind: str) -> None:
    """Refuse, before anything flies, a file that is something else, or cannot be written.

    ``mark`` is what a result of this kind has near its start.
    """
    if not path.parent.is_dir():
        raise RecordingError(f"no folder {path.parent} for {path.name}; make it, or give another")
    if path.is_dir():
        raise RecordingError(f"{path} is a folder; give the name of a file")
    if not path.exists():
        return
    with path.open("rb") as file:
        start = file.read(_LOOKED_AT)
    if start and mark not in start:
        raise RecordingError(
            f"{path} is not {kind} of rtsim sil and is not written over; give another name"
        )


def write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordingError(f"cannot write {path}: {error.strerror}") from error
