"""What the rows of a study depend on besides their factors: files that were read, and versions."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from rtsim.core.cache import cache_folder
from rtsim.core.errors import ScenarioError
from rtsim.core.file_hash import modules_of, tree_hash
from rtsim.core.read_files import Signature, reading, signature
from rtsim.record.fingerprint import fingerprint
from rtsim.scenario.loading import file_of

_VERSIONS = ("rtsim", "python", "numpy", "scipy", "numba", "llvmlite")
_SYSTEM = ("/proc", "/sys", "/dev", "/usr", "/lib", "/lib64", "/etc")
_INSTALLED = {"site-packages", "dist-packages"}
_OWN = ("rtsim", "hitl")
_HASHES: dict[Path, tuple[Signature, str]] = {}


class SourcesChanged(ScenarioError):
    """What a run depends on is not what the study began with."""


@cache
def versions() -> dict[str, str]:
    """Return the versions on which results depend, with a hash of rtsim's own source files."""
    found = fingerprint()
    own = [tree_hash(folder) for folder in _own_folders()]
    return {**{name: found[name] for name in _VERSIONS}, "source of rtsim": "".join(own)[:32]}


def check_versions(wanted: Mapping[str, str]) -> None:
    """Raise :class:`SourcesChanged` if this process has other versions than a study began with."""
    for name, here in versions().items():
        then = wanted.get(name, "")
        if then != here:
            raise SourcesChanged(
                f"the study was made with {name} {then or 'of no known version'}, but this process "
                f"has {here}; install the same version, or start a new study"
            )


class Sources:
    """The files that the runs of one scenario read, other than Python modules that it imports.

    Files of the system, of installed packages and of rtsim are left out, and so are caches.
    """

    def __init__(self, *references: str) -> None:
        """``references``: the scenario, and the file of the study if it is another one."""
        found = (path for path in map(file_of, references) if path is not None)
        files = [path for path in found if path.is_file()]  # loading says what is wrong with others
        self._home = files[0].resolve().parent if files else None
        self._modules = {one.resolve() for path in files for one in modules_of(path)}
        prefixes: tuple[str | Path, ...] = (
            sys.prefix,
            sys.base_prefix,
            cache_folder(),
            *_own_folders(),
            *_SYSTEM,
        )
        self._left_out = tuple(Path(one).resolve() for one in prefixes)

    @contextmanager
    def watched(self, into: dict[str, str]) -> Iterator[None]:
        """Add the files that are read within the context to ``into``: name and hash.

        Raises :class:`SourcesChanged` if a file changed since it was read.
        """
        with reading() as found:
            yield
        for path, before in found.items():
            source = _source_of(path.resolve())
            if self._counts(source):
                name, digest = self._name(source), _hash(source, before if source == path else None)
                if into.setdefault(name, digest) != digest:
                    raise SourcesChanged(f"{path} changed while the study ran; start a new study")

    def _counts(self, path: Path) -> bool:
        if path in self._modules or _INSTALLED & set(path.parts) or path.suffix == ".pyc":
            return False
        home = self._home
        around = home.parents if home is not None and home in path.parents else ()
        out = (one in path.parents and one != home and one not in around for one in self._left_out)
        return path.is_file() and not any(out)

    def _name(self, path: Path) -> str:
        """Return the path relative to the scenario's folder, so that the folder can be moved."""
        inside = self._home is not None and self._home in path.parents
        return path.relative_to(self._home).as_posix() if inside and self._home else str(path)


def text_of_files(files: Mapping[str, str]) -> str:
    """Return names and hashes of files as JSON text."""
    return json.dumps(dict(sorted(files.items())), separators=(",", ":"))


def digest_of(*parts: object) -> str:
    """Return the SHA-256 of plain data, as 64 hex digits."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _own_folders() -> list[Path]:
    specs = (importlib.util.find_spec(name) for name in _OWN)
    return [Path(s.origin).resolve().parent for s in specs if s is not None and s.origin]


def _source_of(path: Path) -> Path:
    """Return the Python file of compiled bytecode; any other file is its own source."""
    if path.suffix != ".pyc" or path.parent.name != "__pycache__":
        return path
    return Path(importlib.util.source_from_cache(str(path)))


def _hash(path: Path, before: Signature | None) -> str:
    now = signature(path)
    if now is None or (before is not None and now != before):
        raise SourcesChanged(f"{path} changed while it was read; start a new study")
    known = _HASHES.get(path)
    if known is None or known[0] != now:
        known = _HASHES[path] = now, hashlib.sha256(path.read_bytes()).hexdigest()
    return known[1]
