"""Collect a controller's C code in one flat folder, which any Arduino tool can compile.

Arduino IDE accepts neither ``-I`` nor ``-D``.  Therefore ``#include`` lines are rewritten to the
name that the header has in the folder, and definitions are put at the top of each source.  Included
files are found from the text alone, because a shipped image must be found where no compiler is
installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hitl.boards import BoardError
from hitl.building.sketch_text import cpp_text
from hitl.interface import Interface
from hitl.interface.language import is_cpp, is_sketch

_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)
_COMPILED = (".c", ".cpp", ".cc", ".cxx", ".s", ".ino")
_FOLDERS = ("-iquote", "-isystem", "-I")
_MOST_BYTES = 1 << 20
"""Most bytes of one file."""


@dataclass(frozen=True)
class Flags:
    """The flags of an interface file, sorted by their use in a sketch."""

    defines: tuple[str, ...]
    """Definitions (``-D``), as lines of C."""
    folders: tuple[Path, ...]
    """Folders of headers (``-I``)."""
    others: tuple[str, ...]
    """Flags for the Makefile and for builds of this package; Arduino IDE does not get them."""

    @classmethod
    def of(cls, interface: Interface) -> Flags:
        """Sort the flags of ``interface``."""
        defines, folders, others = [], [], []
        flags = iter(interface.flags)
        for flag in flags:
            option = next((o for o in ("-D", "-U", *_FOLDERS) if flag.startswith(o)), "")
            value = (flag[len(option) :] or next(flags, "")).strip()
            if option == "-D":
                name, _, meant = value.partition("=")
                defines.append(f"#define {name} {meant if '=' in value else '1'}")
            elif option == "-U":
                defines.append(f"#undef {value}")
            elif option:
                folders.append((interface.path.parent / value).resolve())
            else:
                others.append(flag)
        return cls(tuple(defines), tuple(folders), tuple(others))


@dataclass(frozen=True)
class Support:
    """Files of rtsim that the code of a controller needs on a board, in addition to its own."""

    sources: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    """Folders of headers."""
    headers: tuple[Path, ...] = ()
    """Headers that are found by their name although their folder is not searched."""
    first: tuple[str, ...] = ()
    """Headers that each C++ source of the controller includes first."""


def prologue(defines: Iterable[str], name: str) -> str:
    """Return ``defines`` and a ``#line`` that makes the next line the first line of ``name``."""
    lines = list(defines)
    return "\n".join([*lines, f'#line 1 "{name}"', ""]) if lines else ""


def gathered(
    interface: Interface, unit: str, unit_name: str, support: Support = Support()
) -> dict[str, str]:
    """Return the texts of ``unit``, the sources and all headers they include, by file name.

    Raises :class:`BoardError` for a file that cannot be read.
    """
    flags = Flags.of(interface)
    sources = (*interface.sources, *support.sources)
    folders = (*interface.include, *flags.folders, *support.folders)
    job = _Gathering(folders, sources, {unit_name}, support.headers)
    files = {unit_name: prologue(flags.defines, unit_name) + job.rewritten(unit, interface.path)}
    for source in sources:
        job.named(source)
    while job.queue:
        path = job.queue.pop(0)
        text = text_of(path)
        if is_sketch(path):
            text = cpp_text(text, path.name, '"rtsim_sketch.h"')
        before: list[str] = []
        if path in interface.sources:
            first = support.first if is_cpp(path) else ()
            before = [*flags.defines, *(f'#include "{name}"' for name in first)]
        named = job.rewritten(prologue(before, path.name), path)
        files[job.names[path]] = named + job.rewritten(text, path)
    return files


def text_of(path: Path) -> str:
    """Read a file and normalise its line ends, so that equal texts have equal hashes.

    Raises :class:`BoardError` if the file cannot be read or is too large.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BoardError(f"cannot read {path}: {error.strerror}") from None
    if len(data) > _MOST_BYTES:
        raise BoardError(
            f"{path} has more than {_MOST_BYTES} bytes, the limit of a C file in a sketch"
        )
    return data.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


class _Gathering:
    def __init__(
        self, folders: Sequence[Path], sources: Sequence[Path], taken: Iterable[str],
        headers: Sequence[Path] = (),
    ) -> None:  # fmt: skip
        self.headers = {path.name: path for path in headers}
        self.folders, self.sources = folders, sources
        self.names: dict[Path, str] = {}
        self.queue: list[Path] = []
        self._taken = set(taken)

    def named(self, path: Path) -> str:
        """Return the name of ``path`` in the folder; queue the file at its first use."""
        if path not in self.names:
            name = path.name
            if path not in self.sources and path.suffix.lower() in _COMPILED:
                name += ".h"  # it is only included, so Arduino tools must not compile it
            elif is_cpp(path) and path.suffix != ".cpp":
                name += ".cpp"  # a sketch, or another suffix of C++
            for folder in path.parent.parts[::-1]:
                if name.lower() not in self._taken:
                    break
                name = f"{re.sub(r'[^A-Za-z0-9_.-]', '_', folder)}_{name}"
            self._taken.add(name.lower())
            self.names[path] = name
            self.queue.append(path)
        return self.names[path]

    def rewritten(self, text: str, path: Path) -> str:
        """Return ``text`` of ``path`` with the names that its headers have in the folder."""

        def renamed(match: re.Match[str]) -> str:
            quoted, pointed = match[2], match[3]
            header = self._found(quoted or pointed, [path.parent] if quoted else [])
            return f'{match[1]}"{self.named(header)}"' if header else match[0]

        return _INCLUDE.sub(renamed, text)

    def _found(self, name: str, first: Sequence[Path]) -> Path | None:
        """Return the header that a compiler would find; ``None`` for the system's headers."""
        for folder in (*first, *self.folders):
            if (path := folder / name).is_file():
                return path.resolve()
        return self.headers.get(name)
