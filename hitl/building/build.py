"""Build the program and the library of an interface file, and keep the results.

A result is used again until the interface, the flags, the compiler or a read file changes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hitl.building import store
from hitl.building.c_code import cpp_text
from hitl.building.checks import MACHINE, check_arguments, check_width, in_few_words, no_c
from hitl.building.store import (
    REPORT,
    Read,
    headers_of,
    included,
    libraries_of,
    linked_by,
    named_by,
    run_linker,
    unknown,
)
from hitl.building.toolchain import BuildError, Toolchain, find_toolchain
from hitl.building.unit import ARDUINO_FLAGS, ARDUINO_HOST, SUPPORT, support_of, unit_text
from hitl.interface import Interface, load_interface
from hitl.interface.file import is_cpp, is_sketch
from hitl.interface.targets import check_target
from rtsim.core.errors import UnknownName

ALWAYS = ("-fPIC", "-ffp-contract=off")
"""Flags for all sources. A fused multiply-add would round differently from the reference model."""
OWN = ("-O2", "-g", *ALWAYS)
"""Flags for rtsim's own code in C or C++."""
C, CPP = ("-std=gnu11",), ("-x", "c++", "-std=gnu++17")
"""Flags that select the language of rtsim's own C, and of a unit in C++."""
UNLOADABLE = ("-fno-gnu-unique", "-fno-lifetime-dse")
"""gcc's flags for C++.

Without the first flag, copies of a library in one process share static variables. Without the
second flag, the compiler may assume that nothing wrote to an object's memory before its constructor
ran.
"""
EXACT = ("-fno-fast-math", "-fno-finite-math-only")
"""Flags after the controller's own flags, because the checks of values need NaN and infinity."""
ENTRY_POINTS = (
    "-Werror=implicit-function-declaration",
    "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types",
)
"""Flags that reject an undeclared function, which C would assume to return int."""
_DIALECT = ("-W", "-std", "-ansi", "-pedantic")


def of_any_dialect(flags: Iterable[str]) -> list[str]:
    """Return ``flags`` without warnings and without the C standard."""
    return [flag for flag in flags if not flag.startswith(_DIALECT)]


PLAIN, SANITIZE, COVERAGE, DEBUG = "plain", "sanitize", "coverage", "debug"
_PATTERN = "-ftrivial-auto-var-init=pattern"
_SANITIZE = (
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", _PATTERN
)  # fmt: skip
FLAGS: dict[str, tuple[str, ...]] = {
    PLAIN: ("-O2", "-g"),
    SANITIZE: ("-O1", "-g", *_SANITIZE),
    COVERAGE: ("-O0", "-g", "--coverage"),
    DEBUG: ("-O0", "-g3"),
}
"""Compiler flags by kind of build, in addition to ``ALWAYS``. Only plain builds are used for
timing.
"""
_WARNINGS = ("-Wall", "-Wextra")
PROGRAM, LIBRARY, UNIT, WARNINGS = "worker", "controller.so", "unit.c", "warnings.txt"
LINK = "link.so"
_SHARES = sys.platform.startswith("linux")
"""Whether this platform supports the link over shared memory."""
_CONTENTS = (PROGRAM, LIBRARY, UNIT, WARNINGS, *((LINK,) if _SHARES else ()))
_SUPPORT = (
    "worker.c", "guard.c", "link.c",
    "rtsim_link.h", "rtsim_message.h", "rtsim_unit.h", "rtsim_checks.h", "rtsim_checks_cpp.h",
    "rtsim_thrown.h",
)  # fmt: skip
_ATTEMPTS = 3


@dataclass(frozen=True)
class Build:
    """A compiled controller."""

    interface: Interface
    kind: str
    folder: Path
    """Folder with ``worker``, ``controller.so``, ``link.so``, ``unit.c`` and the warnings."""
    compiler: str
    """Version of the compiler."""

    @property
    def program(self) -> Path:
        return self.folder / PROGRAM

    @property
    def library(self) -> Path:
        return self.folder / LIBRARY

    @property
    def link(self) -> Path:
        """Path of the library for communication over shared memory (Linux only)."""
        return self.folder / LINK

    @property
    def warnings(self) -> str:
        """Compiler warnings about the user's code."""
        kept = self.folder / WARNINGS
        return kept.read_text(encoding="utf-8") if kept.is_file() else ""

    def describe(self) -> dict[str, object]:
        """Return a description for the header of a recording."""
        return {
            **self.interface.describe(),
            "build": self.kind,
            "compiler": self.compiler,
            "key": self.folder.name,
        }


def build(
    interface: Interface | str | Path, kind: str = PLAIN, toolchain: Toolchain | None = None
) -> Build:
    """Compile the controller of an interface file, or return an earlier build.

    ``interface`` is an interface or the path of an interface file. ``kind`` is ``"plain"``,
    ``"sanitize"``, ``"coverage"`` or ``"debug"``. The default ``toolchain`` is that of
    :func:`hitl.building.toolchain.find_toolchain`.

    Raises ``InterfaceError`` for a mistake in the interface file, and ``BuildError`` for a mistake
    in the C code. Raises :class:`hitl.building.toolchain.CannotBuild` if no compiler works.
    """
    if not isinstance(interface, Interface):
        interface = load_interface(interface)
    if kind not in FLAGS:
        raise UnknownName("build", kind, list(FLAGS), f"the build of {interface.name}")
    check_target(interface, "host")
    toolchain = toolchain or find_toolchain(interface.language.cpp)
    if toolchain.family == "zig" and kind in (SANITIZE, COVERAGE):
        raise BuildError(
            f"a {kind} build needs gcc or clang with their libraries, but the compiler found is "
            "ziglang; type: sudo apt install gcc"
        )
    job = _Job(interface, kind, toolchain)
    with in_few_words(interface):
        folder = store.find(job.stem, _CONTENTS) or job.make()
    return Build(interface, kind, folder, toolchain.version)


class Compilation:
    """The compilers for C and C++ sources, with their flags."""

    def __init__(self, interface: Interface, toolchain: Toolchain) -> None:
        self.interface, self.toolchain = interface, toolchain
        self.cpp = interface.language.cpp
        self.linker = toolchain.cpp() if self.cpp else toolchain
        """Compiler of the unit, which also links, because the C++ compiler adds the C++ library."""
        self.here = interface.path.parent
        """Folder of the interface file, which is the base of relative paths in flags."""
        folders = (f"-I{folder}" for folder in interface.include)
        arduino = ARDUINO_FLAGS if interface.language.clock else ()
        self.users = [*folders, *arduino, *interface.flags]
        """Flags of the interface file, including its header folders."""
        self.arduino = ARDUINO_HOST if arduino else ()
        self.machine = [flag for flag in interface.flags if flag.startswith(MACHINE)]
        self.libraries = [f"-l{name}" for name in (*interface.libraries, "m")]

    def run(self, *arguments: str | Path, cpp: bool = False) -> str:
        compiler = self.linker if cpp else self.toolchain
        return compiler.run(arguments, self.here).warnings

    def is_cpp(self, source: Path) -> bool:
        return self.cpp and is_cpp(source)

    def compiled(self, source: Path, work: Path) -> Path:
        """Return ``source``; an Arduino sketch is first written as C++ to ``work``."""
        if not is_sketch(source):
            return source
        path = work / f"{source.name}.cpp"
        text = source.read_text(encoding="utf-8", errors="surrogateescape")
        path.write_text(cpp_text(text, str(source)), "utf-8", "surrogateescape")
        return path


class _Job(Compilation):
    def __init__(self, interface: Interface, kind: str, toolchain: Toolchain) -> None:
        super().__init__(interface, toolchain)
        self.kind = kind
        self.text = unit_text(interface)
        self.flags = _flags(kind, toolchain)
        if kind == DEBUG:  # a later -O2 would hide variables from the debugger
            self.users = [flag for flag in self.users if not flag.startswith("-O")]
        self.support = [SUPPORT / name for name in _SUPPORT]
        if kind == COVERAGE:
            self.support.append(SUPPORT / "coverage.c")
        self.stem = f"{interface.name}-{self._key()}"

    def _key(self) -> str:
        interface = self.interface
        arguments = [self.kind, self.flags, ALWAYS, _WARNINGS, OWN, self.users, str(self.here)]
        named = [interface.libraries, [str(path) for path in interface.sources]]
        compilers = [self.toolchain.identity(), self.linker.identity(), C, CPP, UNLOADABLE]
        sha = hashlib.sha256(json.dumps([compilers, arguments, named]).encode())
        sha.update(self.text.encode())
        for path in (*self.support, *self.arduino, *interface.sources):
            sha.update(store.hash_of(path).encode())
        return sha.hexdigest()[:20]

    def make(self) -> Path:
        check_width(self.interface, self.toolchain)
        with store.workshop() as work:
            (work / UNIT).write_text(self.text, encoding="utf-8")
            for _ in range(_ATTEMPTS):
                read = self._read(work)
                before = self._snapshot(read)
                made = self._made(work, before.folder(self.stem).name)
                if before.holds():
                    self._add_linked(read, work)
                    snapshot = self._snapshot(read)
                    folder = snapshot.folder(self.stem)
                    store.settle(made, folder, snapshot, _CONTENTS)
                    return folder
        raise BuildError(
            f"the sources of {self.interface.name} changed during each of {_ATTEMPTS} "
            "compilations; save the sources, and build again"
        )

    def _as_cpp(self) -> tuple[str, ...]:
        return UNLOADABLE if self.toolchain.family == "gcc" else ()

    def _read(self, work: Path) -> Read:
        inside = (work, work.resolve())
        read = Read(set(self.interface.sources), named_by(self.users, self.here))
        read.libraries = libraries_of(self.users, self.here)
        read.unknown = self.toolchain.script() or self.linker.script()
        read.note(self.text, self.interface.path)
        for source in (work / UNIT, *self.interface.sources):
            cpp = self.is_cpp(source) if source.name != UNIT else self.cpp
            how = ["-x", "c++"] if cpp else []
            flags = [*self.flags, *self.users, f"-I{SUPPORT}", *how]
            file = self.compiled(source, work) if source.name != UNIT else source
            compiler = self.linker if cpp else self.toolchain
            found = included(compiler, flags, file, self.here, work / "read.d")
            read.files |= {p for p in found.files if not any(f in p.parents for f in inside)}
            read.folders += found.folders
            read.unknown = read.unknown or found.unknown
        return read

    def _snapshot(self, read: Read) -> store.Snapshot:
        folders = [*(s.parent for s in self.interface.sources), *headers_of(self.users, self.here)]
        return read.snapshot(folders, [self.here])

    def _add_linked(self, read: Read, work: Path) -> None:
        reports = list(work.glob(f"*{REPORT}"))
        for report in reports:
            found = linked_by(report, self.here)
            read.linked |= {p for p in found if not {work, work.resolve()} & {*p.parents}}
        libraries = [f"-l{name}" for name in self.interface.libraries if name != "m"]
        given = [*self.users, *libraries]
        read.unknown = read.unknown or unknown(given, read.linked, bool(reports))

    def _made(self, work: Path, name: str) -> Path:
        made = work / "made"
        made.mkdir(exist_ok=True)
        objects, warnings = self._users_objects(work, made, name)
        unit = work / "unit.o"
        shared = [*objects, unit]
        dialect = of_any_dialect(self.users)
        # The unit defines objects of the controller, so the sanitizers must check it as well.
        checks = [flag for flag in self.flags if self.kind == SANITIZE and flag in _SANITIZE]
        checks += self.flags if self.kind == DEBUG else ()
        own = [*OWN, *checks, f"-I{SUPPORT}", *dialect, *EXACT]
        own += (*CPP, *self._as_cpp()) if self.cpp else (*C, *ENTRY_POINTS)
        warnings += self.run(*own, "-c", work / UNIT, "-o", unit, cpp=self.cpp)
        check_arguments(self.interface, self.linker, own, support_of(self.interface)[2:])
        ours = [*OWN, *C, *self.machine]
        cpp = [*OWN, *CPP, *self._as_cpp(), *dialect, f"-I{SUPPORT}"]
        shared += [self._own(source, cpp, self.here) for source in self.arduino]
        if self.kind == COVERAGE:
            shared.append(self._own(SUPPORT / "coverage.c", ours))
        loads = ["-ldl"] if sys.platform.startswith("linux") else []
        self._link([*shared, self._own(SUPPORT / "worker.c", ours)], made / PROGRAM, loads)
        self._link([*shared, self._own(SUPPORT / "guard.c", ours)], made / LIBRARY, ["-shared"])
        if _SHARES:
            shutil.copy(self._own(SUPPORT / "link.c", [*OWN, *C], into=LINK), made)
        (made / WARNINGS).write_text(warnings, encoding="utf-8")
        for path in (work / UNIT, *work.glob("*.gcno")):
            shutil.copy(path, made)
        return made

    def _own(
        self, source: Path, flags: Sequence[str], here: Path | None = None, into: str = ""
    ) -> Path:
        compiler = self.toolchain if source.suffix == ".c" else self.linker
        name, here = into or f"{source.stem}.o", here or source.parent
        key = json.dumps([compiler.identity(), str(source), list(flags), str(here), into])
        stem = f"own-{source.stem}-{hashlib.sha256(key.encode()).hexdigest()[:20]}"

        def make(work: Path, made: Path) -> store.Snapshot:
            read = included(compiler, flags, source, here, work / "read.d")
            read.unknown = read.unknown or compiler.script() or unknown(flags, (), reported=True)
            snapshot = read.snapshot(headers_of(flags, here), [here])
            how = ["-shared"] if into else ["-c"]
            compiler.run([*flags, *how, source, "-o", made / name], here)
            return snapshot

        return store.kept(stem, (name,), make) / name

    def _users_objects(self, work: Path, made: Path, name: str) -> tuple[list[Path], str]:
        objects: list[Path] = []
        warnings = ""
        asked = [f for f in self.interface.flags if f.startswith("-Werror")]
        shown = () if asked else _WARNINGS  # -Werror would turn rtsim's warnings into errors
        for number, source in enumerate(self.interface.sources):
            objects.append(made.parent / f"{name}.{number}.o")
            cpp, path = self.is_cpp(source), self.compiled(source, work)
            how = (*self._as_cpp(), f"-iquote{source.parent}", "-x", "c++") if cpp else ()
            arguments = [*self.flags, *ALWAYS, *shown, *self.users, *how, "-c", path]
            warnings += self.run(*arguments, "-o", objects[-1], cpp=cpp)
            if not objects[-1].is_file():  # gcc passes files of unknown type to the linker
                raise no_c(self.interface, number)
        return objects, warnings

    def _link(self, objects: Sequence[Path], into: Path, more: Sequence[str]) -> None:
        how: list[str | Path] = [
            *self.flags,
            *objects,
            "-o",
            into,
            *self.interface.flags,
            *self.libraries,
            *more,
        ]
        work = into.parent.parent
        try:
            run_linker(lambda more: self.run(*how, *more, cpp=self.cpp), work / into.name)
        except BuildError as error:
            if self.kind == SANITIZE and ("asan" in str(error) or "ubsan" in str(error)):
                raise BuildError(
                    f"{error}\na sanitize build needs the compiler's libasan and libubsan; "
                    "type: sudo dnf install libasan libubsan   (or: sudo apt install gcc)"
                ) from None
            raise


def _flags(kind: str, toolchain: Toolchain) -> tuple[str, ...]:
    old = toolchain.family == "gcc" and 0 < toolchain.major < 12
    return tuple(flag for flag in FLAGS[kind] if not (old and flag == _PATTERN))
