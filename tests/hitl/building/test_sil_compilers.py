"""Compilers and caches that cannot be used, and what a compiler says.

ziglang's compiler, where there is no other: it makes what gcc makes, and where it may.

What the compiler warns of in the user's C: in every result of a comparison, and as an error.
"""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from build_parts import Counting, answer, edit, ignore, use_own_cache, write_project
from c_parts import with_gcc
from click.testing import CliRunner
from command_line import rtsim
from emulated_board_parts import need
from junit_schema import valid

from hitl.building.build import build
from hitl.building.toolchain import BuildError, Toolchain, find_toolchain
from hitl.cli import sil
from hitl.cli.interfaces import write_starter
from hitl.controllers.sil import SilController
from hitl.firmware import firmware
from hitl.interface import InterfaceError
from hitl.results.page import MARK
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
    use_own_cache(tmp_path / "cache", monkeypatch)
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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
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


UNUSED = "unused variable"


@pytest.fixture
def motor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example, with a variable that nothing uses."""
    monkeypatch.chdir(tmp_path)
    write_starter(tmp_path)
    source = tmp_path / "motor.c"
    text = source.read_text()
    source.write_text(text.replace("real error =", "int forgotten;\n    real error =", 1))
    return tmp_path / "motor.toml"


def test_a_comparison_shows_them_everywhere(motor: Path) -> None:
    asked = ("sil", "test", "scenario.py", "-c", motor, "--until", 0.2)
    told = rtsim(*asked, "--junit", "r.xml", "--html", "r.html")
    assert told.exit_code == 0, told.output
    assert "Compiler warnings about controller:" in told.stdout
    assert told.stdout.count(f"{UNUSED} 'forgotten'") == 1
    root = valid(ET.fromstring(Path("r.xml").read_text()))
    (said,) = root.iter("system-out")
    assert said.text is not None
    assert said.text.startswith("Compiler warnings about controller:\n")
    assert UNUSED in said.text
    page = Path("r.html").read_text()
    assert MARK in page
    assert "<h2>Compiler warnings</h2>" in page
    assert UNUSED in page
    told = rtsim(*asked, "--json")
    assert told.exit_code == 0, told.output
    assert UNUSED in json.loads(told.stdout)["open"]["controller"]["warnings"]


def test_a_c_without_them_says_nothing(motor: Path) -> None:
    source = motor.with_name("motor.c")
    source.write_text(source.read_text().replace("int forgotten;", ""))
    asked = ("sil", "test", "scenario.py", "-c", motor, "--until", 0.2, "--warnings", "error")
    told = rtsim(*asked, "--junit", "r.xml", "--html", "r.html")
    assert told.exit_code == 0, told.output
    assert "warns" not in told.output
    assert "system-out" not in Path("r.xml").read_text()
    assert "Compiler warnings" not in Path("r.html").read_text()
    assert rtsim("sil", "build", motor, "--warnings", "error").exit_code == 0


@pytest.mark.parametrize(
    "command",
    [
        ("build", "motor.toml"),
        ("check", "motor.toml"),
        ("test", "scenario.py", "-c", "motor.toml", "--junit", "r.xml", "-o", "r.mcap"),
    ],
    ids=lambda command: command[0],
)
def test_as_errors_they_end_it_with_status_1(command: tuple[str, ...], motor: Path) -> None:
    told = rtsim("sil", *command, "--warnings", "error")
    assert told.exit_code == 1, told.output
    assert "the compiler warns about " in told.stderr
    assert f"{UNUSED} 'forgotten'" in told.stderr
    assert told.stdout == ""
    assert not list(motor.parent.glob("r.*")), "nothing was compared"
    told = rtsim("sil", *command, "--warnings", "error", "--json")
    assert told.exit_code == 1
    assert json.loads(told.stdout)["error"]["type"] == "Warnings"


def test_a_check_shows_them(motor: Path) -> None:
    told = rtsim("sil", "check", motor)
    assert told.exit_code == 0
    assert UNUSED in told.stderr


@pytest.mark.system("avr-gcc")
def test_the_boards_compiler_is_heard_too(motor: Path) -> None:
    """Of the controller's sources alone; the project's own and Arduino's are not looked at."""
    source = motor.with_name("motor.c")
    source.write_text(
        source.read_text().replace("int forgotten;", "long far = 1 << 20; (void)far;")
    )
    for _ in range(2):  # the second one is kept
        made = firmware(f"{motor}:float")
        assert "left shift count >= width of type" in made.warnings
        assert made.warnings.count("warning:") == 1
    told = rtsim("board", "build", f"{motor}:float")
    assert (told.exit_code, told.stderr) == (0, made.warnings)
    told = rtsim("board", "build", f"{motor}:float", "--warnings", "error")
    assert told.exit_code == 1
    assert "the compiler warns about motor (--warnings error):" in told.stderr
    source.write_text(source.read_text().replace("1 << 20", "1l << 20"))
    assert firmware(f"{motor}:float").warnings == ""


@pytest.mark.system("avr-gcc")
def test_a_board_shows_those_of_both_compilers(motor: Path) -> None:
    need("avr8js")
    asked = ("pitl", "scenario.py", "-c", f"{motor}:float", "--until", 0.2, "--latency", 0.005)
    told = rtsim(*asked)
    assert told.exit_code == 0, told.output
    for side in ("host C", "board"):
        assert f"Compiler warnings about controller ({side}):" in told.stdout
    told = rtsim(*asked, "--warnings", "error")
    assert told.exit_code == 1
    assert "the compiler warns about controller (host C), controller (board)" in told.stderr
    assert "request" not in told.output, "no board was met"
