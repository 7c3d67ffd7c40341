"""The library that gives a program virtual time, and the check whether a program can use it."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from hitl.building import store
from hitl.building.toolchain import find_toolchain
from rtsim.core.errors import ControllerError

_HERE = Path(__file__).parent / "c"
LIBRARY, LAUNCHER = "virtual_time.so", "launch"
_FLAGS = (
    "-std=gnu11",
    "-O2",
    "-g",
    "-Wall",
    "-Wextra",
    "-fPIC",
    "-fvisibility=hidden",
    "-ftls-model=initial-exec",
)
_MACHINES = {"x86_64": b"\x3e\x00", "aarch64": b"\xb7\x00"}
"""Processors that have virtual time, and their numbers in an ELF file."""
_WIDE = b"\x02"
_REAL = "give clock='real', and run with --pace 1"
_INTERPRETER = 3
"""Type of the program header that names the dynamic linker (PT_INTERP)."""


class ProgramError(ControllerError):
    """A program cannot be started, has ended, or does not use its time."""


def virtual_time() -> tuple[Path, Path]:
    """Return the library and the launcher, compiled at the first use.

    Raises :class:`ProgramError` if this system has no virtual time, and
    :class:`hitl.building.toolchain.BuildError` if the C compiler fails.
    """
    if not sys.platform.startswith("linux") or platform.machine() not in _MACHINES:
        raise ProgramError(
            "virtual time needs Linux on x86-64 or AArch64, and this system is "
            f"{sys.platform} on {platform.machine()}; {_REAL}"
        )
    sources = sorted(_HERE.iterdir())
    toolchain = find_toolchain()
    key = store.Snapshot.of(sources).folder(f"own-virtual-time-{toolchain.family}").name

    def make(work: Path, made: Path) -> store.Snapshot:  # noqa: ARG001
        parts = [path for path in sources if path.suffix == ".c" and path.stem != LAUNCHER]
        toolchain.run(
            [*_FLAGS, "-shared", *parts, "-o", made / LIBRARY, "-ldl", "-lpthread"], _HERE
        )
        toolchain.run([*_FLAGS, _HERE / f"{LAUNCHER}.c", "-o", made / LAUNCHER], _HERE)
        return store.Snapshot.of(sources)

    folder = store.kept(key, (LIBRARY, LAUNCHER), make)
    return folder / LIBRARY, folder / LAUNCHER


def check_program(path: Path) -> None:
    """Raise :class:`ProgramError` if the program cannot load the library of virtual time."""
    if not path.is_file():
        raise ProgramError(
            f"the program {path.absolute()} does not exist; give the path of an executable"
        )
    data = path.read_bytes()
    if data.startswith(b"#!"):
        return  # the interpreter of a script loads the library
    if not data.startswith(b"\x7fELF"):
        raise ProgramError(f"{path} is not a program of Linux; give an executable file")
    if data[4:5] != _WIDE or data[18:20] != _MACHINES.get(platform.machine()):
        raise ProgramError(
            f"{path} is a program for another processor than {platform.machine()}; compile it for "
            "this machine"
        )
    if not _has_interpreter(data):
        raise ProgramError(
            f"{path} is linked statically, so that it loads no library and its clock cannot be "
            f"replaced; link it dynamically (without -static), or {_REAL}"
        )
    if path.stat().st_mode & 0o6000:
        raise ProgramError(
            f"{path} runs with the rights of its owner (setuid), so that it loads no library; "
            f"copy it without these rights, or {_REAL}"
        )


def _has_interpreter(data: bytes) -> bool:
    """Return whether a 64-bit ELF file has a program header that names the dynamic linker."""

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], "little")

    offset, size, count = number(32, 8), number(54, 2), number(56, 2)
    return any(number(offset + k * size, 4) == _INTERPRETER for k in range(count))
