"""Builds: what makes another one, what does not, and what is left when one goes wrong."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from hitl import kept
from hitl.build import Build, build
from hitl.cli import sil
from hitl.controller import SilController
from hitl.toolchain import BuildError, Said, Toolchain, find_toolchain
from rtsim.tag import Tag

pytestmark = pytest.mark.skipif(
    shutil.which("cc") is None, reason="no C compiler: sudo apt install gcc"
)

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


def _ignore(arguments: list[str]) -> None:
    """No hook."""


class Counting(Toolchain):
    """Counts what it is asked to compile; ``before`` sees the arguments."""

    runs = 0
    before: Callable[[list[str]], None] = staticmethod(_ignore)

    def run(self, arguments: Iterable[str | Path], folder: Path) -> Said:
        listed = list(map(str, arguments))
        Counting.runs += 1
        Counting.before(listed)
        return super().run(listed, folder)


@pytest.fixture
def toolchain(monkeypatch: pytest.MonkeyPatch) -> Toolchain:
    monkeypatch.setattr(Counting, "runs", 0)
    monkeypatch.setattr(Counting, "before", staticmethod(_ignore))
    found = find_toolchain()
    return Counting(found.command, found.version)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A controller in a folder with a space in its name, and a cache of its own."""
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
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


def entries() -> list[str]:
    return sorted(p.name for p in kept.root().iterdir()) if kept.root().is_dir() else []


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


# ---------------------------------------------------------------- what makes another build

CHANGES: dict[str, tuple[str, str, str]] = {
    "source": ("gain.c", "GAIN * x", "GAIN * x + 1.0"),
    "header": ("gain.h", "2.0", "2.5"),
    "header of a header's folder": ("more/limits/most.h", "10.0", "0.5"),
    "flag": ("gain.toml", "-DOTHER=1", "-DOTHER=2"),
    "library": ("gain.toml", "libraries = []", 'libraries = ["m"]'),
    "signal": ("gain.toml", "level = {}", 'level = { type = "float32" }'),
    "period's line": ("gain.toml", "period = 0.1\n", "period = 0.1\n\n"),
}


def test_a_build_that_is_there_asks_no_compiler(project: Path, toolchain: Toolchain) -> None:
    first = build(project, toolchain=toolchain)
    assert (answer(first), Counting.runs) == (2.0, 7)
    (project.parent / "unused.h").write_text("#define GAIN 4.0\n")
    (project.parent / "new.h").write_text("")
    for path in project.parent.rglob("*.*"):
        os.utime(path, (1.0, 1.0))
    assert build(project, toolchain=toolchain) == first
    assert (Counting.runs, entries()) == (7, [first.folder.name])


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_makes_another_build_and_back_again(what: str, project: Path) -> None:
    file, old, new = CHANGES[what]
    first = build(project)
    edit(project.parent / file, old, new)
    other = build(project)
    assert other.folder != first.folder
    expected = {"source": 3.0, "header": 2.5, "header of a header's folder": 0.5}
    assert answer(other) == expected.get(what, 2.0)
    edit(project.parent / file, new, old)
    assert build(project).folder == first.folder


def test_a_header_that_hides_another_is_seen(project: Path, toolchain: Toolchain) -> None:
    first = build(project, toolchain=toolchain)
    (project.parent / "limits").mkdir()
    (project.parent / "limits" / "most.h").write_text("#define MOST 0.25\n")
    second = build(project, toolchain=toolchain)
    assert (answer(first), answer(second)) == (2.0, 0.25)
    shutil.rmtree(project.parent / "limits")
    runs = Counting.runs
    assert build(project, toolchain=toolchain) == first
    assert Counting.runs == runs


def test_a_header_of_the_system_counts_too(project: Path) -> None:
    edit(project.parent / "gain.c", '#include "gain.h"', '#include "gain.h"\n#include <math.h>')
    made = build(project)
    assert "math.h" in {path.name for path in kept.read_by(made.folder)}


def test_a_users_library_counts_by_its_contents(project: Path) -> None:
    """Flags are relative to the interface file."""
    edit(project, '"-O0"]', '"-O0", "-Llib"]')
    edit(project, "libraries = []", 'libraries = ["offset"]')
    edit(project.parent / "gain.c", "GAIN * x", "GAIN * x + offset()")
    edit(project.parent / "gain.h", "double gain_step", "double offset(void); double gain_step")
    (project.parent / "lib").mkdir()

    def archive(value: float) -> None:
        source, made = project.parent / "lib" / "o.c", project.parent / "lib" / "o.o"
        source.write_text(f"double offset(void) {{ return {value}; }}\n")
        subprocess.run(["cc", "-fPIC", "-c", source, "-o", made], check=True)
        subprocess.run(["ar", "rc", made.with_name("liboffset.a"), made], check=True)

    archive(0.5)
    assert answer(build(project)) == 2.5
    archive(0.75)
    assert answer(build(project)) == 2.75


def test_another_compiler_makes_another_build(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "mycc"
    monkeypatch.setenv("CC", str(compiler))

    def install(version: str) -> None:
        text = f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}" && exit\nexec cc "$@"\n'
        compiler.write_text(text)
        compiler.chmod(0o755)
        os.utime(compiler, ns=(len(version), len(version)))

    install("mycc (x) 12.1.0")
    first = build(project)
    assert first.compiler == "mycc (x) 12.1.0"
    install("mycc (x) 12.1.0-2")
    assert build(project).folder != first.folder
    assert find_toolchain().major == 12
    monkeypatch.setenv("CPATH", str(tmp_path))
    assert len({build(project).folder, first.folder}) == 2


def test_a_header_saved_while_it_compiles_is_not_missed(
    project: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = project.parent / "gain.h"
    saved: list[bool] = []

    def save_once(arguments: list[str]) -> None:
        if "-c" in arguments and not saved:
            saved.append(True)
            edit(header, "2.0", "2.5")

    monkeypatch.setattr(Counting, "before", staticmethod(save_once))
    made = build(project, toolchain=toolchain)
    assert (answer(made), len(entries())) == (2.5, 1)
    assert build(project) == made

    def save_always(arguments: list[str]) -> None:
        if "-c" in arguments:
            header.write_text(header.read_text() + "\n")

    monkeypatch.setattr(Counting, "before", staticmethod(save_always))
    header.write_text(header.read_text() + "\n")
    with pytest.raises(BuildError, match="sources of gain change while they compile"):
        build(project, toolchain=toolchain)


# ---------------------------------------------------------------- at once, interrupted, damaged


def test_processes_that_build_at_once_agree(project: Path) -> None:
    program = "import sys; from hitl.build import build; print(build(sys.argv[1]).folder)"
    command = [sys.executable, "-c", program, str(project)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    folders = {process.communicate(timeout=60)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert [Path(f).name for f in folders] == entries()


@pytest.mark.parametrize("at", [1, 3, 5, 7])
def test_an_interrupted_build_leaves_nothing(
    at: int, project: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(arguments: list[str]) -> None:  # noqa: ARG001
        if Counting.runs == at:
            raise KeyboardInterrupt

    monkeypatch.setattr(Counting, "before", staticmethod(interrupt))
    with pytest.raises(KeyboardInterrupt):
        build(project, toolchain=toolchain)
    assert entries() == []


def test_what_a_killed_build_left_is_swept_away(project: Path) -> None:
    made = build(project)
    for name in ("making-old", "making-young", "gain-unused-for-long"):
        (kept.root() / name).mkdir()
        if name != "making-young":
            os.utime(kept.root() / name, (1e9, 1e9))
    edit(project.parent / "gain.h", "2.0", "2.5")
    other = build(project)
    assert entries() == sorted([made.folder.name, other.folder.name, "making-young"])


@pytest.mark.parametrize("name", ["worker", "controller.so", "manifest.json"])
def test_a_damaged_entry_is_built_again(name: str, project: Path) -> None:
    made = build(project)
    (made.folder / name).unlink()
    again = build(project)
    assert again == made
    assert answer(again) == 2.0


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

    monkeypatch.setattr("hitl.kept.os.utime", refuse)
    monkeypatch.setattr("hitl.kept.tempfile.TemporaryDirectory", refuse)
    assert build(project) == made
    edit(project.parent / "gain.h", "2.0", "2.5")
    with pytest.raises(BuildError, match=r"cannot write to the cache folder .*: Permission denied"):
        build(project)


def test_no_compiler_says_what_to_type(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("hitl.toolchain.find_spec", lambda name: None)  # noqa: ARG005
    with pytest.raises(BuildError, match=r"no C compiler; type: pip install 'rtsim\[sil\]'"):
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
    monkeypatch.setattr("hitl.toolchain.find_spec", lambda name: None)  # noqa: ARG005
    for name, text in (("cc", "echo no tools >&2; exit 1"), ("clang", "echo clang version 17.0.6")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    found = find_toolchain()
    assert (found.family, found.major) == ("clang", 17)
    (tmp_path / "clang").unlink()
    with pytest.raises(BuildError, match=r"no tools\nno C compiler that works; type: pip install"):
        find_toolchain()


@pytest.mark.parametrize("kind", ["sanitize", "coverage"])
def test_ziglang_builds_plain_only(kind: str, project: Path) -> None:
    zig = Toolchain((sys.executable, "-m", "ziglang", "cc"), "clang of ziglang")
    with pytest.raises(BuildError, match=f"a {kind} build needs gcc or clang .* apt install gcc"):
        build(project, kind, zig)


def test_sanitizers_that_are_not_installed(
    project: Path, toolchain: Toolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(arguments: list[str]) -> None:
        if "-c" not in arguments and "-M" not in arguments:
            raise BuildError("cc failed:\n/usr/bin/ld: cannot find libasan_preinit.o")

    monkeypatch.setattr(Counting, "before", staticmethod(lacking))
    with pytest.raises(BuildError, match=r"cannot find .*\n.*type: sudo dnf install libasan"):
        build(project, "sanitize", toolchain)


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
    with pytest.raises(BuildError, match=r"gain\.toml:10:\d+: error: implicit declaration"):
        build(project)


def test_flags_do_not_reach_the_projects_own_c(project: Path) -> None:
    edit(project, "-DOTHER=1", "-DSTEP=nonsense")
    assert answer(build(project)) == 2.0


@pytest.mark.skipif(find_spec("ziglang") is None, reason="needs pip install ziglang")
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
