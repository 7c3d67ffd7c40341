"""From an interface file to a program, and to a shared library, built once and kept.

The kept build serves until anything changes that it depends on: the interface, the flags, the
compiler, a source, a header that was read, a library of the user's (:mod:`hitl.building.store`).
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
from hitl.building.arguments import check_arguments
from hitl.building.complaints import in_few_words, no_c
from hitl.building.toolchain import BuildError, Toolchain, find_toolchain
from hitl.building.unit import SUPPORT, unit_text
from hitl.building.width import MACHINE, check_width
from hitl.interface import Interface, load_interface
from hitl.interface.targets import check_target
from rtsim.core.errors import UnknownName

PLAIN, SANITIZE, COVERAGE = "plain", "sanitize", "coverage"
_PATTERN = "-ftrivial-auto-var-init=pattern"
_SANITIZE = (
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", _PATTERN
)  # fmt: skip
FLAGS: dict[str, tuple[str, ...]] = {
    PLAIN: ("-O2", "-g"),
    SANITIZE: ("-O1", "-g", *_SANITIZE),
    COVERAGE: ("-O0", "-g", "--coverage"),
}
"""By kind of build.  ``-ffp-contract=off``, always: a fused multiply-add rounds otherwise than the
design does.  Timing is taken of plain builds only."""
_ALWAYS = ("-fPIC", "-ffp-contract=off")
_WARNINGS = ("-Wall", "-Wextra")
_OWN = ("-std=gnu11", "-O2", "-g", "-fPIC", "-ffp-contract=off")
_EXACT = ("-fno-fast-math", "-fno-finite-math-only")
"""Values are checked before they are converted, whatever the controller's own flags are."""
_ENTRY_POINTS = (
    "-Werror=implicit-function-declaration",
    "-Werror=int-conversion",
    "-Werror=incompatible-pointer-types",
)
"""Without a declaration C takes a function to return int, and the numbers are wrong in silence."""
_DIALECT = ("-W", "-std", "-ansi", "-pedantic")
PROGRAM, LIBRARY, UNIT, WARNINGS = "worker", "controller.so", "unit.c", "warnings.txt"
_CONTENTS = (PROGRAM, LIBRARY, UNIT, WARNINGS)
_ATTEMPTS = 3


@dataclass(frozen=True)
class Build:
    """A controller that was compiled."""

    interface: Interface
    kind: str
    folder: Path
    """Holds ``worker``, ``controller.so``, ``unit.c`` and what the compiler warned of."""
    compiler: str

    @property
    def program(self) -> Path:
        return self.folder / PROGRAM

    @property
    def library(self) -> Path:
        return self.folder / LIBRARY

    @property
    def warnings(self) -> str:
        """What the compiler said of the user's code; nothing where another machine compiled it."""
        kept = self.folder / WARNINGS
        return kept.read_text(encoding="utf-8") if kept.is_file() else ""

    def describe(self) -> dict[str, object]:
        """For a recording's header."""
        return {
            **self.interface.describe(),
            "build": self.kind,
            "compiler": self.compiler,
            "key": self.folder.name,
        }


def build(
    interface: Interface | str | Path, kind: str = PLAIN, toolchain: Toolchain | None = None
) -> Build:
    """Compile ``interface``, unless that was done before.

    Raises :class:`InterfaceError` or :class:`BuildError`; both name file and line.
    """
    if not isinstance(interface, Interface):
        interface = load_interface(interface)
    if kind not in FLAGS:
        raise UnknownName("build", kind, list(FLAGS), f"building {interface.name}")
    check_target(interface, "host")
    toolchain = toolchain or find_toolchain()
    if toolchain.family == "zig" and kind != PLAIN:
        raise BuildError(
            f"a {kind} build needs gcc or clang with their libraries, which ziglang lacks; "
            "type: sudo apt install gcc"
        )
    job = _Job(interface, kind, toolchain)
    with in_few_words(interface):
        folder = store.find(job.stem, _CONTENTS) or job.run()
    return Build(interface, kind, folder, toolchain.version)


class _Job:
    """One interface, compiled in one way."""

    def __init__(self, interface: Interface, kind: str, toolchain: Toolchain) -> None:
        self.interface, self.kind, self.toolchain = interface, kind, toolchain
        self.text = unit_text(interface)
        self.here = interface.path.parent
        """Relative paths in flags are relative to the interface file, as those in its keys are."""
        self.flags = _flags(kind, toolchain)
        folders = (f"-I{folder}" for folder in interface.include)
        self.users = [*folders, *interface.flags]
        support = ("worker.c", "guard.c", "rtsim_unit.h", "rtsim_checks.h")
        self.support = [SUPPORT / name for name in support]
        if kind == COVERAGE:
            self.support.append(SUPPORT / "coverage.c")
        self.stem = f"{interface.name}-{self._key()}"

    def _key(self) -> str:
        """Of all that is known before the compiler runs; the rest is in the manifest.

        The sources are in both, so that a look reads few manifests.
        """
        interface = self.interface
        arguments = [self.kind, self.flags, _ALWAYS, _WARNINGS, _OWN, self.users, str(self.here)]
        named = [interface.libraries, [str(path) for path in interface.sources]]
        sha = hashlib.sha256(json.dumps([self.toolchain.identity(), arguments, named]).encode())
        sha.update(self.text.encode())
        for path in (*self.support, *interface.sources):
            sha.update(store.hash_of(path).encode())
        return sha.hexdigest()[:20]

    def run(self) -> Path:
        """Compile; the folder in which it is kept."""
        check_width(self.interface, self.toolchain)
        with store.workshop() as work:
            (work / UNIT).write_text(self.text, encoding="utf-8")
            for _ in range(_ATTEMPTS):
                snapshot = self._snapshot(work)
                folder = store.root() / f"{self.stem}-{snapshot.digest}"
                made = self._made(work, folder.name)
                if snapshot.holds():
                    store.settle(made, folder, snapshot, _CONTENTS)
                    return folder
        raise BuildError(f"sources of {self.interface.name} change while they compile; try again")

    def _run(self, *arguments: str | Path) -> str:
        return self.toolchain.run(arguments, self.here).warnings

    def _snapshot(self, work: Path) -> store.Snapshot:
        """The sources, and every header that they or the unit include."""
        sources = self.interface.sources
        read = {p for source in (work / UNIT, *sources) for p in self._read_by(source)}
        files = {p for p in read if p.is_file() and work.resolve() not in p.parents}
        searched = [*dict.fromkeys([*(s.parent for s in sources), *self._folders("-I", "-iquote")])]
        libraries = {
            folder / f"lib{name}{suffix}"
            for folder in self._folders("-L")
            for name in self.interface.libraries
            for suffix in (".so", ".a", ".dylib")
        }
        files |= {path for path in libraries if path.is_file()}
        return store.Snapshot.of(files, {*store.rivals(files, searched), *libraries} - files)

    def _read_by(self, source: Path) -> set[Path]:
        """By the compiler's own account; one file at a time, as zig wants it."""
        scan: list[str | Path] = ["-M", *self.flags, *self.users, f"-I{SUPPORT}", source]
        rules = self.toolchain.run(scan, self.here).output
        for written, meant in (("\\\n", " "), ("\\ ", "\0"), ("\\#", "#"), ("$$", "$")):
            rules = rules.replace(written, meant)
        words = (w.replace("\0", " ") for w in rules.split() if w[-1] != ":")
        return {(self.here / word).resolve() for word in words}

    def _folders(self, *options: str) -> Iterable[Path]:
        """Those given with ``options``, joined or as the next flag."""
        for flag, following in zip(self.users, [*self.users[1:], ""], strict=True):
            for option in options:
                if flag.startswith(option):
                    yield (self.here / (flag[len(option) :] or following)).resolve()

    def _made(self, work: Path, name: str) -> Path:
        """The entry's contents, in a folder below ``work``."""
        made = work / "made"
        made.mkdir(exist_ok=True)
        objects, warnings = self._users_objects(made, name)
        unit, worker, guard = work / "unit.o", work / "worker.o", work / "guard.o"
        shared = [*objects, unit]
        dialect = _without(self.users, _DIALECT)
        # The controller's objects stand in the unit, so the sanitizers see it too.
        checks = [flag for flag in self.flags if self.kind == SANITIZE and flag in _SANITIZE]
        own = [*_OWN, *checks, f"-I{SUPPORT}", *dialect, *_EXACT, *_ENTRY_POINTS]
        warnings += self._run(*own, "-c", work / UNIT, "-o", unit)
        check_arguments(self.interface, self.toolchain, own)
        machine = [flag for flag in self.interface.flags if flag.startswith(MACHINE)]
        ours = [*_OWN, *machine, "-c"]
        self._run(*ours, SUPPORT / "worker.c", "-o", worker)
        self._run(*ours, SUPPORT / "guard.c", "-o", guard)
        if self.kind == COVERAGE:
            shared.append(work / "coverage.o")
            self._run(*ours, SUPPORT / "coverage.c", "-o", shared[-1])
        loads = ["-ldl"] if sys.platform.startswith("linux") else []
        self._link([*shared, worker], made / PROGRAM, loads)
        self._link([*shared, guard], made / LIBRARY, ["-shared"])
        (made / WARNINGS).write_text(warnings, encoding="utf-8")
        for path in (work / UNIT, *work.glob("*.gcno")):
            shutil.copy(path, made)
        return made

    def _users_objects(self, made: Path, name: str) -> tuple[list[Path], str]:
        """One by one, so that the project's own C is neither instrumented nor counted."""
        objects: list[Path] = []
        warnings = ""
        asked = [f for f in self.interface.flags if f.startswith("-Werror")]
        shown = () if asked else _WARNINGS  # or what the user did not ask for would be an error
        for number, source in enumerate(self.interface.sources):
            objects.append(made.parent / f"{name}.{number}.o")
            arguments = [*self.flags, *_ALWAYS, *shown, *self.users, "-c", source]
            warnings += self._run(*arguments, "-o", objects[-1])
            if not objects[-1].is_file():  # gcc takes what it does not know for the linker's
                raise no_c(self.interface, number)
        return objects, warnings

    def _link(self, objects: Sequence[Path], into: Path, more: Sequence[str]) -> None:
        libraries = [f"-l{name}" for name in (*self.interface.libraries, "m")]
        try:
            self._run(*self.flags, *objects, "-o", into, *self.interface.flags, *libraries, *more)
        except BuildError as error:
            if self.kind == SANITIZE and ("asan" in str(error) or "ubsan" in str(error)):
                raise BuildError(
                    f"{error}\na sanitize build needs the compiler's libasan and libubsan; "
                    "type: sudo dnf install libasan libubsan   (or: sudo apt install gcc)"
                ) from None
            raise


def _flags(kind: str, toolchain: Toolchain) -> tuple[str, ...]:
    """Those of ``kind`` that the compiler knows."""
    old = toolchain.family == "gcc" and 0 < toolchain.major < 12
    return tuple(flag for flag in FLAGS[kind] if not (old and flag == _PATTERN))


def _without(flags: Iterable[str], prefixes: tuple[str, ...]) -> list[str]:
    return [flag for flag in flags if not flag.startswith(prefixes)]
