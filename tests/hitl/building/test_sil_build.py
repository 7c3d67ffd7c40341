"""Builds that are kept: what makes another one, what does not, what an interrupted one leaves."""

from __future__ import annotations

import os
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import c_parts
import pytest
from build_parts import (
    Counting,
    answer,
    edit,
    entries,
    ignore,
    use_own_cache,
    write_project,
)

from hitl.building import build as building
from hitl.building import store, unit
from hitl.building.build import build
from hitl.building.toolchain import BuildError, Toolchain, find_toolchain
from hitl.interface import InterfaceError


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


@pytest.fixture
def empty_cache(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a folder without rtsim's own C the cache folder of ``project``."""
    folder = project.parents[1] / "empty"
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(folder))
    return folder


# ---------------------------------------------------------------- what makes another build

CHANGES: dict[str, tuple[str, str, str]] = {
    "source": ("gain.c", "GAIN * x", "GAIN * x + 1.0"),
    "header": ("gain.h", "2.0", "2.5"),
    "header of a header's folder": ("more/limits/most.h", "10.0", "0.5"),
    "flag": ("gain.toml", "-DOTHER=1", "-DOTHER=2"),
    "library": ("gain.toml", "libraries = []", 'libraries = ["m"]'),
    "signal": ("gain.toml", "level = {}", 'level = { unit = "m" }'),
    "period's line": ("gain.toml", "period = 0.1\n", "period = 0.1\n\n"),
}


@pytest.mark.usefixtures("empty_cache")
def test_a_build_that_is_there_asks_no_compiler(project: Path, toolchain: Toolchain) -> None:
    first = build(project, toolchain=toolchain)
    runs = 11 + 2 * sys.platform.startswith("linux")  # the library of the link
    assert (answer(first), Counting.runs) == (2.0, runs)
    (project.parent / "unused.h").write_text("#define GAIN 4.0\n")
    (project.parent / "new.h").write_text("")
    for path in project.parent.rglob("*.*"):
        os.utime(path, (1.0, 1.0))
    assert build(project, toolchain=toolchain) == first
    assert (Counting.runs, entries()) == (runs, [first.folder.name])


@pytest.fixture
def own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder with rtsim's own C, which a test may change."""
    copy = tmp_path / "own"
    shutil.copytree(unit.SUPPORT, copy)
    for module in (building, unit):
        monkeypatch.setattr(module, "SUPPORT", copy)
    return copy


@pytest.mark.system("gcc")
def test_own_code_is_compiled_once_for_all_builds(
    project: Path, toolchain: Toolchain, own_code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def note(arguments: list[str]) -> None:
        if "-M" not in arguments:
            compiled.extend(word for word in arguments if Path(word).parent == own_code)

    monkeypatch.setattr(Counting, "before", staticmethod(note))
    build(project, toolchain=toolchain)
    own = ["worker.c", "guard.c", *(["link.c"] if sys.platform.startswith("linux") else [])]
    assert sorted(compiled) == sorted(str(own_code / name) for name in own)
    compiled.clear()
    edit(project.parent / "gain.h", "2.0", "2.5")
    assert answer(build(project, toolchain=toolchain)) == 2.5
    assert answer(build(project, "coverage", toolchain=toolchain)) == 2.5
    assert compiled == [str(own_code / "coverage.c")]
    compiled.clear()
    with (own_code / "rtsim_link.h").open("a") as header:
        header.write("\n")
    assert answer(build(project, toolchain=toolchain)) == 2.5
    assert compiled == [str(own_code / name) for name in own if name != "guard.c"]


@pytest.mark.sample(2)
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
    assert "math.h" in {path.name for path in store.read_by(made.folder)}


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
        c_parts.compiled("-fPIC", "-c", source, "-o", made, folder=source.parent)
        ar = [sys.executable, "-m", "ziglang", "ar"]
        subprocess.run([*ar, "rc", made.with_name("liboffset.a"), made], check=True)

    archive(0.5)
    assert answer(build(project)) == 2.5
    archive(0.75)
    assert answer(build(project)) == 2.75


# ---------------------------------------------------------------- what compiler and linker read

Files = Callable[[Path], None]


def _object(folder: Path, name: str, value: float) -> Path:
    source, made = folder / f"{name}.c", folder / f"{name}.o"
    source.write_text(f"double offset(void) {{ return {value}; }}\n")
    c_parts.compiled("-fPIC", "-c", source, "-o", made, folder=folder)
    source.unlink()
    return made


def _calls_offset(folder: Path, *flags: str) -> None:
    edit(folder / "gain.c", "GAIN * x", "GAIN * x + offset()")
    edit(folder / "gain.h", "double gain_step", "double offset(void); double gain_step")
    _flags(folder, *flags)


def _flags(folder: Path, *flags: str) -> None:
    edit(folder / "gain.toml", '"-O0"]', ", ".join(['"-O0"', *(f'"{f}"' for f in flags)]) + "]")


def _adds_a_macro(folder: Path, *flags: str) -> None:
    edit(folder / "gain.c", "GAIN * x", "GAIN * x + BY")
    _flags(folder, *flags)


def _response(folder: Path) -> None:
    _adds_a_macro(folder, "@options")
    (folder / "options").write_text("-DOTHER_ONE='a b'\n@inner\n")
    (folder / "inner").write_text("-DBY=0.5\n")


def _linked_object(folder: Path) -> None:
    _calls_offset(folder, "extra.o")
    _object(folder, "extra", 0.5)


def _archive(folder: Path, how: str) -> None:
    made = _object(folder, "extra", 0.5)
    ar = [sys.executable, "-m", "ziglang", "ar", how, "liboffset.a", made.name]
    subprocess.run(ar, check=True, cwd=folder)


def _library(folder: Path) -> None:
    _calls_offset(folder, "-L", ".", "-loffset")
    _archive(folder, "rc")


def _thin_library(folder: Path) -> None:
    _calls_offset(folder, "liboffset.a")
    _archive(folder, "rcT")


def _script(folder: Path) -> None:
    _calls_offset(folder, "parts.ld")
    (folder / "parts.ld").write_text("INPUT(extra.o)\n")
    _object(folder, "extra", 0.5)


def _forced_header(folder: Path) -> None:
    _adds_a_macro(folder, "-include", "by.h")
    (folder / "by.h").write_text("#define BY 0.5\n")


def _by_in_header(folder: Path, *flags: str) -> None:
    edit(folder / "gain.c", '#include "gain.h"', '#include "gain.h"\n#include "by/by.h"')
    _adds_a_macro(folder, *flags)
    (folder / "more/by").mkdir()
    (folder / "more/by/by.h").write_text("#define BY 0.5\n")


def _with_rules_for_make(folder: Path) -> None:
    _by_in_header(folder, "-MMD", "-MFrules.d")


def _link_to_header(folder: Path) -> None:
    _by_in_header(folder)
    (folder / "other.h").write_text("#define BY 0.75\n")
    (folder / "more/by/by.h").rename(folder / "more/first.h")
    (folder / "more/by/by.h").symlink_to(folder / "more/first.h")


def _tested_header(folder: Path) -> None:
    _adds_a_macro(folder)
    text = '#if __has_include("site.h")\n#include "site.h"\n#else\n#define BY 0.5\n#endif\n'
    (folder / "gain.c").write_text(text + (folder / "gain.c").read_text())


def _assembled(folder: Path) -> None:
    _calls_offset(folder)
    source = (
        '__asm__(".pushsection .rodata\\n.balign 8\\n"\n'
        '"raw_by: .incbin \\"by.bin\\"\\n.popsection");\n'
        'extern const double raw_by[] __attribute__((visibility("hidden")));\n'
        "double offset(void) { return raw_by[0]; }\n"
    )
    (folder / "gain.c").write_text(source + (folder / "gain.c").read_text())
    _write_double(folder, 0.5)


def _write_double(folder: Path, value: float) -> None:
    (folder / "by.bin").write_bytes(struct.pack("<d", value))


def _assembled_by(written: str) -> Files:
    """Return what makes the assembler include ``by.s`` by the directive ``written`` in a text."""

    def prepare(folder: Path) -> None:
        _calls_offset(folder, "-Wa,-I.")
        edit(folder / "gain.toml", ', "-Wa,-I."', "")
        text = written.replace("FILE", (folder / "by.s").as_posix())
        source = (
            f'__asm__(".pushsection .rodata\\n"\n"{text}\\n.popsection");\n'
            'extern const double raw_by[] __attribute__((visibility("hidden")));\n'
            "double offset(void) { return raw_by[0]; }\n"
        )
        (folder / "gain.c").write_text(source + (folder / "gain.c").read_text())
        _assembly(0.5)(folder)

    return prepare


def _assembly(value: float) -> Files:
    return _write("by.s", f".balign 8\nraw_by: .double {value}\n")


def _header_of_a_header(folder: Path) -> None:
    _adds_a_macro(folder, "-Iinc")
    edit(folder / "gain.c", '#include "gain.h"', '#include "gain.h"\n#include "sub/a.h"')
    _write("sub/a.h", '#include "by.h"\n')(folder)
    _write("inc/by.h", "#define BY 0.5\n")(folder)


def _aliased_test(folder: Path) -> None:
    _tested_header(folder)
    edit(folder / "gain.c", "#if __has_include(", "#define HAS __has_include\n#if HAS(")


def _continued_test(folder: Path) -> None:
    _tested_header(folder)
    edit(folder / "gain.c", "#if __has_include(", "#if __has_include \\\n(")


def _archive_in(name: str, value: float) -> Files:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        made = _object(folder, "extra", value)
        ar = [sys.executable, "-m", "ziglang", "ar", "rc", name, made.name]
        subprocess.run(ar, check=True, cwd=folder)
        made.unlink()

    return make


def _archive_by_its_name(folder: Path) -> None:
    (folder / "l1").mkdir()
    _calls_offset(folder, "-Ll1", "-Ll2")
    edit(folder / "gain.toml", "libraries = []", 'libraries = [":gain.a"]')
    _archive_in("l2/gain.a", 0.5)(folder)


def _object_in(name: str, value: float) -> Files:
    def make(folder: Path) -> None:
        made = _object(folder, "extra", value)
        (folder / name).parent.mkdir(exist_ok=True)
        made.rename(folder / name)

    return make


def _script_as_library(folder: Path) -> None:
    _calls_offset(folder, "-Ll1", "-Ll2")
    edit(folder / "gain.toml", "libraries = []", 'libraries = ["real"]')
    _write("l1/libreal.so", "INPUT(real.o)\n")(folder)
    _object_in("l2/real.o", 0.5)(folder)


def _write(name: str, text: str) -> Files:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    return change


def _repoint(folder: Path) -> None:
    (folder / "more/by/by.h").unlink()
    (folder / "more/by/by.h").symlink_to(folder / "other.h")


def _new_object(folder: Path) -> None:
    _object(folder, "extra", 0.75)


def _archive_again(folder: Path) -> None:
    _archive(folder, "rc")
    ar = [sys.executable, "-m", "ziglang", "ar", "rc", "liboffset.a"]
    subprocess.run([*ar, _object(folder, "extra", 0.75).name], check=True, cwd=folder)


BY = "#define BY 0.75\n"
READ: dict[str, tuple[Files, Files]] = {
    "a response file within a response file": (_response, _write("inner", "-DBY=0.75\n")),
    "an object in the flags": (_linked_object, _new_object),
    "a library by -l in the flags": (_library, _archive_again),
    "a member of a thin archive": (_thin_library, _new_object),
    "an object that a linker script names": (_script, _new_object),
    "a header by -include": (_forced_header, _write("by.h", BY)),
    "a header beside flags for make": (_with_rules_for_make, _write("more/by/by.h", BY)),
    "a symbolic link to another header": (_link_to_header, _repoint),
    "a header in a folder that was not there": (
        lambda folder: _by_in_header(folder, "-iquote", "later"), _write("later/by/by.h", BY)
    ),
    "a header for which __has_include looks": (_tested_header, _write("more/site.h", BY)),
    "a header for which an alias of __has_include looks": (
        _aliased_test, _write("more/site.h", BY)
    ),
    "a header for which __has_include looks over two lines": (
        _continued_test, _write("more/site.h", BY)
    ),
    "a file that the assembler includes": (_assembled, lambda folder: _write_double(folder, 0.75)),
    **{
        f"a file that the assembler includes by {text}": (_assembled_by(text), _assembly(0.75))
        for text in (
            '\\t.include \\"FILE\\"', "\\n.include \\\"FILE\\\"", ';.include \\"FILE\\"',
            '.inc" "lude \\"FILE\\"', '.INCLUDE \\"FILE\\"', '\\x20.include \\"FILE\\"',
        )
    },
    "a header in the folder of the header that includes it": (
        _header_of_a_header, _write("sub/by.h", BY)
    ),
    "an archive by its name in an earlier folder": (
        _archive_by_its_name, _archive_in("l1/gain.a", 0.75)
    ),
    "an object of a linker script in an earlier folder": (
        _script_as_library, _object_in("l1/real.o", 0.75)
    ),
    "an object of a linker script in the folder of the linker": (
        _script_as_library, _object_in("real.o", 0.75)
    ),
}  # fmt: skip


NOT_BY_ZIG = (
    "an object in the flags", "an object that a linker script names",
    "an archive by its name in an earlier folder",
    "an object of a linker script in an earlier folder",
    "an object of a linker script in the folder of the linker",
    "a file that the assembler includes by .INCLUDE \\\"FILE\\\"",
)  # fmt: skip
"""Forms of flags that the compiler of ziglang refuses."""


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "what", [pytest.param(w, marks=[c_parts.with_gcc] if w in NOT_BY_ZIG else []) for w in READ]
)
def test_a_change_of_what_the_tools_have_read_makes_another_build(what: str, project: Path) -> None:
    prepare, change = READ[what]
    prepare(project.parent)
    assert answer(build(project)) == 2.5
    change(project.parent)
    assert answer(build(project)) == 2.75


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "flag",
    [
        "-march=native", "-B.", pytest.param("-fprofile-use", marks=c_parts.with_gcc),
        pytest.param("-Wl,@more", marks=c_parts.with_gcc),
    ],
)  # fmt: skip
def test_a_flag_that_may_read_what_nobody_reports_is_built_each_time(
    flag: str, project: Path
) -> None:
    (project.parent / "more" / "empty").write_text("")
    (project.parent / "more.rsp").write_text("")
    flag = flag.replace("@more", "@more.rsp")
    _flags(project.parent, flag)
    first, second = build(project), build(project)
    assert first.folder != second.folder
    assert (answer(first), answer(second)) == (2.0, 2.0)


def test_a_header_in_a_folder_of_the_environment_is_seen(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CPATH", str(tmp_path / "site"))
    edit(project.parent / "gain.c", '#include "gain.h"', '#include "gain.h"\n#include <ar.h>')
    assert answer(build(project)) == 2.0
    (tmp_path / "site").mkdir()
    (tmp_path / "site/ar.h").write_text("#undef GAIN\n#define GAIN 3.0\n")
    assert answer(build(project)) == 3.0


@pytest.mark.sample(1)
@pytest.mark.parametrize("tested", [True, False])
def test_a_header_of_the_environment_is_searched_for_what_it_reads(
    tested: bool, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CPATH", str(tmp_path / "site"))
    edit(project.parent / "gain.c", '#include "gain.h"', '#include "gain.h"\n#include <ar.h>')
    _adds_a_macro(project.parent)
    (tmp_path / "site").mkdir()
    more = tmp_path / "site" / ("opt.h" if tested else "by.s")
    if tested:
        text = '#if __has_include("opt.h")\n#include "opt.h"\n#else\n#define BY 0.5\n#endif\n'
    else:
        more.write_text(".set raw_by, 1\n")
        text = f'__asm__(".include \\"{more}\\"\\n");\n#define BY 0.5\n'
    (tmp_path / "site/ar.h").write_text(text)
    first = build(project)
    assert answer(first) == 2.5
    more.write_text("#define BY 0.75\n" if tested else ".set raw_by, 2\n")
    second = build(project)
    assert second.folder != first.folder
    assert answer(second) == (2.75 if tested else 2.5)


@pytest.mark.sample(1)
@pytest.mark.parametrize("reads", ["$BY_FLAGS", "$(cat flags.txt)"])
def test_a_compiler_that_is_a_script_is_asked_in_each_command(
    reads: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may read variables and files, which nobody reports."""
    compiler, cc = tmp_path / "mycc", shlex.join(find_toolchain().command)
    reads = reads.replace("flags.txt", str(tmp_path / "flags.txt"))
    compiler.write_text(f'#!/bin/sh\nexec {cc} {reads} "$@"\n')
    compiler.chmod(0o755)
    (tmp_path / "flags.txt").write_text("")
    _adds_a_macro(project.parent)
    monkeypatch.setenv("CC", str(compiler))
    for by in (0.5, 0.75):
        monkeypatch.setenv("BY_FLAGS", f"-DBY={by}")
        (tmp_path / "flags.txt").write_text(f"-DBY={by}" if "cat" in reads else "")
        assert answer(build(project)) == 2.0 + by


def test_a_compiler_that_an_interpreter_runs_is_a_script(tmp_path: Path) -> None:
    assert not find_toolchain().script()
    (tmp_path / "cc.py").write_text("")
    found = Toolchain((sys.executable, str(tmp_path / "cc.py")), "cc 1.0").script()
    assert found == f"{tmp_path / 'cc.py'} is a script, which may read other files"


@c_parts.with_gcc
def test_a_library_in_an_earlier_folder_of_the_environment_is_seen(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.parent
    monkeypatch.setenv("LIBRARY_PATH", f"{folder / 'l1'}:{folder / 'l2'}")
    _archive_by_its_name(folder)
    edit(project, ', "-Ll1", "-Ll2"', "")
    assert answer(build(project)) == 2.5
    _archive_in("l1/gain.a", 0.75)(folder)
    assert answer(build(project)) == 2.75


def test_a_file_that_hides_nothing_makes_one_build_more(
    project: Path, toolchain: Toolchain
) -> None:
    first = build(project, toolchain=toolchain)
    _write("more/gain.h.gch/empty", "")(project.parent)
    (project.parent / "more/gain.h.gch/empty").unlink()
    (project.parent / "more/gain.h.gch").rmdir()
    assert build(project, toolchain=toolchain) == first
    _write("more/more/gain.h", "")(project.parent)
    second = build(project, toolchain=toolchain)
    runs = Counting.runs
    assert build(project, toolchain=toolchain) == second
    assert Counting.runs == runs


@pytest.mark.long
def test_a_compiler_that_is_replaced_under_its_version_makes_another_build(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, cc = tmp_path / "mycc", shlex.join(find_toolchain().command)
    monkeypatch.setenv("CC", str(compiler))
    edit(project.parent / "gain.c", "GAIN * x", "GAIN * x + BY")
    for by in (0.5, 0.75):
        compiler.write_text(f'#!/bin/sh\nexec {cc} -DBY={by} "$@"\n')
        compiler.chmod(0o755)
        assert answer(build(project)) == 2.0 + by


def test_a_response_file_that_is_missing_or_names_itself_is_refused(project: Path) -> None:
    _flags(project.parent, "@options")
    with pytest.raises(InterfaceError, match=r"gain.toml:6: @options: cannot read"):
        build(project)
    (project.parent / "options").write_text("-DA=1 @options")
    with pytest.raises(InterfaceError, match="more than 100 files of flags; is it a cycle"):
        build(project)


@pytest.mark.long
def test_another_compiler_makes_another_build(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler, cc = tmp_path / "mycc", shlex.join(find_toolchain().command)
    monkeypatch.setenv("CC", str(compiler))

    def install(version: str) -> None:
        text = f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}" && exit\nexec {cc} "$@"\n'
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
    with pytest.raises(
        BuildError, match="the sources of gain changed during each of 3 compilations"
    ):
        build(project, toolchain=toolchain)


# ---------------------------------------------------------------- at once, interrupted, damaged


def test_processes_that_build_at_once_agree(project: Path) -> None:
    program = "import sys; from hitl.building.build import build; print(build(sys.argv[1]).folder)"
    command = [sys.executable, "-c", program, str(project)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    folders = {process.communicate(timeout=60)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert [Path(f).name for f in folders] == entries()


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.sample(2)
@pytest.mark.parametrize("at", [1, 3, 5, 7, 9])
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
    (store.root() / "loaded-old.so").write_text("")
    os.utime(store.root() / "loaded-old.so", (1e9, 1e9))
    for name in ("making-old", "making-young", "gain-unused-for-long"):
        (store.root() / name).mkdir()
        if name != "making-young":
            os.utime(store.root() / name, (1e9, 1e9))
    edit(project.parent / "gain.h", "2.0", "2.5")
    other = build(project)
    assert entries() == sorted([made.folder.name, other.folder.name, "making-young"])


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["worker", "controller.so", "manifest.json"])
def test_a_damaged_entry_is_built_again(name: str, project: Path) -> None:
    made = build(project)
    (made.folder / name).unlink()
    again = build(project)
    assert again == made
    assert answer(again) == 2.0
