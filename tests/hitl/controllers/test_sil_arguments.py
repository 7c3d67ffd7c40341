"""Plain variables in calls, which C converts in silence, and code of another width: refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from c_parts import with_gcc

from hitl.boards.avr import UNO
from hitl.building.build import build
from hitl.building.checks import check_arguments
from hitl.building.toolchain import Toolchain, find_toolchain, named
from hitl.building.unit import SUPPORT, check
from hitl.interface import Interface, InterfaceError, load_interface

HEADER = """\
#include <stdbool.h>
#include <stdint.h>
typedef float real;
typedef enum { RED, GREEN } colour;
struct laws { float (*step)(float x); };
extern const struct laws laws;
real step(real x);
double wide(double x);
float two(struct laws *self, float x, int32_t n);
int whole(int x);
long longer(long x);
unsigned char byte(unsigned char x);
char letter(char x);
bool yes(bool x);
int mode(colour x);
void into(float x, float *y);
#define MORE(a, b) ((a) > (b) ? (a) : (b))
#define STEP(x) step(x)
"""
SOURCE = '#include "c.h"\n'
TOOLS = {
    "the compiler in use": find_toolchain(),
    "ziglang": Toolchain((sys.executable, "-m", "ziglang", "cc"), "clang of ziglang"),
}


def made(folder: Path, statement: str, x: str, y: str, key: str = "step") -> Interface:
    (folder / "c.h").write_text(HEADER)
    (folder / "c.c").write_text(SOURCE)
    steps = f"{key} = '''{statement}'''"
    if key != "step":
        steps = f"step = 'y = x'\n{steps}"
    (folder / "c.toml").write_text(
        'name = "c"\nperiod = 1\nsources = ["c.c"]\nheaders = ["c.h"]\n'
        f"[code]\n{steps}\n[inputs]\n"
        f'x = {{ type = "{x}" }}\nn = {{ type = "int32" }}\n[outputs]\ny = {{ type = "{y}" }}\n'
    )
    return load_interface(folder / "c.toml")


WRONG = [
    ("y = step(x)", "int8", "float32", "x is int8 here and float in C"),
    ("y = step(x)", "float64", "float32", "x is float64 here and float in C"),
    ("y = wide(x)", "float32", "float64", "x is float32 here and double in C"),
    ("y = two((struct laws *)0, x, n)", "int32", "float32", "x is int32 here and float in C"),
    ("y = two((struct laws *)0, 1.0f, x)", "float32", "float32", "x is float32 here and int in C"),
    ("y = whole(x)", "int64", "int32", "x is int64 here and int in C"),
    ("y = whole(n)", "int8", "int16", "y is int16 here and int in C"),
    ("y = whole(x)", "uint32", "int32", "x is uint32 here and int in C"),
    ("y = longer(x)", "uint64", "int64", "x is uint64 here and long in C"),
    ("y = byte(x)", "uint16", "uint8", "x is uint16 here and unsigned char in C"),
    ("y = byte(x)", "int8", "uint8", "x is int8 here and unsigned char in C"),
    ("y = yes(x)", "uint8", "bool", "x is uint8 here and _Bool in C"),
    ("y = mode(x)", "float32", "int32", "x is float32 here and colour in C"),
    ("into(x, &y)", "float64", "float32", "x is float64 here and float in C"),
    ("y = laws.step(x)", "float64", "float32", "x is float64 here and float in C"),
    ("y = STEP(x)", "int8", "float32", "x is int8 here and float in C"),
    ("y = 2 * step( x ) + step(1)", "int8", "float32", "x is int8 here and float in C"),
    ("y = step(step(x))", "int8", "float32", "x is int8 here and float in C"),
    ("y = step(x)", "float32", "float64", "y is float64 here and float in C"),
    ("y = step(x)", "float32", "int32", "y is int32 here and float in C"),
    ("y = laws.step(x)", "float32", "float64", "y is float64 here and float in C"),
]


@pytest.mark.parametrize(("statement", "x", "y", "text"), WRONG)
def test_a_variable_of_another_type_than_its_call_is_refused(
    tmp_path: Path, statement: str, x: str, y: str, text: str
) -> None:
    interface = made(tmp_path, statement, x, y)
    with pytest.raises(InterfaceError) as raised:
        check(interface)
    line = 8 if text.startswith("x") else 11
    assert str(raised.value).startswith(f"{interface.path}:{line}: {text}, where '{statement}' ")
    assert str(raised.value).splitlines()[1].startswith(f"    {text[0]} = ")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_build_refuses_it_too_with_any_compiler(tool: str, tmp_path: Path) -> None:
    interface = made(tmp_path, "y = step(x)", "int8", "float32")
    with pytest.raises(InterfaceError, match="x is int8 here and float in C, where 'y = step"):
        build(interface, toolchain=TOOLS[tool])


@pytest.mark.parametrize("key", ["initialize", "terminate"])
def test_in_statements_beside_the_steps(key: str, tmp_path: Path) -> None:
    interface = made(tmp_path, "into(x, 0)", "float64", "float64", key)
    with pytest.raises(InterfaceError, match="x is float64 here and float in C, where 'into"):
        check(interface)


RIGHT = [
    ("y = step(x)", "float32", "float32"),
    ("y = wide(x)", "float64", "float64"),
    ("y = two((struct laws *)0, x, n)", "float32", "float32"),
    ("y = whole(n)", "int8", "int32"),
    ("y = whole(x)", "int16", "int32"),
    ("y = whole(x)", "uint16", "int64"),
    ("y = longer(x)", "int32", "int64"),
    ("y = byte(x)", "uint8", "int16"),
    ("y = longer(x)", "int64", "int64"),
    ("y = byte(x)", "uint8", "uint8"),
    ("y = letter(x)", "int8", "int8"),
    ("y = yes(x)", "bool", "bool"),
    ("y = whole(x)", "bool", "bool"),
    ("y = mode(x)", "uint32", "int32"),
    ("into(x, &y)", "float32", "float32"),
    # what the author of the statement converts, or computes, is his own
    ("y = (double)step((float)x)", "int8", "float64"),
    ("y = step(2 * x)", "int8", "float32"),
    ("y = step(x) + 1", "float32", "float64"),
    ("y = x", "int8", "float32"),
    ("y = MORE(x, 1)", "int8", "int8"),
    ("if (x) y = 1; else y = sizeof(x)", "int8", "int8"),
    ("y = ')' + step(\")\"[0])", "int8", "float32"),
]


@pytest.mark.parametrize(("statement", "x", "y"), RIGHT)
@pytest.mark.parametrize("tool", ["the compiler in use"])
def test_what_fits_is_taken(tool: str, tmp_path: Path, statement: str, x: str, y: str) -> None:
    if "letter" in statement and sys.platform == "linux" and not _signed():
        pytest.skip("char is unsigned here")
    check(made(tmp_path, statement, x, y), TOOLS[tool])


def _signed() -> bool:
    import platform

    return platform.machine() in ("x86_64", "i686")


@pytest.mark.system("avr-gcc")
@pytest.mark.parametrize(
    ("statement", "x", "y", "text"),
    [
        ("y = wide(x)", "float32", "float32", ""),
        ("y = whole(x)", "int16", "int16", ""),
        ("y = longer(x)", "int32", "int32", ""),
        ("y = whole(x)", "int32", "int16", "x is int32 here and int in C"),
        ("y = step(x)", "int16", "float32", "x is int16 here and float in C"),
    ],
)
def test_a_boards_compiler_has_numbers_of_its_own(
    tmp_path: Path, statement: str, x: str, y: str, text: str
) -> None:
    """Its double has 4 bytes, its int has 2; it is of another age too."""
    interface = made(tmp_path, statement, x, y)
    flags = [*UNO.compiler.machine, "-std=gnu11", f"-I{SUPPORT}", f"-I{tmp_path}"]
    if not text:
        check_arguments(interface, named("avr-gcc"), flags)
        return
    with pytest.raises(InterfaceError, match=text):
        check_arguments(interface, named("avr-gcc"), flags)


def test_an_error_names_no_line_of_the_interface_file_but_its_own(tmp_path: Path) -> None:
    interface = made(tmp_path, "y = step(x)", "float32", "float32")
    text = interface.path.read_text().replace("y = {", 'y = { c = "flat", shape = [2, 2],')
    interface.path.write_text(text)
    (tmp_path / "c.h").write_text(HEADER + "static float flat[4];\n")
    interface.path.write_text(text.replace("y = step(x)", "flat[0] = step(x)"))
    with pytest.raises(InterfaceError) as told:
        build(interface.path)
    lines = [line for line in str(told.value).splitlines() if line.startswith("/")]
    assert [line.split(":")[1] for line in lines] == ["11"]
    assert "give the shape that the variable has in C" in str(told.value)


# -- the width of the code


def wide(folder: Path, flags: str) -> Interface:
    interface = made(folder, "y = step(x)", "float32", "float32")
    text = interface.path.read_text().replace("[code]", f"flags = [{flags}]\n[code]")
    interface.path.write_text(text)
    (folder / "c.c").write_text(SOURCE + "real step(real x) { return x; }\n")
    return load_interface(interface.path)


@with_gcc
@pytest.mark.parametrize("flag", ["-m32", "-mx32"])
def test_code_of_another_width_is_refused(flag: str, tmp_path: Path) -> None:
    """Its long has 32 bits, and no worker of that width has a libzmq."""
    interface = wide(tmp_path, f'"-DA=1", "{flag}"')
    for attempt in (check, build):
        with pytest.raises(InterfaceError) as raised:
            attempt(interface)
        said = str(raised.value)
        assert said.startswith(
            f"{interface.path}:5: {flag} generates code with pointers of another size than the "
        )
        assert "rtsim sil serve c.toml" in said


def test_flags_of_the_same_width_are_taken(tmp_path: Path) -> None:
    interface = wide(tmp_path, '"-m64"')
    check(interface)
    build(interface)
