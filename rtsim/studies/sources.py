"""Files and software versions on which the results of a study depend."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from rtsim.core.cache import cache_folder
from rtsim.core.errors import ScenarioError
from rtsim.core.file_hash import Signature, modules_of, reading, signature, tree_hash
from rtsim.record.fingerprint import fingerprint
from rtsim.scenario.loading import file_of, imported_by

_VERSIONS = ("rtsim", "python", "numpy", "scipy", "numba", "llvmlite")
_SYSTEM = ("/proc", "/sys", "/dev", "/usr", "/lib", "/lib64", "/etc")
_INSTALLED = {"site-packages", "dist-packages"}
_OWN = ("rtsim", "hitl")
_HASHES: dict[Path, tuple[Signature, str]] = {}


class SourcesChanged(ScenarioError):
    """A file or a version has changed since the beginning of the study."""


@cache
def versions() -> dict[str, str]:
    """Return the software versions on which results depend."""
    found = fingerprint()
    own = [tree_hash(folder) for folder in _own_folders()]
    return {**{name: found[name] for name in _VERSIONS}, "source of rtsim": "".join(own)[:32]}


def check_versions(wanted: Mapping[str, str]) -> None:
    """Raise ``SourcesChanged`` if a software version differs from ``wanted``."""
    for name, here in versions().items():
        then = wanted.get(name, "")
        if then != here:
            raise SourcesChanged(
                f"the study was made with {name} {then or 'of no known version'}, but this process "
                f"has {here}; install the same version, or start a new study"
            )


class Sources:
    """Files that the runs of a scenario read, and declared data files.

    Files of the system, of installed packages and of rtsim are ignored. Imported modules are
    ignored too, because the hash of the scenario covers them.
    """

    def __init__(self, *references: str, data: Sequence[str] = ()) -> None:
        """Find the folder, the modules and the data files of the scenario.

        ``references`` contains the scenario and the file of the study. ``data`` contains declared
        files and folders, relative to the folder of the scenario.
        """
        found = (path for path in map(file_of, references) if path is not None)
        # Paths that do not exist are reported when the scenario is loaded.
        files = [path for path in found if path.is_file()]
        self._files = files
        self._home = files[0].resolve().parent if files else None
        self._data = [(self._home or Path()) / one for one in data]
        modules = (one.resolve() for path in files for one in modules_of(path))
        self._modules = {one: signature(one) for one in modules}
        prefixes: tuple[str | Path, ...] = (
            sys.prefix,
            sys.base_prefix,
            cache_folder(),
            *_own_folders(),
            *_SYSTEM,
        )
        self._left_out = tuple(Path(one).resolve() for one in prefixes)
        self._imported: dict[Path, Signature | None] = {}
        self._counted: dict[Path, Signature | None] = {}

    @contextmanager
    def watched(self, into: dict[str, str]) -> Iterator[None]:
        """Context manager that adds the name and hash of each file that is read to ``into``.

        Raises :class:`SourcesChanged` if a file changed after it was read, or if a module differs
        from the version in the scenario's hash.
        """
        declared = [(path, _content(path)) for path in self._data]
        found: dict[Path, Signature] = {}
        try:
            with reading() as found:
                yield
        except Exception:
            self._collect(into, declared, found)
            raise
        self._collect(into, declared, found)

    def _collect(
        self,
        into: dict[str, str],
        declared: Sequence[tuple[Path, str]],
        found: Mapping[Path, Signature],
    ) -> None:
        for path, digest in declared:
            if _content(path) != digest:
                raise SourcesChanged(f"{path} changed during a run; start a new study")
            self._add(into, path, digest)
        opened = {path: before for path, before in found.items() if self._counts(_source_of(path))}
        for path, before in {**self._imports(), **opened}.items():
            source = _source_of(path)
            self._add(into, source, _hash(source, before if source == path else None))

    def _imports(self) -> dict[Path, Signature | None]:
        imported: dict[Path, Signature | None] = {}
        for file in self._files:
            imported |= imported_by(file)
        # The result is reused for thousands of runs, because SciPy alone has 600 files.
        if imported != self._imported:
            for path, before in imported.items():
                if self._modules.get(real := path.resolve(), before) != before:
                    raise SourcesChanged(
                        f"the scenario imported another version of {real} than the one with which "
                        "the study began; restore the file, or start a new study in a new process"
                    )
            self._counted = {p: one for p, one in imported.items() if self._counts(_source_of(p))}
            self._imported = imported
        return self._counted

    def _add(self, into: dict[str, str], path: Path, digest: str) -> None:
        if into.setdefault(self._name(path), digest) != digest:
            raise SourcesChanged(f"{path} changed while the study ran; start a new study")

    def _counts(self, path: Path) -> bool:
        home, inside, real = self._home, self._inside(path), path.resolve()
        if real in self._modules or _INSTALLED & set(real.parts) or path.suffix == ".pyc":
            return False
        if home is not None and inside is not None:
            # A link in the folder is treated as a file of the folder, even if its target is
            # elsewhere.
            real = home / inside
        around = home.parents if home is not None and inside is not None else ()
        out = (one in real.parents and one != home and one not in around for one in self._left_out)
        return path.is_file() and not any(out)

    def _inside(self, path: Path) -> Path | None:
        if self._home is None:
            return None
        parents = (one for one in path.parents if one.resolve() == self._home)
        return next((path.relative_to(one) for one in parents), None)

    def _name(self, path: Path) -> str:
        inside = self._inside(path)
        return str(path) if inside is None else inside.as_posix()


def text_of_files(files: Mapping[str, str]) -> str:
    return json.dumps(dict(sorted(files.items())), separators=(",", ":"))


def digest_of(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _own_folders() -> list[Path]:
    specs = (importlib.util.find_spec(name) for name in _OWN)
    return [Path(s.origin).resolve().parent for s in specs if s is not None and s.origin]


def _source_of(path: Path) -> Path:
    if path.suffix != ".pyc" or path.parent.name != "__pycache__":
        return path
    # source_from_cache rejects the names that pytest gives to bytecode.
    return path.parent.with_name(f"{path.name.partition('.')[0]}.py")


def _content(path: Path) -> str:
    if not path.is_dir():
        if signature(path) is None:
            raise SourcesChanged(
                f"the study declares the data {path}, but there is no such file; restore it, or "
                "correct data= in study()"
            )
        return _hash(path, None)
    return digest_of([[one.relative_to(path).as_posix(), what] for one, what in _tree(path)])


def _tree(folder: Path) -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    met: dict[Path, Path] = {}
    for at, folders, files in os.walk(folder, onerror=_unreadable, followlinks=True):
        here = Path(at)
        first = met.setdefault(here.resolve(), here)
        if first != here:
            found.append((here, f"is {first.relative_to(folder).as_posix()}"))
            folders.clear()
            continue
        folders.sort()
        inside = (here / name for name in files)
        found += [(one, _hash(one, None)) for one in inside if signature(one) is not None]
    return sorted(found)


def _unreadable(error: OSError) -> None:
    raise SourcesChanged(
        f"the folder {error.filename} of the declared data cannot be read ({error.strerror}); "
        "make it readable, or correct data= in study()"
    ) from error


def _hash(path: Path, before: Signature | None) -> str:
    now = signature(path)
    if now is None or (before is not None and now != before):
        raise SourcesChanged(f"{path} changed while it was read; start a new study")
    known = _HASHES.get(path)
    if known is None or known[0] != now:
        known = _HASHES[path] = now, hashlib.sha256(path.read_bytes()).hexdigest()
    return known[1]
