"""C of the tests' own, by the compiler that rtsim finds: the system's, or ziglang's."""

from __future__ import annotations

from pathlib import Path

import pytest

from hitl.building.toolchain import find_toolchain

with_gcc = pytest.mark.system("gcc")
"""Sanitizers and coverage, gcc's own words, and binutils."""


def compiled(*arguments: str | Path, folder: Path) -> None:
    """Raises :class:`BuildError` with what the compiler said."""
    find_toolchain().run(arguments, folder)


def sanitized() -> tuple[str, ...]:
    """Flags for a driver; none of sanitizers for ziglang's compiler, which lacks theirs."""
    if find_toolchain().family == "zig":
        return ("-g", "-O1")
    return ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
