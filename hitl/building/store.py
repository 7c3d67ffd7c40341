"""Store builds in the user's cache folder, keyed by everything that a build depends on.

A stored build is a folder ``STEM-CONTENTS``.  STEM has a hash of the inputs that are known before
the compiler runs.  CONTENTS is a hash of all files that the compiler has read, including headers.
The manifest in the folder lists these files with their hashes, so that a later search needs no
compiler.  If the tools may have read other files as well, the manifest says why, and the build is
not used again.  A build is made in a temporary folder, which is renamed when it is complete.
Therefore two processes can make the same build at once, and an interrupted build leaves nothing
incomplete.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from hitl.building.cache import cache_folder, not_writable
from hitl.building.toolchain import CannotBuild

_MANIFEST, _MAKING = "manifest.json", "making-"
_ABANDONED_S = 3600
_UNUSED_S, _ONCE_S = 30 * 86_400, 7 * 86_400
_ONCE = "-once-"
"""Part of the name of a build that is used only by the command that made it."""
PRECOMPILED = (".gch", ".pch")
"""Suffixes of precompiled headers, which stand beside the header."""
_SUFFIXES = 3
"""Most path components that an ``#include`` of a header outside the user's folders may have."""


@dataclass(frozen=True)
class Snapshot:
    """The hashes of the files of a build, and paths at which no file may exist.

    The compiler would include a new file at such a path in place of a header that it has read.
    """

    files: dict[str, str]
    absent: tuple[str, ...] = ()
    linked: dict[str, str] = field(default_factory=dict)
    """The files that the linker has read, or that flags name."""
    unknown: str = ""
    """Why the tools may have read other files as well; "" if they have not."""
    listed: dict[str, str] = field(default_factory=dict)
    """Folders of libraries, with the hash of the names in them."""

    @classmethod
    def of(
        cls, files: Iterable[Path], rivals: Iterable[Path] = (), linked: Iterable[Path] = (),
        unknown: str = "", listed: Iterable[Path] = (),
    ) -> Snapshot:  # fmt: skip
        """Return a snapshot of ``files`` and ``linked`` as they are now.

        ``rivals`` are the paths at which no file may exist; a path is left out if it exists now.
        ``listed`` are folders in which no name may appear or go.
        """
        absent = sorted(str(p) for p in set(rivals) if not p.exists())
        compiled, others = ({str(p): hash_of(p) for p in sorted(set(s))} for s in (files, linked))
        names = {str(folder): _names_of(folder) for folder in sorted(set(listed))}
        return cls(compiled, tuple(absent), others, unknown, names)

    def folder(self, stem: str) -> Path:
        """Return the folder of the build; a build that must not be used again has its own."""
        known = [self.files, self.linked, self.absent, self.listed]
        digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()[:12]
        once = f"{_ONCE}{secrets.token_hex(6)}" if self.unknown else ""
        return root() / f"{stem}-{digest}{once}"

    def holds(self) -> bool:
        """Return True if files and listed folders are unchanged and the absent paths stay so."""
        known = [*self.files.items(), *self.linked.items()]
        same = all(hash_of(path) == contents for path, contents in known)
        same = same and all(_names_of(path) == names for path, names in self.listed.items())
        return same and not any(map(os.path.exists, self.absent))


def rivals(
    headers: Iterable[Path], folders: Sequence[Path], users: Sequence[Path]
) -> Iterator[Path]:
    """Yield the paths in ``folders`` at which a new file would replace one of ``headers``.

    A header in the folders ``users`` may be included by any part of its path, and a header of the
    system by its path in a searched folder.  The folder of each header is searched as well, for the
    headers that it includes.  gcc reads a precompiled NAME.gch in place of NAME, clang NAME.pch.
    """
    headers = list(headers)
    places = list(dict.fromkeys([*folders, *(header.parent for header in headers)]))
    for header in headers:
        within = [folder for folder in folders if header.is_relative_to(folder)]
        names = {header.relative_to(folder) for folder in within}
        if not within or any(header.is_relative_to(folder) for folder in users):
            parts = header.parts
            names |= {Path(*parts[-k:]) for k in range(1, min(_SUFFIXES, len(parts) - 1) + 1)}
            yield from (Path(f"{header}{suffix}") for suffix in PRECOMPILED)
            names |= {name.with_name(f"{name.name}.gch") for name in names}
        for folder in places:
            yield from (path for name in names if (path := folder / name) != header)


def root() -> Path:
    """Return the folder of all stored builds, in the cache folder; it may not exist yet."""
    return cache_folder() / "sil"


def find(stem: str, contents: Sequence[str]) -> Path | None:
    """Return the folder of a stored build that is still valid; ``None`` if there is no such build.

    The name of the folder begins with ``stem``.  A valid build has all files ``contents``, none of
    the files in its manifest has changed, and the manifest names all files that were read.
    """
    for folder in sorted(root().glob(f"{stem}-*")):
        snapshot = None if _ONCE in folder.name else _read(folder / _MANIFEST)
        whole = all((folder / name).is_file() for name in contents)
        if snapshot is not None and whole and snapshot.holds():
            with suppress(OSError):  # the folder may be read-only
                os.utime(folder)
            return folder
    return None


def read_by(folder: Path) -> list[Path]:
    """Return the sources and headers of the build in ``folder``, without symbolic links."""
    snapshot = _read(folder / _MANIFEST)
    return [] if snapshot is None else list({Path(path).resolve(): 0 for path in snapshot.files})


@contextmanager
def workshop() -> Iterator[Path]:
    """Make a temporary folder for a build in a ``with`` block.

    Raises :class:`CannotBuild` if the folder cannot be made.
    """
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
    """Move a finished build from the folder ``made`` to ``folder``.

    If another process has stored the same build first, that build is kept.  The manifest is written
    from ``snapshot``; ``contents`` are the files that a complete build has.
    """
    (made / _MANIFEST).write_text(json.dumps(asdict(snapshot)), encoding="utf-8")
    for _ in range(2):
        try:
            made.rename(folder)
            return
        except OSError:
            if not folder.is_dir():
                raise
        if all((folder / name).is_file() for name in (*contents, _MANIFEST)):
            return
        shutil.rmtree(folder, ignore_errors=True)  # the stored build is incomplete: replace it


def _read(manifest: Path) -> Snapshot | None:
    try:
        data = json.loads(manifest.read_text(encoding="utf-8"))
        found = Snapshot(dict(data["files"]), tuple(data["absent"]), dict(data["linked"]))
        return replace(found, unknown=str(data["unknown"]), listed=dict(data["listed"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def hash_of(path: str | Path) -> str:
    """Return the SHA-256 of a file's contents; "" if the file cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _names_of(folder: str | Path) -> str:
    """Return the SHA-256 of the names in a folder; "" if the folder cannot be read."""
    try:
        return hashlib.sha256("\0".join(sorted(os.listdir(folder))).encode()).hexdigest()
    except OSError:
        return ""


def _sweep(place: Path, now: float) -> None:
    """Remove the files of killed processes, and builds that were not used for 30 (or 7) days."""
    for path in place.iterdir():
        with suppress(OSError):
            scratch = path.name.startswith(_MAKING) or path.is_file()
            unused = _ONCE_S if _ONCE in path.name else _UNUSED_S
            if now - path.stat().st_mtime <= (_ABANDONED_S if scratch else unused):
                continue
            if path.is_file():
                path.unlink()
            else:
                shutil.rmtree(path, ignore_errors=True)
