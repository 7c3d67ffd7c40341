"""Compilers and caches that cannot be used, and what a compiler says."""

from __future__ import annotations

import errno
import io
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from build_parts import Counting, answer, edit, ignore, write_project
from c_parts import with_gcc
from click.testing import CliRunner

from hitl.building.build import build
from hitl.building.toolchain import BuildError, Toolchain, find_toolchain
from hitl.cli import sil
from hitl.controllers.sil import SilController
from hitl.interface import InterfaceError
from rtsim.core.tag import Tag


@pytest.fixture
def toolchain(monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    monkeypatch.setattr(Counting, "runs", 0)
    monkeypatch.setattr(Counting, "before", staticmethod(ignore))
    found = find_toolchain()
    return Counting(found.command, found.version)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A controller, and a cache of its own."""
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
    return write_project(tmp_path)


# ---------------------------------------------------------------- refusals


def test_a_cache_that_cannot_be_written(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(BuildError, match=r"cannot write to the cache folder .*RTSIM_CACHE_DIR"):
        build(project)


def test_a_read_only_cache_still_serves(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(project)

    def refuse(*given: object, **more: object) -> None:  # noqa: ARG001
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("hitl.building.store.os.utime", refuse)
    monkeypatch.setattr("hitl.building.store.tempfile.TemporaryDirectory", refuse)
    assert build(project) == made
    edit(project.parent / "gain.h", "2.0", "2.5")
    with pytest.raises(BuildError, match=r"cannot write to the cache folder .*: Permission denied"):
        build(project)


def test_no_compiler_says_what_to_type(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("hitl.building.toolchain.find_spec", lambda name: None)  # noqa: ARG005
    with pytest.raises(
        BuildError, match=r"no C compiler was found; type: pip install 'rtsim\[sil\]'"
    ):
        build(project)
    monkeypatch.setenv("CC", "nope -m64")
    with pytest.raises(BuildError, match="CC=nope -m64: no such program; unset CC"):
        build(project)
    monkeypatch.setenv("CC", "'cc")
    with pytest.raises(BuildError, match="CC='cc: No closing quotation"):
        build(project)


def test_a_compiler_that_does_not_work_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("hitl.building.toolchain.find_spec", lambda name: None)  # noqa: ARG005
    for name, text in (("cc", "echo no tools >&2; exit 1"), ("clang", "echo clang version 17.0.6")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    found = find_toolchain()
    assert (found.family, found.major) == ("clang", 17)
    (tmp_path / "clang").unlink()
    with pytest.raises(BuildError, match=r"no tools\nno C compiler works; type: pip install"):
        find_toolchain()


@pytest.mark.parametrize("kind", ["sanitize", "coverage"])
def test_ziglang_builds_plain_only(kind: str, project: Path) -> None:
    zig = Toolchain((sys.executable, "-m", "ziglang", "cc"), "clang of ziglang")
    with pytest.raises(BuildError, match=f"a {kind} build needs gcc or clang .* apt install gcc"):
        build(project, kind, zig)


@with_gcc
def test_sanitizers_that_are_not_installed(
    project: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(arguments: list[str]) -> None:
        if "-c" not in arguments and "-M" not in arguments:
            raise BuildError("cc failed:\n/usr/bin/ld: cannot find libasan_preinit.o")

    monkeypatch.setattr(Counting, "before", staticmethod(lacking))
    with pytest.raises(BuildError, match=r"cannot find .*\n.*type: sudo dnf install libasan"):
        build(project, "sanitize", toolchain)


@with_gcc
def test_an_older_gcc_is_not_asked_for_what_it_lacks(project: Path, toolchain: Toolchain) -> None:
    old = Counting(toolchain.command, "gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0")
    seen: list[str] = []
    Counting.before = staticmethod(seen.extend)
    build(project, "sanitize", old)
    assert "-fsanitize=address,undefined" in seen
    assert not [flag for flag in seen if "auto-var-init" in flag]


# ---------------------------------------------------------------- what the compiler says


def test_warnings_are_kept_and_shown_when_asked_to_build(project: Path) -> None:
    for _ in range(2):
        done = CliRunner().invoke(sil, ["build", str(project)])
        assert done.exit_code == 0, done.output
        assert done.stderr.count("unused variable") == 1
        assert "worker" in done.stdout
        assert "unused" not in done.stdout


def test_an_error_of_warnings_is_of_the_users_own(project: Path) -> None:
    edit(project, '"-O0"]', '"-O0", "-Werror", "-Wpedantic", "-std=c90"]')
    assert build(project).warnings == ""
    edit(project, '"-Werror"', '"-Werror", "-Wall"')
    with pytest.raises(BuildError, match="unused variable"):
        build(project)


def test_an_entry_point_without_its_header_is_an_error(project: Path) -> None:
    """C would take it to return an int."""
    edit(project, 'headers = ["gain.h"]', "")
    with pytest.raises(
        InterfaceError,
        match=r"gain\.toml:10: (call to undeclared|implicit declaration of) function",
    ):
        build(project)


def test_flags_do_not_reach_the_projects_own_c(project: Path) -> None:
    edit(project, "-DOTHER=1", "-DSTEP=nonsense")
    assert answer(build(project)) == 2.0


def test_without_a_compiler_ziglang_builds_and_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    made = build(project)
    assert "ziglang" in made.compiler
    assert build(project) == made
    controller = SilController(made).fresh()
    try:
        for k, level in enumerate((1.0, 7.0)):
            controller.send(Tag(k), np.array([level]))
            assert controller.receive(Tag(k), 10.0) == min(2.0 * level, 10.0)
    finally:
        controller.close()


class Terminal(io.StringIO):
    """Standard error, on a terminal or not."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


class AtOnce:
    """A timer whose time has passed when it is started."""

    daemon = False

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:  # noqa: ARG002
        self.start = function

    def cancel(self) -> None:
        pass


@pytest.mark.parametrize(
    ("terminal", "command", "said"),
    [
        (True, ("true",), "gcc is still compiling\n"),
        (
            True,
            ("env", "--", "true", "ziglang"),
            "zig is still compiling; its first build of C or C++ compiles the language's library\n",
        ),
        (False, ("true",), ""),
    ],
)
def test_a_slow_compiler_is_named_on_a_terminal_only(
    terminal: bool,
    command: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threading, "Timer", AtOnce)
    monkeypatch.setattr(sys, "stderr", stderr := Terminal(terminal))
    Toolchain(command, "slowcc 1").run([], tmp_path)
    assert stderr.getvalue() == said
