"""What an interface file says, and every way in which it can say nonsense: file, line, remedy."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl.interface import Interface, InterfaceError, StepEntry, load_interface
from hitl.interface.fields import Field, limits
from hitl.interface.targets import check_target
from rtsim.core.errors import UnknownName
from rtsim.core.signals import Signal
from rtsim.core.toml import Lines, Place

GOOD = """\
name = "pid"
period = "1/100"
sources = ["pid.c"]

[code]
objects = [
  "struct pid pid",   # of the worker
  "struct in in",
]
initialize = "pid_initialize(&pid);"
step = ["fast()", { call = "slow()", every = 5, offset = 2 }]

[inputs]
setpoint = { c = "in.setpoint", unit = "m", initial = 1.5 }
raw = { c = "in.raw", type = "int16", scale = "1/256", bias = 2, overflow = "saturate" }

[outputs.command]
type = "float32"
shape = [2]

[parameters]
gain = { c = "pid.gain", low = 0.5, high = 3.0, initial = 2.0 }

[variants.single]
real = "float32"
flags = ["-DREAL=float"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pid.c").write_text("")
    (tmp_path / "pid.h").write_text("")
    return tmp_path


def load(folder: Path, text: str = GOOD, variant: str = "") -> Interface:
    (folder / "pid.toml").write_text(text, encoding="utf-8")
    return load_interface(f"{folder / 'pid.toml'}{variant}")


def complaint(folder: Path, text: str, variant: str = "") -> str:
    """What is said after the file's name."""
    with pytest.raises(InterfaceError) as raised:
        load(folder, text, variant)
    said, file = str(raised.value), str(folder / "pid.toml")
    assert said.startswith(f"{file}:")
    return said.removeprefix(f"{file}:")


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


def test_all_that_it_says(folder: Path) -> None:
    got = load(folder)
    assert (got.name, int(got.period.ns), got.variant) == ("pid", 10_000_000, "")
    assert got.sources == ((folder / "pid.c").resolve(),)
    assert got.objects == ("struct pid pid", "struct in in")
    assert got.initialize == ("pid_initialize(&pid)",)
    assert got.steps == (StepEntry("fast()", 1, 0, 11), StepEntry("slow()", 5, 2, 11))
    assert got.inputs.columns == ("setpoint", "raw")
    assert got.outputs.columns == ("command_0", "command_1")
    assert [f.line for f in got.fields] == [14, 15, 17, 22]
    assert [f.declared for f in got.fields] == [False, False, True, False]
    raw = got.input_fields[1]
    assert (raw.scale, raw.bias, raw.overflow) == (1 / 256, 2.0, "saturate")
    assert got.parameters["gain"] == Signal("gain", low=0.5, high=3.0, initial=2.0)


def test_a_variant_changes_types_and_flags(folder: Path) -> None:
    single = load(folder, variant=":single")
    assert single.inputs["setpoint"].type == "float32"
    assert single.flags == ("-DREAL=float",)
    assert single.schema != load(folder).schema


def test_tolerances_by_pattern_and_by_variant(folder: Path) -> None:
    rules = '[tolerance]\nforce = 1e-6\n"plant.*" = [1e-3, 1e-2]\n'
    text = GOOD + rules + "[variants.loose.tolerance]\nforce = 1\n"
    assert load(folder, text).tolerances == {"force": (1e-6, 0.0), "plant.*": (1e-3, 1e-2)}
    assert load(folder, text, ":loose").tolerances == {"force": (1.0, 0.0)}
    for wrong in ("-1", "[1]", "true", "inf", '"1"', "[1, -2]", "nan"):
        lines = (GOOD + f"[tolerance]\nforce = {wrong}\n").count("\n")
        said = complaint(folder, GOOD + f"[tolerance]\nforce = {wrong}\n")
        assert said.startswith(f"{lines}: tolerance: force = ")
        assert "write ABSOLUTE or [ABSOLUTE, RELATIVE]" in said


def test_the_schema_is_that_of_the_signals(folder: Path) -> None:
    same = load(folder, changed("fast()", "faster()"))
    assert same.schema == load(folder).schema
    for old, new in (('"m"', '"ft"'), ("shape = [2]", "shape = [3]"), ('"pid"', '"other"')):
        assert load(folder, changed(old, new)).schema != same.schema


def test_line_ends_of_windows(folder: Path) -> None:
    (folder / "pid.toml").write_bytes(GOOD.replace("\n", "\r\n").encode())
    assert [f.line for f in load_interface(folder / "pid.toml").fields] == [14, 15, 17, 22]


WRONG = [
    ('name = "pid"', 'nam = "pid"', 1, "unknown key 'nam'; did you mean name"),
    ('name = "pid"', 'name = "p-id"', 1, "not an identifier"),
    ('name = "pid"', "name = 3", 1, "name = 3 is not valid; write a text"),
    ('name = "pid"', f'name = "{"a" * 64}"', 1, "at most 63"),
    ('period = "1/100"', "", 1, 'write seconds, such as "1/50"'),
    ('period = "1/100"', "period = 0", 2, "must be > 0"),
    ('period = "1/100"', "period = inf", 2, "period = inf is not valid"),
    ('period = "1/100"', "period = true", 2, "period = True is not valid; write seconds"),
    ('period = "1/100"', 'period = "1/0"', 2, "write seconds"),
    ('period = "1/100"', 'period = "1e999999999"', 2, "is not a number"),
    ('sources = ["pid.c"]', "", 1, 'sources is missing; write sources = ["pid.c"]'),
    ('sources = ["pid.c"]', 'sources = [\n"pid.c",\n"no.c"]', 5, "no.c; paths are relative to"),
    ('sources = ["pid.c"]', 'sources = ["pid.c", "pid.c"]', 3, "named twice"),
    ('sources = ["pid.c"]', 'sources = ["pid.h"]', 3, "name it under headers"),
    ('sources = ["pid.c"]', "sources = [3]", 3, "sources: element 1, 3 is not valid; write a text"),
    (
        'sources = ["pid.c"]',
        'sources = [""]',
        3,
        "sources: element 1, '' is not valid; write a text",
    ),
    ('sources = ["pid.c"]', 'sources = []\ninclude = ["no"]', 4, "no folder"),
    ('sources = ["pid.c"]', 'sources = []\nheaders = ["a\\"b"]', 4, "write 'pid.h'"),
    (
        'sources = ["pid.c"]',
        'sources = []\nreal = "int8"',
        4,
        "unknown type of real numbers 'int8'; known: float64, float32",
    ),
    ("[code]", "[cod]", 5, "unknown key 'cod'; did you mean code"),
    ("[code]", "[code]\nstop = 1", 6, "code: unknown key 'stop'; did you mean step"),
    ("[code]", '[code]\nparameters = "never"', 6, "known: after initialize, before initialize"),
    ('  "struct in in",', '  "struct in in; // hm",', 8, "a comment of C"),
    ('  "struct in in",', '  "struct in in /* hm",', 8, "a comment of C"),
    ('"pid_initialize(&pid);"', '"pid_initialize(&pid"', 10, "'(' is never closed"),
    ('"pid_initialize(&pid);"', '"}"', 10, "'}' closes no bracket"),
    ('"pid_initialize(&pid);"', '"(a]"', 10, "']' closes no bracket"),
    ('"pid_initialize(&pid);"', '"#define x"', 10, "move the directive to a header"),
    ('"pid_initialize(&pid);"', '";"', 10, "it is empty"),
    ('["fast()", ', '["return 3", ', 11, "'return' would leave"),
    ('["fast()", ', "[7, ", 11, "7 is not valid (no table); write a text or { call"),
    ("every = 5", "every = 0", 11, "every = 0 is not valid; write a whole number >= 1"),
    ("every = 5", "evry = 5", 11, "code.step 2: unknown key 'evry'; did you mean every"),
    ("offset = 2", "offset = -1", 11, "offset = -1 is not valid; write a whole number >= 0"),
    (
        'step = ["fast()", { call = "slow()", every = 5, offset = 2 }]',
        "",
        5,
        "step is missing; write step",
    ),
    ("setpoint = {", '"set point" = {', 14, "not an identifier"),
    ('unit = "m"', 'unt = "m"', 14, "inputs.setpoint: unknown key 'unt'; did you mean unit"),
    ('unit = "m"', "unit = 3", 14, "unit = 3 is not valid; write a text in quotes"),
    ('unit = "m"', 'kind = "angel"', 14, "unknown kind 'angel'; did you mean angle"),
    ('unit = "m"', 'type = "int24"', 14, "unknown type 'int24'"),
    ('unit = "m"', "type = 32", 14, "type = 32 is not valid; write a text in quotes"),
    ('unit = "m"', 'type = "long"', 14, "unknown type 'long'"),
    ('unit = "m"', 'shape = "3"', 14, "shape = '3' is not valid; write a whole number >= 1"),
    ('unit = "m"', "shape = [0]", 14, "shape: element 1, 0 is not valid"),
    ('unit = "m"', "shape = [256, 257]", 13, "[inputs] has 65793 elements; at most 65536"),
    ('unit = "m"', "scale = 2.0", 14, "scale and bias apply only to integers, not to float64"),
    (
        'unit = "m"',
        'overflow = "saturate"',
        14,
        "only to integer inputs and parameters, not to a float64",
    ),
    ('unit = "m"', "low = 2.0", 14, "initial = 1.5 is outside the signal's range [2, inf]"),
    ('unit = "m"', "high = 1.0", 14, "initial = 1.5 is outside the signal's range [-inf, 1]"),
    ('unit = "m"', "low = nan", 14, "allow no value; give low <= high"),
    ('unit = "m"', "high = nan", 14, "allow no value; give low <= high"),
    ('unit = "m"', "low = 1.0, high = 0.0", 14, "low = 1 and high = 0 allow no value"),
    (
        'unit = "m"',
        'low = "lots"',
        14,
        "low = 'lots' is not valid (the text is not a number); write a number",
    ),
    ('unit = "m"', 'low = "9**9999999"', 14, "is not a number"),
    ("initial = 1.5", 'initial = "a"', 14, "initial = 'a' is not valid (the text is not a number)"),
    ("initial = 1.5", "initial = [1.0, 2.0]", 14, "has 1 elements, but its initial value has 2"),
    ("initial = 1.5", "initial = {}", 14, "initial = {} is not valid; write a number"),
    ("initial = 1.5", 'type = "bool", initial = nan', 14, "initial = nan does not fit bool"),
    ("initial = 1.5", 'type = "uint8", initial = -1', 14, "initial = -1.0 does not fit uint8"),
    ("initial = 1.5", 'type = "uint8", initial = 255.5', 14, "does not fit uint8"),
    ("initial = 1.5", 'type = "float32", initial = 1e39', 14, "does not fit float32"),
    ("initial = 1.5", "initial = 9007199254740993", 14, "cannot be represented exactly as float64"),
    (
        "initial = 1.5",
        "shape = [2, 3], initial = [[1, 2], [3, 4], [5, 6]]",
        14,
        "the lists in initial are not nested as in shape",
    ),
    (
        "initial = 1.5",
        "shape = [2, 2], initial = [[1, 2], [3]]",
        14,
        "the lists in initial are not nested as in shape",
    ),
    ('c = "in.setpoint"', 'c = "in.setpoint;"', 14, "it contains a ';', which ends a statement"),
    ('c = "in.setpoint"', 'c = "a[1"', 14, "'[' is never closed; write one object"),
    ('c = "in.setpoint"', "c = 1", 14, "c = 1 is not valid; write a C lvalue"),
    (
        'c = "in.setpoint"',
        'c = "in.raw"',
        15,
        "raw and setpoint are both written to in.raw; give each",
    ),
    (
        "setpoint = {",
        "raw_1 = { shape = 1 }\nsetpoint = 3 #",
        15,
        "setpoint = 3 is not valid (no table); write a table, such as { type",
    ),
    ('scale = "1/256"', "scale = 0", 15, "scale = 0 is not valid; write a finite number other"),
    ('scale = "1/256"', "scale = inf", 15, "scale = inf is not valid"),
    ('scale = "1/256"', "bias = nan", 15, ""),
    ('"saturate"', '"wrap"', 15, "unknown overflow 'wrap'; known: error, saturate"),
    (
        "shape = [2]",
        "shape = [2]\ninital = 3",
        20,
        "outputs.command: unknown key 'inital'; did you mean initial",
    ),
    ("shape = [2]", 'overflow = "saturate"', 17, "not to an output"),
    (
        "[outputs.command]",
        "[outputs]\nsetpoint = {}\n[parameters.setpoint]",
        19,
        "is also declared in",
    ),
    ("[outputs.command]", "[outputs]\n[parameters.x]", 17, "[outputs] is missing"),
    (
        "[outputs.command]",
        "[outputs.double]",
        17,
        "double is a keyword of C; choose another signal name",
    ),
    ("[outputs.command]", "[outputs.bool]", 17, "bool is a keyword of C"),
    ("[outputs.command]", "[outputs.rtsim_tick]", 17, "reserved for the generated C"),
    ("[outputs.command]", "[outputs]\na_1 = {}\n[outputs.a]", 19, "a_1 is also an element of a_1"),
    ("initial = 2.0", "initial = 0.4", 22, "initial = 0.4 is outside the signal's range [0.5, 3]"),
    ("initial = 2.0", "initial = 3.5", 22, "initial = 3.5 is outside the signal's range [0.5, 3]"),
    (
        "initial = 2.0",
        "shape = [2], initial = [2, 4]",
        22,
        "initial = 4.0 is outside the signal's range",
    ),
    (
        ", initial = 2.0",
        "",
        22,
        "initial = 0.0 is outside the signal's range [0.5, 3]; give initial",
    ),
    (", initial = 2.0", ', type = "int8", bias = 300', 22, "with scale 1 and bias 300; give"),
    (
        "initial = 2.0",
        "set_by_caller = 1",
        22,
        "set_by_caller = 1 is not valid; write true or false",
    ),
    (
        "[parameters]",
        "[inputs.z]\nset_by_caller = true\n[parameters]",
        21,
        "set_by_caller applies only to parameters; remove it",
    ),
    (
        'period = "1/100"',
        'period = "1/100"\nany_period = 1',
        3,
        "any_period = 1 is not valid; write true or",
    ),
    (
        "[parameters]",
        "[variants.single.x]\n[parameters]",
        21,
        "variants.single: unknown key 'x'; known: flags",
    ),
    ("[variants.single]", "[variants.single]\nname = 3", 25, "known: flags, real, sources"),
    (
        "[variants.single]\n",
        "[variants]\nsingle = 3\n[variants.x]\n",
        25,
        "single = 3 is not valid (no table); write a table [variants.NAME]",
    ),
]


@pytest.mark.parametrize(("old", "new", "line", "text"), WRONG)
def test_nonsense_is_refused_with_its_line_and_what_to_do(
    folder: Path, old: str, new: str, line: int, text: str
) -> None:
    said = complaint(folder, changed(old, new))
    assert said.startswith(f"{line}: "), said
    assert text in said


def test_a_file_that_is_no_toml_names_the_line(folder: Path) -> None:
    assert complaint(folder, changed("[code]", "[code")).startswith(
        "5: the file is not valid TOML: "
    )


def test_a_name_declared_by_inputs_and_outputs(folder: Path) -> None:
    text = GOOD.replace('setpoint = { c = "in.setpoint",', "command = {")
    said = complaint(folder, text)
    assert said.startswith(
        "17: outputs: command is also declared in [inputs]; rename one of them, or"
    )


def test_a_variant_that_is_wrong_names_its_own_line(folder: Path) -> None:
    text = changed('flags = ["-DREAL=float"]', 'sources = ["pid.c", "none.c"]')
    load(folder, text)
    assert complaint(folder, text, ":single").startswith("26: there is no file ")
    assert "unknown variant 'double'; known: single" in complaint(folder, GOOD, ":double")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    for name, content, text in (
        ("none.toml", None, "No such file or directory; give the path"),
        ("bytes.toml", b"name = '\xff'", "not UTF-8 text at byte 8"),
        ("big.toml", b"#" * 2_000_000, "more than 1048576 bytes"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(InterfaceError, match=text):
            load_interface(tmp_path / name)


@pytest.mark.parametrize("value", ["0.5", "3.0", "3"])
def test_an_initial_value_may_be_at_either_end_of_its_range(folder: Path, value: str) -> None:
    gain = load(folder, changed("initial = 2.0", f"initial = {value}")).parameters["gain"]
    assert gain.initial == float(value)


def test_an_avr_has_no_float64(folder: Path) -> None:
    check_target(load(folder), "host")
    with pytest.raises(InterfaceError, match=r"pid\.toml:14: setpoint is float64, which avr"):
        check_target(load(folder), "avr")
    check_target(load(folder, variant=":single"), "avr")
    with pytest.raises(UnknownName, match="unknown target 'arv'"):
        check_target(load(folder), "arv")


# -- lines

TRICKY = '''\
"a" = 1  # [no.table]
text = """
[not.a.table]
b = 3
"""
list = [
  [1, 2],
  # c = 4
  [3, "]"], "x", { d = 1 },
]
odd . dotted = 1
[ one . "two" ]
key = 1
[[one.rows]]
key = 2
[[one.rows]]
'''


def test_lines_of_a_tricky_file() -> None:
    lines = Lines(Path("t.toml"), TRICKY)
    places = {
        ("", "a"): 1, ("", "text"): 2, ("", "list"): 6, ("odd", "dotted"): 11, ("", "one"): 12,
        ("one", "two"): 12, ("one.two", "key"): 13, ("one.rows[0]", "key"): 15,
        ("one.rows[1]", "key"): 16, ("not.a", "table"): 1, ("", "b"): 1, ("one.two", "none"): 12,
    }  # fmt: skip
    assert {place: lines.of(*place) for place in places} == places
    assert [lines.of("", "list", k) for k in range(5)] == [7, 9, 9, 9, 6]
    assert [lines.of("one", "rows", k) for k in range(2)] == [14, 16]
    place = Place("t.toml", lines, error_class=InterfaceError)
    assert str(place.error("list", "no", 1)) == "t.toml:9: no"
    assert (
        str(place.inner("one").inner("rows", 0).error("key", "no")) == "t.toml:15: one.rows 1: no"
    )
    assert (lines.text(13), lines.text(0), lines.text(99)) == ("key = 1", "", "")


# -- what a type holds


@given(st.sampled_from(["int8", "uint16", "int32", "uint64"]), st.integers(-(2**70), 2**70))
def test_an_integer_holds_what_lies_within_its_limits(type: str, value: int) -> None:
    place = Field(Signal("x", type=type), "x", True, 1)
    low, high = limits(type)
    near = float(value)
    assert place.holds(near) == (low <= Fraction(near) <= high)


def test_limits() -> None:
    assert limits("int8") == (-128, 127)
    assert limits("uint64") == (0, 2**64 - 1)
