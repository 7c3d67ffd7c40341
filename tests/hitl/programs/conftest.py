"""The C and C++ programs of these tests, compiled once."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

import pytest
from program_runs import FRAMES, Compile, Make

from hitl.building.toolchain import CannotBuild, find_toolchain
from hitl.programs import Program, ProgramPort

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


@pytest.fixture
def program(compiled_program: Compile, tmp_path: Path) -> Make:
    """Return a function that makes the controller for a mode of ``answers.c``."""
    frames = tmp_path / "frames.toml"
    frames.write_text(FRAMES)

    def make(*mode: str, **options: Any) -> Program:
        options = {
            "frames": frames,
            "send": {"sample": 4000, "radio": ProgramPort(4001, every=2)},
            "receive": {"reply": 5000},
            "clock_fields": ["time"],
            **options,
        }
        return Program([compiled_program("answers.c"), *mode], **options)

    return make
