"""Compile firmware with the compiler of a board, and keep the images."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hitl.boards import BoardError
from hitl.boards.description import BoardDescription
from hitl.building import store
from hitl.building.checks import check_arguments, in_few_words, no_c
from hitl.building.store import (
    REPORT,
    Read,
    libraries_of,
    linked_by,
    named_by,
    rules_of,
    run_linker,
    unknown,
)
from hitl.building.toolchain import BuildError, CompilerOutput, Toolchain, in_package, named
from hitl.building.unit import ARDUINO, SUPPORT
from hitl.firmware.program import Program
from hitl.firmware.sketch import SHARED_FOLDER, Sketch, linker_flags
from hitl.firmware.sketch import unit_support_of as unit_support
from hitl.interface.file import is_cpp

_TOOLS = ("gcc", "g++", "gcc-ar")
_CORE = "core.a"


class NoTools(BoardError):
    """The tools for firmware are not installed."""


class Tools:
    """The installed compiler of a board, and its Arduino core."""

    def __init__(self, name: str, board: BoardDescription) -> None:
        self.how = how = board.compiler
        absent = self._absent()
        self.core = self.core_folder = Path()
        self.include: tuple[str, ...] = ()
        self.files: list[Path] = []
        if how.core is not None:
            self.core_folder = Path(os.environ.get(how.core.variable) or how.core.folder)
            self.core, variant = (self.core_folder / part for part in how.core.parts)
            if not (self.core / "Arduino.h").is_file():
                absent.append(f"Arduino's core in {self.core_folder}")
        if absent:
            raise NoTools(
                f"cannot build the firmware of {name} without {', '.join(absent)}; type: "
                f"{how.install}"
            )
        self.gcc = in_package(how.package) if how.package else named(how.tool("gcc"))
        self.include += self._headers()
        self.identity: list[object] = [self.gcc.identity()]
        if how.core is not None:
            self.include += (f"-I{self.core}", f"-I{variant}")
            self.files = [p for p in self.core.iterdir() if p.is_file()]
            self.files += variant.glob("*.h")
            self.identity.append(str(self.core_folder))

    def _absent(self) -> list[str]:
        if self.how.package:
            absent = find_spec(self.how.package) is None
            return [f"the Python package {self.how.package}"] if absent else []
        return [self.how.tool(t) for t in _TOOLS if shutil.which(self.how.tool(t)) is None]

    def _headers(self) -> tuple[str, ...]:
        found = find_spec(self.how.package) if self.how.package else None
        if found is None or found.origin is None:
            return ()
        return tuple(f"-isystem{Path(found.origin).parent / part}" for part in self.how.headers)

    def read(self, work: Path, flags: Sequence[str] = ()) -> Read:
        """Return the files that the compiler and the linker have read.

        ``work`` contains the reports of both. ``flags`` are the user's flags. Files inside ``work``
        are omitted.
        """
        files = {*self.files, *(p for rules in work.glob("*.d") for p in rules_of(rules, work))}
        reports = list(work.glob(f"*{REPORT}"))
        linked = {p for report in reports for p in linked_by(report, work)} | named_by(flags, work)
        outside = [{p for p in some if work not in p.parents} for some in (files, linked)]
        why = self.gcc.script() or unknown(flags, outside[1], bool(reports))
        core, libraries = [self.core] if self.how.core else [], libraries_of(flags, work)
        return Read(outside[0], outside[1], core, libraries, why)

    def run(self, tool: str, *arguments: str | Path, folder: Path) -> CompilerOutput:
        return Toolchain(self.how.command(tool), self.gcc.version).run(arguments, folder)

    def compile(self, source: Path, into: Path, *more: str | Path) -> str:
        how = self.how
        tool, dialect = ("gcc", how.c) if source.suffix == ".c" else ("g++", how.cpp)
        rules = ("-MD", "-MF", into.with_suffix(".d"))
        common = (*how.machine, *how.defines, *how.flags, *dialect, *self.include, *more, *rules)
        return self.run(tool, *common, "-c", source, "-o", into, folder=into.parent).warnings

    def archive(self) -> Path | None:
        """Return the compiled Arduino core, which all sketches share, or None."""
        how = self.how
        if how.core is None:
            return None
        flags = (how.machine, how.defines, how.flags, how.c, how.cpp)
        stem = f"arduino-core-{key_of(self.identity, *flags)}"

        def make(work: Path, made: Path) -> store.Snapshot:
            objects = []
            for source in sorted(p for p in self.files if p.suffix in (".c", ".cpp")):
                objects.append(work / f"{source.name}.o")
                self.compile(source, objects[-1], "-w")
            self.run("gcc-ar", "rcs", made / _CORE, *objects, folder=work)
            return self.read(work).snapshot([])

        return store.kept(stem, (_CORE,), make) / _CORE


def key_of(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


__all__ = ["FirmwareImage", "Job", "NoTools", "compiled", "overflow_error"]

_COMPILED = (".c", ".cpp", ".ino")
_WARNINGS = ("-Wall", "-Wextra")
_IMAGES = "whole"
"""Part of the key of images.  Older versions cached images with gaps under other keys."""
IMAGE, PROGRAM, ABOUT = "firmware.hex", "firmware.elf", "about.json"


@dataclass(frozen=True)
class FirmwareImage:
    """A compiled image: its Intel HEX file, and its sizes in flash and RAM."""

    path: Path
    flash_bytes: int
    ram_bytes: int
    compiler: str
    warnings: str


def compiled(sketch: Sketch) -> FirmwareImage:
    """Compile ``sketch``, or return the cached image.

    Raises:
        NoTools: Tools are not installed.
        BoardError: The board has too little memory.
        InterfaceError: The interface file and the code do not match; the message contains file and
            line.
        BuildError: The code has an error; the message contains file and line.
    """
    return _OfController(sketch).image()


class Job:
    """Base class that compiles and links a program for a board.

    A subclass defines :meth:`objects`. ``key`` identifies the sources, and ``flags`` are the user's
    flags. Raises :class:`NoTools` if tools are not installed.
    """

    def __init__(
        self, name: str, board: BoardDescription, key: object, flags: Sequence[str] = ()
    ) -> None:
        self.name, self.board, self.key, self.flags = name, board, key, flags
        self.tools = Tools(name, board)

    def objects(self, work: Path) -> tuple[list[Path], str]:
        """Compile in the folder ``work``; return the object files and the warnings."""
        raise NotImplementedError

    def hal(self, work: Path) -> str:  # noqa: ARG002
        """Return the folder with the board's C code."""
        return ""

    def image(self) -> FirmwareImage:
        """Return the cached image, or build it.

        Raises ``BoardError`` if the board has too little memory, and ``BuildError`` for an error in
        the code.
        """
        key = key_of(self.tools.identity, self.key, _WARNINGS, _IMAGES)
        stem = f"{self.name}-{self.board.name}-{key}"
        folder = store.kept(stem, (IMAGE, PROGRAM, ABOUT), self.make)
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        made_by, said = self.tools.gcc.version, about["warnings"]
        image = FirmwareImage(folder / IMAGE, about["flash"], about["ram"], made_by, said)
        _check_room(self.board, self.name, image.flash_bytes, image.ram_bytes)
        return image

    def make(self, work: Path, made: Path) -> store.Snapshot:
        """Build the image in the folder ``made``; return the files on which the image depends."""
        core = self.tools.archive()
        objects, warnings = self.objects(work)
        self._link(work, made, objects if core is None else [*objects, core], warnings)
        return self.tools.read(work, self.flags).snapshot([])

    def _link(self, work: Path, made: Path, parts: Sequence[Path], warnings: str) -> None:
        program = made / PROGRAM
        how = self.board.compiler
        link = (*how.machine, *how.flags, *self.flags, *linker_flags(self.board, self.hal(work)))

        def link_with(more: Sequence[str]) -> None:
            everything: list[str | Path] = [*link, "-o", program, *parts, *how.libraries, *more]
            self.tools.run("gcc", *everything, folder=work)

        try:
            run_linker(link_with, work / "elf")
        except BuildError as error:
            if refusal := overflow_error(self.board, self.name, str(error)):
                raise refusal from error
            if how.package and (said := _undefined(self.board, self.name, str(error))):
                raise BuildError(f"{said}\n{error}") from error
            raise
        linked, memory = Program(program.read_bytes(), self.board.processor), self.board.memory
        window = memory.flash_begins, memory.flash
        flash, ram = linked.flash_bytes(*window), linked.size(memory.ram_sections)
        _check_room(self.board, self.name, flash, ram)
        text = linked.hex(*window, memory.beside)
        (made / IMAGE).write_text(text, encoding="ascii", newline="")
        warnings += linked.left_out(self.board)
        about = {"flash": flash, "ram": ram, "warnings": warnings}
        (made / ABOUT).write_text(json.dumps(about), encoding="utf-8")


class _OfController(Job):
    def __init__(self, sketch: Sketch) -> None:
        super().__init__(sketch.name, sketch.board, sketch.key, sketch.flags)
        self.sketch = sketch

    def make(self, work: Path, made: Path) -> store.Snapshot:
        with in_few_words(self.sketch.interface):
            return super().make(work, made)

    def hal(self, work: Path) -> str:
        return (work / self.sketch.name / SHARED_FOLDER).as_posix()

    def objects(self, work: Path) -> tuple[list[Path], str]:
        interface = self.sketch.interface
        for number, source in enumerate(interface.sources):
            if not source.name.endswith(_COMPILED) and not (
                interface.language.cpp and is_cpp(source)
            ):
                raise no_c(interface, number)
        place = self.sketch.write(work)
        objects: list[Path] = []
        warnings = ""
        in_order = sorted(self.sketch.files, key=lambda name: (name == self.sketch.main, name))
        for name in in_order:  # as in the Makefile, because the linking order affects the image
            if name.endswith(_COMPILED):
                objects.append(work / f"{len(objects)}.o")
                more = ["-x", "c++", "-include", "Arduino.h"] if name.endswith(".ino") else []
                if users := name in self.sketch.users:
                    more += self._shown
                said = self._compile(place / name, objects[-1], *self.sketch.flags, *more)
                warnings += said if users else ""
        self._check_calls()
        return objects, warnings

    @property
    def _shown(self) -> list[str]:
        asked = any(flag.startswith("-Werror") for flag in self.sketch.flags)
        return [] if asked else list(_WARNINGS)

    def _check_calls(self) -> None:
        interface = self.sketch.interface
        arduino = (ARDUINO,) if interface.language.clock else ()
        folders = [f"-I{folder}" for folder in (SUPPORT, *interface.include)]
        how, gcc, cpp = self.board.compiler, self.tools.gcc, interface.language.cpp
        flags = [
            *how.machine, *how.defines, *(("-x", "c++", *how.cpp) if cpp else how.c),
            *self.tools.include, *folders, *(f"-I{folder}" for folder in arduino),
            *interface.flags,
        ]  # fmt: skip
        headers = unit_support(interface)[2:] if cpp else ()
        check_arguments(interface, gcc.cpp() if cpp else gcc, flags, headers)

    def _compile(self, source: Path, into: Path, *more: str) -> str:
        try:
            return self.tools.compile(source, into, *more)
        except BuildError as error:
            path = self.sketch.interface.path
            name = rf"^{re.escape(path.name)}:"
            said = re.sub(name, lambda _: f"{path}:", str(error), flags=re.M)
            raise BuildError(said) from error


def _check_room(board: BoardDescription, name: str, flash: int, ram: int) -> None:
    memory = board.memory
    if flash > memory.room:
        raise _too_much_flash(board, name, flash)
    if ram > memory.ram - memory.least_stack:
        raise _too_much_ram(board, name, ram)


def overflow_error(board: BoardDescription, name: str, said: str) -> BoardError | None:
    """Return the error for a lack of memory that the linker reports, or None."""
    memory = board.memory
    over = dict(re.findall(r"region `(\S+)' overflowed by (\d+) bytes", said))
    if memory.flash_region in over:
        return _too_much_flash(board, name, memory.flash + int(over[memory.flash_region]))
    if memory.ram_region in over:
        return _too_much_ram(board, name, memory.ram + int(over[memory.ram_region]))
    region = re.escape(memory.ram_region)
    ends = re.findall(rf"address 0x([0-9a-f]+) of .* is not within region `{region}'", said)
    if ends:
        return _too_much_ram(board, name, max(int(end, 16) for end in ends) - memory.ram_begins)
    return None


def _undefined(board: BoardDescription, name: str, said: str) -> str:
    names = list(dict.fromkeys(re.findall(r"undefined symbol: ([^\n]+)", said)))
    if not names:
        return ""
    return (
        f"{name} calls {', '.join(names)}, which the compiler's library for {board.phrase} does "
        "not have; add a C file that defines it to sources"
    )


def _too_much_flash(board: BoardDescription, name: str, flash: int) -> BoardError:
    beside = " in addition to its boot loader" if board.memory.boot_loader else ""
    return BoardError(
        f"{name} needs {flash} bytes of flash, but {board.phrase} has {board.memory.room}{beside}; "
        "make the controller smaller"
    )


def _too_much_ram(board: BoardDescription, name: str, ram: int) -> BoardError:
    memory = board.memory
    return BoardError(
        f"{name} has {ram} bytes of static data, but {board.phrase} has {memory.ram} bytes of RAM "
        f"and needs at least {memory.least_stack} of them for the stack; make the static objects "
        "smaller"
    )
