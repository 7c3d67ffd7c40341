"""What was built, kept in the user's cache folder under all that it depends on.

An entry is a folder ``STEM-CONTENTS``.  The stem is known before the compiler runs.  Which headers
were read is known afterwards; the entry's manifest holds each file with its hash, so that a later
look needs no compiler.  Entries are made elsewhere and moved into place in one step: two processes
may build the same at once, and one that is interrupted leaves none.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hitl.building.cache import cache_folder, not_writable
from hitl.building.toolchain import CannotBuild

_MANIFEST, _MAKING = "manifest.json", "making-"
_ABANDONED_S = 3600
_UNUSED_S = 30 * 86_400
_SUFFIXES = 3
"""``#include`` names of headers outside the user's folders have at most so many parts."""


@dataclass(frozen=True)
class Snapshot:
    """Files by the hash of their contents, and paths at which there must be none.

    A new file at one of these would be found first: a header that hides another.
    """

    files: dict[str, str]
    absent: tuple[str, ...] = ()

    @classmethod
    def of(cls, files: Iterable[Path], rivals: Iterable[Path] = ()) -> Snapshot:
        """As they are now."""
        absent = sorted(str(p) for p in set(rivals) if not p.exists())
        return cls({str(p): hash_of(p) for p in sorted(set(files))}, tuple(absent))

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.files).encode()).hexdigest()[:12]

    def holds(self) -> bool:
        """True while nothing of it has changed."""
        same = all(hash_of(path) == known for path, known in self.files.items())
        return same and not any(map(os.path.exists, self.absent))


def rivals(headers: Iterable[Path], folders: Sequence[Path]) -> Iterator[Path]:
    """Where another file could stand in ``folders`` that would be included in place of one read."""
    for header in headers:
        parts = header.parts
        names = {Path(*parts[-k:]) for k in range(1, min(_SUFFIXES, len(parts) - 1) + 1)}
        names |= {header.relative_to(f) for f in folders if header.is_relative_to(f)}
        for folder in folders:
            yield from (path for name in names if (path := folder / name) != header)


def root() -> Path:
    """Below the cache folder; need not exist."""
    return cache_folder() / "sil"


def find(stem: str, contents: Sequence[str]) -> Path | None:
    """The entry of ``stem`` that holds all ``contents`` and whose files are as they were."""
    for folder in sorted(root().glob(f"{stem}-*")):
        snapshot = _read(folder / _MANIFEST)
        whole = all((folder / name).is_file() for name in contents)
        if snapshot is not None and whole and snapshot.holds():
            with suppress(OSError):  # read-only is good enough
                os.utime(folder)
            return folder
    return None


def read_by(folder: Path) -> list[Path]:
    """The files that the entry in ``folder`` was made of."""
    snapshot = _read(folder / _MANIFEST)
    return [] if snapshot is None else [Path(path) for path in snapshot.files]


@contextmanager
def workshop() -> Iterator[Path]:
    """A folder to build in, gone afterwards; :class:`CannotBuild` where none can be made."""
    place = root()
    try:
        place.mkdir(parents=True, exist_ok=True)
        work = tempfile.TemporaryDirectory(dir=place, prefix=_MAKING, ignore_cleanup_errors=True)
    except OSError as error:
        raise CannotBuild(not_writable(place, error)) from None
    with work as name:
        _sweep(place, Path(name).stat().st_mtime)
        yield Path(name)


def settle(made: Path, folder: Path, snapshot: Snapshot, contents: Sequence[str]) -> None:
    """Move what was ``made`` to its place; whoever was there first has built the same."""
    manifest = {"files": snapshot.files, "absent": snapshot.absent}
    (made / _MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    for _ in range(2):
        try:
            made.rename(folder)
            return
        except OSError:
            if not folder.is_dir():
                raise
        if all((folder / name).is_file() for name in (*contents, _MANIFEST)):
            return
        shutil.rmtree(folder, ignore_errors=True)  # somebody has taken parts of it away


def _read(manifest: Path) -> Snapshot | None:
    try:
        data = json.loads(manifest.read_text(encoding="utf-8"))
        return Snapshot(dict(data["files"]), tuple(data["absent"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def hash_of(path: str | Path) -> str:
    """Of a file's contents; of one that is not there, nothing."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _sweep(place: Path, now: float) -> None:
    """What a killed process has left, and what nobody has used for a month."""
    for path in place.iterdir():
        with suppress(OSError):
            scratch = path.name.startswith(_MAKING) or path.is_file()
            if now - path.stat().st_mtime <= (_ABANDONED_S if scratch else _UNUSED_S):
                continue
            if path.is_file():
                path.unlink()
            else:
                shutil.rmtree(path, ignore_errors=True)
