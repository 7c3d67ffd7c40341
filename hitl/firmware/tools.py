"""Find and run the tools that build the firmware of a board."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from hitl.boards import BoardError
from hitl.boards.description import BoardDescription
from hitl.building import store
from hitl.building.reading import REPORT, Read, libraries_of, linked_by, named_by, rules_of, unknown
from hitl.building.toolchain import CompilerOutput, Toolchain, in_package, named

_TOOLS = ("gcc", "g++", "gcc-ar")
_CORE = "core.a"


class NoTools(BoardError):
    """The tools that build firmware are not installed; the error says nothing about the C code."""


class Tools:
    """The installed compiler of a board, and the Arduino core if the board needs one."""

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
        """Return the flags for the headers of the compiler's package."""
        found = find_spec(self.how.package) if self.how.package else None
        if found is None or found.origin is None:
            return ()
        return tuple(f"-isystem{Path(found.origin).parent / part}" for part in self.how.headers)

    def read(self, work: Path, flags: Sequence[str] = ()) -> Read:
        """Return what the tools have read in the folder ``work``, which has their reports.

        ``flags`` are those of the user.  Files in ``work`` itself are left out.
        """
        files = {*self.files, *(p for rules in work.glob("*.d") for p in rules_of(rules, work))}
        reports = list(work.glob(f"*{REPORT}"))
        linked = {p for report in reports for p in linked_by(report, work)} | named_by(flags, work)
        outside = [{p for p in some if work not in p.parents} for some in (files, linked)]
        why = self.gcc.script() or unknown(flags, outside[1], bool(reports))
        core, libraries = [self.core] if self.how.core else [], libraries_of(flags, work)
        return Read(outside[0], outside[1], core, libraries, why)

    def run(self, tool: str, *arguments: str | Path, folder: Path) -> CompilerOutput:
        """Run the program of the board's compiler that ``tool`` names, such as gcc."""
        return Toolchain(self.how.command(tool), self.gcc.version).run(arguments, folder)

    def compile(self, source: Path, into: Path, *more: str | Path) -> str:
        """Compile ``source`` and return the warnings."""
        how = self.how
        tool, dialect = ("gcc", how.c) if source.suffix == ".c" else ("g++", how.cpp)
        rules = ("-MD", "-MF", into.with_suffix(".d"))
        common = (*how.machine, *how.defines, *how.flags, *dialect, *self.include, *more, *rules)
        return self.run(tool, *common, "-c", source, "-o", into, folder=into.parent).warnings

    def archive(self) -> Path | None:
        """Return the compiled core of Arduino, which all sketches share; ``None`` without one."""
        how = self.how
        if how.core is None:
            return None
        flags = (how.machine, how.defines, how.flags, how.c, how.cpp)
        stem = f"arduino-core-{key_of(self.identity, *flags)}"
        if kept := store.find(stem, (_CORE,)):
            return kept / _CORE
        with store.workshop() as work:
            made = work / "made"
            made.mkdir()
            objects = []
            for source in sorted(p for p in self.files if p.suffix in (".c", ".cpp")):
                objects.append(work / f"{source.name}.o")
                self.compile(source, objects[-1], "-w")
            self.run("gcc-ar", "rcs", made / _CORE, *objects, folder=work)
            snapshot = self.read(work).snapshot([])
            folder = snapshot.folder(stem)
            store.settle(made, folder, snapshot, (_CORE,))
        return folder / _CORE


def key_of(*parts: object) -> str:
    """Return a hash of ``parts``."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]
