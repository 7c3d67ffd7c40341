"""Compile an Arduino sketch that uses the pins of a board.

The compiled sketch contains no code of rtsim and serves as a device in a rig. The firmware of a
controller, which communicates with rtsim, is in ``hitl.firmware.sketch``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from hitl.boards import BoardError
from hitl.boards.description import BoardDescription
from hitl.boards.known import DEFAULT_BOARD
from hitl.building.c_code import cpp_text
from hitl.building.toolchain import BuildError
from hitl.firmware.compiling import FirmwareImage, Job
from hitl.firmware.sketch import text_of
from hitl.interface.file import SKETCH, is_sketch

_SOURCES = (".c", ".cpp")
_HEADERS = (".h", ".hpp")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.M)
_MISSING = re.compile(r"fatal error: (\S+): No such file")
_OPTIONS = ("-Wall", "-Wextra", "-Wno-unused-parameter")
_LIBRARIES = "libraries"


def image_of_sketch(path: Path, board: BoardDescription = DEFAULT_BOARD) -> FirmwareImage:
    """Compile a sketch for a board, or return an earlier image.

    In a folder with the name of the sketch, the function also compiles other sketches, C and C++
    files, as Arduino's tools do. In any other folder, the function compiles only ``path``.
    Libraries of the Arduino core, such as Wire, are added if a file includes them.

    Raises:
        NoTools: The compiler or the Arduino core is not installed.
        BoardError: The file is not a sketch or cannot be read, the board has no Arduino core, or
            the program does not fit the board.
        BuildError: The code has an error; the message contains file and line.
    """
    if not is_sketch(path):
        raise BoardError(f"{path} is not an Arduino sketch; give a file NAME{SKETCH}")
    if board.compiler.core is None:
        raise BoardError(
            f"rtsim has no Arduino core for {board.phrase}, so it cannot compile {path.name}; "
            "compile the sketch with the Arduino IDE or arduino-cli, and give its HEX file"
        )
    return _OfSketch(path, board).image()


class _OfSketch(Job):
    def __init__(self, path: Path, board: BoardDescription) -> None:
        self.path, self.folder = path, path.parent
        self.texts = {path: text_of(path)}
        whole = path.resolve().parent.name == path.stem
        beside = sorted(p for p in self.folder.iterdir() if p.is_file()) if whole else []
        inside = sorted(p for p in (self.folder / "src").rglob("*") if p.is_file()) if whole else []
        others = [p for p in beside if is_sketch(p) and p.name != path.name]
        self.sources = [p for p in (*beside, *inside) if p.suffix in _SOURCES]
        self.texts |= {p: text_of(p) for p in others}
        named = [str(p.resolve()) for p in (*self.texts, *self.sources)]
        name = re.sub(r"[^A-Za-z0-9_]", "_", path.stem)
        super().__init__(name, board, [named, list(self.texts.values())])

    def objects(self, work: Path) -> tuple[list[Path], str]:
        first, *others = self.texts.items()
        parts = [first[1], *(f'#line 1 "{path.as_posix()}"\n{text}' for path, text in others)]
        program = work / f"{self.path.stem}{SKETCH}.cpp"
        program.write_text(cpp_text("\n".join(parts), self.path.as_posix()), encoding="utf-8")
        libraries = self._libraries()
        include = [f"-I{folder}" for folder in (self.folder.resolve(), *libraries)]
        objects: list[Path] = []
        said = ""
        sources: list[tuple[Path, tuple[str, ...]]] = [
            *((source, _OPTIONS) for source in (program, *self.sources)),
            *((p, ("-w",)) for folder in libraries for p in _files(folder, _SOURCES)),
        ]
        try:
            for source, options in sources:
                objects.append(work / f"{len(objects)}.o")
                said += self.tools.compile(source, objects[-1], *include, *options)
        except BuildError as error:
            if missing := _MISSING.search(str(error)):
                raise BuildError(f"{error}\n{self._without(missing[1])}") from error
            raise
        return objects, said

    def _libraries(self) -> list[Path]:
        found: list[Path] = []
        own = {path.resolve(): text for path, text in self.texts.items()}
        queue = [*own, *(path.resolve() for path in self.sources)]
        seen = set(queue)
        while queue:
            path = queue.pop()
            for header in _INCLUDE.findall(own.get(path) or text_of(path)):
                beside = [(folder / header).resolve() for folder in (path.parent, self.folder)]
                more = [p for p in beside if p.is_file()][:1]
                library = None if more else self._library(header)
                if library is not None and library not in found:
                    found.append(library)
                    more = list(_files(library, (*_SOURCES, *_HEADERS)))
                queue += (p for p in more if p not in seen)
                seen.update(more)
        return found

    def _library(self, header: str) -> Path | None:
        for library in sorted((self.tools.core_folder / _LIBRARIES).glob("*")):
            for folder in (library / "src", library):
                if (folder / header).is_file():
                    return folder
        return None

    def _without(self, header: str) -> str:
        name = self.path.stem
        return (
            f"{header} is neither beside {self.path.name} nor in a library of the Arduino core; "
            f"copy the library's files to {name}/src, beside {name}/{name}{SKETCH}, and include "
            f'"src/{header}"; or compile the sketch with the Arduino IDE or arduino-cli, and give '
            "its HEX file"
        )


def _files(folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    return (p for p in sorted(folder.rglob("*")) if p.suffix in suffixes)
