"""ziglang's compiler, where there is no other: it makes what gcc makes, and where it may."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from build_parts import answer, edit, write_project

from hitl.building.build import build
from hitl.building.toolchain import BuildError, Toolchain, find_toolchain
from hitl.controllers.sil import SilController
from rtsim.core.tag import Tag


@pytest.fixture
def zig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Toolchain:
    """As it is found on a machine without a compiler, and a cache for what it builds."""
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    found = find_toolchain()
    assert found.family == "zig"
    return found


@pytest.mark.long
def test_a_header_that_hides_another_is_seen(zig: Toolchain, tmp_path: Path) -> None:
    """zig's own cache knows the files that were read, not those that were not there."""
    project = write_project(tmp_path)
    first = build(project, toolchain=zig)
    (project.parent / "limits").mkdir()
    (project.parent / "limits" / "most.h").write_text("#define MOST 0.25\n")
    second = build(project, toolchain=zig)
    assert (answer(first), answer(second)) == (2.0, 0.25)


def test_a_plain_build_does_not_trap(zig: Toolchain, tmp_path: Path) -> None:
    """Overflow that goes on with gcc goes on with zig, also where the user does not optimise."""
    project = write_project(tmp_path)
    edit(project.parent / "gain.c", "int unused;", "volatile int n = 2147483647; n += (int)x;")
    with closing(SilController(build(project, toolchain=zig)).fresh()) as controller:
        controller.send(Tag(0), np.array([3.0]))
        np.testing.assert_array_equal(controller.receive(Tag(0), 10.0), [6.0])


STUCK = """#!/bin/sh
[ -e {flag} ] && echo done && exit
touch {flag}
exec sleep 60
"""


def test_one_that_stands_still_is_called_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hitl.building.toolchain._PATIENCES_OF_ZIG", (3.0, 60.0))
    (tmp_path / "zig").write_text(STUCK.format(flag=tmp_path / "seen"))
    (tmp_path / "zig").chmod(0o755)
    fake = Toolchain((str(tmp_path / "zig"),), "clang of ziglang")
    assert fake.run([], tmp_path).output == "done\n"


FAKE = """#!/bin/sh
echo "$ZIG_GLOBAL_CACHE_DIR" "$ZIG_LOCAL_CACHE_DIR"
"""


def test_it_keeps_its_files_in_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its default is the home folder, which may not be writable."""
    (tmp_path / "zig").write_text(FAKE)
    (tmp_path / "zig").chmod(0o755)
    fake = Toolchain((str(tmp_path / "zig"),), "clang of ziglang")
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.delenv("ZIG_GLOBAL_CACHE_DIR", raising=False)
    kept, users = fake.run([], tmp_path).output.split()
    assert kept == str(tmp_path / "cache" / "zig")
    assert not os.path.exists(users), "what the user compiles is not kept"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(BuildError, match=r"cannot write to the cache folder .*RTSIM_CACHE_DIR"):
        fake.run([], tmp_path)
