"""The sketch folder: all of a controller's C in it, and the same image from make as from here.

Images that ship: of these sources, doing what a build of today does.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from firmware_parts import F16, random_inputs, started, with_avr_gcc

from hitl.boards import BoardError
from hitl.boards.avr import UNO
from hitl.boards.known import board_named
from hitl.building.toolchain import BuildError
from hitl.cli.boards import board
from hitl.firmware import firmware
from hitl.firmware.compiling import compiled
from hitl.firmware.firmware import FOLDER, Shipped, manifest
from hitl.firmware.shipping import SHIPPED
from hitl.firmware.sketch import sketch_of
from hitl.interface import InterfaceError, load_interface
from rtsim.core.errors import ScenarioError

TOML = """\
name = "c"
period = "1/100"
sources = ["main/c.c"]
headers = ["c.h"]
include = ["lib", "main"]
flags = ["-DGAIN=2", "-D", "QUIET", "-UNOISY", "-Iextra", "-fno-builtin"]

[code]
step = "y = c_step(u)"

[inputs]
u = { type = "float32" }

[outputs]
y = { type = "float32" }
"""
FILES = {
    "main/c.c": '#include "c.h"\n#include "part.c"\n#include "deep/util.h"\n#include <stdint.h>\n'
    '#  include <wide.h>\n#include "absent.h" // of the compiler\n',
    "main/c.h": '#include "util.h"\nfloat c_step(float u);\n',
    "main/util.h": "#define MAIN_UTIL 1\n",
    "main/part.c": "float c_step(float u) { return GAIN * u + DEEP_UTIL_OF_PART; }\n",
    "lib/deep/util.h": "#define DEEP_UTIL 3\n",
    "extra/wide.h": "#define WIDE 4\r\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, text in {**FILES, "c.toml": TOML}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode())
    return folder / "c.toml"


def test_every_header_is_there_once_and_found_without_a_folder(project: Path) -> None:
    files = sketch_of(load_interface(project), 500_000).files
    own = {n.rpartition("/")[2]: t for n, t in files.items() if n.startswith("src/controller/")}
    assert set(own) == {
        "rtsim_unit.c", "c.c", "c.h", "util.h", "deep_util.h", "part.c.h", "wide.h"
    }  # fmt: skip
    assert own["c.c"].splitlines() == [
        "#define GAIN 2", "#define QUIET 1", "#undef NOISY", '#line 1 "c.c"',
        '#include "c.h"', '#include "part.c.h"', '#include "deep_util.h"', "#include <stdint.h>",
        '#  include "wide.h"', '#include "absent.h" // of the compiler',
    ]  # fmt: skip
    assert own["c.h"] == FILES["main/c.h"]
    assert own["wide.h"] == "#define WIDE 4\n"
    assert own["rtsim_unit.c"].startswith("#define GAIN 2\n")
    assert '#include "c.h"' in own["rtsim_unit.c"]
    assert "-fno-builtin" in files["Makefile"]
    assert str(project.parent) not in "".join(files.values())


def test_the_build_id_is_that_of_the_sources_at_any_rate(project: Path) -> None:
    one, other = (sketch_of(load_interface(project), baud) for baud in (500_000, 115_200))
    assert one.build == other.build
    assert one.key != other.key
    (project.parent / "main" / "util.h").write_text("#define MAIN_UTIL 2\n")
    assert sketch_of(load_interface(project), 500_000).build != one.build


def test_an_older_sketch_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    sketch = sketch_of(load_interface(F16), 500_000)
    place = sketch.write(tmp_path)
    stale = place / "src" / "controller" / "stale.c"
    stale.write_text("")
    assert sketch.write(tmp_path) == place
    assert not stale.exists()
    (tmp_path / "other" / "f16_control").mkdir(parents=True)
    with pytest.raises(BoardError, match="is not a sketch of rtsim, so it is not replaced"):
        sketch.write(tmp_path / "other")


@with_avr_gcc
def test_make_in_the_sketch_makes_the_same_image(tmp_path: Path) -> None:
    sketch = sketch_of(load_interface(F16), 115_200)
    place = sketch.write(tmp_path)
    said = subprocess.run(["make", "-s", "-C", place], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    image = compiled(sketch)
    assert (place / "f16_control.hex").read_bytes() == image.path.read_bytes()
    sizes = {name: int(size) for name, size in re.findall(r"\.(\w+)\s+(\d+)", said.stdout)}
    assert image.flash_bytes == sizes["text"] + sizes["data"]
    assert image.ram_bytes == sizes["data"] + sizes["bss"] + sizes["noinit"]


def test_a_float64_is_refused_with_its_line() -> None:
    with pytest.raises(InterfaceError, match=r"toml:23: throttle is float64, which avr"):
        firmware(F16.removesuffix(":single"))


@pytest.mark.parametrize(
    ("baud", "said"), [(2_000_000, "at most 1000000"), (3_000_001, "no divider makes")]
)
def test_a_rate_that_cannot_be(baud: int, said: str) -> None:
    with pytest.raises((BoardError, ScenarioError), match=said):
        sketch_of(load_interface(F16), baud)


def test_missing_tools_are_named_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert firmware(F16).prebuilt
    with pytest.raises(BoardError, match=r"without avr-gcc.*sudo apt install gcc-avr avr-libc ard"):
        firmware(F16, build=True)


@with_avr_gcc
def test_a_missing_core_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RTSIM_ARDUINO_AVR", str(tmp_path))
    with pytest.raises(BoardError, match=r"Arduino's core in .*sudo apt install"):
        firmware(F16, build=True)


def broken(project: Path, header: str, source: str = "") -> str:
    (project.parent / "main" / "c.h").write_text(header)
    (project.parent / "main" / "c.c").write_text(source)
    return str(project)


@with_avr_gcc
def test_too_much_static_data_is_told_in_bytes(project: Path) -> None:
    text = "static volatile char data[1900]; static float c_step(float u) { return data[(int)u]; }"
    with pytest.raises(BoardError, match=r"c has 2\d\d\d bytes of static data, .* 2048"):
        firmware(broken(project, text))


@with_avr_gcc
@pytest.mark.parametrize("size", [30_000, 32_700])
def test_too_much_program_is_told_in_bytes(project: Path, size: int) -> None:
    """More than the boot loader leaves; more than there is, which the linker refuses."""
    text = f'float c_step(float u) {{ __asm__(".fill {size // 2}, 2, 0"); return u; }}\n'
    with pytest.raises(BoardError, match=r"c needs 3\d\d\d\d bytes of flash, but an Uno has 32256"):
        firmware(broken(project, "float c_step(float u);", text))


@with_avr_gcc
def test_a_fault_in_the_interface_file_is_told_with_its_path_and_line(project: Path) -> None:
    wrong = broken(project, "static double c_step(float x) { return x; }\nextern long u, y;\n")
    project.write_text(
        TOML.replace("y = { type", 'y = { c = "y", type').replace(
            "u = { type", 'u = { c = "u", type'
        )
    )
    with pytest.raises(InterfaceError, match=rf"{re.escape(wrong)}:12: u is float32 here and long"):
        firmware(wrong)


@with_avr_gcc
def test_a_fault_in_a_source_is_told_with_its_line(project: Path) -> None:
    with pytest.raises(BuildError, match=r"c\.c:2:\d+: error"):
        firmware(broken(project, "float c_step(float u);", "\nfloat c_step(float u) { return v; }"))


@with_avr_gcc
def test_what_was_built_is_kept(project: Path) -> None:
    good = broken(project, "float c_step(float u);", "float c_step(float u) { return u; }")
    first = firmware(good)
    assert not first.prebuilt
    changed = first.path.stat().st_mtime_ns
    again = firmware(good)
    assert (again.path, again.path.stat().st_mtime_ns) == (first.path, changed)
    assert replace(again, path=first.path) == first


@with_avr_gcc
@pytest.mark.parametrize("way", ["a header by -include", "a response file"])
def test_a_change_of_what_the_boards_compiler_has_read_makes_another_image(
    way: str, project: Path
) -> None:
    broken(
        project,
        "float c_step(float u);",
        '#include "c.h"\nfloat c_step(float u) { return BY * u; }',
    )
    file = project.parent / ("by.h" if way.startswith("a header") else "options")
    flags = f'"-include", "{file}"' if file.suffix else f'"@{file}"'
    project.write_text(TOML.replace('"-fno-builtin"', f'"-fno-builtin", {flags}'))
    images = []
    for by in ("0.5f", "0.75f"):
        file.write_text(f"#define BY {by}\n" if file.suffix else f"-DBY={by}\n")
        images.append(firmware(project).path.read_bytes())
    assert images[0] != images[1]


def test_board_build_says_what_it_made(tmp_path: Path) -> None:
    said = CliRunner().invoke(board, ["build", F16, "--baud", "115200", "-o", str(tmp_path)])
    assert said.exit_code == 0, said.output
    made = firmware(F16, baud=115_200)
    assert f"build {made.build:08x}, ships with rtsim" in said.output
    assert f"{made.flash_bytes} bytes of flash, {made.ram_bytes} bytes of RAM;" in said.output
    assert "115200 baud is +2.1 % off at the board" in said.output
    image = tmp_path / "f16_control" / "f16_control.hex"
    assert image.read_bytes() == made.path.read_bytes()
    assert (tmp_path / "f16_control" / "f16_control.ino").is_file()


def test_board_build_in_json() -> None:
    said = CliRunner().invoke(board, ["build", F16, "--json"])
    assert said.exit_code == 0, said.output
    assert '"prebuilt": true' in said.output
    assert f'"build": "{firmware(F16).build:08x}"' in said.output


@with_avr_gcc
def test_the_flags_are_arduinos() -> None:
    """But for warnings and dependencies; a firmware of theirs and of ours takes the same cycles."""
    assert UNO.compiler.core is not None
    core = UNO.compiler.core
    text = (Path(os.environ.get(core.variable) or core.folder) / "platform.txt").read_text()
    for key in ("compiler.c.flags", "compiler.cpp.flags", "compiler.c.elf.flags"):
        (line,) = re.findall(rf"^{re.escape(key)}=(.*)$", text, re.M)
        wanted = {f for f in line.split() if f[0] == "-" and f not in ("-c", "-MMD")}
        made = sketch_of(load_interface(F16), 500_000).files["Makefile"]
        assert all(flag in made for flag in wanted), wanted


@pytest.mark.parametrize("image", manifest(), ids=lambda i: i.file)
def test_an_image_is_that_of_its_sources(image: Shipped) -> None:
    sketch = sketch_of(load_interface(image.interface), image.baud, board_named(image.board))
    stale = "run python -m hitl.firmware.shipping"
    assert (image.key, image.build) == (sketch.key, sketch.build), stale


def test_the_manifest_lists_all_that_is_there() -> None:
    assert {image.path for image in manifest()} == set(FOLDER.glob("*.hex"))
    listed = [(image.interface, image.baud, image.board) for image in manifest()]
    assert listed == list(SHIPPED)


def _rebuilt(image: Shipped) -> object:
    """The image; one that takes the system's compiler needs a mark."""
    marks = () if board_named(image.board).compiler.package else with_avr_gcc
    return pytest.param(image, id=image.file, marks=marks)


@pytest.mark.sample(1)
@pytest.mark.parametrize("image", [_rebuilt(image) for image in manifest()])
def test_a_build_of_today_does_the_same(image: Shipped) -> None:
    """The same replies, to the byte; the same image, where the compiler is the same."""
    made = firmware(image.interface, baud=image.baud, build=True, board=board_named(image.board))
    assert not made.prebuilt
    if made.compiler == image.compiler:
        assert made.path.read_bytes() == image.path.read_bytes()
        return
    inputs = random_inputs(made.interface.inputs, 30)
    heard = []
    for path in (image.path, made.path):
        with started(made, path=path) as talk:
            steps = [talk.stepped(k, u) for k, u in enumerate(inputs)]
            heard.append([step.outputs.tobytes() for step in steps])
    assert heard[0] == heard[1]
