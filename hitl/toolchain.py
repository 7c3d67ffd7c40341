"""The C compiler: the system's, or the one in the ``ziglang`` package where there is none."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from rtsim.errors import RtsimError

_PATIENCE_S = 300.0
_NAMES = ("cc", "gcc", "clang")


class BuildError(RtsimError):
    """C that does not compile or link; the text holds what the compiler said."""


@dataclass(frozen=True)
class Toolchain:
    """A compiler driver that understands gcc's options."""

    command: tuple[str, ...]
    version: str
    """What it says of itself; part of what a build is cached by."""

    @property
    def family(self) -> str:
        """``gcc``, ``clang`` or ``zig`` (clang without sanitizers and coverage)."""
        if "ziglang" in self.command:
            return "zig"
        return "clang" if "clang" in self.version.lower() else "gcc"

    def run(self, arguments: Sequence[str | Path], folder: Path) -> str:
        """Compile in ``folder``; what it printed.  Raises :class:`BuildError` with all it said."""
        command = [*self.command, *map(str, arguments)]
        environment = {**os.environ, "LC_ALL": "C"}
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True,
                stdin=subprocess.DEVNULL, timeout=_PATIENCE_S, errors="replace",
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise BuildError(f"{self.command[0]} did not finish within {_PATIENCE_S:g} s") from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise BuildError(f"{shlex.join(self.command)} failed:\n{said}")
        return done.stdout


def find_toolchain() -> Toolchain:
    """``$CC``, else cc, gcc or clang, else ziglang's; :class:`BuildError` says what to install."""
    wanted = os.environ.get("CC", "").strip()
    if wanted:
        command = tuple(shlex.split(wanted))
        if shutil.which(command[0]) is None:
            raise BuildError(f"CC={wanted}: no such program; unset CC, or name a C compiler")
        return Toolchain(command, _version(command))
    for name in _NAMES:
        if path := shutil.which(name):
            return Toolchain((path,), _version((path,)))
    if find_spec("ziglang") is not None:
        command = (sys.executable, "-m", "ziglang", "cc")
        return Toolchain(command, _version(command))
    raise BuildError("no C compiler; type: pip install 'rtsim[sil]'   (or: sudo apt install gcc)")


@cache
def _version(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, timeout=_PATIENCE_S,
            stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{shlex.join(command)} --version: {error}") from None
    if done.returncode != 0:
        raise BuildError(f"{shlex.join(command)} --version failed: {done.stderr.strip()}")
    return done.stdout.partition("\n")[0].strip()
