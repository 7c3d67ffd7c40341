"""The generated C: what the compiler refuses in it, in whose words, and that values pass whole."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from c_parts import with_gcc
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from hitl.building import build as building
from hitl.building.build import build
from hitl.building.toolchain import BuildError, Toolchain, find_toolchain
from hitl.building.unit import check, unit_text
from hitl.controllers.in_process import InProcess
from hitl.interface import Interface, InterfaceError, load_interface
from rtsim.core.tag import Tag

HEADER = """\
typedef short int32_T;
typedef unsigned char boolean_T;
typedef enum { RED, GREEN } colour;
struct pid {
    int32_T count;
    long offset;
    unsigned int steps;
    float single, triple[3], matrix[3][2];
    double gain;
    const float fixed;
    volatile float shared;
    unsigned flag : 1;
    int whole;
    char letter;
    _Bool yes;
    colour light;
    float *pointer;
    struct { float x; } inner;
};
extern struct pid pid;
double pid_step(double x);
double pid_missing(double x);
"""
SOURCE = '#include "pid.h"\nstruct pid pid;\ndouble pid_step(double x) { return 2.0 * x; }\n'
TEXT = """\
name = "pid"
period = 0.01
sources = ["pid.c"]
headers = ["pid.h"]
[code]
step = "y = pid_step(x)"
[inputs]
x = {}
ROW
[outputs]
y = {}
"""


def made(folder: Path, row: str = "", *changes: tuple[str, str], header: str = HEADER) -> Interface:
    (folder / "pid.h").write_text(header)
    (folder / "pid.c").write_text(SOURCE)
    text = TEXT.replace("ROW", row)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "pid.toml").write_text(text, encoding="utf-8")
    return load_interface(folder / "pid.toml")


def refused(interface: Interface) -> str:
    """By generating alone; what is said after the file's name, in its first line."""
    with pytest.raises(InterfaceError) as raised:
        check(interface)
    said = str(raised.value)
    assert said.startswith(f"{interface.path}:"), said
    assert len(said.splitlines()) <= 7
    return said.removeprefix(f"{interface.path}:").splitlines()[0]


ELSEWHERE = find_toolchain().family != "gcc"
"""Another compiler finds the same, in other words."""
GOOD_ROWS = [
    'a = { c = "pid.single", type = "float32" }',
    'a = { c = "pid.triple", type = "float32", shape = 3 }',
    'a = { c = "pid.triple[1]", type = "float32" }',
    'a = { c = "pid.matrix", type = "float32", shape = [3, 2] }',
    'a = { c = "pid.matrix[2]", type = "float32", shape = 2 }',
    'a = { c = "*(&pid.single)", type = "float32" }',
    'a = { c = "pid.shared", type = "float32" }',
    'a = { c = "pid.offset", type = "int64" }',
    'a = { c = "pid.count", type = "int16" }',
    'a = { c = "pid.letter", type = "int8" }',
    'a = { c = "pid.letter", type = "bool" }',
    'a = { c = "pid.yes", type = "bool" }',
    'a = { c = "pid.light", type = "uint32" }',
    'a = { c = "*pid.pointer", type = "float32" }',
]
BAD_ROWS = [
    ('c = "pid.count", type = "int32"', "a is int32 here and short in C: make them the same"),
    ('c = "pid.offset", type = "int32"', "a is int32 here and long in C"),
    ('c = "pid.steps", type = "int32"', "a is int32 here and unsigned int in C"),
    ('c = "pid.whole", type = "uint32"', "a is uint32 here and int in C"),
    ('c = "pid.whole", type = "float32"', "a is float32 here and int in C"),
    ('c = "pid.single"', "a is float64 here and float in C"),
    ('c = "pid.gain", type = "float32"', "a is float32 here and double in C"),
    ('c = "pid.whole", type = "bool"', "a is bool here and int in C"),
    ('c = "pid.yes", type = "uint8"', "a is uint8 here and _Bool in C"),
    ('c = "pid.letter", type = "uint8"', "a is uint8 here and char in C"),
    ('c = "pid.triple", type = "float32", shape = 4', "a has shape = [4] here and another shape"),
    ('c = "pid.triple", type = "float32"', "a is an array or a pointer in C: give its shape"),
    ('c = "pid.matrix", type = "float32", shape = [2, 3]', "a has shape = [2, 3] here and another"),
    ('c = "pid.matrix", type = "float32", shape = 6', "a has shape = [6] here and another shape"),
    ('c = "pid.pointer", type = "float32", shape = 2', "a has shape = [2] here and another shape"),
    ('c = "pid.pointer", type = "float32"', "a is an array or a pointer in C: give its shape"),
    ('c = "pid.single", type = "float32", shape = 1', "subscripted value"),
    ('c = "pid.inner", type = "float32"', "a is no number in C: name one of its members"),
    ('c = "pid.fixed", type = "float32"', "a is const in C: nothing can be written to it"),
    ('c = "pid.flag", type = "uint32"', "cannot take address of bit-field"),
    ('c = "pid.nothing"', "has no member named 'nothing'"),
    ('c = "pid_step(1.0)"', "lvalue required"),
    ('c = "2.0"', "lvalue required"),
]


@pytest.mark.parametrize("row", GOOD_ROWS)
def test_what_matches_is_taken(tmp_path: Path, row: str) -> None:
    check(made(tmp_path, row))


@pytest.mark.parametrize(("row", "text"), BAD_ROWS)
def test_what_does_not_match_its_c_is_refused_with_the_line(
    tmp_path: Path, row: str, text: str
) -> None:
    said = refused(made(tmp_path, f"a = {{ {row} }}"))
    assert said.startswith("9: ")
    assert text in said or (ELSEWHERE and not text.startswith("a "))


def test_a_const_output_is_only_read(tmp_path: Path) -> None:
    output = ("y = {}", 'y = {}\nz = { c = "pid.fixed", type = "float32" }')
    check(made(tmp_path, "", output))
    bad = ("y = {}", 'y = {}\nz = { c = "pid.fixed" }')
    assert refused(made(tmp_path, "", bad)).startswith("12: z is float64 here and float in C")


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('["pid.h"]', '[\n"pid.h",\n"no.h"]', "6: no.h: No such file or directory; name its"),
        ("y = pid_step(x)", "y = pid_stop(x)", "6: implicit declaration of function 'pid_stop'"),
        ("y = pid_step(x)", "pid_step", "6: statement with no effect; a call needs parentheses"),
        ("y = pid_step(x)", "y == pid_step(x)", "6: value computed is not used"),
        ("y = pid_step(x)", "y = pid_step(x) oops", "6: expected ';' before"),
        pytest.param(  # clang lets it pass
            "y = pid_step(x)", "if (x)", "6: suggest braces around empty body", marks=with_gcc
        ),
        ("y = pid_step(x)", "y = pid_step(&x)", "6: incompatible type for argument 1"),
        ("y = pid_step(x)", "y = rtsim_no + x", "6: 'rtsim_no' undeclared"),
        ("[code]", '[code]\nobjects = [\n"int a",\n"pidd x"]', "8: unknown type name 'pidd'"),
        ("[code]", '[code]\nobjects = ["float x"]', "9: conflicting types for 'x'"),
        ("[code]", '[code]\nterminate = ["pid_step(1)", "no()"]', "6: implicit declaration"),
        ('["pid.h"]', "[]", "6: implicit declaration of function 'pid_step'; name its header"),
    ],
)
def test_statements_that_are_none(tmp_path: Path, old: str, new: str, text: str) -> None:
    said = refused(made(tmp_path, "", (old, new)))
    line, _, words = text.partition(": ")
    assert said.startswith(f"{line}: "), said
    assert words in said or ELSEWHERE


def test_the_line_itself_is_shown_and_the_compiler_stays_in_the_cause(tmp_path: Path) -> None:
    row = 'a = { c = "pid.count", type = "int32" }'
    interface = made(tmp_path, row)
    for attempt in (check, build):
        with pytest.raises(InterfaceError) as raised:
            attempt(interface)
        assert str(raised.value).splitlines()[1:] == [f"    {row}"]
        assert isinstance(raised.value.__cause__, BuildError)
        assert "static assertion failed" in str(raised.value.__cause__)


def test_many_complaints_are_few_lines(tmp_path: Path) -> None:
    rows = "\n".join(f'a{k} = {{ c = "pid.no{k}" }}' for k in range(40))
    with pytest.raises(InterfaceError) as raised:
        check(made(tmp_path, rows))
    said = str(raised.value).splitlines()
    assert len(said) == 7 or (ELSEWHERE and len(said) == 2)
    assert said[0].startswith(f"{tmp_path / 'pid.toml'}:9: ")
    assert said[-1].startswith("and ") or ELSEWHERE


def test_a_function_that_no_source_defines(tmp_path: Path) -> None:
    interface = made(tmp_path, "", ("pid_step(x)", "pid_missing(x)"))
    check(interface)  # it is declared
    with pytest.raises(InterfaceError) as raised:
        build(interface)
    said = str(raised.value)
    assert said.startswith(f"{interface.path}:6: no source defines pid_missing; add its file to")


def test_a_fault_in_a_source_stays_the_compilers(tmp_path: Path) -> None:
    interface = made(tmp_path)
    (tmp_path / "pid.c").write_text("int pid_step(void) { return nonsense; }")
    with pytest.raises(BuildError, match=r"pid\.c:1:\d+: error: .*'nonsense'"):
        build(interface)


# -- names and places


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["u", "y", "p", "v", "k", "to", "from", "index", "y0", "gamma"])
def test_signals_may_have_the_names_of_others_variables(tmp_path: Path, name: str) -> None:
    """Of the generated functions, and of what the C library declares."""
    (tmp_path / "f.toml").write_text(
        'name = "f"\nperiod = 1\nsources = []\n[code]\nstep = "out = 2 * NAME + g"\n'
        "[inputs]\nNAME = {}\n[outputs]\nout = {}\n[parameters]\ng = {initial = 3}\n".replace(
            "NAME", name
        )
    )
    with closing(InProcess(tmp_path / "f.toml").fresh()) as controller:
        controller.send(Tag(0), np.array([4.0]))
        np.testing.assert_array_equal(controller.receive(Tag(0), 0.0), [11.0])


FOLDERS = ["a folder", "Größe µ 制御", "it's", "$HOME #1%"]
UNREAD = ['quote"d', "back\\slash", "new\nline"]
"""zig reads no dependencies of such a path."""


@pytest.mark.parametrize("name", [*FOLDERS, *(pytest.param(n, marks=with_gcc) for n in UNREAD)])
def test_folders_with_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    (folder / "inc lude").mkdir(parents=True)
    interface = made(folder, "", ("[code]", 'include = ["inc lude"]\n[code]'))
    shutil.move(folder / "pid.h", folder / "inc lude" / "pid.h")
    with closing(InProcess(build(interface)).fresh()) as controller:
        controller.send(Tag(0), np.array([4.0]))
        np.testing.assert_array_equal(controller.receive(Tag(0), 0.0), [8.0])
    with pytest.raises(InterfaceError) as raised:
        check(made(folder, 'a = { c = "pid.single" }'))
    assert str(raised.value).startswith(f"{folder / 'pid.toml'}:9: a is float64 here and float")


def test_paths_of_windows_are_quoted() -> None:
    text = Path(__file__).parent  # any folder; only the text matters
    interface = load_interface(
        Path(building.__file__).parents[1] / "examples" / "scalars" / "mixer.toml"
    )
    object.__setattr__(interface, "path", text / 'C:\\new "x".toml')
    assert '\\\\new \\"x\\".toml"\n' in unit_text(interface)


def test_float_flags_of_the_controller_leave_the_checks_alone(tmp_path: Path) -> None:
    interface = made(
        tmp_path,
        'n = { type = "int32" }',
        ("[code]", 'flags = ["-Ofast", "-ffinite-math-only"]\n[code]'),
    )
    made_by = build(interface)
    code = (
        "import ctypes,sys;l=ctypes.CDLL(sys.argv[1]);"
        "print(l.rtsim_step((ctypes.c_double*2)(1.0,float('nan')),(ctypes.c_double*1)()))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, made_by.library], capture_output=True, text=True, check=True
    )
    assert said.stdout == "2\n"


# -- anything goes in and comes out

TYPES = ["float64", "float32", "bool"] + [f"{s}int{n}" for s in ("", "u") for n in (8, 16, 32, 64)]
rows = st.tuples(
    st.sampled_from(TYPES),
    st.lists(st.integers(1, 4), max_size=3),
    st.integers(-8, 8),
    st.integers(-3, 3),
    st.booleans(),
)


def identity(folder: Path, signals: list[Any]) -> Interface:
    """One whose outputs are its inputs, through memcpy of whole objects."""
    inputs, outputs, step = [], [], []
    for k, (type, shape, power, bias, saturates) in enumerate(signals):
        row = f'type = "{type}", shape = {shape}'
        more = ""
        if "int" in type:
            row += f', scale = "2**{power}", bias = {bias}' if power or bias else ""
            more = ', overflow = "saturate"' if saturates else ""
        inputs.append(f"i{k} = {{ {row}{more} }}")
        outputs.append(f"o{k} = {{ {row} }}")
        step.append(f'"memcpy(&o{k}, &i{k}, sizeof o{k})"')
    text = ['name = "identity"', "period = 1", "sources = []", 'headers = ["<string.h>"]']
    text += ["[code]", f"step = [{', '.join(step)}]", "[inputs]", *inputs, "[outputs]", *outputs]
    (folder / "identity.toml").write_text("\n".join(text))
    return load_interface(folder / "identity.toml")


def expected(signal: Any, value: float) -> float:
    """By the definitions of the types, in numpy and Python's integers."""
    type, _, power, bias, _ = signal
    if type == "float64":
        return value
    if type == "float32":
        return float(np.float32(value))
    if type == "bool":
        return float(value != 0.0)
    scale = 2.0 ** int(power)
    raw, limits = round((value - bias) / scale), np.iinfo(type)
    return float(min(max(raw, limits.min), limits.max)) * scale + int(bias)


@pytest.mark.long
@given(st.lists(rows, min_size=1, max_size=6), st.data())
@settings(max_examples=6, phases=[Phase.generate])  # each compiles: shrinking takes minutes
def test_an_identity_gives_back_what_went_in(signals: list[Any], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        interface = identity(Path(folder), signals)
        assume(interface.inputs.size <= 200)
        sizes = [place.signal.size for place in interface.input_fields]
        owners = [s for s, size in zip(signals, sizes, strict=True) for _ in range(size)]
        with closing(InProcess(build(interface)).fresh()) as controller:
            for step in range(20):
                drawn = [(s, data.draw(value_of(s))) for s in owners]
                wanted = [expected(signal, value) for signal, value in drawn]
                controller.send(Tag(step), np.array([value for _, value in drawn]))
                got = controller.receive(Tag(step), 0.0)
                assert got is not None
                np.testing.assert_array_equal(got, wanted)
                for (type, *_), given_back, wished in zip(owners, got, wanted, strict=True):
                    if "float" in type and not math.isnan(wished):
                        assert math.copysign(1, given_back) == math.copysign(1, wished)


def value_of(signal: Any) -> st.SearchStrategy[float]:
    """What its type holds, or, where it saturates, any number."""
    type, _, power, bias, saturates = signal
    if type == "float64":
        return st.floats()
    if type == "float32":
        return st.floats(width=32) | st.floats(-1e38, 1e38)
    if type == "bool":
        return st.floats(allow_nan=False)
    if saturates and "64" not in type:
        return st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30)
    low, high = (float(v) for v in (np.iinfo(type).min, np.iinfo(type).max))
    scale = 2.0**power
    if "64" in type:
        low, high = max(low, -(2.0**52)), 2.0**52
    return st.floats(low * scale + bias, high * scale + bias)


def test_without_a_compiler_there_is_a_clear_word(tmp_path: Path) -> None:
    nobody = Toolchain(("/nonexistent/cc",), "none 1.0")
    with pytest.raises(BuildError, match="cannot run /nonexistent/cc"):
        check(made(tmp_path), nobody)
    check(made(tmp_path), find_toolchain())
