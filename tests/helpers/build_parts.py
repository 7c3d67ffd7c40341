"""A small controller with its headers, and a compiler that counts what it is asked."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

from hitl.building import store
from hitl.building.build import Build, build
from hitl.building.toolchain import CompilerOutput, Toolchain

SOURCE = """#include "gain.h"
#include "limits/most.h"
double gain_step(double x) { int unused; double y = GAIN * x; return y > MOST ? MOST : y; }
"""
INTERFACE = """name = "gain"
period = 0.1
sources = ["gain.c"]
headers = ["gain.h"]
include = ["more"]
flags = ["-DOTHER=1", "-O0"]
libraries = []

[code]
step = "gained = gain_step(level)"

[inputs]
level = {}

[outputs]
gained = {}
"""


def ignore(arguments: list[str]) -> None:
    """No hook."""


class Counting(Toolchain):
    """Counts what it is asked to compile; ``before`` sees the arguments."""

    runs = 0
    before: Callable[[list[str]], None] = staticmethod(ignore)

    def run(self, arguments: Iterable[str | Path], folder: Path) -> CompilerOutput:
        listed = list(map(str, arguments))
        Counting.runs += 1
        Counting.before(listed)
        return super().run(listed, folder)


def write_project(tmp_path: Path) -> Path:
    """Its interface, in a folder with a space in its name."""
    folder = tmp_path / "a project"
    (folder / "more" / "limits").mkdir(parents=True)
    (folder / "gain.c").write_text(SOURCE)
    (folder / "gain.h").write_text("#define GAIN 2.0\ndouble gain_step(double x);\n")
    (folder / "more" / "limits" / "most.h").write_text("#define MOST 10.0\n")
    (folder / "unused.h").write_text("#define GAIN 3.0\n")
    (folder / "gain.toml").write_text(INTERFACE)
    return folder / "gain.toml"


def answer(made: Build, level: float = 1.0) -> float:
    """Of the shared library; the worker stands beside it and can be run."""
    assert os.access(made.program, os.X_OK)
    into = ctypes.c_double()
    library = ctypes.CDLL(str(made.library))
    assert library.rtsim_initialize(None) == 0
    assert library.rtsim_step(ctypes.byref(ctypes.c_double(level)), ctypes.byref(into)) == 0
    return into.value


@cache
def _compiled_own_code() -> Path:
    """Compile rtsim's own C, and return the folder of the builds that all tests share."""
    with tempfile.TemporaryDirectory() as elsewhere:
        build(write_project(Path(elsewhere)))
    return store.root()


def use_own_cache(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Make ``folder`` the cache folder, which holds rtsim's own C compiled, but no controller.

    Tests that count builds or damage them have a cache of their own. Without the copied object
    files, the compilation of rtsim's own C would take most of the time of these tests.
    """
    shared = _compiled_own_code()
    patch.setenv("RTSIM_CACHE_DIR", str(folder))
    for own in shared.glob("own-*"):
        shutil.copytree(own, store.root() / own.name)


def entries() -> list[str]:
    """The builds of controllers, without the object files of rtsim's own C."""
    there = store.root().iterdir() if store.root().is_dir() else ()
    return sorted(p.name for p in there if not p.name.startswith("own-"))


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
