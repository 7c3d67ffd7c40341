"""Controllers in C++, and Arduino code on simulated time, pins and boards."""

from __future__ import annotations

import platform
import struct
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from arduino_parts import rows_of
from c_parts import with_gcc
from click.testing import CliRunner
from emulated_board_parts import need

from hitl.building.c_code import cpp_text
from hitl.comparison.open_loop import open_loop
from hitl.controllers.board import BoardController
from hitl.controllers.in_process import InProcess
from hitl.controllers.sil import SilController
from hitl.interface import InterfaceError, load_interface
from rtsim.cli import main
from rtsim.components.controller import PythonController
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag

EXAMPLES = Path(__file__).resolve().parents[3] / "hitl" / "examples" / "arduino"
CPP = """
#include <stdexcept>
class Counter {
  public:
    explicit Counter(double *from) : from_(from), total_(new double(0.0)) {}
    ~Counter() { delete total_; }
    double step(double by) {
        if (by < 0) throw std::out_of_range("negative");
        return *total_ += by * *from_;
    }
  private:
    double *from_, *total_;
};
"""
TOML = """
name = "counter"
language = "c++"
period = "1/10"
sources = []
headers = ["counter.hpp"]
[code]
objects = ["Counter counter(&weight)"]
step = "total = counter.step(by)"
[inputs]
by = {}
weight = {}
[outputs]
total = {}
"""


def write(folder: Path, old: str = "", new: str = "") -> Path:
    assert old in TOML
    (folder / "counter.hpp").write_text(CPP)
    path = folder / "counter.toml"
    path.write_text(TOML.replace(old, new) if old else TOML)
    return path


@pytest.mark.parametrize("kind", [SilController, InProcess])
def test_objects_are_constructed_again_and_exceptions_are_named(
    kind: type[SilController] | type[InProcess], tmp_path: Path
) -> None:
    controller = kind(write(tmp_path)).fresh()
    for k, (by, total) in enumerate(((1.0, 2.0), (2.0, 6.0))):
        controller.send(Tag(k), np.array([by, 2.0]))
        assert controller.receive(Tag(k), 5.0) == total
    assert controller.restart()
    controller.send(Tag(2), np.array([1.0, 2.0]))
    assert controller.receive(Tag(2), 5.0) == 2.0  # a new object, which has counted nothing
    with pytest.raises(ControllerError, match="out_of_range: negative, which"):  # noqa: PT012
        controller.send(Tag(3), np.array([-1.0, 2.0]))
        controller.receive(Tag(3), 5.0)
    controller.close()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("by = {}", 'by = { type = "float32" }', "by is float32 here and double in C"),
        ("&weight)", "&weight), other", "does not declare one object"),
        ('"c++"', '"rust"', "unknown language 'rust'; known: c"),
        ("by = {}", 'by = { pin = "A0" }', "by has a pin; write arduino = true"),
        ("counter.step", "counter.stepp", "has no member named|no member named"),
    ],
)
def test_a_mistake_is_named_with_its_line(old: str, new: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InterfaceError, match=rf"counter\.toml:\d+: .*{said}"):
        InProcess(write(tmp_path, old, new))


def test_a_sketch_gets_prototypes_and_keeps_its_lines() -> None:
    text = 'int a = 1; // int no() {\nvoid loop() {\n  f("{");\n}\n'
    text += "int f(const char *t) { return a; }\n"
    assert cpp_text(text, "s.ino").split("\n")[:7] == [
        "#include <Arduino.h>", '#line 1 "s.ino"', "int a = 1; // int no() {",
        "void loop();", "int f(const char *t);", '#line 2 "s.ino"', "void loop() {",
    ]  # fmt: skip


@pytest.mark.long
def test_a_pin_that_no_input_declares_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "s.ino").write_text("void setup() {}\nvoid loop() { analogRead(A3); }\n")
    path = tmp_path / "s.toml"
    path.write_text(
        'name = "s"\narduino = true\nperiod = 0.1\nsources = ["s.ino"]\n'
        "[outputs]\nl = { pin = 3 }\n"
    )
    said = r"the interface file does not fit the code: analogRead\(\) of the pin A3.*pin = \"A3\""
    with pytest.raises(ControllerError, match=said):
        rows_of(InProcess(path), np.zeros((1, 0)))
    controller = SilController(path, cases=None).fresh()
    with closing(controller):
        controller.send(Tag(0), np.zeros(0))
        with pytest.raises(ControllerError, match=said):
            controller.receive(Tag(0), 5.0)


@pytest.mark.long
def test_a_comparison_names_the_interface_file_that_lacks_a_pin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not say that the code differs: the code was not compared."""
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["sil", "init", ".", "--example", "arduino"]).exit_code == 0
    path = Path("thermostat.toml")
    path.write_text(path.read_text().replace('"A0"', '"A1"'))
    words = ["sil", "test", "scenario.py:room", "-c", str(path), "--open-only"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert done.output.startswith(
        "Error: thermostat.toml:6: the interface file does not fit the code: analogRead() of the "
        "pin A0, which no input of the interface file feeds; add to [inputs]: NAME"
    ), done.output
    assert "does not do" not in done.output


@pytest.mark.long
def test_a_library_that_checks_millis_skips_steps_in_sil() -> None:
    rows = rows_of(InProcess(EXAMPLES / "regulator.toml"), np.tile([10.0, 0.0], (300, 1)))
    assert rows[-1, 1] == 70  # of 300, as on the emulated board


UNSET = """
class Sum {
  public:
    Sum() : steps_(0), on_(false) {}
    double step(double by) { steps_++; return on_ ? 0.0 : sum_ += by; }
  private:
    int steps_;
    bool on_;
    %s sum_;
};
"""


def rows(running: SilController, inputs: list[float]) -> list[float]:
    out = []
    for value in inputs:
        running.send(Tag(0), np.array([value]))
        answer = running.receive(Tag(0), 10.0)
        assert answer is not None
        out.append(float(answer[0]))
    return out


def sums(folder: Path, member: str) -> Path:
    (folder / "sum.hpp").write_text(UNSET % member)
    path = folder / "sum.toml"
    text = TOML.replace("counter.hpp", "sum.hpp").replace("weight = {}\n", "")
    path.write_text(text.replace("Counter counter(&weight)", "Sum counter"))
    return path


BUILDS = [
    ("plain", "", "float"), ("plain", "", "double"), ("plain", "", "int"), ("plain", "", "long"),
    pytest.param("sanitize", "", "float", marks=with_gcc),
    pytest.param("coverage", "", "float", marks=with_gcc),
    pytest.param("plain", "ziglang", "float", marks=pytest.mark.long),
]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize(("kind", "package", "member"), BUILDS)
def test_a_member_without_a_value_is_found_in_each_build(
    kind: str, package: str, member: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if package:
        monkeypatch.setenv("CC", f"{sys.executable} -m {package} cc")
    running = SilController(sums(tmp_path, member), kind=kind, cases=None).fresh()
    try:
        first = rows(running, [1.0])[0]
        assert abs(first) > 1e6
        assert running.restart()
        assert rows(running, [1.0])[0] != first
    finally:
        running.close()


WITHOUT = {
    "struct without a constructor": "struct Sum { int steps = 0; double sum;",
    "defaulted constructor": "struct Sum { int steps = 0; double sum; Sum() = default;",
    "no initialiser at all": "struct Sum { double sum; int steps;",
    "base class": "struct Base { double sum; }; struct Sum : Base { int steps = 0;",
    "heap": "struct Sum { int steps = 0; double &sum; Sum() : sum(*new double) {}",
    "array of the heap": (
        "struct Sum { int steps = 0; double &sum; Sum() : sum((new double[9000])[8000]) {}"
    ),
    "memory of the heap that was used before": (
        "struct Sum { int steps = 0; double *used, &sum;"
        " Sum() : used(fresh()), sum(*new double) {}"
        " static double *fresh() { double *p = new double(0.0); delete p; return nullptr; }"
    ),
}
ON_GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc fills the heap")


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["plain", pytest.param("sanitize", marks=with_gcc)])
@pytest.mark.parametrize(
    "what", [pytest.param(w, marks=[ON_GLIBC] if "heap" in w else []) for w in WITHOUT]
)
def test_memory_that_no_constructor_sets_is_no_zero(what: str, kind: str, tmp_path: Path) -> None:
    path = sums(tmp_path, "double")
    text = f"{WITHOUT[what]} double step(double by) {{ steps++; return sum += by; }} }};\n"
    (tmp_path / "sum.hpp").write_text(text)
    running = SilController(path, kind=kind, cases=None).fresh()
    try:
        assert rows(running, [1.0])[0] < -1e300
    finally:
        running.close()


@pytest.mark.parametrize("given", ["{}", " = Sum()", " = {}"])
def test_an_object_with_empty_braces_begins_with_zeros(given: str, tmp_path: Path) -> None:
    """The author has asked for a value; ``Sum counter`` and ``Sum counter()`` ask for none."""
    path = sums(tmp_path, "double")
    (tmp_path / "sum.hpp").write_text(
        "struct Sum { double sum; double step(double by) { return sum += by; } };\n"
    )
    path.write_text(path.read_text().replace("Sum counter", f"Sum counter{given}"))
    running = SilController(path, cases=None).fresh()
    try:
        assert rows(running, [1.0]) == [1.0]
    finally:
        running.close()


def test_a_member_without_a_value_is_named_with_what_to_write(tmp_path: Path) -> None:
    def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
        s[0] += u[0]
        y[0] = s[0]

    design = PythonController(law, Signals("by"), Signals("total"), memory=Signals("sum"))
    translation = SilController(sums(tmp_path, "double"), cases=None)
    found = open_loop(design.fresh(), translation.fresh(), np.ones((3, 1)))
    assert not found.ok
    assert "a constructor of Sum counter leaves a member without a value" in found.in_words
    assert "give each member one, such as float sum = 0" in found.in_words


@pytest.mark.system("avr-gcc")
def test_five_sketches_and_libraries_agree_with_the_emulated_board() -> None:
    """Their clocks too: the regulator skips the same steps."""
    need("avr8js")
    t = np.arange(60)
    text = np.zeros((60, 5))
    text[5], text[20, 0] = list(b"s120\n"), ord("?")
    given = {
        "regulator": np.tile([10.0, 0.0], (300, 1)),
        "thermostat": np.linspace(0.67, 0.74, 60)[:, None],
        "button": (t // 7 % 2)[:, None].astype(float),
        "dimmer": np.linspace(0.0, 5.0, 60)[:, None],
        "console": text,
    }
    for name, inputs in given.items():
        interface = load_interface(EXAMPLES / f"{name}.toml")
        board = rows_of(BoardController(interface, cases=None), inputs)
        assert np.array_equal(board, rows_of(InProcess(interface.path), inputs)), name
        assert len(np.unique(board, axis=0)) > 1, name


WRAP = """
unsigned long last;
unsigned long now() { return digitalRead(3) ? millis() : micros(); }
void setup() { last = digitalRead(3); }
void loop() {
    unsigned long at = now();
    digitalWrite(8, digitalRead(2) && at - last < 1000UL);
    analogWrite(9, at >> 24);
    last = at;
}
"""
WRAP_TOML = """
name = "wrap"
arduino.start = %s
period = "1/20"
sources = ["wrap.ino"]
[inputs]
level = { pin = "D2", type = "bool" }
in_ms = { pin = "D3", type = "bool" }
[outputs]
near = { pin = "D8", type = "bool" }
top = { pin = "D9", type = "uint8" }
"""


def wrapping(folder: Path, start: str) -> Path:
    (folder / "wrap.ino").write_text(WRAP)
    path = folder / "wrap.toml"
    path.write_text(WRAP_TOML % start)
    return path


CLOCKS = [("micros", "4294.5"), ("millis", "4294966.8")]
"""A clock, and a start 0.47 s or 0.5 s before its wrap-around, s."""


@pytest.mark.system("avr-gcc")
@pytest.mark.parametrize(("call", "start"), CLOCKS)
def test_a_clock_that_begins_shortly_before_its_wrap_around_passes_it_on_a_board(
    call: str, start: str, tmp_path: Path
) -> None:
    """A difference of times is right there in 32 bits; it is below 1000 ms, not below 1000 us."""
    need("avr8js")
    interface = load_interface(wrapping(tmp_path, start))
    inputs = np.tile([1.0, float(call == "millis")], (14, 1))
    near, top = rows_of(BoardController(interface, cases=None), inputs).T.tolist()
    assert top[0] == 255.0
    assert top[-1] == 0.0
    assert top == sorted(top, reverse=True)
    assert set(near[1:]) == {float(call == "millis")}


def exchange(running: SilController | InProcess, ns: int, call: str) -> None:
    tag = Tag(ns)
    running.send(tag, np.array([1.0, float(call == "millis")]))
    assert running.receive(tag, 10.0) is not None


@pytest.fixture(scope="module")
def wrapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One build for all clocks and kinds: a build of Arduino code compiles for seconds."""
    return wrapping(tmp_path_factory.mktemp("wrap"), CLOCKS[0][1])


@pytest.mark.sample(1)
@pytest.mark.parametrize(("call", "start"), CLOCKS)
@pytest.mark.parametrize("kind", [SilController, InProcess])
def test_a_clock_beyond_its_wrap_around_is_an_error_on_a_host_of_64_bits(
    kind: type[SilController] | type[InProcess], call: str, start: str, wrapped: Path,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The clock begins at the start of micros; the run begins later by what millis starts later."""
    monkeypatch.chdir(tmp_path)  # a step that fails is saved here
    if struct.calcsize("l") == 4:
        pytest.skip("unsigned long has 32 bits here, as on a board")
    later = round(1e9 * (float(start) - float(CLOCKS[0][1])))
    running = kind(wrapped).fresh()
    try:
        for k in range(5):
            exchange(running, later + k * 50_000_000, call)
        with pytest.raises(ControllerError, match=rf"{call}\(\) is beyond .*on an emulated board"):
            exchange(running, later + 600_000_000, call)
    finally:
        running.close()


def test_a_start_before_which_no_clock_can_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InterfaceError, match="start = -1 is not valid; write a time in s"):
        load_interface(wrapping(tmp_path, "-1"))
    path = wrapping(tmp_path, "0")
    path.write_text(path.read_text().replace("start = 0", "setup = 4294"))
    with pytest.raises(InterfaceError, match=r"write start = 4294\.9.*from 0 to 4000"):
        load_interface(path)


@pytest.mark.long
def test_a_library_source_finds_arduino_defined_before_its_first_include(tmp_path: Path) -> None:
    """As PID_v1 does: without the macro it would include WProgram.h."""
    (tmp_path / "lib.h").write_text("int lib_step(int x);\n")
    (tmp_path / "lib.cpp").write_text(
        '#if ARDUINO >= 100\n#include "Arduino.h"\n#else\n#include "WProgram.h"\n#endif\n'
        '#include "lib.h"\nint lib_step(int x) { return x + (int)(millis() & 0); }\n'
    )
    path = tmp_path / "lib.toml"
    path.write_text(
        'name = "lib"\narduino = true\nperiod = "1/10"\nsources = ["lib.cpp"]\n'
        'headers = ["lib.h"]\n[code]\nstep = "y = lib_step(x)"\n'
        '[inputs]\nx = { type = "int16" }\n[outputs]\ny = { type = "int32" }\n'
    )
    assert rows_of(InProcess(path), np.array([[3.0]])).tolist() == [[3.0]]


def test_a_sketch_cannot_be_initialised_again() -> None:
    interface = load_interface(EXAMPLES / "button.toml")
    assert not interface.restarts
    assert replace(interface, sources=()).restarts
