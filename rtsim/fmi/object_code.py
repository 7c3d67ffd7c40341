"""Shared libraries of an exported model for Linux, Windows and macOS, linked on this computer.

LLVM translates the compiled functions to object code of each system, and the compiler of the
package ``ziglang`` compiles the C shell and links both. No other tool and no Python is necessary.
"""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rtsim.core.cache import cache_folder
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.extras import installed
from rtsim.equations.objects import object_file


@dataclass(frozen=True)
class Target:
    """A system for which a library is made, with its folder in an FMU of FMI 2.0."""

    machine: str
    system: str
    fmi2: str

    @property
    def name(self) -> str:
        """The name of the system in FMI 3.0."""
        return f"{self.machine}-{self.system}"

    @property
    def triple(self) -> str:
        """The name of the system for LLVM."""
        return f"{self.machine}-{_LLVM[self.system]}"

    @property
    def zig(self) -> str:
        """The name of the system for zig."""
        return f"{self.machine}-{_ZIG[self.system]}"

    @property
    def processor(self) -> str:
        """The oldest processor on which the library runs."""
        oldest = {"x86_64": "x86-64"}.get(self.machine, "generic")
        return "apple-m1" if self.name == "aarch64-darwin" else oldest

    @property
    def suffix(self) -> str:
        return {"linux": ".so", "windows": ".dll", "darwin": ".dylib"}[self.system]


_LLVM = {"linux": "unknown-linux-gnu", "windows": "w64-windows-gnu", "darwin": "apple-macosx11.0"}
_ZIG = {"linux": "linux-gnu", "windows": "windows-gnu", "darwin": "macos.11.0"}
TARGETS = {
    one.name: one
    for one in (
        Target("x86_64", "linux", "linux64"),
        Target("aarch64", "linux", "aarch64-linux"),
        Target("x86_64", "windows", "win64"),
        Target("aarch64", "windows", "aarch64-windows"),
        Target("x86_64", "darwin", "darwin64"),
        Target("aarch64", "darwin", "darwin64"),
    )
}
"""The systems for which a model can be exported, by their names in FMI 3.0."""
_SYSTEMS = {"Linux": "linux", "Windows": "windows", "Darwin": "darwin"}
_PROCESSORS = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
_PATIENCES_S = (300, 900)
"""Timeouts (s) of two attempts, because zig hangs once in thousands of calls. The first library for
a system takes longer, because zig then compiles the C library of the system."""
_OPTIONS = ("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-s", "-std=c11")


def this_system() -> str:
    """Return the name of this system in FMI 3.0, such as ``x86_64-linux``."""
    machine, system = platform.machine(), platform.system()
    return f"{_PROCESSORS.get(machine, machine)}-{_SYSTEMS.get(system, system.lower())}"


def chosen(systems: Sequence[str]) -> list[Target]:
    """Return the targets with the given names; no names mean all targets.

    Raises :class:`UnknownName` for a name that is not in :data:`TARGETS`.
    """
    for name in systems:
        if name not in TARGETS:
            raise UnknownName("system", name, TARGETS, "this export")
    return [TARGETS[name] for name in systems or TARGETS]


def library(
    target: Target,
    code: Sequence[str],
    renamed: Mapping[str, str],
    sources: Mapping[str, str],
    name: str,
) -> bytes:
    """Return the shared library ``name`` for a target.

    ``code`` is the LLVM code of the compiled functions, and ``renamed`` gives new names to some of
    them. ``sources`` are C files and headers by their names. Raises :class:`ScenarioError` if the
    linker fails.
    """
    installed("ziglang", "fmi", f"the library {name}{target.suffix}")
    with TemporaryDirectory(prefix="rtsim-fmi-") as folder:
        at = Path(folder)
        for file, text in sources.items():
            (at / file).write_text(text)
        (at / "model.o").write_bytes(
            object_file(code, dict(renamed), target.triple, target.processor)
        )
        out = at / f"{name}{target.suffix}"
        given = [*(file for file in sources if file.endswith(".c")), "model.o", "-o", out.name]
        if target.system == "linux":
            given.append("-lm")
        if target.system == "darwin":
            given.append(f"-Wl,-install_name,@rpath/{out.name}")
        _run([sys.executable, "-m", "ziglang", "cc", "-target", target.zig, *_OPTIONS, *given], at)
        return out.read_bytes()


def _run(command: Sequence[str], folder: Path) -> None:
    zig = cache_folder() / "zig"
    environment = {
        **os.environ,
        "ZIG_GLOBAL_CACHE_DIR": str(zig),
        "ZIG_LOCAL_CACHE_DIR": str(folder),
    }
    for patience in _PATIENCES_S:
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True,
                timeout=patience, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            continue
        if done.returncode:
            raise ScenarioError(
                f"the linker of ziglang failed with status {done.returncode}:\n"
                f"{(done.stderr or done.stdout).strip()[-2000:]}"
            )
        return
    raise ScenarioError(
        f"the linker of ziglang did not end within {_PATIENCES_S[-1]} s; export again"
    )


_FAT, _PAGE = 0xCAFEBABE, 14
"""Magic number of a universal binary, and the alignment of its parts (2^14 bytes)."""


def universal(parts: Sequence[bytes]) -> bytes:
    """Return the universal binary of several Mach-O files for different processors.

    Source: Apple, <mach-o/fat.h>: a header and a table of the files, in big-endian order.
    """
    head, body, at = struct.pack(">II", _FAT, len(parts)), b"", 1 << _PAGE
    for part in parts:
        kind, subkind = struct.unpack_from("<II", part, 4)
        head += struct.pack(">IIIII", kind, subkind, at, len(part), _PAGE)
        body += part + bytes(-len(part) % (1 << _PAGE))
        at += len(part) + (-len(part) % (1 << _PAGE))
    return head + bytes((1 << _PAGE) - len(head)) + body
