"""Keep builds in the user's cache folder, and use them again while their inputs are unchanged.

A stored build is a folder ``STEM-CONTENTS``. STEM contains a hash of the inputs that are known
before the compiler runs. CONTENTS is a hash of all files that the compiler has read. A manifest
lists these files with their hashes, so that a later check needs no compiler. If the tools may have
read other files, the build is not used again.

A build is made in a temporary folder, which is renamed at the end. Two processes can therefore make
the same build at the same time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from hitl.building.toolchain import BuildError, CannotBuild, Toolchain, cache_folder, not_writable

_MANIFEST, _MAKING = "manifest.json", "making-"
_ABANDONED_S = 3600
_UNUSED_S, _ONCE_S = 30 * 86_400, 7 * 86_400
_ONCE = "-once-"
"""Part of the name of a build that only the command that made it uses."""
PRECOMPILED = (".gch", ".pch")
"""Suffixes of precompiled headers, which are in the same folder as the header."""
_SUFFIXES = 3
"""Greatest number of path components in an ``#include`` of a header outside the user's folders."""


@dataclass(frozen=True)
class Snapshot:
    """Hashes of the files of a build, and paths at which no file may exist.

    A new file at a path in ``absent`` could replace a header.
    """

    files: dict[str, str]
    absent: tuple[str, ...] = ()
    linked: dict[str, str] = field(default_factory=dict)
    """Files that the linker has read, and files that flags name."""
    unknown: str = ""
    """Why the tools may have read other files as well, or ""."""
    listed: dict[str, str] = field(default_factory=dict)
    """Folders of libraries, with a hash of the names in each folder."""

    @classmethod
    def of(
        cls, files: Iterable[Path], rivals: Iterable[Path] = (), linked: Iterable[Path] = (),
        unknown: str = "", listed: Iterable[Path] = (),
    ) -> Snapshot:  # fmt: skip
        """Return a snapshot of the present contents of ``files`` and ``linked``.

        A new file at a path in ``rivals`` invalidates the snapshot. A file that is added to or
        removed from a folder in ``listed`` also invalidates it.
        """
        absent = sorted(str(p) for p in set(rivals) if not p.exists())
        compiled, others = ({str(p): hash_of(p) for p in sorted(set(s))} for s in (files, linked))
        names = {str(folder): _names_of(folder) for folder in sorted(set(listed))}
        return cls(compiled, tuple(absent), others, unknown, names)

    def folder(self, stem: str) -> Path:
        known = [self.files, self.linked, self.absent, self.listed]
        digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()[:12]
        once = f"{_ONCE}{secrets.token_hex(6)}" if self.unknown else ""
        return root() / f"{stem}-{digest}{once}"

    def holds(self) -> bool:
        """Return True if all files and folders are unchanged."""
        known = [*self.files.items(), *self.linked.items()]
        same = all(hash_of(path) == contents for path, contents in known)
        same = same and all(_names_of(path) == names for path, names in self.listed.items())
        return same and not any(map(os.path.exists, self.absent))


def rivals(
    headers: Iterable[Path], folders: Sequence[Path], users: Sequence[Path]
) -> Iterator[Path]:
    """Yield the paths at which a new file would replace an existing header.

    An ``#include`` can name a header in the folders ``users`` by any part of its path, and a system
    header by its path in a searched folder. For a header NAME, gcc can read NAME.gch, and clang can
    read NAME.pch.
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
    """Return the folder of all builds in the cache folder."""
    return cache_folder() / "sil"


def find(stem: str, contents: Sequence[str]) -> Path | None:
    """Return the folder of a build that is still valid, or ``None``.

    ``stem`` is the first part of the folder name. A valid build is complete, and its inputs are
    unchanged.
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
    """Return the sources and headers of a build."""
    snapshot = _read(folder / _MANIFEST)
    return [] if snapshot is None else list({Path(path).resolve(): 0 for path in snapshot.files})


@contextmanager
def workshop() -> Iterator[Path]:
    """Context manager that creates a temporary folder for a build.

    Raises :class:`CannotBuild` if the folder cannot be created.
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


def kept(stem: str, contents: Sequence[str], make: Callable[[Path, Path], Snapshot]) -> Path:
    """Return the folder of a build; call ``make`` if the build does not exist.

    ``make`` receives two folders, and returns a snapshot of the files on which the build depends.
    See :func:`find`.
    """
    if (folder := find(stem, contents)) is not None:
        return folder
    with workshop() as work:
        made = work / "made"
        made.mkdir()
        snapshot = make(work, made)
        folder = snapshot.folder(stem)
        settle(made, folder, snapshot, contents)
    return folder


def settle(made: Path, folder: Path, snapshot: Snapshot, contents: Sequence[str]) -> None:
    """Move a finished build from the folder ``made`` to ``folder``.

    If another process was faster, its build is kept. The manifest contains ``snapshot``.
    ``contents`` lists the files of a complete build.
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
    """Return the SHA-256 hash of a file, or "" if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def _names_of(folder: str | Path) -> str:
    try:
        return hashlib.sha256("\0".join(sorted(os.listdir(folder))).encode()).hexdigest()
    except OSError:
        return ""


def _sweep(place: Path, now: float) -> None:
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


# The tools report the files that they read: the compiler with ``-M``, the linker with
# ``--dependency-file``. Files that flags name are added. If a flag, a source or a compiler script
# may read other files, a change of these files cannot be detected, and the build is never used
# again.

_WITH_VALUE = (
    "-D", "-U", "-I", "-L", "-l", "-T", "-iquote", "-isystem", "-idirafter", "-include", "-imacros",
    "-x", "-u",
)  # fmt: skip
"""Flags with a joined value or a value in the next argument. The tools report the files that they
read for these flags.
"""
_SEARCHED = ("-iquote", "-isystem", "-idirafter", "-I")
_REPORTED = re.compile(
    r"-[OgDUILlTxu].*|-(?:iquote|isystem|idirafter|include|imacros).*"
    r"|-W(?![alp],).*"
    r"|-Wl,[^@]*"
    r"|-f(?!plugin|profile|auto-profile|branch-prob|use-ld|pass-plugin|module|pch)[^@]*"
    r"|-m(?!llvm)[^@]*"
    r"|-(?:std=.*|ansi|pedantic.*|pthread|pipe|s|w|static.*|shared.*|(?:no-)?pie|rdynamic|nostd.*)"
)
"""Flags with which compiler and linker read only files that they report."""
_LINKS = re.compile(r"-[LlT].*|-Wl,.*|[^-].*|-(?:nostd|static|shared).*")
"""Flags that change which files the linker reads."""
_LIST = re.compile(r"search starts here:(.*?)End of search list", re.S)
_NOT_THERE = re.compile(r'^ignoring nonexistent directory "(.*)"$', re.M)
_HAS = re.compile(
    r"__has_(?:include|embed)(?:_next)?\s*\(\s*(?:[\"<]([^\">\n]+)[\">]|([A-Za-z_]\w*))"
    r"|#[ \t]*define[ \t]+(\w+)[ \t]+__has_(?:include|embed)(?:_next)?\b(?!\s*\()"
)
_BY_ASSEMBLER = re.compile(r"(?:\\\w+|(?<![\w)\]]))\.(?:incbin|include)\b", re.I)
r"""Pattern of an assembler directive, also after an escape such as ``\\t``, but not of a struct
member.
"""
_JOINED = re.compile(r"\\\n|\"\s*\"")
"""Text that C removes between two parts of a line, or between two parts of a string."""
_THIN = b"!<thin>\n"
REPORT = ".linked"
"""Suffix of the linker's list of files, in the folder in which a build is made."""


@dataclass
class Read:
    """The files and folders that the tools have read for a build."""

    files: set[Path] = field(default_factory=set)
    """Sources and headers, with the paths that the compiler prints."""
    linked: set[Path] = field(default_factory=set)
    """Objects, libraries, scripts, and files that flags name."""
    folders: list[Path] = field(default_factory=list)
    """Folders in which headers are searched, whether or not they exist."""
    libraries: list[Path] = field(default_factory=list)
    """Folders for libraries from flags or the environment, whether or not they exist."""
    unknown: str = ""
    """Why the tools may have read other files as well, or ""."""

    def snapshot(self, users: Sequence[Path], here: Sequence[Path] = ()) -> Snapshot:
        """Return the hashes of the files, and the paths at which no file may appear.

        ``users`` contains the folders of the user's headers. The linker runs in the folders of
        ``here``.
        """
        folders = list(dict.fromkeys([*users, *self.folders]))
        places = {*folders, *(path.parent for path in self.files)}
        tested = {place / name for name in self._tested() for place in places}
        searched = rivals(self.linked, [*here, *self.libraries], self.libraries)
        paths = {*rivals(self.files, folders, users), *tested, *searched}
        for path in paths:
            if path.suffix in PRECOMPILED and path.exists():
                self.unknown = f"the compiler may read {path} in place of a header"
        present = {path for path in self.files if path.is_file()}
        linked = {path for path in self.linked if path.is_file()} - present
        absent = paths - present - linked
        return Snapshot.of(present, absent, linked, self.unknown, self.libraries)

    def _tested(self) -> Iterator[str]:
        for path in self.files:
            text = _text_of(path)
            self.note(text, path)
            yield from (name for name, *_ in _HAS.findall(text.replace("\\\n", "")) if name)

    def note(self, text: str, source: Path | str) -> None:
        """Set ``self.unknown`` if a tool may have read files that it does not report.

        ``source`` is the origin of the text.
        """
        text = _JOINED.sub("", text)
        for name, macro, other in _HAS.findall(text):
            if not name:
                self.unknown = f"{source} has __has_include({macro or other})"
        if _BY_ASSEMBLER.search(text):
            self.unknown = f"the assembler includes a file in {source}"


def included(
    toolchain: Toolchain, arguments: Iterable[str | Path], source: Path, here: Path, scratch: Path
) -> Read:
    """Return the files that ``source`` includes, as listed by the compiler.

    ``here`` is the folder in which the compiler runs, and ``scratch`` a temporary file.
    """
    scratch.unlink(missing_ok=True)
    said = toolchain.run([*arguments, "-M", "-v", "-MF", scratch, source], here).warnings
    read = Read(set(rules_of(scratch, here)))
    if not read.files:
        read.unknown = f"{toolchain.command[0]} does not list the headers of {source.name}"
    for part in _LIST.findall(said):
        lines = (line.strip().removesuffix(" (framework directory)") for line in part.splitlines())
        read.folders += [here / line for line in lines if line and not line.startswith("#include")]
    read.folders += [here / name for name in _NOT_THERE.findall(said)]
    return read


def rules_of(file: Path, here: Path) -> Iterator[Path]:
    """Yield the prerequisites in a make rule of a compiler."""
    rules = _text_of(file)
    for written, meant in (("\\\n", " "), ("\\ ", "\0"), ("\\#", "#"), ("$$", "$")):
        rules = rules.replace(written, meant)
    words = (w.replace("\0", " ") for w in rules.split() if w[-1] != ":")
    yield from (here / word for word in words)


def run_linker(link: Callable[[Sequence[str]], object], name: Path) -> None:
    """Call ``link`` with a flag that makes the linker list the files that it reads.

    If an older linker rejects the flag, ``link`` is called without it.
    """
    report = name.with_name(f"{name.name}{REPORT}")
    try:
        link([f"-Wl,--dependency-file={report}"])
    except BuildError:
        report.unlink(missing_ok=True)
        link([])


def linked_by(file: Path, here: Path) -> set[Path]:
    """Return the files in a dependency file of a linker, which has one path per line.

    GNU ld leaves spaces as they are; lld puts a backslash before them.
    """
    lines = (line.strip().removesuffix("\\").strip() for line in _text_of(file).splitlines())
    paths = {here / name for line in lines for name in (line, line.replace("\\ ", " ")) if line}
    return {path for path in paths if path.is_file()}


def named_by(flags: Iterable[str], here: Path) -> set[Path]:
    """Return the files that compiler flags name.

    A file name is a whole flag, or the part after ``=``, ``,`` or an option. For a flag such as
    ``-Wl,--retain-symbols-file=kept``, no tool reports the file ``kept``.
    """
    words = {word for flag in flags for word in (flag, *re.split("[=,]", flag)[1:])}
    words |= {flag[len(o) :] for flag in flags for o in _WITH_VALUE if flag.startswith(o)}
    return {path for word in words if word and (path := here / word).is_file()}


def searched_by(flags: Sequence[str], here: Path, options: Sequence[str]) -> Iterator[Path]:
    """Yield the folders after ``options`` in ``flags``, as in ``-Ifolder`` or ``-I folder``."""
    for flag, following in zip(flags, [*flags, ""][1:], strict=True):
        for option in options:
            if flag.startswith(option):
                yield (here / (flag[len(option) :] or following)).resolve()
                break


def libraries_of(flags: Sequence[str], here: Path) -> list[Path]:
    """Return the folders of libraries that ``flags`` and ``$LIBRARY_PATH`` give.

    Relative folders begin at ``here``.
    """
    parts = [part for flag in flags for part in (flag.split(",")[1:] if "," in flag else [flag])]
    given = os.environ.get("LIBRARY_PATH", "").split(os.pathsep)
    found = searched_by(parts, here, ("-L", "--library-path="))
    return list(dict.fromkeys([*found, *(here / name for name in given if name)]))


def headers_of(flags: Sequence[str], here: Path) -> list[Path]:
    return list(searched_by(flags, here, _SEARCHED))


def unknown(flags: Sequence[str], read: Iterable[Path], reported: bool) -> str:
    """Return why the tools may have read other files, or "".

    ``reported`` is True if the linker listed its files. ``read`` contains the reported files.
    """
    value = False
    for flag in flags:
        if value:
            value = False
            continue
        value = flag in _WITH_VALUE
        if "=native" in flag:
            return f"{flag} asks the processor of this machine"
        if flag.startswith("-") and not _REPORTED.fullmatch(flag):
            return f"{flag} may read files"
        if not reported and _LINKS.fullmatch(flag):
            return f"the linker does not report what it reads because of {flag}"
        if _BY_ASSEMBLER.search(flag):
            return f"{flag} makes the assembler include a file"
    for path in read:
        with path.open("rb") as file:
            if file.read(len(_THIN)) == _THIN:
                return f"{path} is a thin archive, whose members are elsewhere"
    return ""


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
