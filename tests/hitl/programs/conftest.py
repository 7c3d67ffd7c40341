"""The C and C++ programs of these tests, compiled once."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from program_runs import Compile

from hitl.building.toolchain import CannotBuild, find_toolchain

_HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def compiled_program(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Return a function that compiles a program of this folder, and returns its path."""
    if not sys.platform.startswith("linux") or platform.machine() not in ("x86_64", "aarch64"):
        pytest.skip("virtual time needs Linux")
    folder = tmp_path_factory.mktemp("programs")

    def compile_program(name: str, *flags: str) -> Path:
        source = _HERE / name
        made = folder / "-".join([source.stem, *flags])
        if made.exists():
            return made
        cpp = source.suffix == ".cpp"
        try:
            toolchain = find_toolchain().cpp() if cpp else find_toolchain()
        except CannotBuild as error:
            pytest.skip(str(error))
        standard = "-std=c++17" if cpp else "-std=gnu11"
        toolchain.run([standard, "-O2", *flags, source, "-o", made, "-lpthread"], folder)
        return made

    return compile_program
