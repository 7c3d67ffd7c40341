"""From an interface file to a program, or to a shared library, built once and kept.

What is built is kept in the user's cache under the hash of all that it depends on: the generated
unit, sources, the headers that they include, flags, and the compiler's version.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from platformdirs import user_cache_dir

from hitl.interface import Interface, load_interface
from hitl.targets import check_target
from hitl.toolchain import BuildError, Toolchain, find_toolchain
from hitl.unit import SUPPORT, unit_text
from rtsim.errors import UnknownName

PLAIN, SANITIZE, COVERAGE = "plain", "sanitize", "coverage"
_SANITIZE = (
    "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer",
    "-ftrivial-auto-var-init=pattern",
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
_OWN = ("-std=gnu11", "-O2", "-fPIC", "-ffp-contract=off")
PROGRAM, LIBRARY = "worker", "controller.so"


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
    root = Path(os.environ.get("RTSIM_CACHE_DIR") or user_cache_dir("rtsim")) / "sil"
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root, prefix="making-") as scratch:
        work = Path(scratch)
        (work / "unit.c").write_text(unit_text(interface), encoding="utf-8")
        folder = root / f"{interface.name}-{_key(interface, kind, toolchain, work)}"
        if not folder.is_dir():
            _compile(interface, kind, toolchain, work)
            _settle(work, folder)
    return Build(interface, kind, folder, toolchain.version)


def _settle(work: Path, folder: Path) -> None:
    """Into its place in one move; whoever was there first has built the same."""
    kept = work / "kept"
    kept.mkdir()
    for name in (PROGRAM, LIBRARY, "unit.c"):
        shutil.move(work / name, kept / name)
    for notes in work.glob("*.gcno"):
        shutil.move(notes, kept / notes.name)
    try:
        kept.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def _key(interface: Interface, kind: str, toolchain: Toolchain, work: Path) -> str:
    """Of everything that the program depends on."""
    sha = hashlib.sha256()
    about = [toolchain.command, toolchain.version, kind, FLAGS[kind], _ALWAYS, interface.libraries]
    sha.update(json.dumps([about, _user_flags(interface)]).encode())
    own = [work / "unit.c", SUPPORT / "worker.c", SUPPORT / "rtsim_unit.h"]
    for path in own + _dependencies(interface, toolchain, work):
        sha.update(f"{path.name}:".encode() + hashlib.sha256(path.read_bytes()).digest())
    return sha.hexdigest()[:24]


def _dependencies(interface: Interface, toolchain: Toolchain, work: Path) -> list[Path]:
    """The sources, and every header of the user's that they or the unit include."""
    flags = [*_user_flags(interface), f"-I{SUPPORT}"]
    rules = toolchain.run(["-MM", *flags, work / "unit.c", *interface.sources], work)
    words = rules.replace("\\\n", " ").replace("\\ ", "\0").split()
    paths = {(work / w.replace("\0", " ")).resolve() for w in words if not w.endswith(":")}
    return sorted(p for p in paths if p.is_file() and work not in p.parents)


def _user_flags(interface: Interface) -> list[str]:
    return [*(f"-I{folder}" for folder in interface.include), *interface.flags]


def _compile(interface: Interface, kind: str, toolchain: Toolchain, work: Path) -> None:
    """Objects one by one, so that the project's own C is neither instrumented nor counted."""
    flags = [*FLAGS[kind], *_ALWAYS, *_user_flags(interface)]
    objects: list[Path] = []
    for number, source in enumerate(interface.sources):
        objects.append(work / f"source{number}.o")
        toolchain.run([*flags, *_WARNINGS, "-c", source, "-o", objects[-1]], work)
    unit, worker = work / "unit.o", work / "worker.o"
    includes = [f"-I{SUPPORT}", *_user_flags(interface)]
    checks = _SANITIZE if kind == SANITIZE else ()  # the controller's objects stand in the unit
    toolchain.run([*_OWN, "-g", *checks, *includes, "-c", work / "unit.c", "-o", unit], work)
    toolchain.run([*_OWN, *includes, "-c", SUPPORT / "worker.c", "-o", worker], work)
    links = [f"-l{name}" for name in ("m", *interface.libraries)]
    link(toolchain, kind, [*objects, unit, worker], work / PROGRAM, [*links, "-ldl"], work)
    shared = [*objects, unit]
    link(toolchain, kind, shared, work / LIBRARY, [*links, "-shared"], work)


def link(
    toolchain: Toolchain,
    kind: str,
    objects: Sequence[Path],
    into: Path,
    flags: Sequence[str],
    work: Path,
) -> None:
    toolchain.run([*FLAGS[kind], *objects, "-o", into, *flags], work)
