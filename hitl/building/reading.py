"""Find what compiler and linker read, so that a stored build is used only while that is unchanged.

The tools themselves report it: the compiler by ``-M``, the linker by ``--dependency-file``.  A flag
that names a file counts as well.  If a flag, a source or a compiler that is a script may read more
than that, nobody knows when the build is out of date.  Such a build is never used twice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hitl.building import store
from hitl.building.toolchain import BuildError, Toolchain

_WITH_VALUE = (
    "-D", "-U", "-I", "-L", "-l", "-T", "-iquote", "-isystem", "-idirafter", "-include", "-imacros",
    "-x", "-u",
)  # fmt: skip
"""Flags whose value is joined to them or is the next argument; the tools report what they read."""
_SEARCHED = ("-iquote", "-isystem", "-idirafter", "-I")
_REPORTED = re.compile(
    r"-[OgDUILlTxu].*|-(?:iquote|isystem|idirafter|include|imacros).*"
    r"|-W(?![alp],).*"
    r"|-Wl,[^@]*"
    r"|-f(?!plugin|profile|auto-profile|branch-prob|use-ld|pass-plugin|module|pch)[^@]*"
    r"|-m(?!llvm)[^@]*"
    r"|-(?:std=.*|ansi|pedantic.*|pthread|pipe|s|w|static.*|shared.*|(?:no-)?pie|rdynamic|nostd.*)"
)
"""Flags after which compiler and linker read nothing that they do not report."""
_LINKS = re.compile(r"-[LlT].*|-Wl,.*|[^-].*|-(?:nostd|static|shared).*")
"""Flags that change what the linker reads."""
_LIST = re.compile(r"search starts here:(.*?)End of search list", re.S)
_NOT_THERE = re.compile(r'^ignoring nonexistent directory "(.*)"$', re.M)
_HAS = re.compile(
    r"__has_(?:include|embed)(?:_next)?\s*\(\s*(?:[\"<]([^\">\n]+)[\">]|([A-Za-z_]\w*))"
    r"|#[ \t]*define[ \t]+(\w+)[ \t]+__has_(?:include|embed)(?:_next)?\b(?!\s*\()"
)
_BY_ASSEMBLER = re.compile(r"(?:\\\w+|(?<![\w)\]]))\.(?:incbin|include)\b", re.I)
"""A directive of an assembler, also behind an escape such as ``\\t``; no member of a struct."""
_JOINED = re.compile(r"\\\n|\"\s*\"")
"""What C removes between two parts of a line, and between two parts of a text."""
_THIN = b"!<thin>\n"
REPORT = ".linked"
"""Suffix of a linker's list of files, in the folder in which a build is made."""


@dataclass
class Read:
    """What the tools have read for one build, and where they have searched for it."""

    files: set[Path] = field(default_factory=set)
    """Sources and headers; their paths are those that the compiler prints."""
    linked: set[Path] = field(default_factory=set)
    """Objects, libraries and scripts, and the files that flags name."""
    folders: list[Path] = field(default_factory=list)
    """Folders in which headers are searched, also those that do not exist yet."""
    libraries: list[Path] = field(default_factory=list)
    """Folders that flags or the environment give for libraries, also those that do not exist."""
    unknown: str = ""
    """Why the tools may have read more than this; "" if they have not."""

    def snapshot(self, users: Sequence[Path], here: Sequence[Path] = ()) -> store.Snapshot:
        """Return the hashes of the files, and the paths at which a new file would replace one.

        ``users`` are the folders of the user's own headers, and ``here`` those in which the linker
        runs: it looks there first for what a linker script names.
        """
        folders = list(dict.fromkeys([*users, *self.folders]))
        places = {*folders, *(path.parent for path in self.files)}
        tested = {place / name for name in self._tested() for place in places}
        searched = store.rivals(self.linked, [*here, *self.libraries], self.libraries)
        rivals = {*store.rivals(self.files, folders, users), *tested, *searched}
        for path in rivals:
            if path.suffix in store.PRECOMPILED and path.exists():
                self.unknown = f"the compiler may read {path} in place of a header"
        present = {path for path in self.files if path.is_file()}
        linked = {path for path in self.linked if path.is_file()} - present
        absent = rivals - present - linked
        return store.Snapshot.of(present, absent, linked, self.unknown, self.libraries)

    def _tested(self) -> Iterator[str]:
        """Yield the headers for which ``__has_include`` looks in the files."""
        for path in self.files:
            text = _text_of(path)
            self.note(text, path)
            yield from (name for name, *_ in _HAS.findall(text.replace("\\\n", "")) if name)

    def note(self, text: str, source: Path | str) -> None:
        """Note as unknown what preprocessor or assembler read without a report for ``text``.

        ``source`` is the place of the text.
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
    """Return the files that ``source`` includes, as the compiler lists them.

    ``here`` is the folder in which the compiler runs, and ``scratch`` a file that may be written.
    Sources are scanned one at a time, because zig accepts only one.
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
    """Yield the prerequisites in a compiler's rule for make; none if there is no such file."""
    rules = _text_of(file)
    for written, meant in (("\\\n", " "), ("\\ ", "\0"), ("\\#", "#"), ("$$", "$")):
        rules = rules.replace(written, meant)
    words = (w.replace("\0", " ") for w in rules.split() if w[-1] != ":")
    yield from (here / word for word in words)


def run_linker(link: Callable[[Sequence[str]], object], name: Path) -> None:
    """Call ``link`` with the flag by which the linker reports its files, or else without it.

    The report is ``name`` with the suffix :data:`REPORT`.  An older linker refuses the flag.
    """
    report = name.with_name(f"{name.name}{REPORT}")
    try:
        link([f"-Wl,--dependency-file={report}"])
    except BuildError:
        report.unlink(missing_ok=True)
        link([])


def linked_by(file: Path, here: Path) -> set[Path]:
    """Return the files in a linker's dependency file, which has one path in each line.

    GNU ld leaves spaces as they are; lld puts a backslash before them.
    """
    lines = (line.strip().removesuffix("\\").strip() for line in _text_of(file).splitlines())
    paths = {here / name for line in lines for name in (line, line.replace("\\ ", " ")) if line}
    return {path for path in paths if path.is_file()}


def named_by(flags: Iterable[str], here: Path) -> set[Path]:
    """Return the files that ``flags`` name: as a whole, behind ``=`` or ``,``, or joined to a flag.

    This holds for flags whose files no tool reports, such as ``-Wl,--retain-symbols-file=kept``.
    """
    words = {word for flag in flags for word in (flag, *re.split("[=,]", flag)[1:])}
    words |= {flag[len(o) :] for flag in flags for o in _WITH_VALUE if flag.startswith(o)}
    return {path for word in words if word and (path := here / word).is_file()}


def searched_by(flags: Sequence[str], here: Path, options: Sequence[str]) -> Iterator[Path]:
    """Yield the folders that ``flags`` give to ``options``, joined or as the next argument."""
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
    """Return the folders of headers that ``flags`` give."""
    return list(searched_by(flags, here, _SEARCHED))


def unknown(flags: Sequence[str], read: Iterable[Path], reported: bool) -> str:
    """Return why the tools may have read more than they report; "" if they cannot.

    ``read`` are the files that the linker has read.  ``reported`` is True if it said so.
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
