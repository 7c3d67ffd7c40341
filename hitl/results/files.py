"""Writes result files; an existing file is overwritten only if it is of the same kind."""

from __future__ import annotations

from pathlib import Path

from rtsim.core.errors import RecordingError

_LOOKED_AT = 4096


def check_result(path: Path, mark: bytes, kind: str) -> None:
    """Raise :class:`RecordingError` before a run if its result cannot be written to ``path``.

    An existing file is accepted if it is empty or has ``mark`` in its first 4096 bytes.  ``kind``
    names the file in the error, such as "a report".
    """
    if not path.parent.is_dir():
        raise RecordingError(f"the folder {path.parent} for {path.name} does not exist; create it")
    if path.is_dir():
        raise RecordingError(f"{path} is a folder; give the name of a file in it")
    if not path.exists():
        return
    with path.open("rb") as file:
        start = file.read(_LOOKED_AT)
    if start and mark not in start:
        raise RecordingError(
            f"{path} exists and is not {kind} of rtsim sil, so it is not overwritten; give another "
            "name"
        )


def write(path: Path, text: str) -> None:
    """Write ``text`` in UTF-8; raises :class:`RecordingError` if that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise RecordingError(f"cannot write {path}: {error.strerror}") from error
